"""The library of *Attention, Built by Hand*: every line a chapter shows is a line tested here."""

from transformer_lib.attention import Attention, attention, fused_attention
from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.decoding import Generation, StepModel, greedy
from transformer_lib.masks import causal_mask, padding_mask
from transformer_lib.models import (
    Decoder,
    DecoderOnly,
    Encoder,
    EncoderDecoder,
    EncoderOnly,
    Transformer,
)
from transformer_lib.multihead import MultiHeadAttention, record_attention
from transformer_lib.positions import SinusoidalPositions

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "Decoder",
    "DecoderOnly",
    "Encoder",
    "EncoderDecoder",
    "EncoderOnly",
    "Generation",
    "KVCache",
    "ModelConfig",
    "MultiHeadAttention",
    "SinusoidalPositions",
    "StepModel",
    "Transformer",
    "attention",
    "causal_mask",
    "fused_attention",
    "greedy",
    "padding_mask",
    "record_attention",
]
