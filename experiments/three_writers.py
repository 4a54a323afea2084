"""What does a writer gain from seeing its own text, and from seeing its source? Chapter 9's record.

    python experiments/three_writers.py

Trains the chapter's four writers. `answers` is the perplexity of all 5,040 answers, each beside its
list. "from list 2" is the share of words 3 and 4 that come from a second list, whose memory
replaces the first list's after word 2. Ten minutes on one thread.
"""

import torch
from result_file import chapter, write_result
from torch import Tensor, nn

STEPS = 1000
book = chapter(9, "words", "mine-before", "mine", "writers", "train")
Writer, perplexity = book["Writer"], book["perplexity"]


class SameText(Writer):
    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return super().forward(target, target)


KINDS = {  # a fresh writer, its seeds, and the least that its perplexity can be
    "both": (Writer, range(10), 24),
    "no list": (lambda: Writer(across=False), range(10), 5040),
    "last word only": (lambda: Writer(back=False), range(10), 108),
    "same text": (SameText, range(5), 5040),
}


@torch.no_grad()
def write(writer: nn.Module, *sources: Tensor) -> Tensor:
    """Write a word for each source, the most probable one: (B, number of sources)."""
    target = torch.ones(len(sources[0]), 1, dtype=torch.long)
    for source in sources:
        word = writer(source, target)[:, -1:].argmax(dim=-1)
        target = torch.cat([target, word], dim=1)
    return target[:, 1:]


def from_list_2(writer: nn.Module) -> float:
    numbers = torch.rand(1000, 10, generator=torch.Generator().manual_seed(4)).argsort(dim=1)
    first, second = 3 + numbers[:, :4], 3 + numbers[:, 4:8]
    words = write(writer, first, first, second, second)[:, 2:]
    return (words[..., None] - 10 == second[:, None]).any(dim=-1).float().mean().item()


def without(writer: nn.Module, look: str) -> float:
    setattr(writer, look, False)
    found = perplexity(writer)
    setattr(writer, look, True)
    return found


writers = {}
for name, (fresh, seeds, _) in KINDS.items():
    writers[name] = []
    for seed in seeds:
        torch.manual_seed(seed)
        writers[name].append(book["train"](fresh(), STEPS))
found = {
    "least": {name: least for name, (_, _, least) in KINDS.items()},
    "answers": {name: [perplexity(each) for each in of] for name, of in writers.items()},
    "without the list": [without(each, "across") for each in writers["both"]],
    "without all words but the last": [without(each, "back") for each in writers["both"]],
    "from list 2": [from_list_2(each) for each in writers["both"]],
}
nothing = [torch.ones(1, 4, dtype=torch.long)] * 5
for name in ("no list", "same text"):
    texts = [book["spell"](write(each, *nothing)[0]) for each in writers[name]]
    found[f"texts, {name}"] = texts
write_result(**found)
