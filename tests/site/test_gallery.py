"""The list of live figures shows each of them and leads there."""

from __future__ import annotations

from pages import gallery, parsed

LIST = "chapters/live_figures.html"


def test_the_list_leads_to_every_figure(book):
    listed = [link["href"] for link in parsed(LIST).select(".gallery li > p > a:first-child")]
    wanted = []
    for page in gallery():
        for figure in parsed(page).select("[data-model]"):
            section = figure.find_parent("section")
            wanted.append(f"{page.removeprefix('chapters/')}#{section['id']}")
    assert listed == wanted
    assert len(listed) > 20


def test_each_figure_has_a_small_picture(book):
    stills = [image["src"] for page in gallery() for image in parsed(page).select("img.live-still")]
    assert [image["src"] for image in parsed(LIST).select(".gallery li > img")] == stills
