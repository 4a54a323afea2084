"""What the theme and Sphinx leave out for readers who do not see the page; slim.py puts it in.

Each change answers a finding of axe-core (tests/site/test_every_page.py), which says whether it
is still needed; the last one takes out scripts that no page has a use for.
"""

import re

CHANGES = [
    # Logo and search are outside all landmarks.
    (r'<div ([^>]*class="bd-sidebar-primary)', r'<div role="region" aria-label="Book" \1'),
    # A button is called what it says, and what is said on it is an icon's, or nothing.
    (r'(<button class="btn search-button-field[^"]*") title="\w+" aria-label="\w+"', r"\1"),
    (r'(<i class="theme-switch[^>]*data-mode="\w+")\s+title="[^"]*"', r"\1"),
    # What opens a part of the contents has no name.
    (
        r'(<a class="[^"]*\breference internal" href="[^"]*">([^<]*)</a><details[^>]*><summary)>',
        r'\1 aria-label="Pages of \2">',
    ),
    # A title is no tip: neither a finger nor a keyboard gets at it.
    (r'(<a class="reference internal[^"]*" href="[^"]*") title="[^"]*"', r"\1"),
    # reader.js marks where the reader is; the theme's script looks for this name and gets lost.
    (r'id="pst-page-toc-nav"', 'id="page-contents"'),
    # The entries of a list are its items; this role is none for a div.
    (r'role="doc-biblioentry"', 'role="listitem"'),
    # What opens a folded cell is called what it says.
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    # sphinx-exercise calls the inside of every box by the same id.
    (r'<section id="(exercise|solution)-content">', r'<section class="\1-content">'),
    # The book has its own search (search.py); the theme loads Sphinx's.
    (r'<script src="[^"]*\b(?:searchtools|language_data|searchindex)\.js"></script>\s*', ""),
]
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
# Parameters on lines of their own are a list of definitions without a term.
IN_SIGNATURE = [
    (r"<dl>", '<span class="sig-lines">'),
    (r"<dd>", '<span class="sig-line">'),
    (r"</d[ld]>", "</span>"),
]


def accessible(text: str) -> str:
    """A page with all changes."""
    for pattern, better in CHANGES:
        text = re.sub(pattern, better, text)
    return SIGNATURE.sub(mend_signature, text)


def mend_signature(found) -> str:
    text = found[0]
    for pattern, better in IN_SIGNATURE:
        text = re.sub(pattern, better, text)
    return text
