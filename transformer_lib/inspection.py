"""Look inside a model: record its attention weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from transformer_lib.validation import check_type

__all__ = ["record_attention"]


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect the attention weights of every attention layer in ``model``.

    Within the block the model takes the explicit path. Each key is a layer's name in the model,
    each value the weights of its latest call.

    Args:
        model: any module that contains attention layers, which have a ``recorder``, such as
            :class:`~transformer_lib.MultiHeadAttention`.

    Yields:
        dict of name to weights ``(B, H, T, S)``, filled while the model runs.

    Raises:
        TypeError: ``model`` isn't a module.
        ValueError: ``model`` has no attention layer.

    Example:
        >>> from transformer_lib import MultiHeadAttention
        >>> import torch
        >>> model = nn.Sequential(MultiHeadAttention(d_model=12, n_heads=3))
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
        layer.recorder = partial(maps.__setitem__, name)
    try:
        yield maps
    finally:
        for name, layer in layers.items():
            layer.recorder = before[name]
