import pytest

from transformer_lib.data import copy_pairs, number_word_pairs, number_words, split_pairs

GOLDEN = [
    (0, "zero", "null"),
    (1, "one", "eins"),
    (11, "eleven", "elf"),
    (16, "sixteen", "sechzehn"),
    (17, "seventeen", "siebzehn"),
    (20, "twenty", "zwanzig"),
    (21, "twenty-one", "einundzwanzig"),
    (30, "thirty", "dreißig"),
    (42, "forty-two", "zweiundvierzig"),
    (66, "sixty-six", "sechsundsechzig"),
    (70, "seventy", "siebzig"),
    (77, "seventy-seven", "siebenundsiebzig"),
    (100, "one hundred", "einhundert"),
    (101, "one hundred one", "einhunderteins"),
    (121, "one hundred twenty-one", "einhunderteinundzwanzig"),
    (999, "nine hundred ninety-nine", "neunhundertneunundneunzig"),
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
    (
        99_999,
        "ninety-nine thousand nine hundred ninety-nine",
        "neunundneunzigtausendneunhundertneunundneunzig",
    ),
    (101_001, "one hundred one thousand one", "einhunderteintausendeins"),
]


@pytest.mark.parametrize(("n", "english", "german"), GOLDEN)
def test_number_words(n, english, german):
    assert number_words(n, "en") == english
    assert number_words(n, "de") == german


def test_each_number_has_words_of_its_own():
    pairs = number_word_pairs()
    assert len(pairs) == 10_000
    assert len({english for english, _ in pairs}) == 10_000
    assert len({german for _, german in pairs}) == 10_000
    assert pairs[42] == ("forty-two", "zweiundvierzig")
    assert number_word_pairs(7, 7) == [("seven", "sieben")]
    assert len(number_word_pairs(999_999, 999_999)) == 1


@pytest.mark.parametrize("n", [-1, 1_000_000])
def test_numbers_out_of_range(n):
    with pytest.raises(ValueError, match=r"n must be .*(,|;) got"):
        number_words(n)


def test_wrong_arguments_of_number_words():
    with pytest.raises(TypeError, match=r"n must be an integer of at least 0, got 4\.0"):
        number_words(4.0)
    with pytest.raises(TypeError, match="n must be an integer of at least 0, got True"):
        number_words(True)
    with pytest.raises(ValueError, match='language must be "en" or "de"; got \'fr\''):
        number_words(4, "fr")
    with pytest.raises(ValueError, match=r"low \(5\) must not be above high \(4\)"):
        number_word_pairs(5, 4)


def test_copy_pairs():
    pairs = copy_pairs(500, vocab_size=11, max_length=7, seed=3)
    assert len({tuple(source) for source, _ in pairs}) == 500
    assert all(source == target and source is not target for source, target in pairs)
    assert {i for source, _ in pairs for i in source} == set(range(4, 11))
    assert {len(source) for source, _ in pairs} == set(range(1, 8))
    assert pairs == copy_pairs(500, vocab_size=11, max_length=7, seed=3)
    assert pairs != copy_pairs(500, vocab_size=11, max_length=7, seed=4)


def test_copy_pairs_of_all_there_are():
    assert len(copy_pairs(14, vocab_size=6, max_length=3)) == 14  # 2 + 4 + 8
    with pytest.raises(ValueError, match=r"n must be at most 14, .* got 15"):
        copy_pairs(15, vocab_size=6, max_length=3)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 2, "vocab_size": 4}, {"n": 2, "max_length": 0}])
def test_wrong_arguments_of_copy_pairs(wrong):
    with pytest.raises(ValueError, match=f"{list(wrong)[-1]} must be an integer of at least"):
        copy_pairs(**wrong)


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
    with pytest.raises(ValueError, match=f"held_out must be .*got {held_out}"):
        split_pairs(number_word_pairs(0, 9), held_out=held_out)


@pytest.mark.parametrize("source", ["one", [5, 6]])
def test_no_source_can_be_on_both_sides(source):
    pairs = [("two", "zwei"), (source, "x"), (source, "y")]
    with pytest.raises(ValueError, match="pairs must hold each source once"):
        split_pairs(pairs, held_out=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: number_words(float("nan")), "n must be an integer"),
        (lambda: number_words(1, None), "language must be"),
        (lambda: number_word_pairs(-1, 3), "low must be an integer of at least 0"),
        (lambda: number_word_pairs(0, 3.5), "high must be an integer"),
        (lambda: number_word_pairs(999_999, 1_000_000), "high must be at most 999,999"),
        (lambda: copy_pairs("3"), "n must be an integer"),
        (lambda: copy_pairs(10**7, vocab_size=5), "n times max_length must be below"),
        (lambda: copy_pairs(3, seed=None), "seed must be an integer"),
        (lambda: split_pairs(None, held_out=1), "pairs must be several pairs"),
        (lambda: split_pairs([("a", "b"), "c"], held_out=1), "pair 1 of pairs must be a pair"),
        (lambda: split_pairs([(4, 5), (6, 7)], held_out=1), "source of pairs must be a sequence"),
        (lambda: split_pairs(number_word_pairs(0, 9), held_out=2.5), "held_out must be an int"),
        (lambda: split_pairs(number_word_pairs(0, 9), held_out=2, seed="s"), "seed must be an"),
    ],
)
def test_a_bad_call_names_its_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
