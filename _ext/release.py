"""Check that this edition can be released, and tag it: the two halves of `make release`.

python _ext/release.py           # say what is in the way
python _ext/release.py --tag     # once it is built: tag it here, and say what to push
"""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from repository import UNSET, facts, in_step, missing

ROOT = Path(__file__).resolve().parents[1]


def git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def obstacles(root: Path) -> list[str]:
    """What stands in the way of a release, and what to do about it."""
    try:
        known = facts(root)
        wrong = in_step(root, known)
    except ValueError as error:
        return [str(error)]
    found = missing(known) if known.address == UNSET else []
    if wrong:
        found.append(f"Places differ: make repository EDITION={known.version}")
    if changed := git(root, "status", "--porcelain"):
        found.append(f"Commit these changes first, or undo them:\n{changed.rstrip()}")
    if git(root, "branch", "--show-current").strip() != "main":
        found.append("An edition is made from main: git switch main")
    if git(root, "tag", "--list", known.tag):
        found.append(
            f"The tag {known.tag} exists. If it was never pushed: git tag --delete {known.tag}. If "
            "it was, readers have installed it, and what's new is a new edition: write its entry "
            "in CHANGELOG.md, then make repository EDITION=…, and commit"
        )
    return found


def take_wheel(root: Path) -> Path:
    """The wheel in the site's zip, which is the one that readers get."""
    with ZipFile(root / "_build/html/attention-built-by-hand.zip") as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".whl"))
        wheel = root / "dist" / Path(name).name
        wheel.parent.mkdir(exist_ok=True)
        wheel.write_bytes(packed.read(name))
    return wheel


def main(arguments: list[str]) -> int:
    if found := obstacles(ROOT):
        print("\n".join(found), file=sys.stderr)
        return 1
    known = facts(ROOT)
    if "--tag" not in arguments:
        return 0
    wheel = take_wheel(ROOT)
    message = f"Attention, Built by Hand: {known.edition}"
    git(ROOT, "tag", "--annotate", known.tag, "--message", message)
    print(f"{known.edition}, is tagged here as {known.tag}.")
    print(f"Its wheel is {wheel.relative_to(ROOT)}, its site is in _build/html.")
    for line in missing(known):
        print(line)
    print(f"To publish it: git push --atomic origin main {known.tag}")
    print(f"To take it back instead: git tag --delete {known.tag}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
