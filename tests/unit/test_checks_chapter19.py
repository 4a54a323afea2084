"""Chapter 19's checkers: answers that real learners give, each diagnosed by name."""

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter19 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    return result, " ".join(capsys.readouterr().out.split())


# ----------------------------------------------------------------------------------- hidden_loss


def loss_by_torch(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)


def loss_of_the_asked(logits, labels):
    asked = labels > 0
    return F.cross_entropy(logits[asked], labels[asked])


def loss_in_loops(logits, labels):
    losses = []
    for text, wanted in zip(logits, labels, strict=True):
        for scores, word in zip(text, wanted, strict=True):
            if word != 0:
                losses.append(scores.exp().sum().log() - scores[word])
    return torch.stack(losses).mean()


def loss_by_one_hot(logits, labels):
    wanted = F.one_hot(labels, logits.size(-1)).to(logits.dtype)
    losses = -(wanted * F.log_softmax(logits, dim=2)).sum(2) * (labels != 0)
    return losses.sum() / (labels != 0).sum()


@pytest.mark.parametrize(
    "function", [loss_by_torch, loss_of_the_asked, loss_in_loops, loss_by_one_hot]
)
def test_right_losses_pass(capsys, function):
    result, said = verdict(capsys, function, "hidden_loss")
    assert result, said


def no_ignore(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels)


def summed(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=0, reduction="sum")


def over_all_places(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none") * (labels != 0)
    return losses.sum() / losses.numel()


def mean_of_means(logits, labels):
    each = [F.cross_entropy(x[y != 0], y[y != 0]) for x, y in zip(logits, labels, strict=True)]
    return torch.stack(each).mean()


def soft_twice(logits, labels):
    return F.cross_entropy(logits.softmax(-1)[labels != 0], labels[labels != 0])


def nll_of_logits(logits, labels):
    return F.nll_loss(logits[labels != 0], labels[labels != 0])


def positive(logits, labels):
    return logits.log_softmax(-1)[labels != 0, labels[labels != 0]].mean()


def log_of_the_mean(logits, labels):
    p = logits.softmax(-1)[labels != 0].gather(-1, labels[labels != 0][:, None])
    return p.mean().log().neg()


def viewed(logits, labels):
    logits = logits.view(logits.size(0), logits.size(2), logits.size(1))
    return F.cross_entropy(logits, labels, ignore_index=0)


def share_right(logits, labels):
    return (logits.argmax(-1)[labels != 0] == labels[labels != 0]).float().mean()


def others_at_0(logits, labels):
    logits = torch.where((labels != 0)[:, :, None], logits, 0.0)
    return F.cross_entropy(logits.mT, labels)


def all_words_at_all_places(logits, labels):
    asked = labels != 0
    log_p = logits[asked].log_softmax(dim=-1)
    return -log_p[:, labels[asked]].mean()


def an_axis_too_few(logits, labels):
    asked = labels != 0
    return -logits[asked].log_softmax(dim=-1).gather(-1, labels[asked]).mean()


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (
            lambda x, y: F.cross_entropy(x[y == 3], y[y == 3]),
            "[MASK] is looked for among the labels",
        ),
        (others_at_0, "the logits of the other places are set to 0"),
        (no_ignore, "every place counts"),
        (summed, "added up"),
        (over_all_places, "divided by all places"),
        (mean_of_means, "its own mean"),
        (soft_twice, "applied twice"),
        (nll_of_logits, "there is no softmax"),
        (positive, "the sign is missing"),
        (share_right, "share of right guesses"),
        (log_of_the_mean, "before the logarithm"),
        (
            lambda x, y: F.nll_loss(x.softmax(-1)[y != 0], y[y != 0]),
            "the logarithm is missing",
        ),
        (all_words_at_all_places, "every place is asked for the words of all"),
        (an_axis_too_few, "gets an index with another number of axes"),
        (viewed, "mixes places and words"),
        (lambda x, y: -x.log_softmax(-1).amax(-1)[y != 0].mean(), "the best word's probability"),
    ],
)
def test_wrong_losses_are_named(capsys, function, diagnosis):
    result, said = verdict(capsys, function, "hidden_loss")
    assert not result
    assert diagnosis in said


def test_a_loss_without_a_way_back_passes_and_hears_of_it(capsys):
    result, said = verdict(capsys, lambda *of: loss_in_loops(*of).item(), "hidden_loss")
    assert result
    assert "no gradient reaches `logits`" in said


# --------------------------------------------------------------------------------- one_at_a_time


def fill_while(guess, ids):
    ids = ids.clone()
    while (ids == 3).any():
        best, words = guess(ids).softmax(dim=-1).max(dim=-1)
        place = best.masked_fill(ids != 3, -1).argmax()
        ids[place] = words[place]
    return ids


