"""Several models that decode together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.decoding.protocol import StepModel, log_probabilities


@dataclass
class States:
    """The states of all members."""

    of: list[Any]

    def reorder(self, index: Tensor) -> None:
        for state in self.of:
            state.reorder(index)


class Ensemble(nn.Module):
    r"""Combine several models: each step uses the mean of their probabilities.

    .. math:: p(y) = \frac{1}{n} \sum_{i=1}^{n} p_i(y)

    Models trained from different seeds seldom make the same mistake. They all read the same ids, so
    they must share a vocabulary and its special ids. Decoding costs as much as with each of them.

    Args:
        models: two or more modules that :func:`~transformer_lib.decoding.greedy` can use. The
            ensemble's ``config`` is that of the member with the smallest ``max_len``.

    Raises:
        TypeError: ``models`` isn't a list of modules with ``start``, ``step`` and ``config``.
        ValueError: fewer than two models; different vocabularies or special ids.

    Source:
        Sutskever et al. (2014), *Sequence to Sequence Learning with Neural Networks*, section 3.4.

    Example:
        >>> from transformer_lib import ModelConfig, Transformer, greedy
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, d_ff=20)
        >>> three = Ensemble([Transformer(config) for _ in range(3)])
        >>> greedy(three, torch.randint(3, 11, (2, 7)), max_len=5).ids.size(0)
        2
    """

    def __init__(self, models: Sequence[StepModel]) -> None:
        super().__init__()
        if not isinstance(models, list | tuple):
            raise TypeError(f"models must be a list of models, got {models!r}")
        if len(models) < 2:
            raise ValueError(f"models must be two or more, got {len(models)}")
        for i, model in enumerate(models):
            names = ("start", "step", "config")
            if not isinstance(model, nn.Module) or not all(hasattr(model, n) for n in names):
                raise TypeError(
                    f"models must be modules with start, step and config; number {i} is a "
                    f"{type(model).__name__}"
                )
        configs: list[Any] = [model.config for model in models]  # pyright: ignore
        shared = [f"{config.vocab_size} tokens, {config.special_ids}" for config in configs]
        if len(set(shared)) > 1:
            raise ValueError(f"models must share a vocabulary, got {' and '.join(shared)}")
        self.models = nn.ModuleList(models)  # pyright: ignore
        self.config: Any = min(configs, key=lambda config: getattr(config, "max_len", math.inf))

    def start(self, source: Tensor) -> States:
        """Map source ids ``(B, S)`` to the states of all models."""
        return States([model.start(source) for model in self.models])  # pyright: ignore

    def step(self, tokens: Tensor, state: States) -> tuple[Tensor, States]:
        """Map the newest tokens ``(B,)`` to the log of the mean probabilities, ``(B, V)``."""
        if not isinstance(state, States):
            raise TypeError(f"state must come from this ensemble's start, got {state!r}")
        found = []
        for i, model in enumerate(self.models):
            logits, state.of[i] = model.step(tokens, state.of[i])  # pyright: ignore
            found.append(log_probabilities(logits, tokens))
        return torch.stack(found).logsumexp(0) - math.log(len(found)), state
