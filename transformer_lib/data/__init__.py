"""From text to batches: tokenizers, tasks, Multi30k, batching.

`tokenizers`, `platformdirs` and `tqdm` are imported by the functions that use them, so this
package needs torch alone.
"""

from transformer_lib.data import multi30k, tasks
from transformer_lib.data.batching import (
    Batch,
    Batches,
    TextBatch,
    TextBatches,
    collate,
    collate_texts,
    pad,
)
from transformer_lib.data.bpe_dropout import BpeDropout
from transformer_lib.data.download import DownloadError, fetch
from transformer_lib.data.sampler import TokenBatchSampler
from transformer_lib.data.tasks import copy_pairs, number_word_pairs, number_words, split_pairs
from transformer_lib.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batch",
    "Batches",
    "BpeDropout",
    "DownloadError",
    "TextBatch",
    "TextBatches",
    "TokenBatchSampler",
    "Tokenizer",
    "collate",
    "collate_texts",
    "copy_pairs",
    "fetch",
    "multi30k",
    "number_word_pairs",
    "number_words",
    "pad",
    "split_pairs",
    "tasks",
]
