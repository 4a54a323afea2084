"""Chapter 18's checkers: answers that real learners give, each diagnosed by name."""

import pytest
import torch
import torch.nn.functional as F
from judging import judges

from transformer_lib.checks.chapter18 import Reader, check
from transformer_lib.decoding.generate import distribution

pytestmark = pytest.mark.slow

verdict, passes, fails = judges(check)


# ------------------------------------------------------------------------------------ drawn_from


def by_the_library(logits, temperature, top_k, top_p):
    probs, ids = distribution(logits.log_softmax(-1), temperature, top_k, top_p)
    return torch.zeros_like(logits).scatter(-1, ids, probs.to(logits.dtype))


def in_loops(logits, temperature, top_k, top_p):
    rows = []
    for row in (logits / temperature).softmax(-1):
        best = sorted(range(len(row)), key=lambda i: -row[i])[: top_k or len(row)]
        left, total, kept = sum(row[i] for i in best), 0.0, torch.zeros_like(row)
        for i in best:
            if total >= top_p:
                break
            kept[i] = row[i]
            total += row[i] / left
        rows.append(kept / kept.sum())
    return torch.stack(rows)


def by_masked_logits(logits, temperature, top_k, top_p):
    logits = logits / temperature
    if top_k is not None:
        least = logits.topk(top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    values, order = logits.softmax(-1).sort(descending=True)
    gone = (values.cumsum(-1) - values >= top_p).gather(-1, order.argsort(-1))
    return logits.masked_fill(gone, float("-inf")).softmax(-1)


def by_a_shifted_mask(logits, temperature, top_k, top_p):
    probs, order = (logits / temperature).softmax(-1).sort(descending=True)
    probs = torch.where(torch.arange(probs.size(1)) < (top_k or probs.size(1)), probs, 0.0)
    probs = probs / probs.sum(-1, keepdim=True)
    gone = F.pad(probs.cumsum(-1) >= top_p, (1, -1), value=False)
    probs = probs.masked_fill(gone, 0)
    return (probs / probs.sum(-1, keepdim=True)).gather(-1, order.argsort(-1))


@pytest.mark.parametrize(
    "function", [by_the_library, in_loops, by_masked_logits, by_a_shifted_mask]
)
def test_right_ways_to_draw_pass(capsys, function):
    passes(capsys, function, "drawn_from")


def into_float32(logits, temperature, top_k, top_p):
    room = torch.zeros(logits.shape)
    for row, given in enumerate(logits):
        kept = by_the_library(given[None], temperature, top_k, top_p)[0]
        room[row, kept > 0] = kept[kept > 0]
    return room


def test_a_room_of_float32_is_right_and_hears_of_float64(capsys):
    passed, said = verdict(capsys, into_float32, "drawn_from")
    assert passed
    assert (
        "8 of 9 cases pass. Right. One more thing, not asked for: with numbers in float64" in said
    )
    assert "where `room` has dtype float32, `kept` float64" in said
    passed, said = verdict(capsys, lambda *of: by_the_library(*of).float(), "drawn_from")
    assert passed
    assert "not asked for: the numbers are right, but they have dtype float32" in said


def draw(
    warm=lambda x, t: (x / t).softmax(-1),
    k=lambda k: k,
    inside=None,
    scale=True,
    back=lambda probs, order: torch.zeros_like(probs).scatter(-1, order, probs),
):
    def drawn_from(logits, temperature, top_k, top_p):
        probs, order = warm(logits, temperature).sort(dim=-1, descending=True)
        probs = probs.clone()
        if top_k is not None and k(top_k) is not None:
            probs[:, k(top_k) :] = 0
        share = probs / probs.sum(-1, keepdim=True)
        stays = share.cumsum(-1) - share < top_p if inside is None else inside(share, top_p)
        probs = (share if scale == "early" else probs) * stays
        if scale is True:
            probs = probs / probs.sum(-1, keepdim=True)
        return back(probs, order)

    return drawn_from


def soft_again(probs, order):
    return probs.softmax(-1).gather(-1, order.argsort(-1))


def soft_of_the_kept(probs, order):
    return torch.where(probs > 0, probs, -torch.inf).softmax(-1).gather(-1, order.argsort(-1))


def one_sum_for_all(probs, order):
    return (probs / probs.sum(0)).gather(-1, order.argsort(-1))


def written_by_order(probs, order):
    out = torch.zeros_like(probs)
    out[:, order] = probs
    return out


def masked(
    fill=float("-inf"),
    descending=True,
    in_order=False,
    stays=lambda sums, probs, p: sums - probs < p,
):
    """Top-k on the logits, and then a softmax."""

    def drawn_from(logits, temperature, top_k, top_p):
        logits = logits / temperature
        if top_k is not None:
            least = logits.topk(top_k).values[:, -1:]
            logits = logits.masked_fill(logits < least, fill)
        probs, order = logits.softmax(-1).sort(descending=descending)
        if in_order:
            probs, order = logits.softmax(-1), torch.arange(logits.size(-1)).expand_as(logits)
        probs = probs * stays(probs.cumsum(-1), probs, top_p)
        probs = probs / probs.sum(-1, keepdim=True)
        return torch.zeros_like(probs).scatter(-1, order, probs)

    return drawn_from


def in_two_orders(logits, temperature, top_k, top_p):
    probs = (logits / temperature).softmax(-1)
    if top_k is not None:
        probs = probs.masked_fill(probs < probs.topk(top_k).values[:, -1:], 0)
    share = (probs / probs.sum(-1, keepdim=True)).sort(descending=True).values
    probs = probs * (share.cumsum(-1) - share < top_p)
    return probs / probs.sum(-1, keepdim=True)


def cut_in(first=False, slim=None, mask=None, shift=None):
    """The solution of the page, with one line of it changed."""

    def drawn_from(logits, temperature, top_k, top_p):
        probs, order = (logits / temperature).softmax(-1).sort(dim=-1, descending=True)
        if top_k is not None and first:
            probs[:, :top_k] = 0
        elif top_k is not None and slim:
            probs, order = slim(probs, order, top_k)
        elif top_k is not None:
            probs[:, top_k:] = 0
        share = probs / probs.sum(-1, keepdim=True)
        before = share.cumsum(-1) - share if shift is None else shift(share.cumsum(-1))
        probs[before >= top_p if mask is None else mask(before, top_p)] = 0
        probs = probs / probs.sum(-1, keepdim=True)
        return torch.zeros_like(probs).scatter(-1, order, probs)

    return drawn_from


def by_a_library(scattered=True, first=True):
    """The recipe with a mask that moves by one place."""

    def drawn_from(logits, temperature, top_k, top_p):
        logits = logits / temperature
        if top_k is not None:
            logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -torch.inf)
        scores, order = logits.sort(descending=True)
        remove = scores.softmax(-1).cumsum(-1) > top_p
        remove[:, 1:] = remove[:, :-1].clone()
        if first:
            remove[:, 0] = False
        if scattered:
            remove = remove.scatter(1, order, remove)
        return logits.masked_fill(remove, -torch.inf).softmax(-1)

    return drawn_from


