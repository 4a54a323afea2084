"""The models that `same_in_company` is tried on: honest ones, and others that hide their leak."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.checks.old.inputs import random_tensor

_TABLE = random_tensor(10, 3)


class Reader:
    """A model that gives each token a mixture of its sentence, apart from what `spoils` adds.

    `spoils(ids, mixed)` is added to the outputs `(B, S, 3)`.
    """

    def __init__(self, name: str, spoils: Callable[[Tensor, Tensor], Tensor | float]) -> None:
        self.__name__ = name  # what the report calls it
        self.spoils = spoils

    def __call__(self, ids: Tensor) -> Tensor:
        if ids.dim() != 2:
            raise ValueError(f"ids must be (B, S), got {tuple(ids.shape)}")
        real = (ids != 0)[..., None]  # (B, S, 1)
        x = _TABLE[ids]
        mean = (x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        mixed = x + mean
        # Rows of padding have no meaning, and hold whatever the others happen to be.
        mixed = torch.where(real, mixed, mixed.sum() + 7.0)
        return mixed + self.spoils(ids, mixed) * real


def no_mask(ids: Tensor, mixed: Tensor) -> Tensor:
    return _TABLE[ids].mean(1, keepdim=True)


def one_row(row: int) -> Callable[[Tensor, Tensor], Tensor]:
    def spoils(ids: Tensor, mixed: Tensor) -> Tensor:
        here = torch.arange(len(ids)) == row
        return here[:, None, None] * (ids == 0).sum(1)[:, None, None] * 0.3

    return spoils


def over_the_batch(ids: Tensor, mixed: Tensor) -> Tensor:
    real = (ids != 0)[..., None]
    return -(_TABLE[ids] * real).sum((0, 1)) / real.sum()


def last_token(ids: Tensor, mixed: Tensor) -> Tensor:
    last = torch.arange(ids.shape[1]) == (ids != 0).sum(1, keepdim=True) - 1
    # What it adds sums to 0 over the numbers of a token.
    return last[..., None] * (ids == 0).sum(1)[:, None, None] * torch.tensor([0.3, -0.3, 0.0])


def one_number(row: int, place: int, size: float) -> Callable[[Tensor, Tensor], Tensor]:
    """One number of one token moves, if its sentence is padded."""

    def spoils(ids: Tensor, mixed: Tensor) -> Tensor:
        moved = torch.zeros(mixed.shape)
        if row < len(ids):
            moved[row, place, 0] = size * float((ids[row] == 0).any())
        return moved

    return spoils


def against(ids: Tensor, mixed: Tensor) -> Tensor:
    """In a padded sentence, token 1 moves one way and the last token the other."""
    place, last = torch.arange(ids.shape[1]), (ids != 0).sum(1, keepdim=True) - 1
    moved = (place == 0).float() - (place == last).float()  # (B, S)
    return 0.3 * (moved * (ids == 0).any(1, keepdim=True))[..., None]


def not_a_number(ids: Tensor, mixed: Tensor) -> Tensor:
    return torch.where((ids == 0).any(1)[:, None, None], torch.nan, 0.0)
