"""What the site tells others: descriptions, cards, addresses, its pages, its links to elsewhere."""

from __future__ import annotations

import json
import re
from io import BytesIO
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from pages import BOOK, ROOT, Watch, pages, parsed
from PIL import Image
from published import ADDRESS, REPOSITORY, extension, fingerprint, publishing

cards, publish = extension("cards"), extension("publish")
TOOLS = {f"{name}.html" for name in publish.TOOLS}
PAGES = [page for page in pages() if page not in TOOLS] or ["index.html"]
every_page = pytest.mark.parametrize("page", PAGES)


def meta(soup: BeautifulSoup, name: str) -> str | None:
    found = soup.select(f'head > meta[name="{name}"], head > meta[property="{name}"]')
    assert len(found) <= 1, f"{name} is there {len(found)} times"
    return found[0]["content"] if found else None


# --- what each page is about ----------------------------------------------------------------------


@every_page
def test_a_page_says_what_it_is_about(book, page):
    soup = parsed(page)
    description = meta(soup, "description")
    assert 20 <= len(description) <= 200
    assert meta(soup, "og:description") == description
    assert meta(soup, "og:title") == " ".join(soup.h1.get_text().removesuffix("#").split())
    assert meta(soup, "og:site_name") == "Attention, Built by Hand"
    assert meta(soup, "twitter:card") == "summary_large_image"
    assert meta(soup, "og:image:alt").endswith(description)


def test_descriptions_differ(book):
    assert len({meta(parsed(page), "description") for page in PAGES}) == len(PAGES) > 5


