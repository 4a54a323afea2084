import pytest

from transformer_lib.data import copy_pairs, number_word_pairs, number_words, split_pairs

GOLDEN = [
    (0, "zero", "null"),
    (1, "one", "eins"),
    (17, "seventeen", "siebzehn"),
    (30, "thirty", "dreißig"),
    (66, "sixty-six", "sechsundsechzig"),
    (121, "one hundred twenty-one", "einhunderteinundzwanzig"),
    (1001, "one thousand one", "eintausendeins"),
    (2016, "two thousand sixteen", "zweitausendsechzehn"),
    (21_000, "twenty-one thousand", "einundzwanzigtausend"),
    (101_001, "one hundred one thousand one", "einhunderteintausendeins"),
]


def test_number_words():
    assert [(n, number_words(n), number_words(n, "de")) for n, *_ in GOLDEN] == GOLDEN
    english, german = zip(*number_word_pairs(), strict=True)
    assert len(set(english)) == len(set(german)) == 10_000
    assert number_word_pairs(7, 7) == [("seven", "sieben")]
    assert len(number_word_pairs(999_999, 999_999)) == 1


def test_copy_pairs():
    pairs = copy_pairs(500, vocab_size=11, max_length=7, seed=3)
    assert len({tuple(source) for source, _ in pairs}) == 500
    assert all(source == target and source is not target for source, target in pairs)
    assert {i for source, _ in pairs for i in source} == set(range(4, 11))
    assert {len(source) for source, _ in pairs} == set(range(1, 8))
    assert pairs == copy_pairs(500, vocab_size=11, max_length=7, seed=3)
    assert pairs != copy_pairs(500, vocab_size=11, max_length=7, seed=4)


def test_all_possible_copy_pairs():
    assert len(copy_pairs(14, vocab_size=6, max_length=3)) == 14  # 2 + 4 + 8


def test_split_pairs():
    pairs = number_word_pairs(0, 99)
    train, test = split_pairs(pairs, held_out=17, seed=5)
    assert (len(train), len(test)) == (83, 17)
    assert sorted(train + test) == sorted(pairs)
    assert (train, test) == split_pairs(pairs, held_out=17, seed=5)
    assert test != split_pairs(pairs, held_out=17, seed=6)[1]
    assert test == [pair for pair in pairs if pair in test]  # their order is kept


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: number_words(1_000_000), "n must be at most 999,999; got 1,000,000"),
        (lambda: number_word_pairs(5, 4), r"high must be from low \(5\) to 999,999; got 4"),
        (lambda: copy_pairs(15, vocab_size=6, max_length=3), r"n must be at most 14, .* got 15"),
        (lambda: split_pairs(number_word_pairs(0, 9), held_out=10), "held_out must be .*got 10$"),
        (
            lambda: split_pairs([("a", "b"), ("a", "c")], held_out=1),
            "each source once; got 'a'",
        ),
        (lambda: split_pairs([([5], []), ([5], [6])], held_out=1), r"each source once; got \[5\]"),
    ],
)
def test_a_bad_call_names_its_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
