"""Checks of single values: what they let through and what they say."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from transformer_lib import ModelConfig
from transformer_lib.training import TrainConfig, load_checkpoint, save_checkpoint
from transformer_lib.validation import check_number, check_vectors, naming


@pytest.mark.parametrize("ends", ["[]", "[)", "(]", "()"])
def test_a_range_includes_its_ends_or_not(ends: str) -> None:
    for value, allowed in ((0, ends[0] == "["), (0.5, True), (1.0, ends[1] == "]")):
        if allowed:
            check_number("p", value, 0, 1, ends)
        else:
            message = rf"p must be in \{ends[0]}0, 1\{ends[1]}, got {value}"
            with pytest.raises(ValueError, match=message):
                check_number("p", value, 0, 1, ends)
    for value in (-1, 2, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="p must be in"):
            check_number("p", value, 0, 1, ends)


@pytest.mark.parametrize(("ends", "words"), [("[)", "of at least 0"), ("()", "above 0")])
def test_a_range_without_an_end(ends: str, words: str) -> None:
    check_number("eps", 10**300, 0, ends=ends)
    for value in (-1, float("inf"), float("nan"), 10**400):
        with pytest.raises(ValueError, match=f"eps must be a finite number {words}"):
            check_number("eps", value, 0, ends=ends)
    with pytest.raises(TypeError, match=r"eps must be a finite number.*True"):
        check_number("eps", True, 0, ends=ends)


def test_under_autocast_vectors_are_of_any_floating_dtype_but_float64():
    like = torch.zeros(3)
    with torch.autocast("cpu", torch.bfloat16):
        check_vectors("x", like.bfloat16(), 3, like, batched=False)
        for x, other in ((like.double(), like), (like, like.double())):
            with pytest.raises(TypeError, match=f"x must be {other.dtype} like"):
                check_vectors("x", x, 3, other, batched=False)


@pytest.mark.parametrize(
    ("kind", "cause", "message"),
    [
        (ValueError, lambda: b"\xff".decode(), "x: 'utf-8' codec can't decode byte 0xff"),
        (ValueError, lambda: json.loads("{"), "x: Expecting property name"),
        (TypeError, lambda: int(None), "x: int\\(\\) argument must be"),
    ],
)
def test_an_error_of_any_kind_gets_the_name(kind, cause, message: str) -> None:
    with pytest.raises(kind, match=message) as caught, naming("x"):
        cause()
    assert type(caught.value) is kind


def test_numbers_of_numpy_are_kept_as_numbers_of_python(tmp_path) -> None:
    """As they are, no JSON could hold them, and no checkpoint could be loaded."""
    sizes = {"vocab_size": 9, "d_model": 12, "n_heads": 3, "dropout": 0.25}
    numbers = {"warmup": 7, "peak_lr": 0.5, "epochs": 2}
    config = ModelConfig(**{k: np.array(v)[()] for k, v in sizes.items()})
    training = TrainConfig(
        betas=(np.float32(0.5), np.float64(0.75)),
        **{k: np.array(v)[()] for k, v in numbers.items()},
    )
    assert json.dumps(asdict(config)) == json.dumps(asdict(ModelConfig(**sizes)))
    expected = TrainConfig(**numbers, betas=(0.5, 0.75))
    assert json.dumps(asdict(training)) == json.dumps(asdict(expected))
    state = {"rows": [np.float64(0.5), np.int64(3), (np.float32(2), True)]}
    save_checkpoint(tmp_path / "state.pt", state)
    assert repr(load_checkpoint(tmp_path / "state.pt")) == "{'rows': [0.5, 3, (2.0, True)]}"
