"""Random numbers that are the same at every run, and nobody else's changed."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers from `seed`; whoever calls finds the old ones, and PyTorch's settings."""
    state, others = torch.get_rng_state(), random.getstate()
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    numpy = sys.modules.get("numpy")  # who has not imported it draws nothing from it
    arrays = numpy.random.get_state() if numpy else None
    torch.default_generator.manual_seed(seed)  # the CPU's alone: that is where exercises run
    random.seed(seed)
    if numpy:
        numpy.random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(others)
        if numpy:
            numpy.random.set_state(arrays)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
