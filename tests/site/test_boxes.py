"""A page shows what its notebook's tags say: numbered boxes, and folds that open: by a title, by a
link to what is in them, and for a print."""

import json
import re

import pypdfium2
import pytest
from pages import ROOT, chapters, gallery, parsed

import cells

BOXES = "article details.admonition"
OPEN = f"() => [...document.querySelectorAll('{BOXES}')].map((box) => box.open)"


def words(text: str) -> list[str]:
    """The plain words of a Markdown text, markup and formulas left out."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.S)
    return re.findall(r"[a-z]{4,}", text.lower())


@pytest.mark.parametrize("page", [*chapters(), *gallery()])
def test_every_block_is_on_the_page_in_its_box(book, page):
    soup, number = parsed(page), 0
    source = (ROOT / page.replace(".html", ".ipynb")).read_text(encoding="utf-8")
    for block in cells.blocks(page.removesuffix(".html"), json.loads(source)["cells"]):
        if not block.label:
            continue
        found = soup.find(id=block.label)
        assert found is not None, block.label
        if block.kind in {"exercise", "solution"}:
            number += block.kind == "exercise"
            place = cells.place(page)
            count = f"{int(place)}.{number}" if place.isdigit() else str(number)
            title = found.select_one(".admonition-title").get_text()
            assert f"Exercise {count} (" in " ".join(title.split())
        if block.kind in {"solution", "fold"}:
            assert found.name == "details" and not found.has_attr("open")
        said = " ".join(cells.text(c) for c in block.cells if c["cell_type"] == "markdown")
        there = found.get_text().lower()
        assert [word for word in words(said) if word not in there] == [], block.label
    text = soup.select_one("article").get_text()
    assert ":::" not in re.sub(r"\[[^\]]*\]", "", text)
    assert "####" not in text


@pytest.mark.parametrize("page", chapters())
def test_deeper_is_its_questions_with_minutes(book, page):
    """Each opens by its heading, and the contents lead there."""
    assert parsed(page).select("#deeper > section") == []
    parts = parsed(page).select("#deeper > details.deeper")
    links = {link["href"][1:] for link in parsed(page).select("nav.page-toc a")}
    assert parts and {part["id"] for part in parts} <= links
    for part in parts:
        assert re.fullmatch(r"[1-9]\d? min", part.select_one("summary > span").get_text())
        assert part.summary.h3.get_text(strip=True) and not part.summary.select("a, button")


@pytest.mark.slow
@pytest.mark.parametrize(
    "address, box",
    [
        ("chapters/06_many_heads.html#sol-06-flops", BOXES),
        ("chapters/02_scaled_dot_product.html#how-many-keys-share-the-weight", ".deeper"),
        ("chapters/02_scaled_dot_product.html#ScaleMeter=16", ".deeper"),  # a figure's state
    ],
)
def test_an_address_opens_what_it_names(browser, bases, address, box):
    page = browser.new_page()
    page.goto(bases["http"] + address)
    opened = page.locator(f"{box}[open]")
    opened.wait_for()
    assert opened.count() == 1
    assert opened.evaluate("(e) => e.getBoundingClientRect().top < innerHeight")
    if box == BOXES:  # and so does a link on the page
        page.evaluate("location.hash = '#sol-06-reshape'")
        page.locator("#sol-06-reshape[open] > summary").click()
        assert page.locator("#sol-06-reshape[open]").count() == 0
    page.close()


@pytest.mark.slow
def test_a_box_s_content_stands_below_its_title(visit):
    page = visit("chapters/02_scaled_dot_product.html")
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
        shown = visit(name, color_scheme=theme, reduced_motion=motion)
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
