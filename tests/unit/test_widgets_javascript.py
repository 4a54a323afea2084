"""Live figures: the page's arithmetic, compared with the library's through Node."""

import math

import numpy as np
import pytest
import torch

from transformer_lib import attention, causal_mask
from transformer_lib.figures import widgets
from transformer_lib.figures.widgets import MixingMatrix, scale_meter
from transformer_lib.figures.widgets.soft_lookup import LIKENESS, soft_lookup

WORDS = {
    "keys": [[2.0, 1.0], [2.0, -1.0], [-2.0, 0.0], [0.5, 1.5], [0.0, 0.0], [2.0, 1.0]],
    "values": [10, 5, 2, -3, 7, 4],
}


@pytest.mark.parametrize("name", widgets.__all__)
def test_the_module_that_a_browser_gets_loads(js, name):
    """Kit and figure joined, without duplicate or missing names."""
    assert js(getattr(widgets, name)(), "return Object.keys(m.default);") == ["render"]


# ---- the kit


def test_numbers_are_written_with_fixed_digits_and_a_minus_sign(js):
    body = "return [-1.5, -0.001, 0, 0.5, -10].map((x) => m.fixed(x, 2));"
    assert js("kit.js", body) == ["−1.50", "0.00", "0.00", "0.50", "−10.00"]


def test_ticks_are_round_and_few(js):
    body = "return [1.06, 3.7, 290].map((end) => m.ticksTo(end, 4));"
    one, four, many = js("kit.js", body)
    assert one == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert four == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert many == [0, 50, 100, 150, 200, 250]


def test_scales_map_there_and_back(js):
    body = """const linear = m.scale([-3, 3], [32, 332]), log = m.scale([1, 1000], [0, 300], true);
    return [linear(0), linear.invert(182), log(10), log.invert(200)];"""
    assert js("kit.js", body) == pytest.approx([182, 0, 100, 100])


INITIAL = {
    "query": [2, 0.2], "keys": [[2, 1], [2, -1]], "t": 1, "n": 3, "likeness": "dot", "on": False,
}  # fmt: skip
ALLOWED = {
    "query": [-3, 3], "keys": [-3, 3], "t": [0, 10], "n": [0, 9, 1], "likeness": ["dot", "cosine"],
    "on": [],
}  # fmt: skip


def test_state_goes_into_the_address_and_comes_back(js):
    changed = {"query": [-1.25, 0], "keys": [[2, 1], [0.5, -1]], "t": 0, "likeness": "cosine"}
    body = """const text = m.encode({ ...given.initial, ...given.changed }, given.initial);
    return [text, m.decode(text, given.initial, given.allowed),
      m.encode(given.initial, given.initial)];"""
    changed["on"] = True
    text, back, nothing = js("kit.js", body, initial=INITIAL, changed=changed, allowed=ALLOWED)
    assert text == "query:-1.25,0;keys:2,1,0.5,-1;t:0;likeness:cosine;on:true"
    assert back == changed
    assert nothing == ""


def test_an_address_that_makes_no_sense_changes_nothing(js):
    cases = {
        "": {},
        "t": {},
        "t:": {},
        "t:warm": {},
        "t:1,2": {},
        "t:99": {"t": 10},
        "t:1.5;n:1.5": {"t": 1.5, "n": 2},
        "t:-1e400": {"t": 0},
        "query:1": {},
        "query:1,2,3": {},
        "query:1,NaN": {},
        "keys:1,2,3": {},
        "likeness:angle": {},
        "likeness:%00<b>": {},
        "__proto__:1;constructor:2;toString:3": {},
        "unknown:1;t:2": {"t": 2},
    }
    body = "return given.texts.map((text) => m.decode(text, given.initial, given.allowed));"
    got = js("kit.js", body, texts=list(cases), initial=INITIAL, allowed=ALLOWED)
    assert dict(zip(cases, got, strict=True)) == cases


# ---- SoftLookup


