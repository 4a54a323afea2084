"""How close a small BERT comes to the best possible guesser: the record of chapter 19.

    python experiments/blanks.py

Trains encoders on stories, every other one without its second sentence, for 600 updates and for
2,000, with five seeds each; then the same with the pair as a second task. Measured on new stories.
About fifteen minutes on one core. `blanks_ceiling.py` has the best possible guesser.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from result_file import head, write_result
from torch import Tensor, nn

from transformer_lib import ModelConfig
from transformer_lib.data import stories, story_pairs
from transformer_lib.models import EncoderOnly

PAD, CLS, SEP, MASK = range(4)
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"]
LENGTH, SIZE = 18, 64
MASKED, SWAPPED = 0.8, 0.1
TOLD = stories(12_000, seed=0)
NEW = stories(2_000, seed=1)
WORDS = SPECIAL + sorted({word for s in TOLD for word in f"{s.first} {s.second}".split()})
IDS = {word: i for i, word in enumerate(WORDS)}
CONFIG = ModelConfig(
    vocab_size=len(WORDS), d_model=64, n_heads=4, n_layers=2, d_ff=128, dropout=0.0,
    max_len=LENGTH, positions="learned", scale_embeddings=False, output_bias=True, n_token_types=2,
)  # fmt: skip


def rows(pairs: list[tuple[str, str]]) -> tuple[Tensor, Tensor]:
    """[CLS] first [SEP] second [SEP] and the segments, (N, LENGTH) each."""
    ids = torch.full((len(pairs), LENGTH), PAD)
    segments = torch.zeros_like(ids)
    for i, (first, second) in enumerate(pairs):
        a = [CLS, *(IDS[word] for word in first.split()), SEP]
        b = [IDS[word] for word in second.split()] + [SEP] if second else []
        ids[i, : len(a) + len(b)] = torch.tensor(a + b)
        segments[i, len(a) : len(a) + len(b)] = 1
    return ids, segments


def hide(ids: Tensor, share: float = 0.15) -> tuple[Tensor, Tensor]:
    """What the model reads, and the words it has to name: PAD where it has none."""
    chosen = (torch.rand(ids.shape) < share) & (ids > MASK)
    dice, other = torch.rand(ids.shape), torch.randint(MASK + 1, len(WORDS), ids.shape)
    given = torch.where(chosen & (dice < MASKED), MASK, ids)
    given = torch.where(chosen & (dice >= 1 - SWAPPED), other, given)
    return given, ids.masked_fill(~chosen, PAD)


class Bert(EncoderOnly):
    """With a head for the pair."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        for table in (self.embedding.weight, self.embedding.types.weight,
                      self.embedding.positions.table):  # fmt: skip
            nn.init.normal_(table, std=0.1)
        self.follows = nn.Linear(CONFIG.d_model, 2)


def rates(steps: int) -> list[float]:
    return [3e-3 * min(1, (step + 1) / 60, 1.3 * (steps - step) / steps) for step in range(steps)]


def minimize(model: nn.Module, loss_of: Callable[[], Tensor], rates: list[float]) -> None:
    """Update all parameters once for each learning rate."""
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for rate in rates:
        adam.param_groups[0]["lr"] = rate
        loss = loss_of()
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()


def pretrained(seed: int, *, pair_task: bool, steps: int) -> Bert:
    torch.manual_seed(seed)
    model = Bert()
    pairs = story_pairs(TOLD, seed=seed)
    if not pair_task:
        pairs = [(story.first, story.second, True) for story in TOLD]
    ids, segments = rows([(a, b if i % 2 else "") for i, (a, b, _) in enumerate(pairs)])
    follows = torch.tensor([int(truth) if i % 2 else -1 for i, (*_, truth) in enumerate(pairs)])

    def loss_of() -> Tensor:
        some = torch.randint(len(ids), (SIZE,))
        given, labels = hide(ids[some])
        asked = labels != PAD
        x = model.encode(given, segments[some])
        guess = model.embedding.logits(model.head_norm(F.gelu(model.head_dense(x[asked]))))
        loss = F.cross_entropy(guess, labels[asked])
        if pair_task:
            said = model.follows(model.pooler(x[:, 0]).tanh())
            loss = loss + F.cross_entropy(said, follows[some], ignore_index=-1)
        return loss

    minimize(model, loss_of, rates(steps))
    return model.eval()


