"""The Transformer: stacks of layers, then stacks with words at both ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transformer_lib.blocks import DecoderLayer, EncoderLayer, LayerNorm
from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.dropout import Dropout
from transformer_lib.linear import Linear, linear
from transformer_lib.masks import causal_mask, padding_mask
from transformer_lib.positions import SinusoidalPositions

__all__ = ["Decoder", "DecoderState", "Encoder", "EncoderDecoder", "Transformer"]


class Encoder(nn.Module):
    """A stack of encoder layers, vectors in, vectors out.

    Args:
        config: sizes and choices.

    Example:
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> Encoder(config)(torch.randn(2, 5, 12)).shape
        torch.Size([2, 5, 12])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``(B, S, d_model)`` and a mask over its keys to ``(B, S, d_model)``."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """A stack of decoder layers, vectors in, vectors out. It is always causal.

    Args:
        config: sizes and choices.

    Example:
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> Decoder(config)(torch.randn(2, 5, 12), torch.randn(2, 7, 12)).shape
        torch.Size([2, 5, 12])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        n_layers = config.n_decoder_layers or config.n_layers
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(n_layers))
        self.norm = _final_norm(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Decode target vectors against a memory.

        Args:
            x: ``(B, T, d_model)``; with a cache, only the positions not yet decoded.
            memory: ``(B, S, d_model)``, the encoder's output.
            mask: over target keys, broadcastable to ``(B, H, T, cached + T)``; padding,
                say. Causality is added to it here, in training and evaluation alike.
            memory_mask: over source keys, broadcastable to ``(B, H, T, S)``.
            cache: keys and values of the positions before; grows by ``T``.

        Returns:
            ``(B, T, d_model)``.
        """
        if cache is not None and len(cache.layers) != len(self.layers):
            raise ValueError(
                f"cache is for {len(cache.layers)} layers, the decoder has {len(self.layers)}"
            )
        t = x.size(1)
        s = t + (cache.length if cache else 0)
        if mask is not None and mask.dtype is not torch.bool:
            raise TypeError(f"mask must be bool, True = may attend; got {mask.dtype}")
        if mask is not None and mask.size(-1) not in (1, s):
            raise ValueError(f"mask must be over {s} target keys, got shape {tuple(mask.shape)}")
        if t > 1 or mask is not None:  # one new position may see all there is
            causal = causal_mask(t, s, device=x.device)
            mask = causal if mask is None else mask & causal
        for i, layer in enumerate(self.layers):
            own = cache.layers[i] if cache else None
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, cache=own)
        return self.norm(x)


class EncoderDecoder(nn.Module):
    """Both stacks, on vectors: what ``torch.nn.Transformer`` covers.

    Args:
        config: sizes and choices.
    """

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
        """``(B, S, d_model)`` and ``(B, T, d_model)`` to ``(B, T, d_model)``."""
        _check_batch("source", source, "target", target)
        memory = self.encoder(source, source_mask)
        return self.decoder(target, memory, mask=target_mask, memory_mask=source_mask)


@dataclass
class DecoderState:
    """What a Transformer remembers between two steps of decoding."""

    memory: Tensor  # (B, S, d_model)
    memory_mask: Tensor  # (B, 1, 1, S)
    cache: KVCache

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index`` (integers, ``(B',)``) of the batch, in that order."""
        self.memory = self.memory.index_select(0, index)
        self.memory_mask = self.memory_mask.index_select(0, index)
        self.cache.reorder(index)


class Transformer(EncoderDecoder):
    r"""Token ids in, logits over the vocabulary out.

    Source, target and output share one matrix of embeddings; on the way in it is
    multiplied by :math:`\sqrt{d_{model}}`. Padding is hidden by masks made from ids.

    Args:
        config: sizes and choices.

    Source:
        Vaswani et al. (2017), sections 3.1 and 3.4.

    Example:
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> model = Transformer(config)
        >>> source, target = torch.randint(3, 11, (2, 7)), torch.randint(3, 11, (2, 5))
        >>> model(source, target).shape
        torch.Size([2, 5, 11])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = SinusoidalPositions(d_model=config.d_model, max_len=config.max_len)
        self.dropout = Dropout(config.dropout)
        # Wider embeddings would make huge logits, whose softmax is slow as well as wrong:
        # its tails are subnormal numbers, and a CPU takes many times as long over those.
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.output = None if config.tie_embeddings else _output(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """Predict, at every position of the target, the token that comes next.

        Args:
            source: ids, integer, ``(B, S)``, padded with ``pad_id``.
            target: ids, integer, ``(B, T)``, beginning with ``bos_id``: the target
                shifted right.

        Returns:
            logits ``(B, T, vocab_size)``.

        Raises:
            TypeError: ids that are not integers.
            ValueError: an empty sequence, one over ``max_len``, an id outside the
                vocabulary, batches of different size.
        """
        _check_batch("source", source, "target", target)
        memory = self.encode(source)
        x = self.decoder(
            self._embed("target", target),
            memory,
            mask=padding_mask(target, self.config.pad_id),
            memory_mask=padding_mask(source, self.config.pad_id),
        )
        return self.logits(x)

    def encode(self, source: Tensor) -> Tensor:
        """Source ids ``(B, S)`` to memory ``(B, S, d_model)``; errors as :meth:`forward`."""
        x = self._embed("source", source)
        return self.encoder(x, padding_mask(source, self.config.pad_id))

    def logits(self, x: Tensor) -> Tensor:
        """Vectors ``(..., d_model)`` to logits ``(..., vocab_size)``."""
        return linear(x, self.embedding.weight) if self.output is None else self.output(x)

    def start(self, source: Tensor) -> DecoderState:
        """Encode source ids ``(B, S)`` once; the state from which decoding steps on."""
        n_layers = len(self.decoder.layers)
        mask = padding_mask(source, self.config.pad_id)
        return DecoderState(self.encode(source), mask, KVCache(n_layers))

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one more token per row, ``(B,)``; predict the next: logits ``(B, vocab_size)``.

        The state is brought up to date and handed back.
        """
        if tokens.dim() != 1:
            raise ValueError(f"tokens must have shape (B,), got {tuple(tokens.shape)}")
        _check_batch("tokens", tokens, "state", state.memory)
        x = self._embed("tokens", tokens[:, None], offset=state.cache.length)  # (B, 1, d_model)
        x = self.decoder(x, state.memory, memory_mask=state.memory_mask, cache=state.cache)
        return self.logits(x[:, 0]), state

    def _embed(self, name: str, ids: Tensor, offset: int = 0) -> Tensor:
        self._check_ids(name, ids)
        x = self.embedding(ids) * self.config.d_model**0.5  # (B, T, d_model)
        return self.dropout(self.positions(x, offset))

    def _check_ids(self, name: str, ids: Tensor) -> None:
        if ids.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"{name} must be token ids, int64 or int32, got {ids.dtype}")
        if ids.dim() != 2:
            raise ValueError(f"{name} must have shape (B, length), got {tuple(ids.shape)}")
        if ids.numel() == 0:
            raise ValueError(f"{name} must not be empty, got shape {tuple(ids.shape)}")
        if torch.compiler.is_compiling():  # looking at values would cut the graph in two
            return
        low, high = (int(x) for x in ids.aminmax())
        if low < 0 or high >= self.config.vocab_size:
            wrong = low if low < 0 else high
            raise ValueError(
                f"{name} holds id {wrong}, the vocabulary is 0 to {self.config.vocab_size - 1}"
            )


def _check_batch(name: str, x: Tensor, other: str, y: Tensor) -> None:
    if x.shape[:1] != y.shape[:1]:
        raise ValueError(
            f"{name} and {other} must have the same batch size, "
            f"got shapes {tuple(x.shape)} and {tuple(y.shape)}"
        )


def _final_norm(config: ModelConfig) -> nn.Module:
    # The last pre-norm layer leaves its sum unnormalized; a post-norm layer does not.
    wanted = config.pre_norm if config.final_norm is None else config.final_norm
    return LayerNorm(config.d_model, config.norm_eps) if wanted else nn.Identity()


def _output(config: ModelConfig) -> Linear:
    output = Linear(config.d_model, config.vocab_size, bias=False)
    nn.init.normal_(output.weight, std=config.d_model**-0.5)
    return output
