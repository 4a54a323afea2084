"""The exercise `drawn_from`: what it asks for, and how its answers go wrong."""

from __future__ import annotations

import torch

from transformer_lib.checks.chapter18 import cuts
from transformer_lib.checks.old.compare import rows_sum_to_one
from transformer_lib.checks.old.core import Case, Exercise
from transformer_lib.checks.old.inputs import in_float64, random_tensor

DRAWN_FROM = Exercise(
    name="drawn_from",
    reference=cuts.reference,
    cases=[
        Case("nothing is cut", random_tensor(2, 7), 1.0, None, 1.0),
        Case("a low temperature", random_tensor(2, 7, seed=1), 0.5, None, 1.0),
        Case("top-k alone", torch.tensor([[0.1, 0.2, 0.05, 0.4, 0.25]]).log(), 1.0, 3, 1.0),
        Case("top-p alone", torch.tensor([[0.15, 0.5, 0.05, 0.3]]).log(), 1.0, None, 0.7),
        Case("top-p below the best one", torch.tensor([[0.1, 0.6, 0.3]]).log(), 1.0, None, 0.2),
        Case(
            "top-p of what top-k has left",
            torch.tensor([[0.12, 0.28, 0.22, 0.18, 0.2]]).log(),
            1.0,
            3,
            0.65,
        ),
        Case(
            "two rows, one sure and one not",
            torch.tensor([[4.0, 0, 1, 0.5], [1, 0.8, 0.9, 1.1]]),
            1.0,
            None,
            0.8,
        ),
        Case("all three at once", 2 * random_tensor(5, 11, seed=2), 1.5, 6, 0.7),
        in_float64(Case("a high temperature", random_tensor(3, 7, seed=3), 3.0, 5, 0.9)),
    ],
    mistakes={
        "the temperature multiplies the logits: it divides them": [
            cuts.wrong(softmax=lambda logits, t: (logits * t).softmax(-1)),
        ],
        "the temperature divides the probabilities and a second softmax follows: they have gone "
        "through one already": [
            cuts.wrong(softmax=lambda logits, t: (logits.softmax(-1) / t).softmax(-1)),
        ],
        "the temperature changes nothing: it divides the logits, before the softmax, and not the "
        "probabilities, whose sum takes it out again": [
            cuts.wrong(softmax=lambda logits, t: logits.softmax(-1)),
            cuts.wrong(softmax=lambda logits, t: logits.softmax(-1) / t),
        ],
        "the temperature divides twice": [cuts.wrong(softmax=lambda x, t: (x / t / t).softmax(-1))],
        "the temperature comes after the cuts: top-p then counts other probabilities": [
            cuts.warm_afterwards,
        ],
        "what is kept is not made to sum to 1 again": [cuts.wrong(rescale=lambda kept: kept)],
        "what top-p keeps is not made to sum to 1 again: the sum is as it was after top-k": [
            cuts.wrong(nucleus=cuts.shared_once, rescale=lambda kept: kept),
        ],
        "a softmax follows the cuts: e to the 0 is 1, so the dropped letters get a share again": [
            *cuts.forms(rescale=lambda kept: kept.softmax(-1)),
        ],
        "the softmax goes over the rows: it goes over the vocabulary, the last axis": [
            cuts.wrong(softmax=lambda logits, t: (logits / t).softmax(0)),
        ],
        "what the cuts have left goes through a softmax: a division by its sum makes it sum to 1 "
        "and keeps the proportions": [
            *cuts.forms(rescale=lambda kept: kept.masked_fill(kept == 0, -torch.inf).softmax(-1)),
        ],
        "everything is dropped where `top_k` is None: `[:, None:]` means all": [
            cuts.wrong(
                first_k=lambda probs, k: torch.cat([probs[:, : k or 0], 0 * probs[:, k or 0 :]], -1)
            ),
        ],
        "top-k is not used": [cuts.wrong(first_k=lambda probs, k: probs)],
        "top-k keeps one too many": [
            cuts.wrong(first_k=lambda probs, k: cuts.first_k(probs, k + 1 if k else None)),
        ],
        "top-k keeps one too few": [
            cuts.wrong(first_k=lambda probs, k: cuts.first_k(probs, max(k - 1, 1) if k else None)),
        ],
        "one row's k-th letter is the bound for all rows: each row has its own": [
            cuts.bound_of_all(least, softmax_first)
            for least in (torch.min, torch.max, lambda ends: ends[0], lambda ends: ends[-1])
            for softmax_first in (True, False)
        ],
        "the first top_k letters are dropped: they stay, and what comes after them is dropped": [
            cuts.wrong(first_k=cuts.last_k),
        ],
        "top-k cuts columns off: the result needs a place for every letter, so write 0 to those "
        "that are dropped": [cuts.narrow(order_too=True), cuts.narrow(order_too=False)],
        "the letters before the sum has reached top_p are dropped: they are the ones that stay": [
            cuts.wrong(nucleus=cuts.behind_the_nucleus),
        ],
        "the most probable letter is dropped where it has more than top_p alone: it always stays, "
        "so the first place of the moved mask is False": [
            cut(nucleus=cuts.first_like_the_second(past))
            for cut in (cuts.wrong, cuts.on_what_is_left)
            for past in (cuts.just_past, torch.gt, torch.ge)
        ],
        "the sums are moved around by `roll`, so the most probable letter gets the sum of all: "
        "before it stands nothing, so its sum is 0": [
            cut(nucleus=cuts.behind_the_last(past))
            for cut in (cuts.wrong, cuts.on_what_is_left)
            for past in (torch.ge, torch.gt)
        ],
        "top-p keeps one too many": [cuts.wrong(nucleus=cuts.one_more)],
        "top-p is not used": [cuts.wrong(nucleus=lambda probs, p: probs)],
        "the letter that carries the sum past top_p is left out: the kept ones then have less": [
            # At top_p = 1 the last sum is 1 but for rounding, which these see in different ways.
            cut(nucleus=form(past, cut is cuts.wrong))
            for cut in (cuts.wrong, cuts.on_what_is_left)
            for form in (cuts.without_the_last, cuts.but_the_first)
            for past in (cuts.just_past, torch.gt, torch.ge)
        ],
        "top-p is measured on all letters: top-k comes first, and top-p is a share of what it "
        "left": [
            cuts.share_of_all,
            cuts.wrong(p_first=True),
        ],
        "the least probable letters are kept": [
            cuts.wrong(descending=False),
            cuts.on_what_is_left(descending=False),
        ],
        "each probability is compared with top_p by itself: it is their sum, from the most "
        "probable on, that has to reach top_p": [
            *cuts.alone(lambda probs, p: probs < p),
            *cuts.alone(lambda probs, p: probs < 1 - p),
            *cuts.alone(lambda probs, p: probs < p * probs[:, :1]),
        ],
        "a letter is drawn: the probabilities are asked for, one for each letter": [
            cuts.letters,
            lambda *given: cuts.letters(*given)[:, 0],
        ],
        "the probabilities are returned in sorted order: each belongs back at its letter's place": [
            cuts.wrong(back=lambda kept, order: kept),
        ],
        "the way back goes in the wrong direction: `gather` fetches from the places that `order` "
        "names, `scatter` writes to them": [
            cuts.wrong(back=lambda kept, order: kept.gather(-1, order)),
        ],
        "`order` of all rows is used for each row: `[:, order]` does not take row by row": [
            cuts.wrong(back=lambda kept, order: kept[:, order]),
            cuts.wrong(back=lambda kept, order: kept[:, order.argsort(-1)]),
            cuts.wrong(back=cuts.written_in_every_order),
        ],
        "only the most probable letter is kept: all that the cuts leave may be drawn": [
            lambda logits, temperature, top_k, top_p: cuts.cut(logits, temperature, 1, 1.0),
        ],
        "the sum goes over all rows: each row has the sum 1": [
            *cuts.forms(rescale=lambda kept: kept / kept.sum()),
            *cuts.forms(rescale=lambda kept: kept / kept.sum(0)),
        ],
        "what top-p drops is counted in sorted order, and dropped in that of the vocabulary: both "
        "must be in one order": [cuts.dropped_elsewhere, cuts.dropped_elsewhere_by_logit],
        "nothing is sorted: the letters stand in the order of the vocabulary": [
            cuts.unsorted,
            cuts.unsorted_top_p,
        ],
        "top-p sums down the rows: it sums along each row": [
            cuts.wrong(
                nucleus=lambda probs, p: probs.masked_fill(probs.cumsum(0) - probs >= p, 0.0)
            ),
            cuts.wrong(nucleus=lambda probs, p: probs.masked_fill(probs.cumsum(0) > p, 0.0)),
        ],
        "all rows keep as many letters as the first one": [cuts.as_many_as_the_first],
        "a dropped letter's logit is set to 0, which is no small logit: e to the 0 is 1": [
            cuts.logits_to_zero,
            cuts.on_what_is_left(fill=0.0),
        ],
        "logits are returned, and not probabilities": [
            lambda logits, temperature, top_k, top_p: logits / temperature,
        ],
    },
    properties=[rows_sum_to_one],
    advises=["dtype"],
    section="How do you let it write?",
)
