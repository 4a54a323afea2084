"""The library of *Attention, Built by Hand*: every line a chapter shows is a line tested here."""

try:
    from transformer_lib.attention import Attention, attention, fused_attention
except ImportError as error:
    if error.name != __name__ + ".attention":  # torch is missing, say
        raise
    # PyPI has another transformer_lib. In one folder with ours its attention/ hides attention.py.
    raise ImportError(
        "another project's transformer_lib lies in the same folder: run pip uninstall -y "
        "transformer-lib attention-built-by-hand, and install the book's library again"
    ) from error
from transformer_lib.cache import KVCache
from transformer_lib.config import ModelConfig
from transformer_lib.decoding import Beams, Generation, StepModel, beam_search, greedy, sample
from transformer_lib.inspection import record_attention
from transformer_lib.masks import causal_mask, local_mask, padding_mask
from transformer_lib.models import (
    Decoder,
    DecoderOnly,
    Encoder,
    EncoderDecoder,
    EncoderOnly,
    Transformer,
    parameter_counts,
)
from transformer_lib.multihead import MultiHeadAttention
from transformer_lib.positions import (
    LearnedPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    alibi_bias,
)
from transformer_lib.recurrent import AdditiveScore, RNNSeq2Seq

__version__ = "1.0.0"

BOOK = "Attention, Built by Hand"  # notebooks look for it: PyPI has another transformer_lib

__all__ = [
    "AdditiveScore",
    "Attention",
    "Beams",
    "Decoder",
    "DecoderOnly",
    "Encoder",
    "EncoderDecoder",
    "EncoderOnly",
    "Generation",
    "KVCache",
    "LearnedPositions",
    "ModelConfig",
    "MultiHeadAttention",
    "RNNSeq2Seq",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "StepModel",
    "Transformer",
    "alibi_bias",
    "attention",
    "beam_search",
    "causal_mask",
    "fused_attention",
    "greedy",
    "local_mask",
    "padding_mask",
    "parameter_counts",
    "record_attention",
    "sample",
]
