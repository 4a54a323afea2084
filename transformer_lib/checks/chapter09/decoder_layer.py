"""The exercise `MyDecoderLayer`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.checks.chapter09.looks import LOOKS
from transformer_lib.checks.chapter09.steps import (
    IN_FLOAT32,
    Layer,
    added_twice,
    around_from_the_start,
    both,
    but,
    cross_step,
    exchanged_parameters,
    ffn_step,
    first_input_asks,
    from_the_input,
    look_across,
    look_back,
    looks_side_by_side,
    lost_stream,
    self_step,
    side_by_side,
    skip,
    triangle,
    without_norm,
)
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor
from transformer_lib.checks.old.modules import Flaw

_NORMED = ' (see the section "What happens in one layer?")'

_X, _M = random_tensor(2, 5, 12), random_tensor(2, 7, 12, seed=1)
_SAME = random_tensor(2, 5, 12, seed=2)
_CAUSAL = torch.ones(5, 5).tril().bool()
_READS = (torch.tensor([[7], [4]]) > torch.arange(7))[:, None, None]
_READS_5 = (torch.tensor([[3], [5]]) > torch.arange(5))[:, None, None]


def _case(label: str, *args: Tensor, pre_norm: bool = True, **masks: Tensor) -> Case:
    init = {"d_model": 12, "n_heads": 3, "d_ff": 20, "pre_norm": pre_norm}
    return Case(label, *args, init=init, **masks)


def _without_dropout(answer: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    for name, part in answer.named_modules():
        if isinstance(part, nn.Dropout) and part.p:
            raise Flaw("dropout", f"Your `{name}` is dropout: the exercise asks for none.")
    return answer(*args, **kwargs)


_WITHOUT_NORM = {
    "back": without_norm(self_step),
    "across": without_norm(cross_step),
    "think": without_norm(ffn_step),
}


def _norms_missing() -> Mapping[str, list[type[nn.Module]]]:
    parts = ("the look back", "the look across", "the feed-forward network")
    found = {
        f"the norm of {part} is never applied: `x + …` only adds, and the residual of this part "
        "also norms": [but(**{step: _WITHOUT_NORM[step]})]
        for step, part in zip(_WITHOUT_NORM, parts, strict=True)
    }
    found["two of the norms are never applied: `x + …` only adds, and a residual also norms"] = [
        but(**{step: _WITHOUT_NORM[step] for step in two}) for two in combinations(_WITHOUT_NORM, 2)
    ]
    return found


_FULL = _case("norm before, both masks", _X, _M, mask=_CAUSAL, memory_mask=_READS)

DECODER_LAYER = Exercise(
    name="MyDecoderLayer",
    reference=Layer,
    cases=[
        _case("2 tokens written, 3 read, norm before", _X[:1, :2], _M[:1, :3]),
        _case("5 written, 7 read, norm before, no masks", _X, _M),
        _case("norm before, a causal mask", _X, _M, mask=_CAUSAL),
        _case("norm before, padding in the source", _X, _M, memory_mask=_READS),
        _FULL,
        _case("norm after, both masks", _X, _M, pre_norm=False, mask=_CAUSAL, memory_mask=_READS),
        _case("as many written as read, masks by position", _X, _SAME, _CAUSAL, _READS_5),
        _case("a mask for each sentence", _X, _M, mask=_CAUSAL & _READS_5, memory_mask=_READS),
        in_float64(_FULL),
    ],
    mistakes={
        **LOOKS,
        "the look across comes first: the layer looks back, then across": [
            but(order=("across", "back", "think")),
        ],
        "the feed-forward network does not come last: the layer looks back, then across, then "
        "thinks": [
            but(order=("back", "think", "across")),
            but(order=("think", "back", "across")),
            but(order=("think", "across", "back")),
        ],
        "there is a feed-forward network after each of the attentions: there is one, at the end": [
            but(order=("back", "think", "across", "think")),
        ],
        "cross-attention is missing, or what it finds is not used: this layer never sees what was "
        "read": [
            but(order=("back", "think")),
        ],
        "self-attention is missing, or what it finds is not used: this layer never sees what was "
        "written before": [
            but(order=("across", "think")),
            but(forward=from_the_input),
        ],
        "the feed-forward network is missing": [but(order=("back", "across"))],
        "the results of the looks are thrown away: each part must get what the one before it has "
        "made": [but(order=("think",))],
        "the parts work side by side, each on the layer's input: each must get what the one "
        "before it has made": [but(forward=side_by_side)],
        "the queries of cross-attention are the layer's input: they must be made of what the look "
        "back has made": [but(forward=first_input_asks)],
        "what the look across finds is added to the layer's input: it must be added to what the "
        "look back has made": [but(forward=around_from_the_start)],
        "there is no way around cross-attention: its result is added to what comes in": [
            but(across=skip("cross_residual", cross_step)),
            but(across=cross_step),
        ],
        "there is no way around self-attention: its result is added to what comes in": [
            but(back=skip("self_residual", self_step)),
            but(back=self_step),
        ],
        "there is no way around the feed-forward network: its result is added to what comes in": [
            but(think=skip("feed_forward_residual", ffn_step)),
            but(think=ffn_step),
        ],
        "the two looks work side by side, both on the layer's input: the look across must get what "
        "the look back has made": [
            but(forward=looks_side_by_side),
        ],
        "there is no way around any of the parts: each result is added to what comes in": [
            but(
                back=skip("self_residual", self_step),
                across=skip("cross_residual", cross_step),
                think=skip("feed_forward_residual", ffn_step),
            ),
            but(back=self_step, across=cross_step, think=ffn_step),
        ],
        "there is no way around the two attentions: what each finds is added to what comes in": [
            but(back=self_step, across=cross_step),
        ],
        "with the norm before, what flows by is normed as well: `x = norm(x)` and then adding to "
        "that x has lost the stream. It is x + sublayer(norm(x))": [
            but(
                back=lost_stream("self_residual", self_step),
                across=lost_stream("cross_residual", cross_step),
                think=lost_stream("feed_forward_residual", ffn_step),
            ),
        ],
        "the norms are never applied": [but(**_WITHOUT_NORM)],
        **_norms_missing(),
        "`pre_norm` is not used: the norm always comes before": [
            but(norm_comes_first=lambda self, pre_norm: True),
        ],
        "`pre_norm` is not used: the norm always comes after": [
            but(norm_comes_first=lambda self, pre_norm: False),
        ],
        "`pre_norm` is the wrong way round: True means that the norm comes before": [
            but(norm_comes_first=lambda self, pre_norm: not pre_norm),
        ],
        "the parameters of `forward` stand in another order: it is (x, memory, mask=None, "
        "memory_mask=None)": [but(forward=exchanged_parameters)],
        "a triangle of its own hides the future, whatever `mask` says: `mask` holds causality "
        "already": [
            but(
                back=look_back(
                    lambda s, y, x, m, a, b: s.self_attention(y, y, both(a, triangle(y)))
                )
            ),
            but(back=look_back(lambda s, y, x, m, a, b: s.self_attention(y, y, triangle(y)))),
        ],
        "a mask is turned round: in this book True means that a key may be seen, in some of "
        "PyTorch's layers that it is hidden": [
            but(
                back=look_back(
                    lambda s, y, x, m, a, b: s.self_attention(y, y, None if a is None else ~a)
                ),
                across=look_across(
                    lambda s, y, x, m, a, b: s.cross_attention(y, m, None if b is None else ~b)
                ),
            ),
            but(
                across=look_across(
                    lambda s, y, x, m, a, b: s.cross_attention(y, m, None if b is None else ~b)
                )
            ),
        ],
        "the norms of two residuals have changed places: `self_residual` goes with the look back, "
        "`cross_residual` with the look across": [
            but(
                back=lambda s, x, m, a, b: s.cross_residual(x, lambda y: s.self_attention(y, y, a)),
                across=lambda s, x, m, a, b: s.self_residual(
                    x, lambda y: s.cross_attention(y, m, b)
                ),
            ),
        ],
        "the two attentions have changed places: `self_attention` looks back, `cross_attention` "
        "looks across": [
            but(
                back=look_back(lambda s, y, x, m, a, b: s.cross_attention(y, y, a)),
                across=look_across(lambda s, y, x, m, a, b: s.self_attention(y, m, b)),
            ),
        ],
        "one residual serves two parts, and another none: each part has its own": [
            but(
                across=lambda s, x, m, a, b: s.self_residual(
                    x, lambda y: s.cross_attention(y, m, b)
                )
            ),
            but(
                across=lambda s, x, m, a, b: s.self_residual(
                    x, lambda y: s.cross_attention(y, m, b)
                ),
                think=lambda s, x, m, a, b: s.self_residual(x, s.feed_forward),
            ),
        ],
        "what a residual returns is added to x once more: it has added x already": [
            but(**{step: added_twice(step) for step in steps})
            for n in (3, 1, 2)
            for steps in combinations(Layer.order, n)
        ],
        "a residual is given a result: it takes the sublayer itself, a function that it calls on "
        "the x it has normed, or not" + _NORMED: [
            but(back=lambda s, x, m, a, b: s.self_residual(x, s.self_attention(x, x, a))),
            but(across=lambda s, x, m, a, b: s.cross_residual(x, s.cross_attention(x, m, b))),
            but(think=lambda s, x, *rest: s.feed_forward_residual(x, s.feed_forward(x))),
        ],
        "a residual is given an attention as it is: a residual calls its sublayer with one "
        "argument, and an attention needs keys as well" + _NORMED: [
            but(back=lambda s, x, *rest: s.self_residual(x, s.self_attention)),
            but(across=lambda s, x, *rest: s.cross_residual(x, s.cross_attention)),
        ],
        "everything is made float32, whatever dtype comes in": IN_FLOAT32,
    },
    use=_without_dropout,
    section="What happens in one layer?",
    keeps=["dtype", "names", "gradient"],
)
