"""Id lists to padded batches: pairs for a translator, texts for a language model."""

import random
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from transformer_lib.config import SpecialIds
from transformer_lib.data.tokenizer import Tokenizer
from transformer_lib.validation import (
    as_device,
    check_count,
    check_type,
    id_list,
    items,
    pair,
)

Ids = Sequence[int]


class TokenBatchSampler:
    """Group examples into batches of about equal cost: many short ones, or few long ones.

    As in section 5.1 of *Attention Is All You Need*, the budget applies to each side: a batch holds
    at most `max_tokens` source tokens and at most `max_tokens` target tokens, padding included,
    since padding is computed too.

    Examples of similar length share a batch, so there's little padding: 3 % of Multi30k at 4096
    tokens, compared with 57 % in random batches of 128. Each epoch draws the order of equal lengths
    and of the batches from `seed` and the number of the epoch alone, so a run can resume anywhere
    with no state to save.

    Args:
        lengths: the length of each example, or the lengths of its two sides, (source, target).
        max_tokens: the budget.
        seed: of the order.
        shuffle: False gives the same batches in each epoch, the shortest examples first.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an example longer than `max_tokens`; no examples.

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
        self.max_tokens, self.seed, self.shuffle = max_tokens, seed, shuffle
        # Sorted by the longer side, then by the difference between the sides, in alternating
        # directions: so a batch that holds two lengths holds similar examples of both.
        self._keys: list[tuple[int, int]] = []
        for i, length in enumerate(items("lengths", lengths, "length")):
            source, target = _sides(i, length)
            longest, difference = max(source, target), source - target
            if longest > max_tokens:
                raise ValueError(
                    f"max_tokens ({max_tokens}) must be at least the length of each example; "
                    f"example {i} has {longest} tokens"
                )
            self._keys.append((longest, difference if longest % 2 else -difference))

    def epoch(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch, as indices into `lengths`. Each index occurs once."""
        draw = _drawing(self.seed, epoch)
        order = list(range(len(self._keys)))
        if self.shuffle:
            draw.shuffle(order)
        order.sort(key=self._keys.__getitem__)  # stable: examples of equal length stay shuffled
        batches: list[list[int]] = [[]]
        for i in order:  # the longest so far is always the last
            if self._keys[i][0] * (len(batches[-1]) + 1) > self.max_tokens:
                batches.append([])
            batches[-1].append(i)
        if self.shuffle:
            draw.shuffle(batches)
        return batches


def _sides(i: int, length: int | tuple[int, int]) -> list[int]:
    name = f"lengths, at {i},"
    if isinstance(length, Integral):
        return [check_count(name, length, least=0)] * 2
    found = id_list(name, length)
    if len(found) != 2:
        raise ValueError(f"{name} must be one number or two; got {found}")
    return found


def _drawing(seed: int, epoch: int) -> random.Random:
    check_count("epoch", epoch, least=0)
    # A string as seed is hashed as a whole, so (0, 1) and (1, 0) have nothing in common.
    return random.Random(f"seed {seed}, epoch {epoch}")


class Batch(NamedTuple):
    """What one training step of a translator needs: `B` pairs, padded on the right, all int64.

    The decoder reads `target_input` and learns to predict `labels`: at position t it sees the
    target before t, and the label is token t.

    Attributes:
        source: (B, S) what the encoder reads.
        target_input: (B, T) `<bos>`, then the target.
        labels: (B, T) the target, then `<eos>`.
    """

    source: Tensor
    target_input: Tensor
    labels: Tensor

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the batch to `device`; to a GPU, without waiting for the copy."""
        return _moved(self, device)


class TextBatch(NamedTuple):
    """What one training step of a language model needs: it reads `input` and predicts `labels`.

    Attributes:
        input: (B, T) `<bos>`, then the text.
        labels: (B, T) the text, then `<eos>`.
    """

    input: Tensor
    labels: Tensor

    def to(self, device: torch.device | str) -> "TextBatch":
        """Copy the batch to `device`; to a GPU, without waiting for the copy."""
        return _moved(self, device)


AnyBatch = TypeVar("AnyBatch", Batch, TextBatch)


def _moved(batch: AnyBatch, device: torch.device | str) -> AnyBatch:
    device = as_device("device", device)
    if device.type == "cuda" and not batch.labels.is_cuda:
        # Only from pinned memory can a GPU copy in the background.
        return type(batch)(*(t.pin_memory().to(device, non_blocking=True) for t in batch))
    return type(batch)(*(t.to(device) for t in batch))


def collate(
    pairs: Sequence[tuple[Ids, Ids]], *, special_ids: SpecialIds = Tokenizer.special_ids
) -> Batch:
    """Make one batch from pairs of id lists, (source, target).

    Args:
        pairs: at least one pair, without `<bos>` and `<eos>`, which are added here. A target may be
            empty. A source can't be: the decoder would have nothing to attend to.
        special_ids: the ids to add, such as `model.config`; by default a `Tokenizer`'s.

    Raises:
        TypeError: not a list of pairs of lists of ints.
        ValueError: no pairs; a source with nothing but special ids.

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


