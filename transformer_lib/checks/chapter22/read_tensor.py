"""The exercise `read_tensor`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_TYPES = {"F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I64": torch.int64}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


def _file(tensors: dict[str, Tensor], listed: list[str], pad: int = 0) -> bytes:
    """A file with the tensors' bytes in their order, and the header in another."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    places, numbers = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        places[name] = [len(numbers), len(numbers) + len(raw)]
        numbers += raw
    for name in listed:
        entries[name] = {
            "dtype": _NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": places[name],
        }
    header = json.dumps(entries).encode() + b" " * pad
    return len(header).to_bytes(8, "little") + header + numbers


def _first(length: int) -> int:
    return 8 + length


def _read(
    data: bytes,
    name: str,
    *,
    numbers: Callable[[int], int] = _first,
    span: Callable[[int, int], tuple[int, int]] = lambda begin, end: (begin, end),
    dtype: Callable[[str], torch.dtype] = lambda said: _TYPES[said],
    shape: Callable[[Tensor, list[int]], Tensor] = lambda flat, shape: flat.view(shape),
    order: str = "little",
) -> Tensor:
    """Read one tensor, with parts that a mistake replaces."""
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = span(*entry["data_offsets"])
    start = numbers(length)
    raw = bytearray(data[start + begin : start + end])
    kind = dtype(entry["dtype"])
    if order == "big":
        size = torch.empty((), dtype=kind).element_size()
        for i in range(0, len(raw), size):
            raw[i : i + size] = raw[i : i + size][::-1]
    return shape(torch.frombuffer(raw, dtype=kind), entry["shape"])


def _read_tensor(data: bytes, name: str) -> Tensor:
    return _read(data, name)


def _wrong(**parts: Any) -> Callable[[bytes, str], Tensor]:
    return lambda data, name: _read(data, name, **parts)


def _big_header(data: bytes, name: str) -> Tensor:
    length = int.from_bytes(data[:8], "big")
    json.loads(data[8 : 8 + length])
    return torch.zeros(())


def _one_byte(data: bytes, name: str) -> Tensor:
    """Only the first byte of the length: right while the header is short."""
    length = data[0]
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = (8 + length + place for place in entry["data_offsets"])
    return torch.frombuffer(bytearray(data[begin:end]), dtype=_TYPES[entry["dtype"]]).view(
        entry["shape"]
    )


def _whole_header(data: bytes, name: str) -> Tensor:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[:length])[name]


