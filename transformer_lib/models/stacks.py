"""Stacks of layers: vectors in, vectors out."""

from torch import Tensor, nn

from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.layers import DecoderLayer, EncoderLayer, make_norm
from transformer_lib.validation import check_mask, check_shape, check_type, check_vectors


class Encoder(nn.Module):
    """A stack of encoder layers, vectors in, vectors out.

    Example:
        >>> import torch
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> Encoder(config)(torch.randn(2, 5, 12)).shape
        torch.Size([2, 5, 12])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_type("config", config, ModelConfig)
        self.config = config
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``(B, S, d_model)``, with a mask over its keys, to the same shape."""
        check_vectors("x", x, self.config.d_model, next(self.parameters()))
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """A stack of decoder layers, vectors in, vectors out. It's always causal.

    Args:
        config: sizes and choices.
        cross_attention: False makes the stack of a decoder-only model.

    Example:
        >>> import torch
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> Decoder(config)(torch.randn(2, 5, 12), torch.randn(2, 7, 12)).shape
        torch.Size([2, 5, 12])
    """

    def __init__(self, config: ModelConfig, *, cross_attention: bool = True) -> None:
        super().__init__()
        check_type("config", config, ModelConfig)
        self.config, self.cross_attention = config, cross_attention
        self.layers = nn.ModuleList(
            DecoderLayer(config, cross_attention=cross_attention)
            for _ in range(config.decoder_layers)
        )
        self.norm = _final_norm(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Decode target vectors, against a memory if the layers have cross-attention.

        Args:
            x: ``(B, T, d_model)``; with a cache, only the positions not yet decoded.
            memory: ``(B, S, d_model)``, the encoder's output; None without cross-attention.
            mask: over target keys, such as padding, broadcastable to ``(B, H, T, cached + T)``.
                Causality is added, in training and evaluation alike.
            memory_mask: over source keys, broadcastable to ``(B, H, T, S)``.
            cache: keys and values of the positions before; grows by ``T``. After an error, start
                with a new one.

        Returns:
            ``(B, T, d_model)``.

        Raises:
            TypeError, ValueError: a mask that isn't bool, shapes that don't fit, a cache for
                another number of layers, a missing memory, or one without cross-attention.
        """
        check_vectors("x", x, self.config.d_model, next(self.parameters()))
        check_type("cache", cache, KVCache, optional=True)
        if cache is not None and len(cache.layers) != len(self.layers):
            raise ValueError(
                f"cache is for {len(cache.layers)} layers, the decoder has {len(self.layers)}"
            )
        caches = [None] * len(self.layers) if cache is None else cache.layers
        for layer, own in zip(self.layers, caches, strict=True):
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, causal=True, cache=own)
        return self.norm(x)


class EncoderDecoder(nn.Module):
    """Both stacks, on vectors, like ``torch.nn.Transformer``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """Map source and target vectors to output vectors.

        Args:
            source: ``(B, S, d_model)``.
            target: ``(B, T, d_model)``.
            source_mask: over source keys, broadcastable to ``(B, H, 1, S)``.
            target_mask: over target keys, broadcastable to ``(B, H, T, T)``; causality is added.

        Returns:
            ``(B, T, d_model)``.

        Raises:
            TypeError, ValueError: vectors or masks that don't fit.
        """
        config, weight = self.config, next(self.parameters())
        check_vectors("source", source, config.d_model, weight)
        check_vectors("target", target, config.d_model, weight)
        check_shape("target", target, source.size(0), "T", config.d_model)
        (b, s, _), t = source.shape, target.size(1)
        if source_mask is not None:
            check_mask("source_mask", source_mask, (b, config.n_heads, 1, s), source, heads=True)
        if target_mask is not None:
            check_mask("target_mask", target_mask, (b, config.n_heads, t, t), target, heads=True)
        memory = self.encoder(source, source_mask)
        return self.decoder(target, memory, mask=target_mask, memory_mask=source_mask)


def _final_norm(config: ModelConfig) -> nn.Module:
    wanted = config.pre_norm if config.final_norm is None else config.final_norm
    return make_norm(config) if wanted else nn.Identity()
