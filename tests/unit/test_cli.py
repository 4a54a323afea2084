"""The command line: what it prints, what it leaves in the folder, and its exit codes."""

import io
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch

import transformer_lib
from transformer_lib.data import number_word_pairs, shakespeare
from transformer_lib.decoding import text as text_module
from transformer_lib.runs import TASKS, Run, tasks
from transformer_lib.runs import run as run_module
from transformer_lib.runs.cli import _search, main
from transformer_lib.runs.parser import parse
from transformer_lib.training import History, average_checkpoints, load_checkpoint
from transformer_lib.training.checkpoint import alone_in

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


def test_evaluate_keeps_the_scores_of_a_whole_split(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    early = ["--beam", "2", "--length-penalty", "3", "--early-stopping"]
    for options in ([], ["--checkpoint", "last"], early):
        assert main(["evaluate", "--run", str(tmp_path / "run"), *options]) == 0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    searched = "beam 2, length penalty 3, early stopping"
    score = {"metric": "exact_match", "value": 0.0, "signature": "percent", "sentences": 20}
    assert scores == {
        "val": score | {"checkpoint": "best", "decoding": "greedy"},
        "val, last": score | {"checkpoint": "last", "decoding": "greedy"},
        f"val, {searched}": score | {"checkpoint": "best", "decoding": searched},
    }


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


def test_a_line_that_cannot_be_read_is_named_and_those_before_it_are_answered(
    folder: Path, capsys, monkeypatch
) -> None:
    translate = ["translate", "--run", str(folder)]
    lines_before = "one\n" * 258  # more than are read at once
    for bad, message in (
        ("one " * 600, r"line 259 has 1,\d+ tokens, and the model reads at most 512"),
        ("one\udcff", "line 259 is not valid UTF-8; it begins 'one"),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{lines_before}{bad}\none\n"))
        assert main(translate) == 1
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 258
        assert re.search(message, err)


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


def test_a_beam_search_goes_on_after_the_first_ends_unless_asked() -> None:
    for asked in ([], ["--early-stopping"]):
        search = _search(parse(["evaluate", "--run", "x", "--beam", "2", *asked]))
        assert search.keywords["early_stopping"] == bool(asked)


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
    assert "must hold runs of one task and vocabulary; number 2 differs" in capsys.readouterr().err


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


def test_generate_prints_as_it_goes_and_stops(lines: Path, monkeypatch) -> None:
    def written(*options: str) -> list[str]:
        pieces: list[str] = []
        monkeypatch.setattr("sys.stdout.write", pieces.append)
        draw = ["--max-tokens", "9", "--temperature", "2"]
        assert main(["generate", "--run", str(lines), *draw, *options, "seven"]) == 0
        return pieces

    pieces = written()
    said = "".join(pieces)
    assert len(pieces) > 6 and said.endswith("\n")  # piece by piece
    letters = [letter for letter in said[5:-1] if said.count(letter) == 1]
    stop = next(letter for letter in letters if said.index(letter) > 5)
    assert "".join(written("--stop", stop, "--stop", "zzz")) == said[: said.index(stop)] + "\n"


def test_words_that_the_model_never_saw_are_listed(folder: Path, lines: Path, capsys) -> None:
    """Even if each of their letters is known."""
    for command, run, known in (("translate", folder, "forty-two"), ("generate", lines, "one =")):
        asked = [command, "--run", str(run), f"{known} banana Seven banana \u200b", known]
        assert main(asked) == 0
        out, err = capsys.readouterr()
        assert err == "never seen in training: banana, Seven, '\\u200b'\n"
        assert len(out.splitlines()) == 2


def test_the_kept_models_are_averaged(lines: Path, tmp_path: Path) -> None:
    kept = sorted(lines.glob("step-*.pt"))
    assert [int(path.stem.removeprefix("step-")) for path in kept] == [4, 6, 8]
    average = Run.load(lines, "average").model.state_dict()
    torch.testing.assert_close(dict(average), average_checkpoints(kept), rtol=0, atol=0)


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


def test_shakespeare_is_scored_per_character(tmp_path: Path, monkeypatch) -> None:
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


def test_any_setting_can_be_set(small_numbers, tmp_path: Path) -> None:
    settings = ["n_layers=1", "positions=alibi", "clip_norm=None", "betas=(0.9, 0.95)", "norm=rms"]
    wanted = [word for setting in settings for word in ("--set", setting)]
    more = ["--steps", "1", "--r-drop", "5", "--output", str(tmp_path)]
    assert main([*TRAIN, *wanted, *more]) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    model, training = config["model"], config["train"]
    assert (model["n_layers"], model["positions"], model["norm"]) == (1, "alibi", "rms")
    assert (training["clip_norm"], training["betas"]) == (None, [0.9, 0.95])
    assert (training["max_steps"], training["r_drop"]) == (1, 5.0)


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
        (
            ["--task", "copy"],
            "numbers holds a run with other settings: task is 'number-words' there, 'copy'",
        ),
        (
            ["--set", "positions=none"],
            ": positions is 'sinusoidal' there, 'none' here. Choose another folder, or start over",
        ),
    ],
)
def test_a_different_run_is_refused_and_the_first_one_kept(
    folder: Path, change: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    before = contents(folder)
    assert main([*TRAIN, "--steps", "12", "--output", str(folder), *change]) == 1
    assert message in capsys.readouterr().err
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": b'{"model_type": "bert"}', "tokenizer.json": b"{}"},
        {"words.txt": b"mine", "checkpoint.pt": b"weights"},
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
        ("--output", "mine", "folder must be a folder, but mine is not one"),
        ("--write", "mine", "mine exists already: choose another file to --write"),
    ],
)
def test_places_where_nothing_can_be_written(
    option: str, value: str, message: str, folder: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("mine")
    command = TRAIN if option == "--output" else ["evaluate", "--run", str(folder)]
    try:
        assert main([*command, option, value]) == 1
    except SystemExit as exit:  # from argparse
        assert exit.code == 2
    assert message in capsys.readouterr().err
    assert contents(tmp_path) == {"mine": b"mine"}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such lock")
def test_restart_that_is_refused_changes_nothing(folder: Path, monkeypatch, capsys) -> None:
    before = contents(folder)
    restart = [*TRAIN, "--steps", "2", "--set", "n_layers=1", "--restart", "--output", str(folder)]
    with alone_in(folder):
        assert main(restart) == 1
    assert "another run is writing to" in capsys.readouterr().err
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
    for able, amp, slow in ((False, True, 1), (True, True, 0)):
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
    monkeypatch.setattr(text_module, "padded", interrupted)
    assert main(["translate", "--run", str(folder), "one"]) == 130
    assert capsys.readouterr() == ("", "\nInterrupted.\n")
    monkeypatch.setenv("RANK", "1")
    assert main([*TRAIN, "--steps", "12", "--output", str(folder)]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--run", "FOLDER", "--split", "train"], "split must be one of val"),
        (["translate", "--run", "LINES", "one"], "number-lines: use generate, not translate"),
        (["generate", "--run", "LINES", "one " * 600], "the model reads at most 511"),
        (["translate", "--run", "nowhere", "one"], "folder nowhere not found"),
        (["translate", "--run", ".", "one"], ". holds no run: it has no config.json"),
        ([*TRAIN, "--vocab-size", "300"], "vocab_size must be left out"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        ([*TRAIN, "five"], "unrecognized arguments: five"),
        ([*TRAIN, "--epochs", "0"], "must be a whole number of at least 1, got '0'"),
        ([*TRAIN, "--set", "positons=none"], "no setting 'positons'; did you mean positions?"),
        ([*TRAIN, "--set", "n_layers"], "must be NAME=VALUE, got 'n_layers'"),
        ([*TRAIN, "--set", "vocab_size=4"], "vocab_size can't be set: the tokenizer decides it"),
        (["evaluate", "--run", "x", "--early-stopping"], "need --beam"),
        (["translate", "--run", "x", "a man", "--split", "val"], "either sentences or --split"),
        (["translate", "--run", "x", "--beems=4"], "no option --beems; did you mean --beam?"),
        (["generate", "--run", "x", "--samples", "2"], "need --temperature"),
        (["generate", "one"], "give either --run or --pretrained"),
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


def test_a_terminal_is_told_what_to_type(folder: Path, capsys, monkeypatch) -> None:
    typed = io.StringIO("one\n")
    monkeypatch.setattr("sys.stdin", typed)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    assert main(["translate", "--run", str(folder)]) == 0
    assert capsys.readouterr().err == "Type a sentence and press Enter. Ctrl-D ends.\n"


HOME = Path(transformer_lib.__file__).parents[1]


@pytest.mark.parametrize("command", ["train", "evaluate", "translate", "generate"])
def test_help_begins_with_the_five_commonest_options(command: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    listed = re.findall(r"^  (?:-h, )?(--[a-z-]+)", shown, re.MULTILINE)
    assert listed.index("--help") == 5 and "--debug" in listed
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
def test_a_signal_leaves_a_checkpoint(tmp_path: Path) -> None:
    options = "--set d_model=16 --set n_layers=1 --log-every 1 --epochs 1000 --threads 1 --quiet"
    train = ["train", "--task", "copy", *options.split(), "--output", str(tmp_path)]
    log = tmp_path / "log.jsonl"
    with subprocess.Popen(
        [sys.executable, "-m", "transformer_lib", *train],
        cwd=HOME,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not (log.exists() and log.read_text().count("\n") > 2):
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        _, errors = process.communicate(timeout=600)  # only for what hangs
    said = "\nInterrupted. Run the same command to resume.\n"
    assert (process.returncode, errors) == (143, said)
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] >= 3


@pytest.mark.slow
def test_two_processes_write_one_run(tmp_path: Path) -> None:
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
    (session,) = json.loads((tmp_path / "two" / "config.json").read_text())["sessions"]
    assert session["processes"] == 2


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


def test_second_translations_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "said.txt"
    for task, content, message in (
        ("number-words", b"eins\nzwei\n", "a line for each of the 3 training texts; .* has 2"),
        ("number-lines", b"1\n", "distilled must be left out: this task doesn't translate"),
        ("number-words", b"\xff", r"distilled, .*said\.txt: 'utf-8' codec can't decode"),
        ("number-words", b"\n \n\n", r"all lines of .*said\.txt are empty"),
    ):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            tasks.second_translations(TASKS[task], file, [("one", "eins")] * 3)


def test_second_translations_can_come_from_windows(tmp_path: Path) -> None:
    file = tmp_path / "said.txt"
    file.write_bytes("\ufeffEins\r\n\r\n drei \r\n".encode())
    pairs = [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    found, _ = tasks.second_translations(TASKS["number-words"], file, pairs)
    assert found == [("one", "Eins"), ("two", ""), ("three", "drei")]
