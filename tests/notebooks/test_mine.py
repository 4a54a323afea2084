"""The reader's mine.py: each state runs by itself, and what a chapter repeats of it is true.

Each chapter compares what it adds with the library, in a cell that nbval runs. What that can't see
is tested here: parameters that aren't as they were initialized, and what is drawn by chance.
"""

import ast
import json
import warnings

import pytest
import torch
from execute import CHAPTERS
from torch._subclasses.fake_tensor import FakeTensorMode

import cells
import mine
from transformer_lib.decoding.generate import distribution

STATES = mine.states(CHAPTERS)
ALLOWED = {"__future__", "json", "math", "random", "torch"}


def repeats(text: str, before: str, adds: bool) -> bool:
    """Whether a text is the earlier file; part of it is enough if the chapter adds nothing."""
    if adds:
        return text.strip() == before.strip()
    return mine.parts(text).items() <= mine.parts(before).items()


def wrong_befores() -> list[str]:
    """The chapters whose cells tagged mine-before aren't what earlier chapters made."""
    wrong, before = [], ""
    for path in sorted(CHAPTERS.glob("[0-9]*.ipynb")):
        found = json.loads(path.read_text(encoding="utf-8"))["cells"]
        adds = any("mine" in cells.tags(cell) for cell in found)
        wrong += [
            path.stem
            for cell in found
            if "mine-before" in cells.tags(cell) and not repeats(cells.text(cell), before, adds)
        ]
        before = STATES.get(int(cells.place(path.stem)), before)
    return wrong


