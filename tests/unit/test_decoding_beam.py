"""Beam search against every possible text and against a plain search by hand."""

import itertools
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transformer_lib import ModelConfig, Transformer
from transformer_lib.config import SpecialIds
from transformer_lib.decoding import Beams, beam_search

V, PAD, BOS, EOS = 5, 0, 1, 2
SOURCE = torch.tensor([[3, 4, 4], [4, 3, 0], [3, 3, 3]])


@dataclass
class Hashes:
    """The state of `Toy`: a hash of what each row has read."""

    value: Tensor
    moves: list[list[int]]

    def reorder(self, index: Tensor) -> None:
        self.moves.append(index.tolist())
        self.value = self.value[index]


class Toy:
    """Random logits, different for every source and every beginning."""

    config = SpecialIds()

    def __init__(self, seed: int, spread: float = 1.5) -> None:
        self.table = spread * torch.randn(10_007, V, generator=torch.Generator().manual_seed(seed))
        self.moves: list[list[int]] = []
        self.rows: list[int] = []

    def start(self, source: Tensor) -> Hashes:
        weights = torch.tensor([7, 77, 777])
        return Hashes((source * weights).sum(-1), self.moves)

    def step(self, tokens: Tensor, state: Hashes) -> tuple[Tensor, Hashes]:
        self.rows.append(len(tokens))
        state = replace(state, value=(state.value * 131 + tokens + 17) % len(self.table))
        return self.table[state.value], state

    def next_log_probs(self, source: Tensor, text: tuple[int, ...]) -> list[float]:
        state, logits = self.start(source[None]), torch.empty(0)
        for token in (BOS, *text):
            logits, state = self.step(torch.tensor([token]), state)
        return logits[0].double().log_softmax(-1).tolist()


def penalty(length: int, alpha: float) -> float:
    return (5 + length) ** alpha / 6**alpha


def by_hand(
    model: Toy, source: Tensor, max_len: int, k: int, alpha: float, early: bool
) -> list[tuple]:
    """The same search with lists, which never stops before it must."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    ends: list[tuple] = []
    for length in range(1, max_len + 1):
        candidates = sorted(
            (
                (score + gain, (*text, token))
                for score, text in live
                for token, gain in enumerate(model.next_log_probs(source, text))
            ),
            reverse=True,
        )
        for score, text in candidates[:k]:
            if text[-1] == EOS or length == max_len:
                ends.append((score / penalty(length, alpha), score, text))
        ends = sorted(ends, reverse=True)[:k]
        live = [candidate for candidate in candidates if candidate[1][-1] != EOS][:k]
        if early and len(ends) == k:
            break
    return ends


def check(beams: Beams, row: int, expected: list[tuple]) -> None:
    for i, (rank, score, text) in enumerate(expected):
        padded = [*text, *[PAD] * (beams.ids.size(2) - len(text))]
        assert beams.ids[row, i].tolist() == padded
        assert beams.scores[row, i].item() == pytest.approx(score, abs=1e-4)
        assert beams.ranks[row, i].item() == pytest.approx(rank, abs=1e-4)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_it_is_the_search_by_hand_and_beams_swap_parents(k: int, early: bool) -> None:
    swapped, steps = False, dict.fromkeys((1, k), 0)
    for seed, alpha, n in itertools.product(range(4), (0.0, 0.6, 3.0), steps):
        model = Toy(seed)
        beams = beam_search(model, SOURCE, max_len=7, beam_size=k, n_best=n, length_penalty=alpha,
                            early_stopping=early)  # fmt: skip
        steps[n] += len(model.rows)
        swapped = swapped or any(move != sorted(move) for move in model.moves)
        assert beams.best.ids.equal(beams.ids[:, 0]) and beams.best.scores.equal(beams.scores[:, 0])
        for row, source in enumerate(SOURCE):
            check(beams, row, by_hand(model, source, 7, k, alpha, early)[:n])
    assert swapped == (k > 1)
    assert early or k == 1 or steps[1] < steps[k]  # fewer texts end the search sooner


def test_rows_that_have_ended_leave_the_batch() -> None:
    model = Toy(1)
    beam_search(model, SOURCE, max_len=9)
    assert model.rows[:2] == [3, 12]  # one beginning per row, then four
    assert model.rows[-1] < 12 and model.rows[1:] == sorted(model.rows[1:], reverse=True)


def test_a_beam_that_is_wide_enough_finds_everything() -> None:
    draw, short = random.Random(0), 0
    for seed in range(40):
        max_len, alpha = draw.randint(1, 4), draw.choice((0.0, 0.6, 1.0, 3.0))
        n, model = draw.choice((1, 2, 5, 300)), Toy(seed, spread=draw.choice((0.5, 1.5, 4.0)))
        for token in draw.sample(range(V), draw.choice((0, 0, 1, 3))):
            model.table[:, token] = -torch.inf  # with two tokens left there are few texts
        beams = beam_search(model, SOURCE, max_len=max_len, beam_size=400, n_best=n,
                            length_penalty=alpha, early_stopping=seed % 2 == 0)  # fmt: skip
        assert beams.ids.shape[:2] == (len(SOURCE), n) and beams.ids.dtype is torch.int64
        for row, source in enumerate(SOURCE):
            texts = by_hand(model, source, max_len, 1000, alpha, early=False)
            texts = [text for text in texts if text[1] > -torch.inf]
            check(beams, row, texts[:n])
            assert beams.ids[row, len(texts) :].eq(PAD).all()
            assert beams.scores[row, len(texts) :].isneginf().all()
            assert beams.ranks[row, len(texts) :].isneginf().all()
            short += len(texts) < n
    assert short > 15


def transformer(**changes: Any) -> Transformer:
    torch.manual_seed(4)
    config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=17, dropout=0.5,
                         max_len=23, **changes)  # fmt: skip
    model = Transformer(config)
    for parameter in model.parameters():  # peaked enough to end at different times
        nn.init.normal_(parameter, std=0.4)
    return model.double()


SENTENCES = torch.tensor([[5, 6, 7, 8, 9], [4, 4, 10, 2, 0], [9, 3, 2, 0, 0], [8, 2, 0, 0, 0]])


def test_beams_of_a_sentence_share_its_memory() -> None:
    model = transformer().eval()
    with torch.inference_mode():
        state = model.start(SENTENCES)
        tokens = torch.full((len(SENTENCES),), BOS)
        source = SENTENCES
        for index, share in (
            ([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], 3),
            ([2, 1, 0, 8, 8, 8, 9, 11, 10], 3),  # the second sentence has ended
            ([1, 0, 2, 4, 5, 3, 6], 1),  # uneven numbers of rows: each has its own memory
            ([6, 6, 0, 0, 1, 1], 2),
        ):
            logits, state = model.step(tokens, state)
            state.reorder(torch.tensor(index))
            source, tokens = source[index], logits.argmax(-1)[index]
            assert state.rows == len(index) and state.share == share
            assert len(state.memory) == len(index) // share
        logits, _ = model.step(tokens, state)
        torch.testing.assert_close(state.memory.repeat_interleave(2, 0), model.encode(source))


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"n_best \(5\) must be at most beam_size \(4\)"):
        beam_search(Toy(0), SOURCE, max_len=5, n_best=5)
