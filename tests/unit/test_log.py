import os
from pathlib import Path

import pytest

from transformer_lib.training import History
from transformer_lib.training.log import RunLog

os.fsync = lambda file: None  # the disk isn't what is tested here


def test_a_column_is_ready_to_plot() -> None:
    history = History(
        [{"step": 3, "loss": 2.0}, {"step": 3, "val_loss": 1.0}, {"step": 6, "loss": 1}]
    )
    assert history.column("loss") == ([3, 6], [2.0, 1])
    assert history.column("bleu") == ([], [])


def test_a_log_cut_in_its_last_line_is_read_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes('{"step": 1, "loss": 2.0}\n{"step": 2, "stopped": "fünf'.encode()[:-3])
    assert History.read(path) == [{"step": 1, "loss": 2.0}]
    for broken, line in (('{"step": 1, "lo\n{"step": 2}\n', 1), ('{"step": 1}\n[2]\n', 2)):
        path.write_text(broken)
        with pytest.raises(ValueError, match=f"line {line}"):
            History.read(path)


def test_a_text_may_hold_any_character(tmp_path: Path) -> None:
    said = {"step": 1, "val_said": "a\u2028b\x85c\rd"}
    RunLog(tmp_path).add(said)
    assert History.read(tmp_path / "log.jsonl") == [said]


def test_entries_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 3}\n{"step": 6}\n{"step": 8}\n{"st')
    log = RunLog(tmp_path, until=6)
    log.add({"step": 7})
    assert log.history == History.read(path) == [{"step": 3}, {"step": 6}, {"step": 7}]
    assert RunLog(tmp_path).history == History.read(path) == []
