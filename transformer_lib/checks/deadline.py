"""Stopping an answer that never ends, without signals: works in a notebook and in any thread."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

__all__ = ["StillRunning", "time_limit"]


_PATIENCE = 6  # how many times longer on the clock, where the processor is busy with other things


class StillRunning(BaseException):
    """Raised in the learner's code; no `except Exception` of theirs catches it."""


_ARMED: list[bool] = []  # while the main thread is in a block


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def _trap(_: Any) -> int:
    """Make the learner's functions that are running raise at their next line."""

    def stop(frame: FrameType, event: str, arg: Any) -> None:
        if event == "line":
            raise StillRunning

    def ours(frame: FrameType) -> bool:
        return frame.f_globals.get("__package__") == __package__

    frame = sys._getframe().f_back
    while _ARMED and frame and ours(frame):  # a print, or a model that a case hands over
        frame = frame.f_back
    while _ARMED and frame and not ours(frame):
        sys.settrace(stop)
        frame.f_trace = stop
        frame = frame.f_back
    return 0


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `StillRunning` in the block once it has run for `seconds` of the processor's time.

    A busy machine so gets no verdict of its own; what only waits is stopped after six times
    `seconds` on the clock.

    The code stays in its own thread, so that gradients, printing and the debugger work as ever;
    another thread throws the exception into it, at the next line of Python. One call into C that
    never returns is therefore not stopped. It throws until the block is left: a bare `except:`
    in an endless loop catches some. Python 3.10 only ever delivers them inside the `try:` of such
    a loop. In the main thread, tracing then raises one at the line of the `try:` itself.

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
    in_main, tracer = threading.current_thread() is threading.main_thread(), sys.gettrace()
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
            if in_main and len(thrown) > 20 and len(thrown) % 5 == 0:
                ctypes.pythonapi.Py_AddPendingCall(_trap, None)
            else:
                throw(target, ctypes.py_object(StillRunning))
            pause = 0.005
        over.append(True)
        ended.release()

    threading.Thread(target=watch, daemon=True).start()
    try:
        _ARMED.extend([True] * in_main)
        begun.release()
        yield
    finally:
        while True:
            try:
                _ARMED.clear()
                sys.settrace(tracer)
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
