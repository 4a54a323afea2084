"""The project as a whole: layers, files, locks, and what only the owner can say."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import date
from importlib.util import resolve_name
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

import changed
import release
import repository

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "transformer_lib"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def files() -> set[str]:
    return changed.known()


# --- layers --------------------------------------------------------------------------------------

# The lowest first. An import points to a lower layer; within a package (data, training, ...)
# modules may import one another.
LAYERS = [
    {"validation"},  # what every layer says of a bad argument
    {"files", "config", "masks", "dropout"},
    {"data", "metrics"},
    {"decoding"},
    {"training"},  # up to here, a model is a StepModel: it works with any
    {"attention", "positions", "cache"},
    {"multihead", "recurrent"},
    {"layers", "inspection"},
    {"embedding"},
    {"models", "results"},
    {"pretrained"},
    {"runs"},
    {"figures", "checks"},
    {"__main__", "__init__"},  # the front door names everything, and nothing below enters by it
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}


def layer_findings(path: Path) -> list[str]:
    """What's wrong with the imports of a file of the library, wherever they are in it."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    here = path.relative_to(LIBRARY).with_suffix("").parts[0]
    if here not in LAYER:
        return [f"{here} has no layer"]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            head, there, *_ = [*name.split("."), ""]
            there = there if there in LAYER else "__init__"
            if head == "transformer_lib" and there != here and LAYER[there] >= LAYER[here]:
                found.append(f"{here} (layer {LAYER[here]}) imports {there} ({LAYER[there]})")
    return found


def test_imports_point_down():
    assert [line for path in LIBRARY.rglob("*.py") for line in layer_findings(path)] == []


def test_importing_the_library_is_light():
    """`import transformer_lib` takes torch alone; the rest comes when it is used."""
    heavy = ["matplotlib", "anywidget", "ipywidgets", "IPython", "tokenizers", "transformers",
             "sacrebleu", "pandas"]  # fmt: skip
    program = "import sys, transformer_lib; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = result.stdout.split()
    assert "torch" in loaded
    assert set(heavy) & set(loaded) == set()


# --- what is committed ---------------------------------------------------------------------------

# Folders of somebody's machine, and the places packages come from: each reader has their own.
MACHINE = re.compile(r"(?<![\w/.])/(?:home|root|work|Users|mnt)/\w|\b[A-Z]:\\Users\\")
REGISTRY = re.compile(
    r"(?:files\.pythonhosted|registry\.npmjs|registry\.npmmirror|registry\.yarnpkg)\.|\bpypi\.org"
    r"|download\.pytorch\.org|--(?:extra-)?index-url|--find-links|_INDEX_URL\b"
)
# They hold such texts in order to find them.
EXEMPT = {"tests/test_project.py", "tests/notebooks/gate.py", "tests/notebooks/test_gate.py"}


def texts(files: set[str]):
    for name in files - EXEMPT:
        try:
            yield name, read(name)
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRY], ids=["machine", "registry"])
def test_nothing_tells_of_a_machine(files, pattern):
    found = {name: match.group() for name, text in texts(files) if (match := pattern.search(text))}
    assert found == {}


def test_no_file_is_large(files):
    """Nothing fetched, nothing trained: what is committed was written here, or is a record."""
    sizes = {name: (ROOT / name).stat().st_size for name in files}
    assert sizes and {name: size for name, size in sizes.items() if size > 2_000_000} == {}


# --- locks ---------------------------------------------------------------------------------------


def locked(name: str) -> set[tuple[str, str]]:
    """(package, version) of each line of a lock, whichever Python and system that is for."""
    lines = [line.split()[0] for line in read(name).splitlines() if not line.startswith("#")]
    return {(package, version) for package, version in (line.split("==") for line in lines)}


def test_the_site_s_lock_is_part_of_the_whole_lock():
    """`make test` after `make book` must not swap versions in the same environment."""
    assert locked("requirements-site.txt") - locked("requirements.txt") == set()


def test_the_site_needs_no_torch():
    heavy = re.compile(r"torch|nvidia|triton|transformers|tokenizers|matplotlib$|numpy$|scipy")
    assert [name for name, _ in locked("requirements-site.txt") if heavy.match(name)] == []


