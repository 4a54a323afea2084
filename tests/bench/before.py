"""What letters before are worth to the shipped GPT: the record of chapter 18.

    python tests/bench/before.py

At every tenth place of tiny Shakespeare's held-out text, the model reads `<bos>` and the last n
letters, for the n of the figure NextLetter. Writes `results/shakespeare-before/measured.json`;
about three minutes on one core.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.data import BOS, shakespeare
from transformer_lib.figures.widgets.next_letter import READS
from transformer_lib.pretrained import from_recorded
from transformer_lib.results import circumstances

FILE = Path(__file__).resolve().parents[2] / "results" / "shakespeare-before" / "measured.json"
EVERY = 10


@torch.no_grad()
def costs(model: nn.Module, ids: Tensor, places: Tensor, read: int) -> Tensor:
    """-ln p of the letter at each place, from the letters before it that are read: (P,)."""
    found = []
    for some in places.split(128):
        past = ids[some[:, None] - read + torch.arange(read)]  # (p, read)
        rows = torch.cat([torch.full((len(some), 1), BOS), past], dim=1)
        log_probs = model(rows)[:, -1].log_softmax(-1)
        found.append(-log_probs.gather(1, ids[some, None])[:, 0])
    return torch.cat(found)


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = from_recorded("shakespeare")
    ids = torch.tensor(tokenizer.encode(shakespeare.load("val")))
    places = torch.arange(max(READS), len(ids), EVERY)
    record: dict[str, Any] = {
        "command": "python tests/bench/before.py",
        "what": f"the shipped GPT at every {EVERY}th place of the held-out text, given so many "
        "letters before it: mean nats per character, and its standard error",
        **circumstances(torch.device("cpu")),
        "places": len(places),
        "read": [],
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    for read in READS:
        each = costs(model, ids, places, read)
        error = each.std() / len(each) ** 0.5
        found = {
            "letters": read,
            "loss": round(each.mean().item(), 4),
            "error": round(error.item(), 4),
        }
        record["read"].append(found)
        print(found, flush=True)
    FILE.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
