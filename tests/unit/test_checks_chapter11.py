"""Chapter 11's checkers: answers that real learners give, each diagnosed by name."""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import ModelConfig, SinusoidalPositions, Transformer, causal_mask, padding_mask
from transformer_lib.checks.chapter11 import check
from transformer_lib.checks.chapter11.parts import DecoderLayer, EncoderLayer
from transformer_lib.models import parameter_counts

pytestmark = pytest.mark.slow


def verdict(capsys, answer, name):
    answer.__name__ = name
    result = check(answer)
    capsys.readouterr()
    return result


# ---------------------------------------------------------------------------------- MyTransformer


class Tower(nn.Module):
    layers: Any

    def __init__(self, layers, last):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        if last is not None:
            self.norm = last


class Mine(nn.Module):
    """Right: tied by a module, a table that is kept, no padding mask on
    the target (causality hides what stands behind it)."""

    last_norm = "pre"

    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, pre_norm, pad_id=0):
        super().__init__()
        config = (d_model, n_heads, d_ff, pre_norm)
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=self.deviation(d_model))
        self.output = nn.Linear(d_model, vocab_size, bias=False)
        self.output.weight = self.embedding.weight
        ends = {"pre": pre_norm, "always": True, "never": False}[self.last_norm]
        self.encoder = Tower(
            self.readers(config, n_layers), nn.LayerNorm(d_model) if ends else None
        )
        self.decoder = Tower(
            self.writers(config, n_layers), nn.LayerNorm(d_model) if ends else None
        )
        self.table: Any
        self.register_buffer("table", SinusoidalPositions(d_model=d_model, max_len=50).table)
        self.d_model, self.pre_norm, self.pad_id = d_model, pre_norm, pad_id

    def deviation(self, d_model):
        return d_model**-0.5

    def readers(self, config, n):
        return [EncoderLayer(*config) for _ in range(n)]

    def writers(self, config, n):
        return [DecoderLayer(*config) for _ in range(n)]

    def embed(self, ids):
        return math.sqrt(self.d_model) * self.embedding(ids) + self.table[: ids.shape[1]]

    def pads(self, ids):
        return torch.where(ids == self.pad_id, False, True).view(ids.size(0), 1, 1, ids.size(1))

    def future(self, target):
        t = target.shape[1]
        return torch.arange(t)[:, None] >= torch.arange(t)[None, :]

    def read(self, source):
        x = self.embed(source)
        for layer in self.encoder.layers:
            x = layer(x, self.pads(source))
        return self.encoder.norm(x) if hasattr(self.encoder, "norm") else x

    def write(self, target, memory, source):
        x = self.embed(target)
        for layer in self.decoder.layers:
            x = layer(x, memory, mask=self.future(target), memory_mask=self.pads(source))
        return self.decoder.norm(x) if hasattr(self.decoder, "norm") else x

    def forward(self, source, target):
        return self.output(self.write(target, self.read(source), source))


class Einsum(Mine):
    """Right as well: padding hidden in the target, too, the product written out, in float64."""

    def future(self, target):
        t = target.size(1)
        return causal_mask(t) & padding_mask(target, self.pad_id)

    def embed(self, ids):
        x = F.embedding(ids, self.embedding.weight) / self.d_model**-0.5
        return torch.stack([row + self.table[: len(row)] for row in x])

    def forward(self, source, target):
        x = self.write(target, self.read(source), source)
        return torch.einsum("btd,vd->btv", x.double(), self.embedding.weight.double()).float()


@pytest.mark.parametrize("answer", [Mine, Einsum])
def test_right_transformers_pass(capsys, answer):
    assert verdict(capsys, type("MyTransformer", (answer,), {}), "MyTransformer")


def but(**parts):
    return type("MyTransformer", (Mine,), parts)


def entry(x, self):
    return x + self.table[: x.size(1)]


def without_last_norm(self, source):
    x = self.embed(source)
    for layer in self.encoder.layers:
        x = layer(x, self.pads(source))
    return x


def only_causal(self, source):
    x = self.embed(source)
    for layer in self.encoder.layers:
        x = layer(x, self.pads(source) & self.future(source))
    return self.encoder.norm(x) if self.pre_norm else x


