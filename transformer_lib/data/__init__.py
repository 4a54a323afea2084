"""From text to batches: tokenizers, data sets, batching.

This package needs only torch: `tokenizers`, `platformdirs` and `tqdm` are imported where they are
used.
"""

from transformer_lib.data import multi30k, shakespeare
from transformer_lib.data.batching import (
    Batch,
    Batches,
    TextBatch,
    TextBatches,
    TokenBatchSampler,
    WindowBatches,
    collate,
)
from transformer_lib.data.download import DownloadError
from transformer_lib.data.numbers import copy_pairs, number_word_pairs, number_words, split_pairs
from transformer_lib.data.tokenizer import BpeDropout, Tokenizer
from transformer_lib.data.world import Story, stories, story_pairs

__all__ = [
    "Batch",
    "Batches",
    "BpeDropout",
    "DownloadError",
    "Story",
    "TextBatch",
    "TextBatches",
    "TokenBatchSampler",
    "Tokenizer",
    "WindowBatches",
    "collate",
    "copy_pairs",
    "multi30k",
    "number_word_pairs",
    "number_words",
    "shakespeare",
    "split_pairs",
    "stories",
    "story_pairs",
]
