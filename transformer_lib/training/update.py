"""One update of the parameters, from one batch or from several."""

from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.training.config import TrainConfig
from transformer_lib.training.distributed import Ranks, share, whole, wrap
from transformer_lib.training.losses import Loss, cross_entropy, is_counted, r_drop
from transformer_lib.training.schedules import (
    cosine_schedule,
    inverse_sqrt_schedule,
    linear_cooldown,
)
from transformer_lib.validation import as_device

__all__ = ["Updater", "half_is_fast"]


class Updater:
    """The optimizers, the schedule, clipping and mixed precision for one model.

    Args:
        ranks: the processes that share each update.
        pad_id: label that isn't learned; None learns all.

    Raises:
        ValueError: a model without parameters; no ``peak_lr``, and no ``config.d_model`` in the
            model to derive it from.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        ranks: Ranks | None = None,
        *,
        pad_id: int | None,
    ) -> None:
        self.config, self.ranks, self.pad_id = config, ranks or Ranks(), pad_id
        if not any(p.requires_grad for p in model.parameters()):
            raise ValueError("model must have parameters to train, got none")
        d_model = getattr(getattr(model, "config", None), "d_model", None)
        if config.peak_lr is not None:
            self._peak = config.peak_lr
        elif d_model is not None:
            self._peak = (d_model * config.warmup) ** -0.5
        else:
            raise ValueError("peak_lr must be given: the model has no config.d_model")
        self._wrapped = wrap(model, self.ranks, config.parallel)
        self.model: Any = torch.compile(self._wrapped) if config.compile else self._wrapped
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.device = self.parameters[0].device
        self._half = _half(config.amp, self.device)
        scales = self._half is torch.float16
        if scales and config.parallel == "fsdp" and self.ranks.size > 1:
            raise ValueError("parallel must be 'ddp' on a GPU that computes in float16, got 'fsdp'")
        # Where gradients don't need scaling, all it does is call backward() and step().
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scales)
        self.optimizers = _optimizers(model, config)
        self.lr = 0.0
        self.norm: Tensor | None = None  # of the last gradient, before clipping
        self._sum = torch.zeros((), device=self.device)

    def step(self, number: int, group: list[Any], left: int) -> int:
        """Make update ``number``, counted from 1; return how many tokens it learned from.

        ``left`` updates are still to come, including this one. The gradient is that of the loss per
        token, over all tokens of all batches in the group; each rank computes its share.
        """
        config = self.config
        # Counted on the CPU, before anything goes to a GPU: neither waits for the other.
        tokens = sum(int(is_counted(labels, self.pad_id).sum()) for *_, labels in group)
        self.lr = self._rate(number, left)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
            for settings in optimizer.param_groups:
                settings["lr"] = self.lr
        for batch, weight in share(self._wrapped, group, self.ranks):
            total = weight * self._loss_of(batch).total
            self.scaler.scale(total / max(tokens, 1)).backward()
            self._sum += total.detach()
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        if config.clip_norm is not None:
            norm = whole(nn.utils.clip_grad_norm_(self.parameters, config.clip_norm))
            self.norm = norm
            if not self.scaler.is_enabled():  # a scaler skips what has overflowed
                self._sum += 0 * norm  # NaN if the gradient is NaN or infinite, otherwise 0
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        return tokens

    def _rate(self, number: int, left: int) -> float:
        config = self.config
        if config.schedule == "cosine":
            last = number + left - 1
            return cosine_schedule(number, warmup=config.warmup, last_step=last, peak=self._peak)
        rate = inverse_sqrt_schedule(number, warmup=config.warmup, peak=self._peak)
        if config.cooldown is not None:
            rate *= linear_cooldown(left, cooldown=config.cooldown)
        return rate

    def _loss_of(self, batch: Any) -> Loss:
        config = self.config
        *inputs, labels = batch.to(self.device)
        if config.r_drop is not None:  # each row twice, with different dropout
            inputs = [torch.cat((x, x)) for x in inputs]
        with torch.autocast(self.device.type, self._half, enabled=self._half is not None):
            logits = self.model(*inputs)
        how: dict[str, Any] = {"label_smoothing": config.label_smoothing, "pad_id": self.pad_id}
        if config.r_drop is None:
            return cross_entropy(logits, labels, **how)
        one, other = logits.chunk(2)
        return r_drop(one, other, labels, alpha=config.r_drop, **how)

    def take_loss(self) -> float:
        """The loss summed since the last call. Not for every step: it stalls a GPU."""
        loss = sum(self.ranks.gather(self._sum.item())) / self.ranks.size
        self._sum.zero_()
        return loss


def _optimizers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    others = {name: p for name, p in model.named_parameters() if p.requires_grad}
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    names = [f"{name}.weight".removeprefix(".") for name in linear]
    matrices = [others.pop(name) for name in names if name in others]
    decayed = {"params": matrices, "weight_decay": config.weight_decay}
    undecayed = {"params": list(others.values()), "weight_decay": 0.0}
    adam: dict[str, Any] = {"lr": 0.0, "betas": config.betas, "eps": config.eps, "fused": True}
    if config.optimizer != "muon":
        return [torch.optim.AdamW([decayed, undecayed], **adam)]
    # The factor gives updates the size of Adam's, so the same learning rate suits both.
    muon = torch.optim.Muon([decayed], lr=0.0, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW([undecayed], **adam)]


def _half(amp: bool | str, device: torch.device) -> torch.dtype | None:
    """The half-precision type to compute in; None for float32 alone."""
    if amp == "auto":
        amp = device.type == "cuda"
    if isinstance(amp, str):
        return getattr(torch, amp)
    emulated = device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)
    return (torch.float16 if emulated else torch.bfloat16) if amp else None


def half_is_fast(device: str | torch.device) -> bool:
    """Return whether a device computes in half precision faster than in float32.

    A GPU does, and so does a processor with instructions for bfloat16: AVX-512 BF16, AMX, or ARM's.

    Raises:
        ValueError: ``device`` doesn't exist.
    """
    if as_device("device", device).type != "cpu":
        return True
    able = getattr(torch.cpu, "get_capabilities", dict)()  # of PyTorch 2.11 and later
    return any(able.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))
