"""The settings of a training run."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from transformer_lib.validation import check_count, check_number, plain_number

__all__ = ["TrainConfig"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of a training run. The defaults are the paper's, plus gradient clipping.

    Args:
        max_steps: total number of updates.
        epochs: total number of passes over the data. At least one of the two is needed; with both,
            the run ends at whichever comes first.
        warmup: steps in which the learning rate rises.
        cooldown: steps at the end of the run in which the rate falls to 0. May be given when a run
            is resumed.
        peak_lr: peak learning rate; the paper's, ``(d_model * warmup) ** -0.5``, if None.
        schedule: ``"inverse_sqrt"``, the paper's curve, or ``"cosine"``, which falls to 0 at the
            end of the run.
        optimizer: ``"adam"``; ``"adamw"``, which also decays weights; or ``"muon"``:
            ``torch.optim.Muon`` for the weights of ``nn.Linear`` modules and AdamW for all others,
            at the same learning rate.
        weight_decay: the share of a weight that each update removes, times the learning rate. The
            weights of ``nn.Linear`` modules decay; norms, biases and embeddings don't.
        betas: Adam's decay rates for the mean and the mean square of the gradients.
        eps: Adam's small number in the denominator.
        label_smoothing: ε of :func:`~transformer_lib.training.losses.cross_entropy`.
        r_drop: α of :func:`~transformer_lib.training.losses.r_drop`, for which each batch runs
            twice; None runs it once.
        clip_norm: clip the norm of all gradients together to this; None doesn't clip.
        accumulate: batches per update, in each process.
        seed: of everything that is random in training.
        amp: compute in half precision where that is safe; ``"auto"``: on a GPU. ``True`` uses
            bfloat16, or float16 on a GPU that only emulates bfloat16; ``"bfloat16"`` and
            ``"float16"`` choose one. In float16 the loss is scaled, so that small gradients don't
            vanish, and an update whose gradients overflow is skipped. On a CPU without bfloat16
            instructions (AVX-512 BF16, AMX), amp slows training down several times.
        compile: compile the model with ``torch.compile``, which takes a minute at the start.
        parallel: how several processes share the model: ``"ddp"`` gives each a copy, ``"fsdp"`` a
            part of each layer's parameters, for a model that is too large for one.
        log_every: steps between two log entries.
        validate_every: steps between two validations; every epoch if None.
        checkpoint_every: steps between two checkpoints; every epoch if None.
        keep_last: also keep the models of this many last checkpoints, for
            :func:`~transformer_lib.training.checkpoint.average_checkpoints`.

    Raises:
        TypeError: a setting of the wrong type.
        ValueError: a setting out of its range, or two that don't go together.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, sections 5.3 and 5.4; Jordan et al.
        (2024), *Muon: An optimizer for hidden layers in neural networks*; Liu et al. (2025), *Muon
        is Scalable for LLM Training*, section 2.2, on the common learning rate.

    Example:
        >>> TrainConfig(epochs=30, warmup=2000, peak_lr=0.005).betas
        (0.9, 0.98)
    """

    max_steps: int | None = None
    epochs: int | None = None
    warmup: int = 4000
    cooldown: int | None = None
    peak_lr: float | None = None
    schedule: Literal["inverse_sqrt", "cosine"] = "inverse_sqrt"
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    label_smoothing: float = 0.1
    r_drop: float | None = None
    clip_norm: float | None = 1.0
    accumulate: int = 1
    seed: int = 0
    amp: bool | Literal["auto", "bfloat16", "float16"] = "auto"
    compile: bool = False
    parallel: Literal["ddp", "fsdp"] = "ddp"
    log_every: int = 50
    validate_every: int | None = None
    checkpoint_every: int | None = None
    keep_last: int | None = None

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = plain_number(getattr(self, name))
            object.__setattr__(self, name, value)
            choices = _choices(kind)
            if kind in (int, int | None):
                check_count(name, value, least=0 if name == "seed" else 1, optional=kind is not int)
            elif choices and (not isinstance(value, bool | str) or value not in choices):
                wanted = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {wanted}, got {value!r}")
        if self.max_steps is None and self.epochs is None:
            raise ValueError("max_steps or epochs must be given, got neither")
        for name in ("eps", "peak_lr", "clip_norm", "r_drop"):
            if name == "eps" or getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0, ends="()")
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2^63, got {self.seed}")
        if not isinstance(self.betas, tuple | list) or len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers in [0, 1), got {self.betas!r}")
        for beta in self.betas:
            check_number("betas", beta, 0, 1)
        object.__setattr__(self, "betas", tuple(map(plain_number, self.betas)))  # JSON has lists
        check_number("label_smoothing", self.label_smoothing, 0, 1)
        check_number("weight_decay", self.weight_decay, 0)
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError(
                f"weight_decay must be 0 with optimizer='adam', which decays nothing; got "
                f"{self.weight_decay}. Use optimizer='adamw'"
            )
        if self.schedule == "cosine" and self.cooldown is not None:
            raise ValueError(
                f"cooldown must be None with schedule='cosine', which ends at 0 by itself; got "
                f"{self.cooldown}"
            )
        if self.amp == "float16" and self.parallel == "fsdp":
            raise ValueError("amp must be 'bfloat16' with parallel='fsdp', got 'float16'")
        if self.optimizer == "muon" and self.parallel == "fsdp":
            raise ValueError(
                "optimizer must be 'adam' with parallel='fsdp': Muon needs whole matrices"
            )

    def arithmetic(self) -> dict[str, Any]:
        """Return the settings that must stay the same when a run is resumed.

        How long to train, on how many processes and how often to report can change. A cosine
        schedule fixes the length as well.
        """
        free = _FREE - ({"max_steps", "epochs"} if self.schedule == "cosine" else set())
        return {name: value for name, value in asdict(self).items() if name not in free}


_FREE = {"max_steps", "epochs", "cooldown", "parallel", "compile"}
_FREE |= {"log_every", "validate_every", "checkpoint_every", "keep_last"}


def _choices(kind: Any) -> tuple[bool | str, ...]:
    """The values that an annotation allows if it's a bool, a Literal, or one or the other."""
    if kind is bool:
        return True, False
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(choice for each in get_args(kind) for choice in _choices(each))
