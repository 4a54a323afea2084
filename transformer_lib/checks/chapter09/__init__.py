"""Checkers for chapter 9, *The decoder*."""

from transformer_lib.checks.chapter09.decoder_layer import DECODER_LAYER
from transformer_lib.checks.chapter09.greedy import GREEDY
from transformer_lib.checks.chapter09.writer import Writer
from transformer_lib.checks.old.core import Checker

__all__ = ["Writer", "check"]

check = Checker(DECODER_LAYER, GREEDY)
"""The exercises `MyDecoderLayer` and `greedy`."""
