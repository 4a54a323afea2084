"""The numbers that define a model, checked once when they are written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformer_lib.arguments import check_count, check_id, check_number, check_type

__all__ = ["ModelConfig"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes and choices of a Transformer. Names are the paper's.

    Args:
        vocab_size: number of tokens, shared by source and target.
        d_model: width of the vectors that flow through the model.
        n_heads: attention heads; must divide ``d_model``.
        n_kv_heads: heads of keys and values, each shared by a group of query heads; must divide
            ``n_heads``, and is ``n_heads`` if None.
        n_layers: encoder layers, and decoder layers unless ``n_decoder_layers`` says otherwise.
        n_decoder_layers: decoder layers; as many as ``n_layers`` if None.
        d_ff: inner width of the feed-forward part.
        dropout: probability of dropping a number of what is added to the residual stream, that is
            of the embeddings and of each sublayer's output, in [0, 1).
        attention_dropout: that of dropping an attention weight; ``dropout`` if None.
        activation_dropout: that of dropping a number inside the feed-forward part; ``dropout`` if
            None.
        max_len: longest sequence, in tokens.
        positions: how a token knows its place: ``"sinusoidal"`` or ``"learned"`` vectors added to
            the embeddings; in every self-attention ``"rotary"`` turns, ``"relative"`` vectors,
            the ``"t5"`` or the ``"alibi"`` bias; or ``"none"``.
        pre_norm: normalize before each sublayer (True) or after it, as the paper (False).
        final_norm: end each stack with a norm; ``pre_norm`` decides if None.
        norm: ``"layer"`` or ``"rms"``.
        norm_eps: the small number under the root of the norm.
        activation: of the feed-forward part: ``"relu"``, ``"gelu"``, ``"gelu_tanh"`` (its
            approximation), ``"silu"``, or ``"swiglu"``, which adds a third matrix.
        tie_embeddings: use the embedding matrix as output projection too.
        scale_embeddings: multiply embeddings by ``d_model ** 0.5`` on the way in.
        embedding_norm: normalize the embeddings before the first layer, as BERT does.
        output_bias: add a learned bias to the logits.
        n_token_types: kinds of token (BERT's two segments), each with a vector; 0 has none.
        pad_id, bos_id, eos_id: ids of padding, begin and end of sequence. A text may begin with
            the id of padding (Marian) or of the end (GPT-2), but padding is not the end.

    Raises:
        TypeError: a setting of another type.
        ValueError: a setting out of its range, with its name and value.

    Example:
        >>> ModelConfig.tiny(vocab_size=100).d_head
        32
    """

    vocab_size: int
    d_model: int = 512
    n_heads: int = 8
    n_kv_heads: int | None = None
    n_layers: int = 6
    n_decoder_layers: int | None = None
    d_ff: int = 2048
    dropout: float = 0.1
    attention_dropout: float | None = None
    activation_dropout: float | None = None
    max_len: int = 512
    positions: str = "sinusoidal"
    pre_norm: bool = True
    final_norm: bool | None = None
    norm: str = "layer"
    norm_eps: float = 1e-5
    activation: str = "relu"
    tie_embeddings: bool = True
    scale_embeddings: bool = True
    embedding_norm: bool = False
    output_bias: bool = False
    n_token_types: int = 0
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "max_len"):
            check_count(name, getattr(self, name))
        for name in ("n_kv_heads", "n_decoder_layers"):
            check_count(name, getattr(self, name), optional=True)
        check_count("n_token_types", self.n_token_types, least=0)
        for name, choices in _CHOICES.items():
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in choices:
                wanted = ", ".join(map(repr, choices))
                raise ValueError(f"{name} must be one of {wanted}; got {getattr(self, name)!r}")
        for name in _SWITCHES:
            check_type(name, getattr(self, name), bool)
        check_type("final_norm", self.final_norm, bool, optional=True)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model ({self.d_model}) must be divisible by n_heads ({self.n_heads})"
            )
        if self.n_heads % self.kv_heads:
            raise ValueError(
                f"n_heads ({self.n_heads}) must be divisible by n_kv_heads ({self.n_kv_heads})"
            )
        # A sine and a cosine per wave: a wave for two features, of the model or of a head.
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"d_model must be even for sinusoidal positions, got {self.d_model}")
        if self.positions == "rotary" and self.d_head % 2:
            raise ValueError(
                "d_model / n_heads must be even for rotary positions, "
                f"got {self.d_model} / {self.n_heads}"
            )
        check_number("dropout", self.dropout, 0, 1)
        for name in ("attention_dropout", "activation_dropout"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0, 1)
        check_number("norm_eps", self.norm_eps, 0, closed=False)
        for name in ("pad_id", "bos_id", "eos_id"):
            check_id(name, getattr(self, name), self.vocab_size)
        if self.eos_id == self.pad_id:
            raise ValueError(f"eos_id must differ from pad_id, both are {self.eos_id}")

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values, whether or not they were given."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def decoder_layers(self) -> int:
        """Decoder layers, whether or not they were given."""
        return self.n_layers if self.n_decoder_layers is None else self.n_decoder_layers

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


_CHOICES = {
    "positions": ("sinusoidal", "learned", "rotary", "relative", "t5", "alibi", "none"),
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "swiglu"),
}
_SWITCHES = ("pre_norm", "tie_embeddings", "scale_embeddings", "embedding_norm", "output_bias")
