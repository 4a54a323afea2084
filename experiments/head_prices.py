"""What every set of heads costs the translator that comes with the library.

    python experiments/head_prices.py

The translator `number-words` reads 200 of the numbers that its training left out, each fifth one,
without each of the 256 sets of its eight heads of cross-attention. It gets the right letters so
far and is asked for the next one. `loss` and `wrong` have one number for each set: the mean loss of
a letter, and how many letters are wrong. Bit i of a set's place in the list is head i; heads 0 to 3
are the first layer's. About a minute on one thread.
"""

from __future__ import annotations

import sys

import torch
from result_file import write_result

from transformer_lib.data import BOS, EOS, pad
from transformer_lib.figures.widgets.head_prices import price_table
from transformer_lib.pretrained import load_bundled
from transformer_lib.runs import TASKS, environment

EVERY = 5


def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    """Source and target, token ids of 200 numbers."""
    _, tokenizer = load_bundled("number-words")
    pairs = TASKS["number-words"].load("val")[::EVERY]
    sources = [tokenizer.encode(english) for english, _ in pairs]
    targets = [[BOS, *tokenizer.encode(german), EOS] for _, german in pairs]
    return pad(sources), pad(targets)


def main() -> None:
    torch.set_num_threads(1)
    model, _ = load_bundled("number-words")
    source, target = numbers()
    loss, wrong = price_table(model, source, target)
    record = {
        "command": " ".join(["python", "experiments/head_prices.py", *sys.argv[1:]]),
        "what": "loss and wrong letters of the translator without each set of its cross-attention",
        **environment(torch.device("cpu")),
        "model": "number-words",
        "split": f"val, each {EVERY}th",
        "numbers": len(source),
        "letters": int((target[:, 1:] != model.config.pad_id).sum()),
        "loss": [round(each, 4) for each in loss],
        "wrong": [int(each) for each in wrong],
    }
    write_result("head-prices", record)


if __name__ == "__main__":
    main()
