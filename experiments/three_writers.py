"""What does a writer gain from seeing its own text, and from seeing its source? Chapter 9's record.

    python experiments/three_writers.py

Trains the `Writer` of chapter 9 from ten seeds to write the four numbers of a list in any order:
with both looks, without the list, and with the last word only. Only a switch differs: a seed
draws the same parameters and the same lists for all three. A fourth writer gets its own text as
its source, from five seeds. Each run lists its `answers`, e to the power of its mean loss over all
5,040 answers, each beside its list. That's no sample: no writer without the list gets below 5,040,
none with the last word only below 108, and none with both below 24. The writers with both looks
have three more numbers: their answers with the list taken away after training, their answers with
all words but the last taken away, and the share of words 3 and 4 that come from a second list,
whose memory replaces the first list's after word 2. Writers without a list have the text that they
write. The models of a kind are trained at once: their parameters have an axis for the seed. Four
minutes on one thread.
"""

from __future__ import annotations

import copy
from itertools import combinations, permutations

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from transformer_lib.data import number_words

STEPS = 1000
KINDS = {  # the switch of the writer, and its seeds
    "both": ({}, range(10)),
    "no list": ({"across": False}, range(10)),
    "last word only": ({"back": False}, range(10)),
    "same text": ({"same_text": True}, range(5)),
}
VOCABULARY = ["<pad>", "<bos>", "<eos>"]
VOCABULARY += [number_words(n, language) for language in ("en", "de") for n in range(1, 11)]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (4, -1)).transpose(1, 2)
            for part in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = query @ key.mT / 8**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return self.output((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """The chapter's layers and their norm at the end, with parameters drawn in the same order."""

    def __init__(self, crosses: bool) -> None:
        super().__init__()
        self.attention = Attention()
        self.cross_attention = Attention() if crosses else None
        self.feed_forward = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(4))  # the last: of the stack

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None) -> Tensor:
        normed = self.norms[0](x)
        x = x + self.attention(normed, normed, mask)
        if self.cross_attention is not None:
            x = x + self.cross_attention(self.norms[1](x), memory)
        return self.norms[3](x + self.feed_forward(self.norms[2](x)))


class Writer(nn.Module):
    def __init__(self, back: bool = True, across: bool = True, same_text: bool = False) -> None:
        super().__init__()
        self.back, self.across, self.same_text = back, across, same_text
        self.embedding = nn.Embedding(23, 32)
        self.position = nn.Parameter(torch.randn(6, 32))
        self.encoder, self.decoder = Layer(crosses=False), Layer(crosses=True)
        self.output = nn.Linear(32, 23)

    def embed(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) + self.position[: ids.size(1)]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # (B, 4), (B, T) -> (B, T, 23)
        memory = self.encoder(self.embed(target if self.same_text else source), None, None)
        memory = memory if self.across else torch.zeros_like(memory)
        length = target.size(1)
        mask = (torch.ones(length, length).tril() if self.back else torch.eye(length)).bool()
        return self.output(self.decoder(self.embed(target), memory, mask))


