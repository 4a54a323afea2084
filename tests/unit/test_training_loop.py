"""The loop, above all: a run that was stopped in any way ends with the bits of one that wasn't."""

import json
import math
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from same_run import assert_same_bits, assert_same_run
from torch import Tensor, nn

import transformer_lib
from transformer_lib.config import SpecialIds
from transformer_lib.data import Batch, Batches
from transformer_lib.training import (
    History,
    TrainConfig,
    cosine_schedule,
    evaluate,
    fit,
    inverse_sqrt_schedule,
    load_checkpoint,
    loop,
    r_drop,
)
from transformer_lib.training.checkpoint import Folder
from transformer_lib.training.distributed import Ranks
from transformer_lib.training.loop import Session
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


def sent_at(step: int, signum: int = signal.SIGINT):
    """A toy's ``at_step`` that gets a signal, Ctrl-C, in one step."""
    return lambda now: signal.raise_signal(signum) if now == step else None


def tokens_of(batch: Batch) -> int:
    return int((batch.labels != 0).sum())


os.fsync = lambda file: None  # the disk isn't what is tested here


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


# Stopped in every way


def _die_while_saving(n: int) -> None:
    replace, saves = os.replace, 0

    def die(*paths) -> None:
        nonlocal saves
        saves += str(paths[1]).endswith(".pt")
        if saves == n:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*paths)

    os.replace = die
    run(Path(sys.argv[2]))


def test_a_cooldown_can_be_added_when_a_run_is_resumed(tmp_path: Path) -> None:
    settings = {"warmup": 5, "peak_lr": 0.02, "log_every": 1}
    run(tmp_path, config=TrainConfig(epochs=2, **settings))
    _, history = run(tmp_path, config=TrainConfig(epochs=3, cooldown=4, **settings))
    steps, rates = history.column("lr")
    assert steps == list(range(1, 25))
    plain = [inverse_sqrt_schedule(step, warmup=5, peak=0.02) for step in steps]
    shares = [1.0] * 20 + [0.8, 0.6, 0.4, 0.2]
    assert rates == pytest.approx([rate * share for rate, share in zip(plain, shares, strict=True)])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_and_resumed_ends_in_the_same_bits(tmp_path: Path, unbroken: Path) -> None:
    when = random.SystemRandom().randint(2, 12)  # any will do; a failure shows which
    home = Path(transformer_lib.__file__).parents[1]
    killed = subprocess.run(
        [sys.executable, __file__, str(when), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(home), "OMP_NUM_THREADS": "1"},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] < 32
    run(tmp_path, resume=True)
    assert_same_run(tmp_path, unbroken)
    assert not list(tmp_path.glob(".*")), "temporary files were left"


# Step 12 is logged, 13 isn't.
@pytest.mark.parametrize(("signum", "step"), [(signal.SIGINT, 12), (signal.SIGTERM, 13)])
def test_a_signal_in_a_step_finishes_the_step(
    signum: int, step: int, tmp_path: Path, unbroken: Path
) -> None:
    before = signal.getsignal(signum)
    with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
        run(tmp_path, toy(at_step=sent_at(step, signum)))
    assert caught.type is KeyboardInterrupt or caught.value.code == 143
    assert signal.getsignal(signum) is before
    assert load_checkpoint(tmp_path / "checkpoint.pt")["progress"]["step"] == step
    with open(tmp_path / "log.jsonl", "a") as log:
        log.write('{"step": 40}\n')  # as if it had continued, and been killed
    run(tmp_path)
    assert_same_run(tmp_path, unbroken)


@pytest.mark.parametrize("epoch", [2, 4])  # the last one, too
def test_ctrl_c_in_validation_stops_at_once_and_loses_nothing(epoch: int, tmp_path: Path) -> None:
    config = replace(CONFIG, checkpoint_every=None, keep_last=3)

    def interrupted(model: nn.Module, now: int) -> dict[str, float]:
        if now == epoch:
            signal.raise_signal(signal.SIGINT)
            pytest.fail("validation continued")
        return evaluate(model, data(seed=3, n=7))

    run(tmp_path / "whole", config=config)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", config=config, validate=interrupted)
    run(tmp_path / "cut", config=config)
    run(tmp_path / "cut", config=config, validate=lambda *_: pytest.fail("it validates again"))
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
    assert kept(tmp_path / "cut") == kept(tmp_path / "whole") == [16, 24, 32]


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


