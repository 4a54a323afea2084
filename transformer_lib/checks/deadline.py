"""Stopping an answer that never ends, on every system, without another process."""

import _thread
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["StillRunning", "limited"]


_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


class StillRunning(BaseException):
    """Raised in the learner's code; no `except Exception` of theirs catches it."""


def _raise(frame: FrameType, event: str, arg: Any) -> None:
    if event == "line":
        raise StillRunning


def _is_theirs(frame: FrameType) -> bool:
    """Whether it is the learner's: no print or model of a case, nothing that cleans up for them."""
    ours = frame.f_globals.get("__package__") == __package__
    return not (ours or frame.f_code.co_filename.startswith(_LIBRARIES))


def limited(seconds: float, function: Callable[[], None]) -> None:
    """Call `function`, and raise `StillRunning` in what it runs after `seconds` of processor time.

    A busy machine so gets no verdict of its own; what only waits is stopped after twice `seconds`
    on the clock. One call into C that never returns is not stopped, and in a thread other than the
    main one, which alone can be interrupted, nothing is. A thread interrupts it as Ctrl-C does,
    again and again: a bare `except:` in an endless loop catches some. So tracing raises one at the
    line of the `try:` itself.

    Raises:
        KeyboardInterrupt: the reader has pressed Ctrl-C, even if the answer has caught that.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    main, over, ended = threading.get_ident(), threading.Event(), threading.Event()
    leaving: list[bool] = []
    pressed: list[bool] = []
    tries: list[bool] = []
    before, tracer, here = signal.getsignal(signal.SIGINT), sys.gettrace(), sys._getframe()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if not over.is_set():
            pressed.append(True)
            if not leaving:
                raise KeyboardInterrupt
        innermost, theirs = frame, []
        while frame and frame is not here:
            if _is_theirs(frame):
                theirs.append(frame)
            frame = frame.f_back
        if theirs and not leaving:
            sys.settrace(_raise)
            for each in theirs:
                each.f_trace = _raise
            tries.append(True)
            if theirs[0] is innermost or len(tries) > 200:  # a library may wait for ever
                raise StillRunning

    def watch() -> None:
        clock, processor = time.monotonic(), time.process_time()
        while not ended.wait(0.005 if over.is_set() else 0.05 * seconds):
            waited, worked = time.monotonic() - clock, time.process_time() - processor
            if worked >= seconds or waited >= 2 * seconds:
                over.set()
                if hasattr(signal, "pthread_kill"):  # it wakes what sleeps, too
                    signal.pthread_kill(main, signal.SIGINT)
                else:
                    _thread.interrupt_main()

    watcher = threading.Thread(target=watch, daemon=True)
    signal.signal(signal.SIGINT, interrupted)
    try:
        watcher.start()
        function()
    finally:
        leaving.append(True)  # from here on, nothing is raised
        ended.set()
        watcher.join()
        signal.signal(signal.SIGINT, before)
        sys.settrace(tracer)
    if pressed:
        raise KeyboardInterrupt
