"""Weights in 8 bits, and the bundled translator of numbers, which is stored in them."""

import pytest
import torch

from transformer_lib import Transformer
from transformer_lib.decoding import translate
from transformer_lib.figures.widgets import live_translator
from transformer_lib.pretrained import load_bundled
from transformer_lib.pretrained.bundled import from_int8, to_int8
from transformer_lib.results import load_run
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


def test_the_translator_is_the_recorded_run_and_its_figure_says_what_it_gets_right():
    run = load_run("number-words-s0")
    assert run.settings["train"]["epochs"] == 10  # as chapter 13 says
    model, tokenizer = load_bundled("number-words")
    assert type(model) is Transformer and not model.training
    assert model.embedding.weight.dtype is torch.float32 and model.config.n_layers == 2
    pairs = TASKS["number-words"].load("val")
    said = translate(model, tokenizer, [english for english, _ in pairs])
    wrong = [pair for pair, text in zip(pairs, said, strict=True) if text != pair[1]]
    right = len(pairs) - len(wrong)
    assert right / len(pairs) == pytest.approx(run.scores["val"]["value"] / 100)
    assert f"Of {len(pairs):,} numbers" in live_translator.NOTE
    assert f"gets {right} right, with 8 bits and with 32" in live_translator.NOTE
    assert len(wrong) == 6 and {"three", "four"} <= {english for english, _ in wrong}
