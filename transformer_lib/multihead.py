"""Multi-head attention: several attentions side by side, each in its own subspace."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.attention import explicit, for_each_head, fused
from transformer_lib.cache import AttentionCache
from transformer_lib.dropout import Dropout, drop
from transformer_lib.masks import with_causality
from transformer_lib.positions import RelativePositions, RotaryPositions, alibi_bias
from transformer_lib.validation import (
    check_heads,
    check_mask,
    check_number,
    check_shape,
    check_type,
    check_vectors,
)

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    r"""Run ``n_heads`` attentions of width ``d_head``, concatenate and project their outputs.

    .. math::
        \mathrm{MultiHead}(X, M) = \mathrm{Concat}(head_1, \dots, head_H) W^O, \quad
        head_h = \mathrm{Attention}(X W^Q_h, M W^K_h, M W^V_h)

    One matrix holds the projections of all heads for query, key and value.

    With fewer key and value heads than query heads, ``n_heads / n_kv_heads`` adjacent query heads
    share one, for a smaller cache and fewer weights.

    Args:
        d_model: width of inputs and output.
        n_heads: number of heads; must divide ``d_model``.
        n_kv_heads: number of key and value heads; must divide ``n_heads``, which is the default.
        dropout: probability of dropping an attention weight in training.
        bias: whether the projections have a bias.
        qkv_bias: the same for queries, keys and values only; ``bias`` if None.
        rotary: rotates queries and keys by their positions. For self-attention only.
        relative: adds learned vectors for distances to keys and values. For self-attention only.
        alibi: adds :func:`alibi_bias` to the scores. For self-attention only.

    Raises:
        TypeError, ValueError: sizes that don't divide; dropout out of range.

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
        bias: bool = True,
        qkv_bias: bool | None = None,
        rotary: RotaryPositions | None = None,
        relative: RelativePositions | None = None,
        alibi: bool = False,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_heads(d_model, n_heads, n_kv_heads)
        check_number("dropout", dropout, 0, 1)
        check_type("bias", bias, bool)
        check_type("qkv_bias", qkv_bias, bool, optional=True)
        check_type("alibi", alibi, bool)
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
        self.dropout = Dropout(dropout)
        self.rotary, self.relative, self.alibi = rotary, relative, alibi
        self._sizes = (n_heads, n_kv_heads, n_kv_heads)  # heads of queries, keys, values
        rows = sum(self._sizes) * self.d_head  # of W^Q, then W^K, then W^V
        self.in_proj = nn.Linear(d_model, rows, bias=bias if qkv_bias is None else qkv_bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)
        self.recorder: Callable[[Tensor], None] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize each projection as a square matrix, and biases with 0."""
        for weight in (*self._parts(self.in_proj.weight), self.out_proj.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.in_proj.bias, self.out_proj.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def _parts(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Split rows of ``in_proj`` into those for queries, keys and values."""
        return tensor.split([n * self.d_head for n in self._sizes])

    @torch.no_grad()
    def load_projections(
        self, query: nn.Linear, key: nn.Linear, value: nn.Linear, output: nn.Linear
    ) -> None:
        """Copy four separate linear layers, the form most libraries use, into our two.

        Args:
            query, key, value, output: no bias counts as 0.

        Raises:
            TypeError, ValueError: not an ``nn.Linear``; another shape; a bias that we lack.
        """
        weights, shift = self._parts(self.in_proj.weight), self.in_proj.bias
        biases = (None, None, None) if shift is None else self._parts(shift)
        ours = [*zip(weights, biases, strict=True), (self.out_proj.weight, self.out_proj.bias)]
        names = ("query", "key", "value", "output")
        for name, peer, (weight, bias) in zip(
            names, (query, key, value, output), ours, strict=True
        ):
            check_type(name, peer, nn.Linear)
            check_shape(f"{name}.weight", peer.weight, *weight.shape)
            if bias is None and peer.bias is not None:
                raise ValueError(f"{name}.bias must be None: this layer has no biases")
            weight.copy_(peer.weight)
            if bias is not None:
                bias.copy_(torch.zeros_like(bias) if peer.bias is None else peer.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: AttentionCache | None = None,
        mask_name: str = "mask",
    ) -> Tensor:
        """Let each position of ``x`` attend to ``memory``, or to ``x`` itself if None.

        Args:
            x: ``(B, T, d_model)``, from which queries are made.
            memory: ``(B, S, d_model)``, from which keys and values are made.
            mask: bool, broadcastable to ``(B, H, T, S)``, True = may attend; four dimensions, or at
                most two. Vectors that it hides must be finite too.
            causal: hide what comes after each position, as ``mask & causal_mask(T, S)`` does. For
                self-attention only.
            cache: keys and values of earlier calls. Self-attention appends to it; cross-attention
                fills it once and ignores ``memory`` from then on.
            mask_name: what errors call the mask.

        Returns:
            ``(B, T, d_model)``.

        Raises:
            TypeError, ValueError: a mask that isn't bool, shapes that don't fit.
        """
        self._check(x, memory, mask, causal, cache, mask_name)
        cached = 0 if cache is None else cache.length
        if memory is None:
            query, key, value = self._heads(self.in_proj(x), self._sizes)  # (B, n, T, d_head)
            if self.rotary is not None:
                query, key = self.rotary(query, cached), self.rotary(key, cached)
            if cache is not None:
                key, value = cache.append(key, value)  # (B, n_kv_heads, S, d_head)
        else:
            (query,) = self._heads(self._project(x, slice(self.d_model)), self._sizes[:1])
            if cache is not None and cached:
                key, value = cache.read()
            else:
                both = self._project(memory, slice(self.d_model, None))  # keys and values
                key, value = self._heads(both, self._sizes[1:])  # (B, n_kv_heads, S, d_head)
                if cache is not None:
                    key, value = cache.append(key, value)
        mixed = self._mix(query, key, value, mask, causal)  # (B, H, T, d_head)
        joined = mixed.transpose(1, 2).flatten(2)  # (B, T, d_model)
        return self.out_proj(joined)

    def _project(self, x: Tensor, rows: slice) -> Tensor:
        """Multiply ``x`` by some rows of ``in_proj``."""
        bias = self.in_proj.bias
        return F.linear(x, self.in_proj.weight[rows], None if bias is None else bias[rows])

    def _heads(self, projected: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
        """Split ``(B, T, n * d_head)`` into ``(B, n, T, d_head)`` for each ``n`` of ``sizes``."""
        b, t, _ = projected.shape
        heads = projected.view(b, t, sum(sizes), self.d_head).transpose(1, 2)  # (B, n, T, d_head)
        return heads.split(sizes, dim=1)

    def _mix(
        self,
        query: Tensor,  # (B, H, T, d_head)
        key: Tensor,  # (B, n_kv_heads, S, d_head)
        value: Tensor,  # (B, n_kv_heads, S, d_head)
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        dropout = self.dropout.p if self.dropout.training else 0.0
        grouped = self.n_kv_heads < self.n_heads
        bias = None
        if self.alibi:
            bias = alibi_bias(self.n_heads, query.size(2), key.size(2), device=query.device)
        if self.recorder is None and self.relative is None:
            return fused(
                query, key, value, mask, bias, causal=causal, grouped=grouped, dropout=dropout
            )
        if causal:
            mask = with_causality(mask, query.size(2), key.size(2), query.device)
        if grouped:
            key, value = for_each_head(key, self.n_heads), for_each_head(value, self.n_heads)
        if self.relative is None:
            mixed, weights = explicit(query, key, value, mask, bias, dropout=dropout)
        else:
            near = self.relative.scores(query, key.size(2)) * self.d_head**-0.5
            bias = near if bias is None else near + bias  # (B, H, T, S)
            weights = explicit(query, key, value, mask, bias).weights
            kept = drop(weights, dropout)  # one draw for both sums over the keys
            mixed = kept @ value + self.relative.mix(kept)
        if self.recorder is not None:
            self.recorder(weights.detach())
        return mixed

    def _check(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None,
        causal: bool,
        cache: AttentionCache | None,
        mask_name: str,
    ) -> None:
        check_vectors("x", x, self.d_model, self.in_proj.weight)
        check_type("causal", causal, bool)
        check_type("cache", cache, AttentionCache, optional=True)
        cached = 0 if cache is None else cache.length
        if cache is not None and cached:
            check_shape("cache", cache.read()[0], x.size(0), self.n_kv_heads, cached, self.d_head)
        if memory is None:
            keys = cached + x.size(1)
        else:
            if self.rotary is not None or self.relative is not None or self.alibi:
                raise ValueError("memory must be None: there are no distances to another text")
            if causal:
                raise ValueError("causal must be False with a memory, got True")
            if not cached:
                check_vectors("memory", memory, self.d_model, self.in_proj.weight)
                check_shape("memory", memory, x.size(0), "S", self.d_model)
            keys = cached or memory.size(1)
        scores = (x.size(0), self.n_heads, x.size(1), keys)
        if mask is not None:
            check_mask(mask_name, mask, scores, x, heads=True)
