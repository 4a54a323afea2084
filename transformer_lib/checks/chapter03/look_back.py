"""The exercise `look_back`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_SEE = ' (see chapter 2, the section "Which scores make softmax draw this triangle?")'
_MASK = ' (see the section "Break it: a translator that reads the padding")'


def _score(h: Tensor, states: Tensor, W: Tensor) -> Tensor:
    return torch.einsum("bk,bsk->bs", h @ W, states)


def _hide(scores: Tensor, real: Tensor) -> Tensor:
    return scores.masked_fill(~real, float("-inf"))


def _rows(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def _mix(weights: Tensor, states: Tensor) -> Tensor:
    return torch.einsum("bs,bsk->bk", weights, states)


def _look_back(
    h: Tensor,
    states: Tensor,
    W: Tensor,
    real: Tensor,
    *,
    score: Callable[[Tensor, Tensor, Tensor], Tensor] = _score,
    mask: Callable[[Tensor, Tensor], Tensor] = _hide,
    weigh: Callable[[Tensor], Tensor] = _rows,
    after: Callable[[Tensor, Tensor], Tensor] = lambda weights, real: weights,
    mix: Callable[[Tensor, Tensor], Tensor] = _mix,
    give: Callable[[Tensor, Tensor], object] = lambda context, weights: (context, weights),
) -> object:
    """One look in six steps, of which a mistake replaces one."""
    weights = after(weigh(mask(score(h, states, W), real)), real)
    return give(mix(weights, states), weights)


def _reference(h: Tensor, states: Tensor, W: Tensor, real: Tensor) -> object:
    return _look_back(h, states, W, real)


def _but(**step: Callable) -> Callable[..., object]:
    return partial(_look_back, **step)


def _nothing_hidden(scores: Tensor, real: Tensor) -> Tensor:
    return scores


def _emptied(weights: Tensor, real: Tensor) -> Tensor:
    return weights * real


def _projected(h: Tensor, states: Tensor, W: Tensor, real: Tensor) -> object:
    weights = _rows(_hide(_score(h, states, W), real))
    return _mix(weights, states @ W.T), weights


def _as_if_behind(scores: Tensor, real: Tensor) -> Tensor:
    count = real.sum(dim=1, keepdim=True)
    return _hide(scores, torch.arange(scores.shape[1]) < count)


def _scores_returned(h: Tensor, states: Tensor, W: Tensor, real: Tensor) -> object:
    scores = _score(h, states, W)
    return _mix(_rows(_hide(scores, real)), states), scores


def _powers_of_real(h: Tensor, states: Tensor, W: Tensor, real: Tensor) -> object:
    powers = _score(h, states, W).exp() * real
    weights = powers / powers.sum(-1, keepdim=True)
    return _mix(weights, states), weights


def _hard(h: Tensor, states: Tensor, W: Tensor, real: Tensor) -> object:
    best = _hide(_score(h, states, W), real).argmax(-1)
    weights = torch.nn.functional.one_hot(best, states.shape[1]).to(states.dtype)
    return _mix(weights, states), weights


def _scaled(h: Tensor, states: Tensor, W: Tensor) -> Tensor:
    return _score(h, states, W) / states.shape[-1] ** 0.5


def _case(label: str, b: int, s: int, d: int, k: int, lengths: list[int]) -> Case:
    real = torch.tensor(lengths)[:, None] > torch.arange(s)
    return Case(
        label,
        random_tensor(b, d),
        random_tensor(b, s, k, seed=1),
        random_tensor(d, k, seed=2),
        real,
    )


LOOK_BACK = Exercise(
    name="look_back",
    reference=_reference,
    cases=[
        _case("one line, one letter", 1, 1, 2, 3, [1]),
        _case("one line, 4 letters", 1, 4, 3, 2, [4]),
        _case("two lines, all widths alike", 2, 5, 4, 4, [5, 5]),
        _case("two lines, one of them padded", 2, 5, 3, 7, [5, 2]),
        _case("as many lines as letters, padded", 4, 4, 3, 5, [4, 1, 3, 2]),
        Case(
            "padding in front",
            random_tensor(2, 3),
            random_tensor(2, 5, 4, seed=1),
            random_tensor(3, 4, seed=2),
            torch.tensor([[False, False, True, True, True], [True] * 5]),
        ),
        _case("three lines of one letter", 3, 1, 2, 4, [1, 1, 1]),
        Case(
            "scores of hundreds",
            200 * torch.eye(3)[:2],
            torch.eye(3).expand(2, 3, 3) + random_tensor(2, 3, 3) / 100,
            torch.eye(3),
            torch.tensor([[True, True, True], [True, True, False]]),
        ),
        Case(
            "scores around minus 150",
            torch.tensor([[15.0, 0.0]]),
            torch.tensor([[[-10.0, 1.0], [-10.0, 2.0], [-10.0, 3.0]]]),
            torch.eye(2),
            torch.tensor([[True, True, False]]),
        ),
    ],
    mistakes={
        "the padding is not hidden: it takes part of the weight" + _MASK: _but(
            mask=_nothing_hidden
        ),
        "the fill is the wrong way round: it hides the letters and leaves the padding" + _MASK: [
            _but(mask=lambda s, real: s.masked_fill(real, float("-inf"))),
            _but(mask=lambda s, real: s.masked_fill(real, -1e9)),
            _but(mask=lambda s, real: s.masked_fill(real, torch.finfo(s.dtype).min)),
        ],
        "a score at padding becomes 0, and e^0 = 1 is a weight like any other" + _SEE: [
            _but(mask=lambda s, real: s.masked_fill(~real, 0.0)),
            _but(mask=lambda s, real: s * real),
        ],
        "the padding is zeroed after the softmax: the removed weight is lost instead of shared "
        "out": [
            _but(mask=mask, after=_emptied)
            for mask in (
                _nothing_hidden,
                lambda s, real: s.masked_fill(~real, 0.0),
                lambda s, real: s * real,
            )
        ],
        "each line's query looks at the states of all lines: it needs an axis of its own, as "
        "`[:, None]` makes it, so that each line meets its own states": [
            _but(score=lambda h, states, W: h @ W @ states.mT, mix=torch.matmul),
        ],
        "the states are zeroed at padding, and the weights not": [
            lambda h, states, W, real: _look_back(
                h, states * real[..., None], W, torch.ones_like(real)
            ),
        ],
        "the softmax runs over the lines of the batch and not over the letters": [
            _but(weigh=lambda s: s.softmax(0)),
            _but(weigh=lambda s: s.nan_to_num(neginf=-1e9).softmax(0)),
        ],
        "the softmax runs over the whole table and not over each line": [
            _but(weigh=lambda s: s.flatten().softmax(0).view_as(s)),
        ],
        "minus infinity is multiplied by a table of 1 and 0: 0 · ∞ is NaN, so it has to be filled "
        "in": [
            _but(mask=lambda s, real: s + float("-inf") * ~real),
            _but(mask=lambda s, real: s - float("inf") * ~real),
            _but(mask=lambda s, real: s * real + float("-inf") * ~real),
        ],
        "the fill is not low enough: the padding still takes some weight": [
            _but(mask=lambda s, real, fill=fill: s.masked_fill(~real, fill))
            for fill in (-1.0, -10.0, -50.0, -100.0)
        ],
        "the fill is plus infinity: then the padding takes all": [
            _but(mask=lambda s, real: s.masked_fill(~real, float("inf"))),
            _but(mask=lambda s, real: s.masked_fill(~real, 1e9)),
        ],
        "the padding is taken to stand behind the letters: `real` says where it stands": [
            _but(mask=_as_if_behind),
        ],
        "the context is right, but the scores are returned and not the weights": [
            _scores_returned,
        ],
        "the softmax is taken twice": _but(weigh=lambda s: s.softmax(-1).softmax(-1)),
        "the softmax runs over an axis of length 1: every weight is then 1": [
            _but(weigh=torch.ones_like, mask=_nothing_hidden),
            _but(weigh=torch.ones_like, after=_emptied),
        ],
        "the padding is left out of the mix but not of the weights" + _MASK: [
            lambda h, states, W, real: _look_back(
                h, states, W, real, mask=_nothing_hidden, mix=lambda w, st: _mix(w * real, st)
            ),
        ],
        "the exponentials overflow: take the softmax, or subtract the largest score first": [
            _but(weigh=lambda s: s.exp() / s.exp().sum(-1, keepdim=True)),
            _powers_of_real,
        ],
        "`squeeze()` names no axis: it also takes away the batch or the line if it has length 1": [
            _but(score=lambda h, states, W: (states @ (h @ W)[:, :, None]).squeeze()),
            _but(
                score=lambda h, states, W: (states @ (h @ W)[:, :, None]).squeeze(),
                mix=lambda w, st: (w[:, None] @ st).squeeze(),
            ),
            _but(mix=lambda w, st: (w[:, None] @ st).squeeze()),
        ],
        "there is no softmax: the scores themselves mix the states": [
            _but(weigh=lambda s: s, mask=_nothing_hidden),
            _but(weigh=lambda s: s),
            _but(weigh=lambda s: s, mask=lambda s, real: s * real),
        ],
        "the exponentials are not divided by their sum": _but(weigh=torch.exp),
        "all the weight goes to the best letter: through a choice like this no gradient comes "
        "back": _hard,
        "W is left out: this is the dot product, and it fits only if the widths are alike": [
            _but(score=lambda h, states, W: torch.einsum("bk,bsk->bs", h, states)),
            _but(score=lambda h, states, W: (states @ h[:, :, None])[:, :, 0]),
            _but(score=lambda h, states, W: (states @ h[..., None]).squeeze(-1)),
        ],
        "W is transposed, or multiplied with the states: here a vector is a row, and it is the "
        "decoder's state that stands to the left of W": [
            _but(score=lambda h, states, W: torch.einsum("bk,bsk->bs", h @ W.T, states)),
            _but(score=lambda h, states, W: (states @ (h @ W.T)[:, :, None])[:, :, 0]),
            _but(score=lambda h, states, W: torch.einsum("bk,bsk->bs", h, states @ W)),
        ],
        "the scores are divided by a root: general has no scale": [
            _but(score=_scaled),
            _but(score=lambda h, states, W: _score(h, states, W) / h.shape[-1] ** 0.5),
        ],
        "what is mixed are the projected states: the values are the states as they are": _projected,
        "the states are weighted but not added up": _but(
            mix=lambda weights, states: weights[..., None] * states
        ),
        "the weighted states are averaged over the letters and not added up: the weights have "
        "made an average of them already": _but(
            mix=lambda weights, states: (weights[..., None] * states).mean(1)
        ),
        "the weights play no part in the mix: it is the plain sum or average of the states": [
            _but(mix=lambda weights, states: states.mean(1)),
            _but(mix=lambda weights, states: states.sum(1)),
        ],
        "the context is the last state: that is the thought vector": [
            _but(mix=lambda weights, states: states[:, -1]),
        ],
        "only the context is returned": _but(give=lambda context, weights: context),
        "only the weights are returned": _but(give=lambda context, weights: weights),
        "weights and context are returned in the wrong order": [
            _but(give=lambda context, weights: (weights, context)),
        ],
        "an axis of length 1 is left in the results": [
            _but(give=lambda context, weights: (context[:, None], weights[:, None])),
            _but(give=lambda context, weights: (context[:, None], weights)),
            _but(give=lambda context, weights: (context, weights[:, None])),
            _but(give=lambda context, weights: (context, weights[..., None])),
        ],
    },
    section="What if the line stays open?",
)
