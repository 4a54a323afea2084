"""The live figures' engine, a Transformer in JavaScript, compared with the library's."""

from dataclasses import asdict

import pytest
import torch
from figure_page import ENGINE

from transformer_lib import ModelConfig, Transformer, record_attention
from transformer_lib.decoding import greedy
from transformer_lib.training import cross_entropy, inverse_sqrt_schedule

SIZES = {"vocab_size": 14, "d_model": 12, "n_heads": 3, "d_ff": 20, "max_len": 17}
# 7 source tokens, 5 target tokens, 2 rows, 3 heads of width 4: all sizes differ, and so do
# their remainders by 4, the width of a vector in WebAssembly
SOURCE = torch.tensor([[4, 9, 5, 12, 6, 7, 3], [8, 11, 10, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 7, 4, 12, 5], [1, 6, 9, 0, 0]])
LABELS = torch.tensor([[7, 4, 12, 5, 2], [6, 9, 2, 0, 0]])

# For Node; `m` is the engine.
MAKE = """
const { config, weights, wasm = true, switches } = given;
const model = new m.Transformer(new m.Memory({ megabytes: 16, wasm }), config, weights, switches);
const [source, target, labels] = [given.source, given.target, given.labels].map((b) => m.pad(b));
const all = (part) => Object.fromEntries(
  Object.entries(model.weights).map(([name, weight]) => [name, [...weight[part]]]));
"""
CHECK = (
    MAKE
    + """
const seen = {};
const record = (name, weights, shape) => { seen[name] = [[...weights], shape]; };
const graph = new m.Graph(model.memory, { record });
const logits = model.forward(graph, source, target);
const loss = m.crossEntropy(graph, logits, labels, 0.1);
graph.backward();
return { logits: [...logits.data], loss: loss.mean, count: loss.count, seen,
  gradients: all("grad"), wasm: model.memory.wasm };
"""
)


def make(**settings):
    """A small model with random weights, including biases and norms."""
    model = Transformer(ModelConfig(**{**SIZES, "n_layers": 2, "dropout": 0.0, **settings}))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model.eval()


def given(model, **more):
    """The model in the engine's form, and a batch."""
    weights = [
        {"name": name, "shape": list(weight.shape), "data": weight.flatten().tolist()}
        for name, weight in model.state_dict().items()
    ]
    batch = {"source": SOURCE, "target": TARGET, "labels": LABELS}
    lists = {name: ids.tolist() for name, ids in batch.items()}
    return {"config": asdict(model.config), "weights": weights, **lists, **more}


def close(got, want, name="", most=1e-4):
    want = want.detach().flatten()
    difference = (torch.tensor(got, dtype=want.dtype) - want).abs().max()
    assert difference < most, f"{name}: apart by {difference:.2g}"