@pytest.mark.parametrize("path", sorted((ROOT / "chapters").glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_chapter_is_described_by_its_promise(book, path):
    """The paragraph under its title, word for word."""
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
    promise = "".join(first).split("\n\n")[1]
    words = re.findall(r"[a-z]{2,}", re.sub(r"\$[^$]*\$|\]\([^)]*\)", "", promise).lower())
    description = meta(parsed(f"chapters/{path.stem}.html"), "description")
    assert re.findall(r"[a-z]{2,}", description.lower())[: len(words) - 1] == words[:-1]


@every_page
def test_a_page_has_a_card(book, page):
    image = meta(parsed(page), "og:image")
    with Image.open((BOOK / page).parent / image) as card:
        assert card.format == "PNG"
        assert card.size == (1200, 630)
        size = tuple(int(meta(parsed(page), f"og:image:{side}")) for side in ("width", "height"))
        assert size == card.size
        assert len(card.getcolors()) > 20  # text and logo, smoothed


def test_cards_differ(book):
    names = {meta(parsed(page), "og:image").rpartition("/")[2] for page in PAGES}
    assert len({(BOOK / "_static/cards" / name).read_bytes() for name in names}) == len(PAGES)


def test_a_card_keeps_its_text_left_of_the_logo():
    card = cards.draw_card(ROOT / "node_modules", "A book", "Everything " * 30, "at once " * 99, 7)
    picture = Image.open(BytesIO(card)).convert("L")
    right = cards.MARGIN + cards.TEXT_WIDTH
    assert min(picture.crop((right, 0, right + 24, 600)).tobytes()) > 240
    assert min(picture.crop((right - 150, 0, right, 600)).tobytes()) < 100


def test_a_character_that_no_face_has_is_an_error():
    cards.draw_card(ROOT / "node_modules", "A book", "√ and “quotes”", "d_k × 2", None)
    with pytest.raises(ValueError, match=r"U\+6CE8"):
        cards.draw_card(ROOT / "node_modules", "A book", "注意力", "", None)


@pytest.mark.parametrize(
    "latex, text",
    [(r"\sqrt{d_k}", "√d_k"), (r"d_\text{model}", "d_model"), ("x^2", "x^2"), (r"\beta", "beta")],
)
def test_a_formula_in_a_description_can_be_read(latex, text):
    assert publish.readable(latex) == text


def test_a_description_is_made_of_whole_sentences():
    text = "One sentence. " + "word " * 40 + "end. Third."
    assert publish.in_short(text) == "One sentence."
    assert publish.in_short("word " * 60).endswith("word …")
    assert publish.in_short("A. B.") == "A. B."
    assert publish.in_short("") == ""


# --- where the site is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "repository, address",
    [
        (REPOSITORY, ADDRESS),
        ("https://github.com/ada/Book.1", "https://ada.github.io/Book.1/"),
        ("https://github.com/Ada/ada.github.io", "https://ada.github.io/"),
    ],
)
def test_github_s_address_of_a_site(repository, address):
    assert publish.pages_address(repository) == address


@pytest.mark.parametrize(
    "baseurl, repository, address",
    [
        ("", None, ""),
        ("", REPOSITORY, ADDRESS),
        ("https://book.example/en", REPOSITORY, "https://book.example/en/"),
    ],
)
def test_the_owner_s_address_comes_first(baseurl, repository, address):
    options = {"repository_url": repository} if repository else {}
    config = SimpleNamespace(html_baseurl=baseurl, html_theme_options=options)
    publish.find_address(None, config)
    assert config.html_baseurl == address


def repository_is_set() -> bool:
    return ".invalid" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_without_an_address_nothing_claims_one(book):
    if repository_is_set():
        pytest.skip("the address is set")
    assert not (BOOK / "sitemap.xml").exists()
    assert not (BOOK / "robots.txt").exists()
    for page in pages():
        soup = parsed(page)
        assert meta(soup, "og:url") is None
        assert soup.select("link[rel=canonical]") == []
        assert "repository.invalid" not in str(soup.select("[href], [src], [content]"))


@pytest.mark.slow
def test_with_an_address_every_page_knows_its_own(published):
    urls = re.findall("<loc>(.*)</loc>", (published / "sitemap.xml").read_text(encoding="utf-8"))
    assert urls == sorted(set(urls))
    assert ADDRESS in urls
    listed = {"index.html" if url == ADDRESS else url.removeprefix(ADDRESS) for url in urls}
    built = {path.relative_to(published).as_posix() for path in published.rglob("*.html")}
    assert listed == {page for page in built if not page.startswith("_")} - TOOLS
    assert {page for page in PAGES if not page.startswith("_")} == listed
    for url in urls:
        page = "index.html" if url == ADDRESS else url.removeprefix(ADDRESS)
        soup = BeautifulSoup((published / page).read_text(encoding="utf-8"), "html.parser")
        assert [link["href"] for link in soup.select("link[rel=canonical]")] == [url]
        assert meta(soup, "og:url") == url
        assert meta(soup, "og:image").startswith(f"{ADDRESS}_static/cards/")
        assert (published / meta(soup, "og:image").removeprefix(ADDRESS)).is_file()
    robots = (published / "robots.txt").read_text(encoding="utf-8")
    assert f"Sitemap: {ADDRESS}sitemap.xml\n" in robots


def test_what_was_built_of_other_sources_is_not_taken(tmp_path):
    seen = set()
    (tmp_path / "node_modules").mkdir()
    for path in ("node_modules/.package-lock.json", "index.md", "chapters/a.ipynb"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        for text in ("one", "two"):
            (tmp_path / path).write_text(text)
            seen.add(fingerprint(tmp_path))
    (tmp_path / "chapters/a.ipynb").rename(tmp_path / "chapters/b.ipynb")
    seen.add(fingerprint(tmp_path))
    assert len(seen) == 7
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("one")  # no page is made of it
    assert fingerprint(tmp_path) in seen


@pytest.mark.slow
def test_tools_stay_out_of_search_engines(published):
    for name in ("404.html", "search.html"):
        soup = BeautifulSoup((published / name).read_text(encoding="utf-8"), "html.parser")
        assert meta(soup, "robots") == "noindex"
        assert soup.select("link[rel=canonical]") == []


def test_icons(book):
    for page in pages():
        for rel in ("icon", "apple-touch-icon"):
            (link,) = parsed(page).select(f"link[rel={rel}]")
            assert ((BOOK / page).parent / link["href"].partition("?")[0]).is_file()
    with Image.open(BOOK / "_static/touch-icon.png") as icon:
        assert icon.size == (180, 180)


# --- the page that is not there -------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, after",
    [
        ('<a href="chapters/a.html">', '<a href="/book/chapters/a.html">'),
        ('<img src="./x.png">', '<img src="/book/x.png">'),
        ('<html data-content_root="./">', '<html data-content_root="/book/">'),
        ('<a href="#top">', '<a href="#top">'),
        ('<a href="https://a.example/">', '<a href="https://a.example/">'),
        ('<a href="/other">', '<a href="/other">'),
        ('<img src="data:,">', '<img src="data:,">'),
    ],
)
def test_addresses_from_the_root(before, after):
    assert publish.from_the_root(before, "/book/") == after


@pytest.mark.slow
@pytest.mark.parametrize("address", ["gone.html", "chapters/gone.html", "a/b/c/gone"])
def test_the_page_not_found_works_at_any_depth(browser, published, address):
    context = browser.new_context()
    try:
        with publishing(published) as base:
            watch = Watch(context, base)
            page = context.new_page()
            response = page.goto(base + address, wait_until="networkidle")
            assert response.status == 404
            expected = f"{base}{address}: 404"
            assert [line for line in watch.failed if line != expected] == []
            assert watch.foreign == []
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
                "rgb(255, 254, 251)"
            )
            page.locator(".not-found input[name=q]").fill("softmax")
            page.keyboard.press("Enter")
            page.wait_for_url("**/search.html?q=softmax")
            page.locator("#search-results li").first.wait_for()
            page.go_back()
            page.locator(".not-found-pages a", has_text="A dictionary").click()
            page.wait_for_url("**/chapters/01_soft_lookup.html")
            assert page.locator("h1:visible").inner_text().startswith("1. A dictionary")
    finally:
        context.close()


