"""Checkers for chapter 22, *Other people's weights*."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.inputs import normal

__all__ = ["check"]

# ----------------------------------------------------------------------------------- read_tensor

TYPES = {"F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "I64": torch.int64}
Span = tuple[int, int]


def file(tensors: Mapping[str, Tensor], listed: Sequence[str], **more: Any) -> bytes:
    """The tensors' bytes in their order, after a header that lists them in another."""
    named = {dtype: name for name, dtype in TYPES.items()}
    spans, numbers = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        spans[name] = [len(numbers), len(numbers) + len(raw)]
        numbers += raw
    header = more | {
        name: {
            "dtype": named[tensors[name].dtype],
            "shape": [*tensors[name].shape],
            "data_offsets": spans[name],
        }
        for name in listed
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def measured(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def parsed(data: bytes, length: int) -> dict[str, Any]:
    return json.loads(data[8 : 8 + length])


def read_tensor(
    data: bytes,
    name: str,
    *,
    measure: Callable[[bytes], int] = measured,
    parse: Callable[[bytes, int], dict[str, Any]] = parsed,
    find: Callable[[dict[str, Any], str], Span] = lambda header, name: header[name]["data_offsets"],
    start: Callable[[int], int] = lambda length: 8 + length,
    stop: Callable[[int, int, int], int] = lambda start, begin, end: start + end,
    kind: Callable[[str], torch.dtype] = lambda said: TYPES[said],
    form: Callable[[Tensor, list[int]], Tensor] = lambda flat, shape: flat.view(shape),
) -> Tensor:
    length = measure(data)
    header = parse(data, length)
    begin, end = find(header, name)
    first = start(length)
    raw = bytearray(data[first + begin : stop(first, begin, end)])
    return form(torch.frombuffer(raw, dtype=kind(header[name]["dtype"])), header[name]["shape"])


def in_the_header(header: dict[str, Any], name: str) -> Span:
    """As if the tensors lay in the order of the header."""
    place = 0
    for each, entry in header.items():
        if each == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if each == name:
            return place, place + end - begin
        place += end - begin
    raise KeyError(name)


def in_the_file(
    data: bytes, name: str, count: Callable[[int, int], int] = lambda begin, end: end - begin
) -> Tensor:
    """`torch.frombuffer` finds the tensor in the whole file."""
    length = measured(data)
    entry = parsed(data, length)[name]
    begin, end = entry["data_offsets"]
    flat = torch.frombuffer(
        bytearray(data),
        dtype=TYPES[entry["dtype"]],
        count=count(begin, end),
        offset=8 + length + begin,
    )
    return flat.view(entry["shape"])


def read_cases() -> list[Case]:
    two = {"a": torch.tensor([1.0, -2.0]), "b": torch.tensor([3.0, 4.0, 5.0])}
    four = {
        "half": normal(3, 5).half(),
        "ids": torch.arange(7) ** 3,
        "double": normal(2, 3, 4, seed=2).double(),
        "bias": normal(5, seed=3),
    }
    mixed = file(four, ["bias", "double", "half", "ids"], __metadata__={"format": "pt"})

    def case(data: bytes, name: str, why: str) -> Case:
        return Case((data, name), why)

    def alone(values: Any, dtype: torch.dtype = torch.float32) -> bytes:
        return file({"w": torch.tensor(values, dtype=dtype)}, ["w"])

    return [
        case(alone([1, -2]), "w", "the file has 8 bytes that say how long the header is, then the "
             "header, then the two numbers of `w`, and nothing else"),
        case(alone([[1, 2, 3], [4, 5, 6]]), "w", "the header says that `w` has 2 rows and "
             "3 columns"),
        case(file(two, ["a", "b"]), "a", "a tensor may end before the file does"),
        case(file(two, ["a", "b"]), "b", "`b` begins at byte 8, counted from the end of the "
             "header, and ends at byte 20"),
        case(alone([1, -2, 0.5], torch.float16), "w", "a number of type F16 has two bytes"),
        case(alone([1, -2], torch.int64), "w", "I64 is a type of whole numbers, eight bytes each"),
        case(alone([1, -2], torch.float64), "w", "a number of type F64 has eight bytes"),
        case(file(two, ["b", "a"]), "b", "`b` is the first in the header, and its bytes still come "
             "after those of `a`"),
        case(mixed, "bias", "a longer header has a length that needs two of the eight bytes, and "
             "`__metadata__` is not a tensor"),
        case(mixed, "double", "each tensor of a file has its own type and shape, here three axes"),
    ]  # fmt: skip


read = partial(partial, read_tensor)

READ_TENSOR = Exercise(
    name="read_tensor",
    reference=read_tensor,
    cases=read_cases,
    section="Can you read the file by hand?",
    mistakes={
        "the bytes are counted from the start of the file: `data_offsets` count from the end of "
        "the header": read(start=lambda length: 0),
        "the eight bytes of the length are forgotten: the numbers come after them and the "
        "header": read(start=lambda length: length),
        "the length of the header is forgotten: the numbers begin where it ends": read(
            start=lambda length: 8
        ),
        "everything up to the end of the file is taken for the header: the first eight bytes, "
        "lowest first, say how long it is": read(parse=lambda data, length: json.loads(data[8:])),
        "the eight bytes of the length are read as part of the JSON": read(
            parse=lambda data, length: json.loads(data[: 8 + length])
        ),
        "the header ends eight bytes too early: it doesn't begin at byte 0": read(
            parse=lambda data, length: json.loads(data[8:length])
        ),
        "only one byte of the length is read, and a header may have more than 255": read(
            measure=lambda data: data[0]
        ),
        "the second number of `data_offsets` is taken as a length: it says where the tensor "
        "ends": read(stop=lambda first, begin, end: first + begin + end),
        "the bytes up to the end of the file are read, past the end of the tensor": read(
            stop=lambda first, begin, end: 10**9
        ),
        "`end - begin` is taken for the number of numbers: it is the number of bytes": in_the_file,
        "the tensors are taken to lie in the order of the header: `data_offsets` say where each "
        "lies": read(find=in_the_header),
        "all bytes are read as numbers of one type: the header says which one": read(
            kind=lambda said: torch.float32
        ),
    },
    keeps=frozenset({"dtype"}),
)

# ------------------------------------------------------------------------------------- own_names

PARTS = {
    "ln_1": "norms.0",
    "ln_2": "norms.1",
    "attn.c_proj": "attention.output",
    "mlp.c_fc": "feed_forward.widen",
    "mlp.c_proj": "feed_forward.narrow",
}
ENDS = {"wte": "embedding", "wpe": "places", "ln_f": "stack.norm"}
THREE = ("query", "key", "value")


def own_names(
    name: str,
    *,
    parts: Mapping[str, str] = PARTS,
    ends: Mapping[str, str] = ENDS,
    three: Sequence[str] = THREE,
    cut: Callable[[str], str] = lambda name: name.removeprefix("transformer."),
    layer: Callable[[str], str] = lambda number: number,
    kind: Callable[[str], str] = lambda kind: f".{kind}",
    stack: str = "stack.layers",
    first: str = "",
) -> list[str]:
    pieces = cut(name).split(".")
    last = kind(pieces[-1])
    if pieces[0] != "h":
        return [first + ends.get(pieces[0], pieces[0]) + last]
    part = ".".join(pieces[2:-1])
    own = [f"attention.{each}" for each in three] if part == "attn.c_attn" else [parts[part]]
    return [f"{first}{stack}.{layer(pieces[1])}.{each}{last}" for each in own]


def with_the_prefix(name: str) -> list[str]:
    return own_names(name, first="transformer." if name.startswith("transformer.") else "")


def always_cut(name: str) -> list[str]:
    """As written with `replace`: whatever the rest of the name, it is renamed."""
    return own_names(name) if name.startswith("transformer.") else [name[12:]]


def swapped(table: Mapping[str, str], one: str, other: str) -> dict[str, str]:
    return {**table, one: table[other], other: table[one]}


def names_cases() -> list[Case]:
    def case(name: str, why: str) -> Case:
        return Case((name,), why)

    return [
        case("transformer.wte.weight", "your table of tokens is called `embedding`, and your names "
             "have no `transformer.`"),
        case("transformer.wpe.weight", "`wpe` is the other table, the one of the positions"),
        case("transformer.ln_f.bias", "the last norm belongs to the stack, and not to a layer"),
        case("transformer.h.0.ln_1.weight", "GPT-2 counts a layer's norms from 1, and you "
             "count them from 0"),
        case("transformer.h.3.ln_2.bias", "both models count layers from 0, and the second norm of "
             "each is your number 1"),
        case("transformer.h.2.attn.c_proj.weight", "this `c_proj` belongs to attention"),
        case("transformer.h.2.mlp.c_fc.weight", "`c_fc` is the first matrix of the feed-forward "
             "network"),
        case("transformer.h.0.mlp.c_proj.bias", "this `c_proj` belongs to the feed-forward "
             "network"),
        case("transformer.h.1.attn.c_attn.weight", "one tensor holds queries, keys and values, in "
             "this order"),
        case("transformer.h.0.attn.c_attn.bias", "the three biases lie in one tensor as the three "
             "matrices do"),
        case("transformer.h.11.mlp.c_fc.weight", "the number of a layer may have two digits"),
        case("h.10.attn.c_proj.bias", "the prefix `transformer.` may be missing"),
        case("wpe.weight", "the prefix `transformer.` may be missing outside the layers, too"),
    ]  # fmt: skip


names = partial(partial, own_names)

OWN_NAMES = Exercise(
    name="own_names",
    reference=own_names,
    cases=names_cases,
    section="Which of their names matches which of yours?",
    mistakes={
        "the prefix `transformer.` stays: your names have none": with_the_prefix,
        "the first twelve characters are cut off, even where there is no prefix": always_cut,
        "a name without the prefix is returned as it is: it is renamed like the others": (
            lambda name: own_names(name) if name.startswith("transformer.") else [name]
        ),
        "`c_attn` gives one name: it fills three tensors": lambda name: [
            each.replace("query", "all") for each in own_names(name)[:1]
        ],
        "the two norms of a layer are swapped": names(parts=swapped(PARTS, "ln_1", "ln_2")),
        "the norms keep GPT-2's numbers, 1 and 2: yours count from 0": names(
            parts=PARTS | {"ln_1": "norms.1", "ln_2": "norms.2"}
        ),
        "every `c_proj` becomes the output of attention: the feed-forward network has one, "
        "too": names(parts=PARTS | {"mlp.c_proj": "attention.output"}),
        "`widen` and `narrow` are swapped": names(parts=swapped(PARTS, "mlp.c_fc", "mlp.c_proj")),
        "the ending `.weight` or `.bias` is lost": names(kind=lambda kind: ""),
        "every name ends in `.weight`: some tensors are biases": names(kind=lambda kind: ".weight"),
        "the layers are counted from 1: both models count from 0": names(
            layer=lambda number: str(int(number) + 1)
        ),
        "only the first digit of the layer is read": names(layer=lambda number: number[0]),
    },
)

# ---------------------------------------------------------------------------------------- parity

NOTHING = math.inf  # what is said where nothing is proved


def finite(yours: Tensor, theirs: Tensor, real: Tensor) -> bool:
    return bool((yours - theirs)[real].isfinite().all())


def largest(difference: Tensor) -> Any:
    return difference.abs().max().item()


def parity(
    yours: Tensor,
    theirs: Tensor,
    real: Tensor,
    *,
    before: Callable[[Tensor], Tensor] = lambda logits: logits,
    shapes: bool = True,
    proved: Callable[[Tensor, Tensor, Tensor], bool] = finite,
    kept: Callable[[Tensor, Tensor], Tensor] = lambda difference, real: difference[real],
    number: Callable[[Tensor], Any] = largest,
) -> Any:
    if shapes and yours.shape != theirs.shape:
        return NOTHING
    if not proved(yours, theirs, real):
        return NOTHING
    return number(kept(before(yours) - before(theirs), real))


def everywhere(difference: Tensor, real: Tensor) -> Tensor:
    return difference


def finite_everywhere(yours: Tensor, theirs: Tensor, real: Tensor) -> bool:
    return bool((yours - theirs).isfinite().all())


def yes_or_no(yours: Tensor, theirs: Tensor, real: Tensor) -> Any:
    if parity(yours, theirs, real) == NOTHING:
        return NOTHING
    return torch.allclose(yours[real], theirs[real], atol=1e-4)


def parity_cases() -> list[Case]:
    inf, nan = math.inf, math.nan

    def case(yours: list, theirs: list, real: list, why: str) -> Case:
        return Case(
            (torch.tensor(yours).float(), torch.tensor(theirs).float(), torch.tensor(real)), why
        )

    yours, real = normal(2, 3, 5), torch.tensor([[True, True, True], [True, True, False]])
    return [
        case([[[1, 2]]], [[[5, 4]]], [[True]], "one token has two logits, and they differ by 4 "
             "and by 2"),
        case([[[6, 2]]], [[[3, 1]]], [[True]], "a logit of yours may be too large as well as too "
             "small"),
        case([[[1, 2], [3, 0]]], [[[1, 5], [3, 1]]], [[True, True]], "the largest difference of "
             "all counts, here 3, wherever it is"),
        case([[[1, 2], [9, 9]]], [[[2, 2], [0, 0]]], [[True, False]], "the second position is "
             "padding: no difference there counts, however large"),
        case([[[1, 2], [9, 9]], [[1, 1], [2, 7]]], [[[2, 2], [0, 0]], [[1, 1], [2, 2]]],
             [[True, False], [True, True]], "each text has its own padding"),
        case([[[1, 2]]], [[[1, 2]], [[1, 3]]], [[True], [True]], "`yours` has one text and "
             "`theirs` two: nothing is proved"),
        case([[[1]]], [[[1, 3]]], [[True]], "`yours` has one logit and `theirs` two: nothing is "
             "proved"),
        case([[[1, nan], [1, 1]]], [[[1, 2], [1, 1]]], [[True, True]], "a NaN at a real position "
             "must not look like agreement"),
        case([[[1, 2], [1, 1]]], [[[1, 2], [nan, 1]]], [[True, True]], "`theirs` may hold a NaN, "
             "too"),
        case([[[inf, 2]]], [[[inf, 1]]], [[True]], "two infinite logits prove nothing, even if "
             "both models have them"),
        case([[[1, 2], [nan, inf]]], [[[4, 2], [0, inf]]], [[True, False]], "what is not a number "
             "doesn't matter at padding"),
        Case((yours, yours + 0.0003 * normal(2, 3, 5, seed=1), real), "a small difference is a "
             "number, too, and tells rounding from a mistake"),
    ]  # fmt: skip


number = partial(partial, parity)

PARITY = Exercise(
    name="parity",
    reference=parity,
    cases=parity_cases,
    section="How do you know that each number is in its place?",
    mistakes={
        "padding is not left out: its logits are for nobody": number(
            proved=finite_everywhere, kept=everywhere
        ),
        "the mean is taken: one wrong logit among thousands then looks like rounding": number(
            number=lambda difference: difference.abs().mean().item()
        ),
        "the sign is kept: a logit that is too small is not seen": number(
            number=lambda difference: difference.max().item()
        ),
        "the shapes are not compared: the smaller tensor is stretched over the larger one": number(
            shapes=False
        ),
        "NaN and infinity are not looked for": number(proved=lambda *given: True),
        "NaN is looked for and infinity is not: infinity minus infinity is NaN": number(
            proved=lambda yours, theirs, real: (
                not (yours[real].isnan() | theirs[real].isnan()).any()
            )
        ),
        "only `yours` is searched for NaN and infinity": number(
            proved=lambda yours, theirs, real: bool(yours[real].isfinite().all())
        ),
        "a NaN at padding counts": number(proved=finite_everywhere),
        "probabilities are compared: whatever is added to all logits of a position "
        "disappears": number(before=lambda logits: logits.softmax(-1)),
        "the differences are squared and averaged: one wrong logit then looks like "
        "rounding": number(number=lambda difference: difference.square().mean().item()),
        "the differences are added up": number(
            number=lambda difference: difference.abs().sum().item()
        ),
        "it says yes or no, and not how large the difference is": yes_or_no,
    },
    keeps=frozenset({"number"}),
)

check = Checker(READ_TENSOR, OWN_NAMES, PARITY)
