"""Tiny Shakespeare: speeches from his plays, one text of 1,115,394 characters, 65 different ones.

It lies beside this module, compressed, so that a language model can be trained without a network.
Its home is ``data/tinyshakespeare/input.txt`` of GitHub's ``karpathy/char-rnn``, commit
6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e.

**License.** None is needed: the text is in the public domain.
"""

import gzip
import hashlib
import zlib
from pathlib import Path

_FILE = Path(__file__).with_name("shakespeare.txt.gz")
_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"  # of the text
SPLITS = ("train", "val")


def load(split: str) -> str:
    """One side of the text: the first 90 % to train on, or the rest to validate on.

    The cut stands between two speeches, before the first that begins after 90 % of the
    characters. Both sides together are the whole text.

    The two sides must not touch. A model that has read a passage can repeat it, so a loss on
    that passage measures memory. Hence the cut comes first, and windows after it: windows drawn
    from the whole text overlap, and nearly every one in validation would lie in others to train
    on. The sides are runs of whole speeches for the same reason. Speeches drawn at random
    would put a question on one side and its answer on the other.

    Args:
        split: "train" (1,003,857 characters) or "val" (111,537).

    Raises:
        ValueError: no such split, or the file is damaged.

    Example:
        >>> text = load("val")
        >>> print(text[:82])
        GREMIO:
        Good morrow, neighbour Baptista.
        <BLANKLINE>
        BAPTISTA:
        Good morrow, neighbour Gremio.
        >>> sorted(set(text) - set(load("train")))  # characters that training never saw
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
