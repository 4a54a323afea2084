"""How close a small BERT comes to the best possible guesser: the record of chapter 19.

    python experiments/blanks.py

Trains encoders on stories, every other one without its second sentence, and again with the pair as
a second task, and measures them on new stories after 600 and 2,000 updates, for each of five seeds.
About fifteen minutes on one core. `blanks_ceiling.py` has the best possible guesser.
"""

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from result_file import chapter, write_result
from torch import Tensor, nn

from transformer_lib import ModelConfig
from transformer_lib.data import stories, story_pairs
from transformer_lib.models import EncoderOnly

LENGTH = 18
book = chapter(19, "world", "mine-before", "pack", "mine")
TOLD, NEW = book["told"], stories(2_000, seed=1)
WORDS, PAD, MASK = book["pieces"], book["PAD"], book["MASK"]
CONFIG = ModelConfig(
    vocab_size=len(WORDS), d_model=64, n_heads=4, n_layers=2, d_ff=128, dropout=0.0,
    max_len=LENGTH, positions="learned", scale_embeddings=False, output_bias=True, n_token_types=2,
)  # fmt: skip


def rows(pairs: list[tuple[str, str]]) -> tuple[Tensor, Tensor]:
    """[CLS] first [SEP] second [SEP] and the segments, (N, LENGTH) each."""
    return tuple(F.pad(ids, (0, LENGTH - ids.size(1))) for ids in book["to_ids"](pairs))


def hide(ids: Tensor, share: float = 0.15) -> tuple[Tensor, Tensor]:
    return book["hide"](ids, len(WORDS), share)


class Bert(EncoderOnly):
    """With a linear layer on the vector of [CLS]."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        for table in (self.embedding.weight, self.embedding.types.weight,
                      self.embedding.positions.table):  # fmt: skip
            nn.init.normal_(table, std=0.1)
        self.label = nn.Linear(CONFIG.d_model, 2)

    def blanks_loss(self, ids: Tensor, segments: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """The loss of blanks in these texts, and their vectors."""
        given, words = hide(ids, share)
        x, asked = self.encode(given, segments), words != PAD
        logits = self.embedding.logits(self.head_norm(F.gelu(self.head_dense(x[asked]))))
        return F.cross_entropy(logits, words[asked]), x


def minimize(
    model: nn.Module, loss_of: Callable[[], Tensor], peak: float, steps: int, warmup: int
) -> None:
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        rate = peak * min(1, (step + 1) / warmup, 1.3 * (steps - step) / steps)
        adam.param_groups[0]["lr"] = rate
        loss = loss_of()
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()


def pretrained(seed: int, pair_task: bool, steps: int) -> Bert:
    torch.manual_seed(seed)
    model = Bert()
    pairs = [(story.first, story.second, True) for story in TOLD]
    if pair_task:
        pairs = story_pairs(TOLD, seed=seed)
    ids, segments = rows([(a, b if i % 2 else "") for i, (a, b, _) in enumerate(pairs)])
    follows = torch.tensor([int(truth) if i % 2 else -1 for i, (*_, truth) in enumerate(pairs)])

    def loss_of() -> Tensor:
        some = torch.randint(len(ids), (64,))
        loss, x = model.blanks_loss(ids[some], segments[some], 0.15)
        if pair_task:
            said = model.label(model.pooler(x[:, 0]).tanh())
            loss = loss + F.cross_entropy(said, follows[some], ignore_index=-1)
        return loss

    minimize(model, loss_of, 3e-3, steps, warmup=60)
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
    found = blanks_filled(model) | {"fit": written(model)} | sizes_read(model)
    return found | (pairs_told(model) if pair_task else {})


def blanks_filled(model: Bert) -> dict[str, float]:
    """At the words that chapter 19 asks for."""
    ids, segments = rows([(story.first, story.second) for story in NEW[:1000]])
    torch.manual_seed(0)
    given, words = hide(ids)
    asked = words != PAD
    guess = model(given, segments)[asked]
    return {
        "loss": F.cross_entropy(guess, words[asked]).item(),
        "right": (guess.argmax(1) == words[asked]).float().mean().item(),
    }


def written(model: Bert) -> dict[str, float]:
    """How often animal and food fit: drawn at once, and one by one."""
    ids, segments = rows([("the hungry [MASK] eats [MASK] [MASK]", "")] * 1000)
    eats = {
        (book["number"][words[2]], book["number"][words[5]])
        for words in (story.first.split() for story in TOLD)
        if words[3] == "eats"
    }
    shares = {}
    for way in ("at once", "one by one"):
        torch.manual_seed(0)
        texts = ids.clone()
        for place in (3, 5, 6):
            p = model(ids if way == "at once" else texts, segments)[:, place].softmax(1)
            texts[:, place] = torch.multinomial(p, 1)[:, 0]
        shares[way] = sum(tuple(both) in eats for both in texts[:, [3, 6]].tolist()) / len(texts)
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
    said = model.label(model.pooled(*rows([(a, b) for a, b, _ in pairs]))).argmax(1).tolist()
    found = {name: [0, 0] for name in ("true", "other kind", "same kind")}
    for story, (_, second, truth), answer in zip(NEW, pairs, said, strict=True):
        kind = "same" if story.alive == ("animal" in second.split()) else "other"
        counts = found["true" if truth else f"{kind} kind"]
        counts[0] += answer == truth
        counts[1] += 1
    return {"pairs": found}


def main() -> None:
    found: dict[str, dict] = {}
    for way, pair_task in (("blanks", False), ("and the pair", True)):
        found[way] = {}
        for steps in (600, 2_000):
            models = [pretrained(seed, pair_task, steps) for seed in range(5)]
            found[way][f"{steps:,}"] = [measures(model, pair_task) for model in models]
    write_result(**found)


if __name__ == "__main__":
    main()
