"""Training: a loss with its count, schedules, checkpoints, and the loop."""

from transformer_lib.training.checkpoint import (
    average_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from transformer_lib.training.config import TrainConfig
from transformer_lib.training.distributed import local_device
from transformer_lib.training.evaluation import evaluate
from transformer_lib.training.log import History
from transformer_lib.training.loop import fit
from transformer_lib.training.losses import Loss, cross_entropy, r_drop
from transformer_lib.training.schedules import (
    cosine_schedule,
    inverse_sqrt_schedule,
    linear_cooldown,
)
from transformer_lib.training.update import half_is_fast

__all__ = [
    "History",
    "Loss",
    "TrainConfig",
    "average_checkpoints",
    "cosine_schedule",
    "cross_entropy",
    "evaluate",
    "fit",
    "half_is_fast",
    "inverse_sqrt_schedule",
    "linear_cooldown",
    "load_checkpoint",
    "local_device",
    "r_drop",
    "save_checkpoint",
]
