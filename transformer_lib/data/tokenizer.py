"""Text to ids and back, over Hugging Face `tokenizers`."""

import json
import os
import random
from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache
from itertools import pairwise

from transformer_lib.config import SpecialIds
from transformer_lib.files import replacing
from transformer_lib.validation import (
    as_path,
    check_count,
    check_number,
    check_text,
    check_type,
    id_list,
    text_list,
)

# The time for a word grows with the square of its length, and Chinese has no spaces between words:
# a run of more than 50 letters, digits or signs is cut.
_LONG_RUN = r" ?(?:\p{L}{50}|\p{N}{50}|[^\s\p{L}\p{N}]{50})|\s{50}"
SPECIAL_PIECES = ["<pad>", "<bos>", "<eos>", "<unk>"]  # ids 0 to 3


class Tokenizer:
    """Map text to ids and back.

    Make one with `train_bpe`, `characters` or `load`. Ids 0 to 3 are `<pad>`, `<bos>`, `<eos>` and
    `<unk>`. Text that spells one of these is encoded as plain characters.

    To reuse another model's, pass its `tokenizers.Tokenizer` and `special_ids`, those of its model:
    `model.config.special_ids`. The pieces of `bos_id` and `eos_id` aren't decoded to text. Padding
    doesn't need a piece of its own. The second example is made as GPT-2's is, which comes from
    `BPE.from_file("vocab.json", "merges.txt")`.

    **Train on training text only.** A tokenizer that has seen validation or test text has pieces
    for words its model should never have met, and the scores come out too good.

    Example:
        >>> tokenizer = Tokenizer.characters(["zwei", "vier"])
        >>> tokenizer.encode("drei")  # no d in the training text
        [3, 6, 4, 5]
        >>> tokenizer.decode([6, 4, 5, 2, 0])  # <eos> ends the text
        'rei'
        >>> from tokenizers import Tokenizer as Pieces, models, pre_tokenizers
        >>> vocab = {"l": 0, "o": 1, "w": 2, "lo": 3, "low": 4, "<|endoftext|>": 5}
        >>> gpt2 = Pieces(models.BPE(vocab, [("l", "o"), ("lo", "w")]))
        >>> gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        >>> Tokenizer(gpt2, SpecialIds(pad_id=0, bos_id=5, eos_id=5)).encode("lowlo")
        [4, 3]
    """

    special_ids = SpecialIds()
    """The ids of `<pad>`, `<bos>` and `<eos>`: 0, 1 and 2, unless others were given."""

    def __init__(self, tokenizer, special_ids: SpecialIds | None = None):
        """Wrap a `tokenizers.Tokenizer`. Without `special_ids`, its ids 0 to 3 must be ours."""
        import tokenizers as hf

        check_type("tokenizer", tokenizer, hf.Tokenizer)
        check_type("special_ids", special_ids, SpecialIds, optional=True)
        if special_ids is None:
            specials = [tokenizer.id_to_token(i) for i in range(len(SPECIAL_PIECES))]
            if specials != SPECIAL_PIECES:
                raise ValueError(f"tokenizer's ids 0 to 3 must be {SPECIAL_PIECES}; got {specials}")
            self._silent = {0, 1, 2}
        else:
            self.special_ids = special_ids
            self._silent = {special_ids.bos_id, special_ids.eos_id}
            if None in map(tokenizer.id_to_token, self._silent):
                raise ValueError(
                    f"tokenizer must have a piece for bos_id and eos_id of {special_ids}"
                )
        # Otherwise, text that spells "<eos>" would become the id that ends a sentence.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        byte_level = tokenizer.pre_tokenizer is not None
        self._piece_decoder = hf.decoders.ByteLevel() if byte_level else hf.decoders.Fuse()

    @classmethod
    def train_bpe(cls, texts: Iterable[str], *, vocab_size: int) -> "Tokenizer":
        r"""Learn a byte-pair encoding: merge the most frequent pair of pieces repeatedly.

        The first pieces are the 256 bytes, so any text can be encoded, and
        `decode(encode(text)) == text` always holds: case, spaces, umlauts, emoji. For a vocabulary
        shared by two languages, pass texts in both. No piece crosses the end of a word, or 50
        letters without a space.

        Args:
            texts: strings, from the training data only.
            vocab_size: the number of pieces, including the 4 special ones and the 256 bytes. There
                are fewer if no pair occurs twice any more.

        Raises:
            TypeError: `texts` isn't a list of strings.
            ValueError: no texts; `vocab_size` below 260.

        Source: Sennrich et al. (2016), *Neural Machine Translation of Rare Words with Subword
        Units*, section 3.2; on bytes: Radford et al. (2019), *Language Models are Unsupervised
        Multitask Learners*, section 2.2.

        Example:
            >>> text = "low low low low low lower lower newest newest newest widest"
            >>> tokenizer = Tokenizer.train_bpe([text], vocab_size=265)  # five merges
            >>> tokenizer.tokens(tokenizer.encode("lowest low"))
            ['▁low', 'est', '▁low']
        """
        import tokenizers as hf

        smallest = len(SPECIAL_PIECES) + 256  # the bytes
        check_count("vocab_size", vocab_size, least=smallest)
        tokenizer = hf.Tokenizer(hf.models.BPE())
        # With a space before it, the first word is the same piece as that word in a sentence.
        tokenizer.normalizer = hf.normalizers.Prepend(" ")
        tokenizer.pre_tokenizer = hf.pre_tokenizers.Sequence(
            [
                hf.pre_tokenizers.Split(hf.Regex(_LONG_RUN), "isolated"),
                hf.pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        tokenizer.decoder = hf.decoders.Sequence(
            [hf.decoders.ByteLevel(), hf.decoders.Strip(" ", 1, 0)]
        )
        trainer = hf.trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=SPECIAL_PIECES,
            initial_alphabet=hf.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(text_list("texts", texts, least=1), trainer)
        return cls(tokenizer)

    @classmethod
    def characters(cls, texts: Iterable[str], *, words: Iterable[str] = ()) -> "Tokenizer":
        """Make each character of `texts` a piece; any other character is `<unk>`.

        Args:
            texts: strings, from the training data only.
            words: words that are one piece each, except inside a longer word.

        Raises:
            TypeError: `texts` or `words` isn't a list of strings.
            ValueError: no texts.

        Example:
            >>> tokenizer = Tokenizer.characters(["two-one", "zwei"], words=["two", "one"])
            >>> tokenizer.tokens(tokenizer.encode("two-one"))
            ['two', '-', 'one']
            >>> tokenizer.tokens(tokenizer.encode("zwei"))
            ['z', 'w', 'e', 'i']
        """
        import tokenizers as hf

        pieces = SPECIAL_PIECES + sorted(set().union(*text_list("texts", texts, least=1)))
        ids = {piece: i for i, piece in enumerate(pieces)}
        # A byte-pair encoding without merges is a tokenizer of characters.
        tokenizer = hf.Tokenizer(hf.models.BPE(ids, [], unk_token="<unk>"))
        tokenizer.decoder = hf.decoders.Fuse()
        whole = sorted(set(text_list("words", words)))
        tokenizer.add_tokens(
            [hf.AddedToken(word, single_word=True, normalized=False) for word in whole]
        )
        return cls(tokenizer)

    @property
    def vocab_size(self) -> int:
        """The number of pieces, including special ones: ids are 0 to `vocab_size` − 1."""
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`."""
        check_text("text", text)
        return self._tokenizer.encode(text).ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids` up to the first `<eos>`, without `<pad>` and `<bos>`.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        ids, end = self._known(ids), self.special_ids.eos_id
        if ids and ids[0] == self.special_ids.bos_id:  # in GPT-2, it's also the id that ends a text
            ids = ids[1:]
        if end in ids:
            ids = ids[: ids.index(end)]
        spoken = [i for i in ids if i not in self._silent]
        return self._tokenizer.decode(spoken, skip_special_tokens=False)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id, as a label for an axis, with `▁` for spaces.

        A piece that's only part of a character (a byte of `ß`, say) is shown as `�`.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        pieces = (self._tokenizer.id_to_token(i) or "" for i in self._known(ids))
        return [self._piece_decoder.decode([piece]).replace(" ", "▁") for piece in pieces]

    def __eq__(self, other: object) -> bool:
        """Whether both have the same pieces, ids and merges."""
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | os.PathLike) -> None:
        """Write the tokenizer to `path` as JSON. If that fails, an older file stays."""
        with replacing(as_path("path", path)) as file:
            file.write(self._content().encode())

    def _content(self) -> str:
        own = self._tokenizer.to_str(pretty=True)
        if self.special_ids == type(self).special_ids:
            return own
        return json.dumps({"special_ids": asdict(self.special_ids), "tokenizer": own}, indent=2)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Load a tokenizer that `save` wrote.

        Raises:
            FileNotFoundError: the file doesn't exist.
            ValueError: the file is truncated or isn't a tokenizer.
        """
        import tokenizers as hf

        content = as_path("path", path).read_bytes()
        try:
            # json first: its message says where the file breaks off.
            found = json.loads(content)
            if "special_ids" in found:
                own = hf.Tokenizer.from_str(found["tokenizer"])
                return cls(own, SpecialIds(**found["special_ids"]))
            return cls(hf.Tokenizer.from_str(content.decode()))
        except Exception as error:  # `tokenizers` raises no class narrower than Exception
            raise ValueError(f"{path} is not a whole tokenizer file: {error}") from error

    def _known(self, ids: Iterable[int]) -> list[int]:
        found, size = id_list("ids", ids), self.vocab_size
        if max(found, default=0) >= size:
            raise ValueError(f"ids must be from 0 to {size - 1}; got {max(found)}")
        return found


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
