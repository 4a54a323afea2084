"""Checkpoints: replaced in one move or not at all, verified when loaded, kept in a run's folder."""

import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer_lib.files import replacing
from transformer_lib.training.distributed import Ranks
from transformer_lib.validation import as_path, check_type, plain_number

__all__ = ["Folder", "alone_in", "average_checkpoints", "check_own", "load_checkpoint"]
__all__ += ["save_checkpoint"]

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


# The folder of a run


def is_checkpoint(path: Path) -> bool:
    """Whether :func:`save_checkpoint` wrote this file, without reading its tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("data.pkl")]
            return any(_FORMAT.encode() in archive.read(name) for name in names)
    except zipfile.BadZipFile:
        return False


def check_own(folder: Path, *names: str) -> None:
    """Raise a FileExistsError if a new run would overwrite files that no run wrote.

    A run saves its first checkpoint before its first step, so its other files have one beside them.
    """
    found = [path.name for name in names for path in folder.glob(name)]
    checkpoint = folder / "checkpoint.pt"
    if found and not (checkpoint.is_file() and is_checkpoint(checkpoint)):
        raise FileExistsError(
            f"{folder} is not the folder of a run, but holds {' and '.join(found)}, which a run "
            f"would overwrite: choose another folder"
        )


@contextmanager
def alone_in(directory: Path | None) -> Iterator[None]:
    """Create the directory, and keep other runs out of it as long as the block lasts.

    The lock is the operating system's, so it ends with the process. There is none on Windows.

    Raises:
        RuntimeError: another run is writing there.
    """
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(directory / "lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError(f"another run is writing to {directory}") from error
        yield


class Folder:
    """``checkpoint.pt``, ``best.pt`` and the last models, written by the first rank alone.

    Args:
        path: None keeps nothing.
        ranks: all call every method, and see the same files.
    """

    def __init__(self, path: Path | None, ranks: Ranks) -> None:
        self.path, self.ranks = path, ranks

    def begin(self, resume: bool | str) -> dict[str, Any] | None:
        """Return the state to resume from, or None for a new run."""
        if self.path is None:
            if resume is True:
                raise ValueError("resume=True needs a directory, got None")
            return None
        # The first rank decides: others may see what it has just written.
        there = self.ranks.gather(self.checkpoint.exists())[0]
        if resume is False or (resume == "auto" and not there):
            if self.ranks.first:
                check_own(self.path, "checkpoint.pt", "best.pt", "log.jsonl", "step-*.pt")
            return None
        state = load_checkpoint(self.checkpoint)
        if "progress" not in state:
            raise ValueError(f"{self.checkpoint} holds a model, not a run to resume")
        return state

    def clear(self, step: int | None) -> None:
        """Remove what a run resumed from ``step`` will write again; everything for a new run."""
        if self.path is None or not self.ranks.first:
            return
        for litter in self.path.glob(".*.pt.*.tmp"):  # from a run that was killed while saving
            litter.unlink()
        for path in self._kept():
            if step is None or path.name > self._name(step):
                path.unlink()
        if step is None:
            (self.path / "best.pt").unlink(missing_ok=True)

    def save(self, state: dict[str, Any], keep: int | None = None) -> None:
        """Replace the checkpoint, and add its model to the last ``keep`` ones."""
        if self.path is not None and self.ranks.first:
            step = state["progress"]["step"]
            if keep is not None and step > 0:
                save_checkpoint(
                    self.path / self._name(step), {"model": state["model"], "step": step}
                )
            save_checkpoint(self.checkpoint, state)
            if keep is not None:
                for path in self._kept()[:-keep]:
                    path.unlink()
        self.ranks.gather(None)

    def save_best(self, state: dict[str, Any]) -> None:
        if self.path is not None and self.ranks.first:
            save_checkpoint(self.path / "best.pt", state)

    @property
    def checkpoint(self) -> Path:
        assert self.path is not None
        return self.path / "checkpoint.pt"

    def _kept(self) -> list[Path]:
        return sorted(self.path.glob("step-*.pt")) if self.path is not None else []

    def _name(self, step: int) -> str:
        return f"step-{step:08d}.pt"
