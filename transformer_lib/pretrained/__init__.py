"""Take a model of another library, give ours with its weights; save ours, and load it again.

Parity is the test that leaves no room: same weights, same numbers.
"""

from transformer_lib.pretrained.bert import from_bert
from transformer_lib.pretrained.gpt2 import from_gpt2
from transformer_lib.pretrained.marian import from_marian
from transformer_lib.pretrained.pytorch import from_torch
from transformer_lib.pretrained.saved import from_pretrained, save_pretrained

__all__ = [
    "from_bert",
    "from_gpt2",
    "from_marian",
    "from_pretrained",
    "from_torch",
    "save_pretrained",
]
