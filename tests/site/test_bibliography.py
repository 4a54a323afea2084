"""Works by chapter: every citation leads to its entry, and every entry back."""

from __future__ import annotations

import re

import pytest
from pages import ROOT, pages, parsed

CHAPTERS = [page for page in pages() if re.match(r"chapters/\d", page)]
every_chapter = pytest.mark.parametrize("page", CHAPTERS or ["index.html"])
ADDRESSES = re.findall(
    r"^\s*url\s*=\s*\{(.*?)\}", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M
)


def references(page: str) -> dict[str, object]:
    return {item["id"]: item for item in parsed(page).select("ul.references > li")}


@every_chapter
def test_citations_and_references_lead_to_each_other(book, page):
    soup, listed = parsed(page), references(page)
    assert listed
    cited = {link["href"][1:] for link in soup.select("article a[href^='#ref-']")}
    assert cited <= listed.keys()
    for name, item in listed.items():
        ways_back = item.select("a.back[aria-label]")
        assert ways_back, name
        for way in ways_back:
            place = soup.find(id=way["href"][1:])
            assert place is not None and place.name == "a", way["href"]
            assert place["href"] == f"#{name}" or place["href"] in ADDRESSES


@every_chapter
def test_the_text_cites_what_has_an_entry(book, page):
    """A link to a paper that is not in references.bib gets no entry and no tip."""
    papers = re.compile(r"https?://(?:arxiv\.org|aclanthology\.org|doi\.org|jmlr\.org|openreview)")
    links = [a["href"] for a in parsed(page).select("article a[href^=http]")]
    assert [link for link in links if papers.match(link) and link not in ADDRESSES] == []


@every_chapter
def test_each_entry_has_a_year_and_an_address(book, page):
    for item in references(page).values():
        assert re.search(r"\(\d{4}\)\. ", item.get_text())
        assert item.select_one("a[href^=http] em")


def test_the_appendix_has_all_works_and_names_their_chapters(book):
    soup = parsed("chapters/bibliography.html")
    there = {a["href"] for a in soup.select("article .citation a[href^=http]")}
    assert there == set(ADDRESSES)
    for page in CHAPTERS:
        for item in references(page).values():
            address = item.select_one("a[href^=http]")["href"]
            entry = soup.select_one(f".citation a[href='{address}']").find_parent("div")
            chapters = [a["href"] for a in entry.select("a[href$='#references']")]
            assert f"{page.removeprefix('chapters/')}#references" in chapters, (page, address)
