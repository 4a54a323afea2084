"""Which examples form a batch: an order that is a function of seed and epoch."""

import random
from collections.abc import Sequence
from numbers import Integral

from transformer_lib.arguments import check_count, check_type
from transformer_lib.data.checking import id_list, items


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
