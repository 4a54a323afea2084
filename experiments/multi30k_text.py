"""Multi30k's captions in words and in pieces, counted: the record of chapter 12.

    python experiments/multi30k_text.py

Writes counts and lengths, no text, of `train` and `val`; about a minute on one core.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib.metadata import version
from itertools import chain
from typing import Any

from result_file import head, write_result

from transformer_lib.data import Tokenizer, multi30k

SIZES = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
SIZE = 4_000  # of the vocabulary that the pairs' lengths are measured with
WORD = re.compile(r"\w+|[^\w\s]")  # a run of letters and digits, or one other sign

Pairs = list[tuple[str, str]]


def words_of(train: Pairs, val: Pairs, side: int) -> dict[str, Any]:
    """How many words one language has, and what of `val` is not among them."""
    known = Counter(chain.from_iterable(WORD.findall(pair[side]) for pair in train))
    captions = [WORD.findall(pair[side]) for pair in val]
    return {
        "different": len(known),
        "once": sum(n == 1 for n in known.values()),
        "letters_per_caption": sum(len(pair[side]) for pair in train) / len(train),
        "words_per_caption": known.total() / len(train),
        "val_words": sum(map(len, captions)),
        "val_unknown": sum(word not in known for caption in captions for word in caption),
        "val_captions": len(captions),
        "val_captions_with_unknown": sum(any(w not in known for w in c) for c in captions),
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


def main() -> None:
    train, val = multi30k.load("train"), multi30k.load("val")
    train_texts, val_texts = list(chain.from_iterable(train)), list(chain.from_iterable(val))
    found = head("counts of Multi30k's captions, train and val; no text") | {
        "tokenizers": version("tokenizers"),
        "en": words_of(train, val, 0),
        "de": words_of(train, val, 1),
        "pieces": {},
    }
    for size in SIZES:
        honest = Tokenizer.train_bpe(train_texts, vocab_size=size)
        peeked = Tokenizer.train_bpe(train_texts + val_texts, vocab_size=size)
        # The control: as much text more, but none of val's, makes `honest` of this one.
        less = Tokenizer.train_bpe(train_texts[len(val_texts) :], vocab_size=size)
        found["pieces"][str(size)] = {
            "train_per_word": per_word(honest, train_texts),
            "val_per_word": per_word(honest, val_texts),
            "peeked_train_per_word": per_word(peeked, train_texts),
            "peeked_val_per_word": per_word(peeked, val_texts),
            "less_train_per_word": per_word(less, train_texts[len(val_texts) :]),
            "less_val_per_word": per_word(less, val_texts),
        }
        if size == SIZE:
            found["longest_first"] = cut_otherwise(honest, train_texts, val_texts)
            # + 1: <bos> before the target, or <eos> after it.
            pairs = Counter((len(honest.encode(a)), len(honest.encode(b)) + 1) for a, b in train)
            found["lengths"] = {
                "vocab_size": size,
                "source_target_pairs": [[*both, n] for both, n in sorted(pairs.items())],
            }
        print(f"{size:,} pieces:", found["pieces"][str(size)])
    write_result("multi30k-text", found)


if __name__ == "__main__":
    main()