class _Epochs(Generic[AnyBatch]):
    """The same examples in each epoch, in other batches and another order."""

    def __init__(
        self,
        lengths: Sequence[int | tuple[int, int]],
        *,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        special_ids: SpecialIds = Tokenizer.special_ids,
    ):
        check_type("special_ids", special_ids, SpecialIds)
        self.special_ids = special_ids.special_ids
        if (max_tokens is None) == (batch_size is None):
            raise ValueError(
                "give max_tokens or batch_size, one of the two; "
                f"got max_tokens={max_tokens}, batch_size={batch_size}"
            )
        check_type("shuffle", shuffle, bool)
        self._shuffle, self._seed = shuffle, check_count("seed", seed, least=0)
        self._count, self._size = len(lengths), check_count("batch_size", batch_size, optional=True)
        self._order = self._by_number
        if max_tokens is not None:
            sampler = TokenBatchSampler(lengths, max_tokens=max_tokens, seed=seed, shuffle=shuffle)
            self._order = sampler.epoch
        self._n_batches = len(self._order(0))

    def __len__(self) -> int:
        return self._n_batches

    def epoch(self, epoch: int) -> Iterator[AnyBatch]:
        return (self._batch(indices, epoch) for indices in self._order(epoch))

    def _by_number(self, epoch: int) -> list[list[int]]:
        draw, order = _drawing(self._seed, epoch), list(range(self._count))
        if self._shuffle:
            draw.shuffle(order)
        return [order[i : i + self._size] for i in range(0, self._count, self._size)]

    def _batch(self, indices: list[int], epoch: int) -> AnyBatch:
        raise NotImplementedError


