"""Live figures in Python: their traits, text, pictures and modules."""

import json
import re

import anywidget
import pytest
from IPython.core.formatters import DisplayFormatter

from transformer_lib.figures import widgets
from transformer_lib.figures.widgets import (
    MixingMatrix,
    ScaleMeter,
    ScheduleExplorer,
    SoftLookup,
    base,
)

FIGURES = [getattr(widgets, name) for name in widgets.__all__]


@pytest.mark.parametrize("name", widgets.__all__)
def test_repr_can_be_evaluated(name):
    text = repr(getattr(widgets, name)())
    assert repr(eval(text, vars(widgets))) == text


def test_mime_bundle_has_the_view_and_the_text():
    shown = SoftLookup()
    data, _ = DisplayFormatter().format(shown)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == shown.model_id
    assert data["text/plain"] == repr(shown)


@pytest.mark.parametrize("figure", FIGURES)
def test_state_is_json(figure):
    state = json.loads(json.dumps(figure().get_state()))
    assert state["anchor"] == figure.__name__
    assert state["_esm"].count("export default") == 1
    assert "figure.live-figure" in state["_css"]


@pytest.mark.parametrize("figure", FIGURES)
def test_no_trait_has_a_name_that_ipywidgets_uses(figure):
    own = {name for kind in figure.__mro__[: figure.__mro__.index(base.LiveFigure) + 1]
           for name in vars(kind)}  # fmt: skip
    assert len(own) > 10
    assert not own & anywidget.AnyWidget.class_traits().keys()


def test_numbers_come_back_from_the_page():
    shown = SoftLookup()
    shown.set_state({"query": [1, -1], "temperature": 0})  # JSON from a browser has integers
    assert shown.query == [1, -1]
    assert shown.temperature == 0.0
    explorer = ScheduleExplorer()
    explorer.set_state({"warmup": 2000.0})
    assert repr(explorer.warmup) == "2000"


def test_a_tensor_is_a_list_of_numbers_too():
    import torch

    shown = SoftLookup(query=torch.tensor([1.0, 0.5]))
    assert shown.query == [1.0, 0.5]


@pytest.mark.parametrize(
    ("figure", "numbers", "error", "message"),
    [
        (SoftLookup, {"query": (1, 9)}, ValueError, r"query\[1\] must be from -3 to 3; got 9"),
        (SoftLookup, {"query": (1, 2.5)}, ValueError, r"query\[1\] must be from -2 to 2; got 2.5"),
        (SoftLookup, {"query": (1,)}, ValueError, "query must be 2 numbers; got 1"),
        (SoftLookup, {"query": 3}, TypeError, "query must be a list; got 3"),
        (SoftLookup, {"query": ("1", 1)}, TypeError, r"query\[0\] must be a number; got '1'"),
        (SoftLookup, {"query": (float("nan"), 1)}, ValueError, r"query\[0\] .* got nan"),
        (SoftLookup, {"temperature": -1}, ValueError, "temperature must be from 0 to 10; got -1"),
        (SoftLookup, {"temperature": True}, TypeError, "temperature must be a number; got True"),
        (SoftLookup, {"likeness": "angle"}, ValueError, "likeness must be one of 'dot', .*'angle'"),
        (SoftLookup, {"words": ["a"]}, ValueError, "same length; got words: 1, key_vectors: 3"),
        (SoftLookup, {"keys": [[1, 1]]}, TypeError, "SoftLookup has no argument 'keys'"),
        (SoftLookup, {"anchor": "a b"}, ValueError, "anchor must be a letter.*got 'a b'"),
        (MixingMatrix, {"mode": "local"}, ValueError, "mode must be one of .*got 'local'"),
        (MixingMatrix, {"row": 6}, ValueError, "row must be below 6.*got 6"),
        (MixingMatrix, {"row": 1.5}, TypeError, "row must be a whole number; got 1.5"),
        (MixingMatrix, {"features": ["a"]}, ValueError, r"vectors\[0\] must have one number"),
        (ScaleMeter, {"d_k": 48}, ValueError, "d_k must be a power of two; got 48"),
        (ScaleMeter, {"d_k": 2048}, ValueError, "d_k must be from 2 to 1024; got 2048"),
        (ScaleMeter, {"seed": 0}, ValueError, "seed must be from 1 to 9999; got 0"),
        (ScheduleExplorer, {"warmup": 9}, ValueError, "warmup must be from 10 to 10000; got 9"),
        (ScheduleExplorer, {"steps": 500}, ValueError, "step must be at most steps, 500"),
        (ScheduleExplorer, {"d_model": 500}, ValueError, "d_model must be a power of two"),
        (ScheduleExplorer, {"run": [[1]]}, ValueError, r"run\[0\] must be a step, a loss"),
        (ScheduleExplorer, {"run": [[1, 2, 3], [2, 2]]}, ValueError, r"run\[1\] must have a rate"),
        (ScheduleExplorer, {"run": [[5, 2], [5, 1]]}, ValueError, r"run\[1\] must come after"),
    ],
)
def test_bad_arguments_are_refused(figure, numbers, error, message):
    with pytest.raises(error, match=message):
        figure(**numbers)


