"""Does attention learn without its scale? The record of chapter 2.

    python experiments/missing_scale.py

Trains the lookup of chapter 2 at two widths and from ten seeds, in three ways: with the scores
divided by √d_k, at rate 1; not divided, at the same rate; and not divided, at rate 1/√d_k. The last
takes the steps of the first exactly, but for the scores it starts with, which are √d_k times as
large. All three start from the same matrices and see the same lookups. Each run lists the number of
steps after which 95 % of the answers are right, as the mean of the last 20 steps, or null where
1000 steps aren't enough; and the share of right answers in the last 100 of the 1000 steps. Two
minutes on one idle thread.
"""

from __future__ import annotations

import torch
from result_file import head, write_result
from torch import Tensor

SEEDS = range(10)
WIDTHS = (64, 256)
STEPS, ENOUGH, RECENT, LAST = 1000, 0.95, 20, 100
WAYS = ("divided, rate 1", "not divided, rate 1", "not divided, rate 1/√d_k")


def look_up(W: Tensor, noisy: Tensor, items: Tensor, divisor: Tensor) -> Tensor:
    """The weights, (3, 32, 16), of the three models whose matrices W holds, (3, 2, 512, d_k)."""
    query = noisy @ W[:, 0]  # (3, 32, d_k)
    # q · (item W_k) = (q W_kᵀ) · item, and this takes far fewer products.
    scores = torch.einsum("mbd,bnd->mbn", query @ W[:, 1].mT, items)
    return (scores / divisor).softmax(dim=-1)


def train(d_k: int, seed: int) -> Tensor:
    """The share of right answers, (STEPS, 3), at each step and in each of the three ways."""
    torch.manual_seed(seed)
    W = (torch.randn(2, 512, d_k) * 512**-0.5).repeat(3, 1, 1, 1).requires_grad_()
    divisor = torch.tensor([d_k**0.5, 1.0, 1.0]).view(3, 1, 1)
    rate = torch.tensor([1.0, 1.0, d_k**-0.5]).view(3, 1, 1, 1)
    right = torch.empty(STEPS, 3)
    for step in range(STEPS):
        items = torch.randn(32, 16, 512)
        wanted = torch.randint(16, (32,))
        target = items[torch.arange(32), wanted]
        noisy = target + 0.5 * torch.randn(32, 512)
        weights = look_up(W, noisy, items, divisor)
        answers = torch.einsum("mbn,bnd->mbd", weights, items)
        loss = (answers - target).square().mean(dim=(1, 2))  # one per model
        (gradient,) = torch.autograd.grad(loss.sum(), W)
        with torch.no_grad():
            W -= rate * gradient
        right[step] = (weights.argmax(dim=-1) == wanted).float().mean(dim=-1)
    return right


def steps_needed(right: Tensor) -> int | None:
    enough = right.unfold(0, RECENT, 1).mean(dim=-1) >= ENOUGH
    return enough.int().argmax().item() + RECENT if enough.any() else None


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        "for each width and way to train: the steps after which 95 % of the answers are right, and "
        "the share of right answers in the last 100 steps, one of each for every seed"
    ) | {"seeds": list(SEEDS), "most_steps": STEPS, "runs": {}}
    for d_k in WIDTHS:
        found = {name: {"steps": [], "right": []} for name in WAYS}
        for seed in SEEDS:
            for name, right in zip(WAYS, train(d_k, seed).T, strict=True):
                found[name]["steps"].append(steps_needed(right))
                found[name]["right"].append(right[-LAST:].mean().item())
            print(d_k, seed, *(found[name]["steps"][-1] for name in WAYS), flush=True)
        record["runs"][str(d_k)] = found
    write_result("missing-scale", record)


if __name__ == "__main__":
    main()
