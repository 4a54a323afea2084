"""Copy the weights of another library's model into one of ours; save ours, and load it again.

One trained model comes along: :func:`from_recorded`.

The test is parity: with the same weights, both models give the same numbers.
"""

from transformer_lib.pretrained.bert import from_bert
from transformer_lib.pretrained.gpt2 import from_gpt2
from transformer_lib.pretrained.llama import from_llama
from transformer_lib.pretrained.marian import from_marian
from transformer_lib.pretrained.pytorch import from_torch
from transformer_lib.pretrained.saved import from_pretrained, save_pretrained
from transformer_lib.pretrained.shipped import from_recorded, shipped

__all__ = [
    "from_bert",
    "from_gpt2",
    "from_llama",
    "from_marian",
    "from_pretrained",
    "from_recorded",
    "from_torch",
    "save_pretrained",
    "shipped",
]
