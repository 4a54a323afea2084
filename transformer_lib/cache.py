"""Caches, so that keys and values aren't computed again while a sequence grows.

State is an argument, never an attribute of a module: ``decoder(x, memory, cache=cache)`` appends to
the cache it is given. Caches are for inference.
"""

import torch
from torch import Tensor

from transformer_lib.validation import check_count

__all__ = ["AttentionCache", "KVCache", "LayerCache"]


class AttentionCache:
    """The keys and values one attention layer has seen so far, ``(B, H, length, d_head)``.

    The buffer begins with the size of what comes first: cross-attention's keys come all at once.
    It doubles when it's full, so appending a token seldom copies more than that token. Tensors
    read earlier don't change when keys are appended or reordered later.

    Example:
        >>> import torch
        >>> cache = AttentionCache()
        >>> for _ in range(3):
        ...     keys, values = cache.append(torch.randn(2, 5, 1, 7), torch.randn(2, 5, 1, 7))
        >>> keys.shape
        torch.Size([2, 5, 3, 7])
    """

    def __init__(self) -> None:
        self.length = 0
        # (B, capacity, H, d_head): the filled part of a row is one block of memory, faster to read
        # and to move than a block per head.
        self._key: Tensor | None = None
        self._value: Tensor | None = None

    @property
    def rows(self) -> int | None:
        """Batch size; None while the cache is empty."""
        return None if self._key is None else self._key.size(0)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values ``(B, H, T, d_head)`` and return all, the new ones last."""
        end = self.length + key.size(-2)
        self._key = self._fit(self._key, key, end)
        self._value = self._fit(self._value, value, end)
        self._key[:, self.length : end] = key.transpose(1, 2)
        self._value[:, self.length : end] = value.transpose(1, 2)
        self.length = end
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        """Return all keys and values, two views of shape ``(B, H, length, d_head)``.

        Raises:
            ValueError: the cache is empty.
        """
        if self._key is None or self._value is None:
            raise ValueError("cache is empty: append keys and values before reading them")
        key, value = self._key[:, : self.length], self._value[:, : self.length]
        return key.transpose(1, 2), value.transpose(1, 2)

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index``, integers ``(B',)``, of the batch, as beam search needs."""
        if self._key is not None and self._value is not None:
            self._key = self._key.index_select(0, index)
            self._value = self._value.index_select(0, index)

    def _fit(self, buffer: Tensor | None, new: Tensor, end: int) -> Tensor:
        if buffer is not None and end <= buffer.size(1):
            return buffer
        capacity = end if buffer is None else max(16, 2 * end)
        b, h, _, d = new.shape
        grown = new.new_empty(b, capacity, h, d)
        if buffer is not None:
            grown[:, : self.length] = buffer[:, : self.length]
        return grown


class LayerCache:
    """The two caches of a decoder layer."""

    def __init__(self) -> None:
        self.self_attention = AttentionCache()
        self.cross_attention = AttentionCache()


class KVCache:
    """The caches of all layers of a decoder.

    Args:
        n_layers: number of decoder layers.

    Example:
        >>> cache = KVCache(n_layers=2)
        >>> cache.length, len(cache.layers)
        (0, 2)
    """

    def __init__(self, n_layers: int) -> None:
        check_count("n_layers", n_layers)
        self.layers = [LayerCache() for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Number of positions decoded so far: the offset of the next one."""
        return self.layers[0].self_attention.length

    @property
    def rows(self) -> int | None:
        """Batch size; None while the cache is empty."""
        return self.layers[0].self_attention.rows

    def reorder(self, index: Tensor, memory_index: Tensor | None = None) -> None:
        """Keep the rows ``index``, integers ``(B',)``, of every layer's batch, in that order.

        Keys and values of the memory, of which several rows may share one, keep ``memory_index``,
        or ``index`` if it's None.
        """
        memory_index = index if memory_index is None else memory_index
        memory_rows = self.layers[0].cross_attention.rows
        stays = memory_rows is not None and is_every_row(memory_index, memory_rows)
        for layer in self.layers:
            layer.self_attention.reorder(index)
            if not stays:
                layer.cross_attention.reorder(memory_index)


def is_every_row(index: Tensor, rows: int) -> bool:
    """Whether ``index`` keeps all rows in place."""
    return index.equal(torch.arange(rows, dtype=index.dtype, device=index.device))
