"""Every way of telling positions, in every model: causal, padded, cached, counted."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_properties import POSITIONS, made
from torch import Tensor

from transformer_lib import EncoderOnly, ModelConfig, Transformer

B, S, T, V = 3, 7, 5, 23
CONFIG = ModelConfig(
    vocab_size=V, d_model=36, n_heads=3, n_layers=2, n_decoder_layers=3, d_ff=29, max_len=19,
    dropout=0.0,
)  # fmt: skip
every_scheme = pytest.mark.parametrize("positions", POSITIONS)


def changed(kind: type, **changes: Any) -> Any:
    return made(kind, replace(CONFIG, **changes), seed=2)


def ids(length: int) -> Tensor:
    return torch.randint(3, V, (B, length))


@every_scheme
def test_only_what_tells_positions_tells_order(positions) -> None:
    """Swap two words: only with positions does a word before them notice, or one after them.

    One layer, so that no word can pass on to another what it noticed.
    """
    model, source = changed(EncoderOnly, positions=positions, n_layers=1), ids(S)
    source[:, 4] = source[:, 2] % (V - 4) + 4  # another word
    swapped = source.clone()
    swapped[:, [2, 4]] = source[:, [4, 2]]
    before, after = model.encode(source), model.encode(swapped)
    for place in (0, S - 1):
        same = torch.allclose(before[:, place], after[:, place], atol=1e-9)
        assert same is (positions == "none")


@pytest.mark.parametrize("positions", ["relative", "rotary", "alibi"])
def test_distances_are_all_that_these_tell(positions) -> None:
    """Padding before a text moves all its positions; who measures distances does not notice."""
    model, source = changed(EncoderOnly, positions=positions), ids(S)
    moved = torch.cat((torch.zeros(B, 2, dtype=torch.long), source), dim=1)
    torch.testing.assert_close(  # not closer than the rotary tables, which are in float32
        model.encode(moved)[:, 2:], model.encode(source), rtol=1e-4, atol=1e-5
    )


@every_scheme
def test_gradients_reach_every_parameter(positions) -> None:
    model = changed(Transformer, positions=positions)
    model(ids(S), ids(T)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
