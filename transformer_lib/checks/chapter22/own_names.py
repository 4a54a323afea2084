"""The exercise `own_names`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

from transformer_lib.checks.old.core import Case, Exercise

_THREE = ("query", "key", "value")
_PARTS = {
    "ln_1": "norms.0",
    "ln_2": "norms.1",
    "attn.c_proj": "attention.output",
    "mlp.c_fc": "feed_forward.widen",
    "mlp.c_proj": "feed_forward.narrow",
}
_ENDS = {"wte": "embedding", "wpe": "places", "ln_f": "stack.norm"}


def _names(
    name: str,
    *,
    parts: Mapping[str, str] = _PARTS,
    ends: Mapping[str, str] = _ENDS,
    three: tuple[str, ...] = _THREE,
    prefix: Callable[[str], str] = lambda name: name.removeprefix("transformer."),
    layer: Callable[[str], str] = lambda number: number,
    kind: Callable[[str], str] = lambda kind: kind,
    stack: str = "stack.layers",
    end: str = "",
) -> list[str]:
    """The names that a tensor fills, with parts that a mistake replaces."""
    pieces = prefix(name).split(".")
    first = "transformer." if pieces[0] == "transformer" else ""
    pieces = pieces[1:] if first else pieces
    last = kind(pieces[-1])
    if pieces[0] != "h":
        return [f"{first}{ends.get(pieces[0], pieces[0])}{last and '.'}{last}"]
    part = ".".join(pieces[2:-1])
    own = [f"attention.{each}" for each in three] if part == "attn.c_attn" else [parts[part]]
    where = f"{first}{stack}.{layer(pieces[1])}"
    return [f"{where}.{each}{last and '.'}{last}{end}" for each in own]


def _own_names(name: str) -> list[str]:
    return _names(name)


def _wrong(**changes: Any) -> Callable[[str], list[str]]:
    return lambda name: _names(name, **changes)


def _swapped(table: Mapping[str, str], first: str, second: str) -> dict[str, str]:
    return dict(table) | {first: table[second], second: table[first]}


def _one_of_three(name: str) -> list[str]:
    return [each.replace("attention.query", "attention.all") for each in _names(name)][:1]


def _three_without_layer(name: str) -> list[str]:
    found = _names(name)
    return found if len(found) == 1 else [each.split(".", 3)[3] for each in found]


def _bare(name: str) -> Any:
    found = _names(name)
    return found if len(found) > 1 else found[0]


def _bare_in_layers(name: str) -> Any:
    return _bare(name) if ".ln_f." not in name and "h." in name else _names(name)


def _cut_and_looked_up(name: str) -> list[str]:
    """Raises where there was no prefix to cut off."""
    pieces = name.split(".")[1:]
    return _names(name) if pieces[0] == "h" else [f"{_ENDS[pieces[0]]}.{pieces[-1]}"]


def _cut_and_replaced(name: str) -> list[str]:
    """What is left of a name without a prefix is renamed piece by piece."""
    if name.startswith("transformer."):
        return _names(name)
    name = name.split(".", 1)[1]
    for theirs, ours in {**_PARTS, **_ENDS}.items():
        name = name.replace(theirs, ours)
    return [name]


def _with_prefix_only(name: str) -> list[str]:
    return _names(name) if name.startswith("transformer.") else [name]


def _weights_in_layers(name: str) -> list[str]:
    return _names(name, kind=lambda kind: "weight" if "h." in name else kind)


def _without_list(name: str) -> Any:
    found = _names(name)
    return tuple(found) if len(found) > 1 else found[0]


OWN_NAMES = Exercise(
    name="own_names",
    reference=_own_names,
    cases=[
        Case("the table of characters", "transformer.wte.weight"),
        Case("the table of places", "transformer.wpe.weight"),
        Case("the last norm", "transformer.ln_f.bias"),
        Case("a norm", "transformer.h.0.ln_1.weight"),
        Case("the other norm", "transformer.h.3.ln_2.bias"),
        Case("the output of attention", "transformer.h.2.attn.c_proj.weight"),
        Case("the first matrix of the feed-forward network", "transformer.h.2.mlp.c_fc.weight"),
        Case("its second", "transformer.h.0.mlp.c_proj.bias"),
        Case("three in one", "transformer.h.1.attn.c_attn.weight"),
        Case("three biases in one", "transformer.h.0.attn.c_attn.bias"),
        Case("a layer of two digits", "transformer.h.11.mlp.c_fc.weight"),
        Case("without the prefix", "h.10.attn.c_proj.bias"),
        Case("a table without the prefix", "wpe.weight"),
    ],
    mistakes={
        "the prefix `transformer.` stays: your names have none": [
            _wrong(prefix=lambda name: name),
        ],
        "the first twelve letters are cut off even where there is no prefix": [
            _wrong(prefix=lambda name: name[12:]),
            _wrong(prefix=lambda name: name.split(".", 1)[1]),
            _cut_and_looked_up,
            _cut_and_replaced,
        ],
        "a name without the prefix is returned as it is: it is renamed like the others": [
            _with_prefix_only,
        ],
        "only the first digit of the layer is read: layer 11 is not layer 1": [
            _wrong(layer=lambda number: number[0]),
            # What stands behind the digit is taken for the rest of the name.
            _wrong(layer=lambda number: number[0] + "." * (len(number) - 1)),
        ],
        "only the last digit of the layer is read: layer 11 is not layer 1": [
            _wrong(layer=lambda number: number[-1]),
        ],
        "the layers are counted from 1: both models count from 0": [
            _wrong(layer=lambda number: str(int(number) + 1)),
            _wrong(layer=lambda number: str(int(number) - 1)),
        ],
        "the two norms of a layer are swapped: `ln_1` stands before attention": [
            _wrong(parts=_swapped(_PARTS, "ln_1", "ln_2")),
        ],
        "the norms keep GPT-2's numbers, 1 and 2: yours count from 0": [
            _wrong(parts=_PARTS | {"ln_1": "norms.1", "ln_2": "norms.2"}),
        ],
        "widen and narrow are swapped: `c_fc` comes first": [
            _wrong(parts=_swapped(_PARTS, "mlp.c_fc", "mlp.c_proj")),
        ],
        "every `c_proj` becomes the output of attention: the feed-forward network has one too": [
            _wrong(parts=_PARTS | {"mlp.c_proj": "attention.output"}),
        ],
        "every `c_proj` becomes the feed-forward network's: attention has one too": [
            _wrong(parts=_PARTS | {"attn.c_proj": "feed_forward.narrow"}),
        ],
        "the output of attention and the second matrix of the feed-forward network are swapped": [
            _wrong(parts=_swapped(_PARTS, "attn.c_proj", "mlp.c_proj")),
        ],
        "the three in one come in another order: queries, keys, values": [
            _wrong(three=order) for order in permutations(_THREE) if order != _THREE
        ],
        "`c_attn` gives one name: it fills three tensors": [
            _one_of_three,
            _wrong(three=("query",)),
        ],
        "the layer is lost from the three names: each begins with it, as the others do": [
            _three_without_layer,
        ],
        "a single name is returned bare: it is to be a list, of one name or of three": [
            _bare,
            _bare_in_layers,
            _without_list,
        ],
        "the ending `.weight` or `.bias` is lost": _wrong(kind=lambda kind: ""),
        "every name ends in `.weight`: some tensors are biases": [
            _wrong(kind=lambda kind: "weight"),
            _weights_in_layers,
            lambda name: _names(name, kind=lambda kind: "weight" if "c_attn" in name else kind),
        ],
        "the tables of characters and of places are swapped: `wte` holds the tokens": [
            _wrong(ends=_swapped(_ENDS, "wte", "wpe")),
        ],
        "the last norm is taken for one of a layer: it stands behind all of them, `stack.norm`": [
            _wrong(ends=_ENDS | {"ln_f": "norm"}),
            _wrong(ends=_ENDS | {"ln_f": "ln_f"}),
            _wrong(ends=_ENDS | {"ln_f": "norms.2"}),
            _wrong(ends=_ENDS | {"ln_f": "stack.norms.2"}),
        ],
        "the layers are not in the stack: yours are called `stack.layers`": [
            _wrong(stack="layers"),
            _wrong(stack="stack"),
            _wrong(stack="h"),
            _wrong(stack="stack.h"),
        ],
    },
    section="Which of their names is which of yours?",
)
