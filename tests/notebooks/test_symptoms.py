"""The page of symptoms: its checks give True for mine.py, and find each cause that it lists."""

import ast
import re
import sys
from functools import cache
from types import ModuleType

import pytest
from execute import CHAPTERS

import mine

PAGE = (CHAPTERS / "symptoms.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```\{code-block\} python\n:name: (\S+)\n\n(.*?)```", re.S)
CODE = dict(BLOCK.findall(PAGE))
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
CHECKS = {title: [name for name, _ in BLOCK.findall(text)] for title, text in SECTIONS.items()}
CAUSES = {
    cause.rstrip("."): title
    for title, text in SECTIONS.items()
    for cause in re.findall(r"^\d+\. \*\*(.+?)\*\*", text, re.M)
}
BEFORE = "before-the-checks"
STATES = mine.states(CHAPTERS)
LATER = {"The result changes when the text moves by 100 positions": STATES[21]}
MINE = {title: LATER.get(title, STATES[14]) for title in SECTIONS}

# What each cause does to the text of mine.py, or to that of the page's first cell: old, new, …
PLANTED = {
    "The decoder reads the labels": ("target[:, :-1], target", "target[:, 1:], target"),
    "The triangle has one diagonal too many": (".tril()", ".tril(1)"),
    "The decoder gets no triangle": ("= causal_mask(target.size(1)).to(x.device)", "= None"),
    "The heads are joined without the transpose": (
        "mixed.transpose(1, 2).flatten(2)",
        "mixed.reshape(x.shape)",
    ),
    "The encoder reads the target": (
        "memory = self.encode(source)",
        "memory = self.encode(target)",
        "memory, padding_mask(source))",
        "memory, padding_mask(target))",
    ),
    "The embedding is as PyTorch initializes it": ("std=d_model**-0.5", "std=1.0"),
    "The logits are multiplied by the root of d": (
        "return x @ self.embedding.weight.T ",
        "return x @ self.embedding.weight.T * x.size(-1) ** 0.5 ",
    ),
    "The rate is far too large": ("rate(10))", "0.1)"),
    "The optimizer holds another model": (
        "    model.parameters(),",
        "    Transformer(V, 32, 4, 64, 2).parameters(),",
    ),
    "The rate is 0": ("rate(10))", "0.0)"),
    "The update climbs the loss": ("loss.backward()", "(-loss).backward()"),
    "The gradient is cut off": ("= self.encode(source)", "= self.encode(source).detach()"),
    "Layers are in a plain list": (
        "nn.ModuleList(DecoderLayer(*sizes) for _ in range(n_layers))",
        "[DecoderLayer(*sizes) for _ in range(n_layers)]",
    ),
    "There is no warm-up": ("min(step / warmup,", "min(1,"),
    "The schedule takes the larger number": ("peak * min(", "peak * max("),
    "The rate never falls": ("(warmup / step) ** 0.5)", "1)"),
    "A row may attend to nothing": ("torch.finfo(scores.dtype).min", '-float("inf")'),
    "The softmax overflows": (
        "scores.softmax(dim=-1)",
        "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)",
    ),
    "Cross-attention reads the target": (
        "self.cross_attention(normed, memory, memory_mask)",
        "self.cross_attention(normed, normed, mask)",
    ),
    "The decoder has no cross-attention": (
        "x = x + self.dropout(self.cross_attention(normed, memory, memory_mask))",
        "pass",
    ),
    "The text is tokenized with another vocabulary": (
        'ours = {"<pad>": 0, "a": 1, "b": 2}',
        'ours = {"<pad>": 0, "b": 1, "a": 2}',
    ),
    "The positions are not added": (" + positions(length, d_model).to(x)", ""),
    "The positions run along the batch": (
        "positions(length, d_model).to(x)",
        "positions(x.size(0), d_model).to(x)[:, None]",
    ),
    "No target ends with `<eos>`": (
        "target[:, -1] = BOS, EOS",
        "target[:, -1] = BOS, 7",
        "target[0, 4] = PAD, EOS",
        "target[0, 4] = PAD, 7",
    ),
    "No target begins with `<bos>`": ("target[:, -1] = BOS, EOS", "target[:, -1] = 7, EOS"),
    "A position sees its future": (".tril()", ".tril(1)"),
    "Only one of the two has the padding mask": (
        "return self.decode(target, memory, padding_mask(source))",
        "return self.decode(target, memory, None)",
    ),
    "Both transposes of the heads are missing": (
        "x.view(batch, length, self.n_heads, d_head)",
        "x.view(batch, self.n_heads, length, d_head)",
        "return x.transpose(1, 2) ",
        "return x ",
        "mixed.transpose(1, 2).flatten(2)",
        "mixed.reshape(x.shape)",
    ),
    "Dropout is still on": ("model.eval()", "model.train()"),
    "The model is still in training mode": ("model.eval()", "model.train()"),
    "Dropout doesn't know about `eval()`": (
        "return self.dropout(x) ",
        "return nn.functional.dropout(x, 0.1) ",
    ),
    "The encoder gets no padding mask": (
        "self.encoder(x, padding_mask(source))",
        "self.encoder(x, None)",
    ),
    "Cross-attention gets no padding mask": (
        "self.cross_attention(normed, memory, memory_mask)",
        "self.cross_attention(normed, memory)",
    ),
    "The mask is inverted": ("(ids != pad)", "(ids == pad)"),
    "The mask has the wrong padding id": ("ids, pad=0", "ids, pad=1"),
    "Attention runs along the batch": (
        "self.encoder(x, padding_mask(source))",
        "self.encoder(x.transpose(0, 1), None).transpose(0, 1)",
    ),
    "The mask fills with zero": ("torch.finfo(scores.dtype).min", "0.0"),
    "The padding is on the left": ("source[0, 6:], target", "source[0, :3], target"),
    "A source is in both lists": ('("two", "zwei")', '("one", "eins")'),
    "The test text is in the training text": (
        "a small goat finds an old",
        "the hungry cat eats fresh",
    ),
    "The softmax runs along the wrong axis": ("softmax(dim=-1)", "softmax(dim=-2)"),
    "The mask comes after the softmax": (
        "scores = scores.masked_fill(~mask, lowest)",
        "pass",
        "scores.softmax(dim=-1)",
        "scores.softmax(dim=-1) * (1 if mask is None else mask)",
    ),
    "The weights are divided, not the scores": (
        "scores = scores / key.size(-1) ** 0.5",
        "pass",
        "scores.softmax(dim=-1)",
        "scores.softmax(dim=-1) / key.size(-1) ** 0.5",
    ),
    "The scale is missing": ("scores / key.size(-1) ** 0.5", "scores"),
    "The scores are multiplied by the root": (
        "scores / key.size(-1) ** 0.5",
        "scores * key.size(-1) ** 0.5",
    ),
    "The scores are divided by the width itself": ("key.size(-1) ** 0.5", "key.size(-1)"),
    "The residual starts after the norm": (
        "normed, mask))\n        normed = self.norms[1](x)\n        return",
        "normed, mask))\n        x = normed = self.norms[1](x)\n        return",
    ),
    "The norm comes after the residual": (
        "return x + self.dropout(self.feed_forward(normed))\n\n\nclass Encoder(",
        "return self.norms[1](x + self.dropout(self.feed_forward(x)))\n\n\nclass Encoder(",
    ),
    "The result replaces the input": (
        "return x + self.dropout(self.feed_forward(normed))\n\n\nclass Encoder(",
        "return self.dropout(self.feed_forward(normed))\n\n\nclass Encoder(",
    ),
    "The padding mask lacks an axis": ("[:, None, None, :]", "[:, None, :]"),
    "The padding mask lacks two axes": ("[:, None, None, :]", ""),
    "The triangle has a fixed size": ("causal_mask(target.size(1))", "causal_mask(7)"),
    "The values are turned, too": (
        "value = self.split(self.value(x)) ",
        "value = rotate(self.split(self.value(x)), start) ",
    ),
    "Keys and queries are turned in different pairs": (
        "rotate(self.split(self.key(x)), start)",
        "rotate(self.split(self.key(x)).flip(-1), start).flip(-1)",
    ),
    "The offset reaches the keys only": (
        "rotate(self.split(self.query(x)), start)",
        "rotate(self.split(self.query(x)))",
    ),
}


