"""The Transformer of the paper: an encoder, a decoder, and words at both ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transformer_lib.cache import KVCache, is_every_row
from transformer_lib.config import ModelConfig
from transformer_lib.embedding import Embedding
from transformer_lib.masks import padding_mask
from transformer_lib.models.stacks import Decoder, Encoder
from transformer_lib.validation import check_index, check_same_batch, check_tokens, check_type

__all__ = ["DecoderState", "Transformer"]


@dataclass
class DecoderState:
    """What a decoder remembers between two steps."""

    cache: KVCache
    memory: Tensor | None = None  # (B / share, S, d_model)
    memory_mask: Tensor | None = None  # (B / share, 1, 1, S)
    share: int = 1  # that many rows, one after the other, read the same memory: beams of a sentence
    mask: Tensor | None = None  # bool (B, 1, 1, length), False at padding before a prompt
    lengths: Tensor | None = None  # integers (B,), tokens so far of each row, if rows differ

    @property
    def rows(self) -> int | None:
        """Size of the batch; None before a text without a source has begun."""
        if self.lengths is not None:
            return len(self.lengths)
        return self.cache.rows if self.memory is None else self.memory.size(0) * self.share

    @property
    def positions(self) -> Tensor | None:
        """Where the next token of each row stands, integers ``(B, 1)``, if rows differ."""
        return None if self.lengths is None else self.lengths[:, None]

    def grow(self) -> None:
        """Make room for one more token in each row."""
        if self.mask is not None and self.lengths is not None:
            one = self.mask.new_ones(len(self.mask), 1, 1, 1)
            self.mask = torch.cat((self.mask, one), dim=-1)  # (B, 1, 1, length + 1)
            self.lengths = self.lengths + 1

    def reorder(self, index: Tensor) -> None:
        """Keep the rows ``index`` (integers, ``(B',)``) of the batch, in that order."""
        check_index("index", index, self.rows, like=self.memory)
        if self.mask is not None and self.lengths is not None:
            self.mask = self.mask.index_select(0, index)
            self.lengths = self.lengths.index_select(0, index)
        if self.memory is None:
            return self.cache.reorder(index)
        # Beams swap parents within their sentence, and all of them read from it: it may stay.
        read = index // self.share
        kept, counts = read.unique_consecutive(return_counts=True)
        even = bool((counts == counts[:1]).all())
        kept, self.share = (kept, len(index) // max(1, len(kept))) if even else (read, 1)
        self.cache.reorder(index, kept)
        if is_every_row(kept, len(self.memory)):
            return
        self.memory = self.memory.index_select(0, kept)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask.index_select(0, kept)


class Transformer(nn.Module):
    r"""Token ids in, logits over the vocabulary out.

    Source, target and output share one matrix of embeddings; on the way in it is
    multiplied by :math:`\sqrt{d_{model}}`. Padding is hidden by masks made from ids.

    Args:
        config: sizes and choices.

    Source:
        Vaswani et al. (2017), sections 3.1 and 3.4.

    Example:
        >>> import torch
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> model = Transformer(config)
        >>> source, target = torch.randint(3, 11, (2, 7)), torch.randint(3, 11, (2, 5))
        >>> model(source, target).shape
        torch.Size([2, 5, 11])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.embedding = Embedding(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
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
        memory, x = self.encode(source), self.embedding(target, name="target")
        check_same_batch("source", source, "target", target)
        x = self.decoder(
            x,
            memory,
            mask=self._target_mask(target),
            memory_mask=padding_mask(source, self.config.pad_id),
        )
        return self.embedding.logits(x)

    def encode(self, source: Tensor) -> Tensor:
        """Source ids ``(B, S)`` to memory ``(B, S, d_model)``; errors as :meth:`forward`."""
        x = self.embedding(source, name="source")
        return self.encoder(x, padding_mask(source, self.config.pad_id))

    def start(self, source: Tensor) -> DecoderState:
        """Encode source ids ``(B, S)`` once; the state from which decoding steps on."""
        memory = self.encode(source)
        mask = padding_mask(source, self.config.pad_id)
        return DecoderState(KVCache(self.config.decoder_layers), memory, mask)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one more token per row, ``(B,)``; predict the next: logits ``(B, vocab_size)``.

        The state is brought up to date and handed back.

        Raises:
            TypeError, ValueError: tokens that are not ids ``(B,)``, as many as the state has
                rows; a text that has reached ``max_len``.
        """
        x = embed_step(self.embedding, tokens, state, crossing=True)
        x = self.decoder(x, state.memory, memory_mask=state.memory_mask, cache=state.cache)
        return self.embedding.logits(x[:, 0]), state

    def _target_mask(self, target: Tensor) -> Tensor:
        mask = padding_mask(target, self.config.pad_id)
        if self.config.bos_id == self.config.pad_id:
            mask[..., 0] = True  # the first token begins the text, whatever its id
        return mask


def embed_step(
    embedding: Embedding, tokens: Tensor, state: DecoderState, *, crossing: bool
) -> Tensor:
    """The newest token of every row, ``(B,)``, as ``(B, 1, d_model)`` at its position."""
    check_type("state", state, DecoderState)
    if crossing and state.memory is None:
        raise ValueError("state must come from this model's start, got one without a memory")
    if not crossing and state.memory is not None:
        raise ValueError("state must come from this model's start, got one with a memory")
    check_tokens(tokens, state.rows)
    offset, positions = state.cache.length, state.positions
    return embedding(tokens[:, None], offset=offset, positions=positions, name="tokens")
