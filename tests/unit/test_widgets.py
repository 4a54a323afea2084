"""Live figures in Python: their traits, text, pictures and modules."""

import re

import pytest
import torch
from traitlets import TraitError

from transformer_lib.figures import widgets
from transformer_lib.figures.widgets import (
    MixingMatrix,
    ScaleMeter,
    ScheduleExplorer,
    SoftLookup,
    base,
)

FIGURES = [getattr(widgets, name) for name in widgets.__all__]


def test_numbers_come_from_a_tensor_and_from_the_page():
    shown = SoftLookup(query=torch.tensor([1.0, 0.5]))
    assert shown.query == [1.0, 0.5]
    shown.set_state({"query": [1, -1], "temperature": 0})  # JSON from a browser has integers
    assert shown.query == [1, -1]
    assert shown.temperature == 0.0
    explorer = ScheduleExplorer()
    explorer.set_state({"warmup": 2000.0})
    assert repr(explorer.warmup) == "2000"


@pytest.mark.parametrize("figure", FIGURES)
def test_numbers_beyond_their_limits_and_unknown_words_are_refused(figure):
    shown = figure()
    wrong = {}
    for name, trait in shown.traits(sync=True).items():
        if isinstance(trait, base.Number):
            wrong[name] = [float("nan"), trait.low - 1, trait.high + 1, True]
        elif isinstance(trait, base.OneOf):
            wrong[name] = ["other"]
    assert wrong
    for name, values in wrong.items():
        for value in values:
            with pytest.raises((ValueError, TypeError), match=f"{name} must be .*; got {value!r}"):
                setattr(shown, name, value)
    assert repr(shown) == repr(figure()), "a refused change changes nothing"


OTHERS = [
    (SoftLookup, {"query": (1, 9)}, r"query\[1\] must be from -3 to 3; got 9"),
    (SoftLookup, {"query": (1,)}, "query must be 2 numbers; got 1"),
    (SoftLookup, {"query": 3}, "query must be a list; got 3"),
    (SoftLookup, {"query": ("1", 1)}, r"query\[0\] must be a number; got '1'"),
    (SoftLookup, {"words": ["a"]}, "same length; got words: 1, key_vectors: 3"),
    (SoftLookup, {"keys": [[1, 1]]}, "SoftLookup has no argument 'keys'"),
    (SoftLookup, {"anchor": "a b"}, "anchor must be a letter.*got 'a b'"),
    (widgets.AlignmentStepper, {"kinds": ["none"]}, "go together; got only kinds"),
    (widgets.ArchitectureExplorer, {"n_heads": 12}, r"d_model \(512\) must be divisible by n_"),
    (widgets.BatchPadding, {"lengths": [[3, 4]] * 7}, "lengths must have 8 to 2048 pairs; got 7"),
    (widgets.BatchPadding, {"lengths": [[3, 4.5]] * 8}, r"lengths\[0\] must be two whole numbers"),
    (widgets.BeamGrower, {"length_penalty": 0.5}, "length_penalty must be one of 0.0, 0.2, .*got"),
    (widgets.BytePairs, {"word": "two words"}, "word must be one word of at most 16 letters"),
    (widgets.CacheSize, {"n_kv_heads": 7}, r"must be divisible by n_kv_heads \(7\)"),
    (widgets.CheckpointBytes, {"tensors": {}}, "1 to 16 numbers in all; got 0"),
    (widgets.FillIn, {"guesses": []}, "guesses must have one entry per sentence"),
    (widgets.HeadPrices, {"layers": ["a"] * 3}, "equally many heads in each of the 3 layers"),
    (widgets.HeadsExplorer, {"attention": "encoder", "token": 3}, "token must be below 3; got 3"),
    (widgets.LayerDepth, {"words": ["a", "b"]}, "words must be 3 to 8 words; got 2"),
    (widgets.LiveTraining, {"example": "xyz"}, "example must be 1 to 8 letters from a to j"),
    (widgets.LiveTranslator, {"text": "x" * 45}, "text must be at most 44 Latin letters"),
    (widgets.LossPush, {"tokens": ["a", "b"]}, "same length; got tokens: 2, logits: 5"),
    (widgets.LowRank, {"change": [1, 2, 3]}, r"change must have two axes of 2 to 96; got \(3,\)"),
    (widgets.LowRank, {"rows": ["1 2"]}, "rows can't be given"),
    (widgets.MaskPainter, {"mask": "110-11"}, "mask must be a square.*got '110-11'"),
    (MixingMatrix, {"row": 6}, "row must be below 6.*got 6"),
    (MixingMatrix, {"features": ["a"]}, r"vectors\[0\] must have one number"),
    (widgets.NextLetter, {"text": "a"}, "go together; got only text"),
    (widgets.NormExplorer, {"word": 7}, "word must be from 0 to 5; got 7"),
    (widgets.OneMixture, {"first": 0.55}, r"first must be one of 0, 0\.1, …, 1; got 0\.55"),
    (widgets.PairedBootstrap, {"pairs": [["A"]]}, r"pairs\[0\] must be two names; got"),
    (widgets.PositionsExplorer, {"d_model": 63}, "d_model must be even; got 63"),
    (widgets.Roofline, {"tokens": 3}, "tokens must be a power of two; got 3"),
    (widgets.Roofline, {"machines": [["a", 1]]}, r"machines\[0\] must be a name of 1 to 12"),
    (widgets.RunPlanner, {"kept": [[1, 2]]}, "kept must be two pairs of numbers"),
    (widgets.Sampler, {"prompts": ["a"]}, "go together; got only prompts"),
    (ScaleMeter, {"d_k": 48}, "d_k must be a power of two; got 48"),
    (ScheduleExplorer, {"steps": 500}, "step must be at most steps, 500"),
    (ScheduleExplorer, {"run": [[5, 2, 1], [5, 1, 1]]}, r"run\[1\] must come after"),
    (widgets.WhoKnows, {"layer": 5}, "layer must be at most layers, 4; got 5"),
    (widgets.WordSwap, {"order": [0, 1]}, "order must have every number below 6 once"),
]


@pytest.mark.parametrize(("figure", "numbers", "message"), OTHERS)
def test_what_makes_no_sense_is_refused(figure, numbers, message):
    with pytest.raises((ValueError, TypeError, TraitError), match=message):
        figure(**numbers)


# ---- the modules

MODULES = sorted(base.FOLDER.glob("*.js"))
NAMESPACE = "http://www.w3.org/2000/svg"  # just a name, not fetched
NETWORK = re.compile(r"https?:|//cdn|\bfetch\b|XMLHttpRequest|WebSocket|EventSource|sendBeacon")
# Words of a reader or a kernel must stay text.
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTML|DOMParser|ContextualFragment|srcdoc|"
    r"document\.write|\beval\b|Function\("
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_asks_nothing_of_the_network(path):
    text = path.read_text(encoding="utf-8")
    assert not NETWORK.findall(text.replace(NAMESPACE, ""))
    assert not DANGEROUS.findall(text)
    imports = re.findall(r"^import\b|\bimport\(", text, re.MULTILINE)
    assert imports == ([] if path.stem == "kit" else ["import"])


@pytest.mark.parametrize("path", sorted(base.FOLDER.glob("*.css")), ids=lambda path: path.stem)
def test_style_sheet_asks_nothing_of_the_network(path):
    assert not re.findall(r"url\(|@import|https?:", path.read_text(encoding="utf-8"))
