from pathlib import Path

import pytest
import torch

from transformer_lib.training import average_checkpoints, save_checkpoint


def saved(folder: Path, *models: dict) -> list[Path]:
    paths = [folder / f"step-{i}.pt" for i in range(len(models))]
    for path, model in zip(paths, models, strict=True):
        save_checkpoint(path, {"model": model, "step": 1})
    return paths


def test_the_mean_of_each_parameter(tmp_path: Path) -> None:
    torch.manual_seed(0)
    models = [{"weight": torch.randn(3, 5), "bias": torch.randn(3)} for _ in range(7)]
    mean = average_checkpoints(saved(tmp_path, *models))
    for name in ("weight", "bias"):
        expected = torch.stack([model[name].double() for model in models]).mean(0)
        torch.testing.assert_close(mean[name].double(), expected, rtol=1e-7, atol=1e-8)
        assert mean[name].dtype is torch.float32


def test_half_precision_is_not_summed_in_half(tmp_path: Path) -> None:
    torch.manual_seed(0)
    models = [{"weight": torch.rand(31).bfloat16()} for _ in range(41)]
    mean = average_checkpoints(saved(tmp_path, *models))["weight"]
    expected = torch.stack([m["weight"].double() for m in models]).mean(0).bfloat16()
    assert mean.dtype is torch.bfloat16 and torch.equal(mean, expected)


def test_counts_are_those_of_the_last_checkpoint(tmp_path: Path) -> None:
    models = [{"count": torch.tensor(n), "weight": torch.tensor(float(n))} for n in (3, 4, 8)]
    mean = average_checkpoints([str(path) for path in saved(tmp_path, *models)])
    assert {name: tensor.item() for name, tensor in mean.items()} == {"count": 8, "weight": 5.0}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"b": torch.ones(2)}, r"a is torch.float32 \(2,\) in .*step-0.pt, missing in .*step-1"),
        ({"a": torch.ones(2), "b": torch.ones(2)}, "b is missing in .*step-0"),
        ({"a": torch.ones(3)}, r"a is .* \(2,\) in .*step-0.pt, .* \(3,\) in .*step-1.pt"),
        ({"a": torch.ones(2).double()}, "a is torch.float32 .*torch.float64"),
    ],
)
def test_different_models_are_refused(other: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="paths must be checkpoints of the same model: " + message):
        average_checkpoints(saved(tmp_path, {"a": torch.ones(2)}, other))


def test_errors_name_the_argument(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "none.pt", {"step": 3})
    for paths, error, message in (
        ([], ValueError, "paths must hold at least one path"),
        ("a.pt", TypeError, r"paths must be a list of paths, got 'a\.pt'"),
        ([3], TypeError, "paths must be.*got 3"),
        ([tmp_path / "nowhere.pt"], FileNotFoundError, "nowhere"),
        ([tmp_path / "none.pt"], ValueError, r"checkpoints of models; .*none\.pt"),
    ):
        with pytest.raises(error, match=message):
            average_checkpoints(paths)
