"""Keys and values that need not be computed twice while a sequence grows.

State is an argument here, never an attribute of a module: ``decoder(x, memory,
cache=cache)`` appends to the cache it is given. Caches are for inference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_lib.validation import check_count, check_index, check_positions, check_type

__all__ = ["AttentionCache", "KVCache", "LayerCache"]


class AttentionCache:
    """The keys and values one attention layer has seen so far, ``(B, H, length, d_head)``.

    The buffer has room for as many keys again as were put in first, and for 16 at least. It doubles
    when it is full.
    So appending a token copies that token alone, not everything before it. Tensors that were read
    earlier do not change when keys are appended or reordered later.

    Args:
        grows: whether to leave that room. Cross-attention does not need it: its keys come all at
            once.

    Example:
        >>> import torch
        >>> cache = AttentionCache()
        >>> for _ in range(3):
        ...     keys, values = cache.append(torch.randn(2, 5, 1, 7), torch.randn(2, 5, 1, 7))
        >>> keys.shape
        torch.Size([2, 5, 3, 7])
    """

    def __init__(self, *, grows: bool = True) -> None:
        check_type("grows", grows, bool)
        self.grows, self.length = grows, 0
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

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index`` of the batch, in that order, as a beam search needs.

        Args:
            index: rows, integers, ``(B',)``.

        Raises:
            TypeError: an index that is no tensor of integers.
            ValueError: a row that does not exist.
        """
        check_index("index", index, self.rows, like=self._key)
        self._reorder(index)

    def _reorder(self, index: Tensor) -> None:
        if self._key is not None and self._value is not None:
            self._key = self._chosen(self._key, index)
            self._value = self._chosen(self._value, index)

    def _chosen(self, buffer: Tensor, index: Tensor) -> Tensor:
        if buffer.requires_grad:
            return buffer.index_select(0, index)
        # Only what is filled is copied.
        chosen = buffer.new_empty(len(index), *buffer.shape[1:])  # (B', capacity, H, d_head)
        filled = slice(0, self.length)
        torch.index_select(buffer[:, filled], 0, index, out=chosen[:, filled])
        return chosen

    def _check(self, key: Tensor, value: Tensor) -> None:
        for name, new in (("key", key), ("value", value)):
            check_type(name, new, Tensor)
        if key.dim() != 4 or value.shape != key.shape:
            raise ValueError(
                "key and value must have one shape (B, H, T, d_head), "
                f"got key {tuple(key.shape)} and value {tuple(value.shape)}"
            )
        if self._key is None:
            if key.dtype is not value.dtype:
                dtypes = f"{key.dtype} and {value.dtype}"
                raise TypeError(f"key and value must have the same dtype, got {dtypes}")
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
        capacity = max(16, 2 * end) if self.grows else end
        b, h, _, d = new.shape
        grown = new.new_empty(b, capacity, h, d)
        if buffer is not None:
            grown[:, : self.length] = buffer[:, : self.length]
        return grown


class LayerCache:
    """The two caches of a decoder layer."""

    def __init__(self) -> None:
        self.self_attention = AttentionCache()
        self.cross_attention = AttentionCache(grows=False)


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
        # Where each key stands, integers (B, length), if rows differ.
        self.positions: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of positions already decoded: the offset of the next one."""
        return self.layers[0].self_attention.length

    @property
    def rows(self) -> int | None:
        """Size of the batch; None while the cache is empty."""
        return self.layers[0].self_attention.rows

    def append_positions(self, positions: Tensor) -> Tensor:
        """Add the positions of new keys, integers ``(B, T)``; return those of all, the new last.

        Raises:
            TypeError: positions that are no tensor of integers.
            ValueError: another shape; there are keys already, and they came without positions.
        """
        check_positions(positions, self.rows, None)
        if self.positions is not None:
            positions = torch.cat((self.positions, positions), dim=1)
        elif self.length:
            raise ValueError("positions must be None: the cache began without them")
        self.positions = positions
        return positions

    def reorder(self, index: Tensor, memory_index: Tensor | None = None) -> None:
        """Keep the rows ``index`` (integers, ``(B',)``) of every layer's batch, in that order.

        Args:
            index: rows, integers, ``(B',)``.
            memory_index: the same for the keys and values of the memory, if several rows share one
                row of it; as ``index`` if None.

        Raises:
            TypeError: an index that is no tensor of integers.
            ValueError: an index of another shape, or a row that does not exist; that is seen on a
                CPU only.
        """
        check_index("index", index, self.rows)
        memory_index = index if memory_index is None else memory_index
        memory_rows = self.layers[0].cross_attention.rows
        check_index("memory_index", memory_index, memory_rows)
        stays = memory_rows is not None and is_every_row(memory_index, memory_rows)
        if self.positions is not None:
            self.positions = self.positions.index_select(0, index)
        for layer in self.layers:
            layer.self_attention._reorder(index)
            if not stays:
                layer.cross_attention._reorder(memory_index)


def is_every_row(index: Tensor, rows: int) -> bool:
    """Whether ``index`` leaves all rows where they are."""
    return index.equal(torch.arange(rows, dtype=index.dtype, device=index.device))