def test_a_bad_gradient_after_a_good_loss_stops_too() -> None:
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


def test_a_finished_run_can_be_trained_longer_or_started_over(
    tmp_path: Path, unbroken: Path
) -> None:
    run(tmp_path, config=replace(CONFIG, seed=5))
    run(tmp_path, config=replace(CONFIG, epochs=2), resume=False)
    run(tmp_path)
    assert_same_run(tmp_path, unbroken)


def test_resuming_a_finished_run_changes_nothing(unbroken: Path) -> None:
    before = (unbroken / "log.jsonl").read_bytes()
    _, history = run(unbroken)
    assert (unbroken / "log.jsonl").read_bytes() == before
    assert history == History.read(unbroken / "log.jsonl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": replace(CONFIG, warmup=6)}, "warmup is 5 there, 6 here. Choose another f"),
        ({"batches": data(seed=1)}, "data is"),
        ({"model": Toy(dropout=0.3)}, r"model is 'Toy\("),
    ],
)
def test_a_different_run_is_refused(change: dict, message: str, unbroken: Path) -> None:
    before = {path: path.read_bytes() for path in unbroken.iterdir()}
    arguments = {"model": toy(), "batches": data(), "config": CONFIG} | change
    with pytest.raises(ValueError, match=message):
        fit(**arguments, directory=unbroken, progress=False)
    assert {path: path.read_bytes() for path in unbroken.iterdir()} == before


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


# The models that are kept


KEEPING = replace(CONFIG, keep_last=3, checkpoint_every=5)


def kept(folder: Path) -> list[int]:
    return [int(path.stem.removeprefix("step-")) for path in sorted(folder.glob("step-*.pt"))]


def test_kept_models_are_those_of_an_unbroken_run(tmp_path: Path) -> None:
    run(tmp_path / "whole", config=KEEPING)
    assert kept(tmp_path / "whole") == [25, 30, 32]  # at intervals, and the end; never step 0
    for ahead in (13, 1, 1):  # stopped after steps 13, 14 and 15
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut", toy(at_step=sent_at(ahead)), KEEPING)
        assert kept(tmp_path / "cut") == [5, 10]
        later = tmp_path / "cut" / "step-00000016.pt"  # as if it had continued, and been killed
        later.write_bytes((tmp_path / "cut" / "step-00000010.pt").read_bytes())
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


COMPILED = replace(CONFIG, compile=True)


@pytest.mark.slow
def test_a_compiled_run_and_a_plain_one_can_continue_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs: list[int] = []

    def counting(graph, inputs):
        """Dynamo's own graphs, run as they are."""
        graphs.append(len(inputs))
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counting))
    run(tmp_path / "plain", toy(dropout=0.0))
    assert not graphs
    run(tmp_path / "first", toy(dropout=0.0), replace(COMPILED, epochs=2))
    assert graphs
    run(tmp_path / "first", toy(dropout=0.0), resume=True)
    run(tmp_path / "second", toy(dropout=0.0), replace(CONFIG, epochs=2))
    run(tmp_path / "second", toy(dropout=0.0), COMPILED, resume=True)
    for folder in ("first", "second"):
        assert_same_run(tmp_path / folder, tmp_path / "plain")


# The arithmetic


