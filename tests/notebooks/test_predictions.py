"""What a reader predicts: the text of two cells becomes choices, a number, or a line to write."""

import json
import re

import pytest
from execute import ROOT

import cells
import predictions

MOST_WORDS = 24  # of a choice and its reason: their room is there from the start
NOTEBOOKS = sorted((ROOT / "chapters").glob("*.ipynb"))
ASKED = "**Before you read on.** How far is it?\n\n- near\n- about $\\sqrt{d}$\n- far"
ANSWERED = "- near: they cancel.\n- **about $\\sqrt{d}$**: in part.\n- far: they add up."


def test_choices_have_reasons_and_one_is_right():
    found = predictions.parse(ASKED, ANSWERED + "\n\nThe rest\nof it.")
    assert found.kind == "one"
    assert found.question == "**Before you read on.** How far is it?"
    assert found.choices == (
        ("near", "they cancel.", False),
        (r"about $\sqrt{d}$", "in part.", True),
        ("far", "they add up.", False),
    )
    assert found.answer == "The rest\nof it."
    assert found.in_a_paragraph == ("", "How far is it?")


def test_more_than_one_choice_may_be_right_and_an_item_may_have_several_lines():
    found = predictions.parse(ASKED, ANSWERED.replace("far:", "**far**:"))
    assert found.kind == "some"
    assert [choice.right for choice in found.choices] == [False, True, True]
    asked = "Which?\n\n- *this*\n  one\n- `that: one`"
    found = predictions.parse(asked, "- ***this* one**: a\n  reason.\n- `that: one`: b.")
    assert found.choices == (("*this* one", "a reason.", True), ("`that: one`", "b.", False))


@pytest.mark.parametrize(
    "answer, number, within, unit, said",
    [
        ("**59 ± 9 %**: six of ten.", "59", "9", "%", "**59 %**: six of ten."),
        ("**3 ± 0 big steps**: no more.", "3", "0", "big steps", "**3 big steps**: no more."),
    ],
)
def test_a_number_has_a_tolerance_and_a_unit(answer, number, within, unit, said):
    others = "\n\n- 100: if all were alike."
    found = predictions.parse("How much?", answer + others)
    assert (found.kind, found.choices) == ("number", ())
    assert (found.number, found.within, found.unit) == (number, within, unit)
    assert predictions.value("−1,024.5") == -1024.5
    assert found.answer == said + others


@pytest.mark.parametrize("answer", ["Because.", "**Because** it is so.", "- a: b\n- **c**: d"])
def test_whatever_else_is_asked_is_a_line(answer):
    found = predictions.parse("Why?\n\n- These are\n- two hints.\n\nSay it.", answer)
    assert (found.kind, found.choices, found.answer) == ("line", (), answer)
    assert found.in_a_paragraph == ("", "Why? Say it.")
    with pytest.raises(ValueError, match="right after it"):
        predictions.parse("Why?", "")


@pytest.mark.parametrize(
    "answer, complaint",
    [
        ("", "begin with the list of choices"),
        (ANSWERED.replace("**", ""), "the right one in **bold**"),
        (ANSWERED.rpartition("\n")[0], "3 choices, and 2 of them"),
        (ANSWERED.replace(": they add up.", ": "), "says “far”, a colon and the reason"),
    ],
)
def test_an_answer_that_does_not_answer_says_so(answer, complaint):
    with pytest.raises(ValueError, match=complaint.replace("*", r"\*")):
        predictions.parse(ASKED, answer)


def test_the_gate_says_which_cell_is_wrong():
    cell = {"cell_type": "markdown", "metadata": {"tags": ["predict"]}}
    notebook = [cell | {"id": "how-far", "source": ASKED}]
    with pytest.raises(ValueError, match="chapters/01_a, cell how-far: the answer must begin"):
        cells.blocks("chapters/01_a", notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_question_of_the_book_can_be_answered_and_understood_in_its_list(path):
    for block in cells.blocks(path.stem, json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if block.kind == "predict":
            found = cells.prediction(block)
            for answer in block.cells[1:]:  # as JupyterLab shows it
                assert answer["metadata"]["jupyter"] == {"source_hidden": True}
            assert "?" in found.in_a_paragraph[1], block.label
            for choice in found.choices:
                said = re.sub(r"\$[^$]*\$", "formula", f"{choice.text} {choice.reason}")
                assert len(said.split()) <= MOST_WORDS, block.label