def fill_in_lists(guess, ids):
    found = ids.tolist()
    while 3 in found:
        p = torch.softmax(guess(torch.tensor(found)), 1).tolist()
        _, place = max((max(row), i) for i, row in enumerate(p) if found[i] == 3)
        found[place] = max(range(len(p[place])), key=p[place].__getitem__)
    return torch.tensor(found)


@pytest.mark.parametrize("function", [fill_while, fill_in_lists])
def test_right_fillings_pass(capsys, function):
    result, said = verdict(capsys, function, "one_at_a_time")
    assert result, said


def at_once(guess, ids):
    ids = ids.clone()
    ids[ids == 3] = guess(ids).argmax(-1)[ids == 3]
    return ids


def left_to_right(guess, ids):
    ids = ids.clone()
    for i in range(len(ids)):
        if ids[i] == 3:
            ids[i] = guess(ids)[i].argmax()
    return ids


def by_logit(guess, ids):
    ids = ids.clone()
    while (ids == 3).any():
        best, words = guess(ids).max(dim=-1)
        place = best.masked_fill(ids != 3, -1e9).argmax()
        ids[place] = words[place]
    return ids


def least_sure(guess, ids):
    ids = ids.clone()
    while (ids == 3).any():
        best, words = guess(ids).softmax(dim=-1).max(dim=-1)
        place = best.masked_fill(ids != 3, 2).argmin()
        ids[place] = words[place]
    return ids


def surest_of_all(guess, ids):
    ids = ids.clone()
    while 3 in ids:
        best, words = guess(ids).softmax(dim=-1).max(dim=-1)
        ids[best.argmax()] = words[best.argmax()]
    return ids


def never_written(guess, ids):
    found = ids.clone()
    while 3 in ids:
        best, words = guess(ids).softmax(dim=-1).max(dim=-1)
        place = best.masked_fill(ids != 3, -1).argmax()
        found[place] = words[place]
    return found


def down_the_columns(guess, ids):
    ids = ids.clone()
    while 3 in ids:
        p = guess(ids).softmax(0)
        place = max((ids == 3).nonzero().flatten().tolist(), key=lambda i: p[i].max())
        ids[place] = p[place].argmax()
    return ids


def clearest(guess, ids):
    ids = ids.clone()
    while 3 in ids:
        p = guess(ids).softmax(-1).sort(-1, descending=True)
        lead = (p.values[:, 0] - p.values[:, 1]).where(ids == 3, -1)
        ids[lead.argmax()] = p.indices[lead.argmax(), 0]
    return ids


def among_the_blanks(guess, ids):
    ids = ids.clone()
    while 3 in ids:
        p, words = guess(ids)[ids == 3].softmax(-1).max(-1)
        ids[p.argmax()] = words[p.argmax()]
    return ids


def place_among_the_blanks(guess, ids):
    ids = ids.clone()
    while (ids == 3).any():
        p, words = guess(ids).softmax(dim=-1).max(dim=-1)
        place = p[ids == 3].argmax()
        ids[place] = words[place]
    return ids


def those_that_are(sure):
    def one_at_a_time(guess, ids):
        ids = ids.clone()
        while (ids == 3).any():
            p, words = guess(ids).softmax(dim=-1).max(dim=-1)
            p = torch.where(ids == 3, p, 0.0)
            m = sure(p)
            m[p.argmax()] = True
            ids[m & (ids == 3)] = words[m & (ids == 3)]
        return ids

    return one_at_a_time


def written_everywhere(guess, ids):
    ids = ids.clone()
    while (ids == 3).any():
        p, words = guess(ids).softmax(dim=-1).max(dim=-1)
        place = p.masked_fill(ids != 3, -1).argmax()
        ids[ids == 3] = words[place]
    return ids


def masked_the_wrong_way(guess, ids):
    ids = ids.clone()
    while (ids == 3).any():
        p, words = guess(ids).softmax(dim=-1).max(dim=-1)
        p[ids == 3] = 0
        ids[p.argmax()] = words[p.argmax()]
    return ids


def so_many_times(count):
    def one_at_a_time(guess, ids):
        ids = ids.clone()
        for _ in range(count(ids)):
            p, words = guess(ids).softmax(dim=-1).max(dim=-1)
            place = p.masked_fill(ids != 3, -1).argmax()
            ids[place] = words[place]
        return ids

    return one_at_a_time


def in_a_batch(guess, ids):
    return fill_while(lambda text: guess(text[None])[0], ids)


def place_for_word(guess, ids):
    ids = ids.clone()
    while 3 in ids:
        blanks = (ids == 3).nonzero().flatten()
        best = guess(ids)[blanks].softmax(-1).amax(-1).argmax()
        ids[blanks[best]] = best
    return ids