def planted(cause: str) -> tuple[str, dict[str, str]]:
    """mine.py and the page's cells with the mistake, where each old text stands once."""
    parts = {"mine": MINE[CAUSES[cause]]} | CODE
    changes = PLANTED[cause]
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        part = next(name for name in dict.fromkeys((BEFORE, *parts)) if old in parts[name])
        assert parts[part].count(old) == 1, (cause, old)
        parts[part] = parts[part].replace(old, new)
    return parts.pop("mine"), parts


def well(name: str, source: str, cells: dict[str, str]) -> bool:
    """Whether the check gives True, run as the page has it, after the page's first cell."""
    module = ModuleType("mine")
    exec(source, vars(module))
    space = {}
    *statements, last = ast.parse(cells[name]).body
    own, sys.modules["mine"] = sys.modules["mine"], module
    try:
        exec(cells[BEFORE], space)
        exec(compile(ast.Module(statements, []), name, "exec"), space)
        return bool(eval(compile(ast.Expression(last.value), name, "eval"), space))
    except RuntimeError:
        return False
    finally:
        sys.modules["mine"] = own


@cache
def found(cause: str) -> list[str]:
    """The checks of the cause's symptom that don't give True when it is planted."""
    return [name for name in CHECKS[CAUSES[cause]] if not well(name, *planted(cause))]


@pytest.mark.parametrize(
    "title, name", [(t, name) for t in CHECKS for name in CHECKS[t] if name != BEFORE]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_check_says_true_of_a_healthy_model(title, name, seed):
    cells = CODE | {BEFORE: CODE[BEFORE].replace("manual_seed(0)", f"manual_seed({seed})")}
    assert well(name, MINE[title], cells)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_is_found_by_a_check_of_its_symptom(cause):
    assert found(cause)


def test_no_cause_is_left_out_and_no_check_is_idle():
    assert list(PLANTED) == list(CAUSES)
    useful = set().union(*(found(cause) for cause in CAUSES))
    assert useful == CODE.keys() - {BEFORE}


def test_the_list_on_top_names_the_symptoms_in_their_order():
    listed = re.findall(r"^- \[(.+?)\]\(#(.+?)\)$", PAGE.partition("\n## ")[0], re.M)
    with_causes = [title for title in SECTIONS if title in CAUSES.values()]
    assert [title for title, _ in listed] == with_causes
    for title, anchor in listed:
        assert anchor == re.sub(r"[^\w ]", "", title.lower()).replace(" ", "-")
