"""Chapter 11's checkers: right answers in every form, and what is said of wrong ones."""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.unit.judging import table
from transformer_lib import ModelConfig, SinusoidalPositions, Transformer, causal_mask, padding_mask
from transformer_lib.checks.chapter11 import DecoderLayer, EncoderLayer, check, count_parameters

# ------------------------------------------------------------------------------ count_parameters


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


@pytest.mark.parametrize("pre", [True, False])
def test_the_reference_is_what_the_library_counts(pre):
    sizes = {"vocab_size": 11, "d_model": 12, "d_ff": 7, "n_layers": 2, "n_decoder_layers": 3}
    config = ModelConfig(**sizes, n_heads=3, pre_norm=pre)
    counted = sum(p.numel() for p in Transformer(config).parameters())
    assert count_parameters(*sizes.values(), 3, 4, 4, pre) == counted


# --------------------------------------------------------------------------------- MyTransformer


class Tower(nn.Module):
    layers: Any

    def __init__(self, layers, last):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        if last is not None:
            self.norm = last


class Mine(nn.Module):
    """Tied by a module, with a table that is kept; causality alone hides the target's padding."""

    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, pre_norm, pad_id=0):
        super().__init__()
        config = (d_model, n_heads, d_ff, pre_norm)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.draw(self.embedding.weight, d_model)
        self.output = nn.Linear(d_model, vocab_size, bias=False)
        self.output.weight = self.embedding.weight
        self.encoder = Tower(
            self.readers(config, n_layers), nn.LayerNorm(d_model) if pre_norm else None
        )
        self.decoder = Tower(
            [DecoderLayer(*config) for _ in range(n_layers)],
            nn.LayerNorm(d_model) if pre_norm else None,
        )
        self.table: Any
        self.register_buffer("table", SinusoidalPositions(d_model=d_model, max_len=50).table)
        self.d_model, self.pad_id = d_model, pad_id

    def draw(self, weight, d_model):
        nn.init.normal_(weight, std=d_model**-0.5)

    def readers(self, config, n):
        return [EncoderLayer(*config) for _ in range(n)]

    def embed(self, ids):
        return math.sqrt(self.d_model) * self.embedding(ids) + self.table[: ids.shape[1]]

    def pads(self, ids):
        return torch.where(ids == self.pad_id, False, True).view(ids.size(0), 1, 1, ids.size(1))

    def future(self, target, source):
        t = target.shape[1]
        return torch.arange(t)[:, None] >= torch.arange(t)[None, :]

    def across(self, target, source):
        return self.pads(source)

    def read(self, source):
        x = self.embed(source)
        for layer in self.encoder.layers:
            x = layer(x, self.pads(source))
        return self.encoder.norm(x) if hasattr(self.encoder, "norm") else x

    def write(self, target, memory, source):
        x = self.embed(target)
        for layer in self.decoder.layers:
            masks = self.future(target, source), self.across(target, source)
            x = layer(x, memory, *masks)
        return self.decoder.norm(x) if hasattr(self.decoder, "norm") else x

    def forward(self, source, target):
        return self.output(self.write(target, self.read(source), source))


class Einsum(Mine):
    """Padding hidden in the target, too, the product written out, in float64."""

    def future(self, target, source):
        return causal_mask(target.size(1)) & padding_mask(target, self.pad_id)

    def embed(self, ids):
        x = F.embedding(ids, self.embedding.weight) / self.d_model**-0.5
        return torch.stack([row + self.table[: len(row)] for row in x])

    def forward(self, source, target):
        x = self.write(target, self.read(source), source)
        return torch.einsum("btd,vd->btv", x.double(), self.embedding.weight.double()).float()


class OutputFirst(Mine):
    """The table is registered after the layer that shares it, and keeps padding at zero."""

    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        self.embedding.padding_idx = self.pad_id
        found = self.embedding
        del self.embedding
        self.embedding = found


class OwnOutput(Mine):
    def __init__(self, vocab_size, d_model, *sizes, **more):
        super().__init__(vocab_size, d_model, *sizes, **more)
        self.output = nn.Linear(d_model, vocab_size, bias=False)


class Listed(Mine):
    def __init__(self, *sizes, **more):
        super().__init__(*sizes, **more)
        layers = list(self.encoder.layers)
        del self.encoder.layers
        self.encoder.layers = layers


def copies(self, config, n):
    layer = EncoderLayer(*config)
    return [copy.deepcopy(layer) for _ in range(n)]


def but(base=Mine, **parts):
    return type("MyTransformer", (base,), parts)


def cut(self, source, target):
    x = self.write(target, self.read(source), source)
    return x @ self.embedding.weight.detach().T


test_right, test_wrong = table(
    check,
    right={
        "count_parameters": [by_modules, factored],
        "MyTransformer": [Mine, Einsum, OutputFirst],
    },
    wrong={
        "count_parameters": [
            (lambda *s: factored(*s) + s[0], "one word table is left"),
            (lambda *s: factored(*s) - (s[3] + s[4]) * s[1], "biases included"),
            (lambda *s: factored(*s[:4], s[3], *s[5:]), "one encoder layer and no decoder layer"),
            
        ],
        "MyTransformer": [
            (but(future=lambda s, y, x: s.pads(y)), "may attend to a later one"),
            (but(future=lambda s, y, x: s.pads(y) | causal_mask(y.size(1))), "to a later one"),
            (but(future=lambda s, y, x: causal_mask(y.size(1)).float()), "must be bool"),
            (but(forward=lambda s, x, y: Mine.forward(s, x, y)[:, -1:]), "must have shape (1, 3"),
            (but(forward=cut), "the gradient of `embedding.weight` isn't"),
            (but(draw=lambda s, w, d: None), "standard deviation is 8/√d_model; the exercise asks"),
            (but(draw=lambda s, w, d: nn.init.normal_(w, d**-0.5, d**-0.5)), "mean is 0.1"),
            (OwnOutput, "which the exercise doesn't have"),
            (Listed, "PyTorch doesn't register it"),
            (but(readers=copies), "start with the same numbers, as copies of each other do"),
        ],
    },
)  # fmt: skip