def masked(own, cross):
    def write(self, target, memory, source):
        x = self.embed(target)
        for layer in self.decoder.layers:
            x = layer(
                x,
                memory,
                mask=own(self, target, source),
                memory_mask=cross(self, target, source),
            )
        return self.decoder.norm(x) if self.pre_norm else x

    return write


def good_own(self, target, source):
    return self.future(target) & self.pads(target)


def good_cross(self, target, source):
    return self.pads(source)


def good_zero(self, target):
    return self.future(target) & (target != 0).unsqueeze(1).unsqueeze(1)


def both_sides(self, source):
    x, seen = self.embed(source), self.pads(source)
    for layer in self.encoder.layers:
        x = layer(x, seen & seen.mT)
    return self.encoder.norm(x) if self.pre_norm else x


def side_by_side(self, source, target):
    x, y = self.embed(source), self.embed(target)
    for one, other in zip(self.encoder.layers, self.decoder.layers, strict=True):
        x = one(x, self.pads(source))
        y = other(y, x, mask=self.future(target), memory_mask=self.pads(source))
    return self.output(self.decoder.norm(y) if self.pre_norm else y)


class WithMore(Mine):
    add: Any

    def __init__(self, vocab_size, d_model, *others, **more):
        super().__init__(vocab_size, d_model, *others, **more)
        self.add(vocab_size, d_model)


def drawn_by(draw):
    class MyTransformer(Mine):
        def __init__(self, vocab_size, d_model, *others, **more):
            super().__init__(vocab_size, d_model, *others, **more)
            draw(self.embedding.weight, d_model)

    return MyTransformer


def written_with(masks):
    """The decoder is given two masks by position."""

    def write(self, target, memory, source):
        x = self.embed(target)
        for layer in self.decoder.layers:
            x = layer(x, memory, *masks(self, target, source))
        return self.decoder.norm(x) if self.pre_norm else x

    return but(write=write)


def target_as_it_is(self, target, memory, source):
    x = self.embedding(target)
    for layer in self.decoder.layers:
        x = layer(x, memory, mask=self.future(target), memory_mask=self.pads(source))
    return self.decoder.norm(x) if self.pre_norm else x


def source_as_it_is(self, source):
    x = self.embedding(source)
    for layer in self.encoder.layers:
        x = layer(x, self.pads(source))
    return self.encoder.norm(x) if self.pre_norm else x


def learned(n):
    def places(self, vocab_size, d_model):
        self.places = nn.Parameter(torch.zeros(n, d_model))

    return more(places)


def more(add):
    return type("MyTransformer", (WithMore,), {"add": add})


def untied(self, vocab_size, d_model):
    self.output = nn.Linear(d_model, vocab_size, bias=False)


def three(self, vocab_size, d_model):
    self.source_table = nn.Embedding(vocab_size, d_model)
    self.output = nn.Linear(d_model, vocab_size)


