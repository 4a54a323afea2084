"""Gives the library's models to the live figures' engine, and compares the results."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from transformer_lib import DecoderOnly, ModelConfig, Transformer
from transformer_lib.figures.engine import FOLDER
from transformer_lib.training import cross_entropy

ENGINE = str(FOLDER / "index.js")
SIZES: dict[str, Any] = {"vocab_size": 13, "d_model": 12, "n_heads": 3, "d_ff": 20, "max_len": 17}
# 7 source tokens, 5 target tokens, 2 rows, 3 heads of width 4: all sizes differ
SOURCE = torch.tensor([[4, 9, 5, 12, 6, 7, 3], [8, 11, 10, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 7, 4, 12, 5], [1, 6, 9, 0, 0]])
LABELS = torch.tensor([[7, 4, 12, 5, 2], [6, 9, 2, 0, 0]])

# For a page or Node; `m` is the engine.
MAKE = """
const tensor = (rows) => rows && m.pad(rows);
const make = ({ config, weights, decoder_only, wasm = true, switches }) => new m.Transformer(
  new m.Memory({ megabytes: 16, wasm }), config, weights, { decoderOnly: decoder_only, switches });
const all = (model, part) => Object.fromEntries(
  Object.entries(model.weights).map(([name, weight]) => [name, [...weight[part]]]));
"""
CHECK = (
    MAKE
    + """
const model = make(given);
const graph = new m.Graph(model.memory);
const logits = model.forward(graph, tensor(given.source), tensor(given.target));
const loss = m.crossEntropy(graph, logits, tensor(given.labels), { label_smoothing: 0.1 });
graph.backward();
const gradients = all(model, "grad");
return { logits: [...logits.data], loss: loss.mean, count: loss.count, gradients };
"""
)


def make(kind: str = "both", **settings: Any) -> Transformer | DecoderOnly:
    """A small model with random weights, including biases and norms."""
    config = ModelConfig(**{**SIZES, "n_layers": 2, "dropout": 0.0, **settings})
    model = Transformer(config) if kind == "both" else DecoderOnly(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model.eval()


def given(model: Transformer | DecoderOnly, **more: Any) -> dict[str, Any]:
    """The model in the engine's form, and a batch."""
    weights = [
        {"name": name, "shape": list(weight.shape), "data": weight.flatten().tolist()}
        for name, weight in model.state_dict().items()
    ]
    alone = isinstance(model, DecoderOnly)
    batch = {
        "source": None if alone else SOURCE.tolist(),
        "target": target(model).tolist(),
        "labels": LABELS.tolist(),
    }
    return {"config": asdict(model.config), "weights": weights, "decoder_only": alone,
            **batch, **more}  # fmt: skip


def target(model: Transformer | DecoderOnly) -> Tensor:
    first = torch.full((2, 1), model.config.bos_id)
    return torch.cat((first, TARGET[:, 1:]), dim=1)


def forward(model: Transformer | DecoderOnly) -> Tensor:
    ids = target(model)
    return model(ids) if isinstance(model, DecoderOnly) else model(SOURCE, ids)


def assert_same(model: Transformer | DecoderOnly, answer: dict[str, Any]) -> None:
    """Check the engine's loss, logits and gradients against autograd."""
    logits = forward(model)
    model.zero_grad()
    loss = cross_entropy(logits, LABELS, pad_id=model.config.pad_id, label_smoothing=0.1)
    loss.mean.backward()
    assert answer["count"] == loss.count
    close(answer["logits"], logits)
    close([answer["loss"]], loss.mean)
    names = {name for name, _ in model.named_parameters()}
    assert set(answer["gradients"]) == names
    for name, weight in model.named_parameters():
        assert weight.grad is not None
        assert weight.grad.abs().max() > 1e-3, f"{name}: a gradient of 0 tests nothing"
        close(answer["gradients"][name], weight.grad, name)


def close(got: list[float], want: Tensor, name: str = "", most: float = 1e-4) -> None:
    want = want.detach().flatten()
    difference = (torch.tensor(got, dtype=want.dtype) - want).abs().max()
    assert difference < most, f"{name}: apart by {difference:.2g}"
