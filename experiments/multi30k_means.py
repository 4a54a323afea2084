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
model and for the ensemble of three, is scored on the test split, once, by each metric. About six
minutes on one thread.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from result_file import write_result

from transformer_lib.decoding import beam_search, greedy
from transformer_lib.runs import TASKS, Run

ENDS = ("uncooled=multi30k-tiny-uncooled", "cooled=multi30k-tiny")
PENALTIES = {False: (0.6, 1.0), True: (1.0, 2.0, 3.0)}
SEARCHES = [
    {"beam_size": 5, "length_penalty": penalty, "early_stopping": early}
    for early, penalties in PENALTIES.items()
    for penalty in penalties
]


parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("ends", nargs="*", metavar="END=NAME", default=ENDS)
parser.add_argument("--runs", type=Path, required=True, help="the folder they are in")
parser.add_argument("--name", default="multi30k-means", help="of the result")
parser.add_argument("--paper", action="store_true", help="no choice of search: penalty 0.6")
options = parser.parse_args()
folders = {
    end: [options.runs / f"{name}-s{seed}" for seed in (0, 1, 2)]
    for end, name in (text.split("=") for text in options.ends)
}
rows: list[dict[str, Any]] = []


def row(runs: list[Run], split: str, search: dict[str, Any], **what: Any) -> float:
    """Score these runs, and return the mean by the task's first metric."""
    task = TASKS[runs[0].task]
    sources, references = zip(*task.load(split), strict=True)
    decode = partial(beam_search, **search) if search else greedy
    scores = []
    for run in runs:
        texts = run.answer(sources, decode=decode)
        found = [score(texts, references)._asdict() for score in (task.score, *task.scores_too)]
        scores.append({score.pop("metric"): score for score in found})
    rows.append({"split": split, **what, "search": search, "scores": scores})
    return sum(next(iter(each.values()))["value"] for each in scores)


def loaded(end: str, checkpoint: str) -> list[Run]:
    return [Run.load(folder, checkpoint) for folder in folders[end]]


split, test = TASKS["multi30k"].splits[:2]
ways = [(end, checkpoint) for end in folders for checkpoint in ("last", "average")]
end, checkpoint = max(ways, key=lambda way: row(
    loaded(*way), split, {}, end=way[0], checkpoint=way[1], together=False))  # fmt: skip
together = [Run.load(folders[end], checkpoint)]
for some in (loaded(end, checkpoint), together):
    what = {"end": end, "checkpoint": checkpoint, "together": some is together}
    searches = SEARCHES[:1] if options.paper else SEARCHES
    best = max(searches, key=lambda search: row(some, split, search, **what))
    row(some, test, best, **what)
write_result(
    name=options.name,
    runs={end: [folder.name for folder in of] for end, of in folders.items()},
    rows=rows,
)
