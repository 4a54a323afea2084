"""The models that come with the library, each in a folder next to this module.

``results/`` says how they were trained and how well they do. ``shakespeare`` and ``tiny-llama`` are
as Hugging Face writes them, and ``answers.safetensors`` is what its own class computes;
``number-words`` has our own names, and matrices of 8-bit integers, see :func:`to_int8`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from transformer_lib.config import ModelConfig
from transformer_lib.data import Tokenizer
from transformer_lib.models import DecoderOnly, Transformer
from transformer_lib.pretrained.hugging_face import GPT2_NAMES, gpt2_config, load, transposed
from transformer_lib.validation import check_choice

__all__ = ["bundled_folder", "from_int8", "load_bundled", "to_int8"]

_STEP = ".step"
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
        name: ``"shakespeare"`` or ``"number-words"``, see :func:`bundled_folder`.

    Returns:
        the model, in float32, on the CPU and in evaluation mode; and the tokenizer.

    Raises:
        ValueError: an unknown name.

    Example:
        >>> from transformer_lib.decoding import translate
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
        model = DecoderOnly(gpt2_config(SimpleNamespace(**settings), tied=True))
        load(model, transposed(weights), GPT2_NAMES)
    else:
        model = Transformer(ModelConfig(**settings["config"]))
        model.load_state_dict(from_int8(weights))
    return model.eval(), Tokenizer.load(folder / "tokenizer.json")


def to_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    r"""Round each matrix to integers from -127 to 127. Other tensors stay the same.

    Each row has its own step, so that its largest entry is 127 steps:

    .. math::
        s_i = \max_j |W_{ij}| / 127, \quad Q_{ij} = \operatorname{round}(W_{ij} / s_i)

    Args:
        tensors: by name. Matrices are ``(rows, columns)`` and finite.

    Returns:
        ``Q`` in int8 under the name of each matrix, and ``s`` in float32, ``(rows,)``, under that
        name and ``".step"``.

    Example:
        >>> to_int8({"weight": torch.tensor([[1.27, -0.5], [0.0, 0.0]])})["weight"]
        tensor([[127, -50],
                [  0,   0]], dtype=torch.int8)
    """
    rounded = {}
    for name, tensor in tensors.items():
        if tensor.dim() != 2:
            rounded[name] = tensor
            continue
        step = tensor.float().abs().amax(dim=1) / 127  # (rows,)
        step = torch.where(step > 0, step, 1.0)  # any step works for zeros
        rounded[name] = (tensor.float() / step[:, None]).round().to(torch.int8)
        rounded[name + _STEP] = step
    return rounded


def from_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo :func:`to_int8`, in float32. No entry is off by more than half a step.

    Example:
        >>> weights = {"weight": torch.tensor([[1.27, -0.506]])}
        >>> from_int8(to_int8(weights))["weight"]
        tensor([[ 1.2700, -0.5100]])
    """
    return {
        name: tensor.float() * tensors[name + _STEP][:, None]
        if tensor.dtype == torch.int8
        else tensor
        for name, tensor in tensors.items()
        if not name.endswith(_STEP)
    }