def one_only(guess, ids, always=False):
    ids = ids.clone()
    best, words = guess(ids).softmax(dim=-1).max(dim=-1)
    if always or (ids == 3).any():
        place = best.masked_fill(ids != 3, -1).argmax()
        ids[place] = words[place]
    return ids


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (at_once, "after one look"),
        (left_to_right, "from left to right"),
        (by_logit, "the largest logit"),
        (least_sure, "the least sure"),
        (one_only, "ends after one word"),
        (lambda guess, ids: one_only(guess, ids, always=True), "ends after one word"),
        (clearest, "over the second best word"),
        (among_the_blanks, "counted among the blanks"),
        (place_among_the_blanks, "counted among the blanks"),
        (those_that_are(lambda p: p > 0.9), "several words are written after one look"),
        (those_that_are(lambda p: p > 0.5), "several words are written after one look"),
        (those_that_are(lambda p: p >= 0.9 * p.max()), "several words are written after one look"),
        (
            those_that_are(lambda p: F.one_hot(p.topk(2).indices, len(p)).sum(0) > 0),
            "several words are written after one look",
        ),
        (written_everywhere, "written to all places that are hidden"),
        (masked_the_wrong_way, "chosen among the visible words"),
        (so_many_times(len), "it goes on when nothing is hidden"),
        (so_many_times(lambda ids: int((ids == 3).sum()) - 1), "one word too early"),
        (surest_of_all, "the surest of all places"),
        (place_for_word, "the number of the place is written"),
        (never_written, "the same text each time"),
        (down_the_columns, "the softmax goes over the places"),
        (lambda guess, ids: guess(ids).argmax(-1), "visible words are guessed"),
        (in_a_batch, "takes one text of shape (S,), got (1, 5)"),
    ],
)
def test_wrong_fillings_are_named(capsys, function, diagnosis):
    result, said = verdict(capsys, function, "one_at_a_time")
    assert not result
    assert diagnosis in said


# -------------------------------------------------------------------------------- mean_of_tokens


def mean_in_loop(x, ids):
    return torch.stack([row[i != 0].mean(dim=0) for row, i in zip(x, ids, strict=True)])


def mean_by_product(x, ids):
    share = (ids != 0).to(x.dtype)
    return torch.einsum("bs,bsd->bd", share / share.sum(1, keepdim=True), x)


def mean_of_nan(x, ids):
    return x.masked_fill((ids == 0).unsqueeze(-1), torch.nan).nanmean(dim=1)


@pytest.mark.parametrize("function", [mean_in_loop, mean_by_product, mean_of_nan])
def test_right_means_pass(capsys, function):
    result, said = verdict(capsys, function, "mean_of_tokens")
    assert result, said


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda x, ids: x.mean(dim=1), "the padding is counted too"),
        (lambda x, ids: (x * (ids != 0).unsqueeze(2)).mean(dim=1), "by the full length"),
        (lambda x, ids: (x * (ids != 0).unsqueeze(2)).sum(dim=1), "added up"),
        (lambda x, ids: x[:, 0], "first token"),
        (
            lambda x, ids: (x * (ids != 0)[..., None]).sum(dim=0) / (ids != 0).sum(1, keepdim=True),
            "over the texts, the axis 0",
        ),
        (lambda x, ids: x.mean(dim=2), "over the features"),
        (
            lambda x, ids: (x * (ids != 0)[:, :, None]).sum(2) / (ids != 0)[:, :, None].sum(2),
            "the mean goes over the features: it goes over the tokens",
        ),
        (lambda x, ids: x.mul((ids != 0).unsqueeze(2)).mean(dim=2), "over the features"),
        (lambda x, ids: x[:, : (ids != 0).sum(1).amin()].mean(dim=1), "the length of the shortest"),
        (lambda x, ids: x.max(dim=1).values, "largest number"),
        (
            lambda x, ids: (x * (ids != 0)[:, :, None]).sum(dim=1) / (ids != 0).sum(dim=1),
            "have no axis for the features",
        ),
        (
            lambda x, ids: torch.stack([row[i != 0].mean() for row, i in zip(x, ids, strict=True)]),
            "over the features as well",
        ),
        (lambda x, ids: mean_in_loop(x[:, 1:], ids[:, 1:]), "[CLS] is left out"),
        (lambda x, ids: mean_in_loop(x, F.pad(ids, (0, 1))[:, 1:]), "[SEP], is left out"),
        (lambda x, ids: mean_by_product(x, ids).unsqueeze(1), "without `keepdim`"),
    ],
)
def test_wrong_means_are_named(capsys, function, diagnosis):
    result, said = verdict(capsys, function, "mean_of_tokens")
    assert not result
    assert diagnosis in said
