"""Numbers, citations and lists lead to what they name; links.yml has each link to elsewhere."""

import re
from urllib.parse import urljoin

import pytest
import yaml
from pages import NAMED, ROOT, chapters, gallery, pages, parsed, shown

WORKS = set(re.findall(r"url\s*=\s*\{(.*?)\}", (ROOT / "references.bib").read_text("utf-8")))
LIST = "chapters/live_figures.html"


def test_a_number_is_that_of_what_it_leads_to(book):
    """The page counts; what a text calls an equation or a figure is compared with that."""
    numbering, wrong = set(), []
    for page in pages():
        for link in parsed(page).select("article a.internal"):
            if NAMED.fullmatch(link.get_text()):
                numbering.add(page)
                due = shown(*urljoin(page, link["href"]).split("#"))
                wrong += [(page, link, due)] * (due != link.get_text())
    assert wrong == []
    assert numbering >= {*chapters()}


@pytest.mark.parametrize("page", chapters())
def test_an_equation_has_the_number_of_its_tag(book, page):
    source = (ROOT / page.replace(".html", ".ipynb")).read_text(encoding="utf-8")
    tags = [f"({number})" for number in re.findall(r"\\tag\{([\d.]+)\}", source)]
    assert [number.get_text().rstrip("#") for number in parsed(page).select(".eqno")] == tags
    assert parsed(page).select("article .katex .tag") == []  # not KaTeX's, which nothing leads to


def test_a_page_without_a_number_counts_from_one(book):
    for page in {*pages()} - {*chapters()}:
        numbers = [number.get_text() for number in parsed(page).select("figure .caption-number")]
        assert numbers == [f"Figure {i} " for i in range(1, len(numbers) + 1)]


def test_works_are_listed_by_chapter_and_the_appendix_names_the_chapters(book):
    soup = parsed("chapters/bibliography.html")
    there = {a["href"]: a for a in soup.select("article .citation a[href^=http]")}
    assert there.keys() == WORKS
    for page in chapters():
        listed = parsed(page).select("#further-reading a[id^=ref-]")
        assert listed
        for link in listed:
            named = there[link["href"]].find_parent("p").select("a[href$='#further-reading']")
            assert page.removeprefix("chapters/") in [a["href"].partition("#")[0] for a in named]
    for link in there.values():
        assert re.search(r" \(\d{4}\)\. .* Chapters? \d", link.find_parent("p").get_text())


def test_the_list_of_live_figures_shows_each_and_leads_there(book):
    pictures, places = [], []
    for page in gallery():
        pictures += [image["src"] for image in parsed(page).select("img.live-still")]
        for figure in parsed(page).select("[data-model]"):
            section = figure.find_parent("section")
            places.append(f"{page.removeprefix('chapters/')}#{section['id']}")
    items = parsed(LIST).select(".gallery li")
    assert [item.select_one("p > a")["href"] for item in items] == places
    assert [item.img["src"] for item in items] == pictures
    assert len(items) > 20


LINK = re.compile(r"https?://[\w][^\s<>()\[\]\"'`\\{]+")
# Addresses that stand for others: what an owner types, and what a standard calls itself.
NOT_LINKS = ("https://github.com/OWNER/", "http://localhost", "http://www.w3.org/")
PAPER = re.compile(r"https?://(arxiv\.org|aclanthology\.org|doi\.org|jmlr\.org|openreview)")


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
    """Papers in references.bib, which gives them an entry and a tip, all others in links.yml."""
    text = (ROOT / "links.yml").read_text(encoding="utf-8")
    listed = yaml.safe_load(text)
    assert text.count("\nhttp") == len(listed), "an address stands twice"
    assert [url for url in listed if url in WORKS or PAPER.match(url)] == []
    used = links_in_use()
    assert {url: sorted(used[url]) for url in used.keys() - WORKS - listed.keys()} == {}
    assert listed.keys() - used.keys() == set(), "nothing links there"
    assert [url for url in used if not url.startswith("https:")] == []
