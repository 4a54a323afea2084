"""Minimum Bayes risk decoding beside beam search, on the validation captions.

    python experiments/mbr.py --runs runs

A beam's best text is the most probable of those it found. Minimum Bayes risk takes the text that
resembles the others most: the candidate with the highest mean BLEU, sentence by sentence, against
texts that stand for what the model may say. Here these are drawn from it, or are the beam's own
list. Reads the runs `lower-muon-s0` to `-s2`; the samples are those of the first. About ten minutes
on one thread.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from result_file import write_result
from sacrebleu.metrics import BLEU

from transformer_lib.decoding import beam_search, candidates, sample
from transformer_lib.runs import TASKS, Run, environment

SEARCH: dict[str, Any] = {"beam_size": 10, "length_penalty": 2.0, "early_stopping": True}
SAMPLES, TEMPERATURE = 16, 0.7
SENTENCE_BLEU = BLEU(tokenize="none", effective_order=True)


def most_alike(texts: Sequence[str], others: Sequence[str]) -> str:
    """Of `texts` the one with the highest mean BLEU against `others`."""
    return max(
        dict.fromkeys(texts),
        key=lambda text: sum(SENTENCE_BLEU.sentence_score(text, [o]).score for o in others),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder they are in")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folders: list[str | Path] = [options.runs / f"lower-muon-s{seed}" for seed in (0, 1, 2)]
    alone, together = Run.load(folders[0], "last", "cpu"), Run.together(folders, "last", "cpu")
    task = TASKS[alone.task]
    assert task.score is not None, "a task of translation"
    sources, references = zip(*task.load("val")[: options.limit], strict=True)

    def texts(run: Run, decode: Any) -> list[list[str]]:
        found = candidates(run.model, run.tokenizer, sources, decode=decode)
        return [[each.text for each in some] for some in found]

    lists, lists_together = (
        texts(run, partial(beam_search, **SEARCH, n_best=SEARCH["beam_size"]))
        for run in (alone, together)
    )
    drawn: list[list[str]] = [[] for _ in sources]
    for seed in range(SAMPLES):
        draw = partial(
            sample, temperature=TEMPERATURE, generator=torch.Generator().manual_seed(seed)
        )
        for some, (text,) in zip(drawn, texts(alone, draw), strict=True):
            some.append(text)
    ways = {
        "alone: beam": [some[0] for some in lists],
        "alone: the list, by itself": list(map(most_alike, lists, lists)),
        "alone: the list, by samples": list(map(most_alike, lists, drawn)),
        "alone: samples, by samples": list(map(most_alike, drawn, drawn)),
        "together: beam": [some[0] for some in lists_together],
        "together: the list, by itself": list(map(most_alike, lists_together, lists_together)),
    }
    record = {
        "command": shlex.join(["python", "experiments/mbr.py", *sys.argv[1:]]),
        "what": "BLEU of minimum Bayes risk decoding beside beam search, on val",
        **environment(torch.device("cpu")),
        "runs": [Path(folder).name for folder in folders],
        "search": SEARCH,
        "samples": SAMPLES,
        "temperature": TEMPERATURE,
        "scores": {name: task.score(said, references)._asdict() for name, said in ways.items()},
    }
    for name, score in record["scores"].items():
        print(f"{score['value']:.2f} {name}")
    write_result("mbr", record)


if __name__ == "__main__":
    main()
