"""Multi30k's captions in words and in pieces, counted: the record of chapter 12.

    python experiments/multi30k_text.py

Writes counts and lengths, no text, of `train` and `val`. About a minute on one core.
"""

import re
from collections import Counter
from itertools import chain
from typing import Any

from result_file import write_result

from transformer_lib.data import Tokenizer, multi30k

SIZES = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
WORD = re.compile(r"\w+|[^\w\s]")  # a run of letters and digits, or one other sign


def words_of(train: list[str], val: list[str]) -> dict[str, Any]:
    """How long the captions of one language are, and in how many of `val` a word is unknown."""
    known = Counter(chain.from_iterable(map(WORD.findall, train)))
    return {
        "letters_per_caption": sum(map(len, train)) / len(train),
        "words_per_caption": known.total() / len(train),
        "val_captions": len(val),
        "val_captions_with_unknown": sum(
            any(word not in known for word in WORD.findall(caption)) for caption in val
        ),
    }


def per_word(tokenizer: Tokenizer, texts: list[str]) -> float:
    pieces = sum(len(tokenizer.encode(text)) for text in texts)
    return pieces / sum(len(WORD.findall(text)) for text in texts)


def longest_first(word: str, pieces: set[str]) -> list[str]:
    """The cut that always takes the longest piece there is, from the left."""
    cut = []
    while word:
        size = next(n for n in range(len(word), 0, -1) if n == 1 or word[:n] in pieces)
        cut.append(word[:size])
        word = word[size:]
    return cut


def cut_otherwise(tokenizer: Tokenizer, train: list[str], val: list[str]) -> dict[str, int]:
    """How many words longest-first cuts otherwise than the merges do: of all different ones, and
    of the running words of `val`."""
    pieces = set(tokenizer.tokens(range(tokenizer.vocab_size)))
    words = {word for text in train + val for word in WORD.findall(text)}
    words = {word for word in words if word.isascii() and word.isalpha()}  # a byte a letter
    other = {
        word
        for word in words
        if longest_first(f"▁{word}", pieces) != tokenizer.tokens(tokenizer.encode(word))
    }
    running = [word for text in val for word in WORD.findall(text) if word in words]
    return {
        "words": len(words),
        "otherwise": len(other),
        "running": len(running),
        "running_otherwise": sum(word in other for word in running),
    }


pairs, val_pairs = multi30k.load("train"), multi30k.load("val")
train, val = list(chain.from_iterable(pairs)), list(chain.from_iterable(val_pairs))
# What a list of pieces is learned from, and which training captions it's measured on. The last one
# is the control: it has none of val's captions, and with as much text more it's the first.
less = train[len(val) :]
lists = {"": (train, train), "peeked_": (train + val, train), "less_": (less, less)}
pieces: dict[int, dict[str, float]] = {}
for size in SIZES:
    pieces[size] = {}
    for name, (learned, some) in lists.items():
        tokenizer = Tokenizer.train_bpe(learned, vocab_size=size)
        pieces[size][f"{name}train_per_word"] = per_word(tokenizer, some)
        pieces[size][f"{name}val_per_word"] = per_word(tokenizer, val)
tokenizer = Tokenizer.train_bpe(train, vocab_size=4_000)
# + 1: <bos> before the target, or <eos> after it.
lengths = Counter((len(tokenizer.encode(a)), len(tokenizer.encode(b)) + 1) for a, b in pairs)
write_result(
    en=words_of(train[::2], val[::2]),
    de=words_of(train[1::2], val[1::2]),
    pieces=pieces,
    longest_first=cut_otherwise(tokenizer, train, val),
    lengths={"source_target_pairs": [[*both, n] for both, n in sorted(lengths.items())]},
)
