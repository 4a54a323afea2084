"""ArchitectureExplorer: the page counts like the library, and its drawing adds up."""

import itertools
import re

import pytest
from figure_page import choose, slider, status, tell, told, unfold

from transformer_lib import ModelConfig, parameter_counts
from transformer_lib.figures.widgets import ArchitectureExplorer
from transformer_lib.figures.widgets.architecture_explorer import MODELS, PUBLISHED

MODULE = "architecture_explorer.js"
KINDS = ("both", "encoder", "decoder")
SIZES = [
    {"kind": kind, "d_model": d, "d_ff": f, "n_layers": n, "vocab_size": v, "pre_norm": pre}
    for (kind, pre), (d, f, n, v) in itertools.product(
        itertools.product(KINDS, (True, False)),
        [(512, 2048, 6, 37_000), (1024, 4096, 6, 37_000), (66, 131, 1, 1009), (202, 257, 3, 9973)],
    )
]


def library(sizes):
    return ModelConfig(n_heads=2, **{name: n for name, n in sizes.items() if name != "kind"})


def test_the_groups_are_parameter_counts(js):
    for sizes in SIZES:
        page = js(MODULE, "return m.groupsOf(given);", **sizes)
        counts = parameter_counts(library(sizes))
        if sizes["kind"] != "both":  # without the other stack and cross-attention
            one = {k: n for k, n in counts.items() if k.startswith(sizes["kind"])}
            counts = {"embeddings": counts["embeddings"], **one}
            if sizes["kind"] == "decoder":
                del counts["decoder.cross_attention"]
                counts["decoder.norms"] -= sizes["n_layers"] * 2 * sizes["d_model"]
        want = [sum(n for name, n in counts.items() if re.search(what, name))
                for what in ("embed", "attention", "forward", "norms")]  # fmt: skip
        assert page[:4] == want, sizes


NUMBERS = {
    "gpt2": 124_439_808, "bert-base": 109_482_240, "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248, "mistral-7b": 7_241_732_096,
}  # fmt: skip
WORDS = (" positions", " segments", " in a norm", ", a pooler", ": a scale, no shift")


def number_of(formula, sizes):
    """What a box's formula gives for these sizes."""
    for word in WORDS:
        formula = formula.replace(word, "")
    formula = formula.replace("²", " ** 2").replace("·", "*")
    formula = re.sub(r"(\d) d_", r"\1 * d_", formula)
    return eval(formula, {}, {"vocabulary": sizes["vocab_size"], **sizes})


@pytest.mark.parametrize("model", [*MODELS, None])
def test_every_formula_gives_its_number(js, model):
    """A published model is counted to the last parameter."""
    published = ArchitectureExplorer(model=model).cards[model] if model else {}
    all_sizes = [published["sizes"] | {"card": published["boxes"]}] if model else SIZES
    for sizes in all_sizes:
        boxes = js(MODULE, "return m.partsOf(given);", **sizes)
        layers = {box["part"]: box["each"] for box in boxes if box["kind"] == "layer"}
        boxes = [box for box in boxes if box["kind"] != "layer"]
        for box in boxes:
            if box["each"]:
                assert number_of(box["formula"], sizes) == box["each"], box
        for part, each in layers.items():
            inside = [box for box in boxes if box["times"] > 1 and box["part"][:7] == part[:7]]
            assert sizes["n_layers"] == 1 or each == sum(box["each"] for box in inside)
        if model:
            total = sum(box["each"] * box["times"] for box in boxes)
            assert total == NUMBERS[model]
            assert f"{total:,} parameters, as published" in published["says"]


