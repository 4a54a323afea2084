"""Weights in 8 bits, and the bundled translator of numbers, which is stored in them."""

import hashlib

import pytest
import torch

from transformer_lib import Transformer
from transformer_lib.decoding import translate
from transformer_lib.pretrained import bundled_folder, load_bundled
from transformer_lib.pretrained.bundled import from_int8, to_int8
from transformer_lib.results import load_result, load_run
from transformer_lib.runs import TASKS


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_no_entry_is_off_by_more_than_half_a_step_of_its_row():
    weights = {"a": drawn(6, 50) * torch.logspace(-6, 6, 6)[:, None]}
    rounded = to_int8(weights)
    assert rounded["a"].dtype is torch.int8
    assert rounded["a"].abs().amax(dim=1).tolist() == [127] * 6
    error = (from_int8(rounded)["a"] - weights["a"]).abs()
    half = weights["a"].abs().amax(dim=1, keepdim=True) / 254
    assert (error <= half * (1 + 1e-4)).all()
    assert (error > half / 2).any()


def test_only_matrices_are_rounded_and_a_row_of_zeros_stays_one():
    weights = {"bias": drawn(7), "table": drawn(2, 3, 4), "zeros": torch.zeros(1, 4)}
    back = from_int8(to_int8(weights))
    assert all(back[name].equal(tensor) for name, tensor in weights.items())


def test_it_is_the_translator_that_was_measured():
    record = load_result("number-words-shipped")
    path = bundled_folder("number-words") / "model.safetensors"
    assert record["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record["bytes"] == path.stat().st_size < 1_000_000
    model, tokenizer = load_bundled("number-words")
    assert type(model) is Transformer and not model.training
    assert model.embedding.weight.dtype is torch.float32
    assert record["parameters"] == sum(p.numel() for p in model.parameters())
    pairs = TASKS["number-words"].load("val")
    found = translate(model, tokenizer, [english for english, _ in pairs])
    wrong = [
        [english, said, german]
        for (english, german), said in zip(pairs, found, strict=True)
        if said != german
    ]
    assert wrong == record["wrong"]
    assert record["right"] == record["numbers"] - len(wrong) == len(pairs) - len(wrong)


def test_rounding_costs_next_to_nothing():
    record = load_result("number-words-shipped")
    trained = load_run("number-words-s0").scores["val"]["value"]
    assert record["right_in_float32"] / record["numbers"] == pytest.approx(trained / 100, abs=5e-3)
    assert record["right"] >= record["right_in_float32"] - 3
