"""Beam size and length penalty against BLEU and length: the record of chapter 14.

    python experiments/multi30k_beams.py --run runs/multi30k-tiny-s0

Everything is measured on the validation split. The search that is best there is scored on the test
split, once, by each metric of the task.
"""

import argparse
from functools import partial
from itertools import product
from pathlib import Path

from result_file import write_result

from transformer_lib.decoding import beam_search
from transformer_lib.runs import TASKS, Run

SIZES, PENALTIES = (1, 2, 3, 5, 10, 20), (0.0, 0.6, 1.0)


parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("--run", required=True, type=Path)
folder = parser.parse_args().run
run, task = Run.load(folder, "best"), TASKS["multi30k"]
split, test = task.splits[:2]


def answers(split: str, size: int, alpha: float) -> tuple[list[str], list[str]]:
    sources, references = zip(*task.load(split), strict=True)
    search = partial(beam_search, beam_size=size, length_penalty=alpha)
    return run.answer(sources, decode=search), references


searches = []
for size, alpha in product(SIZES, PENALTIES):
    texts, references = answers(split, size, alpha)
    words = [sum(len(text.split()) for text in some) for some in (texts, references)]
    found = {"beam_size": size, "length_penalty": alpha, "length": words[0] / words[1]}
    searches.append(found | task.score(texts, references)._asdict())
best = max(searches, key=lambda found: found["value"])
how = {name: best[name] for name in ("beam_size", "length_penalty")}
tested = answers(test, *how.values())
scores = [score(*tested)._asdict() for score in (task.score, *task.scores_too)]
write_result(
    run=folder.name,
    searches=searches,
    test=how | {"split": test, "scores": scores},
)
