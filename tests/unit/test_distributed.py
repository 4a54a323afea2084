"""Two processes under torchrun compute what one does, and survive what one survives."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from same_run import assert_same_run, without_clocks
from test_training_loop import V
from test_training_loop import data as batches_of
from torch import nn

import transformer_lib
from transformer_lib import ModelConfig, Transformer
from transformer_lib.decoding import greedy
from transformer_lib.training import (
    History,
    TrainConfig,
    distributed,
    evaluate,
    fit,
    load_checkpoint,
    local_device,
)
from transformer_lib.training.distributed import Ranks, join, share, wrap

STEPS = 20
HALF = 9  # in the middle of an epoch
WAYS = ("ddp", "fsdp")

# 7 batches of uneven counts, so that the last one of an epoch is alone in its group.
data = partial(batches_of, n=33)


def settings(**change) -> TrainConfig:
    few = {"max_steps": STEPS, "warmup": 6, "peak_lr": 0.005, "log_every": 1}
    return TrainConfig(**few | {"validate_every": 7, "checkpoint_every": 3} | change)


class Dying(Transformer):
    """Gets a SIGTERM in the middle of a step of training."""

    def __init__(self, config: ModelConfig, step: int) -> None:
        super().__init__(config)
        self.left = step

    def forward(self, *ids):
        self.left -= self.training
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().forward(*ids)


def model(dropout: float = 0.0, seed: int = 0, dies_at: int | None = None) -> Transformer:
    torch.manual_seed(seed)
    config = ModelConfig(
        vocab_size=V, d_model=16, n_heads=2, n_layers=1, d_ff=32, max_len=32, dropout=dropout
    )
    return Dying(config, dies_at) if dies_at else Transformer(config)


def run(folder: Path | None, m: nn.Module, config: TrainConfig, batches=None, **arguments):
    held_out = data(seed=3, n=8)
    source = next(held_out.epoch(0)).source

    def validate(m: nn.Module, epoch: int) -> dict[str, float]:
        # Methods other than forward must work, even before it.
        says = greedy(m, source, max_len=7).scores.sum().item()
        return {"says": says, **evaluate(m, held_out)}

    return fit(
        m,
        batches or data(),
        config,
        validate=validate,
        directory=folder,
        progress=False,
        **arguments,
    )


# What the processes do


def _parity(folder: Path) -> None:
    rank = int(os.environ["RANK"])
    report: dict = {}
    for way in WAYS:
        for accumulate in (1, 3):
            # Rank 1 starts from other parameters; those of rank 0 must count.
            m = model(seed=rank)
            config = settings(accumulate=accumulate, parallel=way)
            history = run(folder / f"{way}{accumulate}", m, config)
            report[f"{way}{accumulate}"] = list(history)
            parameters = [getattr(p, "full_tensor", lambda p=p: p)() for p in m.parameters()]
            torch.save(parameters, folder / f"{way}{accumulate}.rank{rank}.pt")
        noisy = settings(parallel=way, keep_last=2)
        run(folder / f"{way}-noisy", model(0.3), noisy)
        try:
            run(folder / f"{way}-stopped", model(0.3, dies_at=HALF if rank == 1 else None), noisy)
        except SystemExit as end:
            report[f"{way}-stopped"] = end.code
        run(folder / f"{way}-stopped", model(0.3, seed=5), noisy, resume=True)
    try:
        run(None, model(), settings(), data(seed=rank))
    except ValueError as error:
        report["refused"] = str(error)
    (folder / f"report{rank}.json").write_text(json.dumps(report))


def torchrun(folder: Path) -> subprocess.CompletedProcess:
    home = Path(transformer_lib.__file__).parents[1]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [sys.executable, *launcher, __file__, str(folder)],
        env=os.environ
        | {"PYTHONPATH": str(home), "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
        | {"PYTHONWARNINGS": "ignore:Guards may run slower"},  # PyTorch says so on Python 3.13.0
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=900,  # only for what hangs
    )


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for _ in range(3):
        folder = tmp_path_factory.mktemp("two")
        done = torchrun(folder)
        # Once in about 60 runs, PyTorch's fully_shard crashes over Gloo with a segmentation fault,
        # which nothing in Python causes or can catch. Any other failure counts.
        if f"exitcode  : -{signal.SIGSEGV.value} " not in done.stderr:
            break
        print(f"A process crashed in PyTorch:\n{done.stderr}")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def one() -> dict[str, tuple[History, nn.Module]]:
    """One process that takes the batches of both."""
    torch.set_num_threads(1)
    found = {}
    for name, accumulate in (("1", 2), ("3", 6)):
        m = model()
        found[name] = run(None, m, settings(accumulate=accumulate)), m
    return found


def report(two: Path, rank: int = 0) -> dict:
    return json.loads((two / f"report{rank}.json").read_text())


# One process and two


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs Gloo and signals")
class TestTwoProcesses:
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("accumulate", ["1", "3"])
    def test_the_same_losses_as_one(self, way: str, accumulate: str, two, one) -> None:
        together, (alone, m) = History(report(two)[way + accumulate]), one[accumulate]
        for name in ("loss", "val_loss", "gradient_norm", "val_says"):
            steps, values = together.column(name)
            assert steps == alone.column(name)[0] == ([7, 14, 20] if "val" in name else steps)
            for step, a, b in zip(steps, values, alone.column(name)[1], strict=True):
                assert abs(a - b) < 1e-6 * (1 if "loss" in name else abs(b)), (name, step)
        assert len(together.column("loss")[0]) == STEPS
        for name in ("tokens", "epoch", "lr"):
            assert together.column(name) == alone.column(name)
        saved = load_checkpoint(two / f"{way}{accumulate}" / "checkpoint.pt")["model"]
        assert saved.keys() == m.state_dict().keys()
        # Not the parameters: the bias of the keys has no gradient, so Adam amplifies rounding.
        same, batch = model(), next(data().epoch(0))
        same.load_state_dict(saved)
        with torch.no_grad():
            expected = m.eval()(batch.source, batch.target_input)
            found = same.eval()(batch.source, batch.target_input)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)

    @pytest.mark.parametrize("name", [way + n for way in WAYS for n in "13"])
    def test_both_have_the_same_model_and_log(self, name: str, two: Path) -> None:
        first, second = (torch.load(two / f"{name}.rank{rank}.pt") for rank in (0, 1))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
        first, second = (without_clocks(report(two, rank)[name]) for rank in (0, 1))
        assert first == second and len(first) == STEPS + 3
        written = History.read(two / name / "log.jsonl")
        assert without_clocks(written) == first

    @pytest.mark.parametrize("way", WAYS)
    def test_a_signal_to_one_stops_both_and_both_resume(self, way: str, two: Path) -> None:
        assert [report(two, rank)[f"{way}-stopped"] for rank in (0, 1)] == [143, 143]
        assert_same_run(two / f"{way}-stopped", two / f"{way}-noisy")
        first, second = load_checkpoint(two / f"{way}-noisy" / "checkpoint.pt")["random"]
        assert first["python"] != second["python"], "both have the same dropout"

    @pytest.mark.parametrize("way", WAYS)
    def test_one_continues_where_two_stopped(self, way: str, two: Path, tmp_path: Path) -> None:
        shutil.copytree(two / f"{way}1", tmp_path, dirs_exist_ok=True)
        longer = settings(accumulate=2, max_steps=STEPS + 5)
        history = run(tmp_path, model(), longer, resume=True)
        m = model()
        expected = run(None, m, longer)
        steps, losses = history.column("loss")
        assert steps == expected.column("loss")[0]
        assert losses == pytest.approx(expected.column("loss")[1], abs=3e-6)
        with pytest.raises(ValueError, match="accumulate is 2 there, 1 here"):
            run(tmp_path, model(), settings(accumulate=1), resume=True)

    def test_batches_already_divided_are_refused(self, two: Path) -> None:
        for rank in (0, 1):
            assert "batches must be the same on every rank" in report(two, rank)["refused"]


# Without processes


def test_alone_a_process_talks_to_itself() -> None:
    ranks = join(torch.device("cpu"))
    assert ranks == Ranks() and ranks.first and ranks.gather("a") == ["a"]
    m = nn.Linear(2, 2)
    assert wrap(m, ranks, "fsdp") is m
    assert list(share(m, ["a", "b"], ranks)) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(("n", "size"), [(1, 2), (4, 2), (5, 3)])
def test_each_batch_is_taken_once_and_all_keep_in_step(n: int, size: int) -> None:
    shares = [list(share(None, list(range(n)), Ranks(rank, size))) for rank in range(size)]
    assert {len(own) for own in shares} == {math.ceil(n / size)}
    taken = [batch for own in shares for batch, weight in own if weight]
    assert sorted(taken) == list(range(n))
    assert {weight for own in shares for _, weight in own} <= {0, size}


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(distributed, "as_device", lambda name, device: torch.device(device))
    assert local_device() == torch.device("cuda") and not chosen
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert local_device() == torch.device("cuda:1") and chosen == [torch.device("cuda:1")]
    assert local_device("cpu") == torch.device("cpu")


def test_a_device_that_is_not_available_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"device must be a device, such as .*; got 'gpu'"):
        local_device("gpu")
    monkeypatch.setenv("LOCAL_RANK", "99")
    for name in ("cuda:99", "cuda"):
        with pytest.raises(ValueError, match=r"^device 'cuda:99' is not available"):
            local_device(name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.fsync = lambda file: None  # the disk isn't what is tested here
    _parity(Path(sys.argv[1]))
