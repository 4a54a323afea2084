"""A fresh kernel's settings for the time of a check; the reader's session gets its own back."""

import builtins
import contextlib
import io
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from transformer_lib.checks.exercise import Flaw

__all__ = ["Printed", "session"]


class Printed(io.StringIO):
    """Keeps the beginning of what is printed, whatever becomes of it."""

    def write(self, text: str) -> int:
        return super().write(text) if self.tell() < 5000 else len(text)

    def close(self) -> None:  # what an answer may do with `sys.stdout`
        pass


@contextlib.contextmanager
def session(seed: int) -> Iterator[Printed]:
    """Random numbers from `seed`, gradients on, float32, the CPU; nothing reaches the notebook."""
    numpy = sys.modules.get("numpy")  # an answer that hasn't imported it draws nothing from it
    drawn, python = torch.get_rng_state(), random.getstate()
    array = numpy.random.get_state() if numpy else None
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    printed = Printed()
    with contextlib.ExitStack() as stack:
        for block in (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            mock.patch.object(builtins, "input", _nobody_answers),
            mock.patch.object(sys, "stdin", io.StringIO()),  # exit() closes it
            *([] if device.type == "cpu" else [torch.device("cpu")]),  # it slows every call down
            *_ends_nothing(),
        ):
            stack.enter_context(block)
        warnings.simplefilter("ignore")
        torch.set_default_dtype(torch.float32)
        torch.default_generator.manual_seed(seed)  # the CPU's alone: exercises run there
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed)
        try:
            yield printed
        finally:
            torch.set_rng_state(drawn)
            random.setstate(python)
            if numpy:
                numpy.random.set_state(array)
            torch.set_default_dtype(dtype)


def _nobody_answers(*_: Any) -> str:
    raise Flaw("It calls `input()`, and nobody is there to answer: use the arguments.")


def _ends_nothing() -> Iterator[Any]:
    """In a notebook, `exit()` asks the shell to end, which would take the kernel along."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        yield mock.patch.object(shell, "ask_exit", mock.Mock(side_effect=SystemExit))
