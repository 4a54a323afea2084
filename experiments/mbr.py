"""Minimum Bayes risk decoding beside beam search, on the validation captions.

    python experiments/mbr.py --runs runs

Beam search takes the most probable text that it found. Minimum Bayes risk takes the text that is
most like the others: the candidate with the highest mean sentence BLEU against texts that represent
what the model may say, either samples or the beam's own list. Reads the runs `lower-muon-s0` to
`-s2`; the first one draws the samples. About ten minutes on one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from result_file import head, write_result
from sacrebleu.metrics import BLEU

from transformer_lib.decoding import beam_search, candidates, sample
from transformer_lib.runs import TASKS, Run

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
    options = parser.parse_args()
    torch.set_num_threads(1)
    folders: list[str | Path] = [options.runs / f"lower-muon-s{seed}" for seed in (0, 1, 2)]
    alone, together = Run.load(folders[0], "last", "cpu"), Run.together(folders, "last", "cpu")
    task = TASKS[alone.task]
    sources, references = zip(*task.load("val"), strict=True)

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
    record = head("BLEU of minimum Bayes risk decoding beside beam search, on val") | {
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