def test_vocabularies_that_give_the_papers_numbers(js):
    body = "return m.publishedLike(given, given.published);"
    base, big, *_ = (js(MODULE, body, published=PUBLISHED, **sizes) for sizes in SIZES)
    assert base == {"name": "The paper’s base", "millions": 65, "exact": True, "tokens": 40_700}
    assert big == {"name": "The paper’s big", "millions": 213, "exact": True, "tokens": 35_800}
    other = js(MODULE, body, published=PUBLISHED, **SIZES[0] | {"d_ff": 3072, "vocab_size": 9000})
    assert not other["exact"]
    assert other["name"] == "The paper’s base"  # the nearest to 61.4 million
    for kind, name, d, d_ff, n, m in PUBLISHED:
        sizes = {"kind": kind, "d_model": d, "d_ff": d_ff, "n_layers": n, "pre_norm": False}
        vocab_size = {"BERT": 30_522, "GPT": 40_478}.get(name.split()[0], 37_000)
        page = js(MODULE, "return m.groupsOf(given);", vocab_size=vocab_size, **sizes)
        assert sum(page) / 1e6 == pytest.approx(m, rel=0.09), name  # ours, beside the papers'


@pytest.mark.parametrize("width", [262, 319, 320, 559, 560, 700])
def test_boxes_keep_apart_and_inside(js, width):
    body = "return m.layout(given, given.width);"
    for kind, pre in itertools.product(KINDS, (True, False)):
        sizes = {"kind": kind, "d_model": 512, "vocab_size": 1000, "pre_norm": pre}
        place = js(MODULE, body, width=width, **sizes)
        boxes = place["boxes"].values()
        for x, y, w, h in boxes:
            assert 0 <= x < x + w <= width
            assert 0 <= y < y + h <= place["height"]
            assert h >= 32, "a finger must hit it"
        for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.combinations(boxes, 2):
            assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay


@pytest.mark.slow
def test_a_box_says_its_formula_and_leads_to_its_chapter(show):
    page = show(ArchitectureExplorer())
    assert "4 d_model² + 4 d_model = 1,050,624 per layer, in all 10 %" in status(page)
    page.locator("label", has_text="feed-forward").last.hover()
    assert status(page).startswith("Decoder, feed-forward: 2 d_model · d_ff + d_ff + d_model")
    page.locator(".lf-title").hover()
    assert status(page).startswith("Encoder, self-attention"), "hovering doesn't select"
    unfold(page)
    assert page.locator(".ae-more").inner_text() == "More in chapter 6."
    page.evaluate(
        """document.body.insertAdjacentHTML("beforeend", `<nav class="bd-links">
        <a href="../chapters/08_encoder.html">8. The encoder</a>
        <a href="../x/notation.html">Notation</a></nav>`)"""
    )
    choose(page, "× 6 layers 18,914,304")
    link = page.locator(".ae-more a")
    assert link.inner_text() == "chapter 8. The encoder"
    assert link.evaluate("(a) => a.href").endswith("/chapters/08_encoder.html")


@pytest.mark.slow
def test_a_published_model_fixes_its_sizes(show):
    page = show(ArchitectureExplorer(n_layers=2))
    unfold(page)
    choose(page, "Llama 3 8B")
    assert page.locator(".ae-paper").inner_text() == (
        "Llama 3 8B: 8,030,261,248 parameters, as published."
    )
    assert "2 d_model² + 2 d_model · 8 · 128 = 41,943,040 per layer" in status(page)
    sliders = page.get_by_role("slider").all()
    assert all(slider.is_disabled() for slider in sliders)
    texts = [slider.get_attribute("aria-valuetext") for slider in sliders]
    assert texts == ["4,096", "32", "32", "14,336", "128,256"]
    assert page.locator("label", has_text="+ positions").filter(visible=True).count() == 0
    choose(page, "your own")
    assert slider(page, "layers").get_attribute("aria-valuetext") == "2"


@pytest.mark.slow
def test_heads_always_divide_the_width_and_the_box_is_one_that_the_model_has(show):
    page = show(ArchitectureExplorer(d_model=768, n_heads=12))
    unfold(page)
    slider(page, "d_model").press("ArrowLeft")
    assert told(page, "d_model", "n_heads") == [512, 16]
    for key in ("Home", *["ArrowRight"] * 7):
        slider(page, "heads").press(key)
        assert 512 % told(page, "n_heads") == 0
    tell(page, n_heads=12)
    assert "of 32" in page.locator("label", has_text="masked self-attention").inner_text()
    tell(page, part="decoder-cross", kind="encoder")
    assert status(page).startswith("Self-attention"), "no cross-attention"
