"""The training loop: a run that survives any interruption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from transformer_lib.decoding.protocol import modes_kept
from transformer_lib.training.config import TrainConfig
from transformer_lib.training.distributed import join
from transformer_lib.training.folder import Folder, alone_in
from transformer_lib.training.interrupts import Interrupts, stop
from transformer_lib.training.log import History
from transformer_lib.training.session import Session, Validate
from transformer_lib.training.state import BatchSource
from transformer_lib.validation import as_path, check_type

__all__ = ["fit"]


def fit(
    model: nn.Module,
    batches: BatchSource,
    config: TrainConfig,
    *,
    validate: Validate | None = None,
    directory: str | Path | None = None,
    resume: bool | Literal["auto"] = "auto",
    settings: dict[str, Any] | None = None,
    progress: bool = True,
    prepare: Callable[[bool], None] | None = None,
) -> History:
    """Train a model on the device that it is on.

    Each update divides the summed loss by the number of tokens in all its batches. In a
    ``directory``, the run keeps ``log.jsonl``; ``checkpoint.pt``, to resume from; ``best.pt``, the
    model with the lowest validation loss; and, with ``keep_last``, the last models as
    ``step-….pt``. A run that was killed and resumed ends, on the same machine, with the same bits
    as one that wasn't.

    Under ``torchrun``, all processes call it with the same arguments, each with the model on its
    own :func:`~transformer_lib.training.distributed.local_device`. An update takes ``accumulate``
    batches per process; its gradient is what a single process would get from all of them. The first
    process writes the files, which all must be able to read. The number of processes may change
    when the run is resumed if ``accumulate`` times their number doesn't, but then the bits will
    differ. After ``parallel="fsdp"``, the model remains sharded: load a checkpoint into a new one.

    Args:
        model: called with all tensors of a batch but the last; returns logits ``(..., V)``.
        batches: see :class:`~transformer_lib.training.state.BatchSource`.
        config: the settings of the run.
        validate: called with the model, in evaluation mode and without gradients, and the number
            of completed epochs; returns what to log, such as ``{"loss": 1.2}``. The model with the
            lowest ``"loss"`` is the best.
        directory: where the run is kept; None keeps nothing.
        resume: True continues from the checkpoint, which must exist; ``"auto"`` continues if there
            is one; False starts over and replaces the run that was there.
        settings: more that identifies the run, besides the config, the model and the data: numbers
            and strings, by name.
        progress: show a progress bar on standard error.
        prepare: writes the caller's own files into ``directory``. Called once, in the first
            process, before the run's own files change; told whether the run is over already.

    Returns:
        All log entries of the run, including those before it was resumed.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: a checkpoint of a run with other settings, another model or other data; an epoch
            without batches; batches with other special ids than the model's.
        FileNotFoundError: ``resume=True`` and no checkpoint.
        FileExistsError: the directory holds files that this run would overwrite and that no run
            wrote.
        RuntimeError: another run is writing to the directory.
        FloatingPointError: the loss is no longer a number. The last checkpoint is from before.
        KeyboardInterrupt: Ctrl-C, after the step is finished and a checkpoint saved.
        SystemExit: SIGTERM, from a scheduler or ``torchrun``; handled like Ctrl-C.

    Note:
        Seeds ``torch`` and ``random`` with ``config.seed``. Parts of the model that are in
        evaluation mode stay in it, unless the whole model is. Afterwards, each module is back in
        the mode it was in.

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
    _check(model, batches, config, directory, resume)
    check_type("settings", settings, dict, optional=True)
    check_type("progress", progress, bool)
    for name, function in {"validate": validate, "prepare": prepare}.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    if validate is None and config.patience is not None:
        raise ValueError("validate must be given if patience is: it waits for a loss, got None")
    directory = None if directory is None else Path(directory)
    ranks = join(next((p.device for p in model.parameters()), torch.device("cpu")))
    with alone_in(directory if ranks.first else None), modes_kept(model):
        if not any(module.training for module in model.modules()):
            model.train()
        run = Session(
            model, batches, config, Folder(directory, ranks), resume, settings or {}, prepare
        )
        interrupts = Interrupts(together=ranks.size > 1)
        with interrupts, _bar(run, progress) as bar:
            _loop(run, validate, interrupts, bar)
    return run.log.history


def _loop(run: Session, validate: Validate | None, interrupts: Interrupts, bar: Any) -> None:
    groups = run.groups()
    while True:
        if run.log_is_due():
            bar.set_postfix(run.log_training(), refresh=False)
        if signum := max(run.ranks.gather(interrupts.pending)):
            run.save()
            stop(signum)
        if validate and run.validation_is_due():
            try:
                with interrupts.let_through():
                    metrics = run.measure(validate)
            except BaseException:
                if run.ranks.size == 1:  # the others may be fine, and wouldn't save
                    run.save()  # resumes with this validation
                raise
            run.record_validation(metrics)
        if run.checkpoint_is_due():
            run.save(keep=True)
        if run.is_over():
            return
        run.step(*next(groups))
        bar.update()


def _check(model: Any, batches: Any, config: Any, directory: Any, resume: Any) -> None:
    check_type("model", model, nn.Module)
    check_type("config", config, TrainConfig)
    if not callable(getattr(batches, "epoch", None)) or not hasattr(batches, "__len__"):
        raise TypeError(f"batches must have epoch() and a length, got {type(batches).__name__}")
    if directory is not None:
        as_path("directory", directory, "folder")
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
