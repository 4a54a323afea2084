"""Boxes that open: by a link to what is in them, and for a print."""

from __future__ import annotations

import re

import pypdfium2
import pytest
from pages import chapters, parsed

NAME, PHONE = "chapters/06_many_heads.html", {"width": 390, "height": 844}
BOXES = "article details.admonition"
OPEN = f"() => [...document.querySelectorAll('{BOXES}')].map((box) => box.open)"


@pytest.mark.parametrize("page", chapters())
def test_deeper_is_its_questions_with_minutes(book, page):
    """Each opens by its heading, and the contents lead there."""
    assert parsed(page).select("#deeper > section") == []
    parts = parsed(page).select("#deeper > details.deeper")
    names = [part["id"] for part in parts]
    assert names
    for part in parts:
        assert re.fullmatch(r"[1-9]\d? min", part.select_one("summary > span").get_text())
        assert part.summary.h3.get_text(strip=True) and not part.summary.select("a, button")
    links = [link["href"][1:] for link in parsed(page).select("nav.page-toc a")]
    assert [name for name in names if name not in links] == []


@pytest.mark.slow
def test_a_link_opens_a_part_of_deeper(browser, bases):
    """A link to the part itself, and the address of a live figure's state in there."""
    page = "chapters/02_scaled_dot_product.html"
    for hash in ("how-many-keys-share-the-weight", "ScaleMeter=16"):
        shown = browser.new_page()
        shown.goto(f"{bases['http']}{page}#{hash}")
        opened = shown.locator("details.deeper[open]")
        opened.wait_for()
        assert opened.count() == 1
        assert opened.evaluate("(e) => e.getBoundingClientRect().top < innerHeight")
        shown.close()


@pytest.mark.slow
def test_a_box_s_content_stands_below_its_title(visit):
    page, _ = visit("chapters/02_scaled_dot_product.html", figures=".nothing")
    shifts = page.evaluate(
        """[...document.querySelectorAll("article .admonition:not(.hide)")].map((box) => {
            box.open = true;
            const [title, content] = [...box.children].map((e) => e.getBoundingClientRect().left);
            return content - title - parseFloat(getComputedStyle(box.children[0]).paddingLeft);
        })"""
    )
    assert len(shifts) > 10 and set(map(round, shifts)) == {0}


@pytest.mark.slow
def test_a_print_is_complete_and_light(visit):
    """Folds are open, a figure that never woke is a picture, and dark prints as light does."""
    name = "chapters/13_training.html"
    prints = []
    for theme, motion in (("dark", "no-preference"), ("light", "reduce")):
        shown, _ = visit(name, figures=".nothing", color_scheme=theme, reduced_motion=motion)
        shown.evaluate("document.querySelectorAll('.deeper').forEach((e) => { e.open = false; })")
        prints.append(pypdfium2.PdfDocument(shown.pdf()))
        assert not any(shown.evaluate(OPEN))
        assert shown.evaluate("document.documentElement.dataset.theme") == theme
    dark, light = ([page.render(scale=0.5).to_pil() for page in made] for made in prints)
    assert dark == light
    text = "".join(page.get_textpage().get_text_bounded() for page in prints[0])
    printed = re.sub(r"\W", "", text)
    code = [block.get_text() for block in parsed(name).select("details.hide pre")]
    lines = [re.sub(r"\W", "", line) for block in code for line in block.split("\n")]
    assert len(lines) > 150
    assert [line for line in lines if line not in printed] == []
    kinds = {"filter": [pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], "max_depth": 6}
    pictures = [picture for page in prints[0] for picture in page.get_objects(**kinds)]
    assert len(pictures) == len(parsed(name).select("article img"))


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_title_opens_its_own_box_wherever_it_is_hit(visit, scripts):
    page, watch = visit(NAME, figures=".nothing", viewport=PHONE, java_script_enabled=scripts)
    boxes = page.locator(f"{BOXES}:not(.deeper *)")
    for box in boxes.all():
        title = box.locator("> summary")
        size = title.bounding_box()
        for share in (0.03, 0.5, 0.97):
            place = {"x": share * size["width"], "y": size["height"] / 2}
            title.click(position=place)
            opened = page.locator(f"{BOXES}[open]")
            assert opened.count() == 1 and box.get_attribute("open") is not None
            title.click(position=place)
            assert opened.count() == 0
        title.press("Enter")
        assert box.get_attribute("open") is not None
        title.press("Enter")
    assert boxes.count() > 3 and page.url.endswith(NAME) and watch.complaints == {}
