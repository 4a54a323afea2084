"""Greedy decoding: which tokens, how probable, and when it ends."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_lib import ModelConfig, Transformer, beam_search, greedy
from transformer_lib.config import SpecialIds

V, PAD, BOS, EOS = 11, 0, 1, 2
CONFIG = ModelConfig(
    vocab_size=V, d_model=12, n_heads=3, n_layers=2, d_ff=17, dropout=0.5, max_len=13
)


@dataclass
class Script:
    """The state of `Toy`: its source, and how far it has come."""

    source: Tensor
    position: int = 0

    def reorder(self, index: Tensor) -> None:
        self.source = self.source[index]


class Toy:
    """Copies its source with growing confidence; not a module."""

    config = SpecialIds()

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def start(self, source: Tensor) -> Script:
        return Script(source)

    def step(self, tokens: Tensor, state: Script) -> tuple[Tensor, Script]:
        self.seen.append(tokens.tolist())
        logits = torch.zeros(len(tokens), V)
        wanted = state.source[:, state.position]
        logits[torch.arange(len(tokens)), wanted] = 1.0 + state.position
        return logits, Script(state.source, state.position + 1)


def log_probability(position: int) -> float:
    """The log-softmax of one logit 1 + position among zeros."""
    logits = torch.tensor([1.0 + position] + [0.0] * (V - 1))
    return logits.log_softmax(-1)[0].item()


def test_each_row_ends_by_itself_and_pads_follow() -> None:
    model = Toy()
    source = torch.tensor([[5, 6, 2, 7, 8, 9], [2, 7, 7, 7, 7, 7], [4, 5, 6, 7, 2, 9]])
    ids, scores = greedy(model, source, max_len=6)
    assert ids.tolist() == [[5, 6, 2, 0, 0], [2, 0, 0, 0, 0], [4, 5, 6, 7, 2]]  # and no sixth step
    assert ids.dtype is torch.int64
    # the first input is <bos>, then what was chosen, and padding for rows that have ended
    assert model.seen == [[1, 1, 1], [5, 2, 4], [6, 0, 5], [2, 0, 6], [0, 0, 7]]
    # <eos> counts in a score, padding doesn't
    for score, n_tokens in zip(scores.tolist(), (3, 1, 5), strict=True):
        assert score == pytest.approx(sum(map(log_probability, range(n_tokens))), abs=1e-5)


def test_special_ids_may_be_given() -> None:
    model = Toy()
    ids, _ = greedy(model, torch.tensor([[5, 9, 2, 3]]), max_len=4, bos_id=8, eos_id=9, pad_id=7)
    assert ids.tolist() == [[5, 9]]
    assert model.seen == [[8], [5]]
    source = torch.tensor([[9, 5], [5, 5]])
    assert greedy(Toy(), source, max_len=2, eos_id=9, pad_id=7).ids.tolist() == [[9, 7], [5, 5]]


SOURCE = torch.tensor([[5, 6, 7, 8, 9], [4, 4, 10, 2, 0], [9, 3, 2, 0, 0], [8, 2, 0, 0, 0]])


@pytest.mark.parametrize("decode", [greedy, beam_search])
def test_a_model_is_left_as_it_was_and_may_be_trained_on_its_texts(decode: Any) -> None:
    torch.manual_seed(3)
    model = Transformer(CONFIG)
    for parameter in model.parameters():  # peaked enough to end at different times
        nn.init.normal_(parameter, std=0.4)
    model.encoder.eval()  # a frozen part
    model.encoder.layers[0].train()
    before = [module.training for module in model.modules()]
    ids, scores, *_ = decode(model, SOURCE, max_len=10)
    assert decode(model, SOURCE, max_len=10).ids.equal(ids)  # dropout was off
    assert [module.training for module in model.modules()] == before
    with pytest.raises(ValueError, match=r"vocab_size \(11\), got 20"):
        decode(model, SOURCE + V - 1, max_len=10)
    assert [module.training for module in model.modules()] == before
    assert not scores.requires_grad
    model(SOURCE, ids.view(4, -1, ids.size(-1))[:, 0]).sum().backward()


# --- every token as it comes ---------------------------------------------------------------------


def test_on_step_sees_every_step_and_may_end_rows() -> None:
    told: list[list[int]] = []

    def third_row_at_first(tokens: Tensor) -> Tensor | None:
        told.append(tokens.tolist())
        return torch.tensor([False, False, True]) if len(told) == 1 else None

    source = torch.tensor([[5, 6, 7, 2], [4, 2, 7, 7], [8, 8, 8, 8]])
    ids, _ = greedy(Toy(), source, max_len=9, on_step=third_row_at_first)
    assert ids.tolist() == [[5, 6, 7, 2], [4, 2, 0, 0], [8, 0, 0, 0]]
    assert told == ids.T.tolist()