class Batches(_Epochs[Batch]):
    """Pairs of id lists, as the batches that a trainer goes through epoch by epoch.

    `epoch(3)` yields the batches of epoch 3, the same at every call. `len(batches)` is how many an
    epoch has.

    Args:
        pairs: (source, target) id lists, as for `collate`.
        max_tokens: the budget of a batch, as in `TokenBatchSampler`; or
        batch_size: pairs per batch; the last one holds the rest. Give one of the two.
        seed: of the order.
        shuffle: False gives the same batches in each epoch; with `batch_size`, in the order given.
        redraw: a function that makes pair i again in each epoch, using the random generator that it
            gets; for example with `BpeDropout`. `pairs` still decide which pairs share a batch, so
            a batch may then exceed `max_tokens`.
        special_ids: as for `collate`. Training refuses a model that has others.

    Raises:
        TypeError, ValueError: as `collate`; a pair longer than `max_tokens`; not exactly one size.

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
        self.pairs = _checked_pairs(pairs, special_ids)
        if redraw is not None and not callable(redraw):
            raise TypeError(f"redraw must be a function, got {type(redraw).__name__}")
        self._redraw = redraw
        # + 1 for the <bos> before the target, or the <eos> after it.
        lengths = [(len(source), len(target) + 1) for source, target in self.pairs]
        super().__init__(
            lengths,
            max_tokens=max_tokens,
            batch_size=batch_size,
            seed=seed,
            shuffle=shuffle,
            special_ids=special_ids,
        )

    def _batch(self, indices: list[int], epoch: int) -> Batch:
        if self._redraw is None:
            return _pair_batch([self.pairs[i] for i in indices], self.special_ids)
        # Drawn from seed, epoch and pair alone, like the order: nothing to save for a resume.
        seed = f"seed {self._seed}, epoch {epoch}"
        pairs = [self._redraw(i, random.Random(f"{seed}, pair {i}")) for i in indices]
        return collate(pairs, special_ids=self.special_ids)


class TextBatches(_Epochs[TextBatch]):
    """Texts as id lists, as the batches that a language model is trained on.

    Args:
        texts: id lists, without `<bos>` and `<eos>`. A text may be empty.
        options: `max_tokens` or `batch_size`, and `seed`, `shuffle`, `special_ids`, as for
            `Batches`.

    Raises:
        TypeError, ValueError: as `Batches`.

    Example:
        >>> batches = TextBatches([[4, 5, 6], [7]] * 3, max_tokens=8, shuffle=False)
        >>> [tuple(batch.input.shape) for batch in batches.epoch(0)]
        [(3, 2), (2, 4), (1, 4)]
    """

    def __init__(self, texts: Sequence[Ids], **options: Any):
        self.texts = [
            id_list(f"text {i} of texts", text)
            for i, text in enumerate(items("texts", texts, "id list"))
        ]
        super().__init__([len(text) + 1 for text in self.texts], **options)

    def _batch(self, indices: list[int], epoch: int) -> TextBatch:
        return _text_batch([self.texts[i] for i in indices], self.special_ids)


class WindowBatches(_Epochs[TextBatch]):
    """Windows of one long text, as the batches that a language model is trained on.

    Windows don't overlap, so an epoch reads every token once. A window begins with `<bos>`, since
    the model can't see what came before it. It doesn't end with `<eos>`, since the text continues.

    Each training epoch begins at a random offset below `length`, so the model meets every token
    with more and with less text before it. The text left over at both ends isn't read in that
    epoch. With `shuffle=False`, for measuring a loss, an epoch is the whole text and its last
    window may be short; with `batch_size`, the windows keep their order.

    Args:
        ids: of the text, without `<bos>` and `<eos>`.
        length: of a window, in tokens.
        shuffle: see above.
        options: `max_tokens` or `batch_size`, and `seed`, `special_ids`, as for `Batches`.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: no ids, or fewer than the 2 × `length` − 1 that training needs; not exactly one
            size.

    Example:
        >>> batches = WindowBatches([4, 5, 6, 7, 8], length=3, batch_size=2, shuffle=False)
        >>> next(batches.epoch(0))
        TextBatch(input=tensor([[1, 4, 5],
                [1, 7, 0]]), labels=tensor([[4, 5, 6],
                [7, 8, 0]]))
    """

    def __init__(self, ids: Ids, *, length: int, shuffle: bool = True, **options: Any):
        check_type("shuffle", shuffle, bool)
        self.ids = id_list("ids", ids)
        self.length = check_count("length", length)
        least = 2 * length - 1 if shuffle else 1
        if len(self.ids) < least:
            raise ValueError(
                f"ids must hold at least {least} tokens for a length of {length}; "
                f"got {len(self.ids)}"
            )
        starts = range(0, len(self.ids) - least + 1, length)
        lengths = [len(self.ids[start : start + length]) for start in starts]
        super().__init__(lengths, shuffle=shuffle, **options)

    def _batch(self, indices: list[int], epoch: int) -> TextBatch:
        offset = _drawing(self._seed, epoch).randrange(self.length) if self._shuffle else 0
        starts = (offset + i * self.length for i in indices)
        rows = [self.ids[start : start + self.length] for start in starts]
        bos_id, pad_id = self.special_ids.bos_id, self.special_ids.pad_id
        inputs = [[bos_id, *row[:-1]] for row in rows]
        return TextBatch(padded(inputs, pad_id), padded(rows, pad_id))


def _checked_pairs(pairs: Any, special: SpecialIds) -> list[tuple[list[int], list[int]]]:
    checked = []
    for i, example in enumerate(items("pairs", pairs, "pair")):
        source, target = pair(f"pair {i} of pairs", example)
        source = id_list(f"source of pair {i} of pairs", source)
        if all(id_ in (special.pad_id, special.bos_id, special.eos_id) for id_ in source):
            raise ValueError(f"source of pair {i} of pairs must not be empty; got {source}")
        checked.append((source, id_list(f"target of pair {i} of pairs", target)))
    return checked


def padded(rows: list[list[int]], pad_id: int) -> Tensor:
    """Pad id lists on the right to one int64 tensor ``(B, longest)``."""
    longest = max(map(len, rows))
    return torch.tensor([row + [pad_id] * (longest - len(row)) for row in rows], dtype=torch.long)


def _pair_batch(pairs: list[tuple[list[int], list[int]]], ids: SpecialIds) -> Batch:
    sources, targets = zip(*pairs, strict=True)
    return Batch(padded(list(sources), ids.pad_id), *_text_batch(list(targets), ids))


def _text_batch(texts: list[list[int]], ids: SpecialIds) -> TextBatch:
    return TextBatch(
        padded([[ids.bos_id, *text] for text in texts], ids.pad_id),
        padded([[*text, ids.eos_id] for text in texts], ids.pad_id),
    )
