"""Records of real runs: complete, readable from anywhere, honest about where they ran."""

import json
import re
from pathlib import Path

import pytest

from transformer_lib import results
from transformer_lib.results import measured, record_score, recorded
from transformer_lib.run_folder import identity

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.parent.name for path in results._folder().glob("*/config.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_how_to_repeat_it(name):
    record = recorded(name)
    for session in record.settings["sessions"]:
        assert session["command"].startswith("python -m transformer_lib train ")
        assert f"--task {record.settings['task']}" in session["command"]
        assert session["hardware"] and session["versions"]["torch"] and session["started"]
        assert len(session["commit"]) == 40, "trained from a commit, with nothing changed since"
    seed = record.settings["train"]["seed"]
    assert seed == 0 or f"--seed {seed}" in record.settings["sessions"][-1]["command"]


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_whole(name):
    record = recorded(name)
    steps = [entry["step"] for entry in record.history]
    assert steps == sorted(steps)
    assert record.history.column("loss")[0] and record.history.column("val_loss")[0]
    assert record.scores, "evaluated"
    for score in record.scores.values():
        assert score["metric"] and score["signature"] and score["sentences"]
    first = record.settings["sessions"][0]
    assert first["hardware"] in record.where() and first["started"][:10] in record.where()


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("ablation-")])
def test_an_ablation_changes_one_thing(name):
    """Or two that belong together: a shorter climb to a higher peak, and the same rate after it."""
    different = differences("multi30k-tiny-s0", name)
    assert len(different) == 1 or different == {"warmup", "peak_lr"}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_sets_of_runs_differ_in_where_they_drop_numbers_alone(seed):
    different = differences(f"multi30k-tiny-s{seed}", f"multi30k-residual-s{seed}")
    assert different == {"model.attention_dropout", "model.activation_dropout"}


def differences(one, other):
    """The settings in which two runs differ, but for how long they were."""
    one, other = (identity(recorded(name).settings, 1) for name in (one, other))
    return {key for key in one if one[key] != other[key]}


def test_the_searches_of_a_record_say_how_to_repeat_them():
    record = recorded("multi30k-tiny-s0")
    found = record.searches
    assert found["command"].startswith("python tests/bench/beams.py ") and found["hardware"]
    assert found["split"] == "val", "the test split is not for choosing"
    assert len(found["commit"]) == 40 and found["versions"]["torch"] and found["words"]
    greedy, *beams = found["searches"]
    assert greedy["value"] == pytest.approx(record.scores["val"]["value"])
    for beam in beams:
        assert beam["signature"] == record.scores["val"]["signature"] and beam["seconds"] > 0
        if beam["beam_size"] == 1:
            assert beam["value"] == greedy["value"]


@pytest.mark.parametrize(
    "page, id_, name",
    [
        ("13_training", "draw-the-record", "multi30k-tiny"),
        ("15_a_difference", "ledger", "multi30k-tiny"),
        ("15_a_difference", "ledger", "multi30k-residual"),
    ],
)
def test_the_caption_of_the_recorded_runs_says_where_they_ran(page, id_, name):
    chapter = json.loads((ROOT / "chapters" / f"{page}.ipynb").read_text(encoding="utf-8"))
    (cell,) = [cell for cell in chapter["cells"] if cell["id"] == f"{id_}-caption"]
    caption = "".join(cell["source"])
    for seed in (0, 1, 2):
        record = recorded(f"{name}-s{seed}")
        first, seconds = record.settings["sessions"][0], record.history[-1]["seconds"]
        assert first["hardware"] in caption and first["started"][:10] in caption
        assert re.search(rf"\b{seconds / 60:.0f}\b.* minutes", caption)


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(ValueError, match="multi30k-tiny-s0"):
        recorded("multi30k-huge")


def test_what_was_measured_says_how_to_repeat_it():
    for path in results._folder().glob("*/measured.json"):
        found = measured(path.parent.name)
        (script,) = [word for word in found["command"].split() if word.endswith(".py")]
        assert (ROOT / script).is_file()
        assert found["what"] and found["versions"]
    with pytest.raises(ValueError, match="multi30k-text"):
        measured("multi30k-tiny-s0")


def test_a_new_score_joins_the_others(tmp_path):
    record_score(tmp_path, "val", {"metric": "bleu", "value": 1.0})
    record_score(tmp_path, "test", {"metric": "bleu", "value": 2.0})
    record_score(tmp_path, "val", {"metric": "bleu", "value": 3.0})
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert {split: score["value"] for split, score in scores.items()} == {"val": 3.0, "test": 2.0}


def test_scores_that_cannot_be_read_are_named(tmp_path):
    for content in ("{", "[]"):
        (tmp_path / "scores.json").write_text(content)
        with pytest.raises(ValueError, match=r"scores\.json is damaged"):
            record_score(tmp_path, "val", {"metric": "bleu", "value": 1.0})


def test_a_wheel_finds_its_records_inside_the_package(tmp_path, monkeypatch):
    inside = tmp_path / "site" / "recorded" / "a-run"
    inside.mkdir(parents=True)
    (inside / "config.json").write_text('{"task": "copy"}')
    (inside / "log.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    monkeypatch.setattr(results, "__file__", str(tmp_path / "site" / "results.py"))
    record = recorded("a-run")
    assert (record.settings["task"], record.history.column("loss")) == ("copy", ([1], [2.0]))