def linear(train: Tensor, truth: Tensor, test: Tensor, wanted: Tensor) -> float:
    """Accuracy of a linear classifier on frozen vectors: least squares with a little decay."""
    mean, size = train.mean(0), train.std(0) + 1e-3
    train, test = (torch.cat([(x - mean) / size, torch.ones(len(x), 1)], 1) for x in (train, test))
    square = train.T @ train + 1.0 * torch.eye(train.size(1))
    matrix = torch.linalg.solve(square, train.T @ F.one_hot(truth).float())
    return ((test @ matrix).argmax(1) == wanted).float().mean().item()


@torch.no_grad()
def measures(model: Bert, pair_task: bool) -> dict[str, Any]:
    found = blanks_filled(model) | {"fit": written(model)}
    return found | sizes_read(model) | (pairs_told(model) if pair_task else {})


def blanks_filled(model: Bert) -> dict[str, float]:
    """At the words that chapter 19 asks for."""
    ids, segments = rows([(story.first, story.second) for story in NEW[:1000]])
    torch.manual_seed(0)
    given, labels = hide(ids)
    asked = labels != PAD
    guess = model(given, segments)[asked]
    return {
        "loss": F.cross_entropy(guess, labels[asked]).item(),
        "right": (guess.argmax(1) == labels[asked]).float().mean().item(),
    }


def written(model: Bert) -> dict[str, float]:
    """How often animal and food fit: drawn at once, and one by one."""
    ids, segments = rows([("the hungry [MASK] eats [MASK] [MASK]", "")] * 1000)
    eats: dict[int, set[int]] = {}
    for story in TOLD:
        words = story.first.split()
        if words[3] == "eats":
            eats.setdefault(IDS[words[2]], set()).add(IDS[words[5]])
    shares = {}
    for way in ("at once", "one by one"):
        torch.manual_seed(0)
        texts = ids.clone()
        for place in (3, 5, 6):
            p = model(ids if way == "at once" else texts, segments)[:, place].softmax(1)
            texts[:, place] = torch.multinomial(p, 1)[:, 0]
        fit = [food in eats.get(animal, ()) for animal, food in texts[:, [3, 6]].tolist()]
        shares[way] = sum(fit) / len(fit)
    return shares


def sizes_read(model: Bert) -> dict[str, float]:
    """A linear classifier with twenty labels, drawn ten times: is the animal small or big?"""
    big = [story for story in stories(4_000, seed=3) if story.alive]
    ids, segments = rows([(s.first, s.second.replace(str(s.size), "old")) for s in big])
    x, truth = model.encode(ids, segments), torch.tensor([int(s.size == "big") for s in big])
    mask = (ids != PAD)[..., None]
    found, draw = {}, random.Random(0)
    picked = [torch.tensor(draw.sample(range(len(truth)), 20)) for _ in range(10)]
    for name, y in (("size_first", x[:, 0]), ("size_mean", (x * mask).sum(1) / mask.sum(1))):
        shares = [linear(y[some], truth[some], y, truth) for some in picked]
        found[name] = sum(shares) / len(shares)
    return found


def pairs_told(model: Bert) -> dict[str, dict[str, list[int]]]:
    """How many are right and how many there are, by what the second sentence is about."""
    pairs = story_pairs(NEW, seed=5)
    said = model.follows(model.pooled(*rows([(a, b) for a, b, _ in pairs]))).argmax(1).tolist()
    found = {name: [0, 0] for name in ("true", "other kind", "same kind")}
    for story, (_, second, truth), answer in zip(NEW, pairs, said, strict=True):
        kind = "same" if story.alive == ("animal" in second.split()) else "other"
        counts = found["true" if truth else f"{kind} kind"]
        counts[0] += answer == truth
        counts[1] += 1
    return {"pairs": found}


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        f"encoders of {sum(p.numel() for p in Bert().parameters()):,} parameters after 600 and "
        f"2,000 updates of {SIZE} stories, seeds 0 to 4, on new stories"
    ) | {"blanks": {}, "and the pair": {}}
    for way, pair_task in (("blanks", False), ("and the pair", True)):
        for steps in (600, 2_000):
            record[way][f"{steps:,}"] = []
            for seed in range(5):
                found = measures(pretrained(seed, pair_task=pair_task, steps=steps), pair_task)
                record[way][f"{steps:,}"].append(found)
                print(way, steps, found, flush=True)
    write_result("blanks", record)


if __name__ == "__main__":
    main()
