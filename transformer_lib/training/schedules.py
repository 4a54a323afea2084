"""The learning rate as a function of the step: nothing to store, nothing to resume."""

import math

from transformer_lib.validation import check_count, check_number

__all__ = ["cosine_schedule", "inverse_sqrt_schedule", "linear_cooldown"]


def inverse_sqrt_schedule(
    step: int, *, warmup: int, d_model: int | None = None, peak: float | None = None
) -> float:
    r"""Rise linearly for ``warmup`` steps, then fall with the square root of the step.

    .. math:: d_\text{model}^{-1/2} \cdot \min(step^{-1/2},\; step \cdot warmup^{-3/2})

    The highest value, at ``step == warmup``, is ``(d_model * warmup) ** -0.5``, or ``peak`` if that
    is given.

    Args:
        step: the step about to be taken; the first is 1.
        warmup: steps until the peak, at least 1.
        d_model: width of the model, for the paper's peak.
        peak: the highest learning rate, instead of ``d_model``.

    Raises:
        TypeError, ValueError: a ``step``, ``warmup`` or ``d_model`` that isn't an integer of at
            least 1, a ``peak`` that isn't a number above 0; both ``d_model`` and ``peak``, or
            neither.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, section 5.3, equation (3).

    Example:
        >>> round(inverse_sqrt_schedule(4000, warmup=4000, d_model=512), 6)  # base: the peak
        0.000699
        >>> inverse_sqrt_schedule(500, warmup=2000, peak=0.005)  # a quarter of the way up
        0.00125
    """
    check_count("step", step)
    check_count("warmup", warmup)
    if d_model is not None and peak is None:
        check_count("d_model", d_model)
        scale = d_model**-0.5
    elif peak is not None and d_model is None:
        check_number("peak", peak, 0, ends="()")
        scale = peak * warmup**0.5
    else:
        raise ValueError(f"give either d_model or peak, got d_model={d_model} and peak={peak}")
    return scale * min(step**-0.5, step * warmup**-1.5)


def cosine_schedule(step: int, *, warmup: int, last_step: int, peak: float) -> float:
    r"""Rise linearly for ``warmup`` steps, then fall along half a cosine towards 0.

    .. math:: \frac{peak}{2} \left(1 + \cos \frac{\pi\,(step - warmup)}{last + 1 - warmup}\right)

    Args:
        step: the step about to be taken; the first is 1.
        warmup: steps until the peak, at least 1.
        last_step: the last step of the run, which still moves the parameters a little.
        peak: the highest learning rate.

    Returns:
        The learning rate of this step, above 0.

    Raises:
        TypeError, ValueError: a ``step`` or ``warmup`` that isn't an integer of at least 1, a
            ``last_step`` below ``step``, a ``peak`` that isn't a number above 0.

    Source:
        Loshchilov and Hutter (2017), *SGDR: Stochastic Gradient Descent with Warm Restarts*,
        equation (5), without the restarts.

    Example:
        >>> rates = [cosine_schedule(i, warmup=2, last_step=5, peak=1.0) for i in (1, 2, 3, 4, 5)]
        >>> [round(rate, 2) for rate in rates]
        [0.5, 1.0, 0.85, 0.5, 0.15]
    """
    check_count("step", step)
    check_count("warmup", warmup)
    check_count("last_step", last_step)
    check_number("peak", peak, 0, ends="()")
    if last_step < step:
        raise ValueError(f"last_step ({last_step}) must be at least step ({step})")
    if step <= warmup:
        return peak * step / warmup
    return peak / 2 * (1 + math.cos(math.pi * (step - warmup) / (last_step + 1 - warmup)))


def linear_cooldown(left: int, *, cooldown: int) -> float:
    r"""Compute the factor that brings the learning rate to 0 in a straight line.

    .. math:: \min\left(1,\; \frac{left}{cooldown + 1}\right)

    It lets a schedule that doesn't know the length of the run end near 0: the length can be decided
    as late as ``cooldown`` steps before the end.

    Args:
        left: steps left, including the one about to be taken; 1 in the last step.
        cooldown: steps in which the rate falls, at least 1.

    Returns:
        The factor for the learning rate of this step, above 0, at most 1.

    Raises:
        TypeError, ValueError: a ``left`` or ``cooldown`` that isn't an integer of at least 1.

    Source:
        Hägele et al. (2024), *Scaling Laws and Compute-Optimal Training Beyond Fixed Training
        Durations*, section 3.

    Example:
        >>> [linear_cooldown(left, cooldown=4) for left in (9, 5, 4, 3, 2, 1)]
        [1.0, 1.0, 0.8, 0.6, 0.4, 0.2]
    """
    check_count("left", left)
    check_count("cooldown", cooldown)
    return min(1.0, left / (cooldown + 1))
