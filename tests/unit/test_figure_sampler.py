"""Sampler: page and library sample from the same probabilities."""

import math

import pytest
import torch

from transformer_lib.decoding.generate import distribution
from transformer_lib.figures.widgets import Sampler

MODULE = "sampler.js"
SETTINGS = [
    (1.0, 100_000, 1.0),
    (0.1, 100_000, 1.0),
    (3.2, 5, 1.0),
    (1.0, 1, 0.01),
    (0.7, 13, 0.9),
    (1.5, 40, 0.5),
    (1.0, 3, 0.99),
]


def logits(n=23, seed=0):
    return (2 * torch.randn(n, generator=torch.Generator().manual_seed(seed))).tolist()


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), SETTINGS)
def test_page_and_library_have_the_same_probabilities(js, temperature, top_k, top_p):
    row = logits()
    page = js(
        MODULE, "return m.reshaped(given);",
        logits=row, temperature=temperature, top_k=top_k, top_p=top_p,
    )  # fmt: skip
    log_probs = torch.tensor([row]).log_softmax(-1)
    probs, ids = distribution(log_probs, temperature, top_k, top_p)
    want = torch.zeros(1, len(row)).scatter(1, ids, probs)[0]
    torch.testing.assert_close(torch.tensor(page).float(), want, atol=1e-5, rtol=0)
    assert sum(page) == pytest.approx(1)


def test_ties_keep_the_first_logits_and_top_p_no_more_than_it_needs(js):
    body = "return m.reshaped(given);"
    ties = {"logits": [1, 2, 2, 2], "temperature": 1}
    assert js(MODULE, body, **ties, top_k=2, top_p=1) == [0, 0.5, 0.5, 0]
    assert js(MODULE, body, **ties, top_k=2, top_p=0.5) == [0, 1, 0, 0]


def test_entropy_and_how_many_share_the_probability(js):
    body = "return [m.entropy(given.p), m.sharing(given.p, 0.9), m.sharing(given.p, 1)];"
    assert js(MODULE, body, p=[0.25] * 4) == [pytest.approx(math.log(4)), 4, 4]
    nats, ninety, every = js(MODULE, body, p=[0.0, 0.1, 0.9, 0.0])
    assert nats == pytest.approx(-0.1 * math.log(0.1) - 0.9 * math.log(0.9))
    assert (ninety, every) == (1, 2)


def test_the_numbers_are_the_models():
    table = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    figure = Sampler.from_model(lambda ids: table[ids], "abc", ["cab", "ba"], show=2, prompt=1)
    assert figure.prompts == ["ab", "ba"]
    for row, letter in zip(figure.logits, (1, 0), strict=True):
        assert row == pytest.approx(table[letter].tolist(), abs=1e-3)
