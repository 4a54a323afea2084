"""Byte-pair encoding that randomly skips merges, so a model meets a word in many spellings."""

import json
import random
from functools import lru_cache
from itertools import pairwise

from transformer_lib.data.tokenizer import Tokenizer
from transformer_lib.validation import check_count, check_number, check_text, check_type


class BpeDropout:
    r"""Encode text with a byte-pair encoding that skips each merge with some probability.

    A word starts as its bytes. At each step, the possible merges are tried in the order in which
    they were learned. Each is skipped with probability `dropout`, and the first that isn't skipped
    is made. The word is done when all are skipped or none is possible. With `dropout=0` this is the
    tokenizer's own encoding. All spellings decode to the same text.

    Use it in training only.

    Args:
        tokenizer: a byte-pair encoding, such as `Tokenizer.train_bpe` makes.
        dropout: the probability, in [0, 1); 0.1 in the paper.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: a tokenizer without merges; `dropout` outside [0, 1).

    Source:
        Provilkov et al. (2020), *BPE-Dropout: Simple and Effective Subword Regularization*,
        algorithm 1.

    Example:
        >>> text = "low low low low low lower lower newest newest newest widest"
        >>> tokenizer = Tokenizer.train_bpe([text], vocab_size=265)
        >>> spell, draw = BpeDropout(tokenizer, 0.3), random.Random(1)
        >>> for _ in range(3):
        ...     tokenizer.tokens(spell.encode("lowest", draw))
        ['▁low', 'est']
        ['▁', 'lo', 'w', 'e', 's', 't']
        ['▁low', 'e', 's', 't']
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float):
        check_type("tokenizer", tokenizer, Tokenizer)
        check_number("dropout", dropout, 0, 1)
        self._tokenizer, inside = tokenizer, tokenizer._tokenizer
        model = json.loads(inside.to_str())["model"]
        if not model["merges"]:
            raise ValueError("tokenizer must have merges, like those of Tokenizer.train_bpe; got 0")
        # "a b" up to tokenizers 0.19, ["a", "b"] since.
        pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        self.dropout = dropout
        self._rank = {(first, second): rank for rank, (first, second) in enumerate(pairs)}
        self._id: dict[str, int] = model["vocab"]
        self._normalizer, self._pre_tokenizer = inside.normalizer, inside.pre_tokenizer
        self._words = lru_cache(maxsize=2**17)(self._split)

    def encode(self, text: str, draw: random.Random, *, max_len: int | None = None) -> list[int]:
        """Return the ids of `text`, skipping merges with random numbers from `draw`.

        A text that would have more than `max_len` ids gets the tokenizer's own encoding, which is
        shorter.
        """
        check_text("text", text)
        check_type("draw", draw, random.Random)
        check_count("max_len", max_len, least=0, optional=True)
        ids = [self._id[piece] for word in self._words(text) for piece in self._pieces(word, draw)]
        too_long = max_len is not None and len(ids) > max_len
        return self._tokenizer.encode(text) if too_long else ids

    def _split(self, text: str) -> list[str]:
        if self._normalizer is not None:
            text = self._normalizer.normalize_str(text)
        return [word for word, _ in self._pre_tokenizer.pre_tokenize_str(text)]

    def _pieces(self, word: str, draw: random.Random) -> list[str]:
        pieces, rank, dropout = list(word), self._rank, self.dropout
        while True:
            possible = [(rank[pair], i) for i, pair in enumerate(pairwise(pieces)) if pair in rank]
            for _, i in sorted(possible):
                if draw.random() >= dropout:
                    pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
                    break
            else:
                return pieces