def biased(self, vocab_size, d_model):
    self.output.bias = nn.Parameter(torch.randn(vocab_size))


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (but(embed=lambda s, i: s.embedding(i)), "are neither multiplied"),
        (but(embed=lambda s, i: entry(s.embedding(i), s)), "are not multiplied by √d_model"),
        (
            but(embed=lambda s, i: entry(s.embedding(i) / math.sqrt(s.d_model), s)),
            "are divided by √d_model",
        ),
        (but(embed=lambda s, i: entry(s.embedding(i) * s.d_model, s)), "it is the root"),
        (
            but(embed=lambda s, i: entry(s.embedding(i), s) * s.d_model**0.5),
            "the positions are multiplied",
        ),
        (but(embed=lambda s, i: s.embedding(i) * s.d_model**0.5), "no positions are added"),
        (
            but(embed=lambda s, i: s.embedding(i) * s.d_model**0.5 + s.table[1 : i.size(1) + 1]),
            "positions begin at 1",
        ),
        (
            but(embed=lambda s, i: s.embedding(i) * s.d_model**0.5 + s.table[: i.size(0)][:, None]),
            "positions are counted along the batch",
        ),
        (but(future=lambda s, y: s.pads(y)), "the causal mask is missing"),
        (but(future=lambda s, y: s.pads(y) | causal_mask(y.size(1))), "by | and not by &"),
        (
            but(future=lambda s, y: torch.ones(y.size(1), y.size(1)).tril(1).bool()),
            "lets every place see the one after it",
        ),
        (but(read=only_causal), "the encoder has a causal mask"),
        (
            but(write=masked(good_own, lambda s, y, x: s.pads(y).expand(-1, -1, y.size(1), -1))),
            "the target's padding hides the source's keys",
        ),
        (but(write=masked(good_own, lambda *_: None)), "cross-attention sees the padding"),
        (but(pads=lambda s, i: (i != 0)[:, None, None]), "padding is taken to be 0"),
        (
            but(write=masked(lambda s, y, x: good_zero(s, y), good_cross)),
            "padding is taken to be 0",
        ),
        (but(read=both_sides), "hidden on both sides"),
        (
            but(embed=lambda s, i: s.embedding(i) * s.d_model**0.5 + s.table[:16][: i.size(1)]),
            "the positions end before",
        ),
        (but(pads=lambda s, i: (i == s.pad_id)[:, None, None]), "the wrong way round"),
        (
            but(write=masked(lambda s, y, x: s.future(y) & s.pads(x), good_cross)),
            "the source's mask hides the target's keys",
        ),
        (
            but(pads=lambda s, i: torch.ones(1, 1, 1, i.size(1), dtype=torch.bool)),
            "nothing hides the padding of the source",
        ),
        (but(read=without_last_norm), "before the encoder's last norm"),
        (but(last_norm="never"), "there is no last norm"),
        (but(last_norm="always"), "a last norm with post-norm as well"),
        (but(read=lambda s, x: s.embed(x)), "the decoder reads the embedded source"),
        (but(forward=side_by_side), "the layer of the encoder beside it"),
        (but(readers=lambda s, c, n: [EncoderLayer(*c)] * n), "one layer is used n_layers times"),
        (
            but(
                readers=lambda s, c, n: [EncoderLayer(*c)],
                writers=lambda s, c, n: [DecoderLayer(*c)],
            ),
            "each stack has one layer",
        ),
        (
            but(writers=lambda s, c, n: [EncoderLayer(*c) for _ in range(n)]),
            "the decoder is made of encoder layers",
        ),
        (but(deviation=lambda s, d: 1.0), "the table is drawn as PyTorch draws it"),
        (drawn_by(lambda w, d: nn.init.normal_(w, d**-0.5)), "gets 1/√d_model as its mean"),
        (
            drawn_by(lambda w, d: nn.init.normal_(w, d**-0.5, d**-0.5)),
            "gets 1/√d_model as its mean",
        ),
        (written_with(lambda s, y, x: (s.future(x), s.pads(x))), "as long as the source"),
        (
            written_with(lambda s, y, x: (s.future(x) & s.pads(y), s.pads(x))),
            "as long as the source",
        ),
        (written_with(lambda s, y, x: (causal_mask(len(y)), s.pads(x))), "as long as the batch"),
        (
            written_with(lambda s, y, x: (causal_mask(y.size(0)) & s.pads(y), s.pads(x))),
            "as long as the batch",
        ),
        (written_with(lambda s, y, x: (s.pads(x), s.future(y))), "masks of the decoder are"),
        (
            but(future=lambda s, y: torch.ones(y.size(1), y.size(1)).tril()),
            "a mask holds numbers",
        ),
        (
            but(future=lambda s, y: torch.full((y.size(1), y.size(1)), -torch.inf).triu(1)),
            "a mask holds numbers",
        ),
        (but(future=lambda s, y: causal_mask(y.size(1)).int()), "a mask holds numbers"),
        (but(pads=lambda s, i: (i != s.pad_id)[:, None, None].float()), "a mask holds numbers"),
        (
            written_with(
                lambda s, y, x: (
                    torch.ones(y.size(1), y.size(1)).tril() & s.pads(y),
                    s.pads(x),
                )
            ),
            "a mask holds numbers",
        ),
        (learned(64), "positions are learned"),
        (learned(5000), "positions are learned"),
        (but(write=target_as_it_is), "the target goes in as it is looked up"),
        (but(read=source_as_it_is), "the source goes in as it is looked up"),
        (but(deviation=lambda s, d: d**-0.25), "that is for the deviation"),
        (but(deviation=lambda s, d: 1 / d), "with deviation 1/d_model"),
        (but(deviation=lambda s, d: 0.02), "as GPT's is"),
        (
            but(
                future=lambda s, y: ~causal_mask(y.size(1)),
                pads=lambda s, i: (i == s.pad_id)[:, None, None],
            ),
            "the wrong way round",
        ),
        (but(future=lambda s, y: ~causal_mask(y.size(1))), "the triangle is turned round"),
        (
            but(embed=lambda s, i: s.embedding(i) + s.table[: i.size(1)] * s.d_model**0.5),
            "it is the other way round",
        ),
        (more(untied), "there is a second table"),
        (more(three), "there are three tables"),
        (more(biased), "the output has a bias"),
        (but(forward=lambda s, x, y: Mine.forward(s, x, y).softmax(-1)), "probabilities"),
        (but(forward=lambda s, x, y: F.log_softmax(Mine.forward(s, x, y), -1)), "logarithms"),
        (but(forward=lambda s, x, y: Mine.forward(s, x, y).argmax(-1)), "most probable words"),
        (but(forward=lambda s, x, y: Mine.forward(s, x, y)[:, -1]), "only the last place"),
        (but(forward=lambda s, x, y: s.write(y, s.read(x), x)), "the vectors are returned"),
        (but(forward=lambda s, x, y: Mine.forward(s, y, x)), "source and target are exchanged"),
        (but(forward=lambda s, x, y: Mine.forward(s, x, y[:, :-1])), "shifted once more"),
        (
            but(forward=lambda s, x, y: Mine.forward(s, x, F.pad(y[:, :-1], (1, 0), value=1))),
            "shifted once more",
        ),
    ],
)
def test_wrong_transformers_are_named(capsys, answer, diagnosis):
    assert diagnosis in verdict(capsys, answer, "MyTransformer").report


