"""The numbers that define a training run, checked once when they are written down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["TrainConfig"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train. The defaults are the paper's, and clipping.

    Args:
        max_steps: updates of the parameters in all.
        epochs: passes over the data in all. With both, whichever ends first; one is needed.
        warmup: steps of rising learning rate.
        peak_lr: highest learning rate; ``(d_model * warmup) ** -0.5``, the paper's, if None.
        betas: Adam's decay rates of the mean and the mean square of the gradients.
        eps: Adam's small number in the denominator.
        label_smoothing: ε of :func:`~transformer_lib.training.losses.cross_entropy`.
        clip_norm: gradients longer than this, all taken together, are shortened to it; None
            leaves them.
        accumulate: batches per update.
        seed: of dropout and all else that is drawn in training.
        amp: compute in bfloat16 where that is safe; ``"auto"``: on a GPU.
        pad_id: label that is not learned.
        log_every: steps between two records.
        validate_every: steps between two validations; every epoch if None.
        checkpoint_every: steps between two checkpoints; every epoch if None.

    Raises:
        ValueError: a number out of its range, with its name and value.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, sections 5.3 and 5.4.

    Example:
        >>> TrainConfig(epochs=30, warmup=2000, peak_lr=0.005).betas
        (0.9, 0.98)
    """

    max_steps: int | None = None
    epochs: int | None = None
    warmup: int = 4000
    peak_lr: float | None = None
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    label_smoothing: float = 0.1
    clip_norm: float | None = 1.0
    accumulate: int = 1
    seed: int = 0
    amp: bool | Literal["auto"] = "auto"
    pad_id: int = 0
    log_every: int = 50
    validate_every: int | None = None
    checkpoint_every: int | None = None

    def __post_init__(self) -> None:
        if self.max_steps is None and self.epochs is None:
            raise ValueError("max_steps or epochs must be given, got neither")
        for name in _COUNTS:
            count = getattr(self, name)
            if count is None and name not in ("warmup", "accumulate", "log_every"):
                continue
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {count!r}")
        for name in ("peak_lr", "clip_norm", "eps"):
            value: float | None = getattr(self, name)
            if value is None and name != "eps":
                continue
            if value is None or not value > 0:
                raise ValueError(f"{name} must be above 0, got {value!r}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers in [0, 1), got {self.betas!r}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), got {self.label_smoothing!r}")
        if self.amp not in (True, False, "auto"):
            raise ValueError(f"amp must be True, False or 'auto', got {self.amp!r}")

    def arithmetic(self) -> dict[str, Any]:
        """The settings that decide what the parameters become.

        The others, how long and how often to report, may change when a run is resumed.
        """
        return {name: value for name, value in asdict(self).items() if name not in _FREE}


_FREE = ("max_steps", "epochs", "log_every", "validate_every", "checkpoint_every")
_COUNTS = (*_FREE, "warmup", "accumulate")
