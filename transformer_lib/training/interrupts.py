"""Ctrl-C between two steps, never inside one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupts"]


class Interrupts:
    """Holds a Ctrl-C back until the caller asks for it.

    A ``KeyboardInterrupt`` in the middle of an optimizer step leaves half of the parameters
    updated, and nothing to resume from. A second Ctrl-C is not held back. Outside the main
    thread, and where Ctrl-C is ignored (``nohup``, a job in the background), nothing is changed.

    Example:
        >>> _ = signal.signal(signal.SIGINT, signal.default_int_handler)
        >>> try:
        ...     with Interrupts():
        ...         signal.raise_signal(signal.SIGINT)  # Ctrl-C
        ...         print("The step goes on to its end.")
        ... except KeyboardInterrupt:
        ...     print("Stopped.")
        The step goes on to its end.
        Stopped.
    """

    def __init__(self) -> None:
        self.pending = False
        self._held = True
        self._previous = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread() and callable(
            signal.getsignal(signal.SIGINT)
        ):
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if self.pending and kind is None:
            raise KeyboardInterrupt  # nobody asked: do not swallow it

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """A stretch in which Ctrl-C interrupts at once, because no state is changing."""
        self._held = False
        try:
            if self.pending:
                raise KeyboardInterrupt
            yield
        finally:
            self._held = True

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.pending or not self._held:
            raise KeyboardInterrupt
        self.pending = True
