"""What each means is worth to the caption translator, one by one: the record of chapter 15.

    python experiments/multi30k_means.py --runs runs
    python experiments/multi30k_means.py --runs runs cooled=multi30k-residual \\
        --name multi30k-residual-means
    python experiments/multi30k_means.py --runs runs cooled=lower-student-six --paper \\
        --name lower-student-six-means

Reads three runs, seeds 0 to 2, for each way to end a run. By default these are `multi30k-tiny-s0`
to `-s2`, whose learning rate falls to 0 over the last ten epochs, and the same runs without that,
`multi30k-tiny-uncooled-s0` to `-s2`. All choices are made on the validation split, by the task's
first metric: first how to take parameters from a run, then how to search. What was chosen, for each
model and for the ensemble of three, is scored on the test split, once, by each metric, and a paired
bootstrap compares the ensemble with each model. About six minutes on one thread.

With `--paper` the search isn't chosen: the penalty is 0.6.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from result_file import head, write_result

from transformer_lib.decoding import beam_search, greedy
from transformer_lib.metrics import paired_bootstrap
from transformer_lib.runs import TASKS, Run, Task

ENDS = ("uncooled=multi30k-tiny-uncooled", "cooled=multi30k-tiny")
PENALTIES = {False: (0.6, 1.0), True: (1.0, 2.0, 3.0)}
SEARCHES = [
    {"beam_size": 5, "length_penalty": penalty, "early_stopping": early}
    for early, penalties in PENALTIES.items()
    for penalty in penalties
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ends", nargs="*", metavar="END=NAME", default=ENDS)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder they are in")
    parser.add_argument("--name", default="multi30k-means", help="of the result")
    parser.add_argument("--paper", action="store_true", help="search as the paper did")
    options = parser.parse_args()
    torch.set_num_threads(1)
    searches = SEARCHES[:1] if options.paper else SEARCHES
    split, test = TASKS["multi30k"].splits[:2]
    folders = {
        end: [options.runs / f"{name}-s{seed}" for seed in (0, 1, 2)]
        for end, name in (text.split("=") for text in options.ends)
    }
    record = head("BLEU of the same runs by other means; chosen on val, the test split once") | {
        "runs": {end: [folder.name for folder in of] for end, of in folders.items()},
        "rows": [],
    }

    def row(
        runs: list[Run], split: str, search: dict[str, Any], **what: Any
    ) -> tuple[float, list[list[str]]]:
        task = TASKS[runs[0].task]
        sources, references = zip(*task.load(split), strict=True)
        decode = partial(beam_search, **search) if search else greedy
        texts = [run.answer(sources, decode=decode) for run in runs]
        found = [scores(task, some, references) for some in texts]
        record["rows"].append({"split": split, **what, "search": search, "scores": found})
        write_result(options.name, record)
        value = sum(next(iter(score.values()))["value"] for score in found) / len(runs)
        print(f"{value:.2f}", split, what, search, flush=True)
        return value, texts

    ways = [(end, checkpoint) for end in folders for checkpoint in ("last", "average")]
    values = []
    for end, checkpoint in ways:
        runs = [Run.load(folder, checkpoint) for folder in folders[end]]
        values.append(row(runs, split, {}, end=end, checkpoint=checkpoint, together=False)[0])
    end, checkpoint = ways[values.index(max(values))]
    runs = [Run.load(folder, checkpoint) for folder in folders[end]]
    together = [Run.together(folders[end], checkpoint)]
    task = TASKS[runs[0].task]
    tested = []
    for some in (runs, together):
        what = {"end": end, "checkpoint": checkpoint, "together": some is together}
        found = [row(some, split, search, **what) for search in searches]
        best = max(range(len(found)), key=lambda i: found[i][0])
        tested += row(some, test, searches[best], **what)[1]
    *alone, all_three = tested
    record["together against each"] = [difference(task, test, all_three, one) for one in alone]
    write_result(options.name, record)


def difference(task: Task, split: str, texts: list[str], others: list[str]) -> dict[str, Any]:
    _, references = zip(*task.load(split), strict=True)
    return paired_bootstrap(task.score, texts, others, references)._asdict()


def scores(task: Task, texts: list[str], references: Sequence[str]) -> dict[str, Any]:
    words = [sum(len(text.split()) for text in some) for some in (texts, references)]
    found = [score(texts, references)._asdict() for score in (task.score, *task.scores_too)]
    return {score.pop("metric"): score for score in found} | {"length": words[0] / words[1]}


if __name__ == "__main__":
    main()
