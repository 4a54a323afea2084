"""What the site tells others: descriptions, cards, addresses, its pages, its links to elsewhere."""

import json
import re
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from pages import ROOT, Watch, pages, parsed
from PIL import Image
from published import ADDRESS, REPOSITORY, VERSION

import publish

TOOLS = {f"{name}.html" for name in publish.TOOLS}
PAGES = [page for page in pages() if page not in TOOLS]


def meta(soup: BeautifulSoup, name: str) -> str | None:
    found = soup.select(f'head > meta[name="{name}"], head > meta[property="{name}"]')
    assert len(found) <= 1, f"{name} is there {len(found)} times"
    return found[0]["content"] if found else None


# --- what each page is about ----------------------------------------------------------------------


def test_a_page_says_what_it_is_about(book):
    descriptions = set()
    for page in PAGES:
        description = meta(parsed(page), "description")
        assert 20 <= len(description) <= 200, page
        descriptions.add(description)
    assert len(descriptions) == len(PAGES) > 5


@pytest.mark.parametrize("path", sorted((ROOT / "chapters").glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_chapter_is_described_by_its_promise(book, path):
    """The paragraph under its title, word for word."""
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
    promise = "".join(first).split("\n\n")[1]
    words = re.findall(r"[a-z]{2,}", re.sub(r"\$[^$]*\$|\]\([^)]*\)", "", promise).lower())
    description = meta(parsed(f"chapters/{path.stem}.html"), "description")
    assert re.findall(r"[a-z]{2,}", description.lower())[: len(words) - 1] == words[:-1]
    assert not re.search(r"[\\{}]", description), "a formula that cannot be read"


# --- where the site is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "baseurl, repository, address",
    [
        ("", None, ""),
        ("", REPOSITORY, ADDRESS),
        ("", "https://github.com/Ada/ada.github.io", "https://ada.github.io/"),
        ("https://book.example/en", REPOSITORY, "https://book.example/en/"),
    ],
)
def test_the_owner_s_address_comes_first(baseurl, repository, address):
    options = {"repository_url": repository} if repository else {}
    config = SimpleNamespace(html_baseurl=baseurl, html_theme_options=options)
    publish.find_address(None, config)
    assert config.html_baseurl == address


def test_without_an_address_nothing_claims_one_or_leads_there(book):
    if ".invalid" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8"):
        pytest.skip("the address is set")
    for page in pages():
        soup = parsed(page)
        assert meta(soup, "og:url") is meta(soup, "og:image") is None
        assert soup.select("link[rel=canonical], .extra_footer a[href^=https]") == []
        assert "repository.invalid" not in str(soup.select("[href], [src], [content]"))
        assert {link["data-action"] for link in soup.select(".page-action")} <= {"download"}
    footer = parsed("index.html").select_one(".extra_footer").get_text()
    assert f"Edition {VERSION}, " in footer


@pytest.mark.slow
def test_with_an_address_every_page_knows_its_own_and_has_a_card(published):
    for page in [*PAGES, *TOOLS - {"genindex.html"}]:
        html = (published / page).read_text(encoding="utf-8")
        assert html.count('aria-label="Book"') == 1, "repaired by both builds"
        soup = BeautifulSoup(html, "html.parser")
        canonical = [link["href"] for link in soup.select("link[rel=canonical]")]
        if page in TOOLS:
            assert (meta(soup, "robots"), canonical) == ("noindex", [])
        else:
            url = ADDRESS if page == "index.html" else ADDRESS + page
            assert [meta(soup, "og:url")] == canonical == [url]
            image = meta(soup, "og:image")
            assert image.startswith(ADDRESS)
            with Image.open(published / image.removeprefix(ADDRESS)) as picture:
                assert (picture.format, picture.size) == ("PNG", (1200, 630))
            assert meta(soup, "og:description") == meta(soup, "description")
            assert meta(soup, "og:title") == " ".join(soup.h1.get_text().removesuffix("#").split())


# --- the page that is not there -------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_not_found_works_at_any_depth(browser, published_address):
    page = browser.new_page()
    watch = Watch(page.context, published_address)
    gone = f"{published_address}a/b/c/gone"
    assert page.goto(gone, wait_until="networkidle").status == 404
    assert [line for line in watch.failed if line != f"{gone}: 404"] == []
    assert watch.foreign == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 254, 251)"
    page.locator(".not-found input[name=q]").fill("softmax")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=softmax")
    page.locator("#search-results li").first.wait_for()
    page.go_back()
    page.locator(".not-found-pages a", has_text="A dictionary").click()
    page.wait_for_url("**/chapters/01_soft_lookup.html")
    assert page.locator("h1:visible").inner_text().startswith("1. A dictionary")
    page.close()


def test_the_page_not_found_lists_every_page(book):
    listed = {link["href"] for link in parsed("404.html").select(".not-found-pages a")}
    assert {page for page in PAGES if page.startswith("chapters/")} <= listed
