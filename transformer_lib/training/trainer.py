"""The training loop: a run that survives whatever stops it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch import nn

from transformer_lib.arguments import check_path, check_type
from transformer_lib.training.config import TrainConfig
from transformer_lib.training.folder import alone_in
from transformer_lib.training.interrupts import Interrupts, stop
from transformer_lib.training.records import History
from transformer_lib.training.session import Session, Validate
from transformer_lib.training.state import Batches

__all__ = ["fit"]


def fit(
    model: nn.Module,
    batches: Batches,
    config: TrainConfig,
    *,
    validate: Validate | None = None,
    directory: str | Path | None = None,
    resume: bool | Literal["auto"] = "auto",
    progress: bool = True,
) -> History:
    """Train a model, on the device that it is on.

    Every update divides the summed loss by all its tokens, over how many batches they may be
    spread. In a ``directory`` the run keeps ``log.jsonl``, ``checkpoint.pt``, from which it goes
    on, ``best.pt``, the model of the lowest validation loss, and, with ``keep_last``, the last
    models as ``step-….pt``. A run that was killed and resumed ends, on the same machine, in the
    same bits as one that was not.

    Under ``torchrun``, all processes call it with the same arguments, each with the model on a
    device of its own (:func:`~transformer_lib.training.distributed.local_device`). An update then
    takes ``accumulate`` batches for each process, off one common order, and its gradient is that
    of one process with all these batches. Each validates, and the first one's numbers count; it
    alone writes the files, which all must see. A checkpoint holds the whole model, and may be
    resumed by any number of processes for which ``accumulate`` times their number is what it
    was; to the same bits by the same number. After ``parallel="fsdp"``, the model stays in parts:
    load a checkpoint into a new one.

    Args:
        model: called with all tensors of a batch but the last, returns logits ``(..., V)``.
        batches: see :class:`~transformer_lib.training.state.Batches`.
        config: the numbers of the run.
        validate: called with the model, in evaluation mode and without gradients, and the number
            of epochs completed; returns what to record, such as ``{"loss": 1.2}``. Its
            ``"loss"`` decides which model is the best.
        directory: where the run is kept; None keeps nothing.
        resume: True goes on from the checkpoint, which must exist; ``"auto"`` goes on if there is
            one; False starts anew, over what was there.
        progress: show a progress bar on the error stream.

    Returns:
        All records of the run, those before a resumption included.

    Raises:
        TypeError: an argument of another kind.
        ValueError: a checkpoint of a run with other settings, other data or another model; an
            epoch without batches.
        FileNotFoundError: ``resume=True`` and no checkpoint.
        RuntimeError: another run is writing to the directory.
        FloatingPointError: the loss is no longer a number. The last checkpoint is from before.
        KeyboardInterrupt: Ctrl-C, after the step was finished and a checkpoint saved.
        SystemExit: likewise SIGTERM, with which schedulers and ``torchrun`` stop a process.

    Note:
        Seeds ``torch`` and ``random`` with ``config.seed``.

    Example:
        >>> from transformer_lib import ModelConfig, Transformer
        >>> from transformer_lib.data import Batches, copy_pairs
        >>> model = Transformer(ModelConfig.tiny(vocab_size=24, d_model=32, n_layers=1))
        >>> config = TrainConfig(epochs=2, warmup=10, peak_lr=0.003, log_every=3)
        >>> history = fit(model, Batches(copy_pairs(60), batch_size=20), config, progress=False)
        >>> steps, rates = history.column("lr")
        >>> steps, [round(rate, 4) for rate in rates]
        ([3, 6], [0.0009, 0.0018])
    """
    _check(model, batches, config, validate, directory, resume)
    check_type("progress", progress, bool)
    directory = None if directory is None else Path(directory)
    run = Session(model, batches, config, directory)
    was_training = model.training
    model.train()
    try:
        with alone_in(directory if run.ranks.first else None):
            run.start(resume)
            together = run.ranks.size > 1
            with Interrupts(together) as interrupts, _bar(run, progress) as bar:
                _loop(run, validate, interrupts, bar)
            run.log.close()
    finally:
        model.train(was_training)
    return run.log.history


def _loop(run: Session, validate: Validate | None, interrupts: Interrupts, bar: Any) -> None:
    groups = run.groups()
    while True:
        if run.record_is_due():
            bar.set_postfix(run.record(), refresh=False)
        if signum := run.ranks.largest(interrupts.pending):
            run.save()
            stop(signum)
        if validate and run.validation_is_due():
            try:
                with interrupts.let_through():
                    metrics = run.measure(validate)
            except (KeyboardInterrupt, SystemExit):
                run.save()  # resumes with this validation
                raise
            run.record_validation(metrics)
        if run.checkpoint_is_due():
            run.save(keep=True)
        if run.is_over():
            return
        run.step(*next(groups))
        bar.update()


def _check(
    model: Any, batches: Any, config: Any, validate: Any, directory: Any, resume: Any
) -> None:
    for name, value, kind in (("model", model, nn.Module), ("config", config, TrainConfig)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
    if not callable(getattr(batches, "epoch", None)) or not hasattr(batches, "__len__"):
        raise TypeError(f"batches must have epoch() and a length, got {type(batches).__name__}")
    if validate is not None and not callable(validate):
        raise TypeError(f"validate must be a function, got {type(validate).__name__}")
    if validate is None and config.patience is not None:
        raise ValueError("validate must be given for patience to wait for its loss, got None")
    if directory is not None:
        check_path("directory", directory, "folder")
    if not (isinstance(resume, bool) or (isinstance(resume, str) and resume == "auto")):
        raise ValueError(f"resume must be True, False or 'auto', got {resume!r}")


def _bar(run: Session, shown: bool) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=run.last_step,
        initial=run.progress.step,
        disable=not (shown and run.ranks.first),
        unit="step",
        desc="training",
    )
