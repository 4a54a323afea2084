"""Greedy decoding: which tokens, how probable, and when it ends."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_lib import ModelConfig, Transformer, greedy
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


def test_max_len_cuts_texts_off() -> None:
    ids, scores = greedy(Toy(), torch.tensor([[5, 6, 7, 8], [5, 2, 7, 8]]), max_len=3)
    assert ids.tolist() == [[5, 6, 7], [5, 2, 0]]
    assert scores[0].item() == pytest.approx(sum(map(log_probability, range(3))), abs=1e-5)


def test_special_ids_may_be_given() -> None:
    model = Toy()
    ids, _ = greedy(model, torch.tensor([[5, 9, 2, 3]]), max_len=4, bos_id=8, eos_id=9, pad_id=7)
    assert ids.tolist() == [[5, 9]]
    assert model.seen == [[8], [5]]
    source = torch.tensor([[9, 5], [5, 5]])
    assert greedy(Toy(), source, max_len=2, eos_id=9, pad_id=7).ids.tolist() == [[9, 7], [5, 5]]


def transformer() -> Transformer:
    torch.manual_seed(3)
    model = Transformer(CONFIG)
    for parameter in model.parameters():  # peaked enough to end at different times
        nn.init.normal_(parameter, std=0.4)
    return model.double()


SOURCE = torch.tensor([[5, 6, 7, 8, 9], [4, 4, 10, 2, 0], [9, 3, 2, 0, 0], [8, 2, 0, 0, 0]])


def test_scores_are_those_of_one_full_pass_and_no_token_was_better() -> None:
    model = transformer()
    ids, scores = greedy(model, SOURCE, max_len=10)
    assert len({tuple(row) for row in ids.tolist()}) > 1  # else this would test little
    bos = torch.full((len(SOURCE), 1), BOS)
    with torch.no_grad():
        logits = model.eval()(SOURCE, torch.cat((bos, ids[:, :-1]), dim=1))
    for row, chosen, score in zip(logits.log_softmax(-1), ids.tolist(), scores, strict=True):
        length = chosen.index(EOS) + 1 if EOS in chosen else len(chosen)
        assert row.argmax(-1)[:length].tolist() == chosen[:length]
        assert score.item() == pytest.approx(row.amax(-1)[:length].sum().item(), abs=1e-4)


def test_rows_do_not_affect_one_another() -> None:
    model = transformer()
    together = greedy(model, SOURCE, max_len=10).ids
    for i in range(len(SOURCE)):
        alone = greedy(model, SOURCE[i : i + 1], max_len=10).ids[0]
        assert together[i, : len(alone)].equal(alone)
        assert together[i, len(alone) :].eq(PAD).all()


def test_dropout_is_off_meanwhile_and_every_mode_is_restored() -> None:
    model = transformer().train()
    model.encoder.eval()  # a frozen part
    model.encoder.layers[0].train()
    before = [module.training for module in model.modules()]
    assert greedy(model, SOURCE, max_len=10).ids.equal(greedy(model, SOURCE, max_len=10).ids)
    assert [module.training for module in model.modules()] == before
    with pytest.raises(ValueError, match=r"vocab_size \(11\), got 20"):
        greedy(model, SOURCE + V - 1, max_len=10)
    assert [module.training for module in model.modules()] == before
    expected = greedy(model.eval(), SOURCE, max_len=10)
    assert greedy(model.train(), SOURCE, max_len=10).ids.equal(expected.ids)


def test_no_graph_is_kept() -> None:
    ids, scores = greedy(transformer(), SOURCE, max_len=10)
    assert not scores.requires_grad
    transformer()(SOURCE, ids).sum().backward()  # generated ids may be used in training


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_are_summed_in_float32(dtype: torch.dtype) -> None:
    assert greedy(transformer().to(dtype), SOURCE, max_len=10).scores.dtype is torch.float32


def test_errors() -> None:
    model = transformer()
    with pytest.raises(ValueError, match="source must not be empty"):
        greedy(model, SOURCE[:, :0], max_len=5)
    with pytest.raises(ValueError, match=r"length 14 is longer than max_len \(13\)"):
        greedy(model, SOURCE, max_len=14, eos_id=V)


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


def test_an_error_in_on_step_leaves_the_model_as_it_was() -> None:
    model = transformer().train()

    def fails(tokens: Tensor) -> None:
        assert not model.training
        raise KeyError

    with pytest.raises(KeyError):
        greedy(model, SOURCE, max_len=5, on_step=fails)
    assert model.training and not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (3, TypeError, "on_step must be a function, got int"),
        (lambda t: t, TypeError, "on_step must return None or a bool tensor, got torch.int64"),
        (lambda t: t[:1] > 0, ValueError, r"on_step must return shape \(2,\).*\(1,\)"),
    ],
)
def test_errors_of_on_step(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        greedy(Toy(), torch.tensor([[5, 6], [7, 8]]), max_len=2, on_step=wrong)
