"""The Transformer of the paper: an encoder, a decoder, and embeddings at both ends."""

from torch import Tensor, nn

from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.embedding import Embedding
from transformer_lib.masks import padding_mask
from transformer_lib.models.stacks import Decoder, Encoder
from transformer_lib.models.state import DecoderState, take_step
from transformer_lib.validation import check_shape


class Transformer(nn.Module):
    """Translate token ids into logits over the vocabulary, with an encoder and a decoder.

    Source, target and output share one embedding matrix, unless the config says otherwise. Masks
    made from the ids hide padding.

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
        """Predict the next token at every position of the target.

        Args:
            source: ids, integers ``(B, S)``, padded with ``pad_id``.
            target: ids, integers ``(B, T)``, beginning with ``bos_id``: the target shifted right.

        Returns:
            logits ``(B, T, vocab_size)``.

        Raises:
            TypeError, ValueError: as `Embedding.forward`; different batch sizes.
        """
        memory, x = self.encode(source), self.embedding(target, name="target")
        check_shape("target", target, source.size(0), "T")
        x = self.decoder(
            x,
            memory,
            mask=self._target_mask(target),
            memory_mask=padding_mask(source, self.config.pad_id),
        )
        return self.embedding.logits(x)

    def encode(self, source: Tensor) -> Tensor:
        """Turn source ids ``(B, S)`` into a memory ``(B, S, d_model)``."""
        x = self.embedding(source, name="source")
        return self.encoder(x, padding_mask(source, self.config.pad_id))

    def start(self, source: Tensor) -> DecoderState:
        """Encode source ids ``(B, S)`` and return the state that decoding starts from."""
        memory = self.encode(source)
        mask = padding_mask(source, self.config.pad_id)
        return DecoderState(KVCache(self.config.decoder_layers), memory, mask)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one more token per row, ``(B,)``, and predict the next: logits ``(B, vocab_size)``.

        The state is updated in place and returned.

        Raises:
            TypeError, ValueError: tokens that aren't ids, one per row; a text that has reached
                ``max_len``.
        """
        return take_step(self.embedding, self.decoder, tokens, state)

    def _target_mask(self, target: Tensor) -> Tensor:
        mask = padding_mask(target, self.config.pad_id)
        if self.config.bos_id == self.config.pad_id:
            mask[..., 0] = True  # the first token begins the text; it isn't padding
        return mask
