"""The learning rate as a function of the step: nothing to store, nothing to resume."""

from __future__ import annotations

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
        ValueError: a ``step`` or ``warmup`` below 1, ``d_model`` or ``peak`` not above 0, both
            of them or neither.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, section 5.3, equation (3).

    Example:
        >>> round(inverse_sqrt_schedule(4000, warmup=4000, d_model=512), 6)  # base: the peak
        0.000699
        >>> inverse_sqrt_schedule(500, warmup=2000, peak=0.005)  # a quarter of the way up
        0.00125
    """
    if step < 1:
        raise ValueError(f"step must be at least 1, the first step; got {step}")
    if warmup < 1:
        raise ValueError(f"warmup must be at least 1 step, got {warmup}")
    if (d_model is None) == (peak is None):
        raise ValueError(f"give either d_model or peak, got d_model={d_model} and peak={peak}")
    for name, value in (("d_model", d_model), ("peak", peak)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    scale = d_model**-0.5 if d_model is not None else peak * warmup**0.5
    return scale * min(step**-0.5, step * warmup**-1.5)
