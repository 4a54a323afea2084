"""What do the heads of chapter 16's translator attend to, and what depends on them? Its record.

    python experiments/looking_inside.py

Each of five seeds trains the chapter's translator, and is examined untrained and after 32 passes,
on the 200 numbers kept for reporting:

- `best`: which head of the last cross-attention finds the right word most often, chosen on 100
  other numbers; heads count from 0. The other lists for heads have one number per head.
- `looks`: at how many of the `beginnings` of a part a head finds the right word.
- `swapped`: the same with one word of the source replaced, for two kinds of words: of `rows`,
  `before`, and with another word of the same kind (*seven* for *two*) or of each other kind.
- `right`: how many letters are right where a part begins, without some heads.
- `even weights`: the same if the heads of layer 2 attend evenly to all pieces.
- `turned`: of the numbers with a hyphen, how many keep their own letter, and how many get that of
  their tens, if one row of weights is turned there or to the hyphen.
- `erasing`: how many beginnings the word belongs to whose removal costs the most probability.
- `probe`: how often a linear probe reads the ones from the vector of the tens, and in how many
  numbers the letter is right if the vector of the tens or that of the ones is hidden.
- `hyphen`: the length of its vector and of the words'.

Four minutes on one thread.
"""

import random
from collections.abc import Callable
from typing import Any

import torch
from result_file import chapter, write_result
from torch import Tensor, nn

from transformer_lib.data import number_words

SEEDS, PASSES = range(5), 32
KINDS = {"ones": range(1, 10), "teens": range(10, 20), "tens": range(20, 100, 10)}
WORDS = {kind: list(map(number_words, numbers)) for kind, numbers in KINDS.items()}
CELLS = ("mine-before", "numbers-code", "tools", "truth-code", "examined-code")
book = chapter(16, *CELLS)
choose, report = (book["examined"](book[name]) for name in ("chosen", "reported"))
CELLS = ("looks", "remove-code", "right-code", "turn-cases", "turn-code", "erase-code")
CELLS += ("probe-code", "probe-fit", "hidden-code")
book = chapter(16, *CELLS, **book, choose=choose, report=report)
turn, maps = book["turn"], book["last_maps"]
TEXT, ROW = report.begins.nonzero().T  # where parts begin


def found_at(weights: Tensor, rows: Tensor, places: Tensor) -> list[int]:
    """For each head, in how many texts the row's largest weight is at the place."""
    chosen = weights[torch.arange(len(rows)), :, rows].argmax(dim=-1)  # (B, H)
    return (chosen == places[:, None]).sum(dim=0).tolist()


def word_at(text: int, place: int) -> str:
    return book["words"][book["reported"][text]][place]


def swapped(model: nn.Module, kind: str) -> dict[str, Any]:
    """What the heads find where a word of this kind is replaced, for each kind."""
    i, row = torch.tensor(
        [
            (i, row)
            for i, row in zip(TEXT.tolist(), ROW.tolist(), strict=True)
            if word_at(i, report.position[i, row]) in WORDS[kind]
        ]
    ).T
    places = report.position[i, row]
    found = {"rows": len(row), "before": found_at(maps(model, report)[i], row, places)}
    for other in WORDS:
        draw, sources = random.Random(16), report.source[i].clone()
        for text, place, source in zip(i.tolist(), places.tolist(), sources, strict=True):
            words = [each for each in WORDS[other] if each != word_at(text, place)]
            source[place] = book["vocabulary"].ids[draw.choice(words)]
        batch = report._replace(source=sources, target=report.target[i])
        found[other] = found_at(maps(model, batch), row, places)
    return found


def removing_all(at: int, weights: Tensor) -> Tensor:
    return 0 * weights if at in (3, 5) else weights


def evenly(at: int, weights: Tensor) -> Tensor:
    there = (report.source != 0)[:, None, None].float()
    return (there / there.sum(dim=-1, keepdim=True)).expand_as(weights) if at == 5 else weights


def right(model: nn.Module, new_weights: Callable[[int, Tensor], Tensor]) -> list[int]:
    log_p, _ = book["run"](model, report.source, report.target, new_weights)
    return [book["right"](log_p, report, report.begins)]


def letters(model: nn.Module, new_weights: Any, *wanted: str) -> list[int]:
    """In how many of the numbers with a hyphen each of these letters is written."""
    log_p, _ = book["run"](model, turn.source, turn.target, new_weights)
    said = log_p[book["each"], book["row"]].argmax(dim=-1)
    return [(said == book[letter]).sum().item() for letter in wanted]


@torch.no_grad()
def lengths_of(model: Any) -> dict[str, float]:
    """How long a piece's vector is after the output matrix, the mean of the four heads."""
    layer = model.decoder.layers[1].cross_attention
    values = layer.split(layer.value(model.encode(report.source)))
    by_head = layer.output.weight.unflatten(1, (4, -1))
    lengths = torch.einsum("bhsk,dhk->bhsd", values, by_head).norm(dim=-1).mean(dim=1)
    hyphens = report.source == book["vocabulary"].ids["-"]
    return {
        "length": lengths[hyphens].mean().item(),
        "length of words": lengths[~hyphens & (report.source != 0)].mean().item(),
    }


def examined(model: nn.Module) -> dict[str, Any]:
    model.eval()
    best = book["hits"](maps(model, choose), choose, choose.begins).argmax().item()
    falls, places = book["erasing"](model, report)[:, None], report.position[TEXT, ROW]
    tens, hyphen, four = book["at_tens"], book["at_hyphen"], [0, 1, 2, 3]
    sets = {"none": ([], 5), "layer 1": (four, 3), "layer 2": (four, 5)}
    for head in four:
        sets[f"head {head + 1} of layer 1"] = [head], 3
        sets[f"head {head + 1} of layer 2"] = [head], 5
    turns = {
        "best head, tens": (tens, [5], [best]),
        "layer 1, tens": (tens, [3], four),
        "layer 2, tens": (tens, [5], four),
        "all eight, tens": (tens, [3, 5], four),
        "all eight, hyphen": (hyphen, [3, 5], four),
    }
    return {
        "best": best,
        "looks": found_at(maps(model, report)[TEXT], ROW, places),
        "swapped": {kind: swapped(model, kind) for kind in ("ones", "tens")},
        "right": {name: right(model, book["without"](*each)) for name, each in sets.items()}
        | {"all eight": right(model, removing_all)},
        "even weights": right(model, evenly),
        "turned": {
            name: letters(model, book["turned_to"](*where), "own_letter", "other_letter")
            for name, where in turns.items()
        },
        "erasing": found_at(falls[TEXT], ROW, places)[0],
        "probe": {
            "right": book["probe"](model),
            "tens hidden, ones hidden": [
                letters(model, book["hidden"](column), "own_letter")[0]
                for column in (tens, hyphen + 1)
            ],
        },
        "hyphen": lengths_of(model),
    }


pairs = [book["encoded"][n] for n in book["learned"]]
runs = []
for seed in SEEDS:
    random.seed(seed)
    torch.manual_seed(seed)
    model = book["Transformer"](len(book["vocabulary"].pieces), 64, 4, 128, 2)
    untrained = examined(model)
    book["train"](model, pairs, PASSES, peak=0.005, warmup=60)
    runs.append([untrained, examined(model)])
write_result(
    **{"beginnings": len(TEXT), "turned numbers": len(book["turned_numbers"]), "runs": runs},
)