def test_the_recipe_of_a_library_passes(capsys):
    passes(capsys, by_a_library(), "drawn_from")


def one_behind(share, p):
    stays = share.cumsum(-1) - share < p
    n = stays.sum(-1, keepdim=True) + 1
    return torch.arange(share.size(-1)) < n


def one_bound_for_all(least):
    def drawn_from(logits, temperature, top_k, top_p):
        if top_k is not None:
            best = logits.topk(top_k).values
            logits = logits.masked_fill(logits < least(best), -torch.inf)
        return draw()(logits, temperature, None, top_p)

    return drawn_from


def nothing_without_top_k(logits, temperature, top_k, top_p):
    return draw()(logits, temperature, top_k or 0, top_p)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (cut_in(first=True), "the first top_k letters are dropped"),
        (cut_in(slim=lambda p, o, k: (p[:, :k], o[:, :k])), "top-k cuts columns off"),
        (cut_in(slim=lambda p, o, k: (p[:, :k], o)), "top-k cuts columns off"),
        (cut_in(mask=lambda before, p: before < p), "before the sum has reached top_p are dropped"),
        (by_a_library(first=False), "the first place of the moved mask is False"),
        (by_a_library(scattered=False), "counted in sorted order, and dropped in that"),
        (cut_in(shift=lambda sums: sums.roll(1, -1)), "the sums are moved around by `roll`"),
        (draw(warm=lambda x, t: (x * t).softmax(-1)), "the temperature multiplies"),
        (draw(warm=lambda x, t: x.softmax(-1) / t), "the temperature changes nothing"),
        (draw(warm=lambda x, t: x.softmax(-1)), "the temperature changes nothing"),
        (draw(warm=lambda x, t: F.softmax(x / t, dim=0)), "goes over the rows"),
        (draw(scale=False, back=soft_again), "a softmax follows the cuts"),
        (draw(k=lambda k: None), "top-k is not used"),
        (draw(k=lambda k: k + 1), "one too many"),
        (draw(inside=lambda share, p: share.cumsum(-1) <= p + 1e-6), "past top_p is left out"),
        (draw(inside=lambda share, p: share.cumsum(-1) <= p), "past top_p is left out"),
        (draw(inside=lambda share, p: share.cumsum(-1) < p), "past top_p is left out"),
        (draw(inside=lambda share, p: share > -1), "top-p is not used"),
        (draw(scale=False), "not made to sum to 1"),
        (draw(scale="early"), "as it was after top-k"),
        (draw(back=lambda probs, order: probs), "in sorted order"),
        (
            draw(back=lambda probs, order: probs[torch.arange(len(probs))[:, None], order]),
            "`gather`",
        ),
        (draw(scale=False, back=soft_of_the_kept), "a division by its sum"),
        (nothing_without_top_k, "everything is dropped where `top_k` is None"),
        (draw(back=lambda probs, order: probs[:, order]), "does not take row by row"),
        (draw(back=written_by_order), "does not take row by row"),
        (draw(inside=lambda share, p: share >= p), "compared with top_p by itself"),
        (draw(inside=lambda share, p: share >= 1 - p), "compared with top_p by itself"),
        (draw(inside=lambda share, p: share >= p * share.amax(-1, True)), "with top_p by itself"),
        (draw(scale="early", back=soft_again), "a softmax follows the cuts"),
        (draw(scale="early", back=soft_of_the_kept), "a division by its sum"),
        (draw(scale="early", back=one_sum_for_all), "the sum goes over all rows"),
        (lambda *given: by_the_library(*given).multinomial(1), "a letter is drawn"),
        (lambda *given: by_the_library(*given).multinomial(1).squeeze(1), "a letter is drawn"),
        (masked(fill=0.0), "a dropped letter's logit is set to 0"),
        (masked(descending=False), "the least probable letters are kept"),
        (masked(in_order=True), "nothing is sorted"),
        (in_two_orders, "what top-p drops is counted in sorted order"),
        (masked(stays=lambda sums, probs, p: sums <= p), "past top_p is left out"),
        (masked(stays=lambda sums, probs, p: sums < p), "past top_p is left out"),
        (draw(warm=lambda x, t: torch.softmax(x / t**2, dim=-1)), "the temperature divides twice"),
        (draw(inside=one_behind), "top-p keeps one too many"),
        (draw(inside=lambda share, p: share.cumsum(0) - share < p), "top-p sums down the rows"),
        (draw(inside=lambda share, p: share.cumsum(0) <= p), "top-p sums down the rows"),
        (one_bound_for_all(lambda best: best.min()), "the bound for all rows"),
        (one_bound_for_all(lambda best: best[0, -1]), "the bound for all rows"),
        (lambda x, t, k, p: x.softmax(-1) * 0 + 1 / x.size(-1), "✗ drawn_from, case"),
        (lambda x, t, k, p: None, "None"),
    ],
)
def test_wrong_ways_to_draw_are_named(capsys, function, diagnosis):
    fails(capsys, function, "drawn_from", diagnosis)


