"""What stands around a page: its buttons, the next page, how far one has read, the search."""

import re
from urllib.parse import parse_qs, urlsplit
from zipfile import ZipFile

import pytest
from bs4 import BeautifulSoup
from pages import BOOK, ROOT, chapters, pages, parsed, until
from published import REPOSITORY, VERSION
from test_predictions import ANSWER_ALL, OURS, REASON, clear

from changed import known

CHAPTERS = chapters()
CHAPTER, NEXT = CHAPTERS[:2]
NOTEBOOKS = sorted((ROOT / "chapters").glob("*.ipynb"))
KEY = "attention-built-by-hand"
TO_THE_END = "window.scrollTo(0, document.documentElement.scrollHeight)"


def actions(soup: BeautifulSoup) -> dict[str, str]:
    return {link["data-action"]: link["href"] for link in soup.select(".page-action")}


# --- what can be done with a page -----------------------------------------------------------------


def test_each_notebook_can_be_downloaded(book):
    for path in NOTEBOOKS:
        page = BOOK / "chapters" / f"{path.stem}.html"
        link = actions(parsed(f"chapters/{page.name}"))["download"]
        assert (page.parent / link).resolve() == BOOK / "student" / path.name


def test_all_can_be_taken_along(book):
    """The notebooks, the whole library as a wheel, mine.py, and how to start."""
    (link,) = parsed("index.html").select("a[download]")
    with ZipFile(BOOK / link["href"]) as packed:
        names = {name.partition("/")[2]: name for name in packed.namelist()}
        assert {name for name in names if name.endswith(".ipynb")} == {p.name for p in NOTEBOOKS}
        (wheel,) = (name for name in names if name.endswith(".whl"))
        assert wheel in packed.read(names["START.txt"]).decode()
        assert packed.read(names["mine/06/mine.py"]) == (BOOK / "mine/06/mine.py").read_bytes()
        assert not [name for name in names if b"](../" in packed.read(names[name])]
        with ZipFile(packed.open(names[wheel])) as library:
            inside = set(library.namelist())
    # A folder or file that pyproject.toml doesn't name is missing only where this was installed.
    files = {name for name in known() if name.startswith("transformer_lib/")}
    records = (path.name for path in (ROOT / "results").glob("*.json"))
    files |= {f"transformer_lib/published/{name}" for name in records}
    assert len(files) > 100 and files - inside == set()


@pytest.mark.slow
def test_once_published_a_page_leads_to_colab_and_to_a_report(published):
    """Colab opens the edition on its branch; a report says on which page of which version."""
    reported = {page for page in pages() if page not in ("404.html", "search.html")}
    notebooks = {f"chapters/{path.stem}.html": path.name for path in NOTEBOOKS}
    assert notebooks.keys() <= reported
    for page in reported:
        soup = BeautifulSoup((published / page).read_text(encoding="utf-8"), "html.parser")
        offered = actions(soup)
        if name := notebooks.get(page):
            branch = f"github{urlsplit(REPOSITORY).path}/blob/student/{name}"
            assert offered["colab"] == f"https://colab.research.google.com/{branch}"
            student = (published / "student" / name).read_text(encoding="utf-8")
            assert f"git+{REPOSITORY}@v{VERSION}" in student
        assert [link["href"] for link in soup.select(".extra_footer a[href^=https]")] == [
            f"{REPOSITORY}{path}" for path in ("", "/issues/new/choose", "/discussions")
        ]
        assert offered["report"].startswith(f"{REPOSITORY}/issues/new?")
        fields = parse_qs(urlsplit(offered["report"]).query, strict_parsing=True)
        title = " ".join(soup.h1.get_text().removesuffix("#").split())
        assert fields["title"] == [f"Error in “{title}”"]
        (body,) = fields["body"]
        source = re.search(r"^Page: .* \((.*)\)$", body, re.M)[1]
        assert (ROOT / source).stem == page.rpartition("/")[2].removesuffix(".html")
        assert (ROOT / source).is_file()
        assert f"\nVersion: {VERSION}\n" in body


@pytest.mark.slow
def test_a_report_names_the_section_on_the_screen(visit, published_address):
    page = visit(CHAPTER, published_address)
    report = page.get_by_role("link", name="Report an error here")

    def section() -> str:
        report.focus()
        (body,) = parse_qs(urlsplit(report.get_attribute("href")).query)["body"]
        report.blur()
        return re.search(r"^Section: (.*)$", body, re.M)[1]

    # Figures that wake on the way make the page longer.
    def scrolled_to_the_exercises() -> bool:
        page.evaluate("document.querySelector('#exercises').scrollIntoView()")
        return section().startswith("Exercises (#exercises)")

    assert section() == ""
    until(page, scrolled_to_the_exercises)


