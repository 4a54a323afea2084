"""A decoder alone, which continues what it is given: GPT's shape."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.embedding import Embedding
from transformer_lib.models.stacks import Decoder
from transformer_lib.models.transformer import DecoderState, embed_step
from transformer_lib.validation import check_head_mask, check_ids, check_row_lengths

__all__ = ["DecoderOnly"]


class DecoderOnly(nn.Module):
    """Every token sees those before it, and predicts the one that follows.

    Short rows are padded on the right. No mask is needed for that: to a token that looks only
    back, what comes after the end is invisible. Prompts of different lengths, which go on at the
    right, are padded on the left, and :meth:`start` is told their lengths.

    Args:
        config: sizes and choices; the decoder's number of layers counts. GPT-2's are
            ``positions="learned"``, ``scale_embeddings=False`` and ``activation="gelu_tanh"``.

    Source:
        Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*.

    Example:
        >>> import torch
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> model, ids = DecoderOnly(config), torch.randint(3, 11, (2, 5))
        >>> model(ids).shape
        torch.Size([2, 5, 11])

        To continue a prompt, start from all of it but its last token, and step on from that:

        >>> from transformer_lib.decoding import greedy
        >>> greedy(model, ids[:, :-1], bos_id=ids[:, -1], max_len=1, eos_id=2).ids.shape
        torch.Size([2, 1])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.decoder = Decoder(config, cross_attention=False)

    def forward(
        self, ids: Tensor, *, mask: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """Predict, at every position, the token that comes next.

        Args:
            ids: integers ``(B, T)``.
            mask: bool, over keys, broadcastable to ``(B, H, T, T)``, True = may attend; causality
                is added. It hides padding on the left, or the other texts of a packed row.
            positions: integers ``(B, T)``, where each token stands in its text, if rows differ in
                that.

        Returns:
            logits ``(B, T, vocab_size)``.

        Raises:
            TypeError: ids or positions that are not integers, a mask that is not bool.
            ValueError: an empty sequence, one over ``max_len``, an id outside the vocabulary; a
                mask or positions that do not fit.
        """
        x = self.embedding(ids, positions=positions)  # (B, T, d_model)
        if mask is not None:
            b, t = ids.shape
            check_head_mask("mask", mask, (b, self.config.n_heads, t, t), ids, "ids")
        return self.embedding.logits(self.decoder(x, mask=mask, positions=positions))

    def start(self, source: Tensor, lengths: Tensor | None = None) -> DecoderState:
        """Read how texts begin, ``(B, P)``; ``P`` may be 0.

        Args:
            source: ids, integers ``(B, P)``.
            lengths: integers ``(B,)``, how many of a row's last ids are its text, from 0 to ``P``.
                Whatever stands before is padding. All ``P`` are text if None.

        Returns:
            the state from which :meth:`step` goes on with the token after the source.

        Raises:
            TypeError, ValueError: as :meth:`forward`; lengths that do not fit.
        """
        weight = self.embedding.weight
        check_ids("source", source, self.config.vocab_size, like=weight, empty=True)
        state = DecoderState(KVCache(self.config.decoder_layers))
        positions = None
        if lengths is not None:
            check_row_lengths("lengths", lengths, source, of="source")
            state.lengths = lengths
            place = torch.arange(source.size(1), device=source.device)  # (P,)
            positions = place - (source.size(1) - lengths)[:, None]  # (B, P), below 0 at padding
            state.mask = (positions >= 0)[:, None, None]  # (B, 1, 1, P)
            positions = positions.clamp(min=0)
        if source.size(1):
            x = self.embedding(source, positions=positions, name="source")  # (B, P, d_model)
            self.decoder(x, mask=state.mask, positions=positions, cache=state.cache)
        return state

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one more token per row, ``(B,)``; predict the next: logits ``(B, vocab_size)``.

        The state is brought up to date and handed back. Errors as :meth:`Transformer.step`.
        """
        x = embed_step(self.embedding, tokens, state, crossing=False)
        positions = state.positions
        state.grow()
        x = self.decoder(x, mask=state.mask, positions=positions, cache=state.cache)
        return self.embedding.logits(x[:, 0]), state
