"""The translator's files stand beside the pages, are light, and come only when a reader asks."""

import pytest

MOUNT = '[data-model="LiveTranslator-1"]'
PAGES = ("chapters/translator.html", "chapters/live_figures_training.html", "index.html")
MOST_BYTES = 1_000_000


def files(book):
    return sorted((book / "_static" / "models").glob("number-words-*.js"))


def test_its_files_are_light(book):
    assert len(files(book)) == 6
    assert sum(file.stat().st_size for file in files(book)) < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("place", PAGES)
@pytest.mark.parametrize("scheme", ["http", "file"])
def test_it_is_loaded_when_a_reader_asks(visit, book, place, scheme):
    page = visit(place, scheme, "[data-model]")
    figure = page.locator(MOUNT)
    assert page.evaluate("globalThis.bookModels === undefined")
    asked = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    figure.get_by_role("textbox").fill("four")
    figure.scroll_into_view_if_needed()
    assert [name for name in asked if name.endswith(".js")] == []
    figure.get_by_role("button", name="Load the translator (0.96 MB)").click()
    figure.locator(".lf-status", has_text="It writes “vierzig”.").wait_for()
    assert [name for name in asked if name.endswith(".js")] == [file.name for file in files(book)]
