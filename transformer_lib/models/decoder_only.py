"""A decoder alone, which continues what it is given: GPT's shape."""

from __future__ import annotations

from torch import Tensor, nn

from transformer_lib.arguments import check_ids
from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.embedding import Embedding
from transformer_lib.models.stacks import Decoder
from transformer_lib.models.transformer import DecoderState, embed_step

__all__ = ["DecoderOnly"]


class DecoderOnly(nn.Module):
    """Every token sees those before it, and predicts the one that follows.

    Short rows are padded on the right. No mask is needed for that: to a token that looks only
    back, what comes after the end is invisible.

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

    def forward(self, ids: Tensor) -> Tensor:
        """Predict, at every position, the token that comes next.

        Args:
            ids: integers ``(B, T)``.

        Returns:
            logits ``(B, T, vocab_size)``.

        Raises:
            TypeError: ids that are not integers.
            ValueError: an empty sequence, one over ``max_len``, an id outside the vocabulary.
        """
        return self.embedding.logits(self.decoder(self.embedding(ids)))

    def start(self, source: Tensor) -> DecoderState:
        """Read how texts begin, ``(B, P)``, all of one length, without padding; ``P`` may be 0.

        Returns:
            the state from which :meth:`step` goes on with the token after the source.

        Raises:
            TypeError, ValueError: as :meth:`forward`.
        """
        weight = self.embedding.weight
        check_ids("source", source, self.config.vocab_size, like=weight, empty=True)
        state = DecoderState(KVCache(self.config.decoder_layers))
        if source.size(1):
            self.decoder(self.embedding(source, name="source"), cache=state.cache)
        return state

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one more token per row, ``(B,)``; predict the next: logits ``(B, vocab_size)``.

        The state is brought up to date and handed back. Errors as :meth:`Transformer.step`.
        """
        x = embed_step(self.embedding, tokens, state, crossing=False)
        x = self.decoder(x, cache=state.cache)
        return self.embedding.logits(x[:, 0]), state
