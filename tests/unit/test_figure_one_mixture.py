"""OneMixture: its mixtures are attention's, and a matrix reads what chapter 6 proves."""

import pytest
import torch

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


def wrong_answers(page, side):
    """For a sentence and a wrong answer, by what the matrix and its bias are multiplied to give
    the lead of the right answer. A matrix reads all sentences if every lead is positive.
    """
    found = {}
    for sentence, row in zip(SENTENCES, page["rows"], strict=True):
        for other in {0, 1, 2} - {sentence[side]}:
            table = torch.zeros(3, len(row) + 1, dtype=torch.float64)
            table[sentence[side]] = torch.tensor([*row, 1], dtype=torch.float64)
            table[other] = -table[sentence[side]]
            found[tuple(sentence), other] = table
    return found


@pytest.mark.parametrize("side", SIDES)
def test_where_a_matrix_can_there_is_one(pages, side):
    readable = {state: page for state, page in pages.items() if page["who"][side] == "a matrix"}
    assert len(readable) > 100
    for (p, q, twice), page in readable.items():
        both = twice and p != q
        parts = page["factors"][side] if both else [1, 0][: 1 + twice]  # or head 1's largest
        matrix = torch.cat([x * torch.eye(3, dtype=torch.float64) for x in parts], 1)
        if both:  # only one word is left
            words = torch.tensor(page["rows"], dtype=torch.float64) @ matrix.T
            at = [sentence[side] for sentence in SENTENCES]
            torch.testing.assert_close(words, torch.eye(3, dtype=torch.float64)[at])
        for table in wrong_answers(page, side).values():
            assert (table[:, :-1] * matrix).sum() > 1e-9


@pytest.mark.parametrize("side", SIDES)
def test_where_no_matrix_can_the_proof_of_chapter_6_forbids_it(pages, side):
    """Positive multiples of sums that must be positive add up to 0."""
    found = 0
    for (first, _, _), page in pages.items():
        if page["who"][side] == "a matrix":
            continue
        found += 1
        must = wrong_answers(page, side)
        a, c, y = 0, 1, 2
        turn = (lambda *pair: pair) if side == 0 else (lambda one, other: (other, one))
        apart = must[turn(a, y), c] + must[turn(c, y), a]  # step 1: p
        swapped = must[turn(a, c), c] + must[turn(c, a), a]  # step 2: p - q
        p = first if side == 0 else 1 - first
        times = (1 - 2 * p, p)  # q - p, and p
        assert min(times) >= -1e-9 and max(times) > 0.05
        total = times[0] * apart + times[1] * swapped
        torch.testing.assert_close(total, torch.zeros_like(total), atol=1e-9, rtol=0)
    assert found > 10


def test_nothing_can_where_the_same_numbers_need_two_answers(pages):
    for page in pages.values():
        keys = [[round(x, 6) for x in row] for row in page["rows"]]
        assert page["alike"] == [keys.index(key) for key in keys]
        for side in SIDES:
            needs = {(first, SENTENCES[i][side]) for i, first in enumerate(page["alike"])}
            impossible = len(needs) > len(set(page["alike"]))
            assert (page["who"][side] == "nothing") is impossible
