"""Ctrl-C and SIGTERM take effect between two steps, never inside one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Interrupts", "stop"]


def stop(signum: int) -> None:
    """Raise the exception of a signal: KeyboardInterrupt for Ctrl-C, else SystemExit."""
    if signum == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + signum)


class Interrupts:
    """Hold back a Ctrl-C, or the SIGTERM of a scheduler, until the caller asks for it.

    A ``KeyboardInterrupt`` in an optimizer step would leave half of the parameters updated. A
    second Ctrl-C isn't held back. Outside the main thread, and where Ctrl-C is ignored (``nohup``,
    a background job), nothing changes.

    Args:
        together: hold back every signal, always: one of several processes can't stop alone.
    """

    def __init__(self, together: bool = False) -> None:
        self.together = together
        self.pending = 0  # the number of the signal that waits
        self._held = True
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(signum)
                if before not in (signal.SIG_IGN, None):  # None: not Python's
                    self._previous[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for signum, before in self._previous.items():
            signal.signal(signum, before)
        if self.pending and kind is None:
            stop(self.pending)  # the caller never asked

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Let Ctrl-C interrupt the block at once, because no state is changing in it."""
        self._held = self.together
        try:
            if self.pending and not self._held:
                stop(self.pending)
            yield
        finally:
            self._held = True

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if not self.together and (self.pending or not self._held):
            stop(signum)
        self.pending = signum
