"""Several attentions side by side, each in its own small subspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.arguments import (
    check_count,
    check_number,
    check_same_batch,
    check_type,
    check_vectors,
)
from transformer_lib.attention import attention, fused_attention
from transformer_lib.cache import AttentionCache
from transformer_lib.dropout import drop
from transformer_lib.linear import Linear, linear
from transformer_lib.positions import RelativePositions, RotaryPositions
from transformer_lib.tensors import check_bias, check_mask

__all__ = ["MultiHeadAttention", "record_attention"]


class MultiHeadAttention(nn.Module):
    r"""``n_heads`` attentions of width ``d_head``, concatenated and projected.

    .. math::
        \mathrm{MultiHead}(X, M) = \mathrm{Concat}(head_1, \dots, head_H) W^O, \quad
        head_h = \mathrm{Attention}(X W^Q_h, M W^K_h, M W^V_h)

    The projections of all heads, for query, key and value, are one matrix, so that
    each distinct input is multiplied once.

    With fewer heads of keys and values than of queries, ``n_heads / n_kv_heads`` query heads in
    a row share one: a smaller cache and fewer weights (grouped-query attention).

    Args:
        d_model: width of inputs and output.
        n_heads: number of heads; must divide ``d_model``.
        n_kv_heads: heads of keys and values; must divide ``n_heads``, which it is if None.
        dropout: probability of dropping an attention weight while training.
        rotary: turns queries and keys by their positions. For self-attention only.
        relative: adds learned vectors for distances to keys and values. Likewise.

    Raises:
        TypeError, ValueError: sizes that do not divide; dropout out of range.

    Source:
        Vaswani et al. (2017), section 3.2.2; Ainslie et al. (2023), *GQA*.

    Example:
        >>> layer = MultiHeadAttention(d_model=12, n_heads=3)
        >>> layer(torch.randn(2, 5, 12), torch.randn(2, 7, 12)).shape
        torch.Size([2, 5, 12])
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        dropout: float = 0.0,
        rotary: RotaryPositions | None = None,
        relative: RelativePositions | None = None,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        sizes = {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
        for name, size in sizes.items():
            check_count(name, size)
        if d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by n_heads ({n_heads})")
        if n_heads % n_kv_heads:
            raise ValueError(f"n_heads ({n_heads}) must be divisible by n_kv_heads ({n_kv_heads})")
        check_number("dropout", dropout, 0, 1)
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.d_head = d_model // n_heads
        for name, scheme, kind in (
            ("rotary", rotary, RotaryPositions),
            ("relative", relative, RelativePositions),
        ):
            if scheme is not None:
                check_type(name, scheme, kind)
                if scheme.d_head != self.d_head:
                    raise ValueError(
                        f"{name}.d_head must be {self.d_head}, d_model / n_heads; "
                        f"got {scheme.d_head}"
                    )
        self.dropout, self.rotary, self.relative = dropout, rotary, relative
        # Rows: W^Q, then W^K, then W^V.
        self._rows = (d_model, n_kv_heads * self.d_head, n_kv_heads * self.d_head)
        self.in_proj = Linear(d_model, sum(self._rows))
        self.out_proj = Linear(d_model, d_model)
        self.recorder: Callable[[Tensor], None] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every projection as the matrix that it is; biases are 0."""
        for weight in (*self.in_proj.weight.split(self._rows), self.out_proj.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.in_proj.bias)
        nn.init.zeros_(self.out_proj.bias)

    @torch.no_grad()
    def load_projections(
        self, query: nn.Module, key: nn.Module, value: nn.Module, output: nn.Module
    ) -> None:
        """Copy four separate linear maps, as most libraries keep them, into our two.

        Args:
            query, key, value, output: modules like ``nn.Linear``; a bias of None counts as 0.

        Raises:
            ValueError: a weight of another shape than ours.
        """
        weights, biases = self.in_proj.weight.split(self._rows), self.in_proj.bias.split(self._rows)
        ours = [*zip(weights, biases, strict=True), (self.out_proj.weight, self.out_proj.bias)]
        names = ("query", "key", "value", "output")
        for name, peer, (weight, bias) in zip(
            names, (query, key, value, output), ours, strict=True
        ):
            theirs: Any = peer
            if not isinstance(getattr(peer, "weight", None), Tensor) or not hasattr(peer, "bias"):
                raise TypeError(f"{name} must be like nn.Linear, got {type(peer).__name__}")
            if theirs.weight.shape != weight.shape:
                raise ValueError(
                    f"{name}'s weight must have shape {tuple(weight.shape)}, "
                    f"got {tuple(theirs.weight.shape)}"
                )
            weight.copy_(theirs.weight)
            bias.copy_(torch.zeros_like(bias) if theirs.bias is None else theirs.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        cache: AttentionCache | None = None,
        mask_name: str = "mask",
    ) -> Tensor:
        """Let each position of ``x`` gather from ``memory``, or from ``x`` itself if None.

        Args:
            x: ``(B, T, d_model)``: where the queries come from.
            memory: ``(B, S, d_model)``: where keys and values come from.
            mask: bool, broadcastable to ``(B, H, T, S)``, True = may attend.
            bias: float, likewise; added to the scores.
            cache: keys and values of earlier calls. Self-attention appends to it;
                cross-attention fills it once and then no longer looks at ``memory``.
            mask_name: what the mask is called in an error.

        Returns:
            ``(B, T, d_model)``.

        Raises:
            TypeError, ValueError: a mask that is not bool, shapes that do not fit.
        """
        check_vectors("x", x, self.d_model, self.in_proj.weight)
        s = self._check(x, memory, cache)
        scores = (x.size(0), self.n_heads, x.size(1), s)
        of = "x" if memory is None else "x and memory"
        if mask is not None:
            check_mask(mask_name, mask, scores, x, of)
        if bias is not None:
            check_bias("bias", bias, scores, x, of)
        if memory is None:
            query, key, value = self._heads(self.in_proj(x), self._rows)  # (B, H, T, d_head)
            if self.rotary is not None:
                offset = cache.length if cache else 0
                query, key = self.rotary(query, offset), self.rotary(key, offset)
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            weight, shift = self.in_proj.weight, self.in_proj.bias
            (query,) = self._heads(
                linear(x, weight[: self.d_model], shift[: self.d_model]), self._rows[:1]
            )
            if cache is not None and cache.length:
                key, value = cache.read()
            else:
                both = linear(memory, weight[self.d_model :], shift[self.d_model :])
                key, value = self._heads(both, self._rows[1:])  # each (B, H, S, d_head)
                if cache is not None:
                    key, value = cache.append(key, value)
        mixed = self._mix(query, self._shared(key), self._shared(value), mask, bias)
        joined = mixed.transpose(1, 2).flatten(2)  # (B, H, T, d_head) -> (B, T, d_model)
        return self.out_proj(joined)

    def _check(self, x: Tensor, memory: Tensor | None, cache: AttentionCache | None) -> int:
        """Refuse what does not fit ``x``; otherwise the number of keys there will be."""
        length = 0
        if cache is not None:
            check_type("cache", cache, AttentionCache)
            if cache.rows not in (None, x.size(0)):
                raise ValueError(f"cache is of {cache.rows} rows, x of {x.size(0)}")
            length = cache.length
        if memory is None:
            return length + x.size(1)
        if self.rotary is not None or self.relative is not None:
            raise ValueError("memory must be None: distances to another text have no meaning")
        if length:
            return length
        check_vectors("memory", memory, self.d_model, self.in_proj.weight)
        check_same_batch("x", x, "memory", memory)
        return memory.size(1)

    def _mix(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if self.recorder is None and self.relative is None:
            return fused_attention(query, key, value, mask, bias=bias, dropout=dropout)
        if self.relative is None:
            mixed, weights = attention(query, key, value, mask, bias=bias, dropout=dropout)
        else:
            near = self.relative.scores(query, key.size(-2)) * self.d_head**-0.5  # (B, H, T, S)
            bias = near if bias is None else near + bias
            weights = attention(query, key, value, mask, bias=bias).weights
            kept = drop(weights, dropout)  # one draw for both sums over the keys
            mixed = kept @ value + self.relative.mix(kept)
        if self.recorder is not None:
            self.recorder(weights.detach())
        return mixed

    def _heads(self, projected: Tensor, rows: tuple[int, ...]) -> tuple[Tensor, ...]:
        (b, t, _), d = projected.shape, self.d_head
        parts = zip(projected.split(rows, dim=-1), rows, strict=True)
        return tuple(part.view(b, t, n // d, d).transpose(1, 2) for part, n in parts)

    def _shared(self, x: Tensor) -> Tensor:
        """Hand each head of keys or values to its group of queries: ``(B, H, S, d_head)``."""
        if self.n_kv_heads == self.n_heads:
            return x
        return x.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the attention weights of every attention layer in ``model``.

    Inside the block the model takes the explicit path. Each key is the layer's name
    in the model, each entry the weights of its latest call.

    Args:
        model: any module with an attention layer in it: one with a ``recorder``, such as
            :class:`MultiHeadAttention`.

    Yields:
        dict of name to weights ``(B, H, T, S)``, filled while the model runs.

    Raises:
        TypeError: a model that is no module.
        ValueError: a model without attention.

    Example:
        >>> layer = MultiHeadAttention(d_model=12, n_heads=3)
        >>> model = nn.Sequential(layer)
        >>> with record_attention(model) as maps:
        ...     _ = model(torch.randn(2, 5, 12))
        >>> {name: tuple(weights.shape) for name, weights in maps.items()}
        {'0': (2, 3, 5, 5)}
    """
    check_type("model", model, nn.Module)
    layers: dict[str, Any] = {
        name: module for name, module in model.named_modules() if hasattr(module, "recorder")
    }
    if not layers:
        raise ValueError(f"model ({type(model).__name__}) contains no attention layer")
    maps: dict[str, Tensor] = {}
    before = {name: layer.recorder for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.recorder = lambda weights, name=name: maps.__setitem__(name, weights)
    try:
        yield maps
    finally:
        for name, layer in layers.items():
            layer.recorder = before[name]
