import os
import random
from pathlib import Path

import pytest
import torch
from torch import nn

from transformer_lib.training import load_checkpoint, save_checkpoint

STATE = {"step": 3, "best": 0.5, "name": "tiny", "none": None, "weight": torch.arange(5.0)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, STATE)
    return path


def test_everything_comes_back(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": {"torch": torch.get_rng_state(), "python": random.getstate()},
    }
    save_checkpoint(tmp_path / "a.pt", state)
    loaded = load_checkpoint(tmp_path / "a.pt")
    assert loaded["random"]["python"] == random.getstate()
    torch.testing.assert_close(loaded["model"], dict(state["model"]), rtol=0, atol=0)
    assert torch.equal(loaded["optimizer"]["state"][0]["exp_avg"], torch.full((2, 3), 0.1))


def test_a_killed_save_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {"step": 4})
    assert load_checkpoint(path)["step"] == 3


@pytest.mark.parametrize("share", [0.0, 0.999])
def test_truncated(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"checkpoint\.pt is not a readable checkpoint"):
        load_checkpoint(path)


def test_one_flipped_bit_in_a_weight(path: Path) -> None:
    content = bytearray(path.read_bytes())
    at = content.index(STATE["weight"].numpy().tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        load_checkpoint(path)


def test_files_that_are_not_checkpoints(tmp_path: Path) -> None:
    text, foreign, code = (tmp_path / name for name in ("text", "foreign", "code"))
    text.write_text("Ein Mann fährt Rad.")
    torch.save({"weight": torch.ones(2)}, foreign)
    torch.save(nn.Linear(2, 2), code)
    for path, message in (
        (text, "text is not a readable checkpoint"),
        (foreign, "foreign was not written by save_checkpoint"),
        (code, "code is not a readable checkpoint"),
    ):
        with pytest.raises(ValueError, match=message):
            load_checkpoint(path)


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": [1, {"b": {1, 2}}]}, r"state\['a'\]\[1\]\['b'\].*set"),
        ({("a", "b"): 1}, "keys of state"),
    ],
)
def test_only_tensors_and_primitives(path: Path, state: dict, place: str) -> None:
    with pytest.raises(TypeError, match=place):
        save_checkpoint(path, state)
    assert load_checkpoint(path)["step"] == 3
