"""The models that come with the library, each in a folder next to this module.

``results/`` says how the trained ones were trained and how well they do.

``shakespeare`` has the files and names of a GPT-2 from Hugging Face, so
``GPT2LMHeadModel.from_pretrained`` can load the folder. ``number-words`` has the same files with
our own names; its matrices are 8-bit integers, see :func:`to_int8`. ``tiny-llama`` is random, for
readers to test their own Llama with. ``answers.safetensors`` holds what Hugging Face's own class
computes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer_lib.config import ModelConfig
from transformer_lib.data import Tokenizer
from transformer_lib.models import DecoderOnly, Transformer
from transformer_lib.pretrained.gpt2 import NAMES, transposed
from transformer_lib.pretrained.peers import load
from transformer_lib.pretrained.rounding import from_int8
from transformer_lib.validation import check_choice

__all__ = ["bundled_folder", "load_bundled"]

_TRAINED = ("shakespeare", "number-words")


def bundled_folder(name: str) -> Path:
    """Return the folder of a bundled model.

    Args:
        name: ``"shakespeare"``, a GPT-2 that reads characters, with 818,560 parameters in float16,
            4 layers, 4 heads and a context of 128; ``"number-words"``, a Transformer with 670,720
            parameters that translates numbers below 10,000 from English to German; or
            ``"tiny-llama"``, a Llama with 2 layers and random parameters.

    Raises:
        ValueError: an unknown name.

    Example:
        >>> sorted(path.name for path in bundled_folder("shakespeare").iterdir())
        ['answers.safetensors', 'config.json', 'model.safetensors', 'tokenizer.json']
    """
    check_choice("name", name, (*_TRAINED, "tiny-llama"))
    return Path(__file__).with_name(name)


def load_bundled(name: str) -> tuple[Any, Tokenizer]:
    """Load a bundled model and its tokenizer.

    Args:
        name: ``"shakespeare"``, a decoder that continues texts; or ``"number-words"``, which
            translates numbers in words from English to German.

    Returns:
        the model, in float32, on the CPU and in evaluation mode; and the tokenizer.

    Raises:
        ValueError: an unknown name.

    Example:
        >>> from transformer_lib.decoding import complete, translate
        >>> model, tokenizer = load_bundled("shakespeare")
        >>> complete(model, tokenizer, ["My lord, I"], max_tokens=12)[0]
        ' will not so'
        >>> model, tokenizer = load_bundled("number-words")
        >>> translate(model, tokenizer, ["four thousand two hundred six"])
        ['viertausendzweihundertsechs']
    """
    from safetensors.torch import load as read

    check_choice("name", name, _TRAINED)
    folder = bundled_folder(name)
    settings = json.loads((folder / "config.json").read_bytes())
    weights = read((folder / "model.safetensors").read_bytes())
    if name == "shakespeare":
        model = _gpt2(settings, weights)
    else:
        model = Transformer(ModelConfig(**settings["config"]))
        model.load_state_dict(from_int8(weights))
    return model.eval(), Tokenizer.load(folder / "tokenizer.json")


def _gpt2(settings: dict[str, Any], weights: dict[str, Tensor]) -> DecoderOnly:
    model = DecoderOnly(
        ModelConfig(
            vocab_size=settings["vocab_size"],
            d_model=settings["n_embd"],
            n_heads=settings["n_head"],
            n_layers=settings["n_layer"],
            d_ff=settings["n_inner"],
            max_len=settings["n_positions"],
            norm_eps=settings["layer_norm_epsilon"],
            dropout=0.0,
            positions="learned",
            activation="gelu_tanh",
            scale_embeddings=False,
            pad_id=settings["pad_token_id"],
            bos_id=settings["bos_token_id"],
            eos_id=settings["eos_token_id"],
        )
    )
    load(model, transposed(weights), NAMES)
    return model
