"""The command line: what it prints, what it leaves in the folder, and its exit codes."""

import io
import json
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

import transformer_lib
from transformer_lib.config import SpecialIds
from transformer_lib.data import number_word_pairs, shakespeare
from transformer_lib.decoding import text as text_module
from transformer_lib.runs import TASKS, Run, batches, tasks
from transformer_lib.runs import run as run_module
from transformer_lib.runs.cli import InTurn, _search, keep_freed_memory, main
from transformer_lib.runs.parser import parse
from transformer_lib.training import History, average_checkpoints, load_checkpoint
from transformer_lib.training.folder import alone_in

TRAIN = ["train", "--task", "number-words", "--max-tokens", "600", "--threads", "1", "--quiet"]
LINES = ["train", "--task", "number-lines", "--max-tokens", "600", "--threads", "1", "--quiet"]
FILES = {"best.pt", "checkpoint.pt", "config.json", "lock", "log.jsonl", "tokenizer.json"}
FILES |= {"words.txt"}


@pytest.fixture(scope="module")
def small_numbers():
    """Numbers below 300, of which 20 are held out: an epoch takes a second."""
    task = TASKS["number-words"]
    small = tasks.holding_out(20, lambda: number_word_pairs(0, 299))
    lines = TASKS["number-lines"]
    TASKS["number-words"] = replace(task, load=small)
    TASKS["number-lines"] = replace(
        lines, load=lambda split: [(f"{en} =", f" {len(de)}") for en, de in small(split)]
    )
    yield
    TASKS["number-words"], TASKS["number-lines"] = task, lines


