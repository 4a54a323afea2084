"""The live figures' training run: its tasks, and what it learns."""

import pytest
import torch
from figure_page import ENGINE

from transformer_lib.data import number_words

TEXTS = {"reverse": "abbcdefj", "copy": "abbcdefj", "sort": "jfabbedc", "numbers": "42"}
ANSWERS = {"reverse": "jfedcbba", "copy": "abbcdefj", "sort": "abbcdefj", "numbers": "forty-two"}


def test_the_right_answers(js):
    body = """return Object.fromEntries(
      Object.entries(m.TASKS).map(([name, task]) => [name, task.answer(given[name])]));"""
    assert js(ENGINE, body, **TEXTS) == ANSWERS
    body = "return Array.from({ length: 100 }, (_, n) => m.numberWords(n));"
    assert js(ENGINE, body) == [number_words(n) for n in range(100)]


def test_what_is_typed_is_made_to_fit(js):
    typed = [["reverse", "Hello, Jack!"], ["sort", "abcdefghij"], ["copy", ""], ["numbers", "n042"],
             ["numbers", "1234"], ["numbers", "0"]]  # fmt: skip
    body = "return given.typed.map(([name, text]) => m.tidy(name, text));"
    assert js(ENGINE, body, typed=typed) == ["hejac", "abcdefgh", "", "4", "12", "0"]


def test_no_number_is_in_both_training_and_test(js):
    body = """const next = m.uniform(0);
    const draw = (from) => [...new Set(Array.from({ length: 3000 }, () => from(next)))];
    const { train, test } = m.TASKS.numbers;
    return [draw(train), draw(test)];"""
    train, test = (set(map(int, drawn)) for drawn in js(ENGINE, body))
    assert train | test == set(range(100))
    assert not train & test
    assert len(test) == 16
    # the training numbers contain every word of the test numbers
    assert {n // 10 for n in test} <= {n // 10 for n in train}
    assert {n % 10 for n in test} <= {n % 10 for n in train}


LEARN = """const run = new m.TrainingRun(given.settings, given.switches);
const losses = Array.from({ length: given.steps }, () => run.step().loss);
return { losses, exact: run.exact(), parameters: run.parameters, look: run.look("abcdefgh") };"""


def test_it_learns_to_reverse(js):
    learned = js(ENGINE, LEARN, settings={}, switches={}, steps=300)
    assert learned["parameters"] == 21_952
    assert learned["losses"][-1] < 0.1
    assert learned["exact"] >= 0.9
    look = learned["look"]
    assert look["written"] == look["answer"] == "hgfedcba"
    cross = look["maps"]["decoder.layers.0.cross_attention"]
    assert cross["shape"] == [4, 9, 8]
    # letter t of the answer attends to letter t from the end
    weights = torch.tensor([cross["weights"][str(i)] for i in range(4 * 9 * 8)]).view(4, 9, 8)
    assert weights[:, :8].mean(0).argmax(-1).tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


# ---- two runs

STATE = {
    "task": "reverse", "base": "small", "seed": 3, "scale": True, "causal": True, "residual": True,
    "several": True, "order": True, "warmup": True, "positions": "waves", "rate": 1, "smoothing": 0,
}  # fmt: skip
RUNS = """const runs = m.runsOf(given.state);
return [m.changes(given.state), runs, runs.map(({ settings, switches }) => {
  const run = new m.TrainingRun(settings, switches);
  return [run.step().loss, run.step().loss];
})];"""


@pytest.mark.parametrize(
    ("change", "name", "settings", "switches"),
    [
        ({"scale": False}, "no scale", {}, {"scale": False}),
        ({"causal": False}, "no causal mask", {}, {"causal": False}),
        ({"residual": False}, "no residual", {}, {"residual": False}),
        ({"several": False}, "one head", {"n_heads": 1}, {}),
        ({"order": False}, "norm after", {"pre_norm": False}, {}),
        ({"order": False, "base": "deep"}, "norm first", {"pre_norm": True}, {}),
        ({"warmup": False}, "no warm-up", {"climb": False}, {}),
        ({"positions": "none"}, "no positions", {"positions": "none"}, {}),
        ({"positions": "learned"}, "learned positions", {"positions": "learned"}, {}),
        ({"rate": 0.5}, "rate × 0.5", {"peak": 0.0035}, {}),
        ({"smoothing": 0.1}, "smoothing 0.10", {"label_smoothing": 0.1}, {}),
    ],
)
def test_the_second_run_differs_in_what_is_turned_off(js, change, name, settings, switches):
    """The name says so, its settings do, and from the second step on its losses do."""
    names, (first, second), losses = js(ENGINE, RUNS, state=STATE | change)
    assert names == [name]
    assert first["switches"] == {}
    assert (first["settings"]["seed"], first["settings"]["task"]) == (3, "reverse")
    whole = {"climb": True, "positions": "sinusoidal", "label_smoothing": 0}
    assert second["settings"] == first["settings"] | whole | settings
    assert second["switches"] == {"scale": True, "causal": True, "residual": True} | switches
    assert losses[0] != losses[1]


def test_without_changes_there_is_one_run_and_it_is_the_same_again(js):
    names, runs, losses = js(ENGINE, RUNS, state=STATE)
    assert (names, len(runs)) == ([], 1)
    assert js(ENGINE, RUNS, state=STATE)[2] == losses
    assert js(ENGINE, RUNS, state=STATE | {"seed": 4})[2] != losses
    assert js(ENGINE, RUNS, state=STATE | {"task": "copy"})[2] != losses
