"""Chapter 22's checkers: answers that real learners give, each diagnosed by name."""

import json
import struct

import numpy as np
import pytest
import torch
from judging import judges
from safetensors.torch import load, save

from transformer_lib.checks.chapter22 import check

pytestmark = pytest.mark.slow

verdict, passes, is_told = judges(check)


# ------------------------------------------------------------------------------------ read_tensor

TYPES = {"F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def by_the_library(data, name):
    return load(bytes(data))[name]


def by_struct(data, name):
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length].decode())[name]
    begin, end = entry["data_offsets"]
    letter, size = {"F16": ("e", 2), "F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8)}[
        entry["dtype"]
    ]
    numbers = struct.unpack(f"<{(end - begin) // size}{letter}", data[8 + length :][begin:end])
    return torch.tensor(numbers, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])


def by_numpy(data, name):
    length = int(np.frombuffer(data[:8], dtype="<u8")[0])
    entry = json.loads(data[8 : 8 + length])[name]
    kind = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8"}[entry["dtype"]]
    raw = data[8 + length + entry["data_offsets"][0] : 8 + length + entry["data_offsets"][1]]
    return torch.from_numpy(np.frombuffer(raw, dtype=kind).reshape(entry["shape"]).copy())


@pytest.mark.parametrize("function", [by_the_library, by_struct, by_numpy])
def test_a_right_reader_passes(capsys, function):
    passes(capsys, function, "read_tensor")


def test_the_cases_are_what_safetensors_writes():
    tensors = {"a.b": torch.randn(3, 5).half(), "ids": torch.arange(7)}
    for name, tensor in tensors.items():
        assert torch.equal(by_struct(save(tensors, metadata={"format": "pt"}), name), tensor)


def read(start=lambda length: 8 + length, stop=lambda begin, end: end, kind=TYPES.get, flat=False):
    def function(data, name):
        length = int.from_bytes(data[:8], byteorder="little")
        entry = json.loads(data[8 : length + 8])[name]
        begin, end = entry["data_offsets"]
        place = start(length)
        raw = bytearray(data[place + begin : place + stop(begin, end)])
        out = torch.frombuffer(raw, dtype=kind(entry["dtype"]))
        return out if flat else out.reshape(entry["shape"])

    return function


def largest_byte_first(data, name):
    length = int.from_bytes(data[:8], "big")
    return json.loads(data[8 : 8 + length])[name]


def one_byte_of_length(data, name):
    length = int(data[0])
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = entry["data_offsets"]
    raw = bytearray(data[8 + length + begin : 8 + length + end])
    return torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])


def length_in_the_json(data, name):
    return json.loads(data[: int.from_bytes(data[:8], "little")])[name]


def every_tensor(data, name):
    return load(bytes(data))


def in_turn(data, name):
    """As many bytes as the header's tensors before it have."""
    length = int.from_bytes(data[:8], "little")
    place = 8 + length
    for each, entry in json.loads(data[8:place]).items():
        if each != "__metadata__":
            size = entry["data_offsets"][1] - entry["data_offsets"][0]
            if each == name:
                raw = bytearray(data[place : place + size])
                return torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).view(entry["shape"])
            place += size


def transposed(data, name):
    found = by_struct(data, name)
    return found.T if found.dim() == 2 else found


def end_as_count(data, name):
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = entry["data_offsets"]
    kind = TYPES[entry["dtype"]]
    flat = torch.frombuffer(bytearray(data), dtype=kind, count=end, offset=8 + length + begin)
    return flat.reshape(entry["shape"])


def short_header(data, name):
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8:length].decode())[name]


def as_many_bytes(data, name):
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])[name]
    begin = 8 + length + entry["data_offsets"][0]
    raw = bytearray(data[begin : begin + int(np.prod(entry["shape"]))])
    return torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).view(entry["shape"])


def no_length(decoded):
    def function(data, name):
        header = data[8:].decode() if decoded else data[8:]
        return json.loads(header)[name]

    return function


def end_from_the_start(data, name):
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = entry["data_offsets"]
    raw = bytearray(data[8 + length + begin : end])
    return torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).view(entry["shape"])


def with_offset(count):
    def function(data, name):
        length = int.from_bytes(data[:8], "little")
        entry = json.loads(data[8 : 8 + length])[name]
        begin, end = entry["data_offsets"]
        more = {"count": end - begin} if count else {}
        flat = torch.frombuffer(
            bytearray(data), dtype=TYPES[entry["dtype"]], offset=8 + length + begin, **more
        )
        return flat.view(entry["shape"])

    return function