def test_accumulation_is_one_large_batch_for_whole_epochs() -> None:
    """37 pairs, so that the last group, and in it the last batch, are short."""
    rates, losses, models = [], [], []
    for accumulate, size in ((3, 5), (1, 15)):
        batches = Batches(data(n=37).pairs, batch_size=size)
        assert len({tokens_of(batch) for batch in batches.epoch(0)}) > 1, "counts must be uneven"
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
        updater.step(number, [batch], 1)
        adam.param_groups[0]["lr"] = 0.02 * min(number / 5, (5 / number) ** 0.5)
        logits = plain(batch.source, batch.target_input).transpose(1, 2)  # (B, V, T)
        adam.zero_grad()
        F.cross_entropy(logits, batch.labels, ignore_index=0, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        adam.step()
    torch.testing.assert_close(dict(ours.named_parameters()), dict(plain.named_parameters()))


def test_r_drop_runs_a_batch_twice_and_learns_from_both() -> None:
    ours, plain = toy(dropout=0.4), toy(dropout=0.4)
    batch = next(data().epoch(0))
    seen = []
    ours.output.register_forward_hook(lambda module, x, y: seen.append(y.detach()))
    ours.noise = plain.noise = 0.0
    torch.manual_seed(3)
    updater = Updater(ours, replace(CONFIG, r_drop=2.0, clip_norm=None), pad_id=0)
    assert updater.step(1, [batch], 1) == tokens_of(batch)
    one, two = seen[0].chunk(2)
    assert not torch.equal(one, two), "dropout must be drawn for each"
    torch.manual_seed(3)
    logits = plain(*(torch.cat((x, x)) for x in batch[:2])).chunk(2)
    loss = r_drop(*logits, batch.labels, pad_id=0, alpha=2.0, label_smoothing=0.1)
    loss.mean.backward()
    for parameter, expected in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad)
    assert updater.take_loss() == pytest.approx(loss.total.item())


def test_the_logged_loss_is_per_token() -> None:
    model = toy()
    first = next(data().epoch(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    _, history = run(None, model, TrainConfig(max_steps=1, warmup=1, peak_lr=1e-9))
    assert history[0]["loss"] == pytest.approx(math.log(V))
    assert history[0]["tokens"] == tokens_of(first)


def test_the_peak_of_the_paper_depends_on_the_width() -> None:
    model = toy()
    model.config = transformer_lib.ModelConfig(vocab_size=V, d_model=8, n_heads=2)
    updater = Updater(model, TrainConfig(max_steps=1, warmup=2), pad_id=0)
    updater.step(1, [next(data().epoch(0))], 1)
    assert updater.optimizers[0].param_groups[0]["lr"] == 8**-0.5 * 2**-1.5


MUON = replace(CONFIG, optimizer="muon")


def test_muon_moves_a_matrix_in_all_directions_alike_and_adam_the_rest() -> None:
    model, by_adam = toy(dropout=0.0), toy(dropout=0.0)
    batch = next(data().epoch(0))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for one, config in ((model, MUON), (by_adam, CONFIG)):
        updater = Updater(one, config, pad_id=0)
        updater.step(1, [batch], 1)
    rate = 0.02 / 5
    moved = (model.output.weight - before["output.weight"]).detach()
    sizes = torch.linalg.svdvals(moved) / (rate * 0.2 * V**0.5)  # the size of Adam's: 0.2 each
    assert sizes[:-1].min() > 0.5 and sizes.max() < 1.3
    theirs = torch.linalg.svdvals(by_adam.output.weight.detach() - before["output.weight"])
    assert theirs[0] > 3 * theirs[-2]
    for name, parameter in model.named_parameters():
        if name != "output.weight":
            assert torch.equal(parameter, by_adam.get_parameter(name)), name


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
    cosine = replace(CONFIG, schedule="cosine", log_every=1)
    steps, rates = run(tmp_path, config=cosine)[1].column("lr")
    assert rates == [
        pytest.approx(cosine_schedule(i, warmup=5, last_step=steps[-1], peak=0.02)) for i in steps
    ]
    with pytest.raises(ValueError, match="epochs"):
        run(tmp_path, config=replace(cosine, epochs=CONFIG.epochs + 1))


FLOAT16 = replace(CONFIG, amp="float16")


def test_float16_scales_the_loss_and_skips_what_overflows() -> None:
    model = toy(dropout=0.0)
    updater = Updater(model, FLOAT16, pad_id=0)
    batch = next(data().epoch(0))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    updater.scaler._init_scale = 2.0**24  # as float16, the largest number is below 2**16
    updater.step(1, [batch], 1)
    assert updater.scaler.get_scale() == 2.0**23
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert math.isfinite(updater.take_loss())
    updater.scaler.update(1024.0)
    updater.step(2, [batch], 1)
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())
    same = Updater(toy(dropout=0.0), CONFIG, pad_id=0)
    same.step(2, [batch], 1)
    torch.testing.assert_close(updater.norm, same.norm, rtol=0.01, atol=0)  # without the scale


@pytest.mark.parametrize("native", [True, False])
def test_a_gpu_that_only_emulates_bfloat16_gets_float16(native, monkeypatch) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return including_emulation or native

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    wanted = torch.bfloat16 if native else torch.float16
    assert _half("auto", torch.device("cuda")) is _half(True, torch.device("cuda")) is wanted
    assert _half("auto", torch.device("cpu")) is _half(False, torch.device("cuda")) is None
    assert _half("float16", torch.device("cpu")) is torch.float16


@pytest.mark.parametrize("config", [MUON, FLOAT16], ids=["muon", "float16"])
def test_all_optimizers_and_the_scaler_resume_in_the_same_bits(config, tmp_path: Path) -> None:
    run(tmp_path / "whole", config=config)
    run(tmp_path / "parts", config=replace(config, epochs=2))
    run(tmp_path / "parts", config=config)
    assert_same_run(tmp_path / "parts", tmp_path / "whole")
    scaler = load_checkpoint(tmp_path / "parts" / "checkpoint.pt")["scaler"]
    assert bool(scaler) == (config is FLOAT16)


def test_a_batch_of_nothing_but_padding_does_no_harm() -> None:
    model = toy()
    updater = Updater(model, CONFIG, pad_id=0)
    batch = next(data().epoch(0))
    assert updater.step(1, [batch._replace(labels=torch.zeros_like(batch.labels))], 1) == 0
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


# The log and validation


def test_the_log(unbroken: Path) -> None:
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
    for line in (unbroken / "log.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} isn't JSON"))


