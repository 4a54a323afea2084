"""Sampling: how often each token is drawn, and what the scores mean."""

from typing import Any

import pytest
import torch
from torch import Tensor

from transformer_lib.config import SpecialIds
from transformer_lib.decoding import beam_search, greedy, sample

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


@pytest.mark.parametrize("temperature", [1e-3, 1e-300])
def test_at_temperatures_near_0_it_is_greedy(temperature: float) -> None:
    found = sample(Urn(), MANY[:5], max_len=3, temperature=temperature)
    expected = greedy(Urn(), MANY[:5], max_len=3)
    assert found.ids.equal(expected.ids) and found.scores.equal(expected.scores)
    check(drawn(temperature=1e300), LOGITS.isfinite() / 6)  # each that can be drawn, equally often


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
    for wrong, message in (
        (torch.tensor([3]), r"bos_id must have shape \(2,\).*got \(1,\)"),
        (torch.tensor([3, -5]), "bos_id must be at least 0.*got -5"),
    ):
        with pytest.raises(ValueError, match=message):
            decode(Echo(), MANY[:2], bos_id=wrong, **settings)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source": MANY[:0]}, "source must not be empty"),
        ({"temperature": 0}, "temperature must be a finite number above 0, got 0"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\], got 0.0"),
    ],
)
def test_errors(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample(Urn(), **{"source": MANY[:3], "max_len": 3} | wrong)