def test_a_loud_table_is_said_first_whatever_else_is_wrong(capsys):
    loud = but(deviation=lambda s, d: 1.0, embed=lambda s, i: 3 * s.embedding(i))
    text = verdict(capsys, loud, "MyTransformer").report
    assert "Your table of words is drawn with a deviation of 8/√d_model" in text


def test_layers_in_a_list_and_copies_speak_for_themselves(capsys):
    class Listed(Mine):
        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            layers = list(self.encoder.layers)
            del self.encoder.layers
            self.encoder.layers = layers

    def copies(self, config, n):
        layer = EncoderLayer(*config)
        return [copy.deepcopy(layer) for _ in range(n)]

    assert "PyTorch does not look" in verdict(capsys, Listed, "MyTransformer").report
    text = verdict(capsys, but(readers=copies), "MyTransformer").report
    assert "as copies of one another do" in text


def test_a_table_at_both_ends_is_no_shared_layer(capsys):
    # tied by a module of its own, in either order of creation
    class OutputFirst(Mine):
        def __init__(self, *sizes, **more):
            super().__init__(*sizes, **more)
            table = self.embedding
            del self.embedding
            self.embedding = table

    assert verdict(capsys, OutputFirst, "MyTransformer")


# --------------------------------------------------------------------------------- count_parameters


def by_modules(V, d, d_ff, m, n, h, k, v, pre):
    attention = [nn.Linear(d, h * k), nn.Linear(d, h * k), nn.Linear(d, h * v), nn.Linear(h * v, d)]
    forward = [nn.Linear(d, d_ff), nn.Linear(d_ff, d)]
    norm = [nn.LayerNorm(d)]

    def size(modules):
        return sum(p.numel() for module in modules for p in module.parameters())

    layers = m * size(attention + forward + 2 * norm)
    layers += n * size(2 * attention + forward + 3 * norm)
    return layers + V * d + (size(2 * norm) if pre else 0)


