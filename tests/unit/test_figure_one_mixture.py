"""OneMixture: its mixtures are attention's, and a matrix reads what chapter 6 proves."""

import pytest
import torch
import torch.nn.functional as F

from transformer_lib import attention

TENTHS = [i / 10 for i in range(11)]
STATES = [(p, q, twice) for p in TENTHS for q in TENTHS for twice in (True, False)]
SENTENCES = [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]]
SIDES = (0, 1)  # left, right

CALL = """return given.states.map(([first, second, twice]) => {
  const [heads, sentences] = [twice ? [first, second] : [first], m.sentencesOf(3)];
  const rows = m.mixtures(sentences, heads, 3);
  const ofSide = (find) => [0, 1].map(find);
  return { sentences, rows, alike: m.firstAlike(rows),
    who: ofSide((side) => m.whatCan(sentences, heads, side, 3)),
    factors: ofSide((side) => m.untangle([first, second], side)) };
});"""


@pytest.fixture(scope="module")
def pages(js):
    """What the page has in every state."""
    return dict(zip(STATES, js("one_mixture.js", CALL, states=STATES), strict=True))


def test_what_arrives_is_attention_with_these_weights(pages):
    """The softmax of the weights' logarithms is the weights; *eats* itself gets 0."""
    one = torch.eye(3, dtype=torch.float64).expand(6, 3, 3)
    at = torch.tensor([[left, 3, right] for left, right in SENTENCES])
    sentences = torch.eye(4, dtype=torch.float64)[at]  # three words and the verb
    for (p, q, twice), page in pages.items():
        assert page["sentences"] == SENTENCES
        weights = torch.tensor([[p, 0, 1 - p], [q, 0, 1 - q]][: 1 + twice], dtype=torch.float64)
        scores = weights.clamp(min=1e-9).log().expand(6, -1, 3)
        got = attention(scores, one, sentences, weights > 0, scale=1.0).output  # (6, H, 4)
        rows = torch.tensor(page["rows"], dtype=torch.float64)
        torch.testing.assert_close(got[..., :3].flatten(1), rows)
        assert not got[..., 3].any()


@pytest.mark.parametrize("side", SIDES)
def test_it_says_a_matrix_where_a_perceptron_finds_one(pages, side):
    """One per state, with the words and a 1 as its input: right answers must lead in the end."""
    x = torch.zeros(len(pages), 6, 7)  # (state, sentence, words of two heads and a 1)
    for state, page in enumerate(pages.values()):
        rows = torch.tensor(page["rows"])
        x[state, :, : rows.size(1)] = rows
    x[..., -1] = 1
    right = F.one_hot(torch.tensor([sentence[side] for sentence in SENTENCES]), 3)
    matrix = torch.zeros(len(pages), 3, 7)
    for _ in range(3000):
        scores = x @ matrix.mT - 1e-3 * right
        missed = F.one_hot(scores.argmax(-1), 3) - right  # (state, sentence, answer)
        if not missed.any():
            break
        matrix -= missed.float().mT @ x
    found = [page["who"][side] == "a matrix" for page in pages.values()]
    assert 100 < sum(found) < 231
    assert (~missed.flatten(1).any(1)).tolist() == found


@pytest.mark.parametrize("side", SIDES)
def test_two_heads_are_untangled(pages, side):
    for (p, q, twice), page in pages.items():
        if twice and p != q:
            matrix = torch.cat([x * torch.eye(3) for x in page["factors"][side]], 1)
            left = torch.tensor(page["rows"]).float() @ matrix.mT
            at = [sentence[side] for sentence in SENTENCES]
            torch.testing.assert_close(left, torch.eye(3)[at])


def test_nothing_can_where_the_same_numbers_need_two_answers(pages):
    for page in pages.values():
        keys = [[round(x, 6) for x in row] for row in page["rows"]]
        assert page["alike"] == [keys.index(key) for key in keys]
        for side in SIDES:
            needs = {(first, SENTENCES[i][side]) for i, first in enumerate(page["alike"])}
            impossible = len(needs) > len(set(page["alike"]))
            assert (page["who"][side] == "nothing") is impossible
