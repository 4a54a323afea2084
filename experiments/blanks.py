"""How close a small BERT comes to the best possible guesser: the record of chapter 19.

    python experiments/blanks.py

Trains the chapter's BERT on stories, every other one without its second sentence, and again with
the pair as a second task, and measures it on new stories after 600 and 2,000 updates, for each of
five seeds. About seven minutes on one core. `blanks_ceiling.py` has the best possible guesser.
"""

import random
from typing import Any

import torch
import torch.nn.functional as F
from result_file import chapter, write_result
from torch import Tensor, nn

from transformer_lib.data import stories, story_pairs

UPDATES, SEEDS = (600, 2_000), range(5)
book = chapter(19, "world", "mine-before", "pack", "mine", "write-truth",
               "import-check", "sol-mean-of-tokens-code")  # fmt: skip
told, to_ids, mean_of_tokens = book["told"], book["to_ids"], book["mean_of_tokens"]
training = chapter(20, "data", "mine-before", "helpers")


def ask(ids: Tensor) -> tuple[Tensor, Tensor]:
    return book["hide"](ids, len(book["pieces"]))


def pretrained(seed: int, pair_task: bool, updates: int) -> Any:
    torch.manual_seed(seed)
    bert = book["BERT"](len(book["pieces"]), **training["sizes"])
    bert.pair_head = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    pairs = [(story.first, story.second, True) for story in told]
    if pair_task:
        pairs = story_pairs(told, seed=seed)
    ids, segments = to_ids([(a, b if i % 2 else "") for i, (a, b, _) in enumerate(pairs)])
    follows = torch.tensor([int(truth) if i % 2 else -1 for i, (*_, truth) in enumerate(pairs)])

    def loss_of(some: Tensor) -> Tensor:
        given, words = ask(ids[some])
        x, asked = bert.encode(given, segments[some]), words != book["PAD"]
        logits = bert.head(x[asked]) @ bert.embedding.weight.T + bert.bias
        loss = F.cross_entropy(logits, words[asked])
        if pair_task:
            said = bert.pair_head(x[:, 0])
            loss = loss + F.cross_entropy(said, follows[some], ignore_index=-1)
        return loss

    training["descend"](bert, loss_of, len(ids), updates, peak=0.003, size=64, warmup=60)
    return bert


def linear(train: Tensor, truth: Tensor, test: Tensor, wanted: Tensor) -> float:
    """Accuracy of a linear classifier on frozen vectors: least squares with a little decay."""
    mean, size = train.mean(0), train.std(0) + 1e-3
    train, test = (torch.cat([(x - mean) / size, torch.ones(len(x), 1)], 1) for x in (train, test))
    square = train.T @ train + 1.0 * torch.eye(train.size(1))
    matrix = torch.linalg.solve(square, train.T @ F.one_hot(truth).float())
    return ((test @ matrix).argmax(1) == wanted).float().mean().item()


@torch.no_grad()
def measures(bert: Any, pair_task: bool) -> dict[str, Any]:
    found = chapter(19, "score", "write-code", **book | {"bert": bert, "ask": ask})
    fit = {"at once": found["fit_at_once"], "one by one": found["fit_one_by_one"]}
    scores = {"loss": found["loss"], "right": found["right"], "fit": fit}
    return scores | sizes_read(bert) | (pairs_told(bert) if pair_task else {})


def sizes_read(bert: Any) -> dict[str, float]:
    """A linear classifier with twenty labels, drawn ten times: is the animal small or big?"""
    big = [story for story in stories(4_000, seed=3) if story.alive]
    ids, segments = to_ids([(s.first, s.second.replace(str(s.size), "old")) for s in big])
    x, truth = bert.encode(ids, segments), torch.tensor([int(s.size == "big") for s in big])
    found, draw = {}, random.Random(0)
    picked = [torch.tensor(draw.sample(range(len(truth)), 20)) for _ in range(10)]
    for name, y in (("size_first", x[:, 0]), ("size_mean", mean_of_tokens(x, ids))):
        shares = [linear(y[some], truth[some], y, truth) for some in picked]
        found[name] = sum(shares) / len(shares)
    return found


def pairs_told(bert: Any) -> dict[str, dict[str, list[int]]]:
    """How many are right and how many there are, by what the second sentence is about."""
    new = stories(2_000, seed=1)
    pairs = story_pairs(new, seed=5)
    opening = bert.encode(*to_ids([(first, second) for first, second, _ in pairs]))[:, 0]
    said = bert.pair_head(opening).argmax(1).tolist()
    found = {name: [0, 0] for name in ("true", "other kind", "same kind")}
    for story, (_, second, truth), answer in zip(new, pairs, said, strict=True):
        kind = "same" if story.alive == ("animal" in second.split()) else "other"
        counts = found["true" if truth else f"{kind} kind"]
        counts[0] += answer == truth
        counts[1] += 1
    return {"pairs": found}


def main() -> None:
    found: dict[str, dict] = {}
    for way, pair_task in (("blanks", False), ("and the pair", True)):
        found[way] = {}
        for updates in UPDATES:
            models = [pretrained(seed, pair_task, updates) for seed in SEEDS]
            found[way][f"{updates:,}"] = [measures(bert, pair_task) for bert in models]
    write_result(**found)


if __name__ == "__main__":
    main()
