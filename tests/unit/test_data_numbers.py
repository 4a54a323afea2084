import pytest

from transformer_lib.data import copy_pairs, number_word_pairs, number_words, split_pairs

GOLDEN = [
    (0, "zero", "null"),
    (1, "one", "eins"),
    (16, "sixteen", "sechzehn"),
    (17, "seventeen", "siebzehn"),
    (20, "twenty", "zwanzig"),
    (21, "twenty-one", "einundzwanzig"),
    (30, "thirty", "dreißig"),
    (66, "sixty-six", "sechsundsechzig"),
    (77, "seventy-seven", "siebenundsiebzig"),
    (100, "one hundred", "einhundert"),
    (101, "one hundred one", "einhunderteins"),
    (121, "one hundred twenty-one", "einhunderteinundzwanzig"),
    (1000, "one thousand", "eintausend"),
    (1001, "one thousand one", "eintausendeins"),
    (1100, "one thousand one hundred", "eintausendeinhundert"),
    (2016, "two thousand sixteen", "zweitausendsechzehn"),
    (
        9999,
        "nine thousand nine hundred ninety-nine",
        "neuntausendneunhundertneunundneunzig",
    ),
    (10_000, "ten thousand", "zehntausend"),
    (21_000, "twenty-one thousand", "einundzwanzigtausend"),
    (101_001, "one hundred one thousand one", "einhunderteintausendeins"),
]


@pytest.mark.parametrize(("n", "english", "german"), GOLDEN)
def test_number_words(n, english, german):
    assert number_words(n, "en") == english
    assert number_words(n, "de") == german


def test_different_numbers_have_different_words():
    pairs = number_word_pairs()
    assert len(pairs) == 10_000
    assert len({english for english, _ in pairs}) == 10_000
    assert len({german for _, german in pairs}) == 10_000
    assert pairs[42] == ("forty-two", "zweiundvierzig")
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
    with pytest.raises(ValueError, match=r"n must be at most 14, .* got 15"):
        copy_pairs(15, vocab_size=6, max_length=3)


def test_split_pairs():
    pairs = number_word_pairs(0, 99)
    train, test = split_pairs(pairs, held_out=17, seed=5)
    assert (len(train), len(test)) == (83, 17)
    assert sorted(train + test) == sorted(pairs)
    assert (train, test) == split_pairs(pairs, held_out=17, seed=5)
    assert test != split_pairs(pairs, held_out=17, seed=6)[1]
    assert test == [pair for pair in pairs if pair in test]  # their order is kept


@pytest.mark.parametrize("held_out", [-1, 0, 10])
def test_a_split_leaves_something_on_both_sides(held_out):
    with pytest.raises(ValueError, match=f"held_out must be .*got {held_out}$"):
        split_pairs(number_word_pairs(0, 9), held_out=held_out)


@pytest.mark.parametrize("source", ["one", [5, 6]])
def test_a_source_that_occurs_twice_is_refused(source):
    pairs = [("two", "zwei"), (source, "x"), (source, "y")]
    with pytest.raises(ValueError, match="pairs must hold each source once"):
        split_pairs(pairs, held_out=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: number_words(True), "n must be an integer of at least 0, got True"),
        (lambda: number_words(1_000_000), "n must be at most 999,999; got 1,000,000"),
        (lambda: number_words(1, "fr"), 'language must be "en" or "de"; got \'fr\''),
        (lambda: number_word_pairs(5, 4), r"low \(5\) must not be above high \(4\)"),
        (lambda: number_word_pairs(999_999, 1_000_000), "high must be at most 999,999"),
        (lambda: copy_pairs(2, vocab_size=4), "vocab_size must be an integer of at least 5"),
        (lambda: copy_pairs(10**7, vocab_size=5), "n times max_length must be below"),
        (lambda: split_pairs([("a", "b"), "c"], held_out=1), "pair 1 of pairs must be a pair"),
        (lambda: split_pairs([(4, 5), (6, 7)], held_out=1), "source of pairs must be a sequence"),
    ],
)
def test_a_bad_call_names_its_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
