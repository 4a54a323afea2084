"""One vector for a whole line, or a choice among all states? The record of chapter 3.

    python experiments/bottleneck.py

Trains the network of chapter 3 to write lines of 1 to 10 letters backwards, from five seeds. Three
kinds differ only in the context that the decoder gets at each step: the encoder's last state, the
mean of its states, or a mixture chosen by attention. Each kind is trained for 1200 updates, and
from the start again for 6000. The last state also gets 1200 with half and twice the learning rate,
and 12000. A run lists, for each length and seed, the share of letters right on 300 new lines: once
where the network reads its own letters, once where it reads the right ones. With attention it also
says, for lines of 10 letters, how often the largest weight is on the letter to be written and how
often on the one after it. The five seeds train side by side, as one batch of matrices, and
`check_against_torch` compares that with `nn.GRU`. Six minutes on one thread.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

Weights = dict[str, Tensor]  # each with an axis in front, one entry for each seed

SEEDS = range(5)
LENGTHS = (2, 4, 6, 8, 10, 12)
BOS, EOS, N_IDS, D = 1, 2, 23, 32
LONGEST, BATCH = 10, 32
RUNS = [  # kind, updates, learning rate
    *((kind, updates, 0.01) for updates in (1200, 6000) for kind in ("last", "mean", "attention")),
    ("last", 1200, 0.005),
    ("last", 1200, 0.02),
    ("last", 12000, 0.01),
]


class Parts(nn.Module):
    """What the network of one seed begins with, drawn in the order of the chapter's class."""

    def __init__(self, attends: bool) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(N_IDS, D)
        self.target_embedding = nn.Embedding(N_IDS, D)
        self.encoder = nn.GRU(D, D, batch_first=True)
        self.decoder = nn.GRU(D, D, batch_first=True)
        self.output = nn.Linear(2 * D, N_IDS)
        if attends:
            self.query = nn.Linear(D, D)


def stacked(kind: str) -> Weights:
    networks = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        networks.append(Parts(kind == "attention"))
    return torch.func.stack_module_state(networks)[0]


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    flat = torch.baddbmm(bias[:, None], x.flatten(1, -2), weight.mT)
    return flat.unflatten(1, x.shape[1:-1])


def embed(ids: Tensor, table: Tensor) -> Tensor:  # (M, B, S) -> (M, B, S, d)
    return torch.stack([F.embedding(own, rows) for own, rows in zip(ids, table, strict=True)])


