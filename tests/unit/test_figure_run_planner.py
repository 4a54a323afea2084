"""RunPlanner: the page's bytes, FLOPs and hours are the library's."""

import itertools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib import ModelConfig, Transformer, parameter_counts
from transformer_lib.figures.widgets import RunPlanner
from transformer_lib.figures.widgets.run_planner import parameters
from transformer_lib.training import cross_entropy

MODULE = "run_planner.js"
SIZES = [(512, 6, 37_000), (1024, 6, 37_000), (64, 1, 1009), (768, 12, 30_000)]


@pytest.mark.parametrize(("d_model", "n_layers", "vocab_size"), SIZES)
def test_the_parameters_are_the_models(d_model, n_layers, vocab_size):
    config = ModelConfig(
        vocab_size=vocab_size, d_model=d_model, n_heads=4, n_layers=n_layers, d_ff=4 * d_model
    )
    assert parameters(d_model, n_layers, vocab_size) == sum(parameter_counts(config).values())


@pytest.mark.parametrize(
    ("d_model", "n_layers", "vocab_size", "length"), [(24, 3, 101, 5), (512, 6, 37_000, 32)]
)
def test_the_hours_are_those_of_pytorchs_flops(js, d_model, n_layers, vocab_size, length):
    sizes = {"vocab_size": vocab_size, "d_model": d_model, "n_layers": n_layers}
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        ids = torch.ones(7, length, dtype=torch.int64)
        Transformer(ModelConfig(n_heads=4, d_ff=4 * d_model, **sizes))(ids, ids).sum().backward()
    state = {"total": 7 * length, "speed": 22.0, "length": length, **sizes}
    hours = js(MODULE, "return m.hoursOf(given);", **state)
    assert hours * 3600 * 22e9 == pytest.approx(counter.get_total_flops())


def kept_for_a_token(mixed, **sizes):
    """Bytes that a model saves for the backward pass per source and target token."""
    config = ModelConfig(**{"vocab_size": 211, "d_model": 128, "n_heads": 2, "d_ff": 512} | sizes)
    kept, losses = [], []
    for pairs in (2, 4):
        torch.manual_seed(0)
        model, storages = Transformer(config), {}

        def keep(tensor, storages=storages):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        ids = torch.randint(3, config.vocab_size, (pairs, 32))
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                logits = model(ids, ids)
            losses.append(cross_entropy(logits.float(), ids, pad_id=0).total)
        kept.append(sum(storages.values()))
    return (kept[1] - kept[0]) / (2 * 32)


@pytest.mark.parametrize("mixed", [False, True])
def test_the_bytes_kept_are_those_of_a_model(mixed):
    one, two = (kept_for_a_token(mixed, n_layers=n) for n in (1, 2))
    more_words = kept_for_a_token(mixed, n_layers=1, vocab_size=1211)
    layer, word = RunPlanner().kept[mixed]
    assert (two - one) / 128 == pytest.approx(layer, rel=0.03)
    assert (more_words - one) / 1000 == pytest.approx(word, rel=0.03)


def test_bytes_are_those_of_the_page(js):
    for (d_model, n_layers, _), pieces, precision in itertools.product(
        SIZES, (1, 7), ("float32", "mixed")
    ):
        figure = RunPlanner(d_model=d_model, n_layers=n_layers, pieces=pieces, precision=precision)
        page = js(figure, "return m.gibibytes(given);")
        assert page == pytest.approx(figure.gibibytes())


def test_micro_batches_only_reduce_activations(js):
    whole, cut = (RunPlanner(pieces=n).gibibytes() for n in (1, 8))
    assert cut[:3] == whole[:3]
    assert cut[3] == pytest.approx(whole[3] / 8)
    fits = js(RunPlanner(tokens=25_000), "return m.piecesThatFit(given);")
    parts = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert fits == next(n for n in parts if sum(RunPlanner(pieces=n).gibibytes()) <= 16)
    large = RunPlanner(d_model=4096, n_layers=48)
    assert js(large, "return m.piecesThatFit(given);") is None


def test_durations_have_a_suitable_unit(js):
    body = "return given.hours.map(m.duration);"
    found = js(MODULE, body, hours=[1e-4, 0.5, 3, 12, 47, 49, 24 * 200, 8766 * 2.5, 8766 * 1234.0])
    assert [text.replace("\u00a0", " ") for text in found] == [
        "under 0.1 minutes", "30 minutes", "3.0 hours", "12 hours", "47 hours", "2.0 days",
        "200 days", "2.5 years", "1,230 years",
    ]  # fmt: skip
