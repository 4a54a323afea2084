"""The matrix products of a task and nothing else: the most that the machine lets a model do."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from transformer_lib import ModelConfig

Shape = tuple[int, int, int, int]  # rows, width in, width out, weights of this shape


def of_training(config: ModelConfig, pairs: int, s: int, t: int) -> Callable[[], None]:
    """Forward, and both products of the way back, of every weight."""
    shapes = [*_encoder(config, pairs * s), *_decoder(config, pairs * t)]
    return _passes([*shapes, *_memory(config, pairs * s)], backward=True)


def of_decoding(config: ModelConfig, texts: int, beams: int, s: int, t: int) -> Callable[[], None]:
    """The source once, then ``t`` steps of one token per beam."""
    source = _passes([*_encoder(config, texts * s), *_memory(config, texts * s)])
    steps = _passes(_decoder(config, texts * beams), times=t)

    def run() -> None:
        source()
        steps()

    return run


def _encoder(config: ModelConfig, rows: int) -> list[Shape]:
    d, ff, n = config.d_model, config.d_ff, config.n_layers
    return [(rows, d, 3 * d, n), (rows, d, d, n), (rows, d, ff, n), (rows, ff, d, n)]


def _decoder(config: ModelConfig, rows: int) -> list[Shape]:
    d, n = config.d_model, config.decoder_layers
    crossing = [(rows, d, d, 2 * n)]  # queries and output
    return [*_encoder(config, rows), *crossing, (rows, d, config.vocab_size, 1)]


def _memory(config: ModelConfig, rows: int) -> list[Shape]:
    return [(rows, config.d_model, 2 * config.d_model, config.decoder_layers)]


def _passes(shapes: list[Shape], *, times: int = 1, backward: bool = False) -> Callable[[], None]:
    """Each weight once, so many times over, as a model does.

    A weight is used again only after all others: one that was just used is in the cache.
    """
    tensors = [
        (torch.randn(n, i), torch.randn(n, o), [torch.randn(o, i) for _ in range(weights)])
        for n, i, o, weights in shapes
    ]

    def run() -> None:
        for _ in range(times):
            for x, dy, weights in tensors:
                for weight in weights:
                    F.linear(x, weight)
                    if backward:
                        dy @ weight  # the gradient of x
                        dy.mT @ x  # the gradient of the weight

    return run
