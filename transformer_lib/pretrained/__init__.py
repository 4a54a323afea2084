"""Convert models from other libraries, and load published and bundled ones.

Conversions are tested for parity: with the same weights, both models compute the same numbers.
"""

from transformer_lib.pretrained.bundled import bundled_folder, load_bundled
from transformer_lib.pretrained.hugging_face import from_bert, from_gpt2, from_llama
from transformer_lib.pretrained.marian import from_marian
from transformer_lib.pretrained.published import from_peer, load_peer, published_folder
from transformer_lib.pretrained.pytorch import from_torch

__all__ = [
    "bundled_folder",
    "from_bert",
    "from_gpt2",
    "from_llama",
    "from_marian",
    "from_peer",
    "from_torch",
    "load_bundled",
    "load_peer",
    "published_folder",
]
