import pytest

from transformer_lib.training import inverse_sqrt_schedule, linear_cooldown


def test_the_paper_s_formula() -> None:
    for step in (1, 7, 3999, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert inverse_sqrt_schedule(step, warmup=4000, d_model=512) == expected


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 1.747e-7), (2000, 3.494e-4), (4000, 6.988e-4), (16_000, 3.494e-4)]
)
def test_golden_values_of_the_base_model(step: int, expected: float) -> None:
    assert inverse_sqrt_schedule(step, warmup=4000, d_model=512) == pytest.approx(expected, 1e-3)


def test_highest_at_the_end_of_warmup() -> None:
    rates = [inverse_sqrt_schedule(step, warmup=13, peak=0.005) for step in range(1, 100)]
    assert rates.index(max(rates)) + 1 == 13
    assert max(rates) == pytest.approx(0.005, rel=1e-12)


def test_peak_only_rescales() -> None:
    for step in (1, 5, 11, 50):
        paper = inverse_sqrt_schedule(step, warmup=11, d_model=64)
        peak = inverse_sqrt_schedule(step, warmup=11, peak=(64 * 11) ** -0.5)
        assert peak == pytest.approx(paper, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"step": 0}, ValueError, "step must be.*at least 1, got 0"),
        ({"step": 2.0}, TypeError, "step.*got 2.0"),
        ({"step": True}, TypeError, "step.*got True"),
        ({"warmup": 0}, ValueError, "warmup.*got 0"),
        ({"warmup": "4"}, TypeError, "warmup.*got '4'"),
        ({"d_model": 0}, ValueError, "d_model.*got 0"),
        ({"d_model": 8.0}, TypeError, "d_model.*got 8.0"),
        ({"d_model": None}, ValueError, "either d_model or peak"),
        ({"peak": 0.1}, ValueError, "either d_model or peak"),
        ({"d_model": None, "peak": 0}, ValueError, "peak must be.*above 0, got 0"),
        ({"d_model": None, "peak": -1.0}, ValueError, "peak must be.*above 0, got -1.0"),
        ({"d_model": None, "peak": float("nan")}, ValueError, "peak must be.*above 0, got nan"),
        ({"d_model": None, "peak": "high"}, TypeError, "peak.*got 'high'"),
    ],
)
def test_errors_name_the_argument(change: dict, error: type[Exception], message: str) -> None:
    arguments = {"step": 1, "warmup": 4000, "d_model": 512} | change
    with pytest.raises(error, match=message):
        inverse_sqrt_schedule(**arguments)


def test_a_cooldown_ends_one_step_above_zero() -> None:
    shares = [linear_cooldown(left, cooldown=3) for left in range(10, 0, -1)]
    assert shares == [1.0] * 7 + [0.75, 0.5, 0.25]


@pytest.mark.parametrize(
    ("left", "cooldown", "error", "message"),
    [
        (0, 3, ValueError, "left must be.*at least 1, got 0"),
        (1.0, 3, TypeError, "left.*got 1.0"),
        (1, 0, ValueError, "cooldown.*got 0"),
        (1, "3", TypeError, "cooldown.*got '3'"),
    ],
)
def test_errors_of_a_cooldown_name_the_argument(
    left: int, cooldown: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        linear_cooldown(left, cooldown=cooldown)
