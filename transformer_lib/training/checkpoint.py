"""Checkpoint files: replaced in one move or not at all, and verified when they are loaded."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer_lib.files import replacing
from transformer_lib.validation import as_path, check_type, plain_number

__all__ = ["average_checkpoints", "is_checkpoint", "load_checkpoint", "save_checkpoint"]

_FORMAT = "transformer_lib checkpoint 1"
_PRIMITIVES = (bool, int, float, str, bytes, type(None))


def save_checkpoint(path: str | Path, state: dict[str, Any]) -> None:
    """Save nested dicts, lists and tuples of tensors and primitives.

    A reader, even after a crash, finds the old file or the new one, never half of one.

    Args:
        path: the file.
        state: what to save. Keys are strings or integers. NumPy scalars become Python numbers.

    Raises:
        TypeError: ``path`` isn't a path; ``state`` holds something that ``weights_only`` loading
            would refuse.
        ValueError: ``path`` is a folder.
        OSError: the file couldn't be written; an older one is still there.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "checkpoint.pt"
        >>> save_checkpoint(path, {"step": 3, "weight": torch.ones(2)})
        >>> load_checkpoint(path)
        {'step': 3, 'weight': tensor([1., 1.])}
    """
    as_path("path", path, "file")
    check_type("state", state, dict)
    state = _plain("state", state)
    buffer = io.BytesIO()
    torch.save({"format": _FORMAT, "state": state}, buffer)  # to a file, it would hide why it fails
    with replacing(path) as file:
        file.write(buffer.getvalue())


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Load what :func:`save_checkpoint` saved, all tensors on the CPU.

    No code in the file is run (``weights_only=True``), and its checksums are verified.

    Raises:
        TypeError: ``path`` isn't a path.
        FileNotFoundError: the file doesn't exist.
        ValueError: it is truncated, damaged, a folder, or not a checkpoint of this library.
    """
    as_path("path", path, "file")
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if damaged := archive.testzip():
                    raise ValueError(f"wrong checksum of {damaged}")
            file.seek(0)
            saved = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # damage causes a dozen types, even KeyError and OSError
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{path} is not a readable checkpoint, or it is truncated or damaged: {reason}"
            ) from error
    if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
        raise ValueError(
            f"{path} was not written by save_checkpoint: its format is not {_FORMAT!r}"
        )
    return saved["state"]


def is_checkpoint(path: Path) -> bool:
    """Whether :func:`save_checkpoint` wrote this file, without reading its tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("data.pkl")]
            return any(_FORMAT.encode() in archive.read(name) for name in names)
    except zipfile.BadZipFile:
        return False


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str | int):
                raise TypeError(f"keys of {name} must be strings or integers, got {key!r}")
        return {key: _plain(f"{name}[{key!r}]", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_plain(f"{name}[{index}]", item) for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    value = plain_number(value)
    if not isinstance(value, (Tensor, *_PRIMITIVES)):
        raise TypeError(
            f"{name} must be a tensor, a primitive or a dict, list or tuple of those; "
            f"got {type(value).__name__}"
        )
    return value


def average_checkpoints(paths: Sequence[str | Path]) -> dict[str, Tensor]:
    r"""Average each parameter over several checkpoints of one run.

    .. math:: \bar\theta = \frac{1}{n} \sum_{i=1}^{n} \theta_i

    Summed in float64, returned in the checkpoints' precision. Tensors of integers, such as counts,
    come from the last checkpoint.

    Args:
        paths: files written by :func:`~transformer_lib.training.loop.fit`: ``step-….pt`` (with
            ``keep_last``), ``checkpoint.pt`` or ``best.pt``.

    Returns:
        For ``model.load_state_dict``, all tensors on the CPU.

    Raises:
        TypeError: ``paths`` isn't a list of paths.
        FileNotFoundError: a file doesn't exist.
        ValueError: no paths; a file without a model; models that differ in a name, shape or dtype.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, section 6.1.

    Example:
        >>> import tempfile, torch
        >>> from transformer_lib.training import save_checkpoint
        >>> folder = Path(tempfile.mkdtemp())
        >>> for i in (1, 2):
        ...     save_checkpoint(folder / f"{i}.pt", {"model": {"weight": torch.tensor([3.0 * i])}})
        >>> average_checkpoints(sorted(folder.glob("*.pt")))
        {'weight': tensor([4.5000])}
    """
    if not isinstance(paths, list | tuple):
        raise TypeError(f"paths must be a list of paths, got {paths!r}")
    if not paths:
        raise ValueError("paths must hold at least one path, got none")
    sums: dict[str, Tensor] = {}
    last, kinds = dict[str, Tensor](), {}
    for path in paths:
        as_path("paths", path, "file")
        last, former = _model(path), kinds
        kinds = {name: (tensor.dtype, tensor.shape) for name, tensor in last.items()}
        if different := former.items() ^ kinds.items() if former else ():
            raise ValueError(
                f"paths must be checkpoints of the same model; {path} differs from the one before "
                f"it in {min(name for name, _ in different)}"
            )
        for name, tensor in last.items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, 0) + tensor.double()
    return {
        name: (sums[name] / len(paths)).to(tensor.dtype) if name in sums else tensor
        for name, tensor in last.items()
    }


def _model(path: Any) -> dict[str, Tensor]:
    model = load_checkpoint(path).get("model")
    if not isinstance(model, dict) or not all(isinstance(v, Tensor) for v in model.values()):
        raise ValueError(f"paths must be checkpoints of models; {path} holds no model")
    return model
