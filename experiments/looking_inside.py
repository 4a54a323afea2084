"""What do the heads of chapter 16's translator attend to, and what depends on them? Its record.

    python experiments/looking_inside.py

Runs the chapter's own cells. Each of five seeds trains the chapter's translator, and is examined
untrained, after 16 passes, and after 32, on the 200 numbers kept for reporting:

- `best`: which head of the last cross-attention finds the right word most often, chosen on 100
  other numbers; heads count from 0. The other lists for heads have one number per head.
- `looks`: at how many of the `beginnings` of a part a head finds the right word.
- `swapped`: the same with one word of the source replaced, by one of the same kind (*seven* for
  *two*) or of another (*seventy* or *seventeen*): of `rows`, `before` and `after`.
- `other source`: the same with another number of as many pieces, where the word differs.
- `right`: how many letters are right without some heads, where a part begins and inside the parts.
- `turned`: of the numbers with a hyphen, how many keep their own letter, and how many get that of
  their tens, if one row of weights is turned there or to the hyphen.
- `erasing`: how many beginnings the word belongs to whose removal costs the most probability.
- `probe`: how often a linear probe reads the ones from the vector of the tens, and in how many
  numbers the letter is right if the vector of the tens or that of the ones is hidden.
- `hyphen`: the weight on the hyphen, and the length of its vector and of the words'.

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
KIND_OF = {word: kind for kind, words in WORDS.items() for word in words}
EIGHT = [(call, head) for call in (3, 5) for head in range(4)]


def chapter() -> dict[str, Any]:
    book = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    cells = {cell["id"]: "".join(cell["source"]) for cell in book} | {"sets": SETS}
    found: dict[str, Any] = {}
    for name in CELLS:
        exec(cells[name], found)
    return found


def swappable(book: dict[str, Any]) -> list[tuple[int, int]]:
    """The beginnings of all parts but hundred and zero, which are the only ones of their kind."""
    report = book["report"]
    return [
        (i, row)
        for i, row in report.begins.nonzero().tolist()
        if book["words"][book["reported"][i]][report.position[i, row]] in KIND_OF
    ]


def one_word_swapped(book: dict[str, Any], same: bool) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A text for each beginning, with another word in its place; its row, and that word's index."""
    report, draw, texts = book["report"], random.Random(16), swappable(book)
    i, row = torch.tensor(texts).T
    places, sources = report.position[i, row], report.source[i].clone()
    for k, place in enumerate(places):
        word = book["words"][book["reported"][i[k]]][place]
        kinds = [each for each in WORDS if (each == KIND_OF[word]) == same]
        other = draw.choice([each for each in WORDS[draw.choice(kinds)] if each != word])
        sources[k, place] = book["vocabulary"].ids[other]
    return report._replace(source=sources, target=report.target[i]), row, places


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
    found["swapped"], found["other source"] = {}, {}
    for name, same in (("same kind", True), ("another kind", False)):
        batch, rows, places = one_word_swapped(book, same)
        before = own[[i for i, _ in swappable(book)]]
        found["swapped"][name] = {
            "rows": len(rows),
            "before": found_at(before, rows, places),
            "after": found_at(maps(model, batch), rows, places),
        }
    other = with_other_source(report)
    other_maps, pieces = maps(model, other), book["vocabulary"].pieces
    kind = [KIND_OF.get(piece, piece) for piece in pieces]
    for name, same in (("same kind", True), ("another kind", False)):
        kept = []
        for k, (a, b) in enumerate(zip(i.tolist(), row.tolist(), strict=True)):
            place = report.position[a, b]
            one, two = report.source[a, place].item(), other.source[a, place].item()
            if one != two and (kind[one] == kind[two]) == same:
                kept.append(k)
        rows, places = row[kept], report.position[i, row][kept]
        found["other source"][name] = {
            "rows": len(kept),
            "before": found_at(own[i[kept]], rows, places),
            "after": found_at(other_maps[i[kept]], rows, places),
        }
    return found


def with_other_source(batch: Any) -> Any:
    """Each number gets the English of another one with as many pieces."""
    other, lengths = batch.source.clone(), (batch.source != 0).sum(dim=1)
    for length in lengths.unique():
        alike = (lengths == length).nonzero()[:, 0]
        other[alike] = batch.source[alike.roll(1)]
    return batch._replace(source=other)


def removing(heads: list[tuple[int, int]]) -> Any:
    def new_weights(at: int, weights: torch.Tensor) -> torch.Tensor:
        gone = [head for call, head in heads if call == at]
        if gone:
            weights = weights.clone()
            weights[:, gone] = 0
        return weights

    return new_weights


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
        if not heads:
            whole = (hit | (report.labels == 0)).all(dim=1).sum().item()
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
    return {"numbers": whole, "right": right, "turned": turned}


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
    weights = book["last_maps"](model, report).mean(dim=1)
    on_hyphen = (weights * hyphens[:, None]).sum(dim=-1)
    counted = (report.labels > 2) & hyphens.any(dim=1, keepdim=True)
    found["hyphen"] = {
        "weight": on_hyphen[counted].mean().item(),
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
        record["runs"].append(found)
        print(seed, found[1:], flush=True)
        write_result("looking-inside", record)


if __name__ == "__main__":
    main()
