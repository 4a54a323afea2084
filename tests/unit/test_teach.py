"""The page for teachers: what it says of exercises, of checkers and of figures is true."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "chapters" / "teach.md").read_text(encoding="utf-8")
WEEKS = {
    int(week): text
    for week, text in re.findall(r"^### Week (\d+)\n(.*?)(?=^##)", PAGE, re.M | re.S)
}
CHAPTERS = {week: week if week < 15 else week + 3 for week in range(1, 20)}
every_week = pytest.mark.parametrize("week", CHAPTERS)


def chapter(week: int) -> Path:
    (path,) = (ROOT / "chapters").glob(f"{CHAPTERS[week]:02}_*.ipynb")
    return path


def exercise(week: int) -> str:
    found = re.search(r"^- \*\*Assign\*\* `(\w+)`", WEEKS[week], re.M)
    assert found
    return found[1]


@every_week
def test_the_exercise_is_one_of_the_chapter(week):
    assert f"# check({exercise(week)})" in chapter(week).read_text(encoding="utf-8")
    assert f"]({chapter(week).name})" in WEEKS[week]
    assert f"assignment/assignment_{chapter(week).name}" in WEEKS[week]
    assert f"{{reading}}`{CHAPTERS[week]}`" in WEEKS[week]


@every_week
def test_the_checker_says_what_the_page_quotes(week):
    name = exercise(week)
    check = importlib.import_module(f"transformer_lib.checks.chapter{CHAPTERS[week]:02}").check
    quote = re.search(r'The checker: "(.*)"$', WEEKS[week], re.M)
    assert quote
    known = quote[1].removeprefix("That is what happens when ").removesuffix(".")
    (wrong,) = [
        answers
        for mistake, answers in check.exercises[name].mistakes.items()
        if mistake.startswith(known)
    ]
    answer = wrong if callable(wrong) else wrong[0]
    said = " ".join(check.summary({"1": name}, {name: answer}).split())
    assert said.startswith(f"1 {name}: not passed")
    assert f". {quote[1]} 0 of 1 passed; " in said


@every_week
def test_the_figure_has_the_state_that_the_link_asks_for(week):
    link = re.search(r'href="(live_figures_\w+)\.html#(\w+)=([^"]+)"', WEEKS[week])
    assert link
    page, name, state = link.groups()
    notebook = json.loads((ROOT / f"chapters/{page}.ipynb").read_text(encoding="utf-8"))
    models = notebook["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    (figure,) = [m["state"] for m in models.values() if m["state"].get("anchor") == name]
    for part in state.split(";"):
        trait, value = part.split(":")
        assert trait in figure
        assert str(figure[trait]).lower() != value  # else the link would say nothing
    names = {
        path.read_text(encoding="utf-8")
        for path in (ROOT / "transformer_lib/figures").rglob("*.js")
    }
    assert any(f'name: "{name}"' in text for text in names)


def test_no_time_on_the_page_is_written_by_hand():
    assert not re.search(r"\d+\s*(minutes|hours|min\b|h\b)", PAGE)
    assert sorted(WEEKS) == list(CHAPTERS)
