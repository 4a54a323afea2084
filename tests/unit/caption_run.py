"""A small run on invented captions, and what is shipped of it, for tests."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHO = {"A man": "Ein Mann", "A girl": "Ein Mädchen", "Two dogs": "Zwei Hunde", "Nobody": "Niemand"}
DOES = {"sees": "sieht", "paints": "malt", "doesn't like": "mag", "carries": "trägt"}
WHAT = {"the street": "die Straße", "a red hat": "einen roten Hut", "42 birds": "42 Vögel"}


def invented(split: str) -> list[tuple[str, str]]:
    """Sentences that nobody took from anywhere, in both languages."""
    pairs = [
        (f"{who} {does} {what}.", f"{WHO[who]} {DOES[does]} {WHAT[what]}.")
        for who in WHO
        for does in DOES
        for what in WHAT
    ]
    random.Random(3).shuffle(pairs)
    return pairs[8:] if split == "train" else pairs[:8]


@pytest.fixture(scope="module")
def ship_captions():
    """The tool."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tests/bench"))
        yield import_module("ship_captions")


@pytest.fixture(scope="module")
def caption_run(tmp_path_factory):
    """The folder of a run of the task `multi30k` on invented captions."""
    from transformer_lib import recipes, runs

    folder = tmp_path_factory.mktemp("runs") / "invented"
    with pytest.MonkeyPatch.context() as patch:
        task = replace(recipes.TASKS["multi30k"], load=invented)
        patch.setitem(recipes.TASKS, "multi30k", task)
        runs.train(
            folder,
            task="multi30k",
            model={"d_model": 32, "n_heads": 4, "n_layers": 3, "d_ff": 64, "dropout": 0.0},
            training={"max_steps": 120, "warmup": 20, "peak_lr": 0.005, "seed": 0},
            vocab_size=330,
            device="cpu",
            progress=False,
        )
        yield folder


@pytest.fixture(scope="module")
def caption_folder(caption_run, ship_captions, tmp_path_factory):
    """What the tool has written: the folder that a build may be told of."""
    folder = tmp_path_factory.mktemp("models") / "captions"
    ship_captions.ship(caption_run, folder, folder.parent / "results")
    return folder
