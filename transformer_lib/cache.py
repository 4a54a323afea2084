"""Keys and values that need not be computed twice while a sequence grows.

State is an argument here, never an attribute of a module: ``decoder(x, memory,
cache=cache)`` appends to the cache it is given. Caches are for inference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.arguments import check_count, check_index, check_type

__all__ = ["AttentionCache", "KVCache", "LayerCache"]


class AttentionCache:
    """The keys and values one attention layer has seen so far, ``(B, H, length, d_head)``.

    The buffer doubles when it is full, so that appending a token copies that token
    and not, each time, everything before it.

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
        # All heads of a position side by side, (B, capacity, H, d_head): what is filled of a row
        # is one piece, quicker to read and to move than a piece per head.
        self._key: Tensor | None = None
        self._value: Tensor | None = None

    @property
    def rows(self) -> int | None:
        """Size of the batch; None while the cache is empty."""
        return None if self._key is None else self._key.size(0)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add ``(B, H, T, d_head)`` keys and values; return all, the new ones last.

        Raises:
            TypeError: keys or values that are no tensors, or of another dtype than those before.
            ValueError: shapes that differ, or do not fit those before.
        """
        self._check(key, value)
        end = self.length + key.size(-2)
        self._key = self._fit(self._key, key, end)
        self._value = self._fit(self._value, value, end)
        self._key[:, self.length : end] = key.transpose(1, 2)
        self._value[:, self.length : end] = value.transpose(1, 2)
        self.length = end
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values, two views of ``(B, H, length, d_head)``.

        Raises:
            ValueError: nothing was appended yet.
        """
        if self._key is None or self._value is None:
            raise ValueError("cache is empty: append keys and values before reading them")
        key, value = self._key[:, : self.length], self._value[:, : self.length]
        return key.transpose(1, 2), value.transpose(1, 2)

    def reorder(self, index: Tensor, spare: Tensor | None = None) -> Tensor | None:
        """Keep the rows ``index`` of the batch, in that order: beams swap parents.

        Args:
            index: rows, integers, ``(B',)``.
            spare: memory to write to, if it is of the right size. Asking the system for as much
                takes longer than to fill it.

        Returns:
            memory that is no longer needed, for the next cache.

        Raises:
            TypeError, ValueError: an index that is no tensor of integers, or of rows there are not.
        """
        check_index("index", index, self.rows, like=self._key)
        if self._key is not None and self._value is not None:
            self._key, spare = self._chosen(self._key, index, spare)
            self._value, spare = self._chosen(self._value, index, spare)
        return spare

    def _chosen(
        self, buffer: Tensor, index: Tensor, spare: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        if buffer.requires_grad:
            return buffer.index_select(0, index), None
        shape = (len(index), *buffer.shape[1:])
        if spare is None or spare.shape != shape or spare.dtype is not buffer.dtype:
            spare = buffer.new_empty(shape)
        filled = slice(0, self.length)
        torch.index_select(buffer[:, filled], 0, index, out=spare[:, filled])
        return spare, buffer

    def _check(self, key: Tensor, value: Tensor) -> None:
        for name, new in (("key", key), ("value", value)):
            check_type(name, new, Tensor)
        if key.dim() != 4 or value.shape != key.shape:
            raise ValueError(
                "key and value must have one shape (B, H, T, d_head), "
                f"got key {tuple(key.shape)} and value {tuple(value.shape)}"
            )
        if self._key is None:
            return
        if key.dtype is not self._key.dtype or value.dtype is not self._key.dtype:
            raise TypeError(
                f"key and value must be {self._key.dtype} as those before, "
                f"got {key.dtype} and {value.dtype}"
            )
        b, _, h, d = self._key.shape
        if (*key.shape[:2], key.size(3)) != (b, h, d):
            raise ValueError(
                f"key must have shape ({b}, {h}, T, {d}) as those before, got {tuple(key.shape)}"
            )

    def _fit(self, buffer: Tensor | None, new: Tensor, end: int) -> Tensor:
        if buffer is not None and end <= buffer.size(1):
            return buffer
        # A first append of many keys is a memory or a prompt; of one, the start of a text.
        capacity = end if buffer is None and end > 1 else max(16, 2 * end)
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
        """Number of positions already decoded: the offset of the next one."""
        return self.layers[0].self_attention.length

    @property
    def rows(self) -> int | None:
        """Size of the batch; None while the cache is empty."""
        return self.layers[0].self_attention.rows

    def reorder(self, index: Tensor, memory_index: Tensor | None = None) -> None:
        """Keep the rows ``index`` (integers, ``(B',)``) of every layer's batch, in that order.

        Args:
            index: rows, integers, ``(B',)``.
            memory_index: likewise for what was read from the memory, if several rows share one
                row of it; as ``index`` if None.

        Raises:
            TypeError: an index that is no tensor of integers.
            ValueError: an index of another shape, or a row that there is not (seen on a CPU only).
        """
        check_index("index", index, self.rows)
        memory_index = index if memory_index is None else memory_index
        read = self.layers[0].cross_attention.rows
        check_index("memory_index", memory_index, read)
        stays = read is not None and _is_every_row(memory_index, read)
        spare = None
        for layer in self.layers:
            spare = layer.self_attention.reorder(index, spare)
            if not stays:
                layer.cross_attention.reorder(memory_index)


def _is_every_row(index: Tensor, rows: int) -> bool:
    return index.equal(torch.arange(rows, dtype=index.dtype, device=index.device))
