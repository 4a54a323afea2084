"""Tiny Shakespeare: speeches from his plays, 1,115,394 characters, 65 of them different.

The text is next to this module, so you can train a language model offline. It comes from
``data/tinyshakespeare/input.txt`` in GitHub's ``karpathy/char-rnn``, commit
6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e, and is in the public domain.
"""

import gzip
import hashlib
import zlib
from pathlib import Path

_FILE = Path(__file__).with_name("shakespeare.txt.gz")
_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"  # of the text
SPLITS = ("train", "val")


def load(split: str) -> str:
    """Load the first 90 % of the text for training, or the rest for validation.

    The text is cut between two speeches, at the first opportunity after 90 % of the characters. A
    model can repeat what it has read, so a loss on text from training would measure memory. So cut
    first, then make windows or batches. The splits are contiguous for the same reason: speeches
    drawn at random would put a question in one split and its answer in the other.

    Args:
        split: "train" (1,003,857 characters) or "val" (111,537).

    Raises:
        ValueError: an unknown split; a damaged file.

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
    if not isinstance(split, str) or split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    text = _text()
    cut = text.index("\n\n", len(text) * 9 // 10) + 2
    return text[:cut] if split == "train" else text[cut:]


def _text() -> str:
    try:
        content = gzip.decompress(_FILE.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{_FILE} is damaged: {error}") from error
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise ValueError(f"{_FILE} is damaged: the SHA-256 of its text is not {_SHA256}")
    return content.decode("utf-8")
