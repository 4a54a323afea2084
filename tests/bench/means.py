"""What each means is worth to the caption translator, one by one: the record of chapter 13.

    python tests/bench/means.py --falling runs/multi30k-tiny-s0 runs/multi30k-tiny-s1 \\
        runs/multi30k-tiny-s2 --going-on runs/multi30k-tiny-on-s0 runs/multi30k-tiny-on-s1

`--falling` are runs from three seeds whose rate falls to 0 at the end, `--going-on` the same runs
carried as far without that. All choices are made on the validation split: first how the parameters
are taken from a run, then the search, then whether the runs decide together. What was chosen, for
one model and for all together, is scored on the test split, once, in each way that the task has.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from transformer_lib.decoding import beam_search, greedy
from transformer_lib.recipes import TASKS
from transformer_lib.results import circumstances
from transformer_lib.runs import Run

FILE = Path(__file__).resolve().parents[2] / "results" / "multi30k-means" / "measured.json"
PENALTIES = {False: (0.0, 0.6, 1.0, 1.5), True: (0.6, 1.0, 1.5, 2.0, 3.0, 4.0)}
SEARCHES = [
    {"beam_size": 5, "length_penalty": penalty, "early_stopping": early}
    for early, penalties in PENALTIES.items()
    for penalty in penalties
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--falling", required=True, type=Path, nargs="+")
    parser.add_argument("--going-on", required=True, type=Path, nargs="+")
    parser.add_argument("--output", type=Path, default=FILE)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    split, test = TASKS["multi30k"].splits[:2]
    record = {
        "command": shlex.join(["python", "tests/bench/means.py", *sys.argv[1:]]),
        "what": "BLEU of the same runs by other means; chosen on val, the test split once",
        **circumstances(torch.device("cpu")),
        "falling": [folder.name for folder in options.falling],
        "going_on": [folder.name for folder in options.going_on],
        "rows": [],
    }

    def row(runs: list[Run], split: str, search: dict[str, Any], **what: Any) -> float:
        found = {"split": split, **what, "search": search}
        found |= {"scores": [scores(run, split, search, options.limit) for run in runs]}
        record["rows"].append(found)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text, encoding="utf-8")
        value = sum(found["bleu"]["value"] for found in found["scores"]) / len(runs)
        print(f"{value:.2f}", split, what, search, flush=True)
        return value

    ends: dict[str, float] = {}
    for folders, end in ((options.going_on, "going on"), (options.falling, "falling")):
        for checkpoint in ("last", "average"):
            runs = [Run.load(folder, checkpoint) for folder in folders]
            value = row(runs, split, {}, end=end, checkpoint=checkpoint)
            if end == "falling":
                ends[checkpoint] = value
    checkpoint = max(ends, key=lambda name: ends[name])
    what = {"end": "falling", "checkpoint": checkpoint}
    runs = [Run.load(folder, checkpoint) for folder in options.falling]
    together = [Run.together(options.falling, checkpoint)]
    row(together, split, {}, **what, together=True)
    for some, more in ((runs, {}), (together, {"together": True})):
        values = [row(some, split, search, **what, **more) for search in SEARCHES]
        row(some, test, SEARCHES[values.index(max(values))], **what, **more)


def scores(run: Run, split: str, search: dict[str, Any], limit: int | None) -> dict[str, Any]:
    task = TASKS[run.task]
    sources, references = zip(*task.load(split)[:limit], strict=True)
    texts = run.answer(sources, decode=partial(beam_search, **search) if search else greedy)
    words = [sum(len(text.split()) for text in some) for some in (texts, references)]
    assert task.score is not None, "a task of translation"
    found = [score(texts, references)._asdict() for score in (task.score, *task.scores_too)]
    return {score.pop("metric"): score for score in found} | {"length": words[0] / words[1]}


if __name__ == "__main__":
    main()
