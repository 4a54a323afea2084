"""Tiny Shakespeare: speeches from his plays, 1,115,394 characters, 65 of them different.

The text is next to this module, so you can train a language model offline. It comes from
``data/tinyshakespeare/input.txt`` in GitHub's ``karpathy/char-rnn``, commit
6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e, and is in the public domain.
"""

import gzip
from pathlib import Path

from transformer_lib.validation import check_choice

_FILE = Path(__file__).with_name("shakespeare.txt.gz")
SPLITS = ("train", "val")


def load(split: str) -> str:
    """Load the first 90 % of the text for training, or the rest for validation.

    The text is cut between two speeches, at the first opportunity after 90 % of the characters.
    Cut first, then make windows or batches: a loss on text from training would measure memory.
    Speeches drawn at random would put a question in one split and its answer in the other.

    Args:
        split: "train" (1,003,857 characters) or "val" (111,537).

    Raises:
        ValueError: an unknown split.

    Example:
        >>> text = load("val")
        >>> print(text[:82])
        GREMIO:
        Good morrow, neighbour Baptista.
        <BLANKLINE>
        BAPTISTA:
        Good morrow, neighbour Gremio.
        >>> sorted(set(text) - set(load("train")))  # characters that aren't in train
        []
    """
    check_choice("split", split, SPLITS)
    text = gzip.decompress(_FILE.read_bytes()).decode("utf-8")
    cut = text.index("\n\n", len(text) * 9 // 10) + 2
    return text[:cut] if split == "train" else text[cut:]
