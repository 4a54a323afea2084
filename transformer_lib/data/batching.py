"""Id lists to padded batches: pairs for a translator, texts for a language model."""

import random
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from transformer_lib.config import SpecialIds
from transformer_lib.data.tokenizer import Tokenizer
from transformer_lib.validation import (
    as_device,
    check_count,
    check_id,
    check_type,
    id_list,
    items,
    pair,
)


class TokenBatchSampler:
    """Batches of about equal cost: many short examples, or few long ones.

    As in section 5.1 of *Attention Is All You Need* the budget is for each side alone: a batch
    holds at most `max_tokens` source and at most `max_tokens` target tokens. Padding counts, for
    padding is computed too: examples × the longest of them ≤ `max_tokens`.

    Examples of like length come together, so there is little padding (3 % of Multi30k at 4096
    tokens, against 57 % in random batches of 128). The order among equals, and that of the
    batches, is drawn anew each epoch. It depends on `seed` and the epoch alone: a run that was
    stopped goes on from (epoch, index of the batch), with no state to save.

    Args:
        lengths: for each example its length, or the lengths of its two sides, (source, target).
        max_tokens: the budget.
        seed: of the order.
        shuffle: False gives the same batches in each epoch, the shortest examples first.

    Raises:
        ValueError: an example is longer than `max_tokens`, or `lengths` is empty.
        TypeError: a number is no int.

    Example:
        >>> sampler = TokenBatchSampler([2, 9, 3, 2, 8], max_tokens=18, shuffle=False)
        >>> sampler.epoch(0)
        [[0, 3, 2], [4, 1]]
    """

    def __init__(
        self,
        lengths: Sequence[int | tuple[int, int]],
        *,
        max_tokens: int,
        seed: int = 0,
        shuffle: bool = True,
    ):
        check_count("max_tokens", max_tokens)
        check_count("seed", seed, least=0)
        check_type("shuffle", shuffle, bool)
        sides = [_sides(i, n) for i, n in enumerate(items("lengths", lengths, "length"))]
        self._longest = [max(pair) for pair in sides]
        self._difference = [source - target for source, target in sides]
        self.max_tokens, self.seed, self.shuffle = max_tokens, seed, shuffle
        for i, longest in enumerate(self._longest):
            if longest > max_tokens:
                raise ValueError(
                    f"max_tokens ({max_tokens}) must be at least the length of each example; "
                    f"example {i} has {longest} tokens"
                )

    def epoch(self, epoch: int) -> list[list[int]]:
        """The batches of an epoch, as indices into `lengths`: each index once."""
        draw = drawing(self.seed, epoch)
        order = list(range(len(self._longest)))
        if self.shuffle:
            draw.shuffle(order)
        order.sort(key=self._place)  # stable: equals stay shuffled
        batches: list[list[int]] = [[]]
        for i in order:  # the longest so far is always the last
            if self._longest[i] * (len(batches[-1]) + 1) > self.max_tokens:
                batches.append([])
            batches[-1].append(i)
        if self.shuffle:
            draw.shuffle(batches)
        return batches

    def _place(self, i: int) -> tuple[int, int]:
        # By the longer side, then by how much shorter the other is: up for one length, down for
        # the next, so that a batch on the border of two lengths holds neighbors too.
        longest, difference = self._longest[i], self._difference[i]
        return longest, difference if longest % 2 else -difference


class Order:
    """Which examples form the batches of an epoch, by number or by tokens."""

    def __init__(
        self,
        lengths: Sequence[int | tuple[int, int]],
        max_tokens: int | None,
        batch_size: int | None,
        seed: int,
        shuffle: bool,
    ):
        check_count("seed", seed, least=0)
        check_type("shuffle", shuffle, bool)
        self.count, self.seed, self.shuffle = len(lengths), seed, shuffle
        if max_tokens is not None and batch_size is None:
            sampler = TokenBatchSampler(lengths, max_tokens=max_tokens, seed=seed, shuffle=shuffle)
            self._batches = sampler.epoch
        elif batch_size is not None and max_tokens is None:
            check_count("batch_size", batch_size)
            self.size = batch_size
            self._batches = self._by_number
        else:
            raise ValueError(
                "give max_tokens or batch_size, one of the two; "
                f"got max_tokens={max_tokens}, batch_size={batch_size}"
            )
        self._n_batches = len(self._batches(0))

    def __len__(self) -> int:
        return self._n_batches

    def epoch(self, epoch: int, start: int) -> list[list[int]]:
        check_count("start", start, least=0)
        return self._batches(epoch)[start:]

    def _by_number(self, epoch: int) -> list[list[int]]:
        draw, order = drawing(self.seed, epoch), list(range(self.count))
        if self.shuffle:
            draw.shuffle(order)
        return [order[i : i + self.size] for i in range(0, len(order), self.size)]