def test_steps_and_validations_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(perf_counter=count().__next__)  # each takes one second
    monkeypatch.setattr(loop, "time", clock)
    _, history = run(None)
    assert history.column("seconds")[1][:4] == [4, 8, 9, 13]  # the third: after a validation
    assert history[0]["tokens_per_second"] == round(history[0]["tokens"] / 4, 1)


def test_validation_sees_an_evaluating_model_without_gradients() -> None:
    seen = []

    def validate(model: nn.Module, epoch: int) -> dict[str, Any]:
        seen.append((epoch, model.training, torch.is_grad_enabled()))
        return {"score": torch.tensor(0.5), "loss": np.float32(0.5)}

    model = toy().eval()
    config = TrainConfig(max_steps=10, warmup=5, peak_lr=0.02, validate_every=4)
    _, history = run(None, model, config, validate=validate)
    assert seen == [(0, False, False), (1, False, False), (1, False, False)]
    for name in ("val_score", "val_loss"):
        assert history.column(name) == ([4, 8, 10], [0.5, 0.5, 0.5])
    assert model.calls == 10 and not model.training  # trained in training mode, then as before


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


@pytest.mark.parametrize("used", [0, 3])
def test_the_groups_of_batches_do_not_depend_on_the_steps_taken(used: int) -> None:
    config = replace(CONFIG, accumulate=3)
    session = Session(toy(), data(), config, Folder(None, Ranks()), resume=False, settings={})
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
        model.output.bias[2] = 100.0  # always predicts <eos>: one token per pair
    tokens = sum(tokens_of(batch) for batch in batches.epoch(0))
    assert evaluate(model, batches)["accuracy"] == pytest.approx(36 / tokens)


