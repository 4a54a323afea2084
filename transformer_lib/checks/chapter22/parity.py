"""The exercise `parity`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import random_tensor

_INFINITE = float("inf")


def _largest(x: Tensor) -> float:
    return x.abs().max().item()


def _proved(difference: Tensor, real: Tensor) -> bool:
    return bool(difference[real].isfinite().all())


def _measured(
    yours: Tensor,
    theirs: Tensor,
    real: Tensor,
    *,
    before: Callable[[Tensor], Tensor] = lambda logits: logits,
    places: Callable[[Tensor, Tensor], Tensor] = lambda difference, real: difference[real],
    number: Callable[[Tensor], Any] = _largest,
    finite: Callable[[Tensor, Tensor], bool] = _proved,
    shapes: bool = True,
) -> Any:
    """The number, with parts that a mistake replaces."""
    if shapes and yours.shape != theirs.shape:
        return _INFINITE
    difference = before(yours) - before(theirs)
    if not finite(difference, real):
        return _INFINITE
    return number(places(difference, real))


def _parity(yours: Tensor, theirs: Tensor, real: Tensor) -> float:
    return _measured(yours, theirs, real)


def _wrong(**parts: Any) -> Callable[[Tensor, Tensor, Tensor], Any]:
    return lambda yours, theirs, real: _measured(yours, theirs, real, **parts)


def _relative(yours: Tensor, theirs: Tensor, real: Tensor) -> float:
    if yours.shape != theirs.shape or not _proved(yours - theirs, real):
        return _INFINITE
    return ((yours - theirs)[real] / theirs[real]).abs().max().item()


def _difference_of_largest(yours: Tensor, theirs: Tensor, real: Tensor) -> float:
    if yours.shape != theirs.shape or not _proved(yours - theirs, real):
        return _INFINITE
    return (yours[real].max() - theirs[real].max()).abs().item()


def _best_words(yours: Tensor, theirs: Tensor, real: Tensor) -> float:
    if yours.shape != theirs.shape or not _proved(yours - theirs, real):
        return _INFINITE
    return (yours.argmax(-1) != theirs.argmax(-1))[real].double().mean().item()


def _yes_or_no(unproved: Callable[[Tensor, Tensor, Tensor], bool]) -> Callable[..., Any]:
    """Infinity where `unproved` finds a reason, and else what `torch.allclose` says."""

    def answer(yours: Tensor, theirs: Tensor, real: Tensor) -> float | bool:
        if unproved(yours, theirs, real):
            return _INFINITE
        return yours.shape == theirs.shape and torch.allclose(yours[real], theirs[real], atol=1e-4)

    return answer


def _compared(axes: slice) -> Callable[..., Any]:
    """Infinity where the shapes differ in some axes, and the others are not looked at."""
    return lambda yours, theirs, real: (
        _INFINITE
        if yours.shape[axes] != theirs.shape[axes]
        else _measured(yours, theirs, real, shapes=False)
    )


def _nan(logits: Tensor) -> Tensor:
    return logits.isnan()


def _not_finite(logits: Tensor) -> Tensor:
    return ~logits.isfinite()


_BROKEN = (_not_finite, _nan)


def _finite_in(which: int, broken: Callable[[Tensor], Tensor]) -> Callable[..., float]:
    """Looks for what is no number in `yours` (0) or in `theirs` (1)."""

    def answer(yours: Tensor, theirs: Tensor, real: Tensor) -> float:
        if yours.shape != theirs.shape or broken((yours, theirs)[which][real]).any():
            return _INFINITE
        return _largest((yours - theirs)[real])

    return answer


def _only_nan(yours: Tensor, theirs: Tensor, real: Tensor) -> float:
    if yours.shape != theirs.shape or (yours + theirs)[real].isnan().any():
        return _INFINITE
    return _largest((yours - theirs)[real])


def _zeroed(difference: Tensor, real: Tensor) -> Tensor:
    """Padding is multiplied by 0: NaN times 0 is NaN, so this is right only without it."""
    return difference * real[..., None]


def _real_zeroed(difference: Tensor, real: Tensor) -> Tensor:
    return difference.masked_fill(real[..., None], 0)


def _pair(label: str, *, seed: int, size: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    theirs = random_tensor(2, 3, 5, seed=seed) * 4
    yours = theirs + size * random_tensor(2, 3, 5, seed=seed + 1)
    return yours, theirs, torch.tensor([[True, True, True], [True, True, False]])


def _with(place: tuple[int, int, int], value: float, *, seed: int, both: bool = False) -> tuple:
    yours, theirs, real = _pair("", seed=seed, size=0.1)
    yours[place] = value
    if both:
        theirs[place] = value
    return yours, theirs, real


def _swapped(case: tuple) -> tuple:
    yours, theirs, real = case
    return theirs, yours, real


def _shorter_first(case: tuple) -> tuple:
    """The first text has padding, and the second has none."""
    yours, theirs, real = case
    return yours, theirs, real.flip(0)


_ONE = (torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.5, 2.25]]]), torch.tensor([[True]]))
_TALL = _pair("", seed=20, size=0.1)

PARITY = Exercise(
    name="parity",
    reference=_parity,
    cases=[
        Case("one place, two logits", *_ONE),
        Case("two rows, one place of padding", *_pair("", seed=1, size=0.5)),
        Case("one logit much too small", *_with((0, 1, 2), -9.0, seed=3)),
        Case("one logit much too large", *_shorter_first(_with((1, 2, 4), 30.0, seed=5))),
        Case("a large difference at padding", *_with((1, 2, 0), 99.0, seed=7)),
        Case("NaN in theirs alone", *_swapped(_with((1, 1, 2), float("nan"), seed=15))),
        Case("your batch has one row, theirs two", _TALL[0][:1], _TALL[1], _TALL[2]),
        Case("one logit too few at each place", _TALL[0][..., :1], _TALL[1], _TALL[2]),
        Case("NaN at a real place", *_with((0, 0, 0), float("nan"), seed=9)),
        Case("NaN at padding", *_with((1, 2, 3), float("nan"), seed=11)),
        Case("both infinite at a real place", *_with((0, 2, 1), _INFINITE, seed=13, both=True)),
    ],
    mistakes={
        "padding is not left out: its logits are for nobody": [
            _wrong(places=lambda difference, real: difference),
            _wrong(
                places=lambda difference, real: difference,
                finite=lambda difference, real: bool(difference.isfinite().all()),
            ),
        ],
        "the real places are left out, and padding is compared": [
            _wrong(places=lambda difference, real: difference[~real]),
            _wrong(
                places=lambda difference, real: difference[~real],
                finite=lambda difference, real: _proved(difference, ~real),
            ),
            *(
                _wrong(places=_real_zeroed, finite=finite)
                for finite in (_proved, lambda difference, real: _proved(difference, ~real))
            ),
        ],
        "the padding of one text is taken for that of all: each text has its own": [
            _wrong(
                places=lambda difference, real, row=row: difference[:, real[row]],
                finite=lambda difference, real, row=row: bool(
                    difference[:, real[row]].isfinite().all()
                ),
            )
            for row in (0, -1)
        ],
        "padding is left out of the largest difference, but a NaN there still counts": [
            _wrong(finite=lambda difference, real: bool(difference.isfinite().all())),
            _wrong(places=_zeroed),
        ],
        "the mean is taken: one wrong logit among thousands then looks like rounding": [
            _wrong(number=lambda x: x.abs().mean().item()),
        ],
        "the differences are squared and averaged: one wrong logit then looks like rounding": [
            _wrong(number=lambda x: x.pow(2).mean().item()),
            _wrong(number=lambda x: x.pow(2).mean().sqrt().item()),
        ],
        "the differences are added up": [
            _wrong(number=lambda x: x.abs().sum().item()),
            _wrong(number=lambda x: x.norm().item()),
        ],
        "the sign is kept: a logit that is too small is not seen": [
            _wrong(number=lambda x: x.max().item()),
        ],
        "the sign is kept: a logit that is too large is not seen": [
            _wrong(number=lambda x: (-x).max().item()),
            _wrong(number=lambda x: x.min().item()),
        ],
        "the largest logits are compared, and not each logit with its own": [
            _difference_of_largest,
        ],
        "probabilities are compared: what is added to all logits of a place disappears": [
            _wrong(before=lambda logits: logits.softmax(dim=-1)),
            _wrong(before=lambda logits: logits.log_softmax(dim=-1)),
        ],
        "only the most probable tokens are compared": _best_words,
        "the difference is divided by the logit: near 0 that says nothing": _relative,
        "the shapes are not compared: a smaller tensor is stretched over the larger one": [
            _wrong(shapes=False),
        ],
        "only a part of the shapes is compared: all three axes count": [
            _compared(slice(0, 2)),
            _compared(slice(2, 3)),
        ],
        "a NaN is passed on or passed over: it must not look like agreement": [
            _wrong(finite=lambda difference, real: True),
            _wrong(  # a NaN that does not come first is no maximum to Python
                finite=lambda difference, real: True,
                number=lambda x: max(x.abs().flatten().tolist()),
            ),
            _wrong(
                finite=lambda difference, real: True,
                number=lambda x: x.nan_to_num(0.0).abs().max().item(),
            ),
            _wrong(
                finite=lambda difference, real: not bool(difference[real].isinf().any()),
                number=lambda x: x.nan_to_num(0.0).abs().max().item(),
            ),
        ],
        "NaN is looked for and infinity is not: infinity less infinity is NaN": [
            _only_nan,
        ],
        "only one of the two tensors is searched for NaN and infinity: the other may hold them": [
            *(_finite_in(which, broken) for which in (0, 1) for broken in _BROKEN),
        ],
        "where the shapes differ the number says something else than infinity": [
            lambda yours, theirs, real, said=said: (
                said if yours.shape != theirs.shape else _parity(yours, theirs, real)
            )
            for said in (float("nan"), 0.0, 1.0, -1.0, -_INFINITE)
        ],
        "infinity has the wrong sign: what proves nothing must not look small": [
            lambda yours, theirs, real: (
                -_INFINITE
                if _parity(yours, theirs, real) == _INFINITE
                else _parity(yours, theirs, real)
            ),
        ],
        "the largest difference of each place is averaged: the largest of all is asked for": [
            _wrong(number=lambda x: x.abs().amax(-1).mean().item()),
        ],
        "the number is rounded: what a parity proves is in the small digits": [
            lambda yours, theirs, real, digits=digits: round(_parity(yours, theirs, real), digits)
            for digits in (2, 3, 4)
        ],
        "it says yes or no: it is asked for the number": [
            _yes_or_no(lambda *given: False),
            _yes_or_no(lambda *given: given[0].shape != given[1].shape),
            _yes_or_no(lambda *given: _parity(*given) == _INFINITE),
        ],
        "only the last place of each row is compared": [
            _wrong(places=lambda difference, real: difference[:, -1]),
        ],
        "the smallest difference is taken": _wrong(number=lambda x: x.abs().min().item()),
    },
    keeps=("number",),
    section="How do you know that each number is in its place?",
)
