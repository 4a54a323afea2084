from pathlib import Path

import pytest
import torch

from transformer_lib.training import average_checkpoints, save_checkpoint


def saved(folder: Path, *models: dict) -> list[Path]:
    paths = [folder / f"step-{i}.pt" for i in range(len(models))]
    for path, model in zip(paths, models, strict=True):
        save_checkpoint(path, {"model": model, "step": 1})
    return paths


def test_the_mean_of_each_parameter_and_the_last_count(tmp_path: Path) -> None:
    torch.manual_seed(0)
    models = [
        {"weight": torch.randn(3), "half": torch.rand(31).bfloat16(), "count": torch.tensor(i)}
        for i in range(41)
    ]
    mean = average_checkpoints([str(path) for path in saved(tmp_path, *models)])
    for name in ("weight", "half"):  # not summed in half precision
        exact = torch.stack([model[name].double() for model in models]).mean(0)
        assert torch.equal(mean[name], exact.to(models[0][name].dtype))
    assert mean["count"] == 40


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"b": torch.ones(2)}, "a"),
        ({"a": torch.ones(2), "b": torch.ones(2)}, "b"),
        ({"a": torch.ones(3)}, "a"),
        ({"a": torch.ones(2).double()}, "a"),
    ],
)
def test_different_models_are_refused(other: dict, name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"step-1\.pt differs from .* in {name}$"):
        average_checkpoints(saved(tmp_path, {"a": torch.ones(2)}, other))


def test_errors_name_the_argument(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "none.pt", {"step": 3})
    for paths, error, message in (
        ([], ValueError, "paths must hold at least one path"),
        ("a.pt", TypeError, r"paths must be a list of paths, got 'a\.pt'"),
        ([tmp_path / "none.pt"], ValueError, r"checkpoints of models; .*none\.pt"),
    ):
        with pytest.raises(error, match=message):
            average_checkpoints(paths)