def dependencies() -> tuple[set[str], set[str]]:
    """What the library needs always, and what only one of its extras brings."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    found = []
    for listed in (project["dependencies"], chain(*project["optional-dependencies"].values())):
        needed = [Requirement(text) for text in listed]
        assert {pin.operator for each in needed for pin in each.specifier} == {">="}, "no pins"
        found.append({each.name for each in needed})
    return tuple(found)


def test_the_lock_knows_every_dependency_of_the_library():
    always, extra = dependencies()
    assert always | extra <= {name for name, _ in locked("requirements.txt")}


# What another package brings along for certain: it is part of what that one hands out.
BROUGHT = {"PIL": "matplotlib", "cycler": "matplotlib", "traitlets": "anywidget"}
BROUGHT |= {"huggingface_hub": "tokenizers"}
FOR_TRANSFORMERS = {"gguf", "accelerate"}  # it imports them, to read rounded weights


def test_what_the_library_imports_is_declared():
    """`pip install` of the library alone is enough for all of it, but for what an extra brings."""
    roots = set()
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                roots.add(node.module.split(".")[0])
    foreign = roots - sys.stdlib_module_names - {"transformer_lib"}
    always, extra = dependencies()
    assert {BROUGHT.get(name, name) for name in foreign} == (always | extra) - FOR_TRANSFORMERS


def test_the_npm_lock_names_no_host():
    assert '"resolved"' not in read("package-lock.json"), "npm would ask this host and no other"


# --- README, citation, workflows ------------------------------------------------------------------


def test_ci_calls_the_command_of_the_readme():
    last = [line for line in read(".ci/run").splitlines() if line.strip()][-2:]
    assert last == ["make test", "make test-all"]
    commands = re.findall(r"^\$ (make \w+)", read("README.md"), re.M)
    assert {"make book", "make test"} <= set(commands)


@pytest.mark.parametrize(
    "path, wanted, spared",
    [
        ("transformer_lib/positions/relative.py", "positions_relative", "cli"),
        ("transformer_lib/embedding.py", "models", "cli"),  # no test names it: the core
        ("transformer_lib/figures/widgets/kit.css", "figure_mask_painter", "models"),
        ("chapters/13_training.ipynb", "the_paper", "models"),  # the page quotes the chapters
    ],
)
def test_a_change_names_its_tests(path, wanted, spared):
    named = changed.touched({path})
    assert f"tests/unit/test_{wanted}.py" in named
    assert f"tests/unit/test_{spared}.py" not in named


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_command_spoken_of_exists(name):
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
    prose, fences = re.subn(r"^ *```.*?^ *```", "", read(name), flags=re.M | re.S)
    assert fences
    inline = re.findall(r"`[^`\n]+`", prose)
    code = "\n".join(inline + re.findall(r"^ *\$ .*", read(name), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)\b", code)) - targets == set()
    for script in re.findall(r"\bpython ([\w/.]+\.py)\b", code):
        assert (ROOT / script).is_file(), script


def test_make_lab_keeps_what_a_reader_has_written(tmp_path):
    """It copies the notebooks that aren't there yet. Their links lead to the site it serves."""
    student, lab = tmp_path / "_build/html/student", tmp_path / "lab"
    jupyter, python = tmp_path / ".venv/bin/jupyter", tmp_path / ".venv/bin/python"
    for folder in (student, lab, jupyter.parent):
        folder.mkdir(parents=True)
    for program in (jupyter, python):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for name in ("one.ipynb", "two.ipynb"):
        (student / name).write_text("the book's [answer](../chapters/one.html#a)")
    (lab / "two.ipynb").write_text("a reader's")
    made = ("book", ".venv/.with-all")  # what is not to be made here
    command = ["make", "--file", ROOT / "Makefile", *(f"--old-file={name}" for name in made), "lab"]
    mine = ("MAKE", "PORT", "PY", "VENV")  # what make would take from `make test` or from a shell
    by_hand = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    subprocess.run(command, cwd=tmp_path, env=by_hand, capture_output=True, check=True)
    assert {path.name: path.read_text() for path in lab.iterdir()} == {
        "one.ipynb": "the book's [answer](http://localhost:8000/chapters/one.html#a)",
        "two.ipynb": "a reader's",
    }


def test_readme_and_contributing_link_to_what_is_there():
    for name in ("README.md", "CONTRIBUTING.md"):
        text = re.sub(r"`[^`\n]*`", "", read(name))  # without examples of links
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
            assert (ROOT / target).exists(), f"{name} links to {target}"


# --- what only the owner can say ------------------------------------------------------------------

NEW = "https://github.com/ada-lovelace/notes.on-attention"
SAID = {"url": NEW, "authors": "Ada Lovelace, O'Neil, and 王小明", "edition": "2.0.1"}


