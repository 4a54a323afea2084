"""What conversions share: checks of the peer's class, its config and the shape of each tensor.

Hugging Face's models are recognized by the names of their classes, so that ``transformers`` is
never imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

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


def layers(mine: Iterable[Any], theirs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair our layers with the peer's, which must not have additional parameters."""
    for number, pair in enumerate(zip(mine, theirs, strict=True)):
        ours, peers = (sum(p.numel() for p in layer.parameters()) for layer in pair)
        if peers > ours:
            raise ValueError(
                f"peer's layer {number} must have {ours:,} parameters, as its config says; got "
                f"{peers:,}. An adapter such as LoRA must be merged into the weights first"
            )
        yield pair


def copy(mine: Any, theirs: Any) -> None:
    """Copy the weight and the bias, if any, of a module of the same shape."""
    copy_tensor(mine.weight, theirs.weight)
    if (mine.bias is None) != (theirs.bias is None):
        raise ValueError("peer's layers must have the biases that its config says, and no others")
    if mine.bias is not None:
        copy_tensor(mine.bias, theirs.bias)


@torch.no_grad()
def copy_tensor(mine: Tensor, theirs: Tensor) -> None:
    """Copy a tensor of the same shape, where ``copy_`` would broadcast a smaller one."""
    if mine.shape != theirs.shape:
        raise ValueError(
            f"peer's weights must have the shapes that its config says: one must be "
            f"{tuple(mine.shape)}, got {tuple(theirs.shape)}"
        )
    mine.copy_(theirs)
