"""An example of every live figure for the tests; a new figure goes here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from traitlets import Bool

from transformer_lib.figures import widgets
from transformer_lib.figures.widgets.architecture_explorer import MODELS
from transformer_lib.figures.widgets.base import LiveFigure, Number, OneOf

RUN = [
    [step, 1.5 + 5 * 2.718 ** (-step / 3000), 0.002 * min(step / 1000, (1000 / step) ** 0.5)]
    for step in range(100, 20_000, 400)
]


@dataclass(frozen=True)
class Example:
    """Very different states of a figure, and its arguments if the defaults show too little."""

    states: list[dict[str, Any]]
    numbers: Callable[[], dict[str, Any]] = dict


EXAMPLES = {
    "AlignmentStepper": Example(
        [
            {"attention": kind, "step": step}
            for kind in ("none", "additive", "dot", "general")
            for step in (0, 1, 5, 10)
        ],
    ),
    "ArchitectureExplorer": Example(
        [
            {"part": "decoder-forward"},
            {"kind": "encoder", "pre_norm": False},
            {"kind": "decoder", "part": "decoder-positions", "n_layers": 1},
            {"kind": "encoder", "pre_norm": True, "d_model": 1024, "part": "encoder-layer"},
            {"kind": "both", "d_model": 2048, "n_layers": 24, "d_ff": 8192, "vocab_size": 100_000},
            {"part": "decoder-output", "pre_norm": False},
            *({"model": model, "part": "decoder-attention"} for model in MODELS),
            {"model": "bert-base", "part": "encoder-positions"},
            {"model": "llama-3-8b", "part": "decoder-layer"},
        ],
    ),
    "BatchPadding": Example(
        [
            {"way": way, "size": size}
            for way in ("given", "source", "longer", "tokens")
            for size in (4, 32, 128)
        ],
    ),
    "FillIn": Example(
        [
            {"hidden": 0},
            {"hidden": 7, "place": 2},
            {"hidden": 5, "place": 1},
            {"hidden": 4, "sentence": 1},
            {"hidden": 127, "place": 6},
        ],
    ),
    "HeadPrices": Example(
        [
            {"measure": measure, "gone": gone}
            for measure, gone in ((0, 0), (1, 0), (1, 16), (0, 3), (1, 240), (0, 255), (1, 255))
        ],
    ),
    "HeadsExplorer": Example(
        [
            {"attention": kind, "layer": i, "head": h, "token": token, "off": off}
            for kind, i, h, token, off in (
                ("encoder", 0, 1, 2, True),
                ("decoder", 1, 2, 9, True),
                ("cross", 1, 0, 7, True),
                ("cross", 1, 3, 14, False),
            )
        ],
    ),
    "LayerDepth": Example(
        [
            {"residual": residual, "norm": norm, "layer": layer}
            for residual, norm, layer in (
                (True, "pre", 24),
                (True, "none", 0),
                (False, "post", 1),
                (False, "none", 2),
                (False, "pre", 24),
            )
        ],
    ),
    "LiveTraining": Example(
        [
            {"base": "deep", "warmup": False, "causal": True, "guess": "blind"},
            {"causal": True, "task": "numbers", "example": "73"},
            {"scale": False, "residual": False, "several": False, "order": False, "rate": 10},
            {"positions": "learned", "base": "wide", "attention": "encoder", "smoothing": 0.3},
            {"positions": "none", "task": "sort", "attention": "decoder", "seed": 99},
            {"guess": "none", "task": "copy", "example": "j"},
        ],
    ),
    "LiveTranslator": Example(
        [
            {"head": 0, "place": 27},
            {"search": "beam"},
            {"text": "seven thousand seven hundred seventy-seven", "place": 43},
            {"text": "wwwwwwwwwwwwwwww4 wwwwwwwwwwwwwwwwwwwwwwwwww"},
            {"text": ""},
            {"text": "three", "head": 7},
        ],
    ),
    "LossPush": Example(
        [
            {"logits": [8, -4, -4, -4, -4], "right": 3, "rate": 8},
            {"smoothing": 0.1, "right": 4},
            {"smoothing": 0.5, "logits": [-4, 8, 8, -4.0, -3.9], "rate": 0.5},
            {"logits": [40, -40, 0, 20, -20], "right": 3, "smoothing": 0.01, "rate": 8},
            {"smoothing": 0.2, "logits": [0, 0, 0, 0, 0], "right": 2},
        ],
    ),
    "LowRank": Example(
        [
            {"rank": rank, "shuffled": shuffled}
            for rank in (0, 1, 3, 14, 24)
            for shuffled in (False, True)
        ],
    ),
    "MaskPainter": Example(
        [
            {"mask": "-".join(["111111"] * 6)},
            {"mask": "-".join(["000000"] * 6), "fill": "smallest"},
            {"place": "after"},
            {"place": "renormalized"},
            {"mask": "110000-111000-011100-001110-000111-000011", "fill": "zeros"},
        ],
    ),
    "BeamGrower": Example(
        [
            {"beam_size": size, "length_penalty": exponent, "step": step}
            for size in (1, 2, 4)
            for exponent, step in ((0, 1), (0.2, 6), (1, 0), (0.6, 3), (1, 6))
        ],
    ),
    "BytePairs": Example(
        [
            {"word": "sixtyseventeenty", "laid": 0},
            {"word": "sixtyseventeenty", "laid": 15},
            {"word": "seventyseventyse", "laid": 8},
            {"word": "jazz", "laid": 15},
            {"word": "a", "laid": 1},
        ],
    ),
    "CacheSize": Example(
        [
            {"model": "mistral-7b", "length": 131_072, "texts": 1, "window": 4096},
            {"model": "gpt2", "length": 1, "precision": "int8"},
            {"model": "llama-2-7b", "texts": 256, "precision": "float32", "length": 131_072},
            {"model": "own", "n_layers": 126, "n_heads": 128, "n_kv_heads": 8, "d_head": 128},
            {"model": "own", "n_layers": 1, "n_heads": 1, "n_kv_heads": 1, "window": 131_072},
            {"model": "own", "n_heads": 12, "n_kv_heads": 4, "d_head": 64, "window": 1},
        ],
    ),
    "CheckpointBytes": Example(
        [
            {"number": number, "from_back": back, "after_header": after}
            for number in (0, 1, 2, 3, 5, 8)
            for back, after in ((True, True), (False, True), (True, False), (False, False))
        ],
    ),
    "SoftLookup": Example(
        [
            {"temperature": 0},
            {"temperature": 10, "query": [-3, -2]},
            {"likeness": "cosine", "query": [0, 0]},
            {"likeness": "distance", "temperature": 0.01, "query": [3, 2]},
        ],
    ),
    "MixingMatrix": Example(
        [
            {"mode": mode, "row": row}
            for mode in ("uniform", "causal", "content", "content-causal")
            for row in (0, 3, 5)
        ],
    ),
    "NextLetter": Example(
        [{"place": place, "read": read} for place in (0, 12, 23, 42) for read in (0, 1, 3, 8, 127)],
    ),
    "NormExplorer": Example(
        [
            {"norm": norm, "length": length, "word": word, "feature": feature, "after": after}
            for norm, length, word, feature, after in (
                ("layer", 3, 0, 3, False),
                ("layer", 8, 5, 0, True),
                ("batch", 3, 4, 1, True),
                ("batch", 8, 5, 3, False),
                ("real", 8, 2, 2, True),
            )
        ],
    ),
    "OneMixture": Example(
        [
            {"first": first, "second": second, "twice": twice}
            for first, second, twice in (
                (0.7, 0.0, False),
                (1.0, 0.0, True),
                (0.0, 1.0, False),
                (0.7, 0.9, True),
                (0.3, 0.3, True),
                (0.5, 0.5, True),
            )
        ],
    ),
    "PairedBootstrap": Example(
        [
            {"pair": pair, "questions": questions, "paired": paired}
            for pair, questions, paired in (
                (0, 100, False),
                (0, 10_000, True),
                (1, 320, True),
                (2, 100, True),
                (2, 10_000, False),
            )
        ],
    ),
    "PositionsExplorer": Example(
        [
            {"d_model": 256, "length": 128, "first": 120, "second": 3},
            {"d_model": 2, "length": 8, "first": 7, "second": 7},
            {"view": "rotary", "d_model": 2},
            {"view": "rotary", "d_model": 256, "length": 128, "second": 127},
        ],
    ),
    "Roofline": Example(
        [
            {"rate": rate, "bandwidth": bandwidth, "tokens": tokens, "width": width, "size": size}
            for rate, bandwidth, tokens, width, size in (
                (989_000, 3_350, 4096, 2048, 2),
                (312_000, 1_500, 1, 16_384, 2),
                (2e6, 5, 64, 64, 4),
                (10, 1e4, 4096, 16_384, 4),
                (123.4, 56.7, 1024, 512, 2),
            )
        ],
        lambda: {"marks": [[0, 1, 2048, 0.001], [0, 64, 2048, 0.008]]},
    ),
    "RunPlanner": Example(
        [
            {"pieces": 256, "precision": "mixed"},
            {"d_model": 4096, "n_layers": 48, "memory": 1, "speed": 1},
            {"d_model": 64, "n_layers": 1, "tokens": 256, "speed": 1e6, "memory": 256},
            {"tokens": 262_144, "memory": 80, "speed": 400_000},
        ],
    ),
    "Sampler": Example(
        [
            {"prompt": 1, "temperature": 0.1},
            {"temperature": 3.2, "top_k": 3},
            {"top_p": 0.01, "prompt": 0},
            {"top_k": 1, "top_p": 0.9},
        ],
    ),
    "ScaleMeter": Example(
        [{"d_k": d, "scaled": s} for d in (2, 64, 1024) for s in (True, False)],
    ),
    "ScheduleExplorer": Example(
        [
            {"d_model": 2048, "warmup": 10},
            {"logarithmic": True, "constant": True},
            {"height": "peak", "peak": 1e-5, "step": 20_000},
            {"cosine": False, "step": 1},
        ],
        lambda: {"run": RUN},
    ),
    "WhoKnows": Example(
        [
            {"mask": "everyone", "across": True, "layer": 1},
            {"mask": "past", "layer": 4, "token": 0, "window": 3},
            {"mask": "past-window", "layer": 3, "token": 5, "window": 2},
            {"mask": "window", "layer": 4, "window": 0},
        ],
        lambda: {"source": ["die", "hungrige", "Katze", "<pad>", "<pad>", "<pad>", "<pad>"]},
    ),
    "WordSwap": Example(
        [
            {"order": [0, 1, 2, 3, 4, 5]},
            {"order": [0, 4, 2, 3, 1, 5], "positions": True},
            {"order": [5, 4, 3, 2, 1, 0], "picked": 1},
            {"order": [1, 0, 2, 3, 4, 5], "positions": True, "picked": 5},
        ],
    ),
}


def states(name: str, more: int = 40) -> list[dict[str, Any]]:
    """The example's states, and some more drawn at random."""
    figure, random = make(name), Random(name)
    listed = EXAMPLES[name].states
    values = {
        key: [state[key] for state in listed if key in state] for state in listed for key in state
    }

    def draw(key: str) -> Any:
        trait = figure.traits()[key]
        if isinstance(trait, OneOf):
            return random.choice(trait.words)
        if isinstance(trait, Bool):
            return random.random() < 0.5
        if isinstance(trait, Number):
            x = random.choice([trait.low, trait.high, random.uniform(trait.low, trait.high)])
            return round(x) if trait.whole else x
        return random.choice(values[key])

    return [{}, *listed, *({key: draw(key) for key in values} for _ in range(more))]


def make(name: str, **numbers: Any) -> LiveFigure:
    """The example's figure, with these arguments changed."""
    return getattr(widgets, name)(**(EXAMPLES[name].numbers() | numbers))
