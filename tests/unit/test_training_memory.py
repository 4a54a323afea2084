"""Freed memory is kept, and the system is not asked again."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

import transformer_lib.training.memory as memory

COUNT_FAULTS = """
import resource, sys
from runpy import run_path
if sys.argv[1] == "keep":
    assert run_path(sys.argv[2])["keep_freed_memory"]()
faults = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = bytearray(100 * 2**20)
    del block
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(faults[-1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_block_that_was_freed_is_not_fetched_again() -> None:
    def faults(mode: str) -> int:
        command = [sys.executable, "-c", COUNT_FAULTS, mode, str(Path(memory.__file__))]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    given_back, kept = faults("give back"), faults("keep")
    assert given_back > 0
    assert kept < given_back / 10


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch, error: type) -> None:
    def no_library(name: object) -> None:
        raise error

    monkeypatch.setattr(memory.ctypes, "CDLL", no_library)
    assert memory.keep_freed_memory() is False
