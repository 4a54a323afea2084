"""MaskPainter: its arithmetic is the library's, and cells can be painted in every way."""

import itertools

import pytest
import torch
from figure_page import button, choose, status, told, unfold

from transformer_lib import attention, causal_mask, local_mask, padding_mask
from transformer_lib.figures.widgets import MaskPainter
from transformer_lib.figures.widgets.mask_painter import FILLS, PAD, PLACES, layer

WORDS = [PAD, "a", "b", "c", PAD, "d", "e"]
IDS = torch.tensor([[0, 5, 6, 7, 0, 8, 9]])
N = len(WORDS)
LEFT = "000000-000000-001000-001100-001110-001111"  # causal, with two padding tokens on the left
# JSON has no NaN and no infinity.
TOLD = "const told = (x) => (typeof x === 'object' ? Object.values(x).map(told) : String(x));"


def numbers(told):
    return torch.tensor([[float(x) for x in row] for row in told], dtype=torch.float64)


def bits(mask):
    return "-".join("".join(str(int(may)) for may in row) for row in mask.tolist())


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("density", [0.0, 0.3, 0.7, 1.0])
def test_both_layers_are_those_of_pytorch(js, place, fill, density):
    x = torch.randn(N, 3, dtype=torch.float64)
    mask = torch.rand(N, N) < density
    body = f"""{TOLD}
    const mask = m.parse(given.mask, given.x.length);
    const first = m.layer({{ ...given, mask }});
    const second = m.layer({{ ...given, mask, x: first.output }});
    const names = ["scores", "masked", "weights", "output"];
    return [first, second].map((done) => names.map((name) => told(done[name])));"""
    page = js("mask_painter.js", body, x=x.tolist(), mask=bits(mask), place=place, fill=fill)
    for answer in page:
        want = layer(x, mask, place=place, fill=fill)
        for got, tensor in zip(answer, want, strict=True):
            torch.testing.assert_close(numbers(got), tensor, equal_nan=True)
        if (place, fill) == ("before", "zeros"):
            torch.testing.assert_close(want.output, attention(x, x, x, mask).output)
        x = want.output


def test_rules_are_the_librarys_masks(js):
    masks = {
        "causal": causal_mask(N),
        "padding": padding_mask(IDS, 0)[0, 0].expand(N, N),
        "local": local_mask(N, window=1),
    }
    body = """const rules = m.rulesFor(given.words);
    const all = given.words.map(() => given.words.map(() => true));
    return given.some.map((names) => m.write(names.reduce((mask, name) =>
      m.impose(mask, rules[name]), all)));"""
    some = [list(names) for k in range(4) for names in itertools.combinations(masks, k)]
    page = js("mask_painter.js", body, words=WORDS, some=some)
    want = [torch.ones(N, N, dtype=torch.bool) for _ in some]
    for mask, names in zip(want, some, strict=True):
        for name in names:
            mask &= masks[name]
    assert page == [bits(mask) for mask in want]


def test_lifting_a_rule_leaves_other_rules_and_painted_cells(js):
    body = """const rules = m.rulesFor(given.words);
    const all = given.words.map(() => given.words.map(() => true));
    const both = m.impose(m.impose(all, rules.causal), rules.padding);
    both[3][2] = false;
    const without = m.lift(both, rules.causal, [rules.padding]);
    return [m.write(without), m.keeps(without, rules.padding), m.keeps(without, rules.causal)];"""
    want = padding_mask(IDS, 0)[0, 0].expand(N, N).clone()
    want[3, 2] = False
    assert js("mask_painter.js", body, words=WORDS) == [bits(want), True, False]


def test_a_mask_goes_into_text_and_comes_back(js):
    body = "return given.texts.map((text) => m.write(m.parse(text, 3)));"
    texts = ["100-110-111", "", "1", "11111-1-1-1", "abc-010"]
    want = ["100-110-111", "000-000-000", "100-000-000", "111-100-100", "000-010-000"]
    assert js("mask_painter.js", body, texts=texts) == want


def test_masks_come_in_many_forms():
    want = "100-110-111"
    words, vectors = ["a", "b", "c"], [[1], [2], [3]]
    for mask in (want, causal_mask(3), causal_mask(3).tolist(), causal_mask(3).numpy()):
        assert MaskPainter(words=words, vectors=vectors, mask=mask).mask == want
    assert MaskPainter(words=words, vectors=vectors).mask == want
    assert MaskPainter(words=[PAD, "b", "c"], vectors=vectors).mask == "000-010-011"
    assert MaskPainter().mask == LEFT


def mask(page):
    return told(page, "mask").split("-")


def center(page, row, column):
    cell = page.locator("[role=grid] tbody tr").nth(row).locator("td").nth(column)
    box = cell.bounding_box()
    assert min(box["width"], box["height"]) >= 32
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.slow
def test_keys_mouse_and_finger_paint(show):
    page = show(MaskPainter(), width=390, height=700, has_touch=True)
    grid = page.locator("[role=grid]")
    grid.scroll_into_view_if_needed()
    grid.locator("[tabindex='0']").focus()
    for key in ("Space", "ArrowRight", "ArrowDown", "Enter", "End", "Space", "ArrowRight", "Home"):
        page.keyboard.press(key)
    assert mask(page)[:2] == ["100000", "010001"]
    page.keyboard.press("Space")
    assert mask(page)[1] == "110001"

    button(page, "Reset").click()
    page.mouse.move(*center(page, 0, 0))
    page.mouse.down()
    page.mouse.move(*center(page, 0, 2), steps=8)
    page.mouse.move(*center(page, 2, 2), steps=8)  # already visible, and stays visible
    page.mouse.up()
    page.mouse.move(*center(page, 2, 5), steps=8)
    assert mask(page)[:3] == ["111000", "001000", "001000"]

    scroll = page.evaluate("scrollY")
    client = page.context.new_cdp_session(page)
    points = [center(page, row, 0) for row in (1, 2, 3)]
    for kind, (x, y) in zip(("touchStart", "touchMove", "touchMove"), points, strict=True):
        touch = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
        client.send("Input.dispatchTouchEvent", touch)
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert mask(page)[:4] == ["111000", "101000", "101000", "101100"]
    assert page.evaluate("scrollY") == scroll


@pytest.mark.slow
def test_its_sentence_and_its_boxes_follow_the_mask(show):
    page = show(MaskPainter())
    assert page.locator("td[data-nan]").count() == 2 * (6 + 1) + 2 * 2 + 2 * (6 + 1) + 6 * 2
    choose(page, "smallest number")
    assert page.locator("td[data-nan]").count() == 0
    assert "each word gets 1/6" in status(page)
    choose(page, "after")
    assert "at worst to 0.00" in status(page)
    unfold(page)
    checked = {name: page.get_by_role("checkbox", name=name) for name in ("causal", "padding")}
    assert all(box.is_checked() for box in checked.values())
    checked["padding"].uncheck()
    assert mask(page) == bits(causal_mask(6)).split("-")
    page.mouse.click(*center(page, 0, 5))
    assert not checked["causal"].is_checked()