READERS = {
    "counted from the start of the file": read(start=lambda length: 0),
    "the eight bytes of the length are forgotten": read(start=lambda length: length),
    "the length of the header is forgotten": read(start=lambda length: 8),
    "the largest byte first": largest_byte_first,
    "only one byte of the length": one_byte_of_length,
    "as part of the JSON": length_in_the_json,
    "bytes are missing": read(stop=lambda begin, end: end - 1),
    "taken as a length": read(stop=lambda begin, end: begin + end),
    "up to the end of the file": read(stop=lambda begin, end: 10**6),
    "in the order of the header": in_turn,
    "read as numbers of one type": read(kind=lambda said: torch.float16),
    "one long row": read(flat=True),
    "the matrix is transposed": transposed,
    "all tensors are returned": every_tensor,
    "taken for how many numbers": end_as_count,
    "the header ends too early": short_header,
    "as many bytes are read as there are numbers": as_many_bytes,
    "read with four bytes each": read(kind=(TYPES | {"I64": torch.int32}).get),
    "a type is taken for another one": read(kind=(TYPES | {"F16": torch.bfloat16}).get),
    "its length is not used": no_length(decoded=False),
    "the header is read up to the end of the file": no_length(decoded=True),
    "the end is counted from the start of the file": end_from_the_start,
    "`end - begin` is taken for how many": with_offset(count=True),
    "the numbers are taken up to the end of the file": with_offset(count=False),
    "turned into float32": lambda data, name: by_struct(data, name).float(),
}


@pytest.mark.parametrize("what", READERS)
def test_a_wrong_reader_is_named(capsys, what):
    is_told(capsys, READERS[what], "read_tensor", what)


# -------------------------------------------------------------------------------------- own_names

LINES = {
    "ln_1": "norms.0", "ln_2": "norms.1", "attn.c_proj": "attention.output",
    "mlp.c_fc": "feed_forward.widen", "mlp.c_proj": "feed_forward.narrow",
}  # fmt: skip


def by_splitting(name):
    pieces = name.split(".")
    if pieces[0] == "transformer":
        pieces = pieces[1:]
    if pieces[0] == "h":
        where, part = f"stack.layers.{int(pieces[1])}", ".".join(pieces[2:-1])
        if part == "attn.c_attn":
            return [f"{where}.attention.{x}.{pieces[-1]}" for x in ("query", "key", "value")]
        return [f"{where}.{LINES[part]}.{pieces[-1]}"]
    first = {"wte": "embedding", "wpe": "places", "ln_f": "stack.norm"}[pieces[0]]
    return [f"{first}.{pieces[-1]}"]


def by_replacing(name, table=LINES, three=("query", "key", "value"), prefix="transformer."):
    name = name.replace(prefix, "")
    for theirs, ours in table.items():
        name = name.replace(theirs, ours)
    for theirs, ours in {"h.": "stack.layers.", "wte": "embedding", "wpe": "places"}.items():
        name = name.replace(theirs, ours)
    name = name.replace("ln_f", "stack.norm")
    if "c_attn" not in name:
        return [name]
    return [name.replace("attn.c_attn", f"attention.{part}") for part in three]


@pytest.mark.parametrize("function", [by_splitting, by_replacing])
def test_right_names_pass(capsys, function):
    passes(capsys, lambda name: function(name), "own_names")


def test_the_names_are_those_of_mine(capsys):
    """As chapter 22 loads them: NAMES in order, then three in one."""
    own = by_splitting("transformer.h.11.attn.c_attn.bias")
    assert own[0] == "stack.layers.11.attention.query.bias"


def first_digit(name):
    return [each.replace(".11.", ".1.").replace(".10.", ".1.") for each in by_splitting(name)]


def from_one(name):
    return [
        ".".join(str(int(p) + 1) if i == 2 and p.isdigit() else p
                 for i, p in enumerate(each.split(".")))
        for each in by_splitting(name)
    ]  # fmt: skip


def always_cut(name):
    return by_replacing(name[12:])


SWAPPED = LINES | {"ln_1": "norms.1", "ln_2": "norms.0"}
ONE_C_PROJ = {"ln_1": "norms.0", "ln_2": "norms.1", "attn.c_proj": "attention.output",
              "mlp.c_fc": "feed_forward.widen", "mlp.c_proj": "attention.output"}  # fmt: skip


def by_places(name):
    """The layer's number is the third character, and its part begins at the fifth."""
    name = name.removeprefix("transformer.")
    if name[0] != "h":
        return by_splitting(name)
    end = name[4:]
    for theirs, ours in LINES.items():
        end = end.replace(theirs, ours)
    own = [end.replace("attn.c_attn", f"attention.{part}") for part in ("query", "key", "value")]
    return [f"stack.layers.{name[2]}.{each}" for each in (own if "c_attn" in end else own[:1])]


