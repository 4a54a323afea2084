"""Checkers for chapter 22, *Other people's weights*."""

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


def parsed(data: bytes, length: int) -> dict[str, Any]:
    return json.loads(data[8 : 8 + length])


def read_tensor(
    data: bytes,
    name: str,
    *,
    parse: Callable[[bytes, int], dict[str, Any]] = parsed,
    start: Callable[[int], int] = lambda length: 8 + length,
    stop: Callable[[int, int, int], int] = lambda start, begin, end: start + end,
) -> Tensor:
    length = int.from_bytes(data[:8], "little")
    entry = parse(data, length)[name]
    begin, end = entry["data_offsets"]
    first = start(length)
    raw = bytearray(data[first + begin : stop(first, begin, end)])
    return torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).view(entry["shape"])


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
        "the eight bytes of the length are read as part of the JSON": read(
            parse=lambda data, length: json.loads(data[: 8 + length])
        ),
        "the header ends eight bytes too early: it doesn't begin at byte 0": read(
            parse=lambda data, length: json.loads(data[8:length])
        ),
        "the second number of `data_offsets` is taken as a length: it says where the tensor "
        "ends": read(stop=lambda first, begin, end: first + begin + end),
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


def own_names(name: str, *, digits: int | None = None) -> list[str]:
    pieces = name.removeprefix("transformer.").split(".")
    if pieces[0] != "h":
        return [f"{ENDS.get(pieces[0], pieces[0])}.{pieces[-1]}"]
    part = ".".join(pieces[2:-1])
    own = [PARTS[part]] if part in PARTS else [f"attention.{x}" for x in ("query", "key", "value")]
    return [f"stack.layers.{pieces[1][:digits]}.{each}.{pieces[-1]}" for each in own]


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


OWN_NAMES = Exercise(
    name="own_names",
    reference=own_names,
    cases=names_cases,
    section="Which of their names matches which of yours?",
    mistakes={
        "the first twelve characters are cut off, even where there is no prefix": lambda name: (
            own_names(name) if name.startswith("transformer.") else [name[12:]]
        ),
        "only the first digit of the layer is read": lambda name: own_names(name, digits=1),
    },
)

# ---------------------------------------------------------------------------------------- parity


def parity(
    yours: Tensor,
    theirs: Tensor,
    real: Tensor,
    *,
    number: Callable[[Tensor], Any] = lambda difference: difference.max().item(),
) -> Any:
    if yours.shape != theirs.shape:
        return math.inf  # nothing is proved
    difference = (yours - theirs)[real].abs()
    return number(difference) if difference.isfinite().all() else math.inf


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


PARITY = Exercise(
    name="parity",
    reference=parity,
    cases=parity_cases,
    section="How do you know that each number is in its place?",
    mistakes={
        "the mean is taken: one wrong logit among thousands then looks like rounding": partial(
            parity, number=lambda difference: difference.mean().item()
        ),
        "the shapes are not compared: the smaller tensor is stretched over the larger one": (
            lambda yours, theirs, real: parity(yours.expand_as(theirs), theirs, real)
        ),
        "probabilities are compared: whatever is added to all logits of a position disappears": (
            lambda yours, theirs, real: parity(yours.softmax(-1), theirs.softmax(-1), real)
        ),
        "it says yes or no, and not how large the difference is": partial(
            parity, number=lambda difference: bool((difference <= 1e-4).all())
        ),
    },
    keeps=frozenset({"number"}),
)

check = Checker(READ_TENSOR, OWN_NAMES, PARITY)
