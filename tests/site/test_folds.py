"""Boxes that open: the whole title opens its own box, with and without scripts."""

from __future__ import annotations

import re

import pypdfium2
import pytest
from pages import chapters, pages, parsed, signs, unfold

BOXES = "article details.admonition"
PAGES = [page for page in pages() if signs(page, BOXES)] or ["index.html"]
OPEN = f"() => [...document.querySelectorAll('{BOXES}')].map((box) => box.open)"


def test_solutions_are_boxes_that_open(book):
    solutions = [box for page in PAGES for box in parsed(page).select(".solution")]
    assert len(solutions) > 50
    assert {box.name for box in solutions} == {"details"}
    assert [page for page in pages() if parsed(page).select("article .dropdown:not(details)")] == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_in_a_title_leads_elsewhere(book, page):
    for box in parsed(page).select(BOXES):
        assert [child.name for child in box.find_all(recursive=False)].index("summary") == 0
        assert box.summary.get_text(strip=True)
        assert box.summary.select("a, button, input, summary, [tabindex], [onclick]") == []


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_click_anywhere_on_a_title_opens_its_own_box(browser, bases, scripts):
    page = max(PAGES, key=lambda page: len(parsed(page).select(BOXES)))
    context = browser.new_context(
        java_script_enabled=scripts, viewport={"width": 390, "height": 844}
    )
    try:
        shown = context.new_page()
        errors = []
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.goto(bases["http"] + page)
        unfold(shown)
        address = shown.url
        boxes = shown.locator(BOXES)
        count = boxes.count()
        assert count > 3

        def which() -> list[int]:
            found = boxes.evaluate_all("(boxes) => boxes.map((box) => box.open)")
            return [number for number, is_open in enumerate(found) if is_open]

        for number in (0, count // 2, count - 1):
            title = boxes.nth(number).locator("> summary")
            title.scroll_into_view_if_needed()
            size = title.bounding_box()
            for share in (0.03, 0.5, 0.97):
                place = {"x": share * size["width"], "y": size["height"] / 2}
                title.click(position=place)
                assert which() == [number]
                title.click(position=place)
                assert which() == []
            title.press("Enter")
            assert which() == [number]
            title.press("Enter")
        assert shown.url == address
        assert errors == []
    finally:
        context.close()


@pytest.mark.slow
def test_a_link_opens_what_it_leads_to(visit):
    page = next(page for page in PAGES if parsed(page).select(f"{BOXES}[id] .cell"))
    shown, watch = visit(page, figures=".nothing")
    name = parsed(page).select_one(f"{BOXES}[id]:has(.cell)")["id"]
    assert not any(shown.evaluate(OPEN))
    shown.evaluate("(name) => { location.hash = name; }", name)
    box = shown.locator(f'[id="{name}"]')
    box.locator(".cell").first.wait_for(state="visible")
    assert shown.evaluate(OPEN).count(True) == 1
    assert box.evaluate("(e) => Math.abs(e.getBoundingClientRect().top) < innerHeight / 2")
    assert watch.errors == []


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
    page = "chapters/02_scaled_dot_product.html"
    for hash in ("how-many-keys-share-the-weight", "ScaleMeter=16"):
        shown = browser.new_page()
        shown.goto(f"{bases['http']}{page}#{hash}")
        opened = shown.locator("details.deeper[open]")
        opened.wait_for()
        assert opened.count() == 1
        assert opened.evaluate("(e) => e.getBoundingClientRect().top < innerHeight")
        shown.close()


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
