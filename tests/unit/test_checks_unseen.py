"""Chapters 18 to 22 and the project: answers written without the checkers' lists, later named."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.unit import test_checks_project as project
from tests.unit.test_checks_chapter18 import draw, loss
from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.chapter18 import check as chapter18
from transformer_lib.checks.chapter19 import check as chapter19
from transformer_lib.checks.chapter20 import check as chapter20
from transformer_lib.checks.chapter21 import check as chapter21
from transformer_lib.checks.chapter22 import check as chapter22
from transformer_lib.checks.project import check as of_project
from transformer_lib.checks.traces import trace

pytestmark = pytest.mark.slow


def is_told(check, name, answer, what):
    answer.__name__ = name
    result = check(answer)
    assert not result
    assert what in " ".join(result.report.split()), result.report


# ---------------------------------------------------------------------- the chapters' functions


def only_the_best(logits, temperature, top_k, top_p):
    return F.one_hot(logits.argmax(-1), logits.size(-1)).to(logits)


def soft_twice(model, ids, length, stride):
    return loss()(lambda reads: model(reads).softmax(-1), ids, length, stride)


def classes_last(logits, labels):
    return F.cross_entropy(logits, labels, ignore_index=0)


def no_axis_of_length_1(x, ids):
    real = (ids != 0).float()
    return (x * real).sum(1) / real.sum(1)


def mean_of_each_text(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:], ignore_index=0, reduction="none")
    words = (words.sum(1) / (ids[:, 1:] > 0).sum(1)).mean()
    return F.cross_entropy(label_logits, labels) + share * words


def both(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:], ignore_index=0)
    return F.cross_entropy(label_logits, labels) + share * words


def two_ahead(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits[:, :-2].mT, ids[:, 2:], ignore_index=0)
    return F.cross_entropy(label_logits, labels) + share * words


def low_rank(factor):
    def answer(x, weight, bias, a, b, alpha):
        return F.linear(x, weight + factor(alpha, a, b) * (b @ a), bias)

    return answer


def a_and_b(x, weight, bias, a, b, alpha):
    return F.linear(x, weight, bias) + alpha / len(a) * (x @ b.T @ a.T)


def rms(size):
    return lambda x, weight, eps: (x.float() / size(x.float(), eps) * weight).type_as(x)


def grouped(keys=None, values=None, scale=None):
    def answer(query, key, value, mask):
        n = query.size(1) // key.size(1)
        spread = [
            one[:, :1] if how == "first" else one.repeat_interleave(n, 1)
            for one, how in ((key, keys), (value, values))
        ]
        scores = query @ spread[0].mT / (key.size(2) if scale else query.size(3)) ** 0.5
        return scores.masked_fill(~mask, -1e9).softmax(-1) @ spread[1]

    return answer


def silu_last(x, gate_up, down):
    gate, up = (x @ gate_up.T).chunk(2, -1)
    return F.silu((gate * up) @ down.T)


def parity(yours, theirs, real):
    if yours.shape != theirs.shape:
        return math.inf
    found = (yours - theirs)[real].abs()
    return found.max().item() if found.isfinite().all() else math.inf


def of_places(yours, theirs, real):
    if not math.isfinite(parity(yours, theirs, real)):
        return math.inf
    return (yours - theirs)[real].abs().amax(-1).mean().item()


FUNCTIONS = [
    (chapter18, "drawn_from", only_the_best, "only the most probable letter is kept"),
    (chapter18, "drawn_from", draw(scale=False, back=lambda p, o: (p / p.sum()).gather(
        -1, o.argsort(-1))), "the sum goes over all rows"),
    (chapter18, "text_loss", soft_twice, "the softmax is applied twice"),
    (chapter19, "hidden_loss", classes_last, "looks for the classes on the axis 1"),
    (chapter19, "mean_of_tokens", no_axis_of_length_1, "an axis of length 1 is missing"),
    (chapter20, "joint_loss", mean_of_each_text, "each text has its own mean"),
    (chapter20, "joint_loss", lambda *of: both(*of) / (1 + of[-1]), "the sum is divided"),
    (chapter20, "joint_loss", two_ahead, "shifted by two places"),
    (chapter20, "low_rank", low_rank(lambda alpha, a, b: alpha * len(a)), "multiplied by the"),
    (chapter20, "low_rank", low_rank(lambda alpha, a, b: alpha / len(b)), "the number of outputs"),
    (chapter20, "low_rank", a_and_b, "x goes through b first"),
    (chapter21, "rms_norm", rms(lambda x, eps: (
        x.square().sum(-1, keepdim=True) / (x.size(-1) - 1) + eps).sqrt()), "divided by d - 1"),
    (chapter21, "rms_norm", rms(lambda x, eps: x.abs().amax(-1, keepdim=True) + eps),
     "the largest number divides"),
    (chapter21, "swiglu", silu_last, "silu comes last"),
    (chapter21, "grouped_attention", grouped(values="first"), "look at the values of the first"),
    (chapter21, "grouped_attention", grouped(keys="first"), "look into the keys of the first"),
    (chapter21, "grouped_attention", grouped(scale=True), "the root of the number of keys"),
    (chapter22, "parity", lambda yours, theirs, real: 0.0 if yours.shape != theirs.shape
     else parity(yours, theirs, real), "says something else than infinity"),
    (chapter22, "parity", lambda yours, theirs, real: math.nan if yours.shape != theirs.shape
     else parity(yours, theirs, real), "says something else than infinity"),
    (chapter22, "parity", lambda *of: parity(*of) if parity(*of) < math.inf else -math.inf,
     "infinity has the wrong sign"),
    (chapter22, "parity", lambda *of: round(parity(*of), 4), "the number is rounded"),
    (chapter22, "parity", of_places, "the largest difference of each place is averaged"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "answer", "what"), FUNCTIONS)
def test_an_unseen_function_is_named(check, name, answer, what):
    is_told(check, name, lambda *of: answer(*of), what)


# -------------------------------------------------------------------------- the project's parts


def turn(place):
    def rotate(x, start=0):
        cos, sin = project.cos_and_sin(x, start)
        (a, b), half = x.chunk(2, -1), x.shape[-1] // 2
        return place(a * cos - b * sin, a * sin + b * cos, x[..., :half], x[..., half:])

    return rotate


def swapped_sines(x, start=0):
    sin, cos = project.cos_and_sin(x, start)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


TURNS = [
    (swapped_sines, "sine and cosine have changed places"),
    (turn(lambda one, two, a, b: torch.cat([one, b], -1)), "only one half is turned"),
    (turn(lambda one, two, a, b: torch.cat([two, one], -1)), "in the wrong order"),
    (turn(lambda one, two, a, b: torch.stack([one, two], -1).flatten(-2)), "entry by entry"),
]


@pytest.mark.parametrize(("answer", "what"), TURNS)
def test_an_unseen_turn_is_named(answer, what):
    is_told(of_project, "rotate", answer, what)


class Old(project.heads()):
    def forward(self, x, cache=None):
        output, new = super().forward(x, cache)
        return output, new if cache is None else cache


class ValuesFirst(project.heads()):
    def forward(self, x, cache=None):
        output, (key, value) = super().forward(x, cache and (cache[1], cache[0]))
        return output, (value, key)


class KeysAsValues(project.heads()):
    def forward(self, x, cache=None):
        kept, self.value = self.value, self.key
        try:
            return super().forward(x, cache)
        finally:
            self.value = kept


class WholeTurned(project.heads(turn=lambda x, start: x)):
    def forward(self, x, cache=None):
        start = 0 if cache is None else cache[0].shape[2]
        b, t, _ = x.shape

        def cut(y):
            return y.view(b, t, -1, self.d).transpose(1, 2)

        q, k = (
            cut(project.as_published(part(x)[:, None], start)[:, 0])
            for part in (self.query, self.key)
        )
        v = cut(self.value(x))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        mask = torch.ones(t, k.shape[2]).tril(k.shape[2] - t).bool()
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2)), (k, v)


HEADS = [
    (Old, "the cache that came in is handed out again"),
    (ValuesFirst, "the values come first in the cache"),
    (KeysAsValues, "the values are made by the matrix of the keys"),
    (WholeTurned, "before they are cut into heads"),
]


@pytest.mark.parametrize(("answer", "what"), HEADS)
def test_unseen_heads_are_named(answer, what):
    is_told(of_project, "Heads", answer, what)


def one_norm(layer, x, cache):
    added, cache = layer.heads(layer.norms[0](x), cache)
    return x + added + layer.feed_forward(x + added), cache


def normed_x(layer, x, cache):
    x = layer.norms[0](x)
    added, cache = layer.heads(x, cache)
    return x + added + layer.feed_forward(layer.norms[1](x + added)), cache


class Longer(project.whole(project.right)):
    def forward(self, ids, caches=None):
        logits, new = super().forward(ids, caches)
        return logits, (caches or []) + new


class Same(project.whole(project.right)):
    def forward(self, ids, caches=None):
        logits, new = super().forward(ids, caches)
        return logits, caches or new


LLAMAS = [
    (project.whole(one_norm), "one of the two norms in a layer is not used"),
    (project.whole(normed_x), "the residual stream is normed"),
    (Longer, "the caches that came in are handed out again"),
    (Same, "the caches that came in are handed out again"),
]


@pytest.mark.parametrize(("answer", "what"), LLAMAS)
def test_an_unseen_llama_is_named(answer, what):
    is_told(of_project, "Llama", answer, what)


def read_twice(model, ids, length):
    _, caches = model(ids)
    read = ids[:, -1:]
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, read], 1)
    return ids


def all_places(model, ids, length):
    caches, read = None, ids
    for _ in range(length):
        logits, caches = model(read, caches)
        read = logits.argmax(-1)
        ids = torch.cat([ids, read], 1)
    return ids


@pytest.mark.parametrize(
    ("answer", "what"),
    [(read_twice, "the last token of the text is read twice"), (all_places, "at all places")],
)
def test_an_unseen_text_is_named(answer, what):
    is_told(of_project, "write", answer, what)


def test_a_network_that_adds_x_is_named():
    class SwiGLU(project.network(lambda gate, up: F.silu(gate) * up)):
        def forward(self, x):
            return x + super().forward(x)

    is_told(of_project, "SwiGLU", SwiGLU, "x is added")


# ------------------------------------------------------------- what shows in any wrong numbers

RIGHT = torch.arange(24.0).view(2, 3, 4).cos()
X = torch.arange(24.0).view(2, 3, 4).sin()

TRACES = {
    "your result is the input `x`": X,
    "only the shape is another": RIGHT.flatten(1),
    "the axes -2 and -1 are exchanged": RIGHT.transpose(1, 2),
    "the axes -3 and -2 are exchanged": RIGHT.transpose(0, 1),
    "every number has the wrong sign": -RIGHT,
    "`x` is added to the right result": RIGHT + X,
    "in another order along the axis -1": RIGHT.flip(-1),
    "in another order along the axis -2": RIGHT.roll(1, 1),
    "for one and the same factor": RIGHT * 3,
    "for a factor of its own": RIGHT * torch.tensor([2.0, 3.0, 0.5])[:, None],
}


@pytest.mark.parametrize("what", TRACES)
def test_a_trace_is_seen(what):
    seen = trace([(TRACES[what], RIGHT, {"x": X})])
    assert seen is not None
    assert what in seen


@pytest.mark.parametrize(
    "result",
    [X.square(), RIGHT + 1, RIGHT * torch.nan, torch.zeros(2, 3, 4), "text", None, [RIGHT]],
)
def test_no_trace_is_seen_where_there_is_none(result):
    assert trace([(result, RIGHT, {"x": X})]) is None


def test_a_trace_holds_in_all_cases_or_is_not_told():
    pairs = [(-RIGHT, RIGHT, {"x": X}), (RIGHT * 3, RIGHT, {"x": X})]
    assert trace(pairs) == "all numbers are right but for one and the same factor"
    assert trace([*pairs, (X.square(), RIGHT, {"x": X})]) is None
    assert trace([]) is None


def test_a_report_tells_the_trace():
    check = Checker(
        Exercise(
            name="half",
            reference=lambda x: x / 2,
            cases=[Case("four numbers", torch.arange(4.0))],
            mistakes={},
            section="Half as much",
        )
    )
    text = check(project_half).report
    assert (
        "knows gives these outputs, but this shows in them: your result is the input `x`." in text
    )


def project_half(x):
    return x


project_half.__name__ = "half"


def test_a_module_is_no_number():
    assert trace([(nn.Linear(2, 2), RIGHT, {})]) is None
