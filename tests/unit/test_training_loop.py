"""The loop, above all: a run that was stopped in any way ends in the bits of one that was not."""

import json
import math
import os
import random
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformer_lib
from transformer_lib.config import SpecialIds
from transformer_lib.data import Batch, Batches
from transformer_lib.training import (
    History,
    TrainConfig,
    average_checkpoints,
    cosine_schedule,
    evaluate,
    fit,
    inverse_sqrt_schedule,
    load_checkpoint,
    loop,
    r_drop,
    session,
    update,
)
from transformer_lib.training.distributed import Ranks
from transformer_lib.training.folder import Folder
from transformer_lib.training.log import RunLog
from transformer_lib.training.loop import _duration
from transformer_lib.training.session import Session
from transformer_lib.training.update import Updater, _half

V = 11
CONFIG = TrainConfig(epochs=4, warmup=5, peak_lr=0.02, log_every=4, checkpoint_every=3)


class Toy(nn.Module):
    """Stands in for a translator. Draws from both generators, so that both must be resumed."""

    def __init__(self, dropout: float = 0.2, at_step=lambda step: None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, 8, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.noise = 0.1 if dropout else 0.0
        self.output = nn.Linear(8, V)
        self.at_step, self.calls = at_step, 0

    def extra_repr(self) -> str:
        return f"noise={self.noise}"

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.embedding(source).sum(1, keepdim=True) + self.embedding(target)
        if self.training:
            self.calls += 1
            self.at_step(self.calls)
        if self.training and self.noise:
            x = x * (1 + self.noise * random.random())
        return self.output(self.dropout(x))  # (B, T, V)


def toy(**arguments) -> Toy:
    torch.manual_seed(1)
    return Toy(**arguments)


def data(seed: int = 0, n: int = 36) -> Batches:
    draw = random.Random(seed)
    rows = [[draw.randrange(4, V) for _ in range(draw.randint(1, 6))] for _ in range(n)]
    return Batches([(row, row[::-1]) for row in rows], batch_size=5, seed=seed)  # 8 batches


def clock() -> SimpleNamespace:
    """Stands in for the module ``time``: a second later each time it is asked."""
    return SimpleNamespace(perf_counter=count().__next__)


def tokens_of(batch: Batch) -> int:
    return int((batch.labels != 0).sum())


os.fsync = lambda file: None  # how long the disk takes is not what is tested here


def run(folder: Path | None, model: Toy | None = None, config: TrainConfig = CONFIG, **arguments):
    torch.set_num_threads(1)
    model = model or toy()
    held_out = data(seed=3, n=7)
    arguments = {"validate": lambda model, epoch: evaluate(model, held_out)} | arguments
    history = fit(model, data(), config, directory=folder, progress=False, **arguments)
    return model, history


@pytest.fixture(autouse=True)
def heed_ctrl_c():
    """A shell lets its background jobs ignore Ctrl-C; these tests send it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    run(folder)
    return folder


def assert_same_run(folder: Path, expected: Path) -> None:
    for name in ("checkpoint.pt", "best.pt"):
        ours, theirs = load_checkpoint(folder / name), load_checkpoint(expected / name)
        if "progress" in ours:
            for state in (ours, theirs):
                for clock in ("seconds", "window_seconds"):
                    state["progress"].pop(clock)
        assert_same_bits(ours, theirs)
    clocks = ("seconds", "tokens_per_second")
    ours, theirs = (
        [{k: v for k, v in record.items() if k not in clocks} for record in History.read(path)]
        for path in (folder / "log.jsonl", expected / "log.jsonl")
    )
    assert ours == theirs


def assert_same_bits(ours, theirs, place: str = "state") -> None:
    assert type(ours) is type(theirs), place
    if isinstance(ours, Tensor):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs), place
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


# Stopped in every way


def _die_in_step(step: int) -> None:
    def at_step(now: int) -> None:
        if now == step:
            os.kill(os.getpid(), signal.SIGKILL)

    run(Path(sys.argv[3]), toy(at_step=at_step))


def _die_while_saving(n: int) -> None:
    replace, saves = os.replace, 0

    def die(*paths) -> None:
        nonlocal saves
        saves += str(paths[1]).endswith(".pt")
        if saves == n:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*paths)

    os.replace = die
    run(Path(sys.argv[3]))


def test_a_run_may_be_told_to_cool_down_when_it_is_resumed(tmp_path: Path) -> None:
    settings = {"warmup": 5, "peak_lr": 0.02, "log_every": 1}
    run(tmp_path, config=TrainConfig(epochs=2, **settings))
    _, history = run(tmp_path, config=TrainConfig(epochs=3, cooldown=4, **settings))
    steps, rates = history.column("lr")
    assert steps == list(range(1, 25))
    plain = [inverse_sqrt_schedule(step, warmup=5, peak=0.02) for step in steps]
    shares = [1.0] * 20 + [0.8, 0.6, 0.4, 0.2]
    assert rates == pytest.approx([rate * share for rate, share in zip(plain, shares, strict=True)])
    whole, _ = run(None, config=TrainConfig(epochs=3, cooldown=4, **settings))
    again, _ = run(tmp_path, config=TrainConfig(epochs=3, cooldown=4, **settings))
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("way", ["_die_in_step", "_die_while_saving"])
def test_killed_and_resumed_ends_in_the_same_bits(way: str, tmp_path: Path, unbroken: Path) -> None:
    when = random.SystemRandom().randint(2, 12)  # any will do; a failure shows which
    home = Path(transformer_lib.__file__).parents[1]
    killed = subprocess.run(
        [sys.executable, __file__, way, str(when), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(home), "OMP_NUM_THREADS": "1"},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] < 32
    run(tmp_path, resume=True)
    assert_same_run(tmp_path, unbroken)
    assert not list(tmp_path.glob(".*")), "temporary files were left"


@pytest.mark.parametrize("step", [12, 13])  # one to be recorded, one not
def test_ctrl_c_in_a_step_finishes_the_step(step: int, tmp_path: Path, unbroken: Path) -> None:
    def at_step(now: int) -> None:
        if now == step:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, toy(at_step=at_step))
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] == step
    with open(tmp_path / "log.jsonl", "a") as log:
        log.write('{"step": 40}\n')  # as if it had gone on, and been killed
    run(tmp_path)
    assert_same_run(tmp_path, unbroken)


def test_ctrl_c_in_validation_stops_at_once_and_validates_again(
    tmp_path: Path, unbroken: Path
) -> None:
    def interrupted(model: nn.Module, epoch: int) -> dict[str, float]:
        if epoch == 2:
            signal.raise_signal(signal.SIGINT)
            pytest.fail("validation went on")
        return evaluate(model, data(seed=3, n=7))

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, validate=interrupted)
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] == 16
    run(tmp_path)
    assert_same_run(tmp_path, unbroken)


@pytest.mark.parametrize("epoch", [2, 4])  # the last one, too
def test_ctrl_c_in_validation_loses_no_kept_model_and_no_validation(
    epoch: int, tmp_path: Path
) -> None:
    config = replace(CONFIG, checkpoint_every=None, keep_last=3)

    def interrupted(model: nn.Module, now: int) -> dict[str, float]:
        if now == epoch:
            signal.raise_signal(signal.SIGINT)
        return evaluate(model, data(seed=3, n=7))

    run(tmp_path / "whole", config=config)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", config=config, validate=interrupted)
    run(tmp_path / "cut", config=config)
    run(tmp_path / "cut", config=config, validate=lambda *_: pytest.fail("it validates again"))
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
    assert kept(tmp_path / "cut") == kept(tmp_path / "whole") == [16, 24, 32]


def test_ctrl_c_in_the_step_before_a_checkpoint_loses_no_kept_model(tmp_path: Path) -> None:
    def at_step(now: int) -> None:
        if now == 15:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, toy(at_step=at_step), KEEPING)
    run(tmp_path, config=replace(KEEPING, epochs=None, max_steps=20))
    assert kept(tmp_path) == [10, 15, 20]


def test_a_record_without_a_step_has_the_rate_and_the_gradient_of_the_last(tmp_path: Path) -> None:
    def at_step(now: int) -> None:
        if now == 10:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, toy(at_step=at_step))
    stop = replace(CONFIG, epochs=None, max_steps=10)
    _, resumed = run(tmp_path, config=stop)
    _, whole = run(None, config=stop)
    (ours,), (theirs,) = ([r for r in h if r["step"] == 10 and "lr" in r] for h in (resumed, whole))
    for name in ("lr", "gradient_norm", "loss"):
        assert ours[name] == theirs[name] > 0


def test_a_second_ctrl_c_is_not_held_back(tmp_path: Path) -> None:
    def at_step(now: int) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the step went on")

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, toy(at_step=at_step))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nan_stops_with_the_last_checkpoint_in_place(tmp_path: Path) -> None:
    model = toy()

    def at_step(now: int) -> None:
        if now == 8:
            model.output.weight.data.fill_(math.nan)

    model.at_step = at_step
    with pytest.raises(FloatingPointError, match=r"nan.* at step 8.*checkpoint is from step 6"):
        run(tmp_path, model)
    state = load_checkpoint(tmp_path / "checkpoint.pt")
    assert state["progress"]["step"] == 6
    assert all(tensor.isfinite().all() for tensor in state["model"].values())


def test_a_bad_gradient_behind_a_good_loss_stops_too() -> None:
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx, gradient: Tensor) -> Tensor:
            return gradient * math.inf

    model = toy()
    forward = model.forward
    model.forward = lambda *ids: Bad.apply(forward(*ids))
    with pytest.raises(FloatingPointError, match="at step 1,"):
        run(None, model)


def test_a_longer_run_goes_on_from_a_finished_one(tmp_path: Path, unbroken: Path) -> None:
    run(tmp_path, config=TrainConfig(**vars(CONFIG) | {"epochs": 2}))
    run(tmp_path)
    assert_same_run(tmp_path, unbroken)


def test_going_on_with_a_finished_run_changes_nothing(unbroken: Path) -> None:
    before = (unbroken / "log.jsonl").read_bytes()
    _, history = run(unbroken)
    assert (unbroken / "log.jsonl").read_bytes() == before
    assert history == History.read(unbroken / "log.jsonl")


def test_resume_false_starts_anew(tmp_path: Path, unbroken: Path) -> None:
    run(tmp_path, config=TrainConfig(**vars(CONFIG) | {"seed": 5}))
    run(tmp_path, resume=False)
    assert_same_run(tmp_path, unbroken)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"config": TrainConfig(**vars(CONFIG) | {"warmup": 6})},
            "warmup is 5 there, 6 here. Choose another d",
        ),
        (
            {"config": TrainConfig(**vars(CONFIG) | {"r_drop": 5.0})},
            "r_drop is None there, 5.0 here",
        ),
        (
            {"config": TrainConfig(**vars(CONFIG) | {"optimizer": "muon"})},
            "optimizer is 'adam' there",
        ),
        ({"batches": data(seed=1)}, "data is"),
        ({"batches": data(n=37)}, "data is"),
        ({"model": Toy(dropout=0.3)}, r"model is 'Toy\("),
    ],
)
def test_another_run_is_refused(change: dict, message: str, unbroken: Path) -> None:
    before = {path: path.read_bytes() for path in unbroken.iterdir()}
    arguments = {"model": toy(), "batches": data(), "config": CONFIG} | change
    with pytest.raises(ValueError, match=message):
        fit(**arguments, directory=unbroken, progress=False)
    assert {path: path.read_bytes() for path in unbroken.iterdir()} == before


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such lock")
def test_a_second_run_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    def validate(model: nn.Module, epoch: int) -> dict[str, float]:
        with pytest.raises(RuntimeError, match="another run is writing to"):
            run(tmp_path)
        return {}

    run(tmp_path, config=TrainConfig(**vars(CONFIG) | {"epochs": 1}), validate=validate)
    assert len(History.read(tmp_path / "log.jsonl")) == 3  # steps 4 and 8, one validation


def test_what_cannot_be_resumed(tmp_path: Path, unbroken: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"checkpoint\.pt"):
        run(tmp_path, resume=True)
    with pytest.raises(ValueError, match="directory"):
        run(None, resume=True)
    with pytest.raises(ValueError, match=r"resume must be.*'yes'"):
        run(tmp_path, resume="yes")
    (tmp_path / "checkpoint.pt").write_bytes((unbroken / "best.pt").read_bytes())
    with pytest.raises(ValueError, match="holds a model, not a run"):
        run(tmp_path)


def test_sigterm_finishes_the_step_and_ends_the_process(tmp_path: Path, unbroken: Path) -> None:
    def at_step(now: int) -> None:
        if now == 13:
            signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        run(tmp_path, toy(at_step=at_step))
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] == 13
    run(tmp_path)
    assert_same_run(tmp_path, unbroken)


# The end: patience, and the models that are kept


PATIENT = TrainConfig(**vars(CONFIG) | {"epochs": 9, "validate_every": 3, "patience": 2})
LOSSES = [3.0, 2.0, 2.5, 1.0, 1.0, math.nan, 0.5]  # the 6th is the second without a lower one


def falling(losses: list[float], at: int = 0):
    """A validation whose losses are given, from number ``at`` on."""
    rest = iter(losses[at:])
    return lambda model, epoch: {"loss": next(rest)}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 s"), (59.4, "59 s"), (59.6, "1 min"), (3540, "59 min"), (3599, "1 h"),
     (12_000, "3 h 20 min"), (86_390, "1 d"), (187_200, "2 d 4 h")],
)  # fmt: skip
def test_a_forecast_in_two_units(seconds: float, said: str) -> None:
    assert _duration(seconds) == said


def test_a_forecast_comes_once_after_the_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "time", clock())  # a step takes one second
    told: list[str] = []
    steps = replace(CONFIG, epochs=None, max_steps=14)
    fit(Toy(), data(), steps, progress=False, forecast=told.append)
    assert told == ["About 3 s to go: 3 steps of 1 s each, plus validation."]
    fit(Toy(), data(), replace(steps, max_steps=11), progress=False, forecast=told.append)
    assert len(told) == 1  # nothing was left to wait for
    with pytest.raises(TypeError, match="forecast must be a function, got str"):
        fit(Toy(), data(), steps, progress=False, forecast="stderr")  # type: ignore[arg-type]


def test_patience_ends_the_run_and_says_so(tmp_path: Path) -> None:
    _, history = run(tmp_path, config=PATIENT, validate=falling(LOSSES))
    steps, losses = history.column("val_loss")
    assert steps == [3, 6, 9, 12, 15, 18] and losses[:5] == LOSSES[:5]
    assert history.column("stopped") == ([18], ["no lower val_loss in 2 validations"])
    assert history.column("loss")[0] == [4, 8, 12, 16, 18]  # the last steps are recorded, too
    assert load_checkpoint(tmp_path / "best.pt")["step"] == 12
    before = (tmp_path / "log.jsonl").read_bytes()
    run(tmp_path, config=PATIENT, validate=lambda *_: pytest.fail("it goes on"))
    assert (tmp_path / "log.jsonl").read_bytes() == before
    more = TrainConfig(**vars(PATIENT) | {"patience": 3})
    _, history = run(tmp_path, config=more, validate=falling([0.9, 0.8, 1.0, 1.0, 1.0]))
    assert history.column("stopped")[0] == [18, 33]


@pytest.mark.parametrize("step", [10, 15, 16])
def test_patience_survives_a_resumption(step: int, tmp_path: Path) -> None:
    run(tmp_path / "whole", config=PATIENT, validate=falling(LOSSES))

    def at_step(now: int) -> None:
        if now == step:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", toy(at_step=at_step), PATIENT, validate=falling(LOSSES))
    validated = (step - 1) // 3  # that of the step itself is still to come
    run(tmp_path / "cut", config=PATIENT, validate=falling(LOSSES, validated))
    for ours, theirs in zip(
        *(History.read(tmp_path / name / "log.jsonl") for name in ("cut", "whole")), strict=True
    ):
        assert str(ours["step"]) == str(theirs["step"])
        assert str(ours.get("val_loss")) == str(theirs.get("val_loss"))  # NaN is not NaN
        assert ours.get("stopped") == theirs.get("stopped")
        assert ours.get("loss") == theirs.get("loss")


def test_patience_needs_a_loss_to_wait_for() -> None:
    with pytest.raises(ValueError, match="validate must be given if patience is"):
        run(None, config=PATIENT, validate=None)
    with pytest.raises(ValueError, match="validate must return a 'loss' if patience"):
        run(None, config=PATIENT, validate=lambda model, epoch: {"accuracy": 0.5})


KEEPING = TrainConfig(**vars(CONFIG) | {"keep_last": 3, "checkpoint_every": 5})


def kept(folder: Path) -> list[int]:
    return [int(path.stem.removeprefix("step-")) for path in sorted(folder.glob("step-*.pt"))]


def test_the_last_models_are_kept_and_average(tmp_path: Path) -> None:
    seen = {}
    model = toy()

    def validate(model: nn.Module, epoch: int) -> dict[str, float]:
        step = load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] + 1
        seen[step] = {name: value.clone() for name, value in model.state_dict().items()}
        return {}

    every = TrainConfig(**vars(KEEPING) | {"checkpoint_every": 1, "validate_every": 1})
    run(tmp_path, model, every, validate=validate)
    assert kept(tmp_path) == [30, 31, 32]
    paths = sorted(tmp_path.glob("step-*.pt"))
    for step, path in zip((30, 31, 32), paths, strict=True):
        state = load_checkpoint(path)
        assert state.keys() == {"model", "step"} and state["step"] == step
        assert_same_bits(state["model"], seen[step])
    mean = average_checkpoints(paths)
    for name in mean:
        expected = sum(seen[step][name].double() for step in (30, 31, 32)) / 3
        torch.testing.assert_close(mean[name], expected.float(), rtol=0, atol=0)
    toy().load_state_dict(mean)


def test_kept_models_are_those_of_an_unbroken_run(tmp_path: Path) -> None:
    run(tmp_path / "whole", config=KEEPING)
    assert kept(tmp_path / "whole") == [25, 30, 32]  # at intervals, and the end; never step 0

    def at_step(now: int) -> None:
        if now == 13:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", toy(at_step=at_step), KEEPING)
    assert kept(tmp_path / "cut") == [5, 10], "a run cut short is no interval"
    later = tmp_path / "cut" / "step-00000015.pt"  # as if it had gone on, and been killed
    later.write_bytes((tmp_path / "cut" / "step-00000010.pt").read_bytes())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", toy(at_step=lambda now: signal.raise_signal(signal.SIGINT)), KEEPING)
    assert kept(tmp_path / "cut") == [5, 10]
    run(tmp_path / "cut", config=KEEPING)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
    assert kept(tmp_path / "cut") == [25, 30, 32]
    run(tmp_path / "cut", config=TrainConfig(max_steps=3, warmup=5, peak_lr=0.02), resume=False)
    assert kept(tmp_path / "cut") == []


def test_an_old_model_goes_only_when_the_new_one_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace
    there = []

    def look(source, target) -> None:
        there.append(kept(tmp_path))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    run(tmp_path, config=KEEPING, validate=None)
    assert there[-2:] == [[20, 25, 30], [20, 25, 30, 32]]  # 32, then the checkpoint, then not 20


# torch.compile


COMPILED = TrainConfig(**vars(CONFIG) | {"compile": True, "keep_last": 1})


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Dynamo as it is, but what it finds is run and not translated; counts the graphs."""
    graphs: list[int] = []

    def counting(graph, inputs):
        graphs.append(len(inputs))
        return graph.forward

    torch._dynamo.reset()
    monkeypatch.setattr(update, "BACKEND", counting)
    return graphs


@pytest.mark.slow
def test_a_compiled_run_and_a_plain_one_take_up_each_other(tmp_path: Path, backend) -> None:
    plain, short = (TrainConfig(**vars(CONFIG) | change) for change in ({}, {"epochs": 2}))
    run(tmp_path / "plain", toy(dropout=0.0), plain)
    assert not backend
    half = TrainConfig(**vars(COMPILED) | {"epochs": 2})
    run(tmp_path / "first", toy(dropout=0.0), half)
    assert backend
    run(tmp_path / "first", toy(dropout=0.0), plain, resume=True)
    run(tmp_path / "second", toy(dropout=0.0), short)
    model, _ = run(tmp_path / "second", toy(dropout=0.0), COMPILED, resume=True)
    for folder in ("first", "second"):
        assert_same_run(tmp_path / folder, tmp_path / "plain")
    for name in ("checkpoint.pt", "best.pt", "step-00000032.pt"):
        assert load_checkpoint(tmp_path / "second" / name)["model"].keys() == {
            name for name, _ in toy().named_parameters()
        }
    assert type(model) is Toy


@pytest.mark.slow
def test_a_compiled_transformer_learns_the_same(backend) -> None:
    losses = []
    for compile in (False, True):
        torch.manual_seed(0)
        model = transformer_lib.Transformer(
            transformer_lib.ModelConfig.tiny(vocab_size=V, d_model=16, n_layers=1, dropout=0.0)
        )
        config = TrainConfig(max_steps=16, warmup=5, peak_lr=0.01, log_every=1, compile=compile)
        losses.append(fit(model, data(), config, progress=False).column("loss")[1])
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert backend


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ValueError, match=r"compile=True needs a C\+\+ compiler.*no-such-compiler"):
        run(None, config=COMPILED)


