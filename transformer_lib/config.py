"""The numbers that define a model, checked once when they are written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ModelConfig"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes and choices of a Transformer. Names are the paper's.

    Args:
        vocab_size: number of tokens, shared by source and target.
        d_model: width of the vectors that flow through the model.
        n_heads: attention heads; must divide ``d_model``.
        n_layers: encoder layers, and decoder layers unless ``n_decoder_layers`` says otherwise.
        n_decoder_layers: decoder layers; as many as ``n_layers`` if None.
        d_ff: inner width of the feed-forward part.
        dropout: probability of dropping a number, in [0, 1).
        max_len: longest sequence, in tokens.
        pre_norm: normalize before each sublayer (True) or after it, as the paper (False).
        final_norm: end each stack with a norm; ``pre_norm`` decides if None.
        norm_eps: the small number under the root of the norm.
        activation: of the feed-forward part, ``"relu"`` or ``"gelu"``.
        tie_embeddings: use the embedding matrix as output projection too.
        pad_id, bos_id, eos_id: ids of padding, begin and end of sequence.

    Raises:
        ValueError: any number out of its range, with its name and value.

    Example:
        >>> ModelConfig.tiny(vocab_size=100).d_head
        32
    """

    vocab_size: int
    d_model: int = 512
    n_heads: int = 8
    n_layers: int = 6
    n_decoder_layers: int | None = None
    d_ff: int = 2048
    dropout: float = 0.1
    max_len: int = 512
    pre_norm: bool = True
    final_norm: bool | None = None
    norm_eps: float = 1e-5
    activation: str = "relu"
    tie_embeddings: bool = True
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "max_len"):
            _check_count(name, getattr(self, name))
        if self.n_decoder_layers is not None:
            _check_count("n_decoder_layers", self.n_decoder_layers)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model ({self.d_model}) must be divisible by n_heads ({self.n_heads})"
            )
        if self.d_model % 2:
            raise ValueError(
                f"d_model must be even, a sine and a cosine per wave; got {self.d_model}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")
        if not self.norm_eps > 0:
            raise ValueError(f"norm_eps must be above 0, got {self.norm_eps}")
        if self.activation not in ("relu", "gelu"):
            raise ValueError(f"activation must be 'relu' or 'gelu', got {self.activation!r}")
        special = {name: getattr(self, name) for name in ("pad_id", "bos_id", "eos_id")}
        for name, value in special.items():
            if not 0 <= value < self.vocab_size:
                raise ValueError(f"{name} must be in [0, {self.vocab_size}), got {value}")
        if len(set(special.values())) < len(special):
            raise ValueError(f"pad_id, bos_id and eos_id must differ, got {special}")

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads

    @classmethod
    def tiny(cls, **changes: Any) -> ModelConfig:
        """4 + 4 layers of width 128: Multi30k on a laptop (Wu et al., 2021)."""
        return cls(**{"d_model": 128, "n_heads": 4, "n_layers": 4, "d_ff": 256, "dropout": 0.3}
                   | changes)  # fmt: skip

    @classmethod
    def base(cls, **changes: Any) -> ModelConfig:
        """The base model of Vaswani et al. (2017), Table 3."""
        return cls(**changes)

    @classmethod
    def big(cls, **changes: Any) -> ModelConfig:
        """The big model of Vaswani et al. (2017), Table 3."""
        return cls(**{"d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3} | changes)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