def test_a_refused_change_changes_nothing():
    shown = SoftLookup()
    with pytest.raises(ValueError, match="temperature"):
        shown.temperature = 11
    assert shown.temperature == 1.0


# ---- the modules

MODULES = sorted(base.FOLDER.glob("*.js"))
NAMESPACE = "http://www.w3.org/2000/svg"  # just a name, not fetched
NETWORK = re.compile(r"https?:|//cdn|\bfetch\b|XMLHttpRequest|WebSocket|EventSource|sendBeacon")
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\("
)


def test_there_is_one_module_per_figure_and_a_kit():
    assert len(MODULES) == len(FIGURES) + 1
    sheets = {path.stem for path in base.FOLDER.glob("*.css")}
    assert sheets == {path.stem for path in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_asks_nothing_of_the_network(path):
    text = path.read_text(encoding="utf-8")
    assert not NETWORK.findall(text.replace(NAMESPACE, ""))
    assert not DANGEROUS.findall(text)
    imports = re.findall(r"^import\b|\bimport\(", text, re.MULTILINE)
    assert imports == ([] if path.stem == "kit" else ["import"])  # compose() checks from where


@pytest.mark.parametrize("path", sorted(base.FOLDER.glob("*.css")), ids=lambda path: path.stem)
def test_style_sheet_asks_nothing_of_the_network(path):
    css = path.read_text(encoding="utf-8")
    assert not re.findall(r"url\(|@import|https?:", css)
    assert css.count("{") == css.count("}")


def prefix(css: str) -> str:
    """The prefix of a figure's classes, such as `tr-`; `lf-` is the kit's."""
    found = [name for name in re.findall(r"\.([a-z]{2}-)", css) if name != "lf-"]
    return max(found, key=found.count)


def selectors(css: str) -> list[str]:
    """All selectors of a sheet; commas in brackets don't separate them."""
    found = []
    for rule in re.findall(r"([^{};]+){", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)):
        parts, open_brackets = [""], 0
        for letter in rule:
            open_brackets += (letter == "(") - (letter == ")")
            if letter == "," and not open_brackets:
                parts.append("")
            else:
                parts[-1] += letter
        found += [] if rule.strip().startswith("@") else [part.strip() for part in parts]
    return found


def test_style_rules_only_match_their_own_figure():
    """On a page with many figures, a rule without the figure's class would match others."""
    sheets = {p.stem: p.read_text("utf-8") for p in base.FOLDER.glob("*.css") if p.stem != "kit"}
    own = {name: prefix(css) for name, css in sheets.items()}
    assert len(set(own.values())) == len(own) >= 20
    wide = [
        f"{name}: {selector}"
        for name, css in sheets.items()
        for selector in selectors(css)
        if f".{own[name]}" not in selector
    ]
    assert wide == []


def test_compose_wants_one_import_from_the_kit(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "FOLDER", tmp_path)
    (tmp_path / "kit.js").write_text("export const one = 1;\n")
    good = 'import {\n  one,\n} from "./kit.js";\n\nexport default one;\n'
    (tmp_path / "good.js").write_text(good)
    assert base.compose("good.js") == "export const one = 1;\n\n\nexport default one;\n"
    for bad in ("export default 1;\n", good + 'import x from "./y.js";\n'):
        (tmp_path / "bad.js").write_text(bad)
        with pytest.raises(ValueError, match=r"bad\.js must have exactly one import"):
            base.compose("bad.js")
