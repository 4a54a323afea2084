"""Why translations of Multi30k come out short: what lengths alone explain.

    python experiments/multi30k_lengths.py

The length of a German caption, given that of the English one, has a skewed distribution: the mode
is below the median, and the median below the mean. A search for the most probable text is a bit
like a guess of the most frequent length. Three guesses are learned from the training pairs: mean,
median, and mode at each English length. This counts what share of the reference's words they make,
and what share greedy decoding and beams had in the recorded runs.

Takes a few seconds. Guesses are learned on `train` and scored on `val`. Of the test set it counts
the words of the references, and German words per English word.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, median_low, mode, stdev
from typing import Any

from result_file import head, write_result

from transformer_lib.data import multi30k
from transformer_lib.results import load_result

TEST = "test_2016_flickr"
LONGEST = 30  # English captions of more words are too few, and are taken together
GUESSES: dict[str, Callable[[list[int]], float]] = {
    "mean": fmean,
    "median": median_low,
    "mode": lambda lengths: mode(sorted(lengths)),  # of several the shortest
}

Lengths = list[tuple[int, int]]


def lengths_of(split: str) -> Lengths:
    pairs = multi30k.load(split, lowercase=True)
    return [(len(english.split()), len(german.split())) for english, german in pairs]


def guessed(train: Lengths, others: Lengths) -> dict[str, dict[str, float]]:
    """For each guess the share of the reference's words, and the standard error of the share."""
    at: dict[int, list[int]] = {}
    for english, german in train:
        at.setdefault(min(english, LONGEST), []).append(german)
    words, found = sum(german for _, german in others), {}
    for name, guess in GUESSES.items():
        value = {english: guess(lengths) for english, lengths in at.items()}
        errors = [value[min(english, LONGEST)] - german for english, german in others]
        spread = stdev(errors) * math.sqrt(len(errors)) / words
        found[name] = {"share": 1 + sum(errors) / words, "standard_error": spread}
    return found


def searched() -> dict[str, Any]:
    """What runs that are recorded made of `val`: words over the reference's, and BLEU."""
    found: dict[str, Any] = {}
    for name in ("multi30k-means", "multi30k-residual-means"):
        for row in load_result(name)["rows"]:
            if row["split"] == "val" and row["checkpoint"] == "last" and not row["together"]:
                way = ", ".join(f"{key} {value}" for key, value in row["search"].items())
                mean = {
                    "share": fmean(score["length"] for score in row["scores"]),
                    "bleu": fmean(score["bleu"]["value"] for score in row["scores"]),
                }
                found[f"{name}, {row['end']}, {way or 'greedy'}"] = mean | brevity(**mean)
    for search in load_result("multi30k-beams")["searches"]:
        way = f"beam {search['beam_size']}, length penalty {search['length_penalty']:g}"
        mean = {"share": search["length"], "bleu": search["value"]}
        found[f"multi30k-tiny-s0, {way if search['beam_size'] else 'greedy'}"] = mean | brevity(
            **mean
        )
    return found


def brevity(share: float, bleu: float) -> dict[str, float]:
    """About how many points of BLEU the brevity penalty took (words here, its tokens there)."""
    penalty = min(1.0, math.exp(1 - 1 / share))
    return {"brevity_penalty": penalty, "points_lost": bleu / penalty - bleu}


def main() -> None:
    train, val = lengths_of("train"), lengths_of("val")
    test = lengths_of(TEST)
    found = head("words of Multi30k's lowercased, tokenized captions; no text") | {
        "german_per_english": {
            split: sum(german for _, german in pairs) / sum(english for english, _ in pairs)
            for split, pairs in (("train", train), ("val", val), (TEST, test))
        },
        "german_words_of_test": sum(german for _, german in test),
        "guesses_on_train": guessed(train, train),
        "guesses_on_val": guessed(train, val),
        "searches_on_val": searched(),
    }
    for name, guess in found["guesses_on_val"].items():
        print(f"{name:8}{guess['share']:.3f} of the reference's words")
    for name, search in found["searches_on_val"].items():
        print(f"{search['share']:.3f}  {search['points_lost']:.2f} points lost  {name}")
    write_result("multi30k-lengths", found)


if __name__ == "__main__":
    main()
