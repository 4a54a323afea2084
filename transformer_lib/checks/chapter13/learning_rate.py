"""The exercise `learning_rate`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from transformer_lib.checks.core import Case, Exercise


def _learning_rate(step: int, d_model: int, warmup: int) -> float:
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def _powers(width: bool, first: bool, second: bool) -> Callable[[int, int, int], float]:
    """Which of the three powers are written as x**-1/2."""

    def learning_rate(step: int, d: int, w: int) -> float:
        scale, climb = d**-1 / 2 if width else d**-0.5, w**-3 / 2 if second else w**-1.5
        return scale * min(step**-1 / 2 if first else step**-0.5, step * climb)

    return learning_rate


LEARNING_RATE = Exercise(
    name="learning_rate",
    reference=_learning_rate,
    cases=[
        # Small widths and short warm-ups make large rates, in which a small mistake shows.
        Case("the first step", 1, 6, 10),
        Case("halfway up", 5, 6, 10),
        Case("the peak", 10, 6, 10),
        Case("the first step after the peak", 11, 6, 10),
        Case("far down", 1000, 6, 10),
        Case("a warm-up of one step", 2, 16, 1),
        Case("the peak of the paper's base model", 4000, 512, 4000),
    ],
    mistakes={
        "the larger of the two terms is taken: the formula has min where you have max": [
            lambda step, d, w: d**-0.5 * max(step**-0.5, step * w**-1.5),
        ],
        "there is no climb, because the warm-up is missing or its exponent has lost its minus "
        "sign: the rate starts at its highest": lambda step, d, w: d**-0.5 * step**-0.5,
        "the descent is missing: the rate climbs for ever": [
            lambda step, d, w: d**-0.5 * step * w**-1.5,
        ],
        "the rate stays at its peak after the warm-up": [
            lambda step, d, w: d**-0.5 * min(w**-0.5, step * w**-1.5),
        ],
        "d_model is not used": lambda step, d, w: min(step**-0.5, step * w**-1.5),
        "d_model has the exponent 0.5: a wider model should get smaller steps": [
            lambda step, d, w: d**0.5 * min(step**-0.5, step * w**-1.5),
        ],
        "d_model has the exponent -1": lambda step, d, w: min(step**-0.5, step * w**-1.5) / d,
        "warmup has the exponent -0.5: the two terms then do not meet at the peak": [
            lambda step, d, w: d**-0.5 * min(step**-0.5, step * w**-0.5),
        ],
        "the climb is a share of the warm-up, step / warmup: the second term needs "
        "another warmup^-0.5": [
            lambda step, d, w: d**-0.5 * min(step**-0.5, step / w),
            lambda step, d, w: d**-0.5 * (step / w if step < w else step**-0.5),
        ],
        "the shape is right, but its highest value is d_model^-0.5: nothing has been divided by "
        "the root of warmup": [
            lambda step, d, w: d**-0.5 * min((w / step) ** 0.5, step / w),
        ],
        "the steps are counted from 0: the first one is step 1": [
            lambda step, d, w: d**-0.5 * min((step + 1) ** -0.5, (step + 1) * w**-1.5),
        ],
        "1 is taken away from the step, and the first update has no rate: the first step is step "
        "1 already": [
            lambda step, d, w: d**-0.5 * (step - 1) * min((step - 1 or 1) ** -1.5, w**-1.5),
        ],
        "d_model is in one of the two terms only: brackets are missing around min": [
            lambda step, d, w: min(d**-0.5 * step**-0.5, step * w**-1.5),
            lambda step, d, w: min(step**-0.5, d**-0.5 * step * w**-1.5),
        ],
        "a power binds before a division: x**-1/2 is (1/x)/2, and the root is x**-0.5": [
            _powers(*halved) for halved in product((False, True), repeat=3) if any(halved)
        ],
        "numbers of the paper's base model stand where the arguments should": [
            lambda step, d, w: 512**-0.5 * min(step**-0.5, step * w**-1.5),
            lambda step, d, w: d**-0.5 * min(step**-0.5, step * 4000**-1.5),
            lambda step, d, w: 512**-0.5 * min(step**-0.5, step * 4000**-1.5),
        ],
        "the first term has lost its minus sign, step^0.5: it grows, where it should fall": [
            lambda step, d, w: d**-0.5 * min(step**0.5, step * w**-1.5),
        ],
        "step and warmup have changed places in the second term: it is step * warmup^-1.5": [
            lambda step, d, w: d**-0.5 * min(step**-0.5, w * step**-1.5),
        ],
        "the second term lacks the step: it does not climb": [
            lambda step, d, w: d**-0.5 * min(step**-0.5, w**-1.5),
        ],
        "the fall is counted from the end of the warm-up: the formula counts all steps": [
            lambda step, d, w: d**-0.5 * (step * w**-1.5 if step <= w else (step - w) ** -0.5),
            lambda step, d, w: d**-0.5 * (step * w**-1.5 if step < w else (step - w + 1) ** -0.5),
            lambda step, d, w: d**-0.5 * (step * w**-1.5 if step <= w else (step - w + 1) ** -0.5),
        ],
        "a bracket is around too much: the exponent of d_model is taken of min as well": [
            lambda step, d, w: (d * min(step**-0.5, step * w**-1.5)) ** -0.5,
        ],
        "the rate falls in proportion to the step, and not to its root": [
            lambda step, d, w: d**-0.5 * min(step**-1.0, step * w**-1.5),
            lambda step, d, w: d**-0.5 * min(w**0.5 / step, step * w**-1.5),
        ],
    },
    atol=1e-9,
    section="How large a step?",
)
