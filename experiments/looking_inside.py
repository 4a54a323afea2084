"""What do the heads of chapter 16's translator attend to, and what depends on them? Its record.

    python experiments/looking_inside.py

Runs the chapter's own cells. Each of five seeds trains the chapter's translator, and is examined
untrained, after 16 passes, and after 32, on the 200 numbers kept for reporting:

- `best`: which head of the last cross-attention finds the right word most often, chosen on 100
  other numbers; heads count from 0. The other lists for heads have one number per head.
- `looks`: at how many of the `beginnings` of a part a head finds the right word.
- `swapped`: the same with one word of the source replaced, for each kind of word: of `rows`,
  `before`, and with another word of the same kind (*seven* for *two*) or of each other kind.
- `right`: how many letters are right without some heads, where a part begins and inside the parts.
- `even weights`: the same after the last pass, if the heads of layer 2 attend evenly to all pieces.
- `turned`: of the numbers with a hyphen, how many keep their own letter, and how many get that of
  their tens, if one row of weights is turned there or to the hyphen.
- `erasing`: how many beginnings the word belongs to whose removal costs the most probability.
- `probe`: how often a linear probe reads the ones from the vector of the tens, and in how many
  numbers the letter is right if the vector of the tens or that of the ones is hidden.
- `hyphen`: the length of its vector and of the words'.

Four minutes on one thread.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from result_file import head, write_result
from torch import nn

CHAPTER = Path(__file__).resolve().parents[1] / "chapters" / "16_looking_inside.ipynb"
CELLS = (
    *("mine-before", "numbers-code", "tools", "truth-code", "examined-code"),
    *("looks", "sets", "right-code", "turn-cases", "turn-code", "erase-code"),
    *("probe-code", "probe-fit", "hidden-code"),
)
SETS = "choose, report = examined(chosen), examined(reported)"  # the chapter's, as it is needed
SEEDS, PASSES = range(5), (0, 16, 32)
KINDS = {
    "ones": "one two three four five six seven eight nine",
    "teens": "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "tens": "twenty thirty forty fifty sixty seventy eighty ninety",
}
WORDS = {kind: words.split() for kind, words in KINDS.items()}
EIGHT = [(call, head) for call in (3, 5) for head in range(4)]


def chapter() -> dict[str, Any]:
    book = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    cells = {cell["id"]: "".join(cell["source"]) for cell in book} | {"sets": SETS}
    found: dict[str, Any] = {}
    for name in CELLS:
        exec(cells[name], found)
    return found


def swappable(book: dict[str, Any], kind: str) -> torch.Tensor:
    """Where the parts begin that belong to a word of this kind: the texts, the rows."""
    report = book["report"]
    return torch.tensor(
        [
            (i, row)
            for i, row in report.begins.nonzero().tolist()
            if book["words"][book["reported"][i]][report.position[i, row]] in WORDS[kind]
        ]
    ).T


def swapped(book: dict[str, Any], texts: torch.Tensor, places: torch.Tensor, kind: str) -> Any:
    """The texts with another word in each place, drawn from those of this kind."""
    report, draw = book["report"], random.Random(16)
    sources = report.source[texts].clone()
    for text, place, source in zip(texts.tolist(), places.tolist(), sources, strict=True):
        word = book["words"][book["reported"][text]][place]
        other = draw.choice([each for each in WORDS[kind] if each != word])
        source[place] = book["vocabulary"].ids[other]
    return report._replace(source=sources, target=report.target[texts])


def found_at(maps: torch.Tensor, rows: torch.Tensor, places: torch.Tensor) -> list[int]:
    """For each head, in how many texts the row's largest weight is at the place."""
    chosen = maps[torch.arange(len(rows)), :, rows].argmax(dim=-1)  # (B, H)
    return (chosen == places[:, None]).sum(dim=0).tolist()


