"""What all unit tests share."""

import random

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same random numbers for a test whichever tests ran before it."""
    random.seed(0)
    torch.manual_seed(0)