NAMERS = {
    "the prefix `transformer.` stays": lambda name: by_replacing(name, prefix="nothing"),
    "the first twelve letters": always_cut,
    "only the first digit": first_digit,
    "counted from 1": from_one,
    "the two norms of a layer are swapped": lambda name: by_replacing(name, SWAPPED),
    "becomes the output of attention": lambda name: by_replacing(name, ONE_C_PROJ),
    "come in another order": lambda name: by_replacing(name, three=("key", "query", "value")),
    "the layer is lost from the three names": lambda name: [
        each.partition("layers.")[2].split(".", 1)[1] if "c_attn" in name else each
        for each in by_splitting(name)
    ],
    "`c_attn` gives one name": lambda name: by_splitting(name)[:1],
    "returned bare": lambda name: by_splitting(name) if "c_attn" in name else by_splitting(name)[0],
    "is lost": lambda name: [each.rpartition(".")[0] for each in by_splitting(name)],
    "every name ends in `.weight`": lambda name: [
        each.replace(".bias", ".weight") for each in by_splitting(name)
    ],
    "widen and narrow are swapped": lambda name: [
        each.replace("widen", "x").replace("narrow", "widen").replace("x", "narrow")
        for each in by_splitting(name)
    ],
    "the layers are not in the stack": lambda name: [
        each.replace("stack.layers", "layers") for each in by_splitting(name)
    ],
}


@pytest.mark.parametrize(
    ("function", "what"),
    [
        # Tables and the last norm are right already, and only the layers are wrong.
        (lambda name: by_splitting(name) if "h." not in name or "c_attn" in name
         else by_splitting(name)[0], "returned bare"),
        (lambda name: by_splitting(name.replace("bias", "weight") if "h." in name else name),
         "every name ends in `.weight`"),
        (lambda name: by_splitting(name.replace("c_attn.bias", "c_attn.weight")),
         "every name ends in `.weight`"),
        (by_places, "only the first digit"),
        (lambda name: by_splitting(name) if name.startswith("transformer.") else [name],
         "a name without the prefix is returned as it is"),
        (lambda name: by_replacing(name.partition(".")[2]), "the first twelve letters"),
        (lambda name: by_splitting("transformer." + name.split(".", 1)[1]),
         "the first twelve letters"),
    ],
)  # fmt: skip
def test_wrong_names_in_the_layers_alone_are_named(capsys, function, what):
    is_told(capsys, function, "own_names", what)


@pytest.mark.parametrize("what", NAMERS)
def test_wrong_names_are_named(capsys, what):
    is_told(capsys, NAMERS[what], "own_names", what)


# ----------------------------------------------------------------------------------------- parity

NOTHING = float("inf")


def in_loops(yours, theirs, real):
    if yours.shape != theirs.shape:
        return NOTHING
    largest = 0.0
    for row in range(real.shape[0]):
        for place in range(real.shape[1]):
            if not real[row, place]:
                continue
            for one, other in zip(yours[row, place], theirs[row, place], strict=True):
                difference = abs(one.item() - other.item())
                if not difference < NOTHING:
                    return NOTHING
                largest = max(largest, difference)
    return largest


def by_filling(yours, theirs, real):
    if yours.size() != theirs.size():
        return NOTHING
    difference = (yours - theirs).abs().masked_fill(~real[..., None], 0.0)
    largest = difference.max()
    return largest.item() if largest.isfinite() else NOTHING


def by_numpy_max(yours, theirs, real):
    if tuple(yours.shape) != tuple(theirs.shape):
        return np.inf
    kept = real.numpy()
    with np.errstate(invalid="ignore"):
        found = np.abs(yours.numpy()[kept] - theirs.numpy()[kept])
    return np.max(found) if np.isfinite(found).all() else np.inf


@pytest.mark.parametrize("function", [in_loops, by_filling, by_numpy_max])
def test_a_right_number_passes(capsys, function):
    passes(capsys, function, "parity")


def number(of, shapes=True, finite=True, keep=True):
    def function(yours, theirs, real):
        if shapes and yours.shape != theirs.shape:
            return NOTHING
        difference = yours - theirs
        if keep:
            difference = difference[real]
        if finite and not difference.isfinite().all():
            return NOTHING
        return of(difference)

    return function


def searched(of, which):
    """Only one of the two tensors is searched."""

    def function(yours, theirs, real):
        if yours.shape != theirs.shape or not (yours, theirs)[which][real].isfinite().all():
            return NOTHING
        return of((yours - theirs)[real])

    return function


def refuses(yours, theirs, real):
    if yours.shape != theirs.shape:
        raise ValueError("the shapes differ")
    return number(largest)(yours, theirs, real)


def largest(difference):
    return difference.abs().max().item()


