"""Id lists to padded batches: pairs for a translator, texts for a language model."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from transformer_lib.arguments import as_device, check_id, check_type
from transformer_lib.config import SpecialIds
from transformer_lib.data.checking import id_list, items, pair
from transformer_lib.data.sampler import Order
from transformer_lib.data.tokenizer import Tokenizer

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
