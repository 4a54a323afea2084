"""What conversions share: checks of the peer's class and config, and tensors under our names.

Hugging Face's models are recognized by the names of their classes, so that ``transformers`` is
never imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.validation import FLOATS

# The peers' names are on the left.
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


def check_class(peer: Any, *names: str) -> None:
    """Raise unless ``peer`` is an unquantized model of ``transformers`` of one of these classes."""
    for base in type(peer).__mro__:
        if base.__name__ in names and base.__module__.startswith("transformers."):
            break
    else:
        wanted = " or ".join(names)
        raise TypeError(f"peer must be a {wanted} of transformers, got {type(peer).__name__}")
    for name, parameter in peer.named_parameters():
        if parameter.dtype not in FLOATS:
            raise ValueError(f"peer must not be quantized: its {name} is {parameter.dtype}")


def require(config: Any, **wanted: Any) -> None:
    """Raise a ValueError unless the peer's config has these values."""
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise ValueError(f"peer's {name} must be {value!r}, got {getattr(config, name)!r}")


def activation(config: Any, name: str) -> str:
    """Return our name for the peer's activation function, ``name`` in its config."""
    theirs = getattr(config, name)
    if theirs not in _ACTIVATIONS:
        wanted = ", ".join(map(repr, _ACTIVATIONS))
        raise ValueError(f"peer's {name} must be one of {wanted}; got {theirs!r}")
    return _ACTIVATIONS[theirs]


def token_id(config: Any, name: str) -> int:
    """Return the id called ``name`` in the peer's config, or the first of several."""
    value = getattr(config, name)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, int) or not 0 <= value < config.vocab_size:
        raise ValueError(f"peer's {name} must be in [0, {config.vocab_size}), got {value!r}")
    return value


def filler_id(config: Any, eos_id: int) -> int:
    """Choose an id to pad with: the peer's, if it's a separate one, else 0 (1 if 0 ends texts)."""
    pad_id = config.pad_token_id
    if pad_id is None or pad_id == eos_id or not 0 <= pad_id < config.vocab_size:
        return 1 if eos_id == 0 else 0
    return pad_id


def unfilled(kind: Any, config: Any, like: Tensor) -> Any:
    """Make a model with uninitialized weights, with the dtype and device of ``like``.

    Initializing billions of weights, only to overwrite them, would take minutes.
    """
    with torch.device("meta"):
        model = kind(config)
    return model.to(like.dtype).to_empty(device=like.device)


@torch.no_grad()
def load(ours: nn.Module, theirs: Mapping[str, Tensor], names: Mapping[str, str]) -> None:
    """Copy a peer's tensors into our model, and join the projections of attention.

    Args:
        ours: the model.
        theirs: the peer's tensors, by name.
        names: parts of the peer's names and what we call them, replaced in this order.

    Raises:
        ValueError: a tensor is missing, unexpected or of another shape.
    """
    found = {}
    for name, tensor in theirs.items():
        for part, our_part in names.items():
            name = name.replace(part, our_part)
        found[name] = tensor
    for name in list(found):
        three = [name.replace(".query.", f".{part}.") for part in ("query", "key", "value")]
        if ".query." in name and all(part in found for part in three):
            joined = torch.cat([found.pop(part) for part in three])
            found[name.replace(".query.", ".in_proj.")] = joined
    try:
        ours.load_state_dict(found)
    except RuntimeError as error:
        raise ValueError(
            "peer's weights must be those that its config says, and an adapter such as LoRA must "
            f"be merged into them first: {error}"
        ) from error