NUMBERS = {
    "padding is not left out": number(largest, keep=False),
    "the mean is taken": number(lambda d: d.abs().mean().item()),
    "squared and averaged": number(lambda d: (d**2).mean().item()),
    "added up": number(lambda d: d.abs().sum().item()),
    "a logit that is too small is not seen": number(lambda d: d.max().item()),
    "a logit that is too large is not seen": number(lambda d: d.min().item()),
    "a NaN is passed on": number(largest, finite=False),
    "the shapes are not compared": lambda yours, theirs, real: number(
        largest, shapes=False
    )(yours.expand_as(theirs), theirs, real),
    "it says yes or no": lambda yours, theirs, real: yours.shape == theirs.shape
    and torch.allclose(yours[real], theirs[real], atol=1e-4),
    "probabilities are compared": lambda yours, theirs, real: number(largest)(
        yours.softmax(-1), theirs.softmax(-1) if yours.shape == theirs.shape else theirs, real
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS)
def test_a_wrong_number_is_named(capsys, what):
    is_told(capsys, NUMBERS[what], "parity", what)


def as_agreement(agrees, keep=True, unproved="all"):
    def function(yours, theirs, real):
        if unproved != "nothing" and yours.shape != theirs.shape:
            return NOTHING
        if unproved == "all" and not (yours - theirs)[real].isfinite().all():
            return NOTHING
        return agrees(yours[real], theirs[real]) if keep else agrees(yours, theirs)

    return function


def with_padding_left(pick):
    """The same numbers are tested and measured."""

    def function(yours, theirs, real):
        if yours.shape != theirs.shape:
            return NOTHING
        difference = pick((yours - theirs).abs(), real)
        return difference.max().item() if difference.isfinite().all() else NOTHING

    return function


def shapes_by(part):
    def function(yours, theirs, real):
        if part(yours) != part(theirs):
            return NOTHING
        difference = (yours - theirs)[real]
        return largest(difference) if difference.isfinite().all() else NOTHING

    return function


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (as_agreement(torch.allclose), "it says yes or no"),
        (as_agreement(torch.allclose, keep=False), "it says yes or no"),
        (as_agreement(torch.equal), "it says yes or no"),
        (as_agreement(lambda y, t: torch.allclose(y, t, atol=1e-4)), "it says yes or no"),
        (as_agreement(torch.allclose, unproved="shapes"), "it says yes or no"),
        (as_agreement(torch.allclose, unproved="nothing"), "it says yes or no"),
        (as_agreement(torch.equal, keep=False, unproved="nothing"), "it says yes or no"),
        (number(lambda d: max(abs(v) for v in d.flatten().tolist()), finite=False),
         "a NaN is passed on or passed over"),
        (with_padding_left(lambda d, real: d[~real]), "the real places are left out"),
        (with_padding_left(lambda d, real: d.masked_fill(real[..., None], 0)),
         "the real places are left out"),
        (shapes_by(len), "only a part of the shapes"),
        (shapes_by(lambda x: x.shape[:2]), "only a part of the shapes"),
        (shapes_by(lambda x: x.shape[-1]), "only a part of the shapes"),
    ],
)  # fmt: skip
def test_wrong_numbers_of_a_second_look_are_named(capsys, function, what):
    is_told(capsys, lambda *given: function(*given), "parity", what)
    _, said = verdict(capsys, lambda *given: function(*given), "parity")
    assert "something else goes wrong" not in said


def only_nan(yours, theirs, real):
    if yours.shape != theirs.shape:
        return NOTHING
    yours, theirs = yours[real], theirs[real]
    if yours.isnan().any() or theirs.isnan().any():
        return NOTHING
    return largest(yours - theirs)


@pytest.mark.parametrize("row", [0, 1])
def test_the_padding_of_one_text_for_all_is_named(capsys, row):
    def function(yours, theirs, real):
        if yours.shape != theirs.shape:
            return NOTHING
        difference = (yours - theirs)[:, real[row if len(real) > 1 else 0]]
        return largest(difference) if difference.isfinite().all() else NOTHING

    is_told(capsys, function, "parity", "the padding of one text is taken for that of all")


def test_infinity_that_is_not_looked_for_is_named(capsys):
    is_told(capsys, only_nan, "parity", "infinity less infinity is NaN")


@pytest.mark.parametrize("which", [0, 1])
def test_one_tensor_that_is_not_searched_is_named(capsys, which):
    is_told(capsys, searched(largest, which), "parity", "only one of the two tensors is searched")


def test_an_error_raised_on_purpose_is_named(capsys):
    is_told(capsys, refuses, "parity", "an error is raised on purpose, and the exercise asks for")


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_a_number_in_a_tensor_is_told(capsys, kind):
    function = number(lambda difference: kind(largest(difference)))
    is_told(capsys, function, "parity", "a plain number is asked for, such as `.item()` gives")


def test_another_number_fails_without_a_guess(capsys):
    result, said = verdict(capsys, lambda yours, theirs, real: 0.125, "parity")
    assert not result
    assert "That is what happens" not in said