# --- the next page --------------------------------------------------------------------------------


def test_the_next_page_is_named_with_its_question(book):
    following = parsed(CHAPTER).select_one("a.right-next")
    there = parsed(NEXT)
    assert f"chapters/{following['href']}" == NEXT
    assert following["rel"] == ["next"]
    title = following.select_one(".prev-next-title").get_text()
    assert title == there.h1.get_text().removesuffix("#")
    question = following.select_one(".prev-next-question").get_text()
    assert question.endswith("?")
    assert question == there.select_one("article h2").get_text().removesuffix("#")
    # An appendix asks nothing.
    assert parsed(CHAPTERS[-1]).select(".prev-next-question") == []


# --- how far one has read -------------------------------------------------------------------------


def progress(page) -> float:
    box = page.locator(".reading-progress").bounding_box()
    return box["width"] / page.evaluate("document.documentElement.clientWidth")


CORE = "[...document.querySelectorAll('article section > h2')]"


def read(page, count=None):
    """Bring each section of the first reading, or the first few, onto the screen and rest there."""
    headings = page.evaluate(f"{CORE}.map((h) => h.parentElement.id)")
    for name in headings[: headings.index("exercises")][:count]:
        page.evaluate("(id) => document.getElementById(id).scrollIntoView()", name)
        seen = f"() => (localStorage.getItem('{KEY}:seen') ?? '').includes('\"{name}\"')"
        page.wait_for_function(seen)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "file"])
def test_progress_and_memory(visit, scheme):
    page = visit(CHAPTER, scheme)
    assert progress(page) == 0
    assert page.locator(".reading-memory").is_hidden()
    page.evaluate(TO_THE_END)
    page.wait_for_timeout(1000)  # the key End reads nothing
    assert page.locator(".read-tick").count() == 0
    read(page, 2)
    until(page, lambda: 0.05 < progress(page) < 0.9)
    # Another day, the rest.
    page.reload()
    assert page.locator(".read-tick").count() == 0
    read(page)
    page.evaluate("document.getElementById('exercises').scrollIntoView()")
    until(page, lambda: progress(page) == pytest.approx(1, abs=0.01))
    chapters = page.locator("nav.bd-links")
    first = chapters.get_by_role("link", name="A dictionary that answers almost")
    assert "(read)" in first.aria_snapshot()
    # Another page of the book remembers, and a reader can clear it.
    page.goto(page.url.replace(CHAPTER, NEXT))
    assert page.locator(".read-tick").count() == 1
    assert "(read)" in first.aria_snapshot()
    assert f"1 of {len(CHAPTERS)} " in page.locator(".reading-memory").inner_text()
    clear(page, "Clear the marks of chapters read", ".read-tick")
    assert page.evaluate(f"localStorage.getItem('{KEY}:read')") is None
    page.reload()
    assert page.locator(".read-tick").count() == 0


@pytest.mark.slow
def test_the_first_page_leads_back_to_where_one_was(visit):
    """By the whole title, the words in italics too."""
    there = "chapters/06_many_heads.html"
    page = visit(there)
    title = "What if eats attends twice?"
    heading = page.locator("article section > h2").filter(has_text=title)
    heading.evaluate("(h) => h.scrollIntoView()")
    page.wait_for_function(f"() => localStorage.getItem('{KEY}:place')")
    page.goto(page.url.replace(there, "index.html"))
    page.get_by_role("link", name=f"Continue where you left off: {title}").click()
    page.wait_for_url(f"**/{there}#*")
    assert heading.evaluate("(h) => Math.abs(h.getBoundingClientRect().top) < innerHeight / 2")


@pytest.mark.slow
def test_the_sidebar_shows_the_chapter_and_stays_as_it_was(visit):
    page = visit(CHAPTERS[15], viewport={"width": 1280, "height": 800})
    inside = "(e) => { const b = e.getBoundingClientRect(); return b.top > 0 && b.bottom < 800; }"
    for shown in ("nav.bd-links a.current", ".logo__title", ".search-button-field"):
        assert page.locator(f".bd-sidebar-primary {shown}").evaluate(inside), shown
    page.locator(".primary-toggle").click()
    sidebar = page.locator(".bd-sidebar-primary")
    sidebar.wait_for(state="hidden")
    page.goto(page.url.replace(CHAPTERS[15], NEXT))
    assert sidebar.is_hidden()
    page.locator(".primary-toggle").click()
    sidebar.wait_for(state="visible")