@pytest.mark.parametrize("wasm", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_logits_loss_gradients_and_weights_are_the_librarys(js, pre_norm, positions, wasm):
    model = make(pre_norm=pre_norm, positions=positions)
    answer = js(ENGINE, CHECK, **given(model, wasm=wasm))
    with record_attention(model) as recorded:
        logits = model(SOURCE, TARGET)
    loss = cross_entropy(logits, LABELS, pad_id=0, label_smoothing=0.1)
    loss.mean.backward()
    assert answer["wasm"] is wasm
    assert answer["count"] == loss.count
    close(answer["logits"], logits)
    close([answer["loss"]], loss.mean)
    assert set(answer["seen"]) == set(recorded)
    for name, want in recorded.items():
        weights, shape = answer["seen"][name]
        want = want[0] if isinstance(want, (list, tuple)) else want
        assert shape == list(want.shape), name
        close(weights, want, name)
    assert set(answer["gradients"]) == {name for name, _ in model.named_parameters()}
    for name, weight in model.named_parameters():
        assert weight.grad.abs().max() > 1e-3, f"{name}: a gradient of 0 tests nothing"
        close(answer["gradients"][name], weight.grad, name)


def test_twenty_steps_of_adam_stay_together(js):
    model = make()
    body = (
        MAKE
        + """
    const adam = new m.Adam(Object.values(model.weights));
    const losses = Array.from({ length: 20 }, (_, i) => m.trainStep(
      model, adam, { source, target, labels },
      { rate: m.inverseSqrt(i + 1, { warmup: 7, peak: 0.01 }), label_smoothing: 0.1, clip_norm: 1 },
    ).mean);
    return { losses, weights: all("data") };"""
    )
    answer = js(ENGINE, body, **given(model))
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses, norms = [], []
    for step in range(1, 21):
        adam.param_groups[0]["lr"] = inverse_sqrt_schedule(step, warmup=7, peak=0.01)
        logits = model(SOURCE, TARGET)
        loss = cross_entropy(logits, LABELS, pad_id=0, label_smoothing=0.1).mean
        adam.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        adam.step()
        losses.append(loss.item())
    assert max(norms) > 1 > losses[-1] / losses[0]  # some were clipped, and it learned
    close(answer["losses"], torch.tensor(losses), most=1e-3)
    for name, weight in model.named_parameters():
        got, want = torch.tensor(answer["weights"][name]), weight.detach().flatten()
        if name.endswith("in_proj.bias"):
            # A key's bias shifts all scores of a query equally, so its gradient is 0 except for
            # rounding errors, which Adam turns into whole steps.
            got, want = (torch.cat((x[:12], x[24:])) for x in (got, want))
        close(got.tolist(), want, name, most=1e-3)


def test_greedy_search_with_its_cache_is_the_librarys(js):
    model = make()
    body = (
        MAKE
        + """return [...m.greedy(model, source, 9)].map((rows) =>
      rows.map(({ id, probabilities }) => [id, [...probabilities]]));"""
    )
    written = js(ENGINE, body, **given(model))
    ids = torch.tensor([[token for token, _ in rows] for rows in written]).T
    wanted = greedy(model, SOURCE, bos_id=1, eos_id=2, max_len=9).ids
    assert ids.tolist() == wanted.tolist()
    for step, rows in enumerate(written):
        read = torch.cat((TARGET[:, :1], ids[:, :step]), dim=1)
        probabilities = model(SOURCE, read)[:, -1].softmax(-1)
        for (_, got), want in zip(rows, probabilities, strict=True):
            close(got, want, most=1e-5)


def test_without_the_scale_queries_are_as_if_longer(js):
    """By sqrt(d_head) = 2."""
    model = make()
    answer = js(ENGINE, CHECK, **given(model, switches={"scale": False}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "in_proj" in name:
                weight[:12] *= 2
    close(answer["logits"], model(SOURCE, TARGET))


def test_first_weights_are_drawn_as_the_librarys(js):
    model = make(d_model=60, d_ff=100, vocab_size=300, max_len=50, positions="learned")
    fresh = Transformer(model.config).state_dict()
    body = """return m.firstWeights(given.config, 3)
      .map(({ name, shape, data }) => [name, shape, [...data]]);"""
    drawn = js(ENGINE, body, config=asdict(model.config))
    assert {name: shape for name, shape, _ in drawn} == {n: list(w.shape) for n, w in fresh.items()}
    for name, _, data in drawn:
        got, want = torch.tensor(data, dtype=torch.float), fresh[name].flatten()
        torch.testing.assert_close(got.std(), want.std(), rtol=0.1, atol=0)
        torch.testing.assert_close(got.abs().max(), want.abs().max(), rtol=0.3, atol=0)
        assert (got.mean() - want.mean()).abs() < 0.1 * want.std() + 1e-9, name


def test_unsupported_models_are_refused(js):
    body = f"try {{ {MAKE} return null; }} catch (error) {{ return error.message; }}"
    right = given(make())
    for changes, message in [
        ({"activation": "gelu"}, "activation must be relu, got gelu"),
        ({"bos_id": 0}, "bos_id must be 1, got 0"),
        ({"d_ff": 21}, "must have shape 21,12, got 20,12"),
        ({"max_len": 10**6}, "more than 16 megabytes"),
    ]:
        assert message in js(ENGINE, body, **right | {"config": right["config"] | changes})
