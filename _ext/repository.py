"""What only the owner can say: the repository's address, the authors' names, the edition.

    python _ext/repository.py                                    # show it, and what is missing
    python _ext/repository.py --url https://github.com/OWNER/NAME --authors "A Name, Another"
    python _ext/repository.py --edition 1.1.0                    # once CHANGELOG.md has its entry

Address and authors live in pyproject.toml, the version in transformer_lib/__init__.py, its date in
CHANGELOG.md; all other places are written from there. Until the owner sets it, the address is a
name that nobody can register (RFC 2606): readers' machines install from this address.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

UNSET = "https://repository.invalid/owner/attention-built-by-hand"
NAMELESS = "The authors of Attention, Built by Hand"

# GitHub's own rules for names. No user, port, query or fragment: the address is pasted into
# commands. Colab's launch links open GitHub alone, hence no other host.
OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9]|-(?=[A-Za-z0-9])){0,38}"
NAME = r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}"
GITHUB = re.compile(rf"https://github\.com/({OWNER})/({NAME})")


def in_english(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)}{',' * (len(others) > 1)} and {last}" if others else last


class Facts(NamedTuple):
    """What the owner has said."""

    address: str
    authors: tuple[str, ...]
    version: str
    date: date

    @property
    def edition(self) -> str:
        return f"Edition {self.version}, {self.date.day} {self.date:%B %Y}"

    @property
    def tag(self) -> str:
        return f"v{self.version}"

    def in_toml(self) -> str:
        return "[" + ", ".join(f'{{ name = "{name}" }}' for name in self.authors) + "]"

    def in_cff(self) -> str:
        return "".join(f'  - name: "{name}"\n' for name in self.authors)

    def in_bibtex(self) -> str:
        return "{" + NAMELESS + "}" if self.authors == (NAMELESS,) else " and ".join(self.authors)


# Where it stands: the files, a pattern whose group is the place, and what belongs there. Every file
# named must have the place.
ADDRESS, VERSION = (lambda facts: facts.address), (lambda facts: facts.version)
PLACES: tuple[tuple[str, str, Callable[[Facts], str]], ...] = (
    ("pyproject.toml", r"^authors = (.*)$", Facts.in_toml),
    ("pyproject.toml", r'^Repository = "(.*)"$', ADDRESS),
    ("transformer_lib/__init__.py", r'^__version__ = "(.*)"$', VERSION),
    ("_config.yml", r'^author: "(.*)"$', lambda facts: in_english(facts.authors)),
    ("_config.yml", r"^repository:\n  url: (.*)$", ADDRESS),
    ("CITATION.cff", r"^authors:\n((?:  - .*\n)+)", Facts.in_cff),
    ("CITATION.cff", r"^version: (.*)$", VERSION),
    ("CITATION.cff", r"^date-released: (.*)$", lambda facts: facts.date.isoformat()),
    ("CITATION.cff", r'^repository-code: "(.*)"$', ADDRESS),
    ("README.md", r"\bgit clone (\S+)", ADDRESS),
    ("README.md", r"\]\((https://[^\s)]+)/discussions\)", ADDRESS),
    ("README.md", r"^  author = \{(.*)\},$", Facts.in_bibtex),
    ("README.md", r"^  year = \{(.*)\},$", lambda facts: str(facts.date.year)),
    ("README.md", r"^  note = \{Edition (.*)\},$", VERSION),
    ("README.md", r"^  url = \{(.*)\},$", ADDRESS),
    ("chapters/*.ipynb", r"\bgit\+(https://[^\s\"'@\\<>)]+)", ADDRESS),
    ("chapters/*.ipynb", r"\bgit\+https://[^\s@]+@v([^\s\"\\]+)", VERSION),
)


class Place(NamedTuple):
    """One place: what stands there, and how what belongs there is written."""

    path: Path
    start: int
    end: int
    text: str
    written: Callable[[Facts], str]


def places(root: Path) -> list[Place]:
    """All places below `root`.

    Raises:
        ValueError: a file that must have one does not.
    """
    found = []
    for pattern, where, written in PLACES:
        for path in sorted(root.glob(pattern)):
            here = [
                Place(path, *match.span(1), match[1], written)
                for match in re.finditer(where, path.read_text(encoding="utf-8"), re.MULTILINE)
            ]
            if not here:
                raise ValueError(f"{path.relative_to(root)}: nothing there matches {where}")
            found += here
    return found


def facts(root: Path, *, version: str = "") -> Facts:
    """What the homes say; of another version than theirs, if one is given.

    Raises:
        ValueError: CHANGELOG.md has no entry for the version.
    """
    names = ("pyproject.toml", "transformer_lib/__init__.py", "CHANGELOG.md")
    project, library, changes = ((root / name).read_text(encoding="utf-8") for name in names)
    version = version or re.search(r'^__version__ = "(.*)"$', library, re.MULTILINE)[1]
    entry = rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$"
    released = re.search(entry, changes, re.MULTILINE)
    if released is None:
        raise ValueError(
            f"CHANGELOG.md has no entry for {version}: write what's new under ## {version} "
            "(YYYY-MM-DD)"
        )
    return Facts(
        address=re.search(r'^Repository = "(.*)"$', project, re.MULTILINE)[1],
        authors=tuple(re.findall(r'name = "(.*?)"', re.search("^authors = .*", project, re.M)[0])),
        version=version,
        date=date.fromisoformat(released[1]),
    )


def checked_address(url: str) -> str:
    """The address in its plain form.

    Raises:
        ValueError: it is not a GitHub repository's, or an example's.
    """
    plain = url.removesuffix("/").removesuffix(".git")
    if plain == UNSET:
        return plain
    match = GITHUB.fullmatch(plain)
    if match is None:
        raise ValueError(f"URL must be https://github.com/OWNER/NAME; got {url!r}")
    if match[1].lower() == "owner":
        raise ValueError(f"URL must be yours, this is an example's: {url!r}")
    return plain


def checked_authors(text: str) -> tuple[str, ...]:
    """The names in `A Name, Another and a Third`.

    Raises:
        ValueError: a name is empty, or has a character that TOML, YAML or BibTeX reads as its own.
    """
    names = [text] if text == NAMELESS else re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", text.strip())
    if not all(names) or re.search(r'["\\{}%#&$_~^<>]|[^ \S]', text):
        raise ValueError(f'AUTHORS must be names, as in "A Name, Another"; got {text!r}')
    return tuple(names)


def checked_edition(text: str) -> str:
    """A version of three numbers.

    Raises:
        ValueError: it is not.
    """
    if not re.fullmatch(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}", text):
        raise ValueError(f"EDITION must be three numbers, as in 1.1.0; got {text!r}")
    return text


def differing(root: Path, known: Facts) -> list[Place]:
    """The places that say something else."""
    return [place for place in places(root) if place.text != place.written(known)]


def stamp(root: Path, *, url: str = "", authors: str = "", edition: str = "") -> list[Path]:
    """Write what is given, and what the homes say of the rest; returns the files that changed.

    Raises:
        ValueError: something is refused, or a file lacks its place. Nothing is written then.
    """
    known = facts(root, version=checked_edition(edition) if edition else "")
    if url:
        known = known._replace(address=checked_address(url))
    if authors:
        known = known._replace(authors=checked_authors(authors))
    changed = differing(root, known)
    # From the last to the first of a file, so that the places before stay where they are.
    for place in sorted(changed, key=lambda place: place.start, reverse=True):
        text = place.path.read_text(encoding="utf-8")
        text = text[: place.start] + place.written(known) + text[place.end :]
        place.path.write_text(text, encoding="utf-8")
    return sorted({place.path for place in changed})


def missing(known: Facts) -> list[str]:
    """What the owner has not said yet, and how to say it."""
    found = []
    if known.address == UNSET:
        how = "make repository URL=https://github.com/OWNER/NAME"
        found.append(f"The address isn't set, and no page leads there: {how}")
    if known.authors == (NAMELESS,):
        found.append('The authors have no names: make repository AUTHORS="A Name, Another"')
    return found


def main(arguments: list[str]) -> int:
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description="what only the owner can say, and where it stands")
    for name in ("url", "authors", "edition"):
        parser.add_argument(f"--{name}", default="")
    given = vars(parser.parse_args(arguments))
    try:
        for path in stamp(root, **given) if any(given.values()) else []:
            print(f"wrote {path.relative_to(root)}")
        known = facts(root)
        wrong = differing(root, known)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Address: {known.address}\nAuthors: {in_english(known.authors)}\n{known.edition}")
    for line in missing(known):
        print(line)
    for place in wrong:
        print(f"{place.path.relative_to(root)} says {place.text!r}: not {place.written(known)!r}")
    if wrong:
        print(f"To bring all places in step: make repository EDITION={known.version}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
