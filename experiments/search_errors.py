"""Is the model or the search to blame for a wrong number? The record of chapter 14.

    python experiments/search_errors.py

Trains the chapter's translator with ten seeds, with label smoothing and without, and searches for
its 500 numbers, greedily and with a beam of 4. A wrong answer less probable than the right text is
a search error, a more probable one a model error. `silence` counts where the empty text is more
probable. Six minutes on one thread.
"""

import random
from typing import Any

import torch
from result_file import chapter, write_result
from torch import Tensor, nn

from transformer_lib import beam_search

SEEDS, PAIRS = range(10), 6400
CELLS = ("mine-before", "mine", "the-pairs", "score-a-text", "copy-code")
book = chapter(14, *CELLS)
pad, vocabulary, german = book["pad"], book["vocabulary"], book["german"]
source = pad([vocabulary.encode(book["words"](text)) for text in book["english"]])
truth = pad([[*vocabulary.encode(list(text)), book["EOS"]] for text in german])


def trained(seed: int, smoothing: float) -> nn.Module:
    """The chapter's model after two passes through 6,400 pairs, 200 updates."""
    random.seed(seed)
    torch.manual_seed(seed)
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2}
    model = book["Transformer"](len(vocabulary.pieces), **sizes)
    some = random.sample(book["pairs"], PAIRS)
    book["train"](model, some, epochs=2, peak=3e-3, smoothing=smoothing)
    return model.eval()


def judged(model: nn.Module) -> dict[str, dict[str, Any]]:
    """What the two searches find, and what silence is worth."""

    def log_prob(ids: Tensor) -> Tensor:
        return book["log_prob"](model, source, ids)

    by_beam = beam_search(
        book["to_library"](model), source, max_len=64, beam_size=4, length_penalty=0.0, n_best=1
    )
    ids = {"greedy": book["greedy"](model, source), "beam": by_beam.best.ids}
    greedy, beam = map(log_prob, ids.values())
    right_text, silence = log_prob(truth), log_prob(torch.full_like(source[:, :1], book["EOS"]))
    found = {}
    for name, value in (("greedy", greedy), ("beam", beam)):
        texts = ["".join(vocabulary.decode(row)) for row in ids[name].tolist()]
        wrong = torch.tensor([a != b for a, b in zip(texts, german, strict=True)])
        found[name] = {
            "right": (~wrong).sum().item(),
            "search errors": (wrong & (right_text > value)).sum().item(),
            "model errors": (wrong & (right_text < value)).sum().item(),
        }
    found["beam"] |= {
        "more probable": (beam > greedy + 0.01).sum().item(),
        "less probable": (beam < greedy - 0.01).sum().item(),
    }
    found["silence"] = {
        "above the right text": (silence > right_text).sum().item(),
        "not below the beam": (silence > beam - 0.01).sum().item(),
        "median": silence.median().item(),
    }
    return found


write_result(
    **{f"smoothing {s}": [judged(trained(seed, s)) for seed in SEEDS] for s in (0.1, 0.0)},
)
