"""Which encoders follow the notes for more than one hop? The record of chapter 8.

    python experiments/hops.py

Trains the model `Finder` of chapter 8 from ten seeds with each of five encoders, as the chapter
does but for twice as many steps. Each run lists the shares of right answers 0, 1, 2, and 3 hops
away after each of `STEPS`, on rows of ten boxes that it wasn't trained on. The ten models of a kind
are trained at once: their parameters have an axis for the seed, and each has its own rows of notes.
Six minutes on one thread.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

SEEDS = range(10)
STEPS = (350, 700, 1050, 1400)
KINDS = {
    "one layer": {"n_layers": 1, "n_heads": 4, "d_ff": 192},
    "one wide layer": {"n_layers": 1, "n_heads": 4, "d_ff": 384, "d_model": 64},
    "two layers": {"n_layers": 2, "n_heads": 2, "d_ff": 64},
    "one layer twice": {"n_layers": 2, "n_heads": 2, "d_ff": 64, "twice": True},
    "layer 2 sees itself": {"n_layers": 2, "n_heads": 2, "d_ff": 64, "itself": True},
}


class Layer(nn.Module):
    """The chapter's `EncoderLayer`, with its parameters drawn in the same order."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model) for _ in range(4)
        )
        self.widen, self.narrow = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            part(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = query @ key.mT / query.size(-1) ** 0.5
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
        return self.output((weights @ value).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attend(self.norms[0](x), mask)
        return x + self.narrow(self.widen(self.norms[1](x)).relu())


class Finder(nn.Module):
    """Names the notes 0, 1, 2, and 3 hops away from each box."""

    def __init__(
        self,
        n_layers: int,
        n_heads: int,
        d_ff: int,
        d_model: int = 32,
        twice: bool = False,
        itself: bool = False,
    ) -> None:
        super().__init__()
        self.itself = itself
        self.note, self.position = nn.Embedding(11, d_model), nn.Embedding(10, d_model)
        self.layers = nn.ModuleList(Layer(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model)
        self.read = nn.Linear(d_model, 40)
        if twice:
            self.layers[1] = self.layers[0]

    def forward(self, notes: Tensor) -> Tensor:  # (B, 10)
        mask = (notes != 10)[:, None, None, :]
        x = self.note(notes) + self.position.weight
        for number, layer in enumerate(self.layers):
            only_itself = self.itself and number == 1
            x = layer(x, torch.eye(10, dtype=torch.bool) if only_itself else mask)
        return self.read(self.norm(x)).unflatten(-1, (4, 10))  # (B, 10, 4, 10)


def hunts(many: int, draw: torch.Generator, fewest: int = 6) -> Tensor:
    """Rows of notes that lead through all boxes of the row and back, padded with 10."""
    sizes = torch.randint(fewest, 11, (many, 1), generator=draw)
    real = torch.arange(10) < sizes
    order = torch.rand(many, 10, generator=draw).masked_fill(~real, 2.0).argsort(dim=-1)
    after = order.roll(-1, dims=-1)
    after.scatter_(1, sizes - 1, order[:, :1])
    return torch.empty_like(order).scatter_(1, order, after).masked_fill(~real, 10)


def answers(notes: Tensor) -> Tensor:  # (..., 10) -> (..., 10, 4)
    found = [notes]
    for _ in range(3):
        found.append(notes.gather(-1, found[-1].clamp(max=9)))
    return torch.stack(found, dim=-1)


NEW = hunts(500, torch.Generator().manual_seed(99), fewest=10)


def train(sizes: dict[str, int], steps: tuple[int, ...] = STEPS) -> list[dict[str, list]]:
    """For each seed, what its model gets right after each number of steps, and its loss there."""
    models, draws = [], []
    for seed in SEEDS:
        torch.manual_seed(seed)
        models.append(Finder(**sizes))
        draws.append(torch.Generator())
        draws[-1].set_state(torch.get_rng_state())
    parameters, _ = stack_module_state(models)
    skeleton = copy.deepcopy(models[0])
    run = vmap(lambda own, notes: functional_call(skeleton, own, (notes,)))

    adam = torch.optim.Adam(parameters.values())
    found = [{"right": [], "loss": []} for _ in SEEDS]
    for step in range(steps[-1]):
        rate = min(1, (step + 1) / 50, 2 * (steps[-1] - step) / steps[-1])
        adam.param_groups[0]["lr"] = 0.005 * rate
        notes = torch.stack([hunts(32, draw) for draw in draws])  # (seeds, 32, 10)
        wanted = answers(notes)
        every = F.cross_entropy(run(parameters, notes).flatten(0, 3), wanted.clamp(max=9).flatten(),
                                reduction="none").view(wanted.shape)  # fmt: skip
        real = (notes != 10)[..., None]
        losses = (every * real).sum((1, 2, 3)) / real.sum((1, 2, 3)) / 4  # of each seed
        adam.zero_grad()
        losses.sum().backward()
        adam.step()
        if step + 1 in steps:
            with torch.no_grad():
                new = NEW.expand(len(SEEDS), -1, -1)
                right = run(parameters, new).argmax(-1) == answers(NEW)  # (seeds, 500, 10, 4)
            for each, share, loss in zip(found, right.float().mean((1, 2)), losses, strict=True):
                each["right"].append(share.tolist())
                each["loss"].append(loss.item())
    return found


def entries(sizes: dict[str, int]) -> int:
    """The number of entries in the matrices of an encoder."""
    layers = Finder(**sizes).layers
    return sum(p.numel() for p in layers.parameters() if p.dim() == 2)


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each kind of encoder and seed: shares of right answers 0, 1, 2, and 3 hops away, and "
        "the loss of the batch, after each number of steps"
    ) | {
        "seeds": list(SEEDS),
        "steps": STEPS,
        "kinds": {name: sizes | {"entries": entries(sizes)} for name, sizes in KINDS.items()},
        "runs": {},
    }
    for name, sizes in KINDS.items():
        record["runs"][name] = train(sizes)
        for hops in (2, 3):
            shares = (f"{run['right'][-1][hops]:4.0%}" for run in record["runs"][name])
            print(f"{name}, {hops} hops:", *shares, flush=True)
    write_result("hops", record)


if __name__ == "__main__":
    main()