# What an older edition or another program may have left where reader.js and predict.js look.
SPOILED = (
    "not JSON",
    '{"a": 1}',
    "[null]",
    '{"01-break-it-predict": {"said": [3]}}',
    '{"01-break-it-predict": {"said": ["a choice of an older edition"]}}',
)
REFUSED = """
for (const name of ["getItem", "setItem", "removeItem"]) {
  const usual = Storage.prototype[name];
  Storage.prototype[name] = function (key, ...rest) {
    if (key.startsWith("attention-")) throw new DOMException("refused", "SecurityError");
    return usual.call(this, key, ...rest);
  };
}
"""


@pytest.mark.slow
def test_a_memory_that_is_spoiled_or_refused_harms_nothing(visit):
    page = visit(CHAPTER)
    reason = page.locator("#predict-01-break-it-predict").get_by_text(REASON)

    def the_bar_moves_and_questions_answer() -> None:
        page.reload()
        page.evaluate(TO_THE_END)
        until(page, lambda: progress(page) > 0.5)
        assert reason.is_hidden()
        page.evaluate(ANSWER_ALL)
        assert reason.is_visible()

    answered = len(parsed(CHAPTER).select(".predict"))
    for stored in SPOILED:
        for what in ("read", "seen", "place", "list", "sidebar closed", "predictions"):
            page.evaluate(f"localStorage.setItem('{KEY}:{what}', '{stored}')")
        the_bar_moves_and_questions_answer()
        page.goto(page.url.replace(CHAPTER, OURS))
        assert page.get_by_text(f"You made {answered} of").is_visible()
        page.go_back()
    page.add_init_script(REFUSED)
    the_bar_moves_and_questions_answer()
    page.goto(page.url.replace(CHAPTER, OURS))
    assert page.get_by_text("No prediction of yours is kept in this browser.").is_visible()
    page.goto(page.url.replace(OURS, "index.html"))


# --- search ---------------------------------------------------------------------------------------


def results(page) -> list[tuple[str, str]]:
    """(title, address) of what was found, the best first."""
    page.locator("ul.found > li").first.wait_for()
    links = page.locator("ul.found > li > a").all()
    return [(link.inner_text(), link.get_attribute("href")) for link in links]


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_from_the_keyboard(visit, scheme):
    page = visit(CHAPTER, scheme)
    page.keyboard.press("Control+k")
    page.locator("input[name=q]:focus").wait_for(state="visible")
    page.keyboard.type("cross-attention")
    titles = [title for title, _ in results(page)]
    assert "cross-attention" in titles and "4. Self-attention and cross-attention" in titles
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=cross-attention")
    found = results(page)
    assert any(address.endswith("glossary.html#term-cross-attention") for _, address in found)
    face = "(e) => getComputedStyle(e).fontFamily.split(',')[0]"
    assert "Source Serif" in page.locator("h1:visible").evaluate(face)
    page.locator("ul.found a[href*='term-cross-attention']").first.click()
    page.wait_for_url("**/glossary.html#term-cross-attention")
    assert page.locator("dt#term-cross-attention").is_visible()
    assert page.locator("article mark, .highlighted").count() == 0


@pytest.mark.slow
def test_what_is_meant_comes_first(visit):
    """What is found is shown in prose: no code, no outputs, no table of contents."""
    page = visit("search.html")
    for query, section in {
        "label smoothing": "glossary.html#term-label-smoothing",
        "dividing by the root of d_k": "02_scaled_dot_product.html",
        "causal mask": "05_masks.html",
    }.items():
        page.goto(f"{page.url.partition('?')[0]}?q={query.replace(' ', '+')}")
        assert any(section in address for _, address in results(page)[:3])
        text = " ".join(page.locator("p.excerpt").all_inner_texts())
        code = ("import", "def ", "torch.tensor(", "Contents")
        assert text and [sign for sign in code if sign in text] == []
    page.goto(f"{page.url.partition('?')[0]}?q=zzyzx")
    page.get_by_text("Nothing found for “zzyzx”.").wait_for()
