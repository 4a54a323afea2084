"""Which learning rate does each order of norm and sum survive? The record of chapter 7.

    python experiments/norm_order.py

Trains the model `Differ` of chapter 7, six blocks of width 16, to say of each bit whether it
differs from the bit before. The blocks are post-norm, pre-norm, or pre-norm without their
feed-forward network. The learning rate is constant, or rises to its peak over the first 100 steps.
Each setting has ten seeds. Each run lists the mean loss of the last 20 steps and the own share of
the last block's tokens, (7.1), after each of `STEPS`. All runs with one kind of block are computed
together: the first axis of each parameter counts the runs. Five minutes on one thread.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from transformer_lib import attention

SEEDS = range(1, 11)
STEPS = (100, 200, 300, 400)
SETTINGS = {  # kind of block: (peak rate, steps of warm-up)
    "post-norm": [(0.001, 1), (0.003, 1), (0.01, 1), (0.03, 1), (0.01, 100)],
    "pre-norm": [(0.001, 1), (0.003, 1), (0.01, 1), (0.03, 1)],
    "pre-norm, no feed-forward": [(0.01, 1)],
}


class MultiHead(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.value, self.output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (self.split(of(x)) for of in (self.query, self.key, self.value))
        mask = torch.ones(x.size(-2), x.size(-2)).tril().bool()
        mixed = attention(query, key, value, mask).output
        return self.output(mixed.transpose(-3, -2).flatten(-2))


class Block(nn.Module):
    def __init__(self, kind: str, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.kind = kind
        self.attention = MultiHead(d_model, n_heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "post-norm":
            x = self.norms[0](x + self.attention(x))
            return self.norms[1](x + self.feed_forward(x))
        x = x + self.attention(self.norms[0](x))
        if self.kind == "pre-norm":
            x = x + self.feed_forward(self.norms[1](x))
        return x


class Differ(nn.Module):
    """Says of each bit whether it differs from the bit before; also returns the last block's x."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.bit = nn.Embedding(2, 16)
        self.position = nn.Embedding(8, 16)
        self.blocks = nn.ModuleList(fresh(Block(kind, 16, 2, 64)) for _ in range(6))
        self.norm = nn.LayerNorm(16)
        self.read = nn.Linear(16, 2)

    def forward(self, bits: Tensor) -> tuple[Tensor, Tensor]:
        x = self.bit(bits) + self.position.weight
        for block in self.blocks:
            x = block(x)
        return self.read(self.norm(x)), x


def fresh(layer: nn.Module) -> nn.Module:
    for name, parameter in layer.named_parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return layer


def loss_of(logits: Tensor, bits: Tensor) -> Tensor:
    """The loss of each run, from logits ``(runs, B, T, 2)`` and bits ``(runs, B, T)``."""
    wanted = (bits[..., 1:] != bits[..., :-1]).long()
    each = F.cross_entropy(logits[:, :, 1:].flatten(0, 2), wanted.flatten(), reduction="none")
    return each.view(len(bits), -1).mean(dim=-1)


def own_share(x: Tensor) -> Tensor:
    apart = x - x.mean(dim=-2, keepdim=True)
    return apart.square().sum(dim=(1, 2, 3)) / x.square().sum(dim=(1, 2, 3))


def stacked(kind: str) -> dict[str, Tensor]:
    """The parameters of one fresh model for each seed, along a first axis."""
    models = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        models.append(Differ(kind))
    return stack_module_state(models)[0]


def train(kind: str, settings: list[tuple[float, int]]) -> list[list[dict[str, list[float]]]]:
    """Train all settings and seeds of one kind; return their runs, a list for each setting."""
    groups = [stacked(kind) for _ in settings]
    per_group = [{"params": list(group.values())} for group in groups]
    adam = torch.optim.Adam(per_group, betas=(0.9, 0.98))
    model = Differ(kind)
    run = vmap(lambda parameters, bits: functional_call(model, parameters, (bits,)))
    draws = [torch.Generator().manual_seed(seed) for seed in SEEDS]
    losses, found = [], []
    for step in range(1, STEPS[-1] + 1):
        for group, (rate, warmup) in zip(adam.param_groups, settings, strict=True):
            group["lr"] = rate * min(1, step / warmup)
        bits = torch.stack([torch.randint(2, (16, 8), generator=draw) for draw in draws])
        bits = bits.repeat(len(settings), 1, 1)
        parameters = {name: torch.cat([group[name] for group in groups]) for name in groups[0]}
        logits, x = run(parameters, bits)
        loss = loss_of(logits, bits)
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
        losses.append(loss.detach())
        if step in STEPS:
            late = torch.stack(losses[-20:]).mean(dim=0)
            found.append(torch.stack([late, own_share(x.detach())]))
            print(f"{kind}, step {step}:", *(f"{each:.2f}" for each in late), flush=True)
    numbers = torch.stack(found, dim=-1).unflatten(1, (len(settings), -1)).tolist()
    return [
        [{"loss": loss, "own share": share} for loss, share in zip(*both, strict=True)]
        for both in zip(*numbers, strict=True)
    ]


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each kind of block, peak rate, steps of warm-up, and seed: the loss and the own share "
        "of the last block's tokens, after each number of steps"
    ) | {"seeds": list(SEEDS), "steps": STEPS, "runs": {}}
    for kind, settings in SETTINGS.items():
        record["runs"][kind] = [
            {"rate": rate, "warmup": warmup, "seeds": runs}
            for (rate, warmup), runs in zip(settings, train(kind, settings), strict=True)
        ]
    write_result("norm-order", record)


if __name__ == "__main__":
    main()
