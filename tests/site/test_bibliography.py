"""Works by chapter: every citation leads to a line that leads to the work, and so does the list."""

from __future__ import annotations

import re

import pytest
from pages import ROOT, pages, parsed

CHAPTERS = [page for page in pages() if re.match(r"chapters/\d", page)]
every_chapter = pytest.mark.parametrize("page", CHAPTERS or ["index.html"])
ADDRESSES = re.findall(
    r"^\s*url\s*=\s*\{(.*?)\}", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M
)


@every_chapter
def test_citations_lead_to_further_reading(book, page):
    soup = parsed(page)
    listed = {link["id"]: link for link in soup.select("#further-reading a[id^=ref-]")}
    assert listed
    assert {link["href"][1:] for link in soup.select("article a[href^='#ref-']")} <= listed.keys()
    assert {link["href"] for link in listed.values()} <= {*ADDRESSES}


@every_chapter
def test_the_text_cites_what_has_an_entry(book, page):
    """A link to a paper that is not in references.bib gets no entry and no tip."""
    papers = re.compile(r"https?://(?:arxiv\.org|aclanthology\.org|doi\.org|jmlr\.org|openreview)")
    links = [a["href"] for a in parsed(page).select("article a[href^=http]")]
    assert [link for link in links if papers.match(link) and link not in ADDRESSES] == []


def test_the_appendix_has_all_works_and_names_their_chapters(book):
    soup = parsed("chapters/bibliography.html")
    there = {a["href"]: a for a in soup.select("article .citation a[href^=http]")}
    assert there.keys() == {*ADDRESSES}
    for page in CHAPTERS:
        for link in parsed(page).select("#further-reading a[id^=ref-]"):
            named = there[link["href"]].find_parent("p").select("a[href$='#further-reading']")
            assert page.removeprefix("chapters/") in [a["href"].partition("#")[0] for a in named]
    for link in there.values():
        assert re.search(r" \(\d{4}\)\. .* Chapters? \d", link.find_parent("p").get_text())