def _in_header_order(data: bytes, name: str) -> Tensor:
    """Counts up the sizes of the tensors in the order of the header."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    place = 8 + length
    for each, entry in header.items():
        if each == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if each == name:
            raw = bytearray(data[place : place + end - begin])
            return torch.frombuffer(raw, dtype=_TYPES[entry["dtype"]]).view(entry["shape"])
        place += end - begin
    raise KeyError(name)


def _first_of_all(data: bytes, name: str) -> Tensor:
    """The first bytes of the numbers, whatever the name."""
    return _read(data, name, span=lambda begin, end: (0, end - begin))


def _as_float32(data: bytes, name: str) -> Tensor:
    return _read(data, name).float()


def _all(data: bytes, name: str) -> dict[str, Tensor]:
    length = int.from_bytes(data[:8], "little")
    names = [each for each in json.loads(data[8 : 8 + length]) if each != "__metadata__"]
    return {each: _read(data, each) for each in names}


def _four_bytes(said: str) -> torch.dtype:
    return torch.int32 if said == "I64" else _TYPES[said]


def _sized(data: bytes, name: str) -> Tensor:
    length = int.from_bytes(data[:8], "little")
    said = json.loads(data[8 : 8 + length])[name]["dtype"]
    size = torch.empty((), dtype=_TYPES[said]).element_size()
    return _read(data, name, span=lambda begin, end: (begin * size, end * size))


def _four_of_length(data: bytes, name: str) -> Tensor:
    length = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + length])[name]


def _short_header(data: bytes, name: str) -> Tensor:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8:length])[name]


def _one_byte_each(data: bytes, name: str) -> Tensor:
    length = int.from_bytes(data[:8], "little")
    count = math.prod(json.loads(data[8 : 8 + length])[name]["shape"])
    return _read(data, name, span=lambda begin, end: (begin, begin + count))


def _end_unmoved(data: bytes, name: str) -> Tensor:
    start = 8 + int.from_bytes(data[:8], "little")
    return _read(data, name, span=lambda begin, end: (begin, end - start))


def _from_the_buffer(data: bytes, name: str, count: Callable[[int, int], int]) -> Tensor:
    """`torch.frombuffer` looks for the tensor in the whole file."""
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = entry["data_offsets"]
    kind, place = _TYPES[entry["dtype"]], 8 + length + begin
    flat = torch.frombuffer(bytearray(data), dtype=kind, count=count(begin, end), offset=place)
    return flat.view(entry["shape"])


def _counted(count: Callable[[int, int], int]) -> Callable[[bytes, str], Tensor]:
    return lambda data, name: _from_the_buffer(data, name, count)


def _as_many(flat: Tensor, shape: list[int]) -> Tensor:
    return flat[: math.prod(shape)].view(shape)


def _transposed(flat: Tensor, shape: list[int]) -> Tensor:
    out = flat.view(shape)
    return out.T if out.dim() == 2 else out


_SHORT = {"b": torch.tensor([1.0, -2.0])}
_TWO = {"w": random_tensor(2, 3), "b": random_tensor(3, seed=1)}
_FOUR = {
    "h.0.w": random_tensor(3, 5).half(),
    "ids": torch.arange(7) ** 3,
    "h.1.w": random_tensor(2, 3, 4, seed=2).double(),
    "ln.b": random_tensor(5, seed=3),
}
_MIXED = ["ln.b", "h.1.w", "h.0.w", "ids"]

READ_TENSOR = Exercise(
    name="read_tensor",
    reference=_read_tensor,
    cases=[
        Case("one tensor of two numbers", _file(_SHORT, ["b"]), "b"),
        Case("a matrix, the first of two tensors", _file(_TWO, ["w", "b"]), "w"),
        Case("a bias behind a matrix", _file(_TWO, ["w", "b"]), "b"),
        Case("float16, in a header with spaces behind it", _file(_FOUR, _MIXED, 5), "h.0.w"),
        Case("whole numbers, last in the header", _file(_FOUR, _MIXED, 5), "ids"),
        Case("float64, three axes", _file(_FOUR, _MIXED, 5), "h.1.w"),
        Case("first in the header, last in the numbers", _file(_FOUR, _MIXED), "ln.b"),
    ],
    mistakes={
        "the bytes are counted from the start of the file: `data_offsets` count from the end of "
        "the header": [
            _wrong(numbers=lambda length: 0),
        ],
        "the eight bytes of the length are forgotten: the numbers begin behind them and the "
        "header": [_wrong(numbers=lambda length: length)],
        "the length of the header is forgotten: its end is where the numbers begin": [
            _wrong(numbers=lambda length: 8),
        ],
        "the header is read up to the end of the file: its length is not used, or it is read with "
        "the largest byte first": [_big_header],
        "only one byte of the length is read, and a header is longer than 255 bytes": _one_byte,
        "the eight bytes of the length are read as part of the JSON": _whole_header,
        "the end is left out: up to it, or one number short, bytes are missing": [
            _wrong(span=lambda begin, end: (begin, end - 1)),
            _wrong(span=lambda begin, end: (begin, end - 4)),
        ],
        "the second number of `data_offsets` is taken as a length: it is where the tensor ends": [
            _wrong(span=lambda begin, end: (begin, begin + end)),
        ],
        "the second number of `data_offsets` is taken for how many numbers there are: it is the "
        "byte where the tensor ends": _counted(lambda begin, end: end),
        "`end - begin` is taken for how many numbers there are: it says how many bytes they "
        "take": _counted(lambda begin, end: end - begin),
        "the end is counted from the start of the file, and the begin from the end of the header: "
        "both are counted from there": _end_unmoved,
        "`data_offsets` are multiplied by the size of a number: they count bytes already": [
            _sized,
        ],
        "as many bytes are read as there are numbers: each has two, four or eight": [
            _one_byte_each
        ],
        "the header ends too early: it begins behind the first eight bytes, so it ends at 8 + its "
        "length": [_short_header],
        "four bytes are read as the length: it has eight": [_four_of_length],
        "the numbers are taken up to the end of the file": [
            _wrong(span=lambda begin, end: (begin, 10**9)),
            _counted(lambda begin, end: -1),
        ],
        "the tensors are taken to lie in the order of the header: `data_offsets` say where they "
        "lie": _in_header_order,
        "the first numbers of the file are taken, whatever the name: `data_offsets` say where to "
        "begin": _first_of_all,
        "all bytes are read as numbers of one type: the header says which type they have": [
            _wrong(dtype=lambda said, kind=kind: kind) for kind in _NAMES
        ],
        "a type is taken for another one of as many bytes": [
            _wrong(dtype=lambda said: torch.bfloat16 if said == "F16" else _TYPES[said]),
            _wrong(dtype=lambda said: torch.float64 if said == "I64" else _TYPES[said]),
            _wrong(dtype=lambda said: torch.int64 if said == "F64" else _TYPES[said]),
        ],
        "whole numbers are read with four bytes each: I64 has eight": [
            _wrong(dtype=_four_bytes, shape=_as_many),
            _wrong(dtype=_four_bytes),
        ],
        "the result is turned into float32: it must keep the type of the file": _as_float32,
        "the shape is not applied: the result is one long row": [
            _wrong(shape=lambda flat, shape: flat),
        ],
        "the shape is applied from the back": [
            _wrong(shape=lambda flat, shape: flat.view(shape[::-1])),
        ],
        "the matrix is transposed: that is for the loading to decide, not for the reading": [
            _wrong(shape=_transposed),
        ],
        "each number's bytes are read with the largest first": _wrong(order="big"),
        "all tensors are returned: it is asked for one": _all,
    },
    section="Can you read the file without any library?",
    keeps=("dtype",),
)