def drawing(seed: int, epoch: int) -> random.Random:
    """What draws an epoch, and nothing of another epoch or seed."""
    check_count("epoch", epoch, least=0)
    # A text as seed is hashed whole, so that (0, 1) and (1, 0) have nothing in common.
    return random.Random(f"seed {seed}, epoch {epoch}")


def _sides(i: int, length: int | tuple[int, int]) -> list[int]:
    name = f"lengths, at {i},"
    if isinstance(length, Integral):
        return [check_count(name, length, least=0)] * 2
    found = id_list(name, length)
    if len(found) != 2:
        raise ValueError(f"{name} must be one number or two; got {found}")
    return found


Ids = Sequence[int]


class Batch(NamedTuple):
    """What one training step needs: `B` pairs, padded on the right, all int64.

    The decoder reads `target_input` and must say `labels`: at position t it has seen the target
    before t, and the label is the target's token t.

    Attributes:
        source: (B, S) what the encoder reads.
        target_input: (B, T) `<bos>`, then the target.
        labels: (B, T) the target, then `<eos>`.
    """

    source: Tensor
    target_input: Tensor
    labels: Tensor

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on `device`. To a GPU the copy runs while the CPU goes on."""
        return _moved(self, device)


class TextBatch(NamedTuple):
    """What one training step of a language model needs: it reads `input` and must say `labels`.

    Attributes:
        input: (B, T) `<bos>`, then the text.
        labels: (B, T) the text, then `<eos>`.
    """

    input: Tensor
    labels: Tensor

    def to(self, device: torch.device | str) -> "TextBatch":
        """The batch on `device`. To a GPU the copy runs while the CPU goes on."""
        return _moved(self, device)


AnyBatch = TypeVar("AnyBatch", Batch, TextBatch)


def pad(rows: Sequence[Ids], *, pad_id: int = Tokenizer.special_ids.pad_id) -> Tensor:
    """Id lists of unequal length as one (B, longest) int64 tensor, `<pad>` on the right.

    Args:
        rows: at least one id list.
        pad_id: of `<pad>`; a `Tokenizer`'s if not given.

    Raises:
        ValueError: there are no rows, or an id is below 0.
        TypeError: a row is not a list of ints, or `pad_id` isn't an int.

    Example:
        >>> pad([[5, 6, 7], [8]])
        tensor([[5, 6, 7],
                [8, 0, 0]])
    """
    check_id("pad_id", pad_id)
    found = [
        id_list(f"row {i} of rows", row) for i, row in enumerate(items("rows", rows, "id list"))
    ]
    return _padded(found, pad_id)


def collate(
    pairs: Sequence[tuple[Ids, Ids]], *, special_ids: SpecialIds = Tokenizer.special_ids
) -> Batch:
    """Make one batch of (source, target) pairs of id lists.

    A target may be empty, a source may not: there would be nothing to attend to.

    Args:
        pairs: at least one pair. Targets come bare: their `<bos>` and `<eos>` are put on here.
        special_ids: those that are put on here, such as `model.config`; a `Tokenizer`'s if not
            given.

    Raises:
        ValueError: there are no pairs, or a source holds nothing but special ids.
        TypeError: something that is no pair, or no list of ints.

    Example:
        >>> batch = collate([([11, 12, 13], [21]), ([14], [22, 23])])
        >>> batch.source.shape, batch.labels.shape
        (torch.Size([2, 3]), torch.Size([2, 3]))
        >>> batch.target_input
        tensor([[ 1, 21,  0],
                [ 1, 22, 23]])
        >>> batch.labels
        tensor([[21,  2,  0],
                [22, 23,  2]])
    """
    check_type("special_ids", special_ids, SpecialIds)
    return _pair_batch(_checked_pairs(pairs, special_ids), special_ids)


def collate_texts(
    texts: Sequence[Ids], *, special_ids: SpecialIds = Tokenizer.special_ids
) -> TextBatch:
    """Make one batch of texts, as id lists, for a language model.

    Args:
        texts: at least one. They come bare, and may be empty.
        special_ids: as for `collate`.

    Raises:
        ValueError: there are no texts.
        TypeError: a text is not a list of ints.

    Example:
        >>> collate_texts([[11, 12], [13]])
        TextBatch(input=tensor([[ 1, 11, 12],
                [ 1, 13,  0]]), labels=tensor([[11, 12,  2],
                [13,  2,  0]]))
    """
    check_type("special_ids", special_ids, SpecialIds)
    return _text_batch(_checked_texts(texts), special_ids)


class Batches:
    """Pairs of id lists, as the batches that a trainer runs through epoch by epoch.

    Args:
        pairs: (source, target) id lists, as for `collate`.
        max_tokens: batches by tokens, as `TokenBatchSampler` does; or
        batch_size: batches of that many pairs, the last one what is left. Give one of the two.
        seed: of the order.
        shuffle: False gives the same batches in each epoch; with `batch_size`, in the order given.
        redraw: a function that makes pair i anew in each epoch, with the random generator that it
            is given; for example `BpeDropout` on both sides. `pairs` still decide which pairs share
            a batch, so a batch may then exceed `max_tokens`.
        special_ids: as for `collate`. Training refuses a model that has others.

    Raises:
        ValueError: there are no pairs, a pair is too long, or not exactly one size was given; and
            as `collate`.
        TypeError: as `collate`; or a number is no int, or `redraw` no function.

    Example:
        >>> batches = Batches([([4], [5])] * 10, batch_size=4)
        >>> [len(batch.source) for batch in batches.epoch(0)]
        [4, 4, 2]
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Ids, Ids]],
        *,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        redraw: Callable[[int, random.Random], tuple[Ids, Ids]] | None = None,
        special_ids: SpecialIds = Tokenizer.special_ids,
    ):
        check_type("special_ids", special_ids, SpecialIds)
        self.special_ids = special_ids.special_ids
        self.pairs = _checked_pairs(pairs, special_ids)
        if redraw is not None and not callable(redraw):
            raise TypeError(f"redraw must be a function, got {type(redraw).__name__}")
        self._redraw = redraw
        # + 1: <bos> in front of the target, or <eos> behind it.
        lengths = [(len(source), len(target) + 1) for source, target in self.pairs]
        self._order = Order(lengths, max_tokens, batch_size, seed, shuffle)

    def __len__(self) -> int:
        """Batches in an epoch, which is the same number in each."""
        return len(self._order)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on, to go on where a run was stopped."""
        order, ids = self._order.epoch(epoch, start), self.special_ids
        if self._redraw is None:
            return (_pair_batch([self.pairs[i] for i in batch], ids) for batch in order)
        return (collate([self._drawn(i, epoch) for i in batch], special_ids=ids) for batch in order)

    def _drawn(self, i: int, epoch: int) -> tuple[Ids, Ids]:
        # A function of seed, epoch and pair alone, as the order is: nothing to save for a resume.
        assert self._redraw is not None
        return self._redraw(i, random.Random(f"seed {self._order.seed}, epoch {epoch}, pair {i}"))


class TextBatches:
    """Texts as id lists, as the batches that a language model is trained on.

    Args:
        texts: id lists, as for `collate_texts`.
        max_tokens, batch_size, seed, shuffle, special_ids: as for `Batches`.

    Raises:
        ValueError, TypeError: as `Batches`.

    Example:
        >>> batches = TextBatches([[4, 5, 6], [7]] * 3, max_tokens=8, shuffle=False)
        >>> [tuple(batch.input.shape) for batch in batches.epoch(0)]
        [(3, 2), (2, 4), (1, 4)]
    """

    def __init__(
        self,
        texts: Sequence[Ids],
        *,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        special_ids: SpecialIds = Tokenizer.special_ids,
    ):
        check_type("special_ids", special_ids, SpecialIds)
        self.special_ids = special_ids.special_ids
        self.texts = _checked_texts(texts)
        lengths = [len(text) + 1 for text in self.texts]
        self._order = Order(lengths, max_tokens, batch_size, seed, shuffle)

    def __len__(self) -> int:
        """Batches in an epoch, which is the same number in each."""
        return len(self._order)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[TextBatch]:
        """The batches of an epoch from number `start` on."""
        order = self._order.epoch(epoch, start)
        return (_text_batch([self.texts[i] for i in batch], self.special_ids) for batch in order)


def _checked_pairs(pairs: Any, special: SpecialIds) -> list[tuple[list[int], list[int]]]:
    checked = []
    for i, example in enumerate(items("pairs", pairs, "pair")):
        source, target = pair(f"pair {i} of pairs", example)
        source = id_list(f"source of pair {i} of pairs", source)
        if all(id_ in (special.pad_id, special.bos_id, special.eos_id) for id_ in source):
            raise ValueError(f"source of pair {i} of pairs must not be empty; got {source}")
        checked.append((source, id_list(f"target of pair {i} of pairs", target)))
    return checked


def _checked_texts(texts: Any) -> list[list[int]]:
    return [
        id_list(f"text {i} of texts", text)
        for i, text in enumerate(items("texts", texts, "id list"))
    ]


def _padded(rows: list[list[int]], pad_id: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [pad_id] * (longest - len(row)) for row in rows], dtype=torch.long)


def _pair_batch(pairs: list[tuple[list[int], list[int]]], ids: SpecialIds) -> Batch:
    sources, targets = zip(*pairs, strict=True)
    return Batch(_padded(list(sources), ids.pad_id), *_text_batch(list(targets), ids))


def _text_batch(texts: list[list[int]], ids: SpecialIds) -> TextBatch:
    return TextBatch(
        _padded([[ids.bos_id, *text] for text in texts], ids.pad_id),
        _padded([[*text, ids.eos_id] for text in texts], ids.pad_id),
    )


def _moved(batch: AnyBatch, device: torch.device | str) -> AnyBatch:
    device = device if isinstance(device, torch.device) else as_device("device", device)
    if device.type == "cuda" and not batch.labels.is_cuda:
        # Only from pinned memory can a GPU copy by itself.
        return type(batch)(*(t.pin_memory().to(device, non_blocking=True) for t in batch))
    return type(batch)(*(t.to(device) for t in batch))


class WindowBatches:
    """Windows of one long text, as the batches that a language model is trained on.

    Windows stand side by side, so that an epoch reads every token once. A window begins with
    `<bos>`, which says that nothing is known of what came before; it ends without `<eos>`, for
    the text goes on.

    In training, each epoch begins at another place before `length`, so every token is met with much
    and with little text before it. The text left over at both ends is not read in that epoch. With
    `shuffle=False` each epoch is the whole text, and the last window may be short: that is what a
    loss is measured on. With `batch_size` the windows then come in their order.

    Args:
        ids: of the text, without `<bos>` and `<eos>`.
        length: of a window, in tokens.
        max_tokens, batch_size, seed, shuffle, special_ids: as for `Batches`.

    Raises:
        ValueError: there are fewer ids than training needs, 2 × `length` − 1, or none at all;
            not exactly one size was given.
        TypeError: ids are not a list of ints; a number is no int.

    Example:
        >>> batches = WindowBatches([4, 5, 6, 7, 8], length=3, batch_size=2, shuffle=False)
        >>> next(batches.epoch(0))
        TextBatch(input=tensor([[1, 4, 5],
                [1, 7, 0]]), labels=tensor([[4, 5, 6],
                [7, 8, 0]]))
    """

    def __init__(
        self,
        ids: Ids,
        *,
        length: int,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        special_ids: SpecialIds = Tokenizer.special_ids,
    ):
        check_type("special_ids", special_ids, SpecialIds)
        self.special_ids = special_ids.special_ids
        self.ids = id_list("ids", ids)
        check_count("length", length)
        check_count("seed", seed, least=0)
        check_type("shuffle", shuffle, bool)
        self.length, self.seed, self.shuffle = length, seed, shuffle
        least = 2 * length - 1 if shuffle else 1
        if len(self.ids) < least:
            raise ValueError(
                f"ids must hold at least {least} tokens for a length of {length}; "
                f"got {len(self.ids)}"
            )
        starts = range(0, len(self.ids) - least + 1, length)
        lengths = [len(self.ids[start : start + length]) for start in starts]
        self._order = Order(lengths, max_tokens, batch_size, seed, shuffle)

    def __len__(self) -> int:
        """Batches in an epoch, which is the same number in each."""
        return len(self._order)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[TextBatch]:
        """The batches of an epoch from number `start` on."""
        order = self._order.epoch(epoch, start)
        first = drawing(self.seed, epoch).randrange(self.length) if self.shuffle else 0
        return (self._batch([first + i * self.length for i in batch]) for batch in order)

    def _batch(self, places: list[int]) -> TextBatch:
        rows = [self.ids[place : place + self.length] for place in places]
        bos_id, pad_id = self.special_ids.bos_id, self.special_ids.pad_id
        inputs = [[bos_id, *row[:-1]] for row in rows]
        return TextBatch(pad(inputs, pad_id=pad_id), pad(rows, pad_id=pad_id))
