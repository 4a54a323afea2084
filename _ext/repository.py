"""What only the owner can say: the repository's address, the authors' names, the edition.

    python _ext/repository.py                                    # show it, and what is missing
    python _ext/repository.py --url https://github.com/OWNER/NAME --authors "A Name, Another"
    python _ext/repository.py --edition 1.1.0                    # once CHANGELOG.md has its entry

Address and authors live in pyproject.toml, the version in transformer_lib/__init__.py, its date in
CHANGELOG.md; all other places are written from there. Until the owner sets it, the address is a
name that nobody can register (RFC 2606): readers' machines install from this address.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

UNSET = "https://repository.invalid/owner/attention-built-by-hand"
NAMELESS = "The authors of Attention, Built by Hand"

# No user, port, query or fragment: the address is pasted into commands. Colab's launch links open
# GitHub alone, hence no other host.
GITHUB = re.compile(r"https://github\.com/(?!(?:owner|OWNER)/)[A-Za-z0-9-]+/[A-Za-z0-9._-]+")


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
        return "[" + ", ".join(f'{{name: "{name}"}}' for name in self.authors) + "]"

    def in_bibtex(self) -> str:
        return "{" + NAMELESS + "}" if self.authors == (NAMELESS,) else " and ".join(self.authors)


# Where it stands: the files, what is before it and after it, and what belongs there. Every file
# named must have the place.
ADDRESS, VERSION = (lambda facts: facts.address), (lambda facts: facts.version)
PLACES: tuple[tuple[str, str, str, Callable[[Facts], str]], ...] = (
    ("pyproject.toml", r"^authors = ", r"$", Facts.in_toml),
    ("pyproject.toml", r'^Repository = "', r'"$', ADDRESS),
    ("transformer_lib/__init__.py", r'^__version__ = "', r'"$', VERSION),
    ("CITATION.cff", r"^authors: ", r"$", Facts.in_cff),
    ("CITATION.cff", r"^version: ", r"$", VERSION),
    ("CITATION.cff", r"^date-released: ", r"$", lambda facts: facts.date.isoformat()),
    ("CITATION.cff", r'^repository-code: "', r'"$', ADDRESS),
    ("README.md", r"\bgit clone ", r"$", ADDRESS),
    ("README.md", r"\[Discussions\]\(", r"/discussions\)", ADDRESS),
    ("README.md", r"^  author = \{", r"\},$", Facts.in_bibtex),
    ("README.md", r"^  year = \{", r"\},$", lambda facts: str(facts.date.year)),
    ("README.md", r"^  note = \{Edition ", r"\},$", VERSION),
    ("README.md", r"^  url = \{", r"\},$", ADDRESS),
    ("chapters/*.ipynb", r"\bgit\+", r"\\\"", lambda facts: f"{facts.address}@{facts.tag}"),
)


def in_step(root: Path, known: Facts) -> dict[Path, str]:
    """The files below `root` that say something else, with what they should say.

    Raises:
        ValueError: a file lacks its place.
    """
    files: dict[Path, str] = {}
    for pattern, start, end, written in PLACES:
        for path in sorted(root.glob(pattern)):
            text = files.get(path) or path.read_text(encoding="utf-8")
            new = rf"\g<1>{written(known)}\g<2>"
            files[path], count = re.subn(f"({start}).*?({end})", new, text, flags=re.MULTILINE)
            if not count:
                raise ValueError(f"{path.relative_to(root)}: nothing there matches {start}")
    return {path: text for path, text in files.items() if text != path.read_text(encoding="utf-8")}


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


def with_said(known: Facts, url: str, authors: str) -> Facts:
    """The facts with what the owner says.

    Raises:
        ValueError: the address is not a GitHub repository's, or a name is empty, or has a character
            that TOML, YAML or BibTeX reads as its own.
    """
    if url:
        plain = url.removesuffix("/").removesuffix(".git")
        if plain != UNSET and not GITHUB.fullmatch(plain):
            raise ValueError(f"URL must be https://github.com/OWNER/NAME, and yours; got {url!r}")
        known = known._replace(address=plain)
    if authors:
        names = [authors]
        if authors != NAMELESS:
            names = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", authors.strip())
        if not all(names) or re.search(r'["\\{}%#&$_~^<>]|[^ \S]', authors):
            raise ValueError(f'AUTHORS must be names, as in "A Name, Another"; got {authors!r}')
        known = known._replace(authors=tuple(names))
    return known


def stamp(root: Path, *, url: str = "", authors: str = "", edition: str = "") -> list[Path]:
    """Write what is given, and what the homes say of the rest; returns the files that changed.

    Raises:
        ValueError: something is refused, or a file lacks its place. Nothing is written then.
    """
    if edition and not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", edition):
        raise ValueError(f"EDITION must be three numbers, as in 1.1.0; got {edition!r}")
    changed = in_step(root, with_said(facts(root, version=edition), url, authors))
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return sorted(changed)


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
        wrong = in_step(root, known)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Address: {known.address}\nAuthors: {in_english(known.authors)}\n{known.edition}")
    for line in missing(known):
        print(line)
    for path in wrong:
        print(f"{path.relative_to(root)} says something else")
    if wrong:
        print(f"To bring all places in step: make repository EDITION={known.version}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
