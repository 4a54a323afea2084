"""The settings that define a model, checked when they're set."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from transformer_lib.validation import (
    check_choice,
    check_count,
    check_heads,
    check_id,
    check_number,
    check_type,
    plain_number,
)

__all__ = ["ModelConfig", "SpecialIds"]


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The ids of the tokens for padding, beginning and end, which every model's config has.

    Losses, decoding and batches take them from there. The defaults are those of
    :class:`~transformer_lib.data.Tokenizer`.

    Args:
        pad_id: pads short sequences.
        bos_id: begins a sequence. It may equal ``pad_id``, as in Marian, or ``eos_id``, as in
            GPT-2.
        eos_id: ends a sequence; must differ from ``pad_id``.

    Raises:
        TypeError, ValueError: ids that aren't integers of at least 0, or that clash.

    Example:
        >>> SpecialIds(pad_id=5).eos_id
        2
    """

    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, plain_number(value))
        for name in ("pad_id", "bos_id", "eos_id"):
            check_id(name, getattr(self, name))
        if self.eos_id == self.pad_id:
            raise ValueError(f"eos_id must differ from pad_id, both are {self.eos_id}")

    @property
    def special_ids(self) -> SpecialIds:
        """These three ids alone."""
        return SpecialIds(pad_id=self.pad_id, bos_id=self.bos_id, eos_id=self.eos_id)