@pytest.fixture
def tree(tmp_path):
    """A copy of each file that holds what the owner says, but two notebooks; an edition to come."""
    for pattern in ["CHANGELOG.md", *(pattern for pattern, *_ in repository.PLACES)]:
        for path in sorted(ROOT.glob(pattern))[:2]:
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    with (tmp_path / "CHANGELOG.md").open("a") as file:
        file.write("\n## 2.0.1 (2030-02-03)\n")
    return tmp_path


def contents(tree: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(tree.rglob("*")) if path.is_file())
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in paths}


def test_all_places_say_the_same():
    known = repository.facts(ROOT)
    assert repository.in_step(ROOT, known) == {}
    repository.with_said(known, known.address, ", ".join(known.authors))


def test_the_address_stands_nowhere_else(files):
    """A file that isn't stamped would still name the old one."""
    known = repository.facts(ROOT)
    stamped = repository.in_step(ROOT, known._replace(address=NEW))
    elsewhere = [
        name
        for name, text in texts(files)
        if known.address in stamped.get(ROOT / name, text)
        and not name.startswith(("_ext/repository.py", "tests/"))
    ]
    assert elsewhere == []


def test_what_is_stamped_stands_everywhere_and_nothing_else_changes(tree):
    before, old = contents(tree), repository.facts(tree)
    changed = repository.stamp(tree, **SAID)
    assert {path.relative_to(tree).as_posix() for path in changed} == before.keys() - {
        "CHANGELOG.md"
    }
    known = repository.facts(tree)
    assert known == (NEW, ("Ada Lovelace", "O'Neil", "王小明"), "2.0.1", date(2030, 2, 3))
    assert repository.in_step(tree, known) == {}
    assert repository.stamp(tree, **SAID) == []
    said = contents(tree)
    for name, text in said.items():
        if name.endswith(".ipynb"):
            json.loads(text)
    cited = yaml.safe_load(said["CITATION.cff"])
    assert [author["name"] for author in cited["authors"]] == ["Ada Lovelace", "O'Neil", "王小明"]
    assert "author = {Ada Lovelace and O'Neil and 王小明}," in said["README.md"].decode()
    repository.stamp(tree, url=old.address, authors=", ".join(old.authors), edition=old.version)
    assert contents(tree) == before


WRONG = [
    "github.com/ada/book",
    "https://gitlab.com/ada/book",
    "https://github.com.evil.example/ada/book",
    "https://github.com/ada",
    "https://github.com/ada/book/tree/main",
    "https://ada@github.com/ada/book",
    'https://github.com/ada/book"',
    "https://github.com/ada/book;true",
    "https://github.com/owner/name",
]


@pytest.mark.parametrize(
    "said, error",
    [
        *(({"url": url}, "URL must be") for url in WRONG),
        ({"authors": "Ada,, Charles"}, "AUTHORS must be names"),
        ({"authors": 'Ada "L"'}, "AUTHORS must be names"),
        ({"edition": "v2"}, "EDITION must be three numbers"),
        ({"edition": "3.0.0"}, "no entry for 3.0.0: write what's new"),
    ],
)
def test_what_is_refused_changes_nothing(tree, said, error):
    before = contents(tree)
    with pytest.raises(ValueError, match=error):
        repository.stamp(tree, **said)
    assert contents(tree) == before


def test_a_file_without_its_place_is_refused(tree):
    (tree / "CITATION.cff").write_text("title: gone\n")
    before = contents(tree)
    with pytest.raises(ValueError, match=r"CITATION\.cff: nothing there matches"):
        repository.stamp(tree, url=NEW)
    assert contents(tree) == before


def git(tree: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)


@pytest.mark.parametrize(
    "spoil, obstacle",
    [
        (lambda tree: None, None),
        (lambda tree: repository.stamp(tree, url=repository.UNSET), "The address isn't set"),
        (lambda tree: (tree / "CHANGELOG.md").write_text(""), "CHANGELOG.md has no entry"),
        (lambda tree: (tree / "new.md").touch(), "Commit these changes first"),
        (lambda tree: git(tree, "tag", "v2.0.1"), "The tag v2.0.1 exists"),
        (lambda tree: git(tree, "switch", "-c", "other"), "git switch main"),
    ],
)
def test_what_stands_in_the_way_of_a_release(tree, spoil, obstacle):
    repository.stamp(tree, **SAID)
    git(tree, "init", "--initial-branch=main")
    git(tree, "add", ".")
    git(tree, "commit", "--message=All")
    spoil(tree)
    found = release.obstacles(tree)
    assert not found if obstacle is None else obstacle in found[0], found
