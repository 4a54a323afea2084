"""What every set of heads costs the translator that comes with the library.

    python experiments/head_prices.py

`loss` and `wrong` have one number per set: the mean loss of a letter, given the right ones before
it, and how many letters are wrong. Bit i of a set's index is head i; heads 0 to 3 are in the first
layer. About a minute on one thread.
"""

import torch
from result_file import write_result
from torch import Tensor

from transformer_lib.data import collate
from transformer_lib.figures.widgets.head_prices import price_table
from transformer_lib.pretrained import load_bundled
from transformer_lib.runs import TASKS


def numbers() -> tuple[Tensor, Tensor]:
    """Source and target, token ids of 200 numbers."""
    _, tokenizer = load_bundled("number-words")
    pairs = TASKS["number-words"].load("val")[::5]
    source, read, labels = collate([tuple(map(tokenizer.encode, pair)) for pair in pairs])
    return source, torch.cat((read[:, :1], labels), dim=1)


def main() -> None:
    model, _ = load_bundled("number-words")
    source, target = numbers()
    loss, wrong = price_table(model, source, target)
    write_result(
        model="number-words",
        numbers=len(source),
        letters=int((target[:, 1:] != model.config.pad_id).sum()),
        loss=[round(each, 4) for each in loss],
        wrong=[int(each) for each in wrong],
    )


if __name__ == "__main__":
    main()
