"""The appendix beside the paper: what it says we measured, a chapter prints or a record holds."""

import json
from pathlib import Path

import pytest

from transformer_lib.results import load_run

ROOT = Path(__file__).resolve().parents[2]
PAGE = " ".join((ROOT / "chapters" / "the_paper.md").read_text(encoding="utf-8").split())
# Chapter, words of the page, and what the chapter prints.
PRINTED = [
    (2, "standard deviations of 1.98, 7.98, and 31.80", ["by  1.98", "by  7.98", "by 31.80"]),
    (2, "0.00001 without the scale and 0.17420 with it", ["0.96  0.00001    0.24  0.17420"]),
    (2, "0.00033 instead of 0.26", ["1024   0.05     0.87   0.00033     0.26"]),
    (2, "without the scale it's 1.26 at 1024", ["0.00033     0.26   1.26"]),
    (2, "0.47 instead of 0.27", ["64   0.22     0.87      0.47     0.27"]),
    (3, "67 to 71 % of the letters", ["one vector   67   71   69   67   70\n"]),
    (3, "attention at each step it gets more than 99 %", ["attention   100  100  100  100  100\n"]),
    (5, "all logits before it stay the same", ["[0, 0, 0, 0, 0, 0, 1, 1, 1, 1]"]),
    (6, "230,195,200 FLOPs", ["16 heads: 230,195,200"]),
    (6, "100 % with 15 of 16 seeds, and 54 %", ["two heads 100 100 100 100 100 100 100  54\n"]),
    (
        7,
        "a loss of 0.7. All ten pre-norm runs reach 0.0",
        ["0.01 " + 10 * " 0.7", "0.01 " + 10 * " 0.0"],
    ),
    (7, "five of the ten are at 0.5 or 0.6", ["400 0.0 0.5 0.6 0.5 0.6 0.5 0.0 0.0 0.0 0.1"]),
    (7, "all ten runs reach a loss of 0.0", ["no feed-forward\n  " + 10 * " 0.0"]),
    (9, "25.2 to 25.4", ["at least 24:\n   25.4    25.2"]),
    (9, "5,233 to 5,252", ["5,232.8", "5,251.7"]),
    (9, "110.8 to 111.3", ["110.8", "111.3"]),
    (10, "wrong by up to 1.58", ["0.00     1.58"]),
    (10, "wrong by up to 0.13", ["0.00     0.13"]),
    (10, "waves get 39 to 64 % right", ["after 2000 steps: 39% to 64%"]),
    (10, "the best guess without order gets 23 %", [" 8 letters: 23%", "16 letters: 17%"]),
    (10, "they get 14 to 24 % right", ["waves    17 20 18 19 24 15 16 14 18 19"]),
    (10, "both get 100.0 % right", ["waves    100.0%", "learned  100.0%"]),
    (11, "about 41,000 of them", ["40,931 to 41,161"]),
    (11, "about 35,800", ["35,296 to 36,272"]),
    (11, "length 1 before the factor and 22.6 after it", [" 1.0   16.0", "22.6   16.0"]),
    (11, "a loss of about 254", ["254.8  254.6  253.0"]),
    (15, "gains 1.1 to 1.3 points", ["+1.3 +1.3 +1.1"]),
    (15, "another 0.2 to 0.5", ["+0.4 +0.2 +0.5"]),
    (15, "−0.4, +0.9, and +0.4", ["-0.4 +0.9 +0.4"]),
    (15, "0.0, −0.2, +0.1", ["+0.0 -0.2 +0.1"]),
    (15, "38.1 to 39.0 BLEU", ["38.1 38.7 39.0"]),
    (15, "38.4 to 39.5", ["38.4 39.0 39.5"]),
    (15, "41.6, 41.9, and 42.3", ["alone    41.6 41.9 42.3"]),
    (15, "| one head | −0.9 | −1.8 |", ["1 head, not 4           -1.8"]),
    (15, "not given | −1.3 |", ["2 layers, not 4         -1.3"]),
    (15, "| −0.1 | −0.6 |", ["learned positions       -0.6"]),
    (15, "| −0.5 | +0.2 |", ["no smoothing            +0.2"]),
    (15, "1.53 or 1.54 instead of 1.55 or 1.56", ["1.553 1.551 1.556", "1.530 1.531 1.540"]),
    (15, "31.8 against 31.3 BLEU", ["31.3  31.8"]),
]


def outputs(chapter: int) -> str:
    (path,) = (ROOT / "chapters").glob(f"{chapter:02}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "".join(
        "".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", ())
    )


@pytest.mark.parametrize(("chapter", "words", "printed"), PRINTED)
def test_the_chapter_prints_what_the_page_says(chapter, words, printed):
    assert words in PAGE
    found = outputs(chapter)
    assert [text for text in printed if text not in found] == []


def test_the_records_hold_what_the_page_says_of_smoothing():
    def at_ten(name: str, key: str) -> float:
        history = load_run(name).history
        (value,) = (row[key] for row in history if row["epoch"] == 10 and "val_bleu" in row)
        return value

    smoothed = [f"multi30k-tiny-s{seed}" for seed in range(3)]
    perplexities = [at_ten(name, "val_perplexity") for name in smoothed]
    bleus = [at_ten(name, "val_bleu") for name in smoothed]
    plain = at_ten("ablation-smoothing-0", "val_perplexity")
    assert f"have a perplexity of {min(perplexities):.2f} to {max(perplexities):.2f}" in PAGE
    assert f"one run without it has {plain:.2f}" in PAGE
    assert f"the three with it {min(bleus):.1f} to {max(bleus):.1f}" in PAGE
    assert f"has {at_ten('ablation-smoothing-0', 'val_bleu'):.1f}" in PAGE
