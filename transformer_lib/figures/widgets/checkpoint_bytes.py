"""CheckpointBytes: a safetensors file, byte by byte (chapter 22)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import traitlets

from .base import LiveFigure, Number, Numbers, compose, dress

if TYPE_CHECKING:
    from torch import Tensor

TYPES = {"F32": (4, 8, 23), "F16": (2, 5, 10), "BF16": (2, 8, 7)}
"""Bytes, bits of the exponent and bits of the fraction of each type."""
COLUMNS = 16


def the_same_three() -> dict[str, Tensor]:
    """Return pi, 0.1 and -2 in three types."""
    import torch

    numbers = [torch.pi, 0.1, -2.0]
    return {
        "wide": torch.tensor(numbers),
        "half": torch.tensor(numbers, dtype=torch.float16),
        "brain": torch.tensor(numbers, dtype=torch.bfloat16),
    }


def decode(raw: bytes, dtype: str) -> float:
    r"""Return the number that a float's bytes stand for, the highest byte first.

    With sign :math:`s`, exponent :math:`e` of :math:`E` bits and fraction :math:`f` of :math:`F`
    bits:

    .. math::  (-1)^s \cdot 2^{e - b} \cdot (1 + f / 2^F), \quad b = 2^{E - 1} - 1

    If the exponent's bits are all 0, the number is :math:`2^{1 - b} \cdot f / 2^F`. If they're all
    1, it's infinity for :math:`f = 0`, or else not a number.

    >>> decode(bytes([0x40, 0x49, 0x0F, 0xDB]), "F32")
    3.1415927410125732
    """
    _, exponent_bits, fraction_bits = TYPES[dtype]
    bits = int.from_bytes(raw, "big")
    fraction = (bits & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    exponent = bits >> fraction_bits & (1 << exponent_bits) - 1
    sign = -1.0 if bits >> exponent_bits + fraction_bits else 1.0
    bias = (1 << exponent_bits - 1) - 1
    if exponent == (1 << exponent_bits) - 1:
        return sign * float("nan" if fraction else "inf")
    if exponent == 0:
        return sign * 2.0 ** (1 - bias) * fraction
    return sign * 2.0 ** (exponent - bias) * (1 + fraction)


class CheckpointBytes(LiveFigure):
    """A small safetensors file, byte by byte: length of the header, header, numbers.

    The reader picks a number and sees which bytes it has, and what their bits mean. The figure can
    make two mistakes: read a number's bytes in the wrong order, and count the header's offsets
    from the start of the file.

    Args:
        tensors: float32, float16 or bfloat16 tensors by name, with 1 to 16 numbers in all. The
            file must not have more than 320 bytes.
        number: the number to read, from 0, in the order of the file.
        from_back: whether a number's first byte is the lowest, as in the format.
        after_header: whether offsets count from the end of the header, as in the format.

    Raises:
        TypeError: something that isn't a tensor, or has another dtype.
        ValueError: too few or too many numbers, too long a file, or `number` out of range.

    Source:
        Hugging Face, *safetensors*, the section "Format" of its README.

    >>> figure = CheckpointBytes()
    >>> figure
    CheckpointBytes(number=0, from_back=True, after_header=True)
    >>> figure.read()
    3.1415927410125732
    >>> figure.from_back = False
    >>> figure.read()
    -4.03314608963584e+16
    """

    _esm = compose("checkpoint_bytes.js")
    _css = dress("checkpoint_bytes.css")
    shown = ("number", "from_back", "after_header")

    file = Numbers([], low=0, high=255)
    number = Number(0, low=0, high=15, whole=True)
    from_back = traitlets.Bool(True).tag(sync=True)
    after_header = traitlets.Bool(True).tag(sync=True)

    def __init__(self, tensors: dict[str, Tensor] | None = None, **state: Any) -> None:
        import torch
        from safetensors.torch import save

        if "file" in state:
            raise TypeError("file can't be given: it is made from tensors")
        tensors = the_same_three() if tensors is None else tensors
        allowed = (torch.float32, torch.float16, torch.bfloat16)
        for name, tensor in tensors.items():
            if not isinstance(tensor, torch.Tensor) or tensor.dtype not in allowed:
                got = getattr(tensor, "dtype", type(tensor).__name__)
                raise TypeError(
                    f"tensors[{name!r}] must be a float32, float16 or bfloat16 tensor; got {got}"
                )
        count = sum(tensor.numel() for tensor in tensors.values())
        if not 1 <= count <= 16:
            raise ValueError(f"tensors must have 1 to 16 numbers in all; got {count}")
        file = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        if len(file) > 320:
            raise ValueError(f"tensors must fit in a file of 320 bytes; got {len(file)}")
        super().__init__(file=list(file), **state)
        if self.number >= count:
            raise ValueError(f"number must be from 0 to {count - 1}; got {self.number}")

    def header_end(self) -> int:
        """Return the number of bytes before the first number."""
        return 8 + int.from_bytes(bytes(map(int, self.file[:8])), "little")

    def numbers(self) -> list[tuple[str, str, int]]:
        """Return each number's name with index, type, and offset, from the header."""
        header = json.loads(bytes(map(int, self.file[8 : self.header_end()])))
        found = []
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            size = TYPES[entry["dtype"]][0]
            for at in range(begin, end, size):
                place, indices = (at - begin) // size, []
                for length in reversed(entry["shape"]):
                    place, index = divmod(place, length)
                    indices.insert(0, index)
                where = f"[{', '.join(map(str, indices))}]" if indices else ""
                found.append((name + where, entry["dtype"], at))
        return found

    def taken(self) -> range:
        """Return the positions in the file of the bytes to read."""
        _, dtype, begin = self.numbers()[self.number]
        begin += self.header_end() if self.after_header else 0
        return range(begin, begin + TYPES[dtype][0])

    def read(self) -> float:
        """Return the number read from these bytes, in the chosen order."""
        raw = bytes(int(self.file[i]) for i in self.taken())
        return decode(raw[::-1] if self.from_back else raw, self.numbers()[self.number][1])