@dataclass(frozen=True, kw_only=True)
class ModelConfig(SpecialIds):
    """Sizes and choices of a Transformer. Names are the paper's.

    Args:
        vocab_size: number of tokens, shared by source and target.
        d_model: width of the vectors that flow through the model.
        n_heads: number of attention heads; must divide ``d_model``.
        n_kv_heads: number of key and value heads, each shared by a group of query heads; must
            divide ``n_heads``, which is the default.
        n_layers: number of encoder layers, and of decoder layers if ``n_decoder_layers`` is None.
        n_decoder_layers: number of decoder layers.
        d_ff: inner width of the feed-forward network.
        dropout: probability, in [0, 1), of dropping a number where something enters the residual
            stream: the embeddings and each sublayer's output.
        attention_dropout: probability of dropping an attention weight; ``dropout`` if None.
        activation_dropout: probability of dropping a number inside the feed-forward network;
            ``dropout`` if None.
        max_len: longest sequence, in tokens.
        positions: how tokens get their positions: ``"sinusoidal"`` or ``"learned"`` vectors added
            to the embeddings; ``"rotary"`` rotations, ``"relative"`` vectors, or an ``"alibi"``
            bias in every self-attention; or ``"none"``.
        rotary_base: approximate ratio of the slowest pair's period to the fastest's, at least 1;
            often called RoPE's theta.
        pre_norm: normalize before each sublayer (True) or after it, as in the paper (False).
        final_norm: end each stack with a norm; ``pre_norm`` if None.
        norm: ``"layer"`` or ``"rms"``.
        norm_eps: the small number under the norm's root.
        activation: of the feed-forward network: ``"relu"``, ``"gelu"``, ``"gelu_tanh"`` (its
            approximation), ``"silu"``, or ``"swiglu"``, which adds a third matrix.
        bias: give each matrix of a layer a bias.
        qkv_bias: the same for queries, keys and values; ``bias`` if None.
        tie_embeddings: use the embedding matrix as output projection too.
        scale_embeddings: multiply input embeddings by ``d_model ** 0.5``.
        embedding_norm: normalize the embeddings before the first layer, as BERT does.
        output_bias: add a learned bias to the logits.
        n_token_types: number of token types (BERT's segments), each with a vector; 0 for none.
        mlm_head: end an encoder alone with a head that predicts hidden tokens; without it, the
            model returns a vector per token.
        pad_id, bos_id, eos_id: as for :class:`SpecialIds`.

    Raises:
        TypeError: a setting of another type.
        ValueError: a setting out of range.

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
    rotary_base: float = 10_000.0
    pre_norm: bool = True
    final_norm: bool | None = None
    norm: str = "layer"
    norm_eps: float = 1e-5
    activation: str = "relu"
    bias: bool = True
    qkv_bias: bool | None = None
    tie_embeddings: bool = True
    scale_embeddings: bool = True
    embedding_norm: bool = False
    output_bias: bool = False
    n_token_types: int = 0
    mlm_head: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.d_model, self.n_heads, self.n_kv_heads)
        for name in ("vocab_size", "n_layers", "d_ff", "max_len"):
            check_count(name, getattr(self, name))
        check_count("n_decoder_layers", self.n_decoder_layers, optional=True)
        check_count("n_token_types", self.n_token_types, least=0)
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for field in fields(self):
            if field.type in ("bool", "bool | None"):
                value = getattr(self, field.name)
                check_type(field.name, value, bool, optional=field.type != "bool")
        # Each wave has a sine and a cosine.
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
        check_number("norm_eps", self.norm_eps, 0, ends="()")
        check_number("rotary_base", self.rotary_base, 1)
        for name in ("pad_id", "bos_id", "eos_id"):
            check_id(name, getattr(self, name), self.vocab_size)

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads

    @property
    def decoder_layers(self) -> int:
        """Number of decoder layers."""
        return self.n_layers if self.n_decoder_layers is None else self.n_decoder_layers

    @classmethod
    def tiny(cls, **changes: Any) -> ModelConfig:
        """Make a config of 4 + 4 layers of width 128: Multi30k on a laptop (Wu et al., 2021)."""
        return cls(**{"d_model": 128, "n_heads": 4, "n_layers": 4, "d_ff": 256, "dropout": 0.3}
                   | changes)  # fmt: skip

    @classmethod
    def base(cls, **changes: Any) -> ModelConfig:
        """Make a config with the sizes and dropout of Vaswani et al. (2017), Table 3, base model.

        Norms come first, as in later versions of the paper's code; ``pre_norm=False`` puts them
        where the paper's text has them. The text has dropout in fewer places: for that, set
        ``attention_dropout`` and ``activation_dropout`` to 0.
        """
        return cls(**changes)

    @classmethod
    def big(cls, **changes: Any) -> ModelConfig:
        """Make a config with the sizes and dropout of the big model, otherwise as :meth:`base`."""
        return cls(**{"d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3} | changes)

    @classmethod
    def published(cls, name: str, **changes: Any) -> ModelConfig:
        """Make the config of a published model.

        ==================  =========  ===============
        name                model      parameters
        ==================  =========  ===============
        ``"gpt2"``          decoder      124,439,808
        ``"bert-base"``     encoder      109,482,240
        ``"bert-large"``    encoder      335,141,888
        ``"llama-2-7b"``    decoder    6,738,415,616
        ``"llama-3-8b"``    decoder    8,030,261,248
        ``"mistral-7b"``    decoder    7,241,732,096
        ==================  =========  ===============

        An encoder is an ``EncoderOnly``, counted without its head for masked tokens; a decoder is a
        ``DecoderOnly``. On the device ``"meta"`` they take no memory. Mistral's first version looks
        back over 4096 tokens at most, which is its ``max_len`` here.

        Args:
            name: a name in the table.
            changes: settings that replace the published ones.

        Raises:
            ValueError: a name that isn't in the table.

        Source:
            Radford et al. (2019); Devlin et al. (2019); Touvron et al. (2023), *Llama 2*;
            Grattafiori et al. (2024), *The Llama 3 Herd of Models*; Jiang et al. (2023), *Mistral
            7B*.

        Example:
            >>> ModelConfig.published("mistral-7b").n_kv_heads
            8
        """
        check_choice("name", name, _PUBLISHED)
        return cls(**_PUBLISHED[name] | changes)


_CHOICES = {
    "positions": ("sinusoidal", "learned", "rotary", "relative", "alibi", "none"),
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "swiglu"),
}
_BERT: dict[str, Any] = {
    "vocab_size": 30_522, "d_model": 768, "n_heads": 12, "n_layers": 12, "d_ff": 3072,
    "dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.0, "max_len": 512,
    "positions": "learned", "pre_norm": False, "norm_eps": 1e-12, "activation": "gelu",
    "scale_embeddings": False, "embedding_norm": True, "output_bias": True, "n_token_types": 2,
    "bos_id": 101, "eos_id": 102,
}  # fmt: skip
_LLAMA: dict[str, Any] = {
    "vocab_size": 32_000, "d_model": 4096, "n_heads": 32, "n_kv_heads": 32, "n_layers": 32,
    "d_ff": 11_008, "dropout": 0.0, "attention_dropout": 0.0, "max_len": 4096,
    "positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False,
    "qkv_bias": False, "tie_embeddings": False, "scale_embeddings": False,
}  # fmt: skip
_PUBLISHED: dict[str, dict[str, Any]] = {
    "gpt2": {
        "vocab_size": 50_257, "d_model": 768, "n_heads": 12, "n_layers": 12, "d_ff": 3072,
        "dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.0, "max_len": 1024,
        "positions": "learned", "activation": "gelu_tanh", "scale_embeddings": False,
        "bos_id": 50_256, "eos_id": 50_256,
    },
    "bert-base": _BERT,
    "bert-large": _BERT | {"d_model": 1024, "n_heads": 16, "n_layers": 24, "d_ff": 4096},
    "llama-2-7b": _LLAMA,
    "llama-3-8b": _LLAMA | {
        "vocab_size": 128_256, "n_kv_heads": 8, "d_ff": 14_336, "max_len": 8192,
        "rotary_base": 500_000.0, "bos_id": 128_000, "eos_id": 128_001,
    },
    "mistral-7b": _LLAMA | {"n_kv_heads": 8, "d_ff": 14_336},
}  # fmt: skip
