"""Sampling: how often each token is drawn, and what the scores mean."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from transformer_lib.config import SpecialIds
from transformer_lib.decoding import beam_search, greedy, sample
from transformer_lib.decoding.generate import distribution

LOGITS = torch.tensor([1.0, -1.0, 0.5, 2.0, -torch.inf, 0.0, 1.5])
V, PAD, EOS = 7, 0, 2
MANY = torch.zeros(20_000, 1, dtype=torch.int64)


class Urn:
    """A model that always gives the same logits."""

    config = SpecialIds()

    def __init__(self, logits: Tensor = LOGITS) -> None:
        self.logits = logits

    def start(self, source: Tensor) -> "Urn":
        return self

    def reorder(self, index: Tensor) -> None:
        pass

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.logits.expand(len(tokens), -1), state


def drawn(seed: int = 0, **settings: Any) -> Tensor:
    """How often each token is drawn, of 20,000 times."""
    generator = torch.Generator().manual_seed(seed)
    ids = sample(Urn(), MANY, max_len=1, generator=generator, eos_id=V, **settings).ids
    return ids[:, 0].bincount(minlength=V)


def check(counts: Tensor, probabilities: Tensor) -> None:
    """Chi-squared: with up to 6 degrees of freedom, it exceeds 22.5 once in a thousand times."""
    assert counts[probabilities == 0].sum() == 0
    expected = probabilities[probabilities > 0] * len(MANY)
    assert ((counts[probabilities > 0] - expected) ** 2 / expected).sum() < 22.5


@pytest.mark.parametrize("temperature", [0.3, 1, 4.0])
def test_tokens_are_drawn_as_often_as_their_probability_says(temperature: float) -> None:
    check(drawn(temperature=temperature), (LOGITS / temperature).softmax(-1))


def only(tokens: list[int], temperature: float = 1.0) -> Tensor:
    kept = torch.full_like(LOGITS, -torch.inf)
    kept[tokens] = LOGITS[tokens]
    return (kept / temperature).softmax(-1)


def test_top_k() -> None:
    check(drawn(top_k=1), only([3]))
    check(drawn(top_k=3), only([3, 6, 0]))
    check(drawn(top_k=3, temperature=2.0), only([3, 6, 0], 2.0))
    check(drawn(top_k=100), LOGITS.softmax(-1))
    # at most k, even of equals
    tied = sample(Urn(torch.zeros(V)), MANY, max_len=1, top_k=3).ids
    assert len(tied.unique()) == 3


def test_top_p_is_the_smallest_set_that_reaches_p() -> None:
    best = LOGITS.softmax(-1).sort(descending=True)
    reached = best.values.cumsum(0)  # 0.42, 0.67, 0.83, 0.92 …
    for n in range(1, 5):
        tokens = best.indices[:n].tolist()
        check(drawn(top_p=reached[n - 1].item() - 0.01), only(tokens))
        check(drawn(top_p=reached[n - 1].item() + 0.01), only([*tokens, int(best.indices[n])]))
    check(drawn(top_p=1e-9), only([3]))  # at least one
    check(drawn(top_p=1e-50), only([3]))  # 0 in float32
    check(drawn(top_p=1.0), LOGITS.softmax(-1))


def test_top_p_counts_what_temperature_and_top_k_leave() -> None:
    # 0.42, 0.25, 0.15 of all are 0.51, 0.31, 0.19 of the three: then two of them reach 0.8
    check(drawn(top_k=3, top_p=0.8), only([3, 6]))
    check(drawn(top_p=0.8), only([3, 6, 0]))
    check(drawn(top_p=0.8, temperature=0.5), only([3, 6], 0.5))


def test_nothing_is_sorted_where_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting 50,000 tokens takes longer than everything else."""

    def sorts(*_: Any, **__: Any) -> None:
        raise AssertionError("sorted")

    for name in ("topk", "sort", "argsort"):
        monkeypatch.setattr(Tensor, name, sorts)
    for settings in ({}, {"temperature": 0.5}, {"top_p": 1.0}):
        sample(Urn(), MANY[:3], max_len=2, **settings)
    with pytest.raises(AssertionError, match="sorted"):
        sample(Urn(), MANY[:3], max_len=2, top_p=0.9)


def test_a_small_probability_in_a_large_vocabulary_is_not_lost() -> None:
    logits = torch.full((50_000,), -20.0)  # half of the probability in 49,999 tokens of 1e-5 each
    logits[7] = -20.0 + math.log(49_999)
    ids = sample(Urn(logits), MANY[:2_000], max_len=1, generator=torch.Generator().manual_seed(0))
    drawn = ids.ids[:, 0]
    assert 900 < (drawn == 7).sum() < 1_100  # more than four standard deviations
    others = drawn[drawn != 7]
    assert len(others.unique()) > 0.97 * len(others)
    assert 0.45 < others.double().mean() / 50_000 < 0.55


def test_a_temperature_may_be_out_of_the_range_of_float32() -> None:
    for temperature, expected in ((1e-300, [1.0, 0.0, 0.0]), (1e300, [0.5, 0.5, 0.0])):
        log_probs = torch.tensor([[0.7, 0.3, 0.0]]).log()
        probs, _ = distribution(log_probs, temperature, top_k=None, top_p=None)
        assert probs[0].tolist() == expected


@pytest.mark.parametrize("temperature", [1e-3, 1e-45, 1e-300])
def test_at_temperatures_near_0_it_is_greedy(temperature: float) -> None:
    found = sample(Urn(), MANY[:5], max_len=3, temperature=temperature)
    expected = greedy(Urn(), MANY[:5], max_len=3)
    assert found.ids.equal(expected.ids) and found.scores.equal(expected.scores)
    with pytest.raises(ValueError, match=r"temperature must be above 0.*greedy"):
        sample(Urn(), MANY, max_len=3, temperature=0)