def factored(V, d, d_ff, m, n, h, k, v, pre):
    attention = 2 * d * h * (k + v) + h * (2 * k + v) + d
    forward = d_ff * (2 * d + 1) + d
    norms = 2 * m + 3 * n + (2 if pre else 0)
    return d * V + (m + 2 * n) * attention + (m + n) * forward + norms * 2 * d


@pytest.mark.parametrize("function", [by_modules, factored])
def test_right_counts_pass(capsys, function):
    def count_parameters(*sizes):
        return function(*sizes)

    assert verdict(capsys, count_parameters, "count_parameters")


@pytest.mark.parametrize("pre", [True, False])
def test_the_reference_is_what_the_library_counts(pre):
    config = ModelConfig(
        vocab_size=11,
        d_model=12,
        d_ff=7,
        n_layers=2,
        n_decoder_layers=3,
        n_heads=3,
        pre_norm=pre,
    )
    counted = factored(11, 12, 7, 2, 3, 3, 4, 4, pre)
    assert counted == sum(parameter_counts(config).values())
    assert counted == sum(p.numel() for p in Transformer(config).parameters())


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (
            lambda V, d, f, m, n, h, k, v, p: factored(V, d, f, m, n, h, d // h, d // h, p),
            "attention is counted as in (11.3)",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(V, d, f, m, n, h, k, k, p),
            "d_v is not used",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(V, d, f, m, n, 1, k, v, p),
            "the matrices of one head",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(V, d, f, m, n, h, k, v, False),
            "the last norms are missing",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(V, d, f, m, n, h, k, v, True),
            "with post-norm as well",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(3 * V, d, f, m, n, h, k, v, p),
            "counted three times",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(2 * V, d, f, m, n, h, k, v, p),
            "counted twice",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(V, d, f, m, m, h, k, v, p),
            "the encoder's number of layers",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: factored(V, d, f, n, m, h, k, v, p),
            "the numbers of layers are exchanged",
        ),
        (
            lambda *s: factored(*s) - (s[3] + 2 * s[4]) * (s[5] * (2 * s[6] + s[7]) + s[1]),
            "counted without their biases",
        ),
        (lambda *s: factored(*s) - (s[3] + s[4]) * (s[1] + s[2]), "is counted without its biases"),
        (lambda *s: factored(*s) - (s[3] + s[4]) * s[1], "the second bias of the feed-forward"),
        (lambda *s: factored(*s) - (s[3] + s[4]) * s[2], "the first bias of the feed-forward"),
        (
            lambda V, d, f, m, n, h, k, v, p: (
                (m + 2 * n) * ((d + 1) * (k + k + v) + h * v * d + d)
                + (m + n) * (2 * d * f + f + d)
                + 2 * d * (2 * m + 3 * n + 2 * p)
                + V * d
            ),
            "only the output of attention is counted for all heads",
        ),
        (
            lambda V, d, f, m, n, h, k, v, p: (
                (m + 2 * n) * (d * h * (k + k + v) + k + k + v + h * v * d + d)
                + (m + n) * (2 * d * f + f + d)
                + 2 * d * (2 * m + 3 * n + 2 * p)
                + V * d
            ),
            "keys and values are counted for one head",
        ),
        (lambda *s: factored(*s) - s[4] * 2 * s[1], "a decoder layer has two norms"),
        (
            lambda *s: (
                factored(*s)
                - s[4] * (2 * s[1] * s[5] * (s[6] + s[7]) + s[5] * (2 * s[6] + s[7]) + s[1])
            ),
            "a decoder layer has one attention",
        ),
        (
            lambda *s: factored(*s) - (s[3] + 2 * s[4]) * (s[5] - 1) * s[7] * s[1],
            "W_o is counted for one head",
        ),
        (lambda *s: factored(*s) - s[0] * s[1], "the table of words is missing"),
        (lambda *s: factored(*s) + s[0], "the output has a bias for each word"),
        (
            lambda *s: factored(*s) - (s[3] + 2 * s[4]) * s[5] * s[7] * s[1],
            "the output of attention, W_o, is missing",
        ),
    ],
)
def test_wrong_counts_are_named(capsys, function, diagnosis):
    def count_parameters(*sizes):
        return function(*sizes)

    assert diagnosis in verdict(capsys, count_parameters, "count_parameters").report