def gru(x: Tensor, h: Tensor, weights: Weights, name: str) -> Tensor:  # (M, B, S, d), (M, B, d)
    W, U, b, c = (
        weights[f"{name}.{part}_l0"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    states = []
    for read in linear(x.movedim(2, 1), W, b).unbind(1):
        kept = torch.baddbmm(c[:, None], h, U.mT)
        r, z = (read[..., : 2 * D] + kept[..., : 2 * D]).sigmoid().chunk(2, dim=-1)
        n = (read[..., 2 * D :] + r * kept[..., 2 * D :]).tanh()
        h = torch.lerp(n, h, z)
        states.append(h)
    return torch.stack(states, dim=2)


def forward(weights: Weights, kind: str, source: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (M, B, T, ids) and attention weights (M, B, T, S), which only attention has."""
    x = embed(source, weights["source_embedding.weight"])
    states = gru(x, torch.zeros_like(x[:, :, 0]), weights, "encoder")
    x = embed(given, weights["target_embedding.weight"])
    hidden = gru(x, states[:, :, -1], weights, "decoder")
    mixing = torch.empty(0)
    if kind == "attention":
        query = linear(hidden, weights["query.weight"], weights["query.bias"])
        mixing = (query @ states.mT / D**0.5).softmax(dim=-1)
        context = mixing @ states
    elif kind == "mean":
        context = states.mean(dim=2, keepdim=True).expand_as(hidden)
    else:
        context = states[:, :, -1:].expand_as(hidden)
    joined = torch.cat([hidden, context], dim=-1)
    return linear(joined, weights["output.weight"], weights["output.bias"]), mixing


def read_and_say(source: Tensor) -> tuple[Tensor, Tensor]:
    target = source.flip(-1)
    return F.pad(target, (1, 0), value=BOS), F.pad(target, (0, 1), value=EOS)


def clip(gradients: list[Tensor]) -> None:
    """Clip the gradient of each seed's network to length 1, as `clip_grad_norm_` does for one."""
    lengths = torch.stack([each.flatten(1).norm(dim=1) for each in gradients]).norm(dim=0)
    factors = (1 / (lengths + 1e-6)).clamp(max=1)
    for each in gradients:
        each.mul_(factors.view(-1, *[1] * (each.dim() - 1)))


def train(kind: str, updates: int, rate: float) -> Weights:
    weights = stacked(kind)
    draws = torch.Generator().manual_seed(0)
    adam = torch.optim.Adam(weights.values(), lr=rate, fused=True)
    slower = torch.optim.lr_scheduler.LinearLR(adam, 1, 0.02, updates)
    for _ in range(updates):
        length = int(torch.randint(1, LONGEST + 1, (), generator=draws))
        source = torch.randint(3, N_IDS, (len(SEEDS), BATCH, length), generator=draws)
        given, wanted = read_and_say(source)
        logits, _ = forward(weights, kind, source, given)
        # The sum of the seeds' mean losses: each network gets the gradient of its own.
        loss = F.cross_entropy(logits.flatten(0, 2), wanted.flatten()) * len(SEEDS)
        adam.zero_grad()
        loss.backward()
        clip([each.grad for each in weights.values() if each.grad is not None])
        adam.step()
        slower.step()
    return weights


@torch.no_grad()
def found_by(weights: Weights, kind: str) -> dict:
    found: dict = {"own letters": {}, "right letters": {}}
    for length in LENGTHS:
        lines = torch.randint(3, N_IDS, (300, length), generator=torch.manual_seed(1))
        source = lines.expand(len(SEEDS), -1, -1)
        given, _ = read_and_say(source)
        logits, mixing = forward(weights, kind, source, given)
        written = given[:, :, :1]
        for _ in range(length):
            best = forward(weights, kind, source, written)[0][:, :, -1:].argmax(dim=-1)
            written = torch.cat([written, best], dim=-1)
        target = source.flip(-1)
        found["own letters"][str(length)] = shares(written[:, :, 1:] == target)
        found["right letters"][str(length)] = shares(logits[:, :, :-1].argmax(dim=-1) == target)
        if kind == "attention" and length == LONGEST:
            off = mixing[:, :, :-1].argmax(dim=-1) - torch.arange(length - 1, -1, -1)
            found["largest weight"] = {
                "on the letter": shares(off == 0), "on the next": shares(off == 1),
            }  # fmt: skip
    return found


def shares(right: Tensor) -> list[float]:
    return right.float().mean(dim=(1, 2)).tolist()


def check_against_torch() -> None:
    weights, x = stacked("last"), torch.randn(len(SEEDS), 3, 7, D)
    torch.manual_seed(SEEDS[0])
    expected, _ = Parts(False).encoder(x[0])
    own = gru(x, torch.zeros(len(SEEDS), 3, D), weights, "encoder")[0]
    torch.testing.assert_close(own, expected)


def main() -> None:
    torch.set_num_threads(1)
    check_against_torch()
    record = head(
        "for each kind of context, number of updates, and learning rate: the share of letters "
        "right at each length, one number for each seed"
    ) | {"seeds": list(SEEDS), "runs": []}
    for kind, updates, rate in RUNS:
        found = found_by(train(kind, updates, rate), kind)
        record["runs"].append({"kind": kind, "updates": updates, "rate": rate} | found)
        ten = " ".join(f"{share:4.0%}" for share in found["own letters"][str(LONGEST)])
        print(f"{kind}, {updates} updates, rate {rate}: {ten} at length {LONGEST}", flush=True)
        write_result("bottleneck", record)


if __name__ == "__main__":
    main()
