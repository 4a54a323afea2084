"""The drawing of the Transformer: highlighted parts, and labels inside their boxes."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from transformer_lib.figures.machine import PARTS, Machine


def drawn(*lit):
    return ElementTree.fromstring(Machine(*lit)._repr_html_())


def lit_boxes(picture):
    return [box for box in picture if box.get("class") == "machine-box" and box.get("fill")]


@pytest.mark.parametrize("part", PARTS)
def test_one_part_is_lit(part):
    dark, lit = drawn(), drawn(part)
    accent = [e for e in lit if "#0b66a8" in (e.get("fill"), e.get("stroke"))]
    assert accent and len(dark) == len(lit)
    assert not [e for e in dark if "#0b66a8" in (e.get("fill"), e.get("stroke"))]
    assert lit.get("aria-label").endswith(f"Highlighted in this chapter: {part}.")
    white = [e.text for e in lit if e.get("fill") == "white"]
    assert len(white) == len(lit_boxes(lit))


def test_only_what_is_asked_for_is_lit():
    picture = drawn("cross-attention", "feed-forward")
    assert len(lit_boxes(picture)) == 3  # one attention, a feed-forward network on each side
    assert repr(Machine("output")) == "The Transformer. Lit: output."


def test_each_label_stays_in_its_box():
    picture = list(drawn())
    pairs = [(a, b) for a, b in pairwise(picture) if a.get("class") == "machine-box"]
    assert len(pairs) >= 12
    for box, text in pairs:
        middle, width = float(text.get("x")), float(text.get("textLength"))
        left = float(box.get("x"))
        assert left + 2 <= middle - width / 2, text.text
        assert middle + width / 2 <= left + float(box.get("width")) - 2, text.text


def test_everything_is_inside_the_picture():
    picture = drawn(*PARTS)
    *_, width, height = map(float, picture.get("viewBox").split())
    for element in picture:
        if element.get("width"):
            assert 0 <= float(element.get("x")) <= width - float(element.get("width"))
            assert 0 <= float(element.get("y")) <= height - float(element.get("height"))
        for number in re.findall(r"(?<=[MLV,H])\d+", element.get("d", "")):
            assert float(number) <= width


def said(picture):
    return [element.text for element in picture if element.tag.endswith("text")]


@pytest.mark.parametrize(
    ("keep", "reads", "says", "attention", "other"),
    [
        ("decoder", "the hungry cat eats fresh", "fish", "masked self-attention", range(240)),
        ("encoder", "the hungry [MASK] eats fresh fish", "cat", "self-attention", range(240, 480)),
    ],
)
def test_a_half_alone_is_lit_alone(keep, reads, says, attention, other):
    picture = ElementTree.fromstring(Machine(*PARTS, keep=keep)._repr_html_())
    boxes = lit_boxes(picture)
    # words, embedding, positions, one attention, feed-forward, output, next word
    assert len(boxes) == 7
    assert not [box for box in boxes if int(box.get("x")) in other]
    white = [element.text for element in picture if element.get("fill") == "white"]
    assert white == [reads, "embedding", "positions", attention, "feed-forward", "output", says]
    assert not any("memory" in (text or "") for text in said(picture))
    assert repr(Machine("output", keep=keep)) == f"The Transformer. The {keep} alone. Lit: output."
    pairs = [(a, b) for a, b in pairwise(picture) if a.get("class") == "machine-box"]
    for box, text in pairs:
        assert float(text.get("textLength")) <= float(box.get("width")) - 4, text.text


def test_the_whole_machine_has_no_pale_parts():
    assert said(drawn())[0] == "memory: a vector for each word"
    assert "0.15" not in Machine(*PARTS)._repr_html_()
    with pytest.raises(ValueError, match=r"keep must be 'decoder', 'encoder' or None, got 'half'"):
        Machine(keep="half")


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match=r"lit must be parts of the machine .*got 'engine'"):
        Machine("engine")
