"""Models in a folder: ``model.safetensors`` and ``config.json``, which contain no code."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from torch import nn

from transformer_lib.config import ModelConfig
from transformer_lib.files import replacing
from transformer_lib.models import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from transformer_lib.recurrent import RNNConfig, RNNSeq2Seq
from transformer_lib.validation import as_path

__all__ = ["from_pretrained", "save_pretrained"]

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_CLASSES: dict[str, Any] = {
    each.__name__: each
    for each in (Transformer, EncoderOnly, DecoderOnly, EncoderDecoder, RNNSeq2Seq)
}


def save_pretrained(model: nn.Module, folder: str | os.PathLike) -> None:
    """Save a model of this library, for :func:`from_pretrained` to load.

    ``config.json`` holds a checksum of the weights, so files from two saves can't be mixed up.

    Args:
        model: a model of this library; for a ``DistributedDataParallel``, its ``module``.
        folder: where to put it; created if necessary. A model saved there before is replaced.

    Raises:
        TypeError: a model of another class; a folder that isn't a path.
        FileExistsError: the folder has files with these names that aren't a saved model's.
        OSError: the files can't be written.

    Example:
        >>> import tempfile, torch
        >>> config = ModelConfig(vocab_size=11, d_model=12, n_heads=3, n_layers=2, d_ff=20)
        >>> model, ids = EncoderOnly(config).eval(), torch.randint(3, 11, (2, 5))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_pretrained(model, folder)
        ...     from_pretrained(folder)(ids).equal(model(ids))
        True
    """
    from safetensors.torch import save

    if type(model) not in _CLASSES.values():
        wanted = ", ".join(_CLASSES)
        raise TypeError(f"model must be one of {wanted}; got {type(model).__name__}")
    folder = as_path("folder", folder, "folder")
    _check_own(folder)
    config: Any = model.config
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    weights = save(tensors, metadata={"format": "pt"})  # other tools expect that entry
    settings = {
        "class": type(model).__name__,
        "config": asdict(config),
        "sha256": hashlib.sha256(weights).hexdigest(),
        "version": sys.modules["transformer_lib"].__version__,
    }
    text = json.dumps(settings, indent=2) + "\n"
    # The config gets its name first: it marks this as the folder of a saved model.
    with replacing(folder / _WEIGHTS) as first, replacing(folder / _CONFIG) as second:
        for file, content in ((first, weights), (second, text.encode())):
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # notice a full disk before replacing one of the two


def from_pretrained(folder: str | os.PathLike) -> nn.Module:
    """Load a model that :func:`save_pretrained` saved.

    Args:
        folder: where it was saved.

    Returns:
        the model, with weights in the dtype that they were saved in, on the CPU and in evaluation
        mode.

    Raises:
        FileNotFoundError: the folder or a file in it doesn't exist.
        ValueError: a damaged file, or one in another format; a config that doesn't fit the weights.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    folder = as_path("folder", folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"folder {folder} doesn't exist")
    settings = _read_settings(folder / _CONFIG)
    model = _build(folder / _CONFIG, settings)
    path = folder / _WEIGHTS
    weights = path.read_bytes()
    if hashlib.sha256(weights).hexdigest() != settings["sha256"]:
        raise ValueError(
            f"{path} is truncated, damaged or from another save: its checksum is not the one in "
            f"{_CONFIG}"
        )
    try:
        tensors = load(weights)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file ({error})") from error
    try:
        model.load_state_dict(tensors, assign=True)  # to keep their dtype
    except RuntimeError as error:
        raise ValueError(f"{path} doesn't fit {_CONFIG}: {error}") from error
    return model.eval()


def _check_own(folder: Path) -> None:
    found = [name for name in (_CONFIG, _WEIGHTS) if (folder / name).exists()]
    try:
        settings = json.loads((folder / _CONFIG).read_bytes())
        own = settings["class"] in _CLASSES and "sha256" in settings
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        own = False
    if found and not own:
        raise FileExistsError(
            f"{folder} holds {' and '.join(found)}, but not those of a saved model; to keep them, "
            f"choose another folder"
        )


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: truncated or damaged ({error})") from error
    for name, kind in (("class", str), ("config", dict), ("sha256", str)):
        if not isinstance(settings, dict) or not isinstance(settings.get(name), kind):
            raise ValueError(f"{path} must have an entry {name!r} of type {kind.__name__}")
    return settings


def _build(path: Path, settings: dict[str, Any]) -> nn.Module:
    if settings["class"] not in _CLASSES:
        wanted = ", ".join(_CLASSES)
        raise ValueError(f"{path}: class must be one of {wanted}; got {settings['class']!r}")
    kind, config = _CLASSES[settings["class"]], settings["config"]
    recurrent = kind is RNNSeq2Seq  # it takes keyword arguments
    known = {field.name for field in fields(RNNConfig if recurrent else ModelConfig)}
    if unknown := config.keys() - known:
        raise ValueError(f"{path}: config has unknown entries: {', '.join(sorted(unknown))}")
    try:
        return kind(**config) if recurrent else kind(ModelConfig(**config))
    except (TypeError, ValueError, RuntimeError) as error:  # the last if memory is too small
        raise ValueError(f"{path}: {error}") from error
