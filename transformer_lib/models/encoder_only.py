"""An encoder alone, for texts that are read and not written: BERT's shape."""

import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.config import ModelConfig
from transformer_lib.embedding import Embedding
from transformer_lib.layers import make_norm
from transformer_lib.masks import padding_mask
from transformer_lib.models.stacks import Encoder


class EncoderOnly(nn.Module):
    """Predict hidden tokens from both sides, or turn each token into a vector.

    The head for hidden tokens compares ``norm(gelu(x W + b))`` with the embeddings. A config with
    ``mlm_head=False`` leaves it out. A pooled vector of the whole text is made from its first
    token: ``tanh(x_0 W + b)``.

    Args:
        config: sizes and choices. BERT's are ``positions="learned"``, ``pre_norm=False``,
            ``embedding_norm=True``, ``scale_embeddings=False``, ``activation="gelu"``,
            ``output_bias=True`` and ``n_token_types=2``.

    Source:
        Devlin et al. (2019), *BERT*, section 3.

    Example:
        >>> import torch
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> model, ids = EncoderOnly(config), torch.randint(3, 11, (2, 5))
        >>> model(ids).shape, model.pooled(ids).shape
        (torch.Size([2, 5, 11]), torch.Size([2, 12]))
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.encoder = Encoder(config)
        self.pooler = nn.Linear(config.d_model, config.d_model)
        self.head_dense = self.head_norm = None
        if config.mlm_head:
            self.head_dense = nn.Linear(config.d_model, config.d_model)
            self.head_norm = make_norm(config)
        for layer in (self.pooler, self.head_dense):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """Predict the token at each position.

        Args:
            ids: integers ``(B, S)``, padded with ``pad_id``.
            types: integers ``(B, S)``, the part of the text a token belongs to; 0 if None.

        Returns:
            logits ``(B, S, vocab_size)``; without a head, what :meth:`encode` returns.

        Raises:
            TypeError, ValueError: as `Embedding.forward`.
        """
        x = self.encode(ids, types)
        if self.head_dense is None or self.head_norm is None:
            return x
        return self.embedding.logits(self.head_norm(F.gelu(self.head_dense(x))))

    def encode(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """Return each token in its context, ``(B, S, d_model)``."""
        x = self.embedding(ids, types)
        return self.encoder(x, padding_mask(ids, self.config.pad_id))

    def pooled(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """Return the text as one vector, ``(B, d_model)``."""
        return self.pooler(self.encode(ids, types)[:, 0]).tanh()
