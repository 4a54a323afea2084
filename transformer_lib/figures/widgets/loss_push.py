"""LossPush: which way the loss pushes each logit (chapter 13)."""

from typing import Any

import traitlets

from .base import LiveFigure, Number, Numbers, compose, dress, same_length


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

    >>> LossPush(tokens=["a", "b", "c", "d"], logits=[0, 0, 0, 0], right=2)
    LossPush(logits=(0, 0, 0, 0), right=2, smoothing=0.0, rate=2.0)
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
