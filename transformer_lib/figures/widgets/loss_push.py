"""LossPush: which way the loss pushes each logit (chapter 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from .base import LiveFigure, Number, Numbers, compose, dress, same_length

if TYPE_CHECKING:
    from torch import Tensor

LOW, HIGH = -4, 8  # the range of logits to draw


class LossPush(LiveFigure):
    r"""The logits of a few tokens, and which way the loss pushes each of them.

    With the target :math:`t_k = (1 - \epsilon)\,[k = y] + \epsilon / V`, a step of gradient descent
    moves each logit :math:`z_k` by the learning rate times

    .. math:: -\frac{\partial L}{\partial z_k} = t_k - p_k, \quad p = \mathrm{softmax}(z)

    Args:
        tokens: 2 to 6 tokens of 1 to 6 letters.
        logits: one per token, from -40 to 40; the picture shows -4 to 8.
        right: the right token, from 0.
        smoothing: :math:`\epsilon`, the share of the target that is spread evenly, 0 to 0.5.
        rate: the learning rate of the steps, 0.5 to 8.

    Raises:
        ValueError: a number out of range, an empty or too long token, or logits that don't fit the
            tokens.

    Source:
        Szegedy et al. (2016), *Rethinking the Inception Architecture*, section 7.

    >>> figure = LossPush(tokens=["a", "b", "c", "d"], logits=[0, 0, 0, 0], right=2)
    >>> figure
    LossPush(logits=(0, 0, 0, 0), right=2, smoothing=0.0, rate=2.0)
    >>> figure.push().tolist()
    [-0.25, -0.25, 0.75, -0.25]
    """

    _esm = compose("loss_push.js")
    _css = dress("loss_push.css")
    shown = ("logits", "right", "smoothing", "rate")

    tokens = traitlets.List(traitlets.Unicode(), ["u", "h", "t", "<eos>", "i"], 2, 6).tag(sync=True)
    logits = Numbers([0.5, 0, -0.5, 1, 2.5], low=-40, high=40)
    right = Number(0, low=0, high=5, whole=True)
    smoothing = Number(0, low=0, high=0.5)
    rate = Number(2, low=0.5, high=8)

    def __init__(self, **numbers: Any) -> None:
        super().__init__(**numbers)
        same_length(self, ("tokens", "logits"))
        for token in self.tokens:
            if not 1 <= len(token) <= 6:
                raise ValueError(f"tokens must have 1 to 6 letters each; got {token!r}")
        if self.right >= len(self.tokens):
            raise ValueError(
                f"right must be below {len(self.tokens)}, the number of tokens; got {self.right}"
            )

    def target(self) -> Tensor:
        """Return the target distribution, ``(V,)``."""
        import torch

        even = self.smoothing / len(self.tokens)
        target = torch.full((len(self.tokens),), even, dtype=torch.float64)
        target[self.right] += 1 - self.smoothing
        return target

    def loss(self) -> float:
        """Return the library's cross-entropy, in nats."""
        return self._loss_and_push()[0]

    def push(self) -> Tensor:
        """Return minus the gradient of the library's cross-entropy, ``(V,)``."""
        return self._loss_and_push()[1]

    def floor(self) -> float:
        """Return the lowest possible loss, where the softmax is the target."""
        return abs(float(self.target().xlogy(self.target()).sum()))

    def rest(self) -> list[float] | None:
        """Return the logits with the same sum and no push; None without smoothing."""
        if self.smoothing == 0:
            return None
        logs = self.target().log()
        return (logs + (sum(self.logits) - logs.sum()) / len(logs)).tolist()

    def after(self, steps: int) -> list[float]:
        """Return the logits after some steps of gradient descent."""
        now = LossPush(**{name: getattr(self, name) for name in ("tokens", *self.shown)})
        for _ in range(steps):
            pushes = now.push().tolist()
            pairs = zip(now.logits, pushes, strict=True)
            now.logits = [logit + self.rate * push for logit, push in pairs]
        return now.logits

    def _loss_and_push(self) -> tuple[float, Tensor]:
        import torch

        from ...training.losses import cross_entropy

        logits = torch.tensor([self.logits], dtype=torch.float64, requires_grad=True)
        label = torch.tensor([self.right])
        loss = cross_entropy(logits, label, label_smoothing=self.smoothing, pad_id=-1).total
        (gradient,) = torch.autograd.grad(loss, logits)
        return loss.item(), -gradient[0]
