"""Runs, texts and scores from Python, above all the errors of bad calls."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from transformer_lib import ModelConfig, Transformer
from transformer_lib.data import Tokenizer
from transformer_lib.decoding import translate
from transformer_lib.runs import TASKS, Run, train
from transformer_lib.runs.run import _train_config
from transformer_lib.runs.tasks import make_batches
from transformer_lib.training import save_checkpoint

TOKENIZER = Tokenizer.characters(["ab"])
MODEL = Transformer(ModelConfig(vocab_size=9, d_model=4, n_heads=1, n_layers=1, d_ff=4, max_len=5))


def test_several_strings_are_not_one() -> None:
    with pytest.raises(TypeError, match="sentences must be several strings"):
        translate(MODEL, TOKENIZER, "a")


def test_a_task_or_preset_that_is_unknown_leaves_no_folder(tmp_path: Path) -> None:
    for wrong, message in (
        ({"task": "juggling"}, "task must be one of multi30k, .*; got 'juggling'"),
        ({"task": "copy", "preset": "huge"}, "preset must be one of tiny, base, big"),
    ):
        with pytest.raises(ValueError, match=message):
            train(tmp_path / "new", **wrong)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = {"task": "copy", "model": asdict(MODEL.config), "sessions": []}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    TOKENIZER.save(tmp_path / "tokenizer.json")
    (tmp_path / "words.txt").write_text("")
    save_checkpoint(tmp_path / "best.pt", {"model": MODEL.state_dict()})
    return tmp_path


def test_a_run_of_files(folder: Path) -> None:
    run = Run.load(folder, device="cpu")
    assert run.task == "copy" and not run.model.training
    torch.testing.assert_close(run.model.state_dict(), MODEL.state_dict(), rtol=0, atol=0)
    with pytest.raises(ValueError, match="checkpoint must be one of best, last, average"):
        Run.load(folder, checkpoint="worst")
    with pytest.raises(FileNotFoundError, match="has no models to average"):
        Run.load(folder, checkpoint="average")
    (folder / "best.pt").rename(folder / "checkpoint.pt")
    with pytest.raises(FileNotFoundError, match=r"no validation has finished.*--checkpoint last"):
        Run.load(folder, device="cpu")
    assert Run.load(folder, "last", "cpu").task == "copy"


def test_weights_of_another_version(folder: Path) -> None:
    state = MODEL.state_dict()
    state["embeddings"] = state.pop(next(iter(state)))
    save_checkpoint(folder / "best.pt", {"model": state})
    with pytest.raises(ValueError, match="another version of this library") as caught:
        Run.load(folder, device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", r"config\.json is damaged"),
        ('{"task": "copy"}', r"config\.json is damaged.* it has no 'model'"),
        ('{"task": "copy", "model": {"vocab_size": 9, "legs": 4}}', r"config\.json is damaged"),
        ('{"task": "juggling", "model": {}}', "got 'juggling'"),
    ],
)
def test_settings_that_cannot_be_read(folder: Path, content: str, message: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Run.load(folder, device="cpu")


def test_each_text_and_its_end_must_fit_the_model() -> None:
    for pair, room in ((("aaaa", "a"), 4), (("a", "aaaa"), 5)):  # the end token is a target, too
        make_batches(TASKS["copy"], TOKENIZER, [pair], max_len=room, batch_size=1)
        with pytest.raises(ValueError, match=f"max_len must be at least {room}, the tokens of tex"):
            make_batches(TASKS["copy"], TOKENIZER, [pair], max_len=room - 1, batch_size=1)


def test_the_given_steps_replace_the_epochs_of_the_task() -> None:
    task = TASKS["copy"]
    for changes, epochs in (({"max_steps": 3}, None), ({"max_steps": None}, task.train["epochs"])):
        assert _train_config(task, changes).epochs == epochs