def foreign(source: str) -> set[str]:
    """The modules that a state imports although it should be plain PyTorch."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found - ALLOWED


def run(source: str) -> dict:
    """The names that a state defines, run by itself; a warning is an error."""
    names: dict = {"__name__": "mine"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(source, names)
    return names


@pytest.mark.parametrize("chapter", STATES)
def test_a_state_runs_by_itself(chapter):
    run(STATES[chapter])
    assert foreign(STATES[chapter]) == set()


def test_a_chapter_repeats_the_earlier_file():
    assert wrong_befores() == []


def test_what_is_defined_again_takes_the_earlier_place():
    first = "import torch\n\n\n# Looks.\ndef attend(q): return q\n\n\nclass SingleHead: pass"
    second = "from torch import nn\nimport math\nimport torch\n\n\ndef attend(q): return -q"
    file = mine.grow(mine.grow("", first), second)
    assert file == (
        "import math\nimport torch\nfrom torch import nn\n\n\n"
        "def attend(q): return -q\n\n\nclass SingleHead: pass\n"
    )
    assert mine.grow("", file) == file
    replaced = mine.grow(file, "@cut\nclass MultiHead: pass", replaces=["SingleHead"])
    assert replaced.endswith("def attend(q): return -q\n\n\n@cut\nclass MultiHead: pass\n")
    assert "# Looks." in mine.grow("", first)


def test_the_transformer_on_one_page_is_the_state_after_chapter_14():
    page = mine.parts(mine.program(CHAPTERS))
    last = mine.parts(STATES[14])  # what Part IV adds isn't in the paper
    assert last.items() <= page.items()
    assert len([line for line in STATES[14].splitlines() if line.strip()]) <= 200
    assert foreign(mine.program(CHAPTERS)) == set()


# --- what no chapter compares --------------------------------------------------------------------


def test_dropout_of_mine_is_on_what_a_sublayer_adds():
    layer = run(STATES[8])["EncoderLayer"](d_model=6, n_heads=2, d_ff=7, dropout=1.0)
    x = torch.randn(2, 5, 6)
    assert torch.equal(layer(x, None), x)
    assert not torch.equal(layer.eval()(x, None), x)


def test_the_windows_of_mine_are_pieces_of_the_text():
    reads, labels = run(STATES[18])["windows"](torch.arange(100, 130), length=7, size=400)
    assert torch.equal(reads + 1, labels) and torch.equal(reads[:, 1:], labels[:, :-1])
    assert set(reads[:, 0].tolist()) == set(range(100, 123)), "every window can be drawn"


def gpt():
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 7, "n_layers": 2, "max_len": 6, "dropout": 0.5}
    own = run(STATES[18])["GPT"](11, **sizes)
    for parameter in own.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return own


@pytest.mark.parametrize("top_k, top_p", [(3, 1.0), (6, 0.7)])
def test_generate_of_mine_draws_from_what_the_library_draws_from(top_k, top_p):
    own = gpt()
    start = torch.tensor([[4, 9, 2]]).repeat(20_000, 1)
    torch.manual_seed(0)
    drawn = run(STATES[18])["generate"](own, start, 1, temperature=1.5, top_k=top_k, top_p=top_p)
    log_probs = own.eval()(start[:1])[:, -1].log_softmax(-1).detach()
    probs, ids = distribution(log_probs, 1.5, top_k, top_p)
    want = torch.zeros(11).scatter(0, ids[0], probs[0])
    found = torch.bincount(drawn[:, 3], minlength=11) / len(drawn)
    assert not found[want == 0].any()
    torch.testing.assert_close(found, want, atol=0.02, rtol=0)


def test_generate_of_mine_reads_what_fits_and_drops_nothing():
    own = gpt()
    ids = run(STATES[18])["generate"](own.train(), torch.tensor([[3, 1, 4, 1, 5]]), 9, top_k=1)
    assert ids.shape == (1, 14) and not own.training
    for place in range(5, 14):  # the most probable one, given the latest six
        past = ids[:, max(0, place - 6) : place]
        assert own(past)[0, -1].argmax() == ids[0, place]


def test_hide_of_mine_hides_as_bert_does():
    own = run(STATES[19])
    ids = torch.randint(4, 90, (100, 400))
    ids[:, 0], ids[:, -1], ids[::2, 300:] = own["CLS"], own["SEP"], own["PAD"]
    given, labels = own["hide"](ids, vocab_size=90)
    asked, words = labels != own["PAD"], ids > own["MASK"]
    assert torch.equal(labels[asked], ids[asked]) and not (asked & ~words).any()
    assert torch.equal(given[~asked], ids[~asked]) and not (given[words] < own["MASK"]).any()
    masked, same = given == own["MASK"], given == ids
    for share, of, wanted in ((asked, words, 0.15), (masked, asked, 0.8), (same, asked, 0.101)):
        assert abs((share & of).sum() / of.sum() - wanted) < 0.02


# --- on another device ---------------------------------------------------------------------------


def test_nothing_of_mine_is_made_on_another_device(monkeypatch):
    """In PyTorch's fake mode nothing is computed, and an operation on two devices is an error."""
    own = run(STATES[max(STATES)])
    monkeypatch.setattr(torch.Tensor, "item", lambda self: 1.0)  # it has no value
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda self: True)
    with FakeTensorMode():
        ids = torch.ones(2, 6, dtype=torch.long, device="meta")
        sizes = (20, 16, 2, 32, 1)
        with torch.device("meta"):
            model = own["Transformer"](*sizes)
            gpt, bert = own["GPT"](*sizes, 8), own["BERT"](*sizes, 8)
            sorts = own["BERTClassifier"](bert, 3), own["GPTClassifier"](gpt, 3)
            heads = own["GroupedHeads"](16, 4, 2)
        own["train"](model, [([3, 4], [5, 6])] * 4, epochs=1, size=2)
        own["greedy"](model, ids, 3)
        own["generate"](gpt, ids, 2, top_k=3, top_p=0.9)
        reads, labels = own["windows"](ids[0], 3, 2)
        hidden, labels = own["hide"](ids, 20)
        found = [gpt(reads), bert(hidden, labels), sorts[0](ids, labels), *sorts[1](ids)]
        found.append(heads(torch.ones(2, 5, 16, device="meta"), start=3))
        sum(tensor.sum() for tensor in found).backward()
        assert {tensor.device for tensor in found} == {ids.device}
