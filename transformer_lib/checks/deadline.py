"""Stopping an answer that never ends, without signals: works in a notebook and in any thread."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["StillRunning", "time_limit"]


_PATIENCE = 6  # how many times longer on the clock, where the processor is busy with other things


class StillRunning(BaseException):
    """Raised in the learner's code; no `except Exception` of theirs catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `StillRunning` in the block once it has run for `seconds` of the processor's time.

    A busy machine so gets no verdict of its own; what only waits is stopped after six times
    `seconds` on the clock.

    The code stays in its own thread, so that gradients, printing and the debugger work as ever;
    another thread throws the exception into it, at the next line of Python. One call into C that
    never returns is therefore not stopped. It throws until the block is left: a bare `except:`
    in an endless loop catches some.

    >>> with time_limit(0.1):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    transformer_lib.checks.deadline.StillRunning
    """
    target = ctypes.c_ulong(threading.get_ident())
    throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
    # An exception may come between any two lines of what follows, in the midst of Event.set() or
    # Thread.join() too, and leave their locks held for ever. So: single calls into C, which it
    # cannot cut in two, and nothing that a second time would harm.
    begun, inside, ended = threading.Lock(), threading.Lock(), threading.Lock()
    begun.acquire()
    inside.acquire()
    ended.acquire()
    thrown: list[bool] = []
    over: list[bool] = []

    def watch() -> None:
        begun.acquire()  # thrown any sooner, it would miss the block that catches it
        clock, processor, pause = time.monotonic(), time.process_time(), seconds
        while not inside.acquire(timeout=pause):
            busy = time.process_time() - processor >= seconds
            if not (busy or time.monotonic() - clock >= _PATIENCE * seconds):
                pause = 0.1 * seconds
                continue
            thrown.append(True)
            throw(target, ctypes.py_object(StillRunning))
            pause = 0.005
        over.append(True)
        ended.release()

    threading.Thread(target=watch, daemon=True).start()
    try:
        begun.release()
        yield
    finally:
        while True:
            try:
                with suppress(RuntimeError):  # released already
                    inside.release()
                while not over:
                    ended.acquire(timeout=0.01)  # to be woken; that it is so, `over` says
                if not thrown:
                    break
                # One may be on its way. Taking it back (throwing NULL) leaves the interpreter
                # looking for it for ever; a last one takes its place, and is waited for.
                thrown.clear()
                throw(target, ctypes.py_object(StillRunning))
                while True:
                    pass
            except StillRunning:
                continue