# The arithmetic


def test_four_small_batches_make_one_large() -> None:
    pairs = data().pairs[:20]
    large = list(Batches(pairs, batch_size=20, shuffle=False).epoch(0))
    small = list(Batches(pairs, batch_size=5, shuffle=False).epoch(0))
    assert len({tokens_of(batch) for batch in small}) > 1, "the counts must be uneven"
    models = []
    for group in (large, small):
        model = toy(dropout=0.0)
        updater = Updater(model, CONFIG, pad_id=0)
        for number in range(1, 6):
            assert updater.step(number, group) == tokens_of(large[0])
        models.append(model)
    for name, parameter in models[0].named_parameters():
        torch.testing.assert_close(
            models[1].get_parameter(name).grad, parameter.grad, atol=1e-6, rtol=0
        )
        torch.testing.assert_close(models[1].get_parameter(name), parameter, atol=1e-6, rtol=0)


def test_accumulation_is_one_large_batch_for_whole_epochs() -> None:
    """37 pairs, so that the last group, and in it the last batch, are short."""
    rates, losses, models = [], [], []
    for accumulate, size in ((3, 5), (1, 15)):
        batches = Batches(data(n=37).pairs, batch_size=size)
        config = TrainConfig(
            epochs=7, warmup=5, peak_lr=0.02, accumulate=accumulate, log_every=1, amp=False
        )
        model = toy(dropout=0.0)
        history = fit(model, batches, config, progress=False)
        rates.append(history.column("lr"))
        losses.append(history.column("loss")[1])
        models.append(model.state_dict())
    assert rates[0] == rates[1]
    assert rates[0][0] == list(range(1, 22))  # a step for each update: 3 groups in an epoch
    assert rates[0][1] == [0.02 * 5**0.5 * min(n**-0.5, n * 5**-1.5) for n in range(1, 22)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    torch.testing.assert_close(models[0], models[1], atol=1e-5, rtol=0)


def test_updates_equal_a_loop_written_out() -> None:
    ours, plain = toy(dropout=0.0), toy(dropout=0.0)
    updater = Updater(ours, CONFIG, pad_id=0)
    adam = torch.optim.Adam(plain.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for number, batch in enumerate(data().epoch(0), start=1):
        updater.step(number, [batch])
        adam.param_groups[0]["lr"] = 0.02 * min(number / 5, (5 / number) ** 0.5)
        logits = plain(batch.source, batch.target_input).transpose(1, 2)  # (B, V, T)
        adam.zero_grad()
        F.cross_entropy(logits, batch.labels, ignore_index=0, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        adam.step()
    torch.testing.assert_close(dict(ours.named_parameters()), dict(plain.named_parameters()))


def test_r_drop_asks_twice_and_learns_from_both() -> None:
    ours, plain = toy(dropout=0.4), toy(dropout=0.4)
    batch = next(data().epoch(0))
    seen = []
    ours.output.register_forward_hook(lambda module, x, y: seen.append(y.detach()))
    ours.noise = plain.noise = 0.0
    torch.manual_seed(3)
    updater = Updater(
        ours, TrainConfig(**vars(CONFIG) | {"r_drop": 2.0, "clip_norm": None}), pad_id=0
    )
    assert updater.step(1, [batch]) == tokens_of(batch)
    one, two = seen[0].chunk(2)
    assert not torch.equal(one, two), "dropout must be drawn for each"
    torch.manual_seed(3)
    logits = plain(*(torch.cat((x, x)) for x in batch[:2])).chunk(2)
    loss = r_drop(*logits, batch.labels, pad_id=0, alpha=2.0, label_smoothing=0.1)
    loss.mean.backward()
    for parameter, expected in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad)
    assert updater.take_loss() == pytest.approx(loss.total.item())


def test_r_drop_without_dropout_is_nothing() -> None:
    models = []
    for alpha in (None, 5.0):
        model = toy(dropout=0.0)
        fit(model, data(), TrainConfig(**vars(CONFIG) | {"r_drop": alpha}), progress=False)
        models.append(model.state_dict())
    torch.testing.assert_close(models[0], models[1], atol=1e-5, rtol=0)


def test_fit_accumulates_within_an_epoch() -> None:
    config = TrainConfig(epochs=2, warmup=5, peak_lr=0.02, accumulate=3, log_every=1)
    _, history = run(None, config=config)
    tokens = sum(tokens_of(batch) for batch in data().epoch(0))
    steps, seen = history.column("tokens")
    assert steps == [1, 2, 3, 4, 5, 6]  # 8 batches: 3 + 3 + 2, twice
    assert seen[2] == tokens and seen[5] == 2 * tokens


def test_each_epoch_is_asked_for_in_turn() -> None:
    class Asked(Batches):
        def epoch(self, epoch: int):
            asked.append(epoch)
            return super().epoch(epoch)

    asked: list[int] = []
    batches = Asked(data().pairs, batch_size=5)
    asked.clear()
    fit(toy(), batches, TrainConfig(epochs=3, warmup=5, peak_lr=0.02), progress=False)
    assert asked == [0, 0, 1, 2]  # the first time for the fingerprint


def test_the_recorded_loss_is_per_token() -> None:
    model = toy()
    first = next(data().epoch(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    _, history = run(None, model, TrainConfig(max_steps=1, warmup=1, peak_lr=1e-9))
    assert history[0]["loss"] == pytest.approx(math.log(V))
    assert history[0]["tokens"] == tokens_of(first)


def test_adam_schedule_and_clipping() -> None:
    model = toy()
    model.config = transformer_lib.ModelConfig(vocab_size=V, d_model=8, n_heads=2)
    updater = Updater(model, TrainConfig(max_steps=1, warmup=2, clip_norm=0.01), pad_id=0)
    updater.step(1, [next(data().epoch(0))])
    (adam,) = updater.optimizers
    for settings in adam.param_groups:
        assert settings["lr"] == updater.lr == 8**-0.5 * 2**-1.5
        assert (settings["betas"], settings["eps"]) == ((0.9, 0.98), 1e-9)
        assert settings["weight_decay"] == 0
    clipped = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    assert updater.norm > 0.1
    assert clipped.item() == pytest.approx(0.01, rel=1e-3)


MUON = TrainConfig(**vars(CONFIG) | {"optimizer": "muon"})


def test_muon_moves_a_matrix_in_all_directions_alike_and_adam_the_rest() -> None:
    model, by_adam = toy(dropout=0.0), toy(dropout=0.0)
    batch = next(data().epoch(0))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for one, config in ((model, MUON), (by_adam, CONFIG)):
        updater = Updater(one, config, pad_id=0)
        updater.step(1, [batch])
    rate = 0.02 / 5
    moved = (model.output.weight - before["output.weight"]).detach()
    sizes = torch.linalg.svdvals(moved) / (rate * 0.2 * V**0.5)  # the size of Adam's: 0.2 each
    assert sizes[:-1].min() > 0.5 and sizes.max() < 1.3
    theirs = torch.linalg.svdvals(by_adam.output.weight.detach() - before["output.weight"])
    assert theirs[0] > 3 * theirs[-2]
    for name, parameter in model.named_parameters():
        if name != "output.weight":
            assert torch.equal(parameter, by_adam.get_parameter(name)), name


def test_muon_resumes_in_the_same_bits(tmp_path: Path) -> None:
    whole, _ = run(None, config=MUON)
    run(tmp_path, config=TrainConfig(**vars(MUON) | {"epochs": 2}))
    again, _ = run(tmp_path, config=MUON)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_muon_leaves_what_is_frozen_and_needs_a_matrix() -> None:
    frozen = toy()
    frozen.output.weight.requires_grad_(False)
    with pytest.raises(ValueError, match=r"the model has no nn\.Linear to train"):
        Updater(frozen, MUON, pad_id=0)
    lone = nn.Linear(3, 4, bias=False)
    (muon,) = Updater(lone, MUON, pad_id=0).optimizers
    assert isinstance(muon, torch.optim.Muon)


def test_a_batch_of_nothing_but_padding_harms_nobody() -> None:
    model = toy()
    updater = Updater(model, CONFIG, pad_id=0)
    batch = next(data().epoch(0))
    assert updater.step(1, [batch._replace(labels=torch.zeros_like(batch.labels))]) == 0
    assert updater.take_loss() == 0
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_mixed_precision_keeps_parameters_and_loss_in_float32() -> None:
    config = TrainConfig(max_steps=3, warmup=5, peak_lr=0.02, amp=True, log_every=1)
    seen = []
    model = toy()
    model.output.register_forward_hook(lambda module, x, y: seen.append(y.dtype))
    _, history = run(None, model, config, validate=None)
    assert set(seen) == {torch.bfloat16}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(math.isfinite(loss) for loss in history.column("loss")[1])


# Records and validation


def test_records(unbroken: Path) -> None:
    history = History.read(unbroken / "log.jsonl")
    steps, losses = history.column("loss")
    assert steps == [4, 8, 12, 16, 20, 24, 28, 32]
    assert losses[-1] < losses[0]
    assert history.column("val_loss")[0] == [8, 16, 24, 32]  # every epoch of 8 batches
    assert history.column("epoch")[1][-1] == 4
    training = {"step", "epoch", "seconds", "loss", "lr", "tokens", "tokens_per_second"}
    assert history[0].keys() == training | {"gradient_norm"}
    best = load_checkpoint(unbroken / "best.pt")
    assert best["val_loss"] == min(history.column("val_loss")[1])


def test_steps_and_validations_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "time", clock())  # each takes one second
    _, history = run(None)
    assert history.column("seconds")[1][:4] == [4, 8, 9, 13]  # the third: after a validation
    assert history[0]["tokens_per_second"] == round(history[0]["tokens"] / 4, 1)


def test_validation_sees_an_evaluating_model_without_gradients() -> None:
    seen = []

    def validate(model: nn.Module, epoch: int) -> dict[str, float]:
        seen.append((epoch, model.training, torch.is_grad_enabled()))
        return {"score": torch.tensor(0.5)}

    model = toy().eval()
    config = TrainConfig(max_steps=10, warmup=5, peak_lr=0.02, validate_every=4)
    _, history = run(None, model, config, validate=validate)
    assert seen == [(0, False, False), (1, False, False), (1, False, False)]
    assert history.column("val_score") == ([4, 8, 10], [0.5, 0.5, 0.5])
    assert not model.training  # as it came


def test_a_number_of_numpy_is_as_good_as_one_of_python(tmp_path: Path) -> None:
    _, history = run(tmp_path, validate=lambda model, epoch: {"loss": np.float32(0.5)})
    assert history.column("val_loss") == ([8, 16, 24, 32], [0.5] * 4)


@pytest.mark.parametrize("value", [object(), np.ones(2), torch.ones(2)])
def test_what_cannot_be_recorded_is_named_and_the_epoch_saved(value, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"must return what JSON can hold.* its 'bad' is a"):
        run(tmp_path, validate=lambda model, epoch: {"bad": value})
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] == 8


def test_a_loss_is_a_number() -> None:
    with pytest.raises(TypeError, match="validate must return a number as 'loss', got None"):
        run(None, validate=lambda model, epoch: {"loss": None})


def test_an_epoch_is_saved_before_its_validation_fails(tmp_path: Path, unbroken: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run(tmp_path, validate=lambda model, epoch: {"loss": 1 / 0})
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] == 8
    run(tmp_path)
    assert_same_run(tmp_path, unbroken)


def test_what_is_frozen_in_evaluation_mode_stays_so() -> None:
    model, seen = toy(), []
    model.dropout.eval()
    model.dropout.register_forward_hook(
        lambda module, *_: seen.append((torch.is_grad_enabled(), model.training, module.training))
    )
    config = TrainConfig(max_steps=10, warmup=5, peak_lr=0.02, validate_every=4)
    run(None, model, config)
    assert set(seen) == {(True, True, False), (False, False, False)}  # training, validation
    assert model.training and model.output.training and not model.dropout.training
    evaluate(model, data())
    assert model.training and model.output.training and not model.dropout.training


@pytest.mark.parametrize("fails", ["", "step", "validation", "clearing", "Ctrl-C"])
def test_the_log_is_closed_on_every_way_out(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, ways = [], {"": (), "Ctrl-C": (KeyboardInterrupt,)}
    monkeypatch.setattr(RunLog, "close", lambda log: closed.append(log))

    def fail(*_: object) -> None:
        raise OSError(fails)

    def at_step(now: int) -> None:
        if fails == "step":
            fail()
        if fails == "Ctrl-C":
            signal.raise_signal(signal.SIGINT)

    if fails == "clearing":
        monkeypatch.setattr(Folder, "clear", fail)
    validate = fail if fails == "validation" else (lambda model, epoch: {})
    error = ways.get(fails, (OSError,))
    with pytest.raises(error) if error else nullcontext():
        run(tmp_path, toy(at_step=at_step), validate=validate)
    assert len(closed) == 1


@pytest.mark.parametrize("used", [0, 3])
def test_the_groups_are_those_of_the_epochs_whoever_asks_and_when(used: int) -> None:
    config = TrainConfig(**vars(CONFIG) | {"accumulate": 3})
    session = Session(toy(), data(), config, Folder(None, Ranks()), resume=False)
    session.progress.epoch, session.progress.index = 1, used
    groups = [group for group, _ in islice(session.groups(), 5)]  # without a step between
    batches = [*list(data().epoch(1))[used:], *data().epoch(2)]
    found = [batch for group in groups for batch in group]
    for batch, expected in zip(found, batches, strict=False):
        assert torch.equal(batch.source, expected.source)
    sizes = [3, 3, 2, 3, 3] if used == 0 else [3, 2, 3, 3, 2]
    assert [len(group) for group in groups] == sizes


def test_evaluate_counts_tokens_not_batches() -> None:
    model, batches = toy(), data()
    metrics = evaluate(model, batches)
    whole = Batches(batches.pairs, batch_size=len(batches.pairs), shuffle=False)
    assert metrics == pytest.approx(evaluate(model, whole), rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    assert model.training
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.zero_()
        assert evaluate(model, batches)["loss"] == pytest.approx(math.log(V))
        model.output.bias[2] = 100.0  # says <eos> always: one token of each pair
    tokens = sum(tokens_of(batch) for batch in batches.epoch(0))
    assert evaluate(model, batches)["accuracy"] == pytest.approx(36 / tokens)


def test_the_best_model_is_that_of_the_lowest_loss(tmp_path: Path) -> None:
    losses, models = iter([3.0, 1.0, 2.0, 1.5]), []

    def validate(model: nn.Module, epoch: int) -> dict[str, float]:
        models.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"loss": next(losses)}

    run(tmp_path, validate=validate)
    best = load_checkpoint(tmp_path / "best.pt")
    assert (best["step"], best["val_loss"]) == (16, 1.0)
    assert_same_bits(dict(best["model"]), models[1])


def test_the_bar_goes_to_the_error_stream(capsys: pytest.CaptureFixture) -> None:
    fit(toy(), data(), CONFIG, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "32/32" in captured.err


def test_without_progress_and_directory_nothing_is_written(
    capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(None)
    captured = capsys.readouterr()
    assert (captured.out, captured.err, os.listdir(tmp_path)) == ("", "", [])


def test_every_line_of_the_log_is_json(unbroken: Path) -> None:
    for line in (unbroken / "log.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


# Errors


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epochs": None}, ValueError, "max_steps or epochs"),
        ({"epochs": 0}, ValueError, "epochs.*got 0"),
        ({"epochs": "3"}, TypeError, "epochs.*got '3'"),
        ({"max_steps": 1.5}, TypeError, "max_steps.*got 1.5"),
        ({"patience": 0}, ValueError, "patience.*got 0"),
        ({"warmup": 0}, ValueError, "warmup.*got 0"),
        ({"warmup": None}, TypeError, "warmup.*got None"),
        ({"cooldown": 0}, ValueError, "cooldown.*got 0"),
        ({"accumulate": 0}, ValueError, "accumulate.*got 0"),
        ({"accumulate": True}, TypeError, "accumulate.*got True"),
        ({"log_every": None}, TypeError, "log_every.*got None"),
        ({"keep_last": 0}, ValueError, "keep_last.*got 0"),
        ({"peak_lr": -1.0}, ValueError, "peak_lr must be.*above 0, got -1.0"),
        ({"peak_lr": math.nan}, ValueError, "peak_lr.*got nan"),
        ({"peak_lr": "0.1"}, TypeError, "peak_lr.*got '0.1'"),
        ({"r_drop": 0.0}, ValueError, "r_drop.*got 0.0"),
        ({"r_drop": "5"}, TypeError, "r_drop.*got '5'"),
        ({"clip_norm": 0.0}, ValueError, "clip_norm.*got 0.0"),
        ({"eps": 0.0}, ValueError, "eps.*got 0.0"),
        ({"eps": None}, TypeError, "eps.*got None"),
        ({"betas": (0.9, 1.0)}, ValueError, "betas.*got 1.0"),
        ({"betas": (0.9, math.nan)}, ValueError, "betas.*got nan"),
        ({"betas": 0.9}, TypeError, "betas must be two numbers.*got 0.9"),
        ({"betas": (0.9, 0.98, 0.99)}, ValueError, "betas must be two numbers"),
        ({"label_smoothing": 1.0}, ValueError, "label_smoothing.*got 1.0"),
        ({"seed": -1}, ValueError, "seed.*got -1"),
        ({"seed": 2**63}, ValueError, "seed must be below"),
        ({"amp": "half"}, ValueError, "amp must be True or .*, got 'half'"),
        ({"amp": torch.ones(2)}, ValueError, "amp"),
        ({"compile": 1}, ValueError, "compile must be True or False, got 1"),
        ({"optimizer": "sgd"}, ValueError, "optimizer must be 'adam' or .*'muon', got 'sgd'"),
        ({"optimizer": "muon", "parallel": "fsdp"}, ValueError, "optimizer must be 'adam' with"),
        ({"weight_decay": 0.1}, ValueError, "weight_decay must be 0 with optimizer='adam'"),
        ({"weight_decay": -1, "optimizer": "adamw"}, ValueError, "weight_decay.*got -1"),
        ({"schedule": "cosine", "cooldown": 5}, ValueError, "cooldown must be None with"),
        ({"schedule": "linear"}, ValueError, "schedule must be .*, got 'linear'"),
        ({"amp": "float16", "parallel": "fsdp"}, ValueError, "amp must be 'bfloat16' with"),
        ({"parallel": "tensor"}, ValueError, "parallel must be 'ddp' or 'fsdp', got 'tensor'"),
        ({"tensorboard": None}, ValueError, "tensorboard.*got None"),
    ],
)
def test_config_errors_name_the_argument(
    change: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TrainConfig(**{"epochs": 1} | change)


def test_betas_may_come_from_json() -> None:
    config = TrainConfig(epochs=1, betas=(0.8, 0.9))
    assert TrainConfig(**json.loads(json.dumps(vars(config)))) == config


def test_fit_errors(tmp_path: Path) -> None:
    class Nothing:
        def epoch(self, epoch: int):
            return iter(())

        def __len__(self) -> int:
            return 0

    with pytest.raises(ValueError, match=r"batches\.epoch\(0\) must give at least one batch"):
        fit(toy(), Nothing(), CONFIG, progress=False)
    with pytest.raises(ValueError, match="peak_lr must be given"):
        fit(toy(), data(), TrainConfig(epochs=1), progress=False)
    with pytest.raises(ValueError, match="must have parameters"):
        fit(nn.ReLU(), data(), CONFIG, progress=False)
    with pytest.raises(TypeError, match="model must be a Module, got list"):
        fit([], data(), CONFIG)
    with pytest.raises(TypeError, match=r"batches must have epoch\(\) and a length, got list"):
        fit(toy(), [], CONFIG)
    with pytest.raises(TypeError, match="config must be a TrainConfig, got dict"):
        fit(toy(), data(), {})
    with pytest.raises(TypeError, match="validate must be a function, got int"):
        fit(toy(), data(), CONFIG, validate=3)
    with pytest.raises(ValueError, match=r"resume must be.*got tensor"):
        run(None, resume=torch.ones(2))
    with pytest.raises(ValueError, match=r"resume must be.*got array"):
        run(None, resume=np.ones(2))
    with pytest.raises(TypeError, match="directory must be a path, got 3"):
        fit(toy(), data(), CONFIG, directory=3)
    with pytest.raises(ValueError, match=r"directory must be a folder, but .*\.py is not one"):
        fit(toy(), data(), CONFIG, directory=__file__)
    with pytest.raises(TypeError, match="validate must return a dict, got float"):
        run(None, validate=lambda model, epoch: 1.0)

    class Lists(Nothing):
        def epoch(self, epoch: int):
            return iter([[torch.ones(2, 3)]])

    with pytest.raises(TypeError, match="batches must give tuples of tensors, got list"):
        fit(toy(), Lists(), CONFIG, progress=False)

    class Texts(Nothing):
        def epoch(self, epoch: int):
            return iter([("ein", "one")])

    with pytest.raises(TypeError, match="batches must give tuples of tensors, got one with a str"):
        fit(toy(), Texts(), CONFIG, progress=False)

    with pytest.raises(TypeError, match="progress must be True or False, got 3"):
        fit(toy(), data(), CONFIG, progress=3)
    for call in (lambda m: fit(m, data(), CONFIG), lambda m: evaluate(m, data())):
        with pytest.raises(TypeError, match=r"batches must give model's arguments.* got 3 tensors"):
            call(nn.Linear(2, 3))


def test_evaluate_errors() -> None:
    with pytest.raises(TypeError, match="model must be a Module, got str"):
        evaluate("model", data())
    with pytest.raises(TypeError, match="batches must have epoch"):
        evaluate(toy(), [])
    padding = [batch._replace(labels=batch.labels * 0) for batch in data().epoch(0)]
    batches = SimpleNamespace(epoch=lambda epoch: padding, special_ids=SpecialIds())
    with pytest.raises(ValueError, match="batches must hold at least one token"):
        evaluate(toy(), batches)


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))


def test_linear_weights_decay_and_nothing_else() -> None:
    config = TrainConfig(max_steps=1, warmup=1, peak_lr=0.5, optimizer="adamw", weight_decay=0.2)
    model = toy()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    (adam,) = Updater(model, config, pad_id=0).optimizers
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for group in adam.param_groups:
        group["lr"] = 0.5
    adam.step()
    for name, parameter in model.named_parameters():
        kept = 0.9 if name == "output.weight" else 1.0  # 1 - lr * weight_decay
        assert torch.equal(parameter, before[name] * kept), name


def test_the_cosine_ends_with_the_run_and_fixes_its_length(tmp_path: Path) -> None:
    cosine = vars(CONFIG) | {"schedule": "cosine", "log_every": 1}
    _, history = run(tmp_path, config=TrainConfig(**cosine))
    steps, rates = history.column("lr")
    peak = max(rates)
    assert rates.index(peak) == CONFIG.warmup - 1
    assert rates == [
        pytest.approx(cosine_schedule(i, warmup=CONFIG.warmup, last_step=steps[-1], peak=peak))
        for i in steps
    ]
    with pytest.raises(ValueError, match="epochs"):
        run(tmp_path, config=TrainConfig(**cosine | {"epochs": CONFIG.epochs + 1}))


FLOAT16 = TrainConfig(**vars(CONFIG) | {"amp": "float16"})


def test_float16_scales_the_loss_and_skips_what_overflows(monkeypatch) -> None:
    model = toy(dropout=0.0)
    updater = Updater(model, FLOAT16, pad_id=0)
    batch = next(data().epoch(0))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    updater.scaler._init_scale = 2.0**24  # as float16, the largest number is below 2**16
    updater.step(1, [batch])
    assert updater.scaler.get_scale() == 2.0**23
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert math.isfinite(updater.take_loss())
    updater.scaler.update(1024.0)
    updater.step(2, [batch])
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())
    plain = toy(dropout=0.0)
    same = Updater(plain, CONFIG, pad_id=0)
    same.step(2, [batch])
    torch.testing.assert_close(updater.norm, same.norm, rtol=0.01, atol=0)  # without the scale


def test_float16_resumes_in_the_same_bits(tmp_path: Path) -> None:
    whole, _ = run(tmp_path / "whole", config=FLOAT16)
    run(tmp_path / "parts", config=TrainConfig(**vars(FLOAT16) | {"epochs": 2}))
    again, _ = run(tmp_path / "parts", config=FLOAT16)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    scalers = [
        load_checkpoint(tmp_path / n / "checkpoint.pt")["scaler"] for n in ("whole", "parts")
    ]
    assert scalers[0] == scalers[1] and scalers[0]["_growth_tracker"] > 0


@pytest.mark.parametrize("native", [True, False])
def test_a_gpu_that_only_emulates_bfloat16_gets_float16(native, monkeypatch) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return including_emulation or native

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    wanted = torch.bfloat16 if native else torch.float16
    assert _half("auto", torch.device("cuda")) is _half(True, torch.device("cuda")) is wanted
    assert _half("auto", torch.device("cpu")) is _half(False, torch.device("cuda")) is None
    assert _half("float16", torch.device("cpu")) is torch.float16
