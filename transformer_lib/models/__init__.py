"""Whole models, from the parts of a layer."""

from transformer_lib.models.transformer import (
    Decoder,
    DecoderState,
    Encoder,
    EncoderDecoder,
    Transformer,
)

__all__ = ["Decoder", "DecoderState", "Encoder", "EncoderDecoder", "Transformer"]
