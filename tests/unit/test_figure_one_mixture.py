"""OneMixture: its mixtures are the library's, and a matrix reads what chapter 6 proves."""

import pytest
import torch

from transformer_lib import attention
from transformer_lib.figures.widgets import OneMixture

TENTHS = [i / 10 for i in range(11)]
STATES = [(p, q, twice) for p in TENTHS for q in TENTHS for twice in (True, False)]
SIDES = ("left", "right")

CALL = """return given.states.map(([first, second, twice]) => {
  const [heads, sentences] = [twice ? [first, second] : [first], m.sentencesOf(3)];
  const rows = m.mixtures(sentences, heads, 3);
  const who = [0, 1].map((side) => m.whatCan(sentences, heads, side, 3));
  return [sentences, rows, m.firstAlike(rows), who];
});"""


def figures():
    return [OneMixture(first=p, second=q, twice=twice) for p, q, twice in STATES]


def test_page_and_library_say_the_same_in_every_state(js):
    pages = js("one_mixture.js", CALL, states=STATES)
    for figure, (sentences, rows, alike, who) in zip(figures(), pages, strict=True):
        assert [tuple(pair) for pair in sentences] == figure.sentences()
        torch.testing.assert_close(torch.tensor(rows).double(), figure.mixtures())
        groups = [[j for j in range(6) if alike[j] == i] for i in range(6)]
        assert [group for group in groups if len(group) > 1] == figure.alike()
        assert who == [figure.what_can(side) for side in SIDES]


def test_what_arrives_is_attention_with_these_weights():
    """The softmax of the weights' logarithms is the weights; *eats* itself gets 0."""
    figure = OneMixture(first=0.7, second=0.2, twice=True)
    vectors = torch.eye(4, dtype=torch.float64)  # three words and the verb
    weights = torch.tensor([[0.7, 0, 0.3], [0.2, 0, 0.8]], dtype=torch.float64)
    for (left, right), row in zip(figure.sentences(), figure.mixtures(), strict=True):
        sentence = vectors[[left, 3, right]]
        scores, one = weights.clamp(min=1e-9).log(), torch.eye(3, dtype=torch.float64)
        got = attention(scores, one, sentence, weights > 0, scale=1.0)
        torch.testing.assert_close(got.output[:, :3].flatten(), row)
        assert not got.output[:, 3].any()


def wrong_answers(figure, side):
    """For a sentence and a wrong answer, by what the matrix and its bias are multiplied to give
    the lead of the right answer. A matrix reads all sentences if every lead is positive.
    """
    at = SIDES.index(side)
    rows = torch.cat([figure.mixtures(), torch.ones(6, 1, dtype=torch.float64)], 1)
    found = {}
    for sentence, row in zip(figure.sentences(), rows, strict=True):
        for other in {0, 1, 2} - {sentence[at]}:
            table = torch.zeros(3, len(row), dtype=torch.float64)
            table[sentence[at]], table[other] = row, -row
            found[sentence, other] = table
    return found


@pytest.mark.parametrize("side", SIDES)
def test_where_a_matrix_can_there_is_one(js, side):
    states = [state for state, figure in zip(STATES, figures(), strict=True)
              if figure.what_can(side) == "a matrix"]  # fmt: skip
    assert len(states) > 100
    body = "return given.pairs.map((pair) => m.untangle(pair, given.side));"
    pairs = [[p, q] if twice and p != q else [0, 1] for p, q, twice in states]
    found = js("one_mixture.js", body, pairs=pairs, side=SIDES.index(side))
    for (p, q, twice), numbers in zip(states, found, strict=True):
        figure = OneMixture(first=p, second=q, twice=twice)
        alone = [1.0, 0.0] if twice else [1.0]  # the largest number of head 1
        parts = numbers if twice and p != q else alone
        matrix = torch.cat([x * torch.eye(3, dtype=torch.float64) for x in parts], 1)
        if parts is numbers:  # only one word is left
            words = figure.mixtures() @ matrix.T
            at = torch.tensor(figure.sentences())[:, SIDES.index(side)]
            torch.testing.assert_close(words, torch.eye(3, dtype=torch.float64)[at])
        for table in wrong_answers(figure, side).values():
            assert (table[:, :-1] * matrix).sum() > 1e-9


@pytest.mark.parametrize("side", SIDES)
def test_where_no_matrix_can_the_proof_of_chapter_6_forbids_it(side):
    """Positive multiples of sums that must be positive add up to 0."""
    found = 0
    for figure in figures():
        if figure.what_can(side) == "a matrix":
            continue
        found += 1
        must = wrong_answers(figure, side)
        a, c, y = 0, 1, 2
        turn = (lambda *pair: pair) if side == "left" else (lambda one, other: (other, one))
        apart = must[turn(a, y), c] + must[turn(c, y), a]  # step 1: p
        swapped = must[turn(a, c), c] + must[turn(c, a), a]  # step 2: p - q
        p = figure.first if side == "left" else 1 - figure.first
        times = (1 - 2 * p, p)  # q - p, and p
        assert min(times) >= -1e-9 and max(times) > 0.05
        total = times[0] * apart + times[1] * swapped
        torch.testing.assert_close(total, torch.zeros_like(total), atol=1e-9, rtol=0)
    assert found > 10


@pytest.mark.parametrize("side", SIDES)
def test_nothing_can_where_the_same_numbers_need_two_answers(side):
    for figure in figures():
        answers = {}
        for sentence, row in zip(figure.sentences(), figure.mixtures().tolist(), strict=True):
            key = tuple(round(x, 6) for x in row)
            answers.setdefault(key, set()).add(sentence[SIDES.index(side)])
        impossible = any(len(each) > 1 for each in answers.values())
        assert (figure.what_can(side) == "nothing") is impossible


def test_the_sentences_of_the_chapter():
    """Half and half: both orders arrive as the same numbers. 0.7: the eater's number is larger."""
    assert OneMixture().alike() == [[0, 1], [2, 3], [4, 5]]
    assert OneMixture(first=1.0).alike() == [[0, 2], [1, 4], [3, 5]]
    figure = OneMixture(first=0.7)
    assert figure.alike() == []
    assert figure.mixtures()[:2].tolist() == [
        pytest.approx([0.7, 0.3, 0]),
        pytest.approx([0.3, 0.7, 0]),
    ]
    twice = OneMixture(first=1.0, second=0.0, twice=True)
    assert twice.mixtures()[0].tolist() == [1, 0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"first": 0.55}, ValueError, r"first must be one of 0, 0\.1, …, 1; got 0\.55"),
        ({"words": ["cat", "cat", "dog"]}, ValueError, "words must be different"),
    ],
)
def test_bad_arguments_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        OneMixture(**given)


SAID, READ = ".om-who > :last-child > :first-child", ".om-asked > .lf-room > :first-child"