def attention_of(book: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """Where the heads of the last cross-attention attend."""
    choose, report, maps = book["choose"], book["report"], book["last_maps"]
    shares = book["hits"](maps(model, choose), choose, choose.begins)
    own = maps(model, report)
    found: dict[str, Any] = {"best": shares.argmax().item()}
    i, row = report.begins.nonzero().T
    found["looks"] = found_at(own[i], row, report.position[i, row])
    found["swapped"] = {}
    for kind in WORDS:
        i, row = swappable(book, kind)
        places = report.position[i, row]
        found["swapped"][kind] = {"rows": len(row), "before": found_at(own[i], row, places)}
        for other in WORDS:
            other_maps = maps(model, swapped(book, i, places, other))
            found["swapped"][kind][other] = found_at(other_maps, row, places)
    return found


def removing(heads: list[tuple[int, int]]) -> Any:
    def new_weights(at: int, weights: torch.Tensor) -> torch.Tensor:
        gone = [head for call, head in heads if call == at]
        if gone:
            weights = weights.clone()
            weights[:, gone] = 0
        return weights

    return new_weights


def right_evenly(book: dict[str, Any], model: nn.Module) -> list[int]:
    """How many letters are right, first and inside, if layer 2 attends evenly to all pieces."""
    report = book["report"]
    there = (report.source != 0)[:, None, None].float()

    def new_weights(at: int, weights: torch.Tensor) -> torch.Tensor:
        even = there / there.sum(dim=-1, keepdim=True)
        return even.expand_as(weights) if at == 5 else weights

    log_p, _ = book["run"](model, report.source, report.target, new_weights)
    return [book["right"](log_p, report, rows) for rows in (report.begins, book["inside"])]


def needs_of(book: dict[str, Any], model: nn.Module, best: int) -> dict[str, Any]:
    """What is right without some heads, and which letter is written if they're turned."""
    report, inside, turn = book["report"], book["inside"], book["turn"]
    sets = {"none": [], "layer 1": EIGHT[:4], "layer 2": EIGHT[4:], "all eight": EIGHT}
    sets |= {f"head {h + 1} of layer {1 + (call == 5)}": [(call, h)] for call, h in EIGHT}
    right = {}
    for name, heads in sets.items():
        log_p, _ = book["run"](model, report.source, report.target, removing(heads))
        hit = log_p.argmax(dim=-1) == report.labels
        right[name] = [hit[rows].sum().item() for rows in (report.begins, inside)]
    turned = {}
    tens, hyphen = book["at_tens"], book["at_hyphen"]
    for name, column, calls, heads in (
        ("best head, tens", tens, [5], [best]),
        ("layer 1, tens", tens, [3], range(4)),
        ("layer 2, tens", tens, [5], range(4)),
        ("all eight, tens", tens, [3, 5], range(4)),
        ("all eight, hyphen", hyphen, [3, 5], range(4)),
    ):
        new = book["turned_to"](column, calls, heads)
        log_p, _ = book["run"](model, turn.source, turn.target, new)
        said = log_p[book["each"], book["row"]].argmax(dim=-1)
        turned[name] = [
            (said == book[letter]).sum().item() for letter in ("own_letter", "other_letter")
        ]
    return {"right": right, "turned": turned}


@torch.no_grad()
def lengths_of(model: Any, batch: Any) -> torch.Tensor:
    """How long each piece's vector is after the output matrix, the mean of the four heads."""
    layer = model.decoder.layers[1].cross_attention
    values = layer.split(layer.value(model.encode(batch.source)))
    by_head = layer.output.weight.unflatten(1, (4, -1))
    return torch.einsum("bhsk,dhk->bhsd", values, by_head).norm(dim=-1).mean(dim=1)


def deeper_of(book: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    report, turn = book["report"], book["turn"]
    i, row = report.begins.nonzero().T
    falls = book["erasing"](model, report)[:, None]
    found: dict[str, Any] = {"erasing": found_at(falls[i], row, report.position[i, row])[0]}
    hidden = []
    for column in (book["at_tens"], book["at_hyphen"] + 1):
        log_p, _ = book["run"](model, turn.source, turn.target, book["hidden"](column))
        said = log_p[book["each"], book["row"]].argmax(dim=-1)
        hidden.append((said == book["own_letter"]).sum().item())
    found["probe"] = {"right": book["probe"](model), "tens hidden, ones hidden": hidden}
    hyphens, lengths = report.source == book["vocabulary"].ids["-"], lengths_of(model, report)
    found["hyphen"] = {
        "length": lengths[hyphens].mean().item(),
        "length of words": lengths[~hyphens & (report.source != 0)].mean().item(),
    }
    return found


def main() -> None:
    book = chapter()
    record = head(
        "for each seed, untrained and after 16 and 32 passes: where heads attend, what is right "
        "without them, and what is written if they're turned"
    ) | {
        "passes": list(PASSES),
        "beginnings": int(book["report"].begins.sum()),
        "inside": int(book["inside"].sum()),
        "turned numbers": len(book["turned_numbers"]),
        "runs": [],
    }
    pairs = [book["encoded"][n] for n in book["learned"]]
    updates = -(-len(pairs) // 64)
    for seed in SEEDS:
        random.seed(seed)
        torch.manual_seed(seed)
        model = book["Transformer"](len(book["vocabulary"].pieces), 64, 4, 128, 2)
        found: list[dict[str, Any]] = []

        def examine(step: int, model: nn.Module = model, found: list = found) -> None:
            if step in [passes * updates for passes in PASSES]:
                model.eval()
                at = attention_of(book, model)
                found.append(at | needs_of(book, model, at["best"]) | deeper_of(book, model))

        examine(0)
        book["train"](model, pairs, PASSES[-1], peak=0.005, warmup=60, watch=examine)
        found[-1]["even weights"] = right_evenly(book, model.eval())
        record["runs"].append(found)
        print(seed, found[1:], flush=True)
        write_result("looking-inside", record)


if __name__ == "__main__":
    main()