def pairs(numbers: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Lists to read, (..., 4), and their answers in an order, with beginning and end, (..., 6)."""
    answer = 13 + numbers.gather(-1, order)
    return 3 + numbers, F.pad(F.pad(answer, (1, 0), value=1), (0, 1), value=2)


def draw(many: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    numbers = torch.rand(many, 10, generator=generator).argsort(dim=1)[:, :4]
    return pairs(numbers, torch.rand(many, 4, generator=generator).argsort(dim=1))


def every_answer() -> tuple[Tensor, Tensor]:
    """Each of the 210 lists, in some order, with each of its 24 answers."""
    generator = torch.Generator().manual_seed(1)
    chosen = torch.tensor(list(combinations(range(10), 4)))  # (210, 4)
    numbers = chosen.gather(1, torch.rand(210, 4, generator=generator).argsort(dim=1))
    orders = torch.tensor(list(permutations(range(4))))  # (24, 4)
    return pairs(numbers.repeat_interleave(24, dim=0), orders.repeat(210, 1))


class Writers:
    """Models of one kind, one for each seed, computed together."""

    def __init__(self, switches: dict[str, bool], seeds: range) -> None:
        models, self.draws = [], []
        for seed in seeds:
            torch.manual_seed(seed)
            models.append(Writer(**switches))
            self.draws.append(torch.Generator())
            self.draws[-1].set_state(torch.get_rng_state())
        self.parameters, _ = stack_module_state(models)
        self.skeleton = copy.deepcopy(models[0])

    def logits(self, source: Tensor, target: Tensor, axis: int | None = None) -> Tensor:
        def run(own: dict[str, Tensor], source: Tensor, target: Tensor) -> Tensor:
            return functional_call(self.skeleton, own, (source, target))

        return vmap(run, in_dims=(0, axis, axis))(self.parameters, source, target)

    def losses(self, source: Tensor, target: Tensor, axis: int | None = None) -> Tensor:
        """For each seed, the mean loss of a whole answer."""
        logits = self.logits(source, target[..., :-1], axis)  # (seeds, B, 5, 23)
        labels = target[..., 1:].expand(logits.shape[:-1])
        losses = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), reduction="none")
        return losses.view(labels.shape).sum(-1).mean(-1)

    def train(self) -> None:
        adam = torch.optim.Adam(self.parameters.values(), lr=0.01)
        slower = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, STEPS)
        for _ in range(STEPS):
            batches = [draw(64, generator) for generator in self.draws]
            source, target = (torch.stack(part) for part in zip(*batches, strict=True))
            adam.zero_grad()
            self.losses(source, target, axis=0).sum().backward()
            adam.step()
            slower.step()

    @torch.no_grad()
    def answers(self, **switches: bool) -> list[float]:
        """For each seed, e to the mean loss over all answers, with other switches."""
        before = dict(vars(self.skeleton))
        vars(self.skeleton).update(switches)
        losses = self.losses(*every_answer())
        vars(self.skeleton).update(before)
        return losses.exp().tolist()

    @torch.no_grad()
    def write(self, *sources: Tensor) -> Tensor:
        """Write a word for each source, the most probable one: (seeds, B, number of sources)."""
        target = torch.ones(len(self.draws), len(sources[0]), 1, dtype=torch.long)
        for source in sources:
            source = source.expand(len(self.draws), *source.shape)
            words = self.logits(source, target, axis=0)[..., -1:, :].argmax(-1)
            target = torch.cat([target, words], dim=-1)
        return target[..., 1:]

    def from_list_2(self) -> list[float]:
        """For each seed, the share of words 3 and 4 that come from a list read after word 2."""
        numbers = torch.rand(1000, 10, generator=torch.Generator().manual_seed(4)).argsort(dim=1)
        first, second = 3 + numbers[:, :4], 3 + numbers[:, 4:8]
        words = self.write(first, first, second, second)[..., 2:]
        return (words[..., None] - 10 == second[:, None]).any(-1).float().mean((1, 2)).tolist()

    def texts(self) -> list[str]:
        """For each seed, the text written when there's nothing to read but that text."""
        return [
            " ".join(VOCABULARY[i] for i in ids[0].tolist())
            for ids in self.write(*[torch.ones(1, 4, dtype=torch.long)] * 5)
        ]


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each kind of writer and each seed, e to the mean loss over all answers, and the least "
        "that it can be; what else was measured in these writers"
    ) | {
        "steps": STEPS,
        "least": {"both": 24, "no list": 5040, "last word only": 108, "same text": 5040},
        "answers": {},
    }
    for name, (switches, seeds) in KINDS.items():
        writers = Writers(switches, seeds)
        writers.train()
        record["answers"][name] = writers.answers()
        print(name, *(f"{each:,.2f}" for each in record["answers"][name]), flush=True)
        if name == "both":
            record["without the list"] = writers.answers(across=False)
            record["without all words but the last"] = writers.answers(back=False)
            record["from list 2"] = writers.from_list_2()
        elif name != "last word only":
            record[f"texts, {name}"] = writers.texts()
    write_result("three-writers", record)


if __name__ == "__main__":
    main()
