"""Memory that a training step frees, kept for the next one."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # the names of glibc's malloc.h


def keep_freed_memory() -> bool:
    """Tell the C library not to give freed memory back to the system.

    On a CPU each step frees hundreds of megabytes and asks for the same again. glibc gives
    large blocks back at once, and the system hands them out again page by page, filled with
    zeros: a third of a step. The process keeps, from here on, the most it ever needed.

    Returns:
        whether there was a glibc to tell: on Linux yes, elsewhere nothing is changed.

    Source:
        ``man 3 mallopt``.

    Example:
        >>> keep_freed_memory() in (True, False)
        True
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return False
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