# ------------------------------------------------------------------------------------- text_loss


def in_windows(model, ids, length, stride):
    total, counted = 0.0, 0
    for start in range(0, len(ids) - 1, stride):
        reads = ids[start : start + length]
        labels = ids[start + 1 : start + length + 1]
        logits = model(reads[None, : len(labels)])[0]
        each = F.cross_entropy(logits, labels, reduction="none")
        each = each[counted - start :] if start else each
        total += each.sum()
        counted = start + len(labels)
    return total / (len(ids) - 1)


def letter_after_letter(model, ids, length, stride):
    """For each answer the window that has it first."""
    losses = []
    for answer in range(1, len(ids)):
        start = max(0, -(-(answer - length) // stride)) * stride
        logits = model(ids[None, start:answer])[0, -1]
        losses.append(F.cross_entropy(logits, ids[answer]).item())
    return sum(losses) / len(losses)


@pytest.mark.parametrize("function", [in_windows, letter_after_letter])
def test_right_losses_pass(capsys, function):
    passes(capsys, function, "text_loss")


def loss(
    shift=1,
    new=lambda each, known, stride: each[known:],
    whole=False,
    means=False,
    by=None,
    step=lambda length, stride: stride,
):
    def text_loss(model, ids, length, stride):
        parts, counted = [], 0
        for start in range(0, len(ids) - 1, step(length, stride)):
            reads = ids[start : start + length]
            labels = ids[start + 1 : start + 1 + length]
            if (whole is True or (whole and start > 0)) and len(labels) < length:
                break
            reads = reads[: len(labels)]
            logits = model(reads[None])[0]
            each = F.cross_entropy(logits, labels if shift else reads, reduction="none")
            parts.append(new(each, counted - start, stride))
            counted = start + len(labels)
            if counted == len(ids) - 1:
                break
        if means:
            return torch.stack([part.mean() for part in parts]).mean()
        found = torch.cat(parts)
        return by(found, ids) if by else found.mean()

    return text_loss


def without_the_past(model, ids, length, stride):
    starts = [0, *range(length, len(ids) - 1, stride)]
    losses = []
    for start, end in zip(starts, [*starts[1:], len(ids) - 1], strict=True):
        logits = model(ids[None, start:end])
        losses += F.cross_entropy(logits[0], ids[start + 1 : end + 1], reduction="none").tolist()
    return sum(losses) / len(losses)


def from_the_last_window(model, ids, length, stride):
    losses, start = [0.0] * (len(ids) - 1), 0
    while losses[-1] == 0:
        labels = ids[start + 1 : start + length + 1]
        log_p = model(ids[None, start : start + len(labels)]).log_softmax(-1)[0]
        for i, word in enumerate(labels):
            losses[start + i] = -log_p[i, word].item()
        start += stride
    return sum(losses) / len(losses)


def one_too_late(model, ids, length, stride):
    total, counted = 0.0, 0
    for start in range(0, len(ids) - 1, stride):
        labels = ids[start + 1 : start + length + 1]
        logits = model(ids[None, start : start + len(labels)])[0]
        known = counted - start + 1 if start else 0
        total += F.cross_entropy(logits, labels, reduction="none")[known:].sum()
        counted = start + len(labels)
        if counted == len(ids) - 1:
            return total / counted


def to_the_end(model, ids, length, stride):
    """Windows begin as long as there is a letter to ask for."""
    losses = []
    for start in range(0, len(ids) - 1, stride):
        labels = ids[start + 1 : start + length + 1]
        logits = model(ids[None, start : start + len(labels)])[0]
        each = F.cross_entropy(logits, labels, reduction="none")
        losses += each[-stride:] if start else each
    return sum(losses) / len(losses)


def behind_the_overlap(model, ids, length, stride):
    def new(each, known, stride):
        return each[length - stride :]

    return loss(new=new)(model, ids, length, stride)


def all_where_nothing_is_new(by):
    def text_loss(model, ids, length, stride):
        losses, asked = [], 0
        for start in range(0, len(ids) - 1, stride):
            end = min(start + length, len(ids) - 1)
            logits = model(ids[None, start:end])[0]
            each = F.cross_entropy(logits, ids[start + 1 : end + 1], reduction="none")
            losses += each[-(end - asked) :]
            asked = end
        return sum(losses) / by(losses, ids)

    return text_loss


def without_reduction(all_answers=False, mean=True, add=False):
    """The solution of the page, with one line of it changed."""

    def text_loss(model, ids, length, stride):
        total, counted = 0.0, 0
        for start in range(0, len(ids) - 1, stride):
            labels = ids[start + 1 : start + length + 1]
            reads = ids[start : start + len(labels)]
            each = F.cross_entropy(model(reads[None])[0], labels, reduction="none")
            new = each if all_answers else each[counted - start :]
            total += (new.mean() if mean else new.sum()).item()
            counted = counted + len(labels) if add else start + len(labels)
            if counted >= len(ids) - 1:
                break
        return total / counted

    return text_loss


def all_of(each, known, stride):
    return each


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (without_reduction(all_answers=True), "the means of the windows are added up"),
        (without_reduction(), "the means of the windows are added up"),
        (without_reduction(mean=False, add=True), "all answers of a window are added to `counted`"),
        (loss(new=all_of), "counted several times"),
        (
            loss(new=all_of, by=lambda each, ids: each.sum() / (len(ids) - 1)),
            "counted several times",
        ),
        (loss(new=lambda each, known, stride: each[-stride:]), "its last `stride` answers"),
        (
            loss(new=lambda each, known, stride: each[-stride:] if known else each),
            "some of them for the second time",
        ),
        (behind_the_overlap, "in the first window the letters before the last `stride`"),
        (all_where_nothing_is_new(lambda losses, ids: len(losses)), "windows go on after the last"),
        (
            all_where_nothing_is_new(lambda losses, ids: len(ids) - 1),
            "windows go on after the last",
        ),
        (to_the_end, "windows go on after the last letter"),
        (without_the_past, "the new letters only"),
        (from_the_last_window, "in the last window"),
        (one_too_late, "one letter too many"),
        (lambda model, ids, n, stride: loss()(model, ids, n - 1, stride), "`length` - 1 letters"),
        (loss(step=lambda length, stride: length), "do not overlap"),
        (loss(step=lambda length, stride: 1), "one letter later"),
        (loss(whole=True), "left out, because it is shorter"),
        (loss(whole="later"), "left out, because it is shorter"),
        (loss(means=True), "mean counts the same"),
        (loss(shift=0), "not shifted"),
        (loss(by=lambda each, ids: each.sum()), "added up"),
        (loss(by=lambda each, ids: each.sum() / len(ids)), "divided by the number of letters"),
        (loss(by=lambda each, ids: -each.mean()), "the sign is missing"),
        (loss(by=lambda each, ids: each.mean().exp()), "perplexity"),
        (lambda model, ids, length, stride: model(ids), "shape (B, T)"),
        (lambda model, ids, length, stride: float("NaN"), "NaN"),
    ],
)
def test_wrong_losses_are_named(capsys, function, diagnosis):
    fails(capsys, function, "text_loss", diagnosis)


def test_the_reader_looks_back_only_and_not_too_far():
    ids = torch.randint(7, (2, 8), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[:, 5] = (ids[:, 5] + 1) % 7
    moves = (Reader()(ids) - Reader()(other)).abs().amax(-1)
    assert (moves[:, :5] == 0).all() and (moves[:, 5:] > 0).all()
    with pytest.raises(ValueError, match="1 to 8 letters at once, got 9"):
        Reader()(torch.zeros(1, 9, dtype=torch.int64))
