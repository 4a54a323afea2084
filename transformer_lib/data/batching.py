"""Pairs of id lists to padded batches, in an order that is a function of seed and epoch."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_lib.data.tokenizer import BOS, EOS, PAD

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

    @property
    def n_tokens(self) -> int:
        """Labels that are not padding: what a loss summed over the batch is divided by."""
        return int((self.labels != PAD).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on `device`. To a GPU the copy runs while the CPU goes on."""
        device = torch.device(device)
        if device.type == "cuda" and not self.source.is_cuda:
            # Only from pinned memory can a GPU copy by itself.
            return Batch(*(t.pin_memory().to(device, non_blocking=True) for t in self))
        return Batch(*(t.to(device) for t in self))


def pad(rows: Sequence[Ids]) -> Tensor:
    """Id lists of unequal length as one (B, longest) int64 tensor, `<pad>` on the right.

    Example:
        >>> pad([[5, 6, 7], [8]])
        tensor([[5, 6, 7],
                [8, 0, 0]])
    """
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


def collate(pairs: Sequence[tuple[Ids, Ids]]) -> Batch:
    """Make one batch of (source, target) pairs of id lists.

    A target may be empty, a source may not: there would be nothing to attend to.

    Args:
        pairs: at least one pair. Targets come bare: their `<bos>` and `<eos>` are put on here.

    Raises:
        ValueError: there are no pairs, or a source holds nothing but special ids.

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
    if not pairs:
        raise ValueError("pairs must hold at least one pair; got none")
    for i, (source, _) in enumerate(pairs):
        if all(id_ in (PAD, BOS, EOS) for id_ in source):
            raise ValueError(f"source of pair {i} must not be empty; got {list(source)}")
    return Batch(
        pad([source for source, _ in pairs]),
        pad([[BOS, *target] for _, target in pairs]),
        pad([[*target, EOS] for _, target in pairs]),
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
        if not lengths:
            raise ValueError("lengths must hold at least one length; got none")
        sides = [(n, n) if isinstance(n, int) else n for n in lengths]
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
        draw = _random(self.seed, epoch)
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


class Batches:
    """Pairs of id lists, as the batches that a trainer runs through epoch by epoch.

    Args:
        pairs: (source, target) id lists, as for `collate`.
        max_tokens: batches by tokens, as `TokenBatchSampler` does; or
        batch_size: batches of that many pairs, the last one what is left. Give one of the two.
        seed: of the order.
        shuffle: False gives the same batches in each epoch; with `batch_size`, in the order given.

    Raises:
        ValueError: there are no pairs, a pair is too long, or not exactly one size was given.

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
    ):
        if (max_tokens is None) == (batch_size is None):
            raise ValueError(
                "give max_tokens or batch_size, one of the two; "
                f"got max_tokens={max_tokens}, batch_size={batch_size}"
            )
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size}")
        if not pairs:
            raise ValueError("pairs must hold at least one pair; got none")
        self.pairs = pairs
        self.batch_size, self.seed, self.shuffle = batch_size, seed, shuffle
        self._order = self._by_number
        if max_tokens is not None:
            # + 1: <bos> in front of the target, or <eos> behind it.
            lengths = [(len(source), len(target) + 1) for source, target in pairs]
            sampler = TokenBatchSampler(lengths, max_tokens=max_tokens, seed=seed, shuffle=shuffle)
            self._order = sampler.epoch
        self._n_batches = len(self._order(0))

    def __len__(self) -> int:
        """Batches in an epoch, which is the same number in each."""
        return self._n_batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on, to go on where a run was stopped."""
        for batch in self._order(epoch)[start:]:
            yield collate([self.pairs[i] for i in batch])

    def _by_number(self, epoch: int) -> list[list[int]]:
        order = list(range(len(self.pairs)))
        if self.shuffle:
            _random(self.seed, epoch).shuffle(order)
        return [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]


def _random(seed: int, epoch: int) -> random.Random:
    # A text as seed is hashed whole, so that (0, 1) and (1, 0) have nothing in common.
    return random.Random(f"seed {seed}, epoch {epoch}")
