"""What each way to hide words is worth: the record of chapter 19.

    python experiments/blanks.py

Trains small encoders on stories, every other one without its second sentence. They differ in one
thing: what replaces a hidden word, how many words are hidden, or whether the pair is a task too.
Three seeds each, measured on texts that no training saw. About eight minutes on one core.
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
from transformer_lib.data import Story, stories, story_pairs
from transformer_lib.models import EncoderOnly

PAD, CLS, SEP, MASK = range(4)
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"]
LENGTH, STEPS, SIZE = 18, 600, 64
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


def hide(ids: Tensor, share: float, masked: float, swapped: float) -> tuple[Tensor, Tensor]:
    """What the model reads, and the words it has to name: PAD where it has none."""
    chosen = (torch.rand(ids.shape) < share) & (ids > MASK)
    dice, other = torch.rand(ids.shape), torch.randint(MASK + 1, len(WORDS), ids.shape)
    given = torch.where(chosen & (dice < masked), MASK, ids)
    given = torch.where(chosen & (dice >= 1 - swapped), other, given)
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


def pretrained(
    seed: int, *, share: float = 0.15, masked: float = 0.8, swapped: float = 0.1,
    pair_task: bool = False, steps: int = STEPS,
) -> Bert:  # fmt: skip
    torch.manual_seed(seed)
    model = Bert()
    pairs = story_pairs(TOLD, seed=seed)
    if not pair_task:
        pairs = [(story.first, story.second, True) for story in TOLD]
    ids, segments = rows([(a, b if i % 2 else "") for i, (a, b, _) in enumerate(pairs)])
    follows = torch.tensor([int(truth) if i % 2 else -1 for i, (*_, truth) in enumerate(pairs)])

    def loss_of() -> Tensor:
        some = torch.randint(len(ids), (SIZE,))
        given, labels = hide(ids[some], share, masked, swapped)
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


def subject(story: Story) -> int:
    """The position of the animal or the thing, [CLS] included."""
    return 1 + next(i for i, role in enumerate(story.roles) if role in ("animal", "thing"))


def linear(train: Tensor, truth: Tensor, test: Tensor, wanted: Tensor) -> float:
    """Accuracy of a linear classifier on frozen vectors: least squares with a little decay."""
    mean, size = train.mean(0), train.std(0) + 1e-3
    train, test = (torch.cat([(x - mean) / size, torch.ones(len(x), 1)], 1) for x in (train, test))
    square = train.T @ train + 1.0 * torch.eye(train.size(1))
    matrix = torch.linalg.solve(square, train.T @ F.one_hot(truth).float())
    return ((test @ matrix).argmax(1) == wanted).float().mean().item()


@torch.no_grad()
def measures(model: Bert, seed: int, pair_task: bool) -> dict[str, float]:
    torch.manual_seed(1000)
    ids, segments = rows([(story.first, story.second) for story in NEW])
    found: dict[str, float] = {}
    given, labels = hide(ids, 0.15, 1.0, 0.0)
    asked = labels != PAD
    guess = model(given, segments)[asked]
    found["guess_loss"] = F.cross_entropy(guess, labels[asked]).item()
    found["guess_right"] = (guess.argmax(1) == labels[asked]).float().mean().item()

    words = ids > MASK  # no mask in the text from here on
    guess = model(ids, segments)
    found["visible_word_said"] = (guess.argmax(2) == ids)[words].float().mean().item()
    wrong, labels = hide(ids, 0.08, 0.0, 1.0)
    swapped = (wrong != ids) & words
    guess = model(wrong, segments)[swapped]
    true, there = (guess.gather(1, x[swapped][:, None]) for x in (ids, wrong))
    found["true_word_above_wrong_word"] = (true > there).float().mean().item()

    groups: dict[tuple[bool, int], list[Story]] = {}
    for story in stories(20_000, seed=2):
        if {"mouse", "bat"} & set(story.first.split()):
            groups.setdefault((story.alive, subject(story)), []).append(story)
    fewest = min(map(len, groups.values()))
    two = [story for group in groups.values() for story in group[:fewest]]
    ids, segments = rows([(story.first, "") for story in two])
    x, alive = model.encode(ids, segments), torch.tensor([int(s.alive) for s in two])
    at = x[torch.arange(len(two)), [subject(story) for story in two]]
    big = [story for story in stories(4_000, seed=3) if story.alive]
    ids, segments = rows([(s.first, s.second.replace(str(s.size), "old")) for s in big])
    y, size = model.encode(ids, segments), torch.tensor([int(s.size == "big") for s in big])
    mask = (ids != PAD)[..., None]
    texts = {
        "pooled": model.pooler(y[:, 0]).tanh(), "first": y[:, 0],
        "mean": (y * mask).sum(1) / mask.sum(1),
    }  # fmt: skip
    tries = random.Random(0)
    for name, vectors, truth in [("sense_at_word", at, alive)] + [
        (f"size_{name}", some, size) for name, some in texts.items()
    ]:
        shares = []
        for _ in range(10):  # twenty labels, drawn ten times
            picked = torch.tensor(tries.sample(range(len(truth)), 20))
            while len(set(truth[picked].tolist())) < 2:
                picked = torch.tensor(tries.sample(range(len(truth)), 20))
            shares.append(linear(vectors[picked], truth[picked], vectors, truth))
        found[name] = sum(shares) / len(shares)
    if pair_task:
        pairs = story_pairs(NEW, seed=5)
        said = model.follows(model.pooled(*rows([(a, b) for a, b, _ in pairs]))).argmax(1)
        found["pair_right"] = (said == torch.tensor([c for *_, c in pairs])).float().mean().item()
    return {name: round(value, 4) for name, value in found.items()}


WAYS: dict[str, dict[str, Any]] = {
    "15 %, 80/10/10": {},
    "15 %, all [MASK]": {"masked": 1.0, "swapped": 0.0},
    "15 %, 80/10/10, and the pair": {"pair_task": True},
    **{f"{share} %, 80/10/10": {"share": share / 100} for share in (5, 30, 50)},
}


def main() -> None:
    torch.set_num_threads(1)
    record = head(
        f"encoders of {sum(p.numel() for p in Bert().parameters()):,} parameters after "
        f"{STEPS} updates of {SIZE} stories, seeds 0 to 2; accuracy on new stories"
    ) | {
        "ways": {},
    }
    for way, settings in WAYS.items():
        record["ways"][way] = []
        for seed in (0, 1, 2):
            model = pretrained(seed, **settings)
            found = measures(model, seed, settings.get("pair_task", False))
            record["ways"][way].append(found)
            print(way, found, flush=True)
            write_result("blanks", record)


if __name__ == "__main__":
    main()
