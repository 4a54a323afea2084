"""Results of real runs: complete, readable from anywhere, and clear about where they come from."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from transformer_lib import ModelConfig, results
from transformer_lib.results import load_result, load_run
from transformer_lib.runs.run import write_score

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "results").glob("*.json"))
RUNS = [path.stem for path in FILES if "log" in json.loads(path.read_text("utf-8"))]


def test_every_result_says_how_to_repeat_it():
    for name in (path.stem for path in FILES if path.stem not in RUNS):
        found = load_result(name)
        (script,) = [word for word in found["command"].split() if word.endswith(".py")]
        assert (ROOT / script).is_file(), name
        assert found["what"] and found["versions"], name
    for run in map(load_run, RUNS):
        for session in run.settings["sessions"]:
            assert session["command"].startswith("python -m transformer_lib train "), run.name
            assert session["hardware"] and session["versions"]["torch"] and session["started"]
            assert len(session["commit"]) == 40, "trained from a commit, with nothing changed since"
        steps = [row["step"] for row in run.history]
        assert steps == sorted(steps) and run.history.column("val_loss")[0], run.name
        for score in run.scores.values():
            assert score["metric"] and score["signature"] and score["sentences"], run.name
        assert run.scores and run.settings["sessions"][0]["hardware"] in run.where()


def test_an_ablation_changes_one_thing():
    """Or two that belong together: a shorter warmup to a higher peak, and the same rate then."""
    for name in RUNS:
        if name.startswith("ablation-"):
            different = differences("multi30k-tiny-s0", name)
            assert len(different) == 1 or different == {"warmup", "peak_lr"}, name
    for seed in (0, 1, 2):
        different = differences(f"multi30k-tiny-s{seed}", f"multi30k-residual-s{seed}")
        assert different == {"model.attention_dropout", "model.activation_dropout"}


def differences(one, other):
    """The settings in which two runs differ, besides their length."""
    one, other = (flat(load_run(name).settings) for name in (one, other))
    lengths = {"epochs", "max_steps", "cooldown", "keep_last"}
    return {key for key in one.keys() - lengths if one[key] != other[key]}


def flat(settings):
    found = {name: value for name, value in settings.items() if not isinstance(value, dict | list)}
    model = asdict(ModelConfig(**settings["model"]))  # with what older runs left out
    return found | {f"model.{name}": value for name, value in model.items()} | settings["train"]


@pytest.mark.parametrize("name", ["multi30k-tiny", "multi30k-residual"])
def test_the_caption_of_the_recorded_runs_says_where_they_ran(name):
    chapter = json.loads((ROOT / "chapters" / "15_a_difference.ipynb").read_text(encoding="utf-8"))
    (cell,) = [cell for cell in chapter["cells"] if cell["id"] == "ledger-caption"]
    caption = "".join(cell["source"])
    for seed in (0, 1, 2):
        run = load_run(f"{name}-s{seed}")
        first, seconds = run.settings["sessions"][0], run.history[-1]["seconds"]
        assert first["hardware"] in caption and first["started"][:10] in caption
        assert re.search(rf"\b{seconds / 60:.0f}\b.* minutes", caption)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="multi30k-tiny-s0"):
        load_run("multi30k-huge")
    with pytest.raises(ValueError, match="multi30k-text"):
        load_result("multi30k-tiny-s0")  # a run


def test_a_new_score_joins_the_others(tmp_path):
    write_score(tmp_path, "val", {"metric": "bleu", "value": 1.0})
    write_score(tmp_path, "test", {"metric": "bleu", "value": 2.0})
    write_score(tmp_path, "val", {"metric": "bleu", "value": 3.0})
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert {split: score["value"] for split, score in scores.items()} == {"val": 3.0, "test": 2.0}


def test_scores_that_cannot_be_read_are_named(tmp_path):
    for content in ("{", "[]"):
        (tmp_path / "scores.json").write_text(content)
        with pytest.raises(ValueError, match=r"scores\.json is damaged"):
            write_score(tmp_path, "val", {"metric": "bleu", "value": 1.0})


def test_a_wheel_finds_its_results_inside_the_package(tmp_path, monkeypatch):
    inside = tmp_path / "site" / "published"
    inside.mkdir(parents=True)
    found = {"settings": {"task": "copy"}, "log": [{"step": 1, "loss": 2.0}], "scores": {}}
    (inside / "a-run.json").write_text(json.dumps(found))
    monkeypatch.setattr(results, "__file__", str(tmp_path / "site" / "results.py"))
    run = load_run("a-run")
    assert (run.settings["task"], run.history.column("loss")) == ("copy", ([1], [2.0]))
