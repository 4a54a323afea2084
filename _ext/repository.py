"""Write this repository's address into every file that needs it, or show where it stands.

    python _ext/repository.py                                    # show, and fail if places differ
    python _ext/repository.py https://github.com/OWNER/NAME      # write (`make repository URL=…`)

The address has its one home in pyproject.toml, `[project.urls] Repository`. Until the owner sets
it, it is a name that nobody can register (RFC 2606): readers' machines install from this address,
and a wrong one would run a stranger's code on them. Only the address changes, byte for byte; a
second run changes nothing. Standard library only, any Python from 3.10.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

UNSET = "https://repository.invalid/owner/attention-built-by-hand"

# GitHub's own rules for names. No user, port, query or fragment: the address is pasted into
# commands. Colab's launch links open GitHub alone, hence no other host.
OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9]|-(?=[A-Za-z0-9])){0,38}"
NAME = r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}"
GITHUB = re.compile(rf"https://github\.com/({OWNER})/({NAME})")
# What instructions write in place of a real name; some of these accounts exist.
EXAMPLES = {"owner", "user", "username", "your-name", "yourname", "example", "o"}

# Where it stands: the files, and what stands before the address. Every file named must hold it.
PLACES = (
    ("pyproject.toml", rb'^Repository = "'),
    ("_config.yml", rb"^repository:\n  url: "),
    ("CITATION.cff", rb'^repository-code: "'),
    ("README.md", rb"\bgit clone "),
    ("chapters/*.ipynb", rb"\bgit\+"),
)
ADDRESS = rb"(?P<address>https://[^\s\"'@\\<>)]+)"


class Place(NamedTuple):
    """One occurrence of the address."""

    path: Path
    start: int
    end: int
    address: str


def places(root: Path) -> list[Place]:
    """All occurrences below `root`, the home first.

    Raises:
        ValueError: a file that must hold the address does not.
    """
    found = []
    for pattern, before in PLACES:
        for path in sorted(root.glob(pattern)) or [root / pattern]:
            if not path.is_file():
                raise ValueError(f"{pattern}: no such file below {root}")
            here = list(re.finditer(before + ADDRESS, path.read_bytes(), re.MULTILINE))
            if not here:
                raise ValueError(f"{path.relative_to(root)} holds no address")
            found += [
                Place(path, *match.span("address"), match["address"].decode()) for match in here
            ]
    return found


def checked(url: str) -> str:
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
    if match[1].lower() in EXAMPLES:
        raise ValueError(f"URL must be yours, this is an example's: {url!r}")
    return plain


def stamp(root: Path, url: str) -> list[Path]:
    """Write the address everywhere; returns the files that changed.

    Raises:
        ValueError: the address is refused, or a file that must hold one does not. Nothing is
            written then.
    """
    url = checked(url)
    changed: list[Path] = []
    # From the last to the first of a file, so that the places before stay where they are.
    for place in reversed(places(root)):
        if place.address != url:
            content = place.path.read_bytes()
            place.path.write_bytes(content[: place.start] + url.encode() + content[place.end :])
            changed.append(place.path)
    return sorted(set(changed))


def main(arguments: list[str]) -> int:
    root = Path(__file__).resolve().parents[1]
    try:
        if len(arguments) > 1:
            raise ValueError(f"one URL, or none; got {len(arguments)}")
        for path in stamp(root, arguments[0]) if arguments else []:
            print(f"wrote {path.relative_to(root)}")
        found = places(root)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for place in found:
        print(f"{place.address}  {place.path.relative_to(root)}")
    addresses = {place.address for place in found}
    if addresses == {UNSET}:
        print("Not set yet: no page leads there.")
    return 0 if len(addresses) == 1 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
