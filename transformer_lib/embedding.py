"""The two ends of a model: token ids to vectors, and vectors to logits."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.config import ModelConfig
from transformer_lib.dropout import Dropout
from transformer_lib.layers import make_norm
from transformer_lib.positions import LearnedPositions, SinusoidalPositions
from transformer_lib.positions.absolute import check_places
from transformer_lib.validation import (
    check_ids,
    check_shape,
    check_type,
    check_vectors,
)

__all__ = ["Embedding"]


class Embedding(nn.Module):
    r"""Hold one vector per token of the vocabulary, for input and output.

    In: look up the ids, multiply by :math:`\sqrt{d_{model}}`, add positions. Out: a token's logit
    is the dot product with its vector. Both ends share one matrix unless ``config.tie_embeddings``
    is False.

    Args:
        config: sizes and choices. Positions that belong to the attention layers, such as rotary
            ones, aren't added here.

    Source:
        Vaswani et al. (2017), section 3.4; Press and Wolf (2017) on the shared matrix.

    Example:
        >>> embedding = Embedding(ModelConfig(vocab_size=11, d_model=12, n_heads=3))
        >>> x = embedding(torch.tensor([[5, 7, 2]]))
        >>> x.shape, embedding.logits(x).shape
        (torch.Size([1, 3, 12]), torch.Size([1, 3, 11]))
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_type("config", config, ModelConfig)
        self.config = config
        vocab_size, d_model, n_types = config.vocab_size, config.d_model, config.n_token_types
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.types = nn.Embedding(n_types, d_model) if n_types else None
        kinds = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
        kind = kinds.get(config.positions)
        self.positions = kind(d_model=d_model, max_len=config.max_len) if kind else None
        self.norm = make_norm(config) if config.embedding_norm else None
        self.dropout = Dropout(config.dropout)
        tied, biased = config.tie_embeddings, config.output_bias
        self.output = None if tied else nn.Parameter(torch.empty(vocab_size, d_model))
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if biased else None
        # Larger embeddings would make huge logits. Their softmax is wrong and slow: its tails are
        # subnormal numbers, which take a CPU many times as long.
        for weight in (self.tokens.weight, self.types and self.types.weight, self.output):
            if weight is not None:
                nn.init.normal_(weight, std=d_model**-0.5)

    @property
    def weight(self) -> Tensor:
        """The tokens' vectors, ``(vocab_size, d_model)``."""
        return self.tokens.weight

    def forward(
        self,
        ids: Tensor,
        types: Tensor | None = None,
        *,
        offset: int = 0,
        name: str = "ids",
    ) -> Tensor:
        """Turn token ids into vectors.

        Args:
            ids: integers ``(B, T)``.
            types: integers ``(B, T)``, the type of each token; 0 if None.
            offset: position of the first token; with a cache, the number of tokens before.
            name: what errors call the ids.

        Returns:
            ``(B, T, d_model)``.

        Raises:
            TypeError: ids that aren't integers.
            ValueError: a sequence that is empty or longer than ``max_len``, an id or type out of
                range, types for a model without.
        """
        check_ids(name, ids, self.config.vocab_size, like=self.weight)
        if types is not None:
            if self.types is None:
                raise ValueError("types must be None: the model has no token types")
            check_ids("types", types, self.config.n_token_types, like=self.weight)
            check_shape("types", types, *ids.shape)
        check_places(name, ids.size(1), offset, self.config.max_len)
        x = self.tokens(ids)  # (B, T, d_model)
        if self.config.scale_embeddings:
            x = x * self.config.d_model**0.5
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids) if types is None else types)
        if self.positions is not None:
            x = self.positions(x, offset)
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)

    def logits(self, x: Tensor) -> Tensor:
        """Turn vectors ``(..., d_model)`` into logits ``(..., vocab_size)``."""
        weight = self.weight if self.output is None else self.output
        check_vectors("x", x, self.config.d_model, weight, batched=False)
        return F.linear(x, weight, self.bias)
