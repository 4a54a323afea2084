"""Every way of telling positions, in every model: causal, padded, cached, counted."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from transformer_lib import (
    EncoderOnly,
    ModelConfig,
    Transformer,
)

B, S, T, V = 3, 7, 5, 23
CONFIG = ModelConfig(
    vocab_size=V, d_model=36, n_heads=3, n_layers=2, n_decoder_layers=3, d_ff=29, max_len=19,
    dropout=0.0,
)  # fmt: skip
SCHEMES = ("sinusoidal", "learned", "relative", "rotary", "alibi", "none")
every_scheme = pytest.mark.parametrize("positions", SCHEMES)


def made(kind: type, **changes) -> torch.nn.Module:
    """A model in float64, its parameters away from zeros and ones, which hide mistakes."""
    torch.manual_seed(2)
    model = kind(replace(CONFIG, **changes)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def ids(length: int) -> Tensor:
    return torch.randint(3, V, (B, length))


@every_scheme
def test_only_what_tells_positions_tells_order(positions) -> None:
    """Swap two words: only with positions does a word before them notice, or one after them.

    One layer, so that no word can pass on to another what it noticed.
    """
    model, source = made(EncoderOnly, positions=positions, n_layers=1), ids(S)
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
    model, source = made(EncoderOnly, positions=positions), ids(S)
    moved = torch.cat((torch.zeros(B, 2, dtype=torch.long), source), dim=1)
    torch.testing.assert_close(  # not closer than the rotary tables, which are in float32
        model.encode(moved)[:, 2:], model.encode(source), rtol=1e-4, atol=1e-5
    )


@every_scheme
def test_gradients_reach_every_parameter(positions) -> None:
    model = made(Transformer, positions=positions)
    model(ids(S), ids(T)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
