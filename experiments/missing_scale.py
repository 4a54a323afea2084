"""Does attention learn without its scale? The record of chapter 2.

    python experiments/missing_scale.py

Trains the chapter's lookup at two widths and from ten seeds, in three ways, and counts the steps
until 95 % of the answers are right. All three start from the same matrices and see the same
lookups. Two minutes on one idle thread.
"""

import torch
from result_file import chapter, write_result
from torch import Tensor

SEEDS, WIDTHS, STEPS = range(10), (64, 256), 1000
WAYS = ("divided, rate 1", "not divided, rate 1", "not divided, rate 1/√d_k")
lookups = chapter(2, "break-train")["lookups"]


def train(d_k: int, seed: int) -> Tensor:
    """The share of right answers, (STEPS, 3), at each step and in each of the three ways."""
    torch.manual_seed(seed)
    W = (torch.randn(2, 512, d_k) * 512**-0.5).repeat(3, 1, 1, 1).requires_grad_()
    divisor = torch.tensor([d_k**0.5, 1.0, 1.0]).view(3, 1, 1)
    rate = torch.tensor([1.0, 1.0, d_k**-0.5]).view(3, 1, 1, 1)
    right = torch.empty(STEPS, 3)
    for step in range(STEPS):
        items, wanted, target, noisy = lookups("cpu")
        query = noisy @ W[:, 0]  # (3, 32, d_k)
        # q · (item W_k) = (q W_kᵀ) · item, and this takes far fewer products.
        scores = torch.einsum("mbd,bnd->mbn", query @ W[:, 1].mT, items)
        weights = (scores / divisor).softmax(dim=-1)  # (3, 32, 16)
        answers = torch.einsum("mbn,bnd->mbd", weights, items)
        loss = (answers - target).square().mean(dim=(1, 2))  # one per model
        (gradient,) = torch.autograd.grad(loss.sum(), W)
        with torch.no_grad():
            W -= rate * gradient
        right[step] = (weights.argmax(dim=-1) == wanted).float().mean(dim=-1)
    return right


def steps_needed(right: Tensor) -> int | None:
    enough = right.unfold(0, 20, 1).mean(dim=-1) >= 0.95
    return enough.int().argmax().item() + 20 if enough.any() else None


runs = {}
for d_k in WIDTHS:
    each = [train(d_k, seed) for seed in SEEDS]
    runs[d_k] = {
        name: {"steps": [steps_needed(right[:, way]) for right in each]}
        for way, name in enumerate(WAYS)
    }
write_result(runs=runs)