def test_the_best_model_is_that_of_the_lowest_loss_and_the_last_ones_are_kept(
    tmp_path: Path,
) -> None:
    losses, models = iter([3.0, 1.0, 2.0, 1.5]), []

    def validate(model: nn.Module, epoch: int) -> dict[str, float]:
        models.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"loss": next(losses)}

    run(tmp_path, config=replace(CONFIG, checkpoint_every=8, keep_last=2), validate=validate)
    best = load_checkpoint(tmp_path / "best.pt")
    assert (best["step"], best["val_loss"]) == (16, 1.0)
    assert_same_bits(best["model"], models[1])
    assert kept(tmp_path) == [24, 32]
    state = load_checkpoint(tmp_path / "step-00000024.pt")
    assert state.keys() == {"model", "step"} and state["step"] == 24
    assert_same_bits(state["model"], models[2])


def test_the_bar_goes_to_the_error_stream_and_can_be_turned_off(
    capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(toy(), data(), CONFIG, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "32/32" in err
    monkeypatch.chdir(tmp_path)
    run(None)
    assert capsys.readouterr() == ("", "") and os.listdir(tmp_path) == []


# Errors


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epochs": None}, ValueError, "max_steps or epochs"),
        ({"warmup": None}, TypeError, "warmup.*got None"),
        ({"peak_lr": -1.0}, ValueError, "peak_lr must be.*above 0, got -1.0"),
        ({"betas": (0.9, 1.0)}, ValueError, "betas.*got 1.0"),
        ({"seed": 2**63}, ValueError, "seed must be below"),
        ({"optimizer": "sgd"}, ValueError, "optimizer must be 'adam' or .*'muon', got 'sgd'"),
        ({"optimizer": "muon", "parallel": "fsdp"}, ValueError, "optimizer must be 'adam' with"),
        ({"weight_decay": 0.1}, ValueError, "weight_decay must be 0 with optimizer='adam'"),
        ({"schedule": "cosine", "cooldown": 5}, ValueError, "cooldown must be None with"),
        ({"amp": "float16", "parallel": "fsdp"}, ValueError, "amp must be 'bfloat16' with"),
    ],
)
def test_config_errors_name_the_argument(
    change: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TrainConfig(**{"epochs": 1} | change)


def test_betas_can_come_from_json() -> None:
    config = TrainConfig(epochs=1, betas=(0.8, 0.9))
    assert TrainConfig(**json.loads(json.dumps(vars(config)))) == config


class Given:
    """Batches of nothing but the one that is given, if any."""

    def __init__(self, *batches) -> None:
        self.batches = batches

    def epoch(self, epoch: int):
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": nn.ReLU()}, "model must have parameters"),
        ({"model": nn.Linear(2, 3)}, "batches must give model's arguments.* got 3 tensors"),
        ({"batches": Given()}, r"batches\.epoch\(0\) must give at least one batch"),
        ({"batches": Given(("ein", "one"))}, "tuples of tensors, got one with a str"),
        ({"config": TrainConfig(epochs=1)}, "peak_lr must be given"),
        ({"validate": lambda model, epoch: 1.0}, "validate must return a dict, got float"),
        ({"validate": lambda model, epoch: {"loss": None}}, "return a number as 'loss', got None"),
        ({"validate": lambda *_: {"a": {1}}}, "what JSON can hold.* got a set"),
        ({"validate": lambda *_: {"a": torch.ones(2)}}, "what JSON can hold.* got a Tensor"),
    ],
)
def test_fit_errors(change: dict, message: str) -> None:
    given = {"model": toy(), "batches": data(), "config": CONFIG, "progress": False} | change
    with pytest.raises((TypeError, ValueError), match=message):
        fit(**given)


def test_evaluate_errors() -> None:
    padding = [batch._replace(labels=batch.labels * 0) for batch in data().epoch(0)]
    batches = SimpleNamespace(epoch=lambda epoch: padding, special_ids=SpecialIds())
    for model, given, message in (
        (nn.Linear(2, 3), data(), "batches must give model's arguments.* got 3 tensors"),
        (toy(), batches, "batches must hold at least one token"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            evaluate(model, given)


if __name__ == "__main__":
    _die_while_saving(int(sys.argv[1]))