@pytest.fixture(scope="module")
def folder(small_numbers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "numbers"
    assert main([*TRAIN, "--steps", "12", "--log-every", "5", "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def lines(small_numbers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, and the models of its last checkpoints."""
    folder = tmp_path_factory.mktemp("runs") / "lines"
    every = ["--checkpoint-every", "2", "--keep-last", "3", "--set", "positions=rotary"]
    assert main([*LINES, "--steps", "8", "--output", str(folder), *every]) == 0
    return folder


def test_train_says_how_long_it_will_take(small_numbers, tmp_path: Path, capsys) -> None:
    assert main([*TRAIN, "--steps", "14", "--output", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    said = r"^About 0:00:\d\d to go: 3 steps of \S+ s each, plus validation\.$"
    assert re.search(said, out, re.MULTILINE) and err == ""


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


@pytest.mark.parametrize("run", ["folder", "lines"])
def test_evaluate(run: str, request, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder, written = request.getfixturevalue(run), tmp_path / "answers"
    arguments = ["evaluate", "--run", str(folder), "--limit", "7", "--write", str(written)]
    assert main(arguments) == 0
    assert capsys.readouterr().out.endswith("val, 7 texts: exact_match 0.00 (percent)\n")
    assert len(written.read_text().splitlines()) == 7
    assert not (folder / "scores.json").exists()  # only 7 of 20


def test_evaluate_refuses_before_it_decodes(folder: Path, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Run, "score", lambda *_, **__: pytest.fail("it decoded"))
    evaluate = ["evaluate", "--run", str(folder)]
    assert main([*evaluate, "--write", str(tmp_path)]) == 1
    assert f"{tmp_path} exists already" in capsys.readouterr().err
    assert main([*evaluate, "--against", str(folder)]) == 1
    said = "--against compares BLEU, but number-words is scored by exact_match"
    assert said in capsys.readouterr().err


def test_a_score_that_cannot_be_recorded_is_printed(folder: Path, tmp_path, capsys) -> None:
    run, written = tmp_path / "run", tmp_path / "written"
    shutil.copytree(folder, run)
    (run / "scores.json").write_text("{")
    assert main(["evaluate", "--run", str(run), "--write", str(written)]) == 1
    out, err = capsys.readouterr()
    assert out == "val, 20 texts: exact_match 0.00 (percent)\n"
    assert err.startswith(f"error: {run / 'scores.json'} is damaged: ")
    assert len(written.read_text().splitlines()) == 20


def test_evaluate_keeps_the_scores_of_a_whole_split(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    beam = ["--beam", "2"]
    early = [*beam, "--length-penalty", "3", "--early-stopping"]
    for options in ([], ["--checkpoint", "last"], beam, early):
        assert main(["evaluate", "--run", str(tmp_path / "run"), *options]) == 0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    score = {"metric": "exact_match", "value": 0.0, "signature": "percent", "sentences": 20}
    assert scores.pop("val") == score | {"checkpoint": "best", "decoding": "greedy"}
    assert scores.pop("val, last") == score | {"checkpoint": "last", "decoding": "greedy"}
    searches = ["beam 2, length penalty 0.6", "beam 2, length penalty 3, early stopping"]
    assert [kept["decoding"] for kept in scores.values()] == searches
    assert list(scores) == [f"val, {search}" for search in searches]


def test_translate_arguments_and_lines(
    folder: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["translate", "--run", str(folder), "forty-two", "seven"]) == 0
    by_argument = capsys.readouterr().out
    assert len(by_argument.splitlines()) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffforty-two\n\nseven\n"))
    assert main(["translate", "--run", str(folder), "--checkpoint", "last"]) == 0
    out, err = capsys.readouterr()
    first, blank, second = out.splitlines()
    assert (f"{first}\n{second}\n", blank, err) == (by_argument, "", "")  # no byte order mark


@pytest.mark.parametrize("command", ["translate", "generate"])
def test_a_line_that_cannot_be_read_is_named_and_those_before_it_are_answered(
    command: str, folder: Path, lines: Path, capsys, monkeypatch
) -> None:
    run = ["--run", str(folder if command == "translate" else lines)]
    lines_before = "one\n" * 258  # more than are read at once
    long = "one " * 600
    for options, bad, message in (
        ([], long, r"line 259 has 1,\d+ tokens, and the model reads at most 51\d; it begins"),
        ([], "one\udcff", "line 259 is not valid UTF-8; it begins 'one"),
        (["--strict"], "banana", "line 259 has words never seen in training: banana"),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{lines_before}{bad}\none\n"))
        short = ["--max-tokens", "1"] if command == "generate" else []
        assert main([command, *run, *options, *short]) == 1
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 258
        assert re.search(message, err)
    assert main([command, *run, "one", long]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 and "text 2 has" in err


def test_translate_with_a_beam(folder: Path, capsys: pytest.CaptureFixture) -> None:
    def said(*options: str) -> list[str]:
        arguments = ["translate", "--run", str(folder), *options, "forty-two", "", "seven"]
        assert main(arguments) == 0
        return capsys.readouterr().out.splitlines()

    assert said("--beam", "1") == said()
    best, blank, last = said("--beam", "3", "--length-penalty", "0")
    rows = [
        line.split("\t") for line in said("--beam", "3", "--length-penalty", "0", "--n-best", "2")
    ]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert [rows[i][2] for i in (0, 2, 3)] == [best, blank, last]
    assert float(rows[0][1]) >= float(rows[1][1])
    divided = said("--beam", "3", "--length-penalty", "2", "--n-best", "2")
    assert divided[0].split("\t")[1] != rows[0][1]


@pytest.mark.parametrize(("asked", "text"), [([], [4, 4, 4, 2]), (["--early-stopping"], [4, 2])])
def test_a_beam_search_goes_on_after_the_first_ends_unless_asked(asked, text: list[int]) -> None:
    args = parse(["evaluate", "--run", "x", "--beam", "2", *asked])

    class Model:
        """Ends with probability 0.1 after each token, and surely after the third."""

        at, config = 0, SpecialIds()

        def start(self, source):
            return self

        def reorder(self, index):
            self.at += 1

        def step(self, tokens, state):
            likely = [0.0, 0.0, 0.1, 0.0, 0.9] if self.at < 3 else [0.0, 0.0, 1.0, 0.0, 0.0]
            return torch.tensor([likely] * len(tokens)).log(), state

    (found,) = _search(args)(Model(), torch.tensor([[4]]), max_len=9).best.ids.tolist()
    assert found[: len(text)] == text


def test_runs_decide_together(folder: Path, tmp_path: Path, capsys) -> None:
    others = [tmp_path / "a", tmp_path / "b"]
    for other in others:
        shutil.copytree(folder, other)
        (other / "scores.json").unlink(missing_ok=True)
    runs = [word for other in others for word in ("--run", str(other))]
    assert main(["evaluate", *runs]) == 0
    assert list(json.loads((others[0] / "scores.json").read_text())) == ["val, with b"]
    assert not (others[1] / "scores.json").exists()
    capsys.readouterr()
    assert main(["translate", *runs, "forty-two"]) == 0
    together = capsys.readouterr().out
    assert main(["translate", "--run", str(folder), "forty-two"]) == 0
    assert together == capsys.readouterr().out  # two copies of one model
    # Another vocabulary: the ids would mean other pieces.
    tokenizer = json.loads((others[1] / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    (others[1] / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert main(["evaluate", *runs]) == 1
    assert "must have the same task and vocabulary" in capsys.readouterr().err


def test_generate(lines: Path, capsys: pytest.CaptureFixture, monkeypatch) -> None:
    def said(*options: str) -> list[str]:
        assert main(["generate", "--run", str(lines), "--max-tokens", "5", *options]) == 0
        return capsys.readouterr().out.splitlines()

    first, second = said("forty-two =", "seven")
    assert first.startswith("forty-two =") and second.startswith("seven")
    assert said("seven", "forty-two =") == [second, first]
    assert said("seven ")[0].startswith("seven ")
    monkeypatch.setattr("sys.stdin", io.StringIO("seven\n\nforty-two =\n"))
    assert said()[::2] == [second, first]
    draw = ["--temperature", "3", "--samples", "4"]
    drawn = said(*draw, "seven", "one hundred")
    assert [text.startswith("seven") for text in drawn] == [True] * 4 + [False] * 4
    assert len(set(drawn)) > 4
    assert drawn == said(*draw, "seven", "one hundred")
    assert drawn != said(*draw, "--seed", "1", "seven", "one hundred")
    assert said("--top-k", "1", "seven") == [second] == said("--top-p", "1e-6", "seven")


def test_generate_prints_as_it_goes_and_stops(lines: Path, capsys, monkeypatch) -> None:
    told: list[tuple[int, str, bool]] = []
    show = InTurn.show

    def noted(self, *new: Any) -> None:
        told.append(new)
        show(self, *new)

    monkeypatch.setattr(InTurn, "show", noted)
    generate = ["generate", "--run", str(lines), "--max-tokens", "9", "--temperature", "2"]
    assert main([*generate, "seven", "six"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert len(told) > 6  # piece by piece
    for number, prompt, line in ((0, "seven", first), (1, "six", second)):
        assert prompt + "".join(new for i, new, _ in told if i == number) == line
    letters = [letter for letter in first[5:] if first[5:].count(letter) == 1]
    stop = next(letter for letter in letters if first.index(letter, 5) > 5)
    assert main([*generate, "--stop", stop, "--stop", "zzz", "seven", "six"]) == 0
    cut = capsys.readouterr().out.splitlines()
    assert cut[0] == first[: first.index(stop, 5)]
    assert cut[1] == second[: second.find(stop, 3) if stop in second[3:] else None]


def test_texts_that_grow_side_by_side_are_printed_in_turn(capsys) -> None:
    shown = InTurn(["a", "b", "c"])

    def printed(*new: Any) -> str:
        shown.show(*new)
        return capsys.readouterr().out

    assert printed(1, "1", False) == "a"
    assert printed(0, "0", False) == "0"
    assert printed(2, "2", True) == ""
    assert printed(0, "", True) == "\nb1"
    assert printed(1, "3", False) == "3"
    assert printed(1, "", True) == "\nc2\n"


def test_words_that_the_model_never_saw_are_listed(folder: Path, lines: Path, tmp_path, capsys):
    """Even if each of their letters is known."""
    for command, run, known in (("translate", folder, "forty-two"), ("generate", lines, "one =")):
        asked = [command, "--run", str(run), f"{known} banana Seven banana", known]
        assert main(asked) == 0
        out, err = capsys.readouterr()
        assert err == "never seen in training: banana, Seven\n"
        assert len(out.splitlines()) == 2
        assert main([*asked, "--strict"]) == 1
        assert capsys.readouterr() == (
            "",
            "error: text 1 has words never seen in training: banana, Seven\n",
        )
        assert main([command, "--run", str(run), "--strict", known]) == 0
        assert capsys.readouterr().err == ""
    assert main(["translate", "--run", str(folder), "one \u200b"]) == 0
    assert capsys.readouterr().err == "never seen in training: '\\u200b'\n"
    for path in folder.iterdir():  # as older versions left it
        if path.name != "words.txt":
            shutil.copy(path, tmp_path)
    assert main(["translate", "--run", str(tmp_path), "banana"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["translate", "--run", str(tmp_path), "--strict", "one"]) == 1
    assert "--strict needs a run with a words.txt" in capsys.readouterr().err


def test_the_kept_models_are_averaged(lines: Path, tmp_path: Path) -> None:
    kept = sorted(lines.glob("step-*.pt"))
    assert [int(path.stem.removeprefix("step-")) for path in kept] == [4, 6, 8]
    average = Run.load(lines, "average").model.state_dict()
    torch.testing.assert_close(dict(average), average_checkpoints(kept), rtol=0, atol=0)
    shutil.copytree(lines, tmp_path / "run")
    assert main(["evaluate", "--run", str(tmp_path / "run"), "--checkpoint", "average"]) == 0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["val, average"]["checkpoint"] == "average"


def test_captions_are_scored_by_perplexity(tmp_path: Path, monkeypatch, capsys) -> None:
    captions = [("", f"a {size} dog runs") for size in ("big", "small", "brown", "tall")]
    monkeypatch.setitem(TASKS, "captions", replace(TASKS["captions"], load=lambda split: captions))
    arguments = ["train", "--task", "captions", "--steps", "2", "--vocab-size", "262"]
    sizes = ["--set", "d_model=16", "--set", "n_layers=1", "--threads", "1"]
    run = str(tmp_path / "run")
    assert main([*arguments, *sizes, "--quiet", "--output", run]) == 0
    assert main(["evaluate", "--run", run]) == 0
    score = json.loads((tmp_path / "run" / "scores.json").read_text())["val"]
    assert score["metric"] == "perplexity" and score["decoding"] is None
    assert score["signature"] == "per token, 262 pieces" and score["sentences"] == 4
    _, losses = History.read(tmp_path / "run" / "log.jsonl").column("val_perplexity")
    assert score["value"] == pytest.approx(min(losses))
    capsys.readouterr()
    assert main(["evaluate", "--run", run, "--beam", "2"]) == 1
    assert "scored by perplexity" in capsys.readouterr().err
    assert main(["generate", "--run", run, "--max-tokens", "3", "a big"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("a big") and err == ""  # both words were read


def test_shakespeare_is_scored_per_character(tmp_path: Path, monkeypatch, capsys) -> None:
    task = TASKS["shakespeare"]
    assert "".join(text for _, text in task.load("val")) == shakespeare.load("val")
    monkeypatch.setitem(TASKS, "shakespeare", replace(task, load=lambda s: task.load(s)[:40]))
    sizes = "--set d_model=16 --set n_layers=1 --set max_len=50 --threads 1 --warmup 5 --quiet"
    run = str(tmp_path / "run")
    train = ["train", "--task", "shakespeare", *sizes.split(), "--output", run]
    assert main([*train, "--steps", "30"]) == 0
    assert main(["evaluate", "--run", run]) == 0
    score = json.loads((tmp_path / "run" / "scores.json").read_text())["val"]
    assert score["metric"] == "nats_per_character" and score["sentences"] == 40
    kept = Run.load(run)
    ids = kept.tokenizer.encode("".join(text for _, text in task.load("val")[:40]))
    nats = 0.0  # window by window, character by character
    for start in range(0, len(ids), 50):
        window = ids[start : start + 50]
        log_p = kept.model(torch.tensor([[1, *window[:-1]]]))[0].log_softmax(-1)
        nats -= log_p[range(len(window)), window].sum().item()
    assert score["value"] == pytest.approx(nats / len(ids), rel=1e-5)
    assert score["value"] < math.log(60)  # it has learned something
    (said,) = re.findall(r"^(.+) bits, perplexity (.+), in windows of 50$", score["signature"])
    assert float(said[0]) == pytest.approx(score["value"] / math.log(2), abs=1e-3)
    assert float(said[1]) == pytest.approx(math.exp(score["value"]), rel=1e-3)
    capsys.readouterr()
    draw = ["--max-tokens", "20", "--temperature", "0.8", "--seed", "1"]
    assert main(["generate", "--run", run, *draw, "MARCIUS:"]) == 0
    assert capsys.readouterr().out.startswith("MARCIUS:")
    assert main([*train, "--steps", "40"]) == 0  # resumes
    assert History.read(tmp_path / "run" / "log.jsonl")[-1]["step"] == 40


def test_any_setting_can_be_set(small_numbers, tmp_path: Path) -> None:
    settings = ["n_layers=1", "positions=alibi", "clip_norm=None", "betas=(0.9, 0.95)", "norm=rms"]
    wanted = [word for setting in settings for word in ("--set", setting)]
    arguments = [*TRAIN, "--steps", "1", "--patience", "3", *wanted, "--output", str(tmp_path)]
    assert main(arguments) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    model, training = config["model"], config["train"]
    assert (model["n_layers"], model["positions"], model["norm"]) == (1, "alibi", "rms")
    assert (training["clip_norm"], training["betas"]) == (None, [0.9, 0.95])
    assert training["patience"] == 3 and training["max_steps"] == 1
    assert main(arguments) == 0  # resumes: nothing is left to train
    assert main([*arguments, "--set", "positions=none"]) == 1


def test_the_same_command_resumes(small_numbers, tmp_path: Path, capsys) -> None:
    short = [*TRAIN, "--steps", "3", "--output", str(tmp_path / "short")]
    assert main(short) == 0
    assert main([*short[:-4], "--steps", "5", *short[-2:]]) == 0
    assert "Resuming the run in" in capsys.readouterr().out
    assert main([*TRAIN, "--steps", "5", "--output", str(tmp_path / "whole")]) == 0
    parted, whole = (load_checkpoint(tmp_path / n / "checkpoint.pt") for n in ("short", "whole"))
    assert parted["progress"]["step"] == 5
    torch.testing.assert_close(parted["model"], whole["model"], rtol=0, atol=0)
    config = json.loads((tmp_path / "short" / "config.json").read_text())
    assert len(config["sessions"]) == 2 and config["train"]["max_steps"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--task", "copy"], "numbers has other settings: task is 'number-words' there, 'copy'"),
        (["--max-tokens", "601"], "max_tokens is 600 there, 601 here"),
        (
            ["--set", "positions=none"],
            ": positions is 'sinusoidal' there, 'none' here. Choose another --output, or --rest",
        ),
        (["--seed", "1"], "seed is 0 there, 1 here"),
    ],
)
def test_a_different_run_is_refused_and_the_first_one_kept(
    folder: Path, change: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    before = contents(folder)
    assert main([*TRAIN, "--steps", "12", "--output", str(folder), *change]) == 1
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": b'{"model_type": "bert"}', "tokenizer.json": b"{}"},
        {"config.json": b"{", "checkpoint.pt": b"weights"},
        {"words.txt": b"mine"},
        {"best.pt": b"weights"},
        {"step-00000002.pt": b"weights"},
        {"log.jsonl": b'{"step": 1, "reward": 3.5}\n'},
    ],
)
def test_train_overwrites_only_what_a_run_has_written(
    files: dict[str, bytes], small_numbers, tmp_path: Path, capsys
) -> None:
    files |= {"notes.txt": b"mine", "lock": b"mine"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for restart in ([], ["--restart"]):
        assert main([*TRAIN, "--steps", "2", "--output", str(tmp_path), *restart]) == 1
        error = capsys.readouterr().err
        assert next(iter(files)) in error and "choose another folder" in error
        assert contents(tmp_path) == files


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--output", "", "argument --output: must not be empty"),
        ("--output", "FILE", "folder must be a folder, but {} is not one"),
        ("--write", "", "argument --write: must not be empty"),
        ("--write", "FILE", "{} exists already: choose another file to --write"),
        ("--write", "FILE/texts", "texts cannot be written: {} is not a folder"),
    ],
)
def test_places_where_nothing_can_be_written(
    option: str, value: str, message: str, folder: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in (tmp_path / "mine", *filter(Path.exists, [Path("/dev/null")])):
        if not file.exists():
            file.write_text("mine")
        where = [option, value.replace("FILE", str(file))]
        command = TRAIN if option == "--output" else ["evaluate", "--run", str(folder)]
        try:
            assert main([*command, *where]) == 1
        except SystemExit as exit:  # from argparse
            assert exit.code == 2
        assert message.format(file) in capsys.readouterr().err
    assert contents(tmp_path) == {"mine": b"mine"}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such lock")
def test_restart_beside_a_run_that_trains_changes_nothing(folder: Path, capsys) -> None:
    before = contents(folder)
    restart = [*TRAIN, "--steps", "2", "--set", "n_layers=1", "--restart", "--output", str(folder)]
    with alone_in(folder):
        assert main(restart) == 1
    assert "another run is writing to" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("option", "reason"), [("--compile", "compiler"), ("--tensorboard", "pip")]
)
def test_restart_that_is_refused_changes_nothing(
    option: str, reason: str, folder: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    before = contents(folder)
    restart = [*TRAIN, "--steps", "2", "--set", "n_layers=1", "--restart", "--output", str(folder)]
    assert main([*restart, option]) == 1
    assert reason in capsys.readouterr().err
    assert contents(folder) == before


def test_restart_starts_over_and_leaves_no_score_of_the_old_model(
    small_numbers, tmp_path: Path
) -> None:
    arguments = [*TRAIN, "--steps", "2", "--output", str(tmp_path)]
    assert main(arguments) == 0 and main(["evaluate", "--run", str(tmp_path)]) == 0
    assert main([*arguments, "--steps", "3"]) == 0
    assert (tmp_path / "scores.json").exists()
    assert main([*arguments, "--seed", "1", "--restart"]) == 0
    assert not (tmp_path / "scores.json").exists()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["train"]["seed"] == 1 and len(config["sessions"]) == 1


def test_a_finished_run_says_so_is_scored_and_names_the_next_command(
    folder: Path, tmp_path: Path, capsys
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    (run / "log.jsonl").unlink()
    before = (run / "config.json").read_bytes()
    assert main([*TRAIN, "--steps", "4", "--output", str(run)]) == 0
    _, nothing, score, after = capsys.readouterr().out.splitlines()
    assert nothing.startswith("Nothing left to train")
    assert score == "val, 20 texts: exact_match 0.00 (percent)"
    assert after == f"Try it: python -m transformer_lib translate --run {run} forty-two"
    assert (run / "config.json").read_bytes() == before


def scored(folder: Path) -> list[tuple[int, int]]:
    log = History.read(folder / "log.jsonl")
    return [(record["step"], record["epoch"]) for record in log if "val_exact_match" in record]


def test_scores_come_every_so_many_epochs(small_numbers, tmp_path: Path) -> None:
    often = ["--max-tokens", "2000", "--score-every", "2", "--validate-every", "2"]
    run = [*TRAIN, *often, "--output", str(tmp_path)]  # an epoch has 4 batches
    assert main([*run, "--steps", "9"]) == 0
    assert scored(tmp_path) == [(8, 2)]
    assert main([*run, "--steps", "17"]) == 0
    assert scored(tmp_path) == [(8, 2), (16, 4)]


def test_train_warns_of_bfloat16_that_slows_it_down(
    small_numbers, tmp_path: Path, monkeypatch, capsys
) -> None:
    arguments = [*TRAIN, "--steps", "1", "--device", "cpu", "--restart", "--output", str(tmp_path)]
    for able, amp, slow in ((False, True, 1), (True, True, 0), (False, "auto", 0)):
        found = {"avx512_bf16": able}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda f=found: f, raising=False)
        assert main([*arguments, "--set", f"amp={amp}"]) == 0
        assert capsys.readouterr().out.count("amp=True slows training down") == slow


def test_ctrl_c_says_how_to_go_on(folder: Path, monkeypatch, capsys) -> None:
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "fit", interrupted)
    assert main([*TRAIN, "--steps", "12", "--output", str(folder)]) == 130
    assert capsys.readouterr().err == "\nInterrupted. Run the same command to resume.\n"
    assert main([*TRAIN, "--steps", "12", "--output", str(folder), "--restart"]) == 130
    said = "Interrupted. Run the same command without --restart to resume."
    assert capsys.readouterr().err == f"\n{said}\n"
    monkeypatch.setenv("RANK", "1")
    assert main([*TRAIN, "--steps", "12", "--output", str(folder)]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_ctrl_c_elsewhere(folder: Path, command: str, monkeypatch, capsys) -> None:
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(text_module, "padded", interrupted)
    words = [] if command == "evaluate" else ["one"]
    assert main([command, "--run", str(folder), *words]) == 130
    assert capsys.readouterr() == ("", "\nInterrupted.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--run", "FOLDER", "--split", "train"], "split must be one of val"),
        (["translate", "--run", "LINES", "one"], "number-lines: use generate, not translate"),
        (["generate", "--run", "LINES", "one " * 600], "the model reads at most 511"),
        (
            ["translate", "--run", "FOLDER", "--beam", "2", "--n-best", "3", "one"],
            "n_best (3) must be",
        ),
        ([*TRAIN, "--vocab-size", "300"], "vocab_size must be left out"),
        ([*TRAIN, "--device", "cuda:99"], "device 'cuda:99' is not available on this machine"),
        ([*TRAIN, "--set", "n_heads=many"], "model: n_heads must be"),
        ([*TRAIN, "--lr", "-1"], "training: peak_lr must be a finite number above 0, got -1.0"),
        (["train", "--task", "shakespeare", "--score-every", "1"], "score_every must be left out"),
    ],
)
def test_failures_are_one_line_and_exit_code_1(
    folder: Path,
    lines: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {"FOLDER": str(folder), "LINES": str(lines)}
    arguments = [folders.get(word, word) for word in arguments]
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and message in err and "Traceback" not in err
    with pytest.raises(Exception, match=re.escape(message)):
        main([*arguments, "--debug"])


def test_a_damaged_run_says_which_file(folder: Path, tmp_path: Path, capsys) -> None:
    for name in ("best.pt", "tokenizer.json", "config.json"):
        for path in folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / name).write_bytes((folder / name).read_bytes()[:-20])
        assert main(["translate", "--run", str(tmp_path), "one"]) == 1
        assert str(tmp_path / name) in capsys.readouterr().err


def test_a_missing_run_is_told_from_a_file_and_a_folder(
    folder: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = [Path("runs", name) for name in ("a", "b")]
    for run in kept:
        shutil.copytree(folder, run)
    Path("runs", "empty").mkdir()
    for run, problem in (
        ("nowhere", "folder nowhere not found"),
        ("runs/c", f"folder {Path('runs', 'c')} not found"),
        ("runs", "runs holds no run: it has no config.json"),
        ("runs/empty", f"{Path('runs', 'empty')} holds no run: it has no config.json"),
        ("runs/a/best.pt", f"{kept[0] / 'best.pt'} is a file, not the folder of a run"),
    ):
        assert main(["translate", "--run", run, "one"]) == 1
        err = capsys.readouterr().err
        assert err == f"error: {problem}. These are runs: {kept[0]}, {kept[1]}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        ([*TRAIN, "five"], "unrecognized arguments: five"),
        ([*TRAIN, "--epochs", "0"], "must be a whole number of at least 1, got '0'"),
        ([*TRAIN, "--lr", "low"], "invalid float value: 'low'"),
        ([*TRAIN, "--set", "legs=4"], "there is no setting 'legs'; train --help lists them all"),
        ([*TRAIN, "--set", "positons=none"], "no setting 'positons'; did you mean positions?"),
        ([*TRAIN, "--set", "n_layers"], "must be NAME=VALUE, got 'n_layers'"),
        ([*TRAIN, "--set", "vocab_size=4"], "vocab_size can't be set: the tokenizer decides it"),
        (["evaluate", "--run", "x", "--early-stopping"], "need --beam"),
        (["translate", "--run", "x", "a man", "--split", "val"], "either sentences or --split"),
        (["translate", "--run", "x", "--beems=4"], "no option --beems; did you mean --beam?"),
        (["generate", "--run", "x", "--samples", "2"], "need --temperature"),
        (["generate", "one"], "give either --run or --pretrained"),
        (["generate", "--run", "x", "--chat"], "--chat needs --pretrained"),
        (["generate", "--pretrained", "x", "--strict"], "--strict and --checkpoint need --run"),
        (["generate", "--run", "x", "--stop", ""], "must not be empty"),
        (["generate", "--run", "x", "--temperature", "0"], "above 0, got 0; leave it out to take"),
        (["generate", "--run", "x", "--beam", "4", "one"], "generate has no option --beam\n"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "usage:" in said and message in said


def test_texts_can_stand_between_options() -> None:
    args = parse(["translate", "one", "--run", "x", "two", "three", "--beam", "2", "four"])
    assert args.text == ["one", "two", "three", "four"]
    assert parse(["translate", "--run", "x", "--", "-one"]).text == ["-one"]


@pytest.mark.parametrize(("command", "what"), [("translate", "sentence"), ("generate", "prompt")])
def test_a_terminal_is_told_what_to_type(
    folder: Path, lines: Path, command: str, what: str, capsys, monkeypatch
) -> None:
    typed = io.StringIO("one\n")
    monkeypatch.setattr("sys.stdin", typed)
    run = ["--run", str(folder if command == "translate" else lines)]
    assert main([command, *run]) == 0
    assert capsys.readouterr().err == ""
    typed.seek(0)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    assert main([command, *run]) == 0
    assert capsys.readouterr().err == f"Type a {what} and press Enter. Ctrl-D ends.\n"


HOME = Path(transformer_lib.__file__).parents[1]
FIRST = {
    "train": ["--task", "--preset", "--epochs", "--output", "--restart"],
    "evaluate": ["--run", "--split", "--beam", "--limit", "--write"],
    "translate": ["--run", "--beam", "--n-best", "--strict", "--checkpoint"],
    "generate": ["--run", "--pretrained", "--temperature", "--top-p", "--max-tokens"],
}


@pytest.mark.parametrize("command", FIRST)
def test_help_begins_with_the_five_commonest_options(command: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    listed = re.findall(r"^  (?:-h, )?(--[a-z-]+)", shown, re.MULTILINE)
    assert listed[:6] == [*FIRST[command], "--help"] and "--debug" in listed
    assert max(map(len, shown.splitlines())) <= 100
    assert ("n_kv_heads" in shown and "clip_norm" in shown) == (command == "train")


def test_bars_are_for_terminals(folder: Path, capsys: pytest.CaptureFixture, monkeypatch) -> None:
    evaluate = ["evaluate", "--run", str(folder)]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(evaluate) == 0
    assert "0/20" in capsys.readouterr().err
    assert main([*evaluate, "--quiet"]) == 0
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["translate", "--run", str(folder), "one"]) == 0  # with the screen to itself
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert main(evaluate) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_a_checkpoint(tmp_path: Path, signum: int, code: int) -> None:
    options = ["--set", "d_model=16", "--set", "n_layers=1", "--log-every", "1", "--threads", "1"]
    train = ["train", "--task", "copy", *options, "--quiet", "--output", str(tmp_path / "run")]
    command = [sys.executable, "-m", "transformer_lib", *train, "--epochs", "1000"]
    log = tmp_path / "run" / "log.jsonl"
    # A background job ignores Ctrl-C, and so would this process.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "preexec_fn": heard}
    with subprocess.Popen(command, cwd=HOME, **pipes) as process:
        while not (log.exists() and log.read_text().count("\n") > 2):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signum)
        _, errors = process.communicate(timeout=600)  # only for what hangs
    assert (process.returncode, errors) == (
        code,
        "\nInterrupted. Run the same command to resume.\n",
    )
    stopped = load_checkpoint(tmp_path / "run" / "checkpoint.pt")["progress"]["step"]
    assert stopped >= 3
    assert main([*train, "--steps", str(stopped + 2), "--set", "epochs=1000"]) == 0
    steps, _ = History.read(log).column("loss")
    assert steps == list(range(1, stopped + 3))


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    options = ["--set", "d_model=16", "--set", "n_layers=1", "--steps", "3", "--log-every", "1"]
    train = ["train", "--task", "copy", *options, "--threads", "1", "--quiet"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    module = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "transformer_lib"]
    ended = subprocess.run(
        [*torchrun, *module, *train, "--output", str(tmp_path / "two")],
        capture_output=True,
        text=True,
        cwd=HOME,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()] == ["copy,", "3", "val,", "Try"]
    assert main([*train, "--accumulate", "2", "--output", str(tmp_path / "one")]) == 0
    losses = [
        History.read(tmp_path / name / "log.jsonl").column(column)[1]
        for column in ("loss", "val_loss")
        for name in ("two", "one")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[2] == pytest.approx(losses[3], rel=1e-4)
    (session,) = json.loads((tmp_path / "two" / "config.json").read_text())["sessions"]
    assert session["processes"] == 2
    assert main([*train, "--output", str(tmp_path / "two")]) == 1  # half the batches per update
    longer = [*train, "--accumulate", "2", "--steps", "4"]
    assert main([*longer, "--output", str(tmp_path / "two")]) == 0
    config = json.loads((tmp_path / "two" / "config.json").read_text())
    assert config["sessions"][0] == session and len(config["sessions"]) == 2


COUNT_FAULTS = """
import resource
from transformer_lib.runs.cli import keep_freed_memory

def faults():
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        block = bytearray(100 * 2**20)
        del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), keep_freed_memory() or faults())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_kept() -> None:
    command = [sys.executable, "-c", COUNT_FAULTS]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=HOME).stdout
    given_back, kept = map(int, shown.split())
    assert kept < given_back / 10


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: object) -> None:
        raise OSError

    monkeypatch.setattr("ctypes.CDLL", no_library)
    keep_freed_memory()


def test_captions_are_scored_in_three_ways(tmp_path: Path, monkeypatch, capsys) -> None:
    pairs = [("A man.", "Ein Mann."), ("A dog.", "Ein Hund.")] * 5
    task = replace(TASKS["multi30k"], load=lambda split: pairs)
    monkeypatch.setitem(TASKS, "multi30k", task)
    arguments = "--steps 1 --vocab-size 270 --bpe-dropout 0.2 --set d_model=8 --set n_heads=2"
    run = ["--output", str(tmp_path), "--quiet"]
    assert main(["train", "--task", "multi30k", *arguments.split(), *run]) == 0
    assert json.loads((tmp_path / "config.json").read_text())["bpe_dropout"] == 0.2
    assert main(["evaluate", "--run", str(tmp_path), "--beam", "2", "--quiet"]) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    searched = "beam 2, length penalty 0.6"
    ways = ("val", "val, lowercased", "val, chrF")
    assert list(scores) == [f"{way}, {searched}" for way in ways]
    capsys.readouterr()
    # Without sacremoses, one score is missing and says so.
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    assert main(["evaluate", "--run", str(tmp_path), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert "bleu " in out and "no bleu_lowercased: " in err


def test_evaluate_compares_with_another_run(tmp_path: Path, monkeypatch, capsys) -> None:
    pairs = [("a man .", "ein mann ."), ("a dog .", "ein hund .")] * 5
    task = replace(TASKS["multi30k-lowercase"], load=lambda split: pairs)
    monkeypatch.setitem(TASKS, "multi30k-lowercase", task)
    arguments = "--vocab-size 270 --set d_model=8 --set n_heads=2 --lr 0.02 --r-drop 5 --quiet"
    for name, steps in (("new", "40"), ("old", "1")):
        run = ["--task", "multi30k-lowercase", "--output", str(tmp_path / name), "--steps", steps]
        assert main(["train", *run, *arguments.split()]) == 0
    assert json.loads((tmp_path / "new" / "config.json").read_text())["train"]["r_drop"] == 5
    capsys.readouterr()
    new, old = str(tmp_path / "new"), str(tmp_path / "old")
    assert main(["evaluate", "--run", new, "--against", old, "--quiet"]) == 0
    assert re.search(
        r"^val, against old: bleu_tokenized [+-].* p = ", capsys.readouterr().out, re.M
    )
    record = json.loads((tmp_path / "new" / "scores.json").read_text())["val, against old"]
    assert record["against"] == "old" and 0 <= record["p_value"] <= 1
    assert record["sentences"] == 10 and record["decoding"] == "greedy"


def test_translations_of_the_training_texts_are_learned_as_well(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    pairs = [("A man.", "Ein Mann."), ("A dog.", "Ein Hund.")] * 5
    task = replace(TASKS["multi30k"], load=lambda split: pairs)
    monkeypatch.setitem(TASKS, "multi30k", task)
    sizes = "--steps 1 --vocab-size 270 --set d_model=8 --set n_heads=2 --quiet"
    train = ["train", "--task", "multi30k", *sizes.split()]
    teacher, student = tmp_path / "teacher", tmp_path / "student"
    assert main([*train, "--output", str(teacher)]) == 0
    capsys.readouterr()
    asked = ["translate", "--run", str(teacher), "--split", "train", "--batch-size", "3"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert len(lines) == 10 and lines[0] == lines[2] and lines[1] == lines[3]
    file = tmp_path / "said.txt"
    file.write_text(said)
    distill = [*train, "--distill", str(file), "--output", str(student)]
    assert main(distill) == 0
    assert " 20 texts in " in capsys.readouterr().out
    settings = json.loads((student / "config.json").read_text())
    assert settings["distilled"] == sha256(file.read_bytes()).hexdigest()
    names = [folder / "tokenizer.json" for folder in (teacher, student)]
    assert names[0].read_text() == names[1].read_text()  # the references alone make it
    file.write_text(said.replace("\n", "!\n"))
    assert main([*distill, "--steps", "2"]) == 1
    assert "other settings: distilled is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "content", "message"),
    [
        ("number-words", b"eins\nzwei\n", "a line for each of the [0-9,]+ training .* has 2"),
        ("number-lines", b"1\n", "distilled must be left out: this task doesn't translate"),
        ("number-words", "eins\n".encode("utf-16"), r"must be text in UTF-8; .*said\.txt is not"),
    ],
)
def test_second_translations_that_are_refused(
    task, content, message, tmp_path: Path, capsys
) -> None:
    file = tmp_path / "said.txt"
    file.write_bytes(content)
    run = ["train", "--task", task, "--steps", "1", "--output", str(tmp_path / "run"), "--quiet"]
    assert main([*run, "--distill", str(file)]) == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run" / "config.json").exists()


def test_second_translations_can_come_from_windows(tmp_path: Path) -> None:
    task, pairs = TASKS["number-words"], [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    file = tmp_path / "said.txt"
    file.write_bytes("\ufeffEins\r\n\r\n drei \r\n".encode())
    found, _ = batches.second_translations(task, file, pairs)
    assert found == [("one", "Eins"), ("two", ""), ("three", "drei")]
    file.write_text("\n \n\n")
    with pytest.raises(ValueError, match=r"all lines of .*said\.txt are empty"):
        batches.second_translations(task, file, pairs)
