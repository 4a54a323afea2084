"""The mean of several checkpoints of one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer_lib.arguments import check_path
from transformer_lib.training.checkpoint import load_checkpoint

__all__ = ["average_checkpoints"]


def average_checkpoints(paths: Sequence[str | Path]) -> dict[str, Tensor]:
    r"""The mean of each parameter over several checkpoints of one run.

    .. math:: \bar\theta = \frac{1}{n} \sum_{i=1}^{n} \theta_i

    Summed in float64, returned in the checkpoints' precision. Anything that is not a floating-point
    tensor, such as a count, is taken from the last one.

    Args:
        paths: files written by :func:`~transformer_lib.training.trainer.fit`: ``step-….pt`` (with
            ``keep_last``), ``checkpoint.pt`` or ``best.pt``.

    Returns:
        For ``model.load_state_dict``, all tensors on the CPU.

    Raises:
        TypeError: ``paths`` is not a list of paths.
        FileNotFoundError: there is no such file.
        ValueError: no paths; a file without a model; models that differ in a name, a shape or a
            dtype.

    Source:
        Vaswani et al. (2017), *Attention Is All You Need*, section 6.1: the last 5 checkpoints,
        written every 10 minutes, for the base models; the last 20 for the big ones.

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
    previous, last = paths[0], dict[str, Tensor]()
    for path in paths:
        check_path("paths", path, "file")
        model = _model(path)
        if last:
            _check_alike(previous, last, path, model)
        previous, last = path, model
        for name, tensor in model.items():
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


def _check_alike(path: Any, model: dict[str, Tensor], path2: Any, other: dict[str, Tensor]) -> None:
    """Raise a ValueError that names the first tensor in which two models differ."""
    for name in [*model, *(other.keys() - model.keys())]:
        kinds = [
            f"{tensor.dtype} {tuple(tensor.shape)}" if tensor is not None else "missing"
            for tensor in (model.get(name), other.get(name))
        ]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"paths must be checkpoints of the same model: {name} is {kinds[0]} in {path}, "
                f"{kinds[1]} in {path2}"
            )
