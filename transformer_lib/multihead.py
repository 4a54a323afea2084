"""Several attentions side by side, each in its own small subspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from transformer_lib.attention import attention, fused_attention
from transformer_lib.cache import AttentionCache
from transformer_lib.linear import Linear, linear

__all__ = ["MultiHeadAttention", "record_attention"]


class MultiHeadAttention(nn.Module):
    r"""``n_heads`` attentions of width ``d_head``, concatenated and projected.

    .. math::
        \mathrm{MultiHead}(X, M) = \mathrm{Concat}(head_1, \dots, head_H) W^O, \quad
        head_h = \mathrm{Attention}(X W^Q_h, M W^K_h, M W^V_h)

    The projections of all heads, for query, key and value, are one matrix, so that
    each distinct input is multiplied once.

    Args:
        d_model: width of inputs and output.
        n_heads: number of heads; must divide ``d_model``.
        dropout: probability of dropping an attention weight while training.

    Raises:
        ValueError: ``d_model`` not divisible by ``n_heads``; dropout out of range.

    Source:
        Vaswani et al. (2017), section 3.2.2.

    Example:
        >>> import torch
        >>> layer = MultiHeadAttention(d_model=12, n_heads=3)
        >>> layer(torch.randn(2, 5, 12), torch.randn(2, 7, 12)).shape
        torch.Size([2, 5, 12])
    """

    def __init__(self, *, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if n_heads < 1 or d_model < 1 or d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by n_heads ({n_heads})")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_model // n_heads
        self.dropout = dropout
        self.in_proj = Linear(d_model, 3 * d_model)  # rows: W^Q, then W^K, then W^V
        self.out_proj = Linear(d_model, d_model)
        self.recorder: Callable[[Tensor], None] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every projection as the square matrix that it is; biases are 0."""
        for weight in (*self.in_proj.weight.chunk(3), self.out_proj.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.in_proj.bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """Let each position of ``x`` gather from ``memory``, or from ``x`` itself if None.

        Args:
            x: ``(B, T, d_model)``: where the queries come from.
            memory: ``(B, S, d_model)``: where keys and values come from.
            mask: bool, broadcastable to ``(B, H, T, S)``, True = may attend.
            cache: keys and values of earlier calls. Self-attention appends to it;
                cross-attention fills it once and then no longer looks at ``memory``.

        Returns:
            ``(B, T, d_model)``.

        Raises:
            TypeError, ValueError: a mask that is not bool, shapes that do not fit.
        """
        self._check("x", x)
        if memory is None:
            query, key, value = self._heads(self.in_proj(x), 3)  # each (B, H, T, d_head)
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            self._check("memory", memory)
            weight, bias = self.in_proj.weight, self.in_proj.bias
            (query,) = self._heads(linear(x, weight[: self.d_model], bias[: self.d_model]), 1)
            if cache is not None and cache.length:
                key, value = cache.read()
            else:
                both = linear(memory, weight[self.d_model :], bias[self.d_model :])
                key, value = self._heads(both, 2)  # each (B, H, S, d_head)
                if cache is not None:
                    key, value = cache.append(key, value)
        dropout = self.dropout if self.training else 0.0
        if self.recorder is None:
            mixed = fused_attention(query, key, value, mask, dropout=dropout)
        else:
            mixed, weights = attention(query, key, value, mask, dropout=dropout)
            self.recorder(weights.detach())
        joined = mixed.transpose(1, 2).flatten(2)  # (B, H, T, d_head) -> (B, T, d_model)
        return self.out_proj(joined)

    def _heads(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        b, t, _ = projected.shape
        split = projected.view(b, t, parts, self.n_heads, self.d_head).unbind(2)
        return tuple(part.transpose(1, 2) for part in split)  # parts x (B, H, T, d_head)

    def _check(self, name: str, x: Tensor) -> None:
        if x.dim() != 3 or x.size(-1) != self.d_model:
            raise ValueError(
                f"{name} must have shape (B, length, {self.d_model}), got {tuple(x.shape)}"
            )


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the attention weights of every attention layer in ``model``.

    Inside the block the model takes the explicit path. Each key is the layer's name
    in the model, each entry the weights of its latest call.

    Args:
        model: any module that contains :class:`MultiHeadAttention`.

    Yields:
        dict of name to weights ``(B, H, T, S)``, filled while the model runs.

    Raises:
        ValueError: a model without attention.

    Example:
        >>> import torch
        >>> layer = MultiHeadAttention(d_model=12, n_heads=3)
        >>> model = nn.Sequential(layer)
        >>> with record_attention(model) as maps:
        ...     _ = model(torch.randn(2, 5, 12))
        >>> {name: tuple(weights.shape) for name, weights in maps.items()}
        {'0': (2, 3, 5, 5)}
    """
    layers = {
        name: module for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }  # fmt: skip
    if not layers:
        raise ValueError(f"model ({type(model).__name__}) contains no MultiHeadAttention")
    maps: dict[str, Tensor] = {}
    before = {name: layer.recorder for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.recorder = lambda weights, name=name: maps.__setitem__(name, weights)
    try:
        yield maps
    finally:
        for name, layer in layers.items():
            layer.recorder = before[name]
