"""The exercise `MyTransformer`: what it asks for, and what it is tried on."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transformer_lib.checks.chapter11.ends import ENDS
from transformer_lib.checks.chapter11.masks import MASKS
from transformer_lib.checks.chapter11.stacks import STACKS
from transformer_lib.checks.chapter11.whole import MyTransformer
from transformer_lib.checks.old.core import Case, Exercise

__all__ = ["MY_TRANSFORMER"]


def _ids(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


def _many(n: int) -> Tensor:
    """Ids from 3 to 10."""
    return (5 * torch.arange(n) % 8 + 3)[None]


def _case(label: str, source: Tensor, target: Tensor, **init: Any) -> Case:
    sizes = {"vocab_size": 13, "d_model": 12, "n_heads": 3, "d_ff": 10, "n_layers": 2}
    return Case(label, source, target, init={**sizes, "pre_norm": True, **init})


_WORDS = _ids([5, 3, 7, 3])
_SOURCE = _ids([5, 3, 7, 3, 4, 9, 8], [6, 8, 4, 0, 0, 0, 0])
_TARGET = _ids([1, 9, 9, 4, 10], [1, 7, 0, 0, 0])


def _logits(answer: Any, source: Tensor, target: Tensor) -> Any:
    """Logits where the target has a token: what stands at padding is for nobody."""
    result = answer(source, target)
    if not isinstance(result, Tensor) or result.size(0) != target.size(0):
        return result
    padding = target == (11 if (target == 11).any() else 0)
    if result.shape[1:] == (13,):  # of the last place alone
        return result.masked_fill(padding[:, -1:], 0)
    if result.dim() > 1 and result.size(1) <= target.size(1):
        padding = padding[:, : result.size(1)]
        return result.masked_fill(padding.view(*padding.shape, *[1] * (result.dim() - 2)), 0)
    return result


class Drawn(NamedTuple):
    """How an answer draws its table: deviation times √d_model, mean in deviations.

    Both are rounded, for they are drawn as well.
    """

    deviation: float
    mean: float


def _used(answer: Any, /, source: Tensor, target: Tensor) -> Any:
    return _logits(answer, source, target) if target.any() else _drawn(answer)


def _drawn(answer: nn.Module) -> Drawn:
    new = type(answer)(997, 64, 4, 8, 1, True)
    table = next((p for p in new.parameters() if p.shape == (997, 64)), torch.zeros(2))
    deviation, mean = table.std().item(), table.mean().item()
    return Drawn(
        float(f"{round(deviation * 64**0.5, 1):.2g}"), round(mean / max(deviation, 1e-9), 1)
    )


def _badly_drawn(result: Any, expected: Any, /, **_: Any) -> str | None:
    if not isinstance(result, Drawn):
        return None
    if result.deviation != expected.deviation:
        return (
            f"Your table of words is drawn with a deviation of {result.deviation:g}/√d_model; the "
            "exercise asks for 1/√d_model."
        )
    return "Your table of words is drawn around another mean than 0."


_READ = torch.cat([_ids([1]), _many(40)], dim=1)

MY_TRANSFORMER = Exercise(
    name="MyTransformer",
    reference=MyTransformer,
    cases=[
        _case("2 words, one read, one layer", _ids([5, 3]), _ids([1]), n_layers=1),
        _case("4 words, 3 read, one layer", _WORDS, _ids([1, 9, 4]), n_layers=1),
        _case("4 words, 4 read, one layer", _WORDS, _ids([1, 9, 4, 4]), n_layers=1),
        _case("the same, post-norm", _WORDS, _ids([1, 9, 4, 4]), n_layers=1, pre_norm=False),
        _case("4 words, 3 read, two layers", _WORDS, _ids([1, 9, 4])),
        _case("a batch with padding", _SOURCE, _TARGET),
        _case("as many words as are read", _SOURCE[:, :5], _ids([1, 9, 9, 4, 0], [1, 7, 5, 8, 0])),
        _case("7 words, 5 read, post-norm", _SOURCE, _TARGET, pre_norm=False),
        _case("37 words, 41 read, one layer", _many(37), _READ, n_layers=1),
        _case(
            "padding is 11, and 0 is a word",
            _SOURCE.where(_SOURCE != 0, 11).where(_SOURCE != 3, 0),
            _TARGET.where(_TARGET != 0, 11).where(_TARGET != 9, 0),
            pad_id=11,
            n_layers=1,
        ),
        # The smallest: it is shown first to whoever has more than one thing wrong.
        _case("the table as it is drawn", _ids([5]), _ids([0]), n_layers=1),
    ],
    use=_used,
    properties=[_badly_drawn],
    mistakes={**ENDS, **MASKS, **STACKS},
    section="What happens to one batch?",
    keeps=["gradient"],
)
