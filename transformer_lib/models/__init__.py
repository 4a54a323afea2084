"""Whole models, made of layers."""

from transformer_lib.models.counts import parameter_counts
from transformer_lib.models.decoder_only import DecoderOnly
from transformer_lib.models.encoder_only import EncoderOnly
from transformer_lib.models.stacks import Decoder, Encoder, EncoderDecoder
from transformer_lib.models.state import DecoderState
from transformer_lib.models.transformer import Transformer

__all__ = [
    "Decoder",
    "DecoderOnly",
    "DecoderState",
    "Encoder",
    "EncoderDecoder",
    "EncoderOnly",
    "Transformer",
    "parameter_counts",
]
