"""The picture of the path on the landing page: every chapter, links to those that are there."""

from __future__ import annotations

import re

import pytest
from pages import in_every_font, pages, parsed

DRAWINGS = ["path-wide", "path-narrow"]
pytestmark = pytest.mark.usefixtures("book")


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_map_shows_the_chapters_of_the_list_and_links_to_those_that_are_there(name):
    page = parsed("index.html")
    drawing = page.select_one(f"svg.{name}")
    stops = drawing.select(".path-stop")
    planned = [item for part in page.select(".path ol") for item in part.select("li")]
    assert [int(stop.tspan.text) for stop in stops] == [*range(1, len(planned) + 1)]

    there = {int(m[1]): p for p in pages() if (m := re.match(r"chapters/(\d+)_", p))}
    links = {int(stop.tspan.text): stop["href"] for stop in stops if stop.name == "a"}
    assert links == there
    assert all(stop["aria-label"] for stop in stops if stop.name == "a")


@pytest.mark.slow
@pytest.mark.parametrize(
    "width, name", [(1280, "path-wide"), (390, "path-narrow"), (320, "path-narrow")]
)
def test_one_drawing_is_shown_and_can_be_read(visit, width, name):
    page, _ = visit("index.html", viewport={"width": width, "height": 800})
    shown = [d for d in DRAWINGS if page.locator(f"svg.{d}").is_visible()]
    assert shown == [name]
    for font in in_every_font(page):
        small = page.locator(f"svg.{name}").evaluate(
            """(svg) => [...svg.querySelectorAll("text")].map((text) => {
              const [a, b, c] = [text.getBBox(), svg.viewBox.baseVal, svg.getBoundingClientRect()];
              const size = parseFloat(getComputedStyle(text).fontSize) * c.width / b.width;
              const inside = a.x >= -2 && a.x + a.width <= b.width + 2;
              return [text.textContent, size, inside];
            }).filter(([, size, inside]) => size < 11 || !inside)"""
        )
        assert small == [], font