@pytest.mark.parametrize("likeness", LIKENESS)
@pytest.mark.parametrize("temperature", [0, 0.001, 0.3, 10])
def test_soft_lookup_is_the_librarys_attention(js, likeness, temperature):
    given = {**WORDS, "query": [1.5, 0.7], "temperature": temperature, "likeness": likeness}
    page = js("soft_lookup.js", "return m.softLookup(given);", **given)
    here = soft_lookup(given["query"], **WORDS, temperature=temperature, likeness=likeness)
    for got, want in zip(page.values(), here, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)
    query, keys = (torch.tensor(x, dtype=torch.float64) for x in ([1.5, 0.7], WORDS["keys"]))
    want = {
        "dot": keys @ query,
        "cosine": torch.cosine_similarity(query, keys),
        "distance": -(keys - query).square().sum(-1),
    }
    np.testing.assert_allclose(page["scores"], want[likeness], atol=1e-12)
    if likeness == "dot" and temperature:
        values = torch.tensor(WORDS["values"], dtype=torch.float64)[:, None]
        output, weights = attention(query[None], keys, values, scale=1 / temperature)
        np.testing.assert_allclose(page["weights"], weights[0])
        np.testing.assert_allclose(page["answer"], output.item())


# ---- MixingMatrix


@pytest.mark.parametrize("mode", ["uniform", "causal", "content", "content-causal"])
@pytest.mark.parametrize("sharpness", [0.0, 2.5, 10.0])
def test_mixing_is_the_librarys_attention(js, mode, sharpness):
    shown = MixingMatrix(mode=mode, sharpness=sharpness)
    body = "const w = m.weightsOf(given); return [w, m.mix(w, given.vectors)];"
    weights, mixed = js(shown, body)
    queries, vectors = torch.tensor(shown.queries), torch.tensor(shown.vectors)
    seen = causal_mask(6) if "causal" in mode else torch.ones(6, 6, dtype=torch.bool)
    scale = (sharpness if "content" in mode else 0.0) / 4**0.5
    want = attention(scale * queries, vectors, vectors, seen, scale=1)
    assert [[w is not None for w in row] for row in weights] == seen.tolist()
    full = torch.tensor([[w or 0.0 for w in row] for row in weights])
    torch.testing.assert_close(full, want.weights)
    torch.testing.assert_close(torch.tensor(mixed), want.output)
    torch.testing.assert_close(full.sum(-1), torch.ones(6))


# ---- ScaleMeter


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("d_k", [2, 64, 1024])
def test_scale_meter_measures_what_the_library_computes(js, d_k, scaled):
    scale = d_k**-0.5 if scaled else 1.0
    body = "const l = m.drawLookups(given.d, 5); return [l, m.measure(l, given.scale)];"
    drawn, page = js("scale_meter.js", body, d=d_k, scale=scale)
    here = scale_meter.draw_lookups(d_k, 5)
    for name, want in here._asdict().items():
        np.testing.assert_allclose(drawn[name], want, rtol=0, atol=1e-9)
    assert abs(np.std(here.scores) / math.sqrt(d_k) - 1) < 0.35  # 16 keys: few for d_k = 2
    for name, want in scale_meter.measure(here, scale)._asdict().items():
        assert page[name] == pytest.approx(want, abs=1e-9), name

    # the same from the library's attention: the keys are unit vectors, so queries are the scores
    eye = torch.eye(scale_meter.KEYS, dtype=torch.float64)
    weights = attention(torch.tensor(here.scores), eye, eye, scale=scale).weights
    torch.testing.assert_close(torch.tensor(page["weights"], dtype=torch.float64), weights)
    bits = torch.distributions.Categorical(probs=weights).entropy().mean() / math.log(2)
    assert page["entropy"] == pytest.approx(bits.item(), abs=1e-5)


def test_the_gradient_at_the_query_is_autograds(js):
    shapes = ((64, 5), (16, 5), (16, 1))
    query, key, value = (torch.randn(*shape, dtype=torch.double) for shape in shapes)
    answers = attention(query.requires_grad_(), key, value, scale=0.3).output
    (gradient,) = torch.autograd.grad(answers.sum(), query)
    lengths = gradient.norm(dim=-1)
    lookups = {"scores": query @ key.T, "values": value[:, 0], "between": key @ key.T}
    given = {name: numbers.tolist() for name, numbers in lookups.items()}
    page = js("scale_meter.js", "return m.measure(given, 0.3);", **given)
    assert page["typical"] == pytest.approx(lengths.median().item())
    assert page["average"] == pytest.approx(lengths.mean().item())
