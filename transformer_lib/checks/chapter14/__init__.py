"""Checkers for chapter 14, *Decoding: the best next word and the best sentence*."""

from transformer_lib.checks.chapter14.attend_more import ATTEND_MORE
from transformer_lib.checks.chapter14.beam_step import BEAM_STEP
from transformer_lib.checks.chapter14.corpus_bleu import CORPUS_BLEU
from transformer_lib.checks.chapter14.greedy_batch import GREEDY_BATCH, Writer
from transformer_lib.checks.chapter14.nucleus import NUCLEUS
from transformer_lib.checks.old.core import Checker

__all__ = ["Writer", "check"]

check = Checker(GREEDY_BATCH, BEAM_STEP, ATTEND_MORE, NUCLEUS, CORPUS_BLEU)
