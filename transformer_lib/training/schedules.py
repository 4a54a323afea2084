"""The learning rate as a function of the step: nothing to store, nothing to resume."""

from __future__ import annotations

from transformer_lib.arguments import check_count, check_number

__all__ = ["inverse_sqrt_schedule"]


def inverse_sqrt_schedule(
    step: int, *, warmup: int, d_model: int | None = None, peak: float | None = None
) -> float:
    r"""Rise in a straight line for ``warmup`` steps, then fall with the root of the step.

    .. math:: d_\text{model}^{-1/2} \cdot \min(step^{-1/2},\; step \cdot warmup^{-3/2})

    The highest value, at ``step == warmup``, is ``(d_model * warmup) ** -0.5``. A ``peak``
    in its place keeps the shape and sets that value.

    Args:
        step: the step about to be taken; the first is 1.
        warmup: steps until the peak, at least 1.
        d_model: width of the model, for the paper's peak.
        peak: the highest learning rate, instead of ``d_model``.

    Returns:
        The learning rate of this step.

    Raises:
        TypeError: a ``step``, ``warmup`` or ``d_model`` that is no integer, a ``peak`` that is
            no number.
        ValueError: a ``step``, ``warmup`` or ``d_model`` below 1, a ``peak`` not above 0;
            ``d_model`` and ``peak``, or neither.

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
        check_number("peak", peak, 0, closed=False)
        scale = peak * warmup**0.5
    else:
        raise ValueError(f"give either d_model or peak, got d_model={d_model} and peak={peak}")
    return scale * min(step**-0.5, step * warmup**-1.5)
