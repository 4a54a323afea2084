"""The list of live figures leads to each of them, and so do addresses from before there was one."""

from __future__ import annotations

import pytest
from pages import gallery, parsed, until

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


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#MaskPainter=fill:smallest", "live_figures_attention.html#MaskPainter=fill:smallest"),
        ("#Sampler=a:1&Nobody=b:2", "live_figures_today.html#Sampler=a:1&Nobody=b:2"),
        ("#why-divide-by-d-k", "live_figures_attention.html#why-divide-by-d-k"),
        ("#fig-live-byte-pairs", "live_figures_training.html#fig-live-byte-pairs"),
        ("#ex-figures-move", "live_figures_transformer.html#ex-transformer-move"),
    ],
)
def test_an_old_address_leads_on(visit, scheme, old, new):
    page, watch = visit(LIST + old, scheme, "#none")
    until(page, lambda: "live_figures_" in page.url)
    page.wait_for_load_state()
    named = new.partition("#")[2]
    if "=" in named:
        name = named.partition("=")[0]
        page.locator(f'[data-model^="{name}-"][data-state=live]').wait_for()
    else:
        assert page.locator(f'[id="{named}"]').count() == 1
        assert page.url.endswith(new)
    assert f"/{new.partition('#')[0]}" in page.url
    watch.until_quiet(page)
    assert watch.complaints == {}


@pytest.mark.browser
def test_other_addresses_stay(visit):
    page, _ = visit(LIST + "#part-ii-the-transformer", "http", "#none")
    page.wait_for_timeout(300)
    assert page.url.endswith(LIST + "#part-ii-the-transformer")
    page.evaluate("location.hash = '#SoftLookup=temperature:0'")
    until(page, lambda: "live_figures_attention.html" in page.url)
