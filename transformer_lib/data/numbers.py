"""Tasks with generated data: copying sequences, and numbers in words."""

import random
from collections.abc import Sequence
from typing import TypeVar

from transformer_lib.validation import check_choice, check_count, id_list, items, pair

Pair = TypeVar("Pair", bound=tuple)

# 0 to 19, then the tens from 20 to 90.
_WORDS = {
    language: words.split()
    for language, words in {
        "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen "
        "fourteen fifteen sixteen seventeen eighteen nineteen "
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn "
        "vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn "
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    }.items()
}


def number_words(n: int, language: str = "en") -> str:
    """Write the number `n` in words.

    English is American, without "and": `one hundred twenty-one`. German is one word and includes
    "ein": `einhunderteinundzwanzig`, `eintausend`. In German, the ones come before the tens, so a
    translator has to look ahead.

    Args:
        n: 0 to 999,999.
        language: "en" or "de".

    Raises:
        TypeError: `n` isn't an int.
        ValueError: `n` is out of range; an unknown language.

    Example:
        >>> number_words(42), number_words(42, "de")
        ('forty-two', 'zweiundvierzig')
    """
    check_count("n", n, least=0)
    if n > 999_999:
        raise ValueError(f"n must be at most 999,999; got {n:,}")
    check_choice("language", language, _WORDS)
    return _english(n) if language == "en" else _german(n)


def _english(n: int) -> str:
    if n < 20:
        return _WORDS["en"][n]
    if n < 100:
        tens, ones = divmod(n, 10)
        return _WORDS["en"][18 + tens] + (f"-{_english(ones)}" if ones else "")
    size, name = (1000, "thousand") if n >= 1000 else (100, "hundred")
    count, rest = divmod(n, size)
    return f"{_english(count)} {name}" + (f" {_english(rest)}" if rest else "")


def _german(n: int, *, one: str = "eins") -> str:
    if n == 1:
        return one  # "eins" at the end of a number, "ein" elsewhere
    if n < 20:
        return _WORDS["de"][n]
    if n < 100:
        tens, ones = divmod(n, 10)
        return (f"{_german(ones, one='ein')}und" if ones else "") + _WORDS["de"][18 + tens]
    size, name = (1000, "tausend") if n >= 1000 else (100, "hundert")
    count, rest = divmod(n, size)
    return f"{_german(count, one='ein')}{name}" + (_german(rest, one=one) if rest else "")


def number_word_pairs(low: int = 0, high: int = 9_999) -> list[tuple[str, str]]:
    """Return (English, German) for each number from `low` to `high`, both included, in order.

    Raises:
        TypeError: `low` or `high` isn't an int.
        ValueError: `low` is above `high`; a number out of range.

    Example:
        >>> number_word_pairs(20, 21)
        [('twenty', 'zwanzig'), ('twenty-one', 'einundzwanzig')]
    """
    check_count("low", low, least=0)
    check_count("high", high, least=0)
    if not low <= high <= 999_999:
        raise ValueError(f"high must be from low ({low:,}) to 999,999; got {high:,}")
    return [(_english(n), _german(n)) for n in range(low, high + 1)]


def copy_pairs(
    n: int, *, vocab_size: int = 24, max_length: int = 10, seed: int = 0
) -> list[tuple[list[int], list[int]]]:
    """Draw `n` different id lists, each paired with itself: the target repeats the source.

    Args:
        n: how many.
        vocab_size: ids are drawn from 4 to `vocab_size` − 1, since 0 to 3 are special.
        max_length: lengths are drawn from 1 to `max_length`.
        seed: of the draw.

    Raises:
        TypeError: an argument isn't an int.
        ValueError: fewer than `n` lists exist; an argument is too small.

    Example:
        >>> copy_pairs(2, vocab_size=10, max_length=3)
        [([8, 6], [8, 6]), ([9, 6], [9, 6])]
    """
    check_count("n", n)
    check_count("vocab_size", vocab_size, least=5)
    check_count("max_length", max_length)
    seed = check_count("seed", seed, least=0)
    possible = sum((vocab_size - 4) ** length for length in range(1, max_length + 1))
    if n > possible:
        raise ValueError(f"n must be at most {possible}, the number of possible lists; got {n}")
    draw = random.Random(seed)
    found: dict[tuple[int, ...], None] = {}  # a set that keeps its order
    while len(found) < n:
        length = draw.randint(1, max_length)
        found[tuple(draw.choices(range(4, vocab_size), k=length))] = None
    return [(list(ids), list(ids)) for ids in found]


def split_pairs(
    pairs: Sequence[Pair], *, held_out: int, seed: int = 0
) -> tuple[list[Pair], list[Pair]]:
    """Split `pairs` at random into pairs for training and held-out pairs.

    Args:
        pairs: (source, target) pairs. Each source occurs once.
        held_out: how many to hold out.
        seed: of the draw.

    Returns:
        The training pairs and the held-out pairs, each in their original order.

    Raises:
        TypeError: a source is neither a string nor a list of ints; a number isn't an int.
        ValueError: `held_out` leaves one side empty; a source occurs twice, so it could be on both
            sides.

    Example:
        >>> train, test = split_pairs(number_word_pairs(0, 9), held_out=2)
        >>> len(train), test
        (8, [('six', 'sechs'), ('nine', 'neun')])
    """
    found: list[Pair] = items("pairs", pairs, "pair")
    check_count("held_out", held_out)
    seed = check_count("seed", seed, least=0)
    if held_out >= len(found):
        raise ValueError(
            f"held_out must be less than the number of pairs, {len(found)}; got {held_out}"
        )
    seen = set()
    for i, both in enumerate(found):
        source, _ = pair(f"pair {i} of pairs", both)
        key = source if isinstance(source, str) else tuple(id_list("source of pairs", source))
        if key in seen:
            raise ValueError(f"pairs must hold each source once; got {source!r} twice")
        seen.add(key)
    chosen = set(random.Random(seed).sample(range(len(found)), held_out))
    train = [both for i, both in enumerate(found) if i not in chosen]
    return train, [found[i] for i in sorted(chosen)]