def test_the_page_not_found_lists_every_page(book):
    soup = parsed("404.html")
    listed = {link["href"] for link in soup.select(".not-found-pages a")}
    assert {page for page in PAGES if page.startswith("chapters/")} <= listed


# --- the one list of links to elsewhere -----------------------------------------------------------

LINK = re.compile(r"https?://[\w][^\s<>()\[\]\"'`\\{]+")
# Addresses that stand for others: what an owner types, and what a standard calls itself.
NOT_LINKS = ("https://github.com/OWNER/", "http://localhost", "http://www.w3.org/")


def links_in_use() -> dict[str, set[str]]:
    """Address -> where it stands: pages, the texts of the repository, the library's downloads."""
    used: dict[str, set[str]] = {}
    for page in pages():
        for link in parsed(page).select('a[href^="http:"], a[href^="https:"]'):
            used.setdefault(link["href"].partition("#")[0], set()).add(page)
    texts = [*ROOT.glob("*.md"), ROOT / "LICENSE-text", *(ROOT / "transformer_lib").rglob("*.py")]
    for path in texts:
        for url in LINK.findall(path.read_text(encoding="utf-8")):
            used.setdefault(url.rstrip(".,;:"), set()).add(path.relative_to(ROOT).as_posix())
    home = re.search(r'^Repository = "(.*)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)[1]
    made = (home, "https://colab.research.google.com/github/")
    return {url: at for url, at in used.items() if not url.startswith((*NOT_LINKS, *made))}


def test_each_link_to_elsewhere_is_listed_once(book):
    text = (ROOT / "links.yml").read_text(encoding="utf-8")
    listed = yaml.safe_load(text)
    assert text.count("\nhttp") == len(listed), "an address stands twice"
    papers = set(re.findall(r"url\s*=\s*\{(.*)\}", (ROOT / "references.bib").read_text("utf-8")))
    assert listed.keys() & papers == set(), "listed in references.bib already"
    used = links_in_use()
    unlisted = {url: sorted(at) for url, at in used.items() if url not in papers | listed.keys()}
    assert unlisted == {}
    assert listed.keys() - used.keys() == set(), "nothing links there"
    assert [url for url, purpose in listed.items() if len(purpose) < 15] == []
    assert [url for url in used if urlsplit(url).scheme != "https"] == []


# --- the workflow that publishes ------------------------------------------------------------------


def test_the_workflow_publishes_what_make_builds():
    workflow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))
    triggers = workflow[True]  # YAML takes the word `on` for a truth value
    assert triggers["push"] == {"branches": ["main"], "tags": ["v*"]}
    assert "pull_request" not in triggers
    jobs = workflow["jobs"]
    assert jobs["build"]["if"] == "startsWith(github.ref, 'refs/tags/v')"  # an edition, not main
    steps = jobs["build"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make pdf"]
    (upload,) = (step for step in steps if "upload-pages" in step.get("uses", ""))
    assert (
        re.search(r"^SITE +:= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)[1]
        == (upload["with"]["path"])
    )
    assert set(jobs["publish"]["needs"]) == {"tests", "build"}
    assert jobs["publish"]["permissions"] == {"pages": "write", "id-token": "write"}


def test_the_workflow_pushes_the_student_s_edition_to_its_branch():
    workflow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["student"]
    assert set(job["needs"]) == {"tests", "build"}
    assert job["permissions"] == {"contents": "write"}
    *_, make, push = job["steps"]
    assert make["run"] == "make student"
    assert push["working-directory"] == "_build/html/student"
    assert push["run"].rstrip().endswith("HEAD:refs/heads/student")
