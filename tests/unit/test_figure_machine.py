"""The drawing of the Transformer: highlighted parts, and labels inside their boxes."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from transformer_lib.figures.machine import PARTS, Machine


def drawn(*lit, keep=None):
    return list(ElementTree.fromstring(Machine(*lit, keep=keep)._repr_html_()).iter())


def lit_boxes(picture):
    return [box for box in picture if box.get("class") == "machine-box" and box.get("fill")]


@pytest.mark.parametrize("part", PARTS)
def test_one_part_is_lit(part):
    dark, lit = drawn(), drawn(part)
    accent = [e for e in lit if "#0b66a8" in (e.get("fill"), e.get("stroke"))]
    assert accent and len(dark) == len(lit)
    assert not [e for e in dark if "#0b66a8" in (e.get("fill"), e.get("stroke"))]
    assert lit[0].get("aria-label").endswith(f"Highlighted in this chapter: {part}.")
    white = [e for e in lit if e.get("fill") == "white"]
    assert len(white) == len(lit_boxes(lit))


def test_only_what_is_asked_for_is_lit():
    assert (
        len(lit_boxes(drawn("cross-attention", "feed-forward"))) == 3
    )  # one, and one on each side
    assert repr(Machine("output")) == "The Transformer. Lit: output."


@pytest.mark.parametrize("keep", [None, "decoder", "encoder"])
def test_each_label_stays_in_its_box(keep):
    pairs = [(a, b) for a, b in pairwise(drawn(keep=keep)) if a.get("class") == "machine-box"]
    assert len(pairs) >= 12
    for box, text in pairs:
        middle, width = float(text.get("x")), float(text.get("textLength"))
        left = float(box.get("x"))
        assert left + 2 <= middle - width / 2, text.text
        assert middle + width / 2 <= left + float(box.get("width")) - 2, text.text


@pytest.mark.parametrize(
    ("keep", "reads", "says", "attention"),
    [
        ("decoder", "the hungry cat eats fresh", "fish", "masked self-attention"),
        ("encoder", "the hungry [MASK] eats fresh fish", "cat", "self-attention"),
    ],
)
def test_a_half_alone_is_lit_alone(keep, reads, says, attention):
    picture = drawn(*PARTS, keep=keep)
    white = [element.text for element in picture if element.get("fill") == "white"]
    assert white == [reads, "embedding", "positions", attention, "feed-forward", "output", says]
    pale = [group for group in picture if group.get("opacity")]
    assert len(pale) == (2 if keep == "decoder" else 1)  # the other half, and cross-attention
    assert not any("memory" in (element.text or "") for element in picture)
    assert repr(Machine("output", keep=keep)) == f"The Transformer. The {keep} alone. Lit: output."


def test_an_unknown_part_or_half_is_refused():
    with pytest.raises(ValueError, match=r"lit must be parts of the machine .*got 'engine'"):
        Machine("engine")
    with pytest.raises(ValueError, match=r"keep must be 'decoder', 'encoder' or None, got 'half'"):
        Machine(keep="half")
