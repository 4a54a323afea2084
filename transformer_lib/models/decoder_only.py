"""A decoder alone, which continues a text: GPT's shape."""

from torch import Tensor, nn

from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.embedding import Embedding
from transformer_lib.models.stacks import Decoder
from transformer_lib.models.state import DecoderState, take_step
from transformer_lib.validation import check_ids


class DecoderOnly(nn.Module):
    """Predict each token from those before it.

    Short rows are padded on the right, without a mask: no token looks ahead.

    Args:
        config: sizes and choices, with ``n_decoder_layers`` layers if it's given. GPT-2's are
            ``positions="learned"``, ``scale_embeddings=False`` and ``activation="gelu_tanh"``.

    Source:
        Radford et al. (2019), *Language Models are Unsupervised Multitask Learners*.

    Example:
        >>> import torch
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> model, ids = DecoderOnly(config), torch.randint(3, 11, (2, 5))
        >>> model(ids).shape
        torch.Size([2, 5, 11])

        To continue a prompt, start from all but its last token, and step on from that one:

        >>> from transformer_lib.decoding import greedy
        >>> greedy(model, ids[:, :-1], bos_id=ids[:, -1], max_len=1, eos_id=2).ids.shape
        torch.Size([2, 1])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.decoder = Decoder(config, cross_attention=False)

    def forward(self, ids: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Predict the next token at every position.

        Args:
            ids: integers ``(B, T)``.
            mask: bool, over keys, broadcastable to ``(B, H, T, T)``, True = may attend; causality
                is added.

        Returns:
            logits ``(B, T, vocab_size)``.

        Raises:
            TypeError, ValueError: as `Embedding.forward`; a mask that doesn't fit.
        """
        x = self.embedding(ids)  # (B, T, d_model)
        return self.embedding.logits(self.decoder(x, mask=mask))

    def start(self, source: Tensor) -> DecoderState:
        """Read the beginnings of texts, ids ``(B, P)``, where ``P`` may be 0.

        The result is the state from which :meth:`step` reads the token after the source. Errors as
        :meth:`forward`.
        """
        weight = self.embedding.weight
        check_ids("source", source, self.config.vocab_size, like=weight, empty=True)
        state = DecoderState(KVCache(self.config.decoder_layers))
        if source.size(1):
            x = self.embedding(source, name="source")  # (B, P, d_model)
            self.decoder(x, cache=state.cache)
        return state

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one more token per row, ``(B,)``, and predict the next: logits ``(B, vocab_size)``.

        The state is updated in place and returned. Errors as :meth:`Transformer.step`.
        """
        return take_step(self.embedding, self.decoder, tokens, state)
