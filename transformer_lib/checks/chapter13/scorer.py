"""The model, the optimizer and the batches that `joint_update` is tried on."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transformer_lib.checks.inputs import random_tensor

__all__ = ["Descent", "Part", "Scorer"]


class Part(NamedTuple):
    """A batch, as `collate` makes it."""

    source: Tensor
    target_input: Tensor
    labels: Tensor


class _Noticed(torch.autograd.Function):
    """The logits as they are; on the way back it is noted whether another part came between."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, model: Scorer, source: Tensor) -> Tensor:
        ctx.model, ctx.source = model, source
        return logits.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore
        ctx.model.late |= ctx.model.newest is not ctx.source
        return gradient, None, None


class Scorer(nn.Module):
    """As little of a translator as can be trained: what is read, and the mean of the source.

    `late` says whether a part went backward after another one had gone through the model.
    """

    def __init__(self, vocab_size: int = 6, d_model: int = 3) -> None:
        super().__init__()
        self.newest: Tensor | None = None
        self.late = False
        self.table = nn.Parameter(random_tensor(vocab_size, d_model))
        self.head = nn.Parameter(random_tensor(d_model, vocab_size, seed=1))

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        found = self.table[source].mean(1, keepdim=True)
        logits = (self.table[target_input] + found) @ self.head
        if not logits.requires_grad:
            return logits
        self.newest = source
        return _Noticed.apply(logits, self, source)  # type: ignore


class Descent(torch.optim.SGD):
    """Plain descent: Adam would hide a gradient that is a constant times too large."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), lr=0.5)

    def __repr__(self) -> str:
        return "torch.optim.SGD(model.parameters(), lr=0.5)"
