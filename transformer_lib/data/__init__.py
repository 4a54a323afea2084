"""From text to batches: tokenizers, tasks, Multi30k, tiny Shakespeare, batching.

`tokenizers`, `platformdirs` and `tqdm` are imported by the functions that use them, so this
package needs torch alone.
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
    collate_texts,
    pad,
)
from transformer_lib.data.bpe_dropout import BpeDropout
from transformer_lib.data.download import DownloadError, fetch
from transformer_lib.data.numbers import copy_pairs, number_word_pairs, number_words, split_pairs
from transformer_lib.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from transformer_lib.data.world import TOPICS, Story, stories, story_pairs

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "TOPICS",
    "UNK",
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
    "collate_texts",
    "copy_pairs",
    "fetch",
    "multi30k",
    "number_word_pairs",
    "number_words",
    "pad",
    "shakespeare",
    "split_pairs",
    "stories",
    "story_pairs",
]
