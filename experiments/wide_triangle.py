"""What does a causal mask with one diagonal too many do? The record of chapter 5.

    python experiments/wide_triangle.py

Trains the chapter's writer with both masks, from ten seeds. Lists the mean loss over all letters of
all texts, and how many of 1,000 written texts are numbers. Four minutes on one thread.
"""

import torch
from result_file import chapter, write_result
from torch import Tensor

SEEDS, STEPS = range(10), 1000
book = chapter(5, "mine-before", "mine", "writer", "writer-data-code", "train", "fit")


@torch.no_grad()
def numbers_written(writer: torch.nn.Module, mask: Tensor) -> int:
    """How many of 1,000 texts are numbers, each letter drawn as likely as the model says."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.ones(1000, 1, dtype=torch.long)
    for t in range(1, book["length"] + 1):
        probabilities = writer(ids, mask[:t, :t])[:, -1].softmax(dim=-1)
        ids = torch.cat([ids, torch.multinomial(probabilities, 1, generator=generator)], dim=1)
    letters = book["letters"]
    written = ["".join(letters[i] for i in row[1:]).split("<eos>")[0] for row in ids.tolist()]
    return sum(text in book["texts"] for text in written)


runs = {}
for name, mask in (("tril(0)", book["right"]), ("tril(1)", book["too_wide"])):
    runs[name] = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        writer = book["Writer"](len(book["letters"]))
        book["fit"](writer, mask, STEPS)
        loss, numbers = book["loss_on_all"](writer, mask), numbers_written(writer, mask)
        runs[name].append({"loss": [loss], "numbers": [numbers]})
write_result(
    steps=[STEPS],
    runs=runs,
)
