"""The exercise `same_in_company`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from transformer_lib.checks.chapter08.company import (
    Reader,
    against,
    last_token,
    no_mask,
    not_a_number,
    one_number,
    one_row,
    over_the_batch,
)
from transformer_lib.checks.old.core import Case, Exercise

_Model = Callable[[Tensor], Tensor]


def _compare(
    model: _Model,
    ids: Tensor,
    *,
    rows: Callable[[Tensor], Iterable[int]] = lambda ids: range(len(ids)),
    alone: Callable[[Tensor, int, int], Tensor] = lambda ids, i, n: ids[i : i + 1, :n],
    places: Callable[[int, int], slice] = lambda n, s: slice(0, n),
    read: Callable[[Tensor], Tensor] = lambda y: y,
    far: Callable[[Tensor, Tensor], Tensor] = lambda a, b: (a - b).abs().max(),
    atol: float = 1e-4,
    gather: Callable[[Iterable[bool]], bool] = all,
) -> bool:
    """The test in steps, of which a mistake replaces one."""
    together = model(ids)

    def same(i: int) -> bool:
        n = int((ids[i] != 0).sum())
        single = model(alone(ids, i, n))[0]
        part = places(n, ids.shape[1])
        a, b = read(together[i, part]), read(single[part])
        if a.shape != b.shape:
            raise RuntimeError("The size of tensor a must match the size of tensor b")
        return bool(far(a, b) <= atol)

    return gather(same(i) for i in rows(ids))


def _same_in_company(model: _Model, ids: Tensor) -> bool:
    return _compare(model, ids)


def _but(**step: object) -> Callable[[_Model, Tensor], bool]:
    def answer(model: _Model, ids: Tensor) -> bool:
        return _compare(model, ids, **step)  # type: ignore[arg-type]

    return answer


def _nan_goes_through(model: _Model, ids: Tensor) -> bool:
    together = model(ids)
    for i in range(len(ids)):
        n = int((ids[i] != 0).sum())
        if bool(((model(ids[i : i + 1, :n])[0] - together[i, :n]).abs() > 1e-4).any()):
            return False
    return True


def _junk(ids: Tensor) -> Tensor:
    return torch.where(ids == 0, torch.ones_like(ids), ids)


def _other_padding(model: _Model, ids: Tensor) -> bool:
    real = ids != 0
    return bool((model(ids) - model(_junk(ids)))[real].abs().max() < 1e-4)


def _more_padding(model: _Model, ids: Tensor) -> bool:
    real, s = ids != 0, ids.shape[1]
    longer = torch.cat([ids, torch.zeros_like(ids)], 1)
    return bool(((model(longer)[:, :s] - model(ids))[real].abs() < 1e-4).all())


def _gaps_filled_up(model: _Model, ids: Tensor) -> Tensor:
    """Against each sentence alone, with rows of zeros where its padding was."""
    together = model(ids)
    alone = torch.zeros_like(together)
    for i, n in enumerate((ids != 0).sum(1).tolist()):
        alone[i, :n] = model(ids[i : i + 1, :n])[0]
    return (together - alone).abs()


def _filled_up(model: _Model, ids: Tensor) -> bool:
    return bool((_gaps_filled_up(model, ids) <= 1e-4).all())


def _filled_up_and_nan_goes_through(model: _Model, ids: Tensor) -> bool:
    return not bool((_gaps_filled_up(model, ids) > 1e-4).any())


def _averaged(model: _Model, ids: Tensor) -> bool:
    together = model(ids)
    lengths = enumerate((ids != 0).sum(1).tolist())
    means = [(together[i, :n] - model(ids[i : i + 1, :n])[0]).mean() for i, n in lengths]
    return bool(torch.stack(means).mean().abs() <= 1e-4)


def _without_neighbors(ids: Tensor, i: int, n: int) -> Tensor:
    return ids[i : i + 1]


_TWO = torch.tensor([[5, 6, 7], [3, 4, 0]])
_FOUR = torch.tensor([[3, 4, 0, 0, 0], [5, 6, 7, 8, 9], [1, 2, 3, 0, 0], [8, 0, 0, 0, 0]])
_LONG = torch.tensor([[*range(1, 10), 1, 2, 3, 0, 0], [*range(9, 0, -1), 5, 6, 7, 8, 9]])
_FULL = torch.tensor([[5, 6, 7], [3, 4, 2]])
_AGAIN = torch.tensor([[5, 6, 5, 8], [5, 0, 0, 0]])
_NOTHING = 0.0

SAME_IN_COMPANY = Exercise(
    name="same_in_company",
    reference=_same_in_company,
    cases=[
        Case("an honest model", Reader("honest", lambda ids, y: _NOTHING), _TWO),
        Case("a model without a mask", Reader("no_mask", no_mask), _TWO),
        Case("an honest model, four sentences", Reader("honest", lambda *_: _NOTHING), _FOUR),
        Case("no mask, four sentences", Reader("no_mask", no_mask), _FOUR),
        *(
            Case(f"padding counts in sentence {i + 1} alone", Reader("sly", one_row(i)), _FOUR)
            for i in (0, 2, 3)
        ),
        Case(
            "padding counts for the last token of each sentence",
            Reader("at_the_end", last_token),
            _FOUR,
        ),
        *(
            Case(
                f"padding moves one number of token {place + 1} in the third sentence",
                Reader("sly", one_number(2, place, size)),
                _FOUR,
            )
            for place, size in ((0, 0.3), (1, -0.3), (2, 0.3))
        ),
        Case(
            "padding moves one number of a long sentence, and little",
            Reader("sly", one_number(0, 4, 0.003)),
            _LONG,
        ),
        Case(
            "padding counts for more than the words do",
            Reader("loud", lambda ids, y: 9 * no_mask(ids, y)),
            _FOUR,
        ),
        Case(
            "a mean over the batch is taken off",
            Reader("like_batch_norm", over_the_batch),
            _FOUR,
        ),
        Case(
            "a mean over the batch is taken off, though nothing is padded",
            Reader("like_batch_norm", over_the_batch),
            _FULL,
        ),
        Case(
            "padding counts, and little",
            Reader("faint", lambda ids, y: 1e-2 * no_mask(ids, y)),
            _FOUR,
        ),
        Case(
            "padding makes the numbers of a sentence NaN",
            Reader("nan", not_a_number),
            _FOUR,
        ),
        Case("padding moves two tokens against each other", Reader("sly", against), _FOUR),
        Case(
            "an honest model that rounds differently for another length",
            Reader("rounding", lambda ids, y: 1e-6 * ids.shape[1]),
            _AGAIN,
        ),
    ],
    mistakes={
        "the verdict is the wrong way round: True means that the batch makes no difference": (
            lambda model, ids: not _same_in_company(model, ids)
        ),
        "the sentence is taken out of the batch with its padding still on: cut it to its real "
        "tokens, or padding is in both": [
            _but(alone=_without_neighbors),
            _but(alone=_without_neighbors, atol=0.0),
        ],
        "too much equality is asked for, to the last bit or nearly: another shape may round "
        "differently (see the "
        'section "Is a sentence read in a batch as it is read alone?")': [
            _but(atol=0.0),
            _but(atol=1e-7),
            _but(atol=1e-8),
        ],
        "the padding is overwritten with other tokens: then it is no padding any more, and an "
        "honest model reads them": _other_padding,
        "only more padding is added: whoever is moved by the neighbors goes unseen": _more_padding,
        "NaN goes through: no comparison with NaN is true, `NaN > 1e-4` neither. Ask whether all "
        "differences are small, not whether one is large": _nan_goes_through,
        "rows of padding are compared, too: they have no meaning": [
            _but(places=lambda n, s: slice(0, s)),
            _but(alone=_without_neighbors, places=lambda n, s: slice(0, s)),
            _filled_up,
            _filled_up_and_nan_goes_through,
        ],
        "only the first sentence is tried: the others may be read differently": _but(
            rows=lambda ids: [0]
        ),
        "the first sentence is never tried": _but(rows=lambda ids: range(1, len(ids))),
        "only the last sentence is tried: the others may be read differently": _but(
            rows=lambda ids: [len(ids) - 1]
        ),
        "one sentence that is read alike is taken for proof: it must be *all* of them": _but(
            gather=any
        ),
        "only the first token is compared: the others may differ": _but(
            places=lambda n, s: slice(0, 1)
        ),
        "the last real token is not compared": _but(places=lambda n, s: slice(0, n - 1)),
        "sentences without padding are not tried, or not alone: neighbors can make a difference "
        "to the longest, too": _but(
            rows=lambda ids: [i for i in range(len(ids)) if bool((ids[i] == 0).any())]
        ),
        "only the largest number of each output is compared, by argmax: others may move": _but(
            read=lambda y: y.argmax(-1)
        ),
        "only the last real token is compared: the others may differ": _but(
            places=lambda n, s: slice(n - 1, n)
        ),
        "sums or means are compared, in which differences can cancel": [
            _but(read=lambda y: y.sum()),
            _but(read=lambda y: y.mean()),
            _but(far=lambda a, b: (a - b).sum().abs()),
            _but(far=lambda a, b: (a - b).mean().abs()),
            _but(read=lambda y: y.sum(-1)),
            _but(read=lambda y: y.sum(0)),
            _but(read=lambda y: y.mean(0)),
            _averaged,
        ],
        "the sign of the difference is kept: what is smaller in the batch goes unseen, or what is "
        "larger. Take the absolute value": [
            _but(far=lambda a, b: (a - b).max()),
            _but(far=lambda a, b: (b - a).max()),
            _but(far=lambda a, b: (a - b).max().nan_to_num()),
            _but(far=lambda a, b: (b - a).max().nan_to_num()),
        ],
        "small differences go through: the tolerance is too wide, or differences are averaged, "
        "and one number that moves is lost in a long sentence. Take the largest; above 0.001 it "
        "means something": [
            _but(atol=0.005),
            _but(far=lambda a, b: (a - b).abs().mean()),
            _but(far=lambda a, b: (a - b).square().mean()),
        ],
        "the tolerance is too wide: padding that counts little counts": [
            _but(atol=0.1),
            _but(atol=0.05),
            _but(atol=0.5),
        ],
    },
    section="Is a sentence read in a batch as it is read alone?",
)