def test_each_row_ends_by_itself_and_scores_are_the_models_own() -> None:
    generator = torch.Generator().manual_seed(0)
    ids, scores = sample(Urn(), MANY[:50], max_len=9, temperature=2.0, top_k=4, generator=generator)
    assert ids.shape == (50, 9) and ids.dtype is torch.int64
    log_probs = LOGITS.log_softmax(-1)
    lengths = set()
    for row, score in zip(ids.tolist(), scores.tolist(), strict=True):
        length = row.index(EOS) + 1 if EOS in row else len(row)
        assert row[length:] == [PAD] * (9 - length)
        assert score == pytest.approx(log_probs[row[:length]].sum().item(), abs=1e-4)
        lengths.add(length)
    assert len(lengths) > 3


def test_a_generator_makes_it_repeatable_and_leaves_pytorchs_own_alone() -> None:
    assert drawn(seed=1).equal(drawn(seed=1))
    assert not drawn(seed=1).equal(drawn(seed=2))
    before = torch.get_rng_state()
    drawn(seed=1)
    assert torch.get_rng_state().equal(before)
    texts = []
    for _ in range(2):
        torch.manual_seed(5)
        texts.append(sample(Urn(), MANY[:20], max_len=5).ids)
    assert texts[0].equal(texts[1])


@pytest.mark.parametrize("decode", [greedy, sample, beam_search])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_and_infinity_are_the_models_fault(decode: Any, wrong: float) -> None:
    logits = LOGITS.clone()
    logits[5] = wrong
    for eos_id in (EOS, V):  # V is never drawn
        with pytest.raises(ValueError, match="model must return finite logits"):
            decode(Urn(logits), MANY[:3], max_len=4, eos_id=eos_id)


@pytest.mark.parametrize("decode", [greedy, sample, beam_search])
def test_logits_of_another_shape_are_too(decode: Any) -> None:
    class Flat(Urn):
        def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            return self.logits, state

    message = r"model must return logits of shape \(3, vocab_size\), got \(7,\)"
    with pytest.raises(ValueError, match=message):
        decode(Flat(), MANY[:3], max_len=4)


@pytest.mark.parametrize("decode", [greedy, sample, beam_search])
def test_the_logits_of_rows_that_have_ended_do_not_matter(decode: Any) -> None:
    class Breaks(Urn):
        """Ends a row, then gives it NaN, while another row continues."""

        def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            logits = torch.full((len(tokens), V), -20.0)
            logits[:, EOS] = 20.0
            if len(tokens) == 2:
                logits[1] = LOGITS
                logits[1, EOS] = logits[1, PAD] = -torch.inf
            for row, token in enumerate(tokens.tolist()):
                if token in (EOS, PAD):
                    logits[row] = torch.nan
            return logits, state

    settings = {"beam_size": 1} if decode is beam_search else {}
    ids = decode(Breaks(), MANY[:2], max_len=2, **settings)[0].view(2, -1)
    assert ids[0].tolist() == [EOS, PAD]


@pytest.mark.parametrize("decode", [greedy, sample, beam_search])
def test_a_first_token_for_all_or_for_each(decode: Any) -> None:
    class Echo(Urn):
        """Repeats what it reads, plus one."""

        def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            return 50.0 * torch.nn.functional.one_hot((tokens + 1) % V, V).float(), state

    settings = {"max_len": 2, **({"n_best": 1} if decode is beam_search else {})}
    for bos in (torch.tensor([3, 5]), torch.tensor([3, 5], dtype=torch.int32)):
        ids = decode(Echo(), MANY[:2], bos_id=bos, **settings)[0]
        assert ids.view(2, -1).tolist() == [[4, 5], [6, 0]]
    assert decode(Echo(), MANY[:2], bos_id=3, **settings)[0].view(2, -1).tolist() == [[4, 5]] * 2
    for wrong, error, message in (
        (torch.tensor([3]), ValueError, r"bos_id must have shape \(2,\).*got \(1,\)"),
        (torch.tensor([3.0, 5.0]), TypeError, "bos_id must be a tensor of int64 or int32"),
        (torch.tensor([3, -5]), ValueError, "bos_id must be at least 0.*got -5"),
        (True, TypeError, "bos_id must be an integer"),
    ):
        with pytest.raises(error, match=message):
            decode(Echo(), MANY[:2], bos_id=wrong, **settings)


@pytest.mark.parametrize("decode", [greedy, sample, beam_search])
@pytest.mark.parametrize(
    ("model", "source", "error", "message"),
    [
        (Urn, MANY, TypeError, "model must have the methods start and step, got type"),
        (Urn(), [[1, 2]], TypeError, "source must be a tensor of token ids, got list"),
        (Urn(), MANY[:0], ValueError, "source must not be empty"),
    ],
)
def test_errors_of_all(
    decode: Any, model: Any, source: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        decode(model, source, max_len=3)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"temperature": math.inf}, ValueError, "temperature must"),
        ({"top_k": 0}, ValueError, "top_k must be an integer of at least 1, got 0"),
        ({"top_p": 0.0}, ValueError, r"top_p must be in \(0, 1\], got 0.0"),
        ({"generator": 3}, TypeError, "generator must be a torch.Generator, got int"),
    ],
)
def test_errors(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sample(Urn(), MANY[:3], max_len=3, **wrong)
