"""The live figures' engine, a Transformer in JavaScript, compared with the library's."""

import pytest
import torch
from engine_page import (
    CHECK,
    ENGINE,
    LABELS,
    MAKE,
    SOURCE,
    assert_same,
    close,
    forward,
    given,
    make,
)

from transformer_lib import causal_mask, record_attention
from transformer_lib.decoding import greedy
from transformer_lib.figures.engine import FOLDER, source
from transformer_lib.training import cross_entropy, inverse_sqrt_schedule

KINDS = ["both", "decoder"]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_loss_and_gradients_are_the_librarys(js, kind, pre_norm, positions):
    model = make(kind, pre_norm=pre_norm, positions=positions)
    assert_same(model, js(ENGINE, CHECK, **given(model)))


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "rms"},
        {"norm": "rms", "pre_norm": False, "final_norm": True},
        {"tie_embeddings": False, "positions": "none"},
        {"scale_embeddings": False, "n_decoder_layers": 1, "norm_eps": 0.1},
        {"bos_id": 0, "pad_id": 0},
    ],
    ids=str,
)
def test_other_settings_agree_too(js, settings):
    model = make(**settings)
    assert_same(model, js(ENGINE, CHECK, **given(model)))


@pytest.mark.parametrize("kind", KINDS)
def test_without_webassembly_too(js, kind):
    model = make(kind)
    assert_same(model, js(ENGINE, CHECK, **given(model), wasm=False))


