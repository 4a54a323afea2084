"""The shell's view: what is printed, what is left in the folder, what the exit code says."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import transformer_lib
from transformer_lib import recipes, runs
from transformer_lib.__main__ import main
from transformer_lib.data import Tokenizer, number_word_pairs
from transformer_lib.recipes import TASKS
from transformer_lib.training import History, load_checkpoint

TRAIN = ["train", "--task", "number-words", "--max-tokens", "600", "--threads", "1", "--quiet"]
FILES = {"best.pt", "checkpoint.pt", "config.json", "lock", "log.jsonl", "tokenizer.json"}


@pytest.fixture(scope="module")
def small_numbers():
    """Numbers below 300, of which 20 are held out: an epoch takes a second."""
    task = TASKS["number-words"]
    small = recipes.holding_out(20, lambda: number_word_pairs(0, 299))
    TASKS["number-words"] = replace(task, load=small)
    yield
    TASKS["number-words"] = task


@pytest.fixture(scope="module")
def folder(small_numbers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "numbers"
    assert main([*TRAIN, "--steps", "12", "--log-every", "5", "--output", str(folder)]) == 0
    return folder


def test_train_leaves_a_run_that_says_what_it_was(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    config = json.loads((folder / "config.json").read_text())
    assert (config["task"], config["preset"], config["max_tokens"]) == ("number-words", "tiny", 600)
    assert config["train"]["max_steps"] == 12 and config["train"]["epochs"] is None
    (session,) = config["sessions"]
    assert session["command"].startswith("python -m transformer_lib train --task number-words")
    assert session["versions"]["torch"] == torch.__version__
    assert session["hardware"] and session["started"]
    assert History.read(folder / "log.jsonl").column("loss")[0] == [5, 10, 12]


def test_evaluate(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    written = tmp_path / "hypotheses"
    arguments = ["evaluate", "--run", str(folder), "--limit", "7", "--write", str(written)]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "val, 7 sentences: exact_match 0.00 (percent)\n"
    assert len(written.read_text().splitlines()) == 7
    assert not (folder / "scores.json").exists()  # of a part


def test_evaluate_keeps_the_score_of_a_whole_split(folder: Path) -> None:
    assert main(["evaluate", "--run", str(folder)]) == 0
    assert main(["evaluate", "--run", str(folder), "--checkpoint", "last"]) == 0
    scores = json.loads((folder / "scores.json").read_text())
    assert scores == {
        "val": {
            "metric": "exact_match",
            "value": 0.0,
            "signature": "percent",
            "sentences": 20,
            "checkpoint": "last",
            "decoding": "greedy",
        }
    }


def test_translate_arguments_and_lines(
    folder: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["translate", "--run", str(folder), "forty-two", "seven"]) == 0
    by_argument = capsys.readouterr().out
    assert len(by_argument.splitlines()) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("forty-two\n\nseven\n"))
    assert main(["translate", "--run", str(folder), "--checkpoint", "last"]) == 0
    first, blank, second = capsys.readouterr().out.splitlines()
    assert (f"{first}\n{second}\n", blank) == (by_argument, "")


def test_the_same_command_goes_on(small_numbers, tmp_path: Path, capsys) -> None:
    short = [*TRAIN, "--steps", "3", "--output", str(tmp_path / "short")]
    assert main(short) == 0
    assert main([*short[:-4], "--steps", "5", *short[-2:]]) == 0
    assert "Going on with the run in" in capsys.readouterr().out
    assert main([*TRAIN, "--steps", "5", "--output", str(tmp_path / "whole")]) == 0
    parted, whole = (load_checkpoint(tmp_path / n / "checkpoint.pt") for n in ("short", "whole"))
    assert parted["progress"]["step"] == 5
    torch.testing.assert_close(parted["model"], whole["model"], rtol=0, atol=0)
    config = json.loads((tmp_path / "short" / "config.json").read_text())
    assert len(config["sessions"]) == 2 and config["train"]["max_steps"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--task", "copy"], "is of another run: its task is 'number-words', now it is 'copy'"),
        (["--max-tokens", "601"], "its max_tokens is 600, now it is 601"),
        (["--dropout", "0.2"], "its model.dropout is 0.0, now it is 0.2"),
        (["--lr", "0.1"], "its peak_lr is 0.002, now it is 0.1"),
        (["--seed", "1"], "its seed is 0, now it is 1"),
    ],
)
def test_another_run_is_refused_and_the_first_one_kept(
    folder: Path, change: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert main([*TRAIN, "--steps", "12", "--output", str(folder), *change]) == 1
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_restart_begins_anew(small_numbers, tmp_path: Path) -> None:
    arguments = [*TRAIN, "--steps", "2", "--output", str(tmp_path)]
    assert main(arguments) == 0
    assert main([*arguments, "--seed", "1", "--restart"]) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["train"]["seed"] == 1 and len(config["sessions"]) == 1


def test_ctrl_c_says_how_to_go_on(folder: Path, monkeypatch, capsys) -> None:
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "fit", interrupted)
    assert main([*TRAIN, "--steps", "12", "--output", str(folder)]) == 130
    assert "the same command goes on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--run", "nowhere", "one"], "nowhere holds no run"),
        (["evaluate", "--run", "FOLDER", "--split", "train"], "split must be one of val"),
        ([*TRAIN, "--vocab-size", "300"], "vocab_size must be left out"),
        ([*TRAIN, "--lr", "-1"], "peak_lr must be above 0, got -1.0"),
        ([*TRAIN, "--device", "abacus"], "abacus"),
    ],
)
def test_failures_are_one_line_and_exit_code_1(
    folder: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [str(folder) if word == "FOLDER" else word for word in arguments]
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert "Traceback" not in captured.err
    with pytest.raises(Exception, match=message):
        main([*arguments, "--debug"])


def test_a_damaged_run_says_which_file(folder: Path, tmp_path: Path, capsys) -> None:
    for name in ("best.pt", "tokenizer.json", "config.json"):
        for path in folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / name).write_bytes((folder / name).read_bytes()[:-20])
        assert main(["translate", "--run", str(tmp_path), "one"]) == 1
        assert str(tmp_path / name) in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["train"], ["train", "--task", "juggling"], [*TRAIN, "--epochs", "0"], ["translate"]],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_help_teaches() -> None:
    home = Path(transformer_lib.__file__).parents[1]
    shown = subprocess.run(
        [sys.executable, "-m", "transformer_lib", "train", "--help"],
        capture_output=True,
        text=True,
        cwd=home,
    )
    assert shown.returncode == 0
    for word in ("checkpoint.pt", "--score-every", "--restart", "(8000)"):
        assert word in shown.stdout


def test_bleu_is_cased_detokenized_and_signed() -> None:
    name, value, signature = recipes.bleu(["Ein Mann fährt Rad."], ["Ein Mann fährt Rad."])
    assert (name, round(value, 6)) == ("bleu", 100)
    assert "case:mixed" in signature and "tok:13a" in signature
    assert recipes.bleu(["ein mann fährt rad."], ["Ein Mann fährt Rad."])[1] < 60


def test_translate_keeps_the_order_of_the_sentences() -> None:
    class Echo(torch.nn.Module):
        """Says its source again, token by token."""

        def __init__(self) -> None:
            super().__init__()
            self.config = transformer_lib.ModelConfig(vocab_size=40, d_model=4, n_heads=1)
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def start(self, source):
            ended = torch.full((len(source), 1), self.config.eos_id)
            padded = torch.cat([source, ended], 1)
            return [padded.masked_fill(padded == 0, self.config.eos_id), 0]

        def step(self, tokens, state):
            logits = torch.nn.functional.one_hot(state[0][:, state[1]], 40).float()
            return logits, [state[0], state[1] + 1]

    tokenizer = Tokenizer.characters(["abcdefg"])
    sentences = ["abc", "g", "", "fedcba", "ab", " ga "]
    said = runs.translate(Echo(), tokenizer, sentences, batch_size=2)
    assert said == ["abc", "g", "", "fedcba", "ab", "ga"]
