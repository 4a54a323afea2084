from functools import partial
from typing import Any

import pytest

from transformer_lib.training import cosine_schedule, inverse_sqrt_schedule, linear_cooldown


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 1.747e-7), (2000, 3.494e-4), (4000, 6.988e-4), (16_000, 3.494e-4)]
)
def test_golden_values_of_the_base_model(step: int, expected: float) -> None:
    assert inverse_sqrt_schedule(step, warmup=4000, d_model=512) == pytest.approx(expected, 1e-3)


def test_highest_at_the_end_of_warmup() -> None:
    rates = [inverse_sqrt_schedule(step, warmup=13, peak=0.005) for step in range(1, 100)]
    assert rates.index(max(rates)) + 1 == 13
    assert max(rates) == pytest.approx(0.005, rel=1e-12)


PAPER = partial(inverse_sqrt_schedule, step=1, warmup=4000)
COSINE = partial(cosine_schedule, step=1, warmup=2, last_step=9, peak=0.1)
COOLDOWN = partial(linear_cooldown, cooldown=3)


@pytest.mark.parametrize(
    ("schedule", "change", "message"),
    [
        (PAPER, {"step": 0, "d_model": 512}, "step must be.*at least 1, got 0"),
        (PAPER, {"d_model": 512, "peak": 0.1}, "either d_model or peak"),
        (COSINE, {"step": 10}, r"last_step \(9\) must be at least step \(10\)"),
        (COSINE, {"peak": 0}, "peak must be.*above 0, got 0"),
        (COOLDOWN, {"left": 0}, "left must be.*at least 1, got 0"),
    ],
)
def test_errors_name_the_argument(schedule: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        schedule(**change)


def test_a_cooldown_ends_one_step_above_zero() -> None:
    shares = [linear_cooldown(left, cooldown=3) for left in range(10, 0, -1)]
    assert shares == [1.0] * 7 + [0.75, 0.5, 0.25]