def test_products_of_all_shapes_in_webassembly_and_without(js):
    body = """const memories = [true, false].map((wasm) => new m.Memory({ megabytes: 1, wasm }));
    if (!memories[0].wasm || memories[1].wasm) throw new Error("not one of each");
    return given.cases.map(({ rows, n, k, across, down, a, b, c }) => memories.map((memory) =>
      memory.within(() => {
        const places = [a, b, c].map((numbers) => {
          const at = memory.take(numbers.length);
          memory.floats.set(numbers, at);
          return at;
        });
        memory.product(rows, n, k, places[0], ...(across ? [1, rows] : [k, 1]),
          places[1], ...(down ? [1, k] : [n, 1]), places[2], n);
        return [...memory.floats.slice(places[2], places[2] + c.length)];
      })));"""
    shapes = [(1, 1, 1), (4, 8, 3), (5, 13, 7), (3, 2, 9), (9, 23, 5), (8, 16, 0), (2, 7, 64)]
    cases, wanted = [], []
    for rows, n, k in shapes:
        for across, down in [(False, False), (False, True), (True, False), (True, True)]:
            a, b, c = torch.rand(rows, k), torch.rand(k, n), torch.rand(rows * n + 4)
            wanted.append(torch.cat((c[:-4] + (a @ b).flatten(), c[-4:])))  # nothing after C
            a, b = a.T if across else a, b.T if down else b
            numbers = {"a": a, "b": b, "c": c}
            numbers = {name: x.flatten().tolist() for name, x in numbers.items()}
            sizes = {"rows": rows, "n": n, "k": k, "across": across, "down": down}
            cases.append({**sizes, **numbers})
    for case, found, want in zip(cases, js(ENGINE, body, cases=cases), wanted, strict=True):
        for got in found:
            close(got, want, str({name: case[name] for name in ("rows", "n", "k")}), most=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_steps_of_adam_stay_together(js, kind):
    model = make(kind)
    body = (
        MAKE
        + """
    const model = make(given);
    const adam = new m.Adam(Object.values(model.weights));
    const [source, target, labels] = [given.source, given.target, given.labels].map(tensor);
    const losses = Array.from({ length: 20 }, (_, i) => m.trainStep(
      model, adam, { source, target, labels },
      { rate: m.inverseSqrt(i + 1, { warmup: 7, peak: 0.01 }), label_smoothing: 0.1, clip_norm: 1 },
    ).mean);
    return { losses, weights: all(model, "data") };"""
    )
    answer = js(ENGINE, body, **given(model))
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses, norms = [], []
    for step in range(1, 21):
        adam.param_groups[0]["lr"] = inverse_sqrt_schedule(step, warmup=7, peak=0.01)
        logits = forward(model)
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


GREEDY = (
    MAKE
    + """
const model = make(given);
const prompt = given.prompt && tensor(given.prompt);
const cached = [...m.greedy(model, { source: tensor(given.source), prompt, most: given.most })]
  .map((rows) => rows.map(({ id, probabilities }) => [id, ...probabilities]));
let target = given.prompt ?? given.source.map(() => [1]);
const whole = cached.map((rows) => {
  const graph = new m.Graph(model.memory, { learn: false });
  const { data, shape: [b, t, v] } = model.forward(graph, tensor(given.source), tensor(target));
  target = target.map((ids, i) => [...ids, rows[i][0]]);
  return target.map((_, i) => [...m.softmax(data.slice(((i + 1) * t - 1) * v, (i + 1) * t * v))]);
});
return { cached, whole };
"""
)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_with_cache_is_greedy_without_and_the_librarys(js, kind):
    model = make(kind, eos_id=2)
    prompt = None if kind == "both" else [[1, 7, 4], [1, 6, 9]]
    answer = js(ENGINE, GREEDY, **given(model, prompt=prompt, most=9))
    ids = torch.tensor([[row[0] for row in rows] for rows in answer["cached"]]).T
    if prompt is None:
        wanted = greedy(model, SOURCE, bos_id=1, eos_id=2, max_len=9).ids
    else:
        start = torch.tensor(prompt)
        wanted = greedy(model, start[:, :-1], bos_id=start[:, -1], eos_id=2, max_len=9).ids
    assert ids.tolist() == wanted[:, : ids.size(1)].tolist()
    assert ids.size(1) > 3
    compared = 0
    for rows, all_at_once in zip(answer["cached"], answer["whole"], strict=True):
        for row, again in zip(rows, all_at_once, strict=True):
            if row[0]:  # after its end, a row continues with padding
                close(row[1:], torch.tensor(again), most=1e-5)
                compared += 1
    assert compared > 6


def test_recorded_weights_are_the_librarys(js):
    model = make()
    body = (
        MAKE
        + """
    const [model, seen] = [make(given), {}];
    const record = (name, weights, shape) => { seen[name] = [[...weights], shape]; };
    const graph = new m.Graph(model.memory, { learn: false, record });
    model.forward(graph, tensor(given.source), tensor(given.target));
    return seen;"""
    )
    seen = js(ENGINE, body, **given(model))
    with record_attention(model) as recorded:
        forward(model)
    assert set(seen) == set(recorded)
    for name, want in recorded.items():
        weights, shape = seen[name]
        want = want[0] if isinstance(want, (list, tuple)) else want
        assert shape == list(want.shape), name
        close(weights, want, name)


def test_switches_turn_parts_off(js):
    model = make()
    body = (
        MAKE
        + """
    const run = (switches, ids) => {
      const [model, weights] = [make({ ...given, switches }), []];
      const record = (name, values) => weights.push([name, [...values]]);
      const graph = new m.Graph(model.memory, { record });
      return { logits: [...model.forward(graph, tensor(given.source), tensor(ids)).data], weights };
    };
    const later = given.target.map((row) => [...row.slice(0, -1), 8]);
    return [{}, { causal: false }, { scale: false }, { residual: false }].map((switches) =>
      [run(switches, given.target), run(switches, later)]);"""
    )
    on, causal, scale, residual = js(ENGINE, body, **given(model))
    first = 4 * 13  # the logits of the first row's first four positions
    assert on[0]["logits"][:first] == on[1]["logits"][:first]
    assert causal[0]["logits"][:first] != causal[1]["logits"][:first]
    assert all(other[0]["logits"] != on[0]["logits"] for other in (scale, residual))
    weights = torch.tensor(next(w for n, w in on[0]["weights"] if n.startswith("decoder")))
    assert not weights.view(2, 3, 5, 5)[..., ~causal_mask(5)].any()
    free = torch.tensor(next(w for n, w in causal[0]["weights"] if n.startswith("decoder")))
    assert free.view(2, 3, 5, 5)[0, :, ~causal_mask(5)].all()
    # without the scale, scores are sqrt(d_head) = 2 times as large: weights to the power of 2
    sharp, soft = (torch.tensor(run[0]["weights"][0][1]).view(2, 3, 7, 7) for run in (scale, on))
    close(sharp.flatten().tolist(), soft.square() / soft.square().sum(-1, keepdim=True))


@pytest.mark.parametrize("kind", KINDS)
def test_first_weights_are_drawn_as_the_librarys(js, kind):
    model = make(kind, d_model=60, d_ff=100, vocab_size=300, max_len=50, positions="learned")
    fresh = type(model)(model.config).state_dict()
    body = """return m.firstWeights(given.config, given.decoder_only, 3)
      .map(({ name, shape, data }) => [name, shape, [...data]]);"""
    drawn = js(ENGINE, body, **given(model))
    assert {name: shape for name, shape, _ in drawn} == {n: list(w.shape) for n, w in fresh.items()}
    for name, _, data in drawn:
        got, want = torch.tensor(data, dtype=torch.float), fresh[name].flatten()
        torch.testing.assert_close(got.std(), want.std(), rtol=0.1, atol=0)
        torch.testing.assert_close(got.abs().max(), want.abs().max(), rtol=0.3, atol=0)
        assert (got.mean() - want.mean()).abs() < 0.1 * want.std() + 1e-9, name


def test_unsupported_configs_are_refused(js):
    body = MAKE + "try { make(given); return null; } catch (error) { return error.message; }"
    model = make()
    right = given(model)
    assert js(ENGINE, body, **right) is None
    config = right["config"]
    for changes, message in [
        ({"config": {**config, "activation": "gelu"}}, "activation must be relu, got gelu"),
        ({"weights": right["weights"][1:]}, "must have shape"),
        ({"config": {**config, "d_ff": 21}}, "must have shape 21,12, got 20,12"),
        ({"config": {**config, "max_len": 10**6}}, "more than 16 megabytes"),
    ]:
        assert message in js(ENGINE, body, **{**right, **changes})


def test_memory_is_given_back(js):
    body = (
        MAKE
        + """
    const model = make(given);
    const before = model.memory.top;
    const [target, labels] = [given.target, given.labels].map(tensor);
    const adam = new m.Adam(Object.values(model.weights));
    m.trainStep(model, adam, { target, labels }, { rate: 0.01 });
    model.memory.within(() => [...m.greedy(model, { prompt: target, most: 3 })]);
    return model.memory.top - before;"""
    )
    assert js(ENGINE, body, **given(make("decoder"))) == 0


MODULES = sorted(FOLDER.glob("*.js"))


def test_the_script_of_a_worker_holds_every_module():
    fronts = ["index.js", "translator.js"]  # these only re-export
    first_lines = [module.read_text(encoding="utf-8").splitlines()[0] for module in MODULES]
    missing = {line for line in first_lines if line.startswith("//")}
    for text in map(source, fronts):
        missing -= set(text.splitlines())
        assert not [line for line in text.splitlines() if line.startswith(("import ", "export "))]
    assert not missing
    assert len(first_lines) == len(set(first_lines))
