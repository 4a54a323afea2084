"""Whether two runs are the same, bit by bit: for tests of what interrupts a run."""

from pathlib import Path
from typing import Any

from torch import Tensor

from transformer_lib.training import History, load_checkpoint

CLOCKS = ("seconds", "window_seconds", "tokens_per_second")


def without_clocks(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in entry.items() if k not in CLOCKS} for entry in entries]


def assert_same_run(folder: Path, expected: Path) -> None:
    for name in ("checkpoint.pt", "best.pt"):
        ours, theirs = load_checkpoint(folder / name), load_checkpoint(expected / name)
        for state in (ours, theirs):
            for clock in CLOCKS:
                state.get("progress", {}).pop(clock, None)
        assert_same_bits(ours, theirs)
    ours, theirs = (History.read(path / "log.jsonl") for path in (folder, expected))
    assert without_clocks(ours) == without_clocks(theirs)


def assert_same_bits(ours: Any, theirs: Any, place: str = "state") -> None:
    assert type(ours) is type(theirs), place
    if isinstance(ours, Tensor):
        assert ours.dtype == theirs.dtype and ours.equal(theirs), place
    elif isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), place
        for key in ours:
            assert_same_bits(ours[key], theirs[key], f"{place}[{key!r}]")
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs), place
        for i, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_same_bits(*pair, f"{place}[{i}]")
    else:
        assert ours == theirs, place
