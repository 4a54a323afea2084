"""Chapter 13's checkers: answers that real learners give, each diagnosed by name."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib.checks.chapter13 import check
from transformer_lib.data import collate

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    capsys.readouterr()
    return result


# --------------------------------------------------------------------------------- smoothed_loss


def loss_by_torch(logits, labels, epsilon):
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=epsilon
    )


def loss_in_loops(logits, labels, epsilon):
    total, n = 0.0, 0
    for row, answers in zip(logits.double(), labels, strict=True):
        for scores, right in zip(row, answers, strict=True):
            if right == 0:
                continue
            log_p = scores - torch.logsumexp(scores, 0)
            total += -(1 - epsilon) * log_p[right] - epsilon * sum(log_p) / len(log_p)
            n += 1
    return total / n


def loss_from_one_hot(logits, labels, epsilon):
    v = logits.shape[-1]
    goal = F.one_hot(labels, v) * (1 - epsilon) + epsilon / v
    loss = torch.einsum("btv,btv->bt", goal, -F.log_softmax(logits, dim=2))
    keep = (labels > 0).float()
    return torch.sum(loss * keep) / torch.sum(keep)


@pytest.mark.parametrize("function", [loss_by_torch, loss_in_loops, loss_from_one_hot])
def test_right_losses_pass(capsys, function):
    assert verdict(capsys, function, "smoothed_loss")


def flat(logits, labels):
    return logits.flatten(0, 1), labels.flatten()


def parts(logits, labels):
    log_p = logits.log_softmax(-1)
    return log_p, -log_p.gather(-1, labels[..., None])[..., 0], labels != 0


def with_padding(logits, labels, epsilon):
    return F.cross_entropy(*flat(logits, labels), label_smoothing=epsilon)


def divided_by_all(logits, labels, epsilon):
    loss = F.cross_entropy(
        *flat(logits, labels), label_smoothing=epsilon, ignore_index=0, reduction="none"
    )
    return loss.mean()


def row_by_row(logits, labels, epsilon):
    rows = [
        F.cross_entropy(row, answers, ignore_index=0, label_smoothing=epsilon)
        for row, answers in zip(logits, labels, strict=True)
    ]
    return sum(rows) / len(rows)


def not_divided(logits, labels, epsilon):
    return F.cross_entropy(
        *flat(logits, labels), ignore_index=0, label_smoothing=epsilon, reduction="sum"
    )


def over_the_others(logits, labels, epsilon):
    v = logits.size(-1)
    goal = torch.full_like(logits, epsilon / (v - 1)).scatter(-1, labels[..., None], 1 - epsilon)
    loss = -(goal * logits.log_softmax(-1)).sum(-1)
    return loss[labels != 0].mean()


def not_shared(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return ((1 - epsilon) * surprise + epsilon * -log_p.sum(-1))[real].mean()


def more_than_one(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return (surprise + epsilon * -log_p.mean(-1))[real].mean()


def exchanged(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return (epsilon * surprise + (1 - epsilon) * -log_p.mean(-1))[real].mean()


def no_smoothing(logits, labels, epsilon):
    return F.cross_entropy(*flat(logits, labels), ignore_index=0)


def no_minus(logits, labels, epsilon):
    return -loss_by_torch(logits, labels, epsilon)


def softmax_twice(logits, labels, epsilon):
    return loss_by_torch(logits.softmax(-1), labels, epsilon)


def no_softmax(logits, labels, epsilon):
    return F.nll_loss(*flat(logits, labels), ignore_index=0) * (1 - epsilon) - epsilon * (
        logits.mean(-1)[labels != 0].mean()
    )


def log_of_softmax(logits, labels, epsilon):
    log_p = logits.softmax(-1).log()
    surprise = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels != 0].mean()


def log_of_softmax_plus(logits, labels, epsilon):
    log_p = (logits.softmax(-1) + 1e-9).log()
    surprise = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels != 0].mean()


def over_positions(logits, labels, epsilon):
    log_p = F.log_softmax(logits, dim=1)
    surprise = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels != 0].mean()


def in_bits(logits, labels, epsilon):
    return loss_by_torch(logits, labels, epsilon) / math.log(2)


def without_pad(logits, labels, epsilon):
    v = logits.size(-1)
    goal = torch.full_like(logits, epsilon / (v - 2)).scatter(-1, labels[..., None], 1 - epsilon)
    goal[..., 0] = 0
    loss = -(goal * logits.log_softmax(-1)).sum(-1)
    return loss[labels != 0].mean()


def wrong_sign(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return ((1 - epsilon) * surprise + epsilon * log_p.mean(-1))[real].mean()


def one_term(logits, labels, epsilon):
    return (1 - epsilon) * loss_by_torch(logits, labels, 0.0)


def per_sentence(logits, labels, epsilon):
    return not_divided(logits, labels, epsilon) / labels.shape[0]


def not_averaged(logits, labels, epsilon):
    log_p, surprise, real = parts(logits, labels)
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1)) * real


def without_end(logits, labels, epsilon):
    log_p, surprise, _ = parts(logits, labels)
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels > 2].mean()


def smoothed_labels(logits, epsilon, labels):
    v = logits.size(-1)
    return torch.full_like(logits, epsilon / v).scatter_add(
        -1, labels[..., None], torch.full_like(logits, 1 - epsilon)[..., :1]
    )


def divergence(logits, labels, epsilon):
    goal = smoothed_labels(logits, epsilon, labels)
    loss = F.kl_div(logits.log_softmax(-1), goal, reduction="none").sum(-1)
    return loss[labels != 0].mean()


def divergence_by_sentences(logits, labels, epsilon):
    goal = smoothed_labels(logits, epsilon, labels) * (labels != 0)[..., None]
    return F.kl_div(logits.log_softmax(-1), goal, reduction="batchmean")


def probabilities(logits, labels, epsilon):
    p = logits.softmax(-1)
    right = p.gather(-1, labels[..., None])[..., 0]
    return (-(1 - epsilon) * right - epsilon * p.mean(-1))[labels != 0].mean()


def shifted_once_more(logits, labels, epsilon):
    return loss_by_torch(logits[:, :-1], labels[:, 1:], epsilon)


def per_place(logits, labels, epsilon):
    return not_divided(logits, labels, epsilon) / labels.shape[1]


def perplexity(logits, labels, epsilon):
    return loss_by_torch(logits, labels, epsilon).exp()


def a_tenth(logits, labels, epsilon):
    return loss_by_torch(logits, labels, 0.1)


def all_by_real(logits, labels, epsilon):
    each = loss_by_torch_each(logits, labels, epsilon)
    return each.sum() / (labels != 0).sum()


def loss_by_torch_each(logits, labels, epsilon):
    return F.cross_entropy(
        logits.transpose(1, 2), labels, label_smoothing=epsilon, reduction="none"
    )


def without_its_share(logits, labels, epsilon):
    v = logits.size(-1)
    goal = torch.full_like(logits, epsilon / v).scatter_(-1, labels[..., None], 1 - epsilon)
    return -(goal * logits.log_softmax(-1)).sum(-1)[labels != 0].mean()


def without_one(logits, labels, epsilon):
    log_p, surprise, _ = parts(logits, labels)
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels > 1].mean()


def over_the_batch(logits, labels, epsilon):
    log_p = F.log_softmax(logits, dim=0)
    surprise = -log_p.gather(-1, labels[..., None])[..., 0]
    return ((1 - epsilon) * surprise - epsilon * log_p.mean(-1))[labels != 0].mean()


def cut_off(logits, labels, epsilon):
    return loss_by_torch(logits, labels, epsilon).item()


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (divergence, "the KL divergence is taken"),
        (divergence_by_sentences, "the KL divergence is taken"),
        (without_its_share, "without its share, epsilon / V"),
        (without_one, "the label 1 is left out"),
        (over_the_batch, "softmax runs over the batch"),
        (shifted_once_more, "labels are shifted once more"),
        (per_place, "the number of places in a row"),
        (perplexity, "you return the perplexity"),
        (probabilities, "probabilities are used where their logarithms should be"),
        (with_padding, "padding is counted as if it were a label"),
        (divided_by_all, "the number it is divided by does not"),
        (row_by_row, "each row is averaged by itself"),
        (not_divided, "not divided by the number of real labels"),
        (over_the_others, "epsilon is spread over the wrong ids alone"),
        (not_shared, "not divided by the size of the vocabulary"),
        (more_than_one, "1 and epsilon together are more than 1"),
        (exchanged, "epsilon and 1 - epsilon have changed places"),
        (no_smoothing, "epsilon is not used"),
        (no_minus, "the loss has lost its minus sign"),
        (softmax_twice, "the logits go through softmax twice"),
        (no_softmax, "log_softmax is missing"),
        (log_of_softmax, "a probability underflows to 0"),
        (log_of_softmax_plus, "a small number is added before the logarithm"),
        (over_positions, "softmax runs over the positions"),
        (in_bits, "the logarithm has base 2"),
        (without_pad, "all ids but the right one and <pad>"),
        (wrong_sign, "the second term has the wrong sign"),
        (one_term, "the second term is missing"),
        (per_sentence, "divided by the number of sentences"),
        (not_averaged, "still to be averaged"),
        (without_end, "<eos> is left out like padding"),
        (lambda x, y, e: loss_by_torch(x.log_softmax(1), y, e), "over the positions"),
        (a_tenth, "the paper's 0.1 stands in its place"),
        (all_by_real, "padding is counted in the sum, and not in the number"),
        (cut_off, "no gradient reaches `logits`"),
    ],
)
def test_wrong_losses_are_told_apart(capsys, function, diagnosis):
    result = verdict(capsys, function, "smoothed_loss")
    assert not result
    assert diagnosis in " ".join(result.report.split())


# --------------------------------------------------------------------------------- learning_rate


def rate_in_two_pieces(step, d_model, warmup):
    peak = 1 / math.sqrt(d_model * warmup)
    if step <= warmup:
        return peak * step / warmup
    return peak * math.sqrt(warmup / step)


def rate_as_a_tensor(step, d_model, warmup):
    terms = torch.tensor([step**-0.5, step / warmup**1.5], dtype=torch.float64)
    return terms.min() / d_model**0.5


@pytest.mark.parametrize("function", [rate_in_two_pieces, rate_as_a_tensor])
def test_right_rates_pass(capsys, function):
    assert verdict(capsys, function, "learning_rate")


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (lambda s, d, w: d**-0.5 * max(s**-0.5, s * w**-1.5), "min where you have max"),
        (lambda s, d, w: (d * s) ** -0.5, "there is no climb"),
        (lambda s, d, w: s / (d**0.5 * w**1.5), "the descent is missing"),
        (lambda s, d, w: min(s / w, 1) / (d * w) ** 0.5, "stays at its peak"),
        (lambda s, d, w: min(s**-0.5, s * w**-1.5), "d_model is not used"),
        (lambda s, d, w: d**0.5 * min(s**-0.5, s * w**-1.5), "d_model has the exponent 0.5"),
        (lambda s, d, w: min(s**-0.5, s * w**-1.5) / d, "d_model has the exponent -1"),
        (lambda s, d, w: min(s**-0.5, s / w**0.5) / d**0.5, "warmup has the exponent -0.5"),
        (lambda s, d, w: min(s**-0.5, s * w**1.5) / d**0.5, "its exponent has lost its minus sign"),
        (lambda s, d, w: min(s**-0.5, s / w) / d**0.5, "the climb is a share of the warm-up"),
        (lambda s, d, w: min(s / w, (w / s) ** 0.5) / d**0.5, "its highest value is d_model^-0.5"),
        (lambda s, d, w: rate_in_two_pieces(s + 1, d, w), "the steps are counted from 0"),
        (lambda s, d, w: rate_in_two_pieces(s - 1, d, w), "1 is taken away from the step"),
        (
            lambda s, d, w: d**-0.5 * min((s - 1) ** -0.5, (s - 1) * w**-1.5),
            "1 is taken away from the step",
        ),
        (lambda s, d, w: d**-0.5 * min(1 / s, s * w**-1.5), "in proportion to the step"),
        (lambda s, d, w: min((d * s) ** -0.5, s * w**-1.5), "in one of the two terms only"),
        (lambda s, d, w: d**-0.5 * min(s**-1 / 2, s * w**-1.5), "a power binds before"),
        (lambda s, d, w: d**-1 / 2 * min(s**-1 / 2, s * w**-1.5), "a power binds before"),
        (lambda s, d, w: d**-0.5 * min(s**-1 / 2, s * w**-3 / 2), "a power binds before"),
        (lambda s, d, w: d**-0.5 * min(s**-0.5, w * s**-1.5), "have changed places in the second"),
        (lambda s, d, w: d**-0.5 * min(s**+0.5, s * w**-1.5), "the first term has lost its minus"),
        (lambda s, d, w: d**-0.5 * min(s**-0.5, w**-1.5), "the second term lacks the step"),
        (
            lambda s, d, w: d**-0.5 * (s * w**-1.5 if s <= w else (s - w) ** -0.5),
            "counted from the end of the warm-up",
        ),
        (lambda s, d, w: (d * min(s**-0.5, s * w**-1.5)) ** -0.5, "a bracket is around too much"),
        (lambda s, d, w: 512**-0.5 * min(s**-0.5, s * 4000**-1.5), "numbers of the paper's base"),
    ],
)
def test_wrong_rates_are_told_apart(capsys, function, diagnosis):
    result = verdict(capsys, function, "learning_rate")
    assert not result
    assert diagnosis in " ".join(result.report.split())


@pytest.mark.parametrize(
    "function", [lambda s, d, w: 2 * rate_in_two_pieces(s, d, w), lambda s, d, w: 1 // d**0.5 * s]
)
def test_a_rate_that_is_wrong_in_another_way_is_not_taken_for_a_known_one(capsys, function):
    result = verdict(capsys, function, "learning_rate")
    assert not result and "No mistake that this checker knows" in result.report


# --------------------------------------------------------------------------------- three_tensors


def tensors_by_collate(source_ids, target_ids):
    return collate(list(zip(source_ids, target_ids, strict=True)))


def tensors_by_pad_sequence(sources, targets):
    def fill(rows):
        rows = [torch.tensor(row) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    return [
        fill(sources),
        fill([[1, *row] for row in targets]),
        fill([[*row, 2] for row in targets]),
    ]


def tensors_by_slices(sources, targets):
    """Rows are cut before they are filled up."""
    whole = [[1, *row, 2] for row in targets]
    s, t = (max(map(len, rows)) for rows in (sources, whole))
    source = torch.zeros(len(sources), s, dtype=torch.long)
    reads, says = (torch.zeros(len(whole), t - 1, dtype=torch.long) for _ in range(2))
    for n, (row, target) in enumerate(zip(sources, whole, strict=True)):
        source[n, : len(row)] = torch.tensor(row)
        reads[n, : len(target) - 1] = torch.tensor(target[:-1])
        says[n, : len(target) - 1] = torch.tensor(target[1:])
    return source, reads, says


@pytest.mark.parametrize(
    "function", [tensors_by_collate, tensors_by_pad_sequence, tensors_by_slices]
)
def test_right_tensors_pass(capsys, function):
    assert verdict(capsys, function, "three_tensors")


def filled(rows, value=0, left=False):
    longest = max(map(len, rows))
    gaps = [[value] * (longest - len(row)) for row in rows]
    return torch.tensor([g + r if left else r + g for r, g in zip(rows, gaps, strict=True)])


def made(source, reads, says, **how):
    def three_tensors(sources, targets):
        return (
            filled([source(row) for row in sources], **how),
            filled([reads(row) for row in targets], **how),
            filled([says(row) for row in targets], **how),
        )

    return three_tensors


def same(row):
    return row


def begun(row):
    return [1, *row]


def ended(row):
    return [*row, 2]


def both(row):
    return [1, *row, 2]


def cut_after_padding(sources, targets):
    whole = filled([both(row) for row in targets])
    return filled(sources), whole[:, :-1], whole[:, 1:]


def rolled(sources, targets):
    whole = filled([both(row) for row in targets])
    return filled(sources), whole, torch.roll(whole, -1, dims=1)


def ended_behind_padding(sources, targets):
    target, n = filled(targets), len(targets)
    reads = torch.cat([torch.full((n, 1), 1), target], dim=1)
    return filled(sources), reads, torch.cat([target, torch.full((n, 1), 2)], dim=1)


def as_wide_as_the_widest(sources, targets):
    reads, says = [[1, *row] for row in targets], [[*row, 2] for row in targets]
    t = len(targets)
    together = filled([*sources, *reads, *says])
    return together[: len(sources)], together[-2 * t : -t], together[-t:]


def cut_by_zip(sources, targets):
    columns = (
        zip(*rows, strict=False) for rows in (sources, map(begun, targets), map(ended, targets))
    )
    return tuple(torch.tensor(list(column)).T for column in columns)


def in_tables_of_zeros(sources, targets):
    def table(rows):
        found = torch.zeros(len(rows), max(map(len, rows)))
        for i, row in enumerate(rows):
            found[i, : len(row)] = torch.tensor(row)
        return found

    return table(sources), table([*map(begun, targets)]), table([*map(ended, targets)])


def as_they_are(sources, targets):
    return [
        torch.tensor(rows) for rows in (sources, [*map(begun, targets)], [*map(ended, targets)])
    ]


def up_to_the_first(sources, targets):
    def table(rows):
        width = len(rows[0])
        return torch.tensor([row + [0] * (width - len(row)) for row in rows])

    reads, says = table([[1, *row] for row in targets]), table([[*row, 2] for row in targets])
    return table(sources), reads, says


def in_columns(sources, targets):
    def table(rows):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows])

    return table(sources), table([*map(begun, targets)]), table([*map(ended, targets)])


def inserted(sources, targets):
    for row in targets:
        row.insert(0, 1)
    return filled(sources), filled(targets), filled([[*row, 2] for row in targets])


def swapped(sources, targets):
    return tensors_by_collate(targets, sources)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (made(same, ended, ended), "the shift is missing"),
        (made(same, begun, begun), "the shift is missing"),
        (made(same, begun, same), "<eos> is missing in the labels"),
        (made(same, both, ended), "the decoder reads <eos>"),
        (made(same, begun, both), "<bos> is among the labels"),
        (made(same, same, ended), "<bos> is missing"),
        (cut_after_padding, "the last column is cut off after padding"),
        (rolled, "rolled and not shifted"),
        (ended_behind_padding, "<eos> stands behind the padding"),
        (made(same, ended, begun), "the shift goes the wrong way"),
        (made(same, lambda r: [1, *r[:-1]], ended), "lacks the last id of the target"),
        (made(same, begun, lambda r: [*r[1:], 2]), "lack the first id of the target"),
        (made(same, lambda r: r[:-1], lambda r: r[1:]), "as if <bos> and <eos> were in it"),
        (as_they_are, "rows are not filled up"),
        (up_to_the_first, "the length of the first one"),
        (in_columns, "`pad_sequence` makes rows with batch_first=True"),
        (inserted, "It also changed its input `target_ids` in place."),
        (made(same, begun, ended, left=True), "the padding stands in front"),
        (made(same, begun, ended, value=2), "filled up with <eos>"),
        (made(same, begun, ended, value=-100), "filled up with -100"),
        (lambda s, t: tensors_by_collate(s, t)[:2], "a tensor is missing"),
        (cut_by_zip, "cut to the shortest"),
        (in_tables_of_zeros, "makes floats"),
        (made(same, begun, ended, value=1), "rows are filled up with <bos>"),
        (as_wide_as_the_widest, "source and target are filled up to one common length"),
        (made(both, begun, ended), "the source gets <bos>, <eos> or both"),
        (made(ended, begun, ended), "the source gets <bos>, <eos> or both"),
        (made(same, lambda r: [2, *r], lambda r: [*r, 1]), "1 begins and 2 ends"),
        (swapped, "source and target have changed places"),
        (lambda s, t: tensors_by_collate(s[:1], t[:1]), "only the first pair"),
    ],
)
def test_wrong_tensors_are_told_apart(capsys, function, diagnosis):
    result = verdict(capsys, function, "three_tensors")
    assert not result
    assert diagnosis in " ".join(result.report.split())


# ---------------------------------------------------------------------------------- joint_update


def totalled(model, part, reads=None, ignored=0):
    logits = model(part.source, part.target_input if reads is None else reads)
    log_p = logits.log_softmax(-1)
    surprise = -log_p.gather(-1, part.labels[..., None])[..., 0]
    return surprise[part.labels != ignored].sum()


def counted(part):
    return (part.labels != 0).sum()


def update_in_parts(model, optimizer, batches):
    count = sum(counted(part) for part in batches)
    optimizer.zero_grad()
    losses = []
    for part in batches:
        loss = totalled(model, part) / count
        loss.backward()
        losses.append(loss.detach())
    optimizer.step()
    return sum(losses)


def update_weighted(model, optimizer, batches):
    """Means, each with its share of the labels; cleared afterwards."""
    count = sum(counted(part).item() for part in batches)
    whole = 0.0
    for part in batches:
        logits = model(part.source, part.target_input)
        mean = F.cross_entropy(logits.mT, part.labels, ignore_index=0)
        (mean * counted(part) / count).backward()
        whole += mean.item() * counted(part).item() / count
    optimizer.step()
    optimizer.zero_grad()
    return whole


def update_reported(model, optimizer, batches):
    """Looks at each part once more, with a graph that is never used."""
    reported = sum(totalled(model, part).item() for part in batches) / sum(map(counted, batches))
    update_weighted(model, optimizer, batches)
    return reported


def update_of_one_sum(model, optimizer, batches):
    loss = sum(totalled(model, part) for part in batches) / sum(map(counted, batches))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("function", [update_in_parts, update_weighted, update_reported])
def test_right_updates_pass(capsys, function):
    assert verdict(capsys, function, "joint_update")


def two_loops(model, optimizer, batches):
    optimizer.zero_grad()
    losses = [totalled(model, part) / sum(map(counted, batches)) for part in batches]
    for loss in losses:
        loss.backward()
    optimizer.step()
    return sum(losses).item()


def put_together(model, optimizer, batches):
    def joined(name):
        rows = [row for part in batches for row in getattr(part, name)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    whole = type(batches[0])(joined("source"), joined("target_input"), joined("labels"))
    return update_in_parts(model, optimizer, [whole])


def test_the_report_on_an_update_has_no_parameter_groups(capsys):
    text = verdict(capsys, lambda *given: 7.0, "joint_update").report
    assert "optimizer = torch.optim.SGD(model.parameters(), lr=0.5)\n" in text
    assert "Parameter Group" not in text


def not_cleared(model, optimizer, batches):
    count = sum(map(counted, batches))
    losses = [totalled(model, part) / count for part in batches]
    for loss in losses:
        loss.backward()
    optimizer.step()
    return sum(losses).item()


def cleared_each_time(model, optimizer, batches):
    count, whole = sum(map(counted, batches)), 0.0
    for part in batches:
        optimizer.zero_grad()
        loss = totalled(model, part) / count
        loss.backward()
        whole += loss.item()
    optimizer.step()
    return whole


def a_step_for_each(model, optimizer, batches):
    losses = []
    for part in batches:
        loss = totalled(model, part) / counted(part)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def mean_of_means(model, optimizer, batches):
    optimizer.zero_grad()
    whole = 0.0
    for part in batches:
        loss = totalled(model, part) / counted(part) / len(batches)
        loss.backward()
        whole += loss.item()
    optimizer.step()
    return whole


def sum_of_means(model, optimizer, batches):
    optimizer.zero_grad()
    losses = [totalled(model, part) / counted(part) for part in batches]
    for loss in losses:
        loss.backward()
    optimizer.step()
    return sum(losses).item() / len(losses)


def padding_counted(model, optimizer, batches):
    optimizer.zero_grad()
    count = sum(part.labels.numel() for part in batches)
    loss = sum(totalled(model, part, ignored=-1) for part in batches) / count
    loss.backward()
    optimizer.step()
    return loss.item()


def padding_in_the_divisor(model, optimizer, batches):
    optimizer.zero_grad()
    count = sum(part.labels.numel() for part in batches)
    loss = sum(totalled(model, part) for part in batches) / count
    loss.backward()
    optimizer.step()
    return loss.item()


def by_sentences(model, optimizer, batches):
    optimizer.zero_grad()
    count = sum(len(part.labels) for part in batches)
    loss = sum(totalled(model, part) for part in batches) / count
    loss.backward()
    optimizer.step()
    return loss.item()


def undivided(model, optimizer, batches):
    optimizer.zero_grad()
    loss = sum(totalled(model, part) for part in batches)
    loss.backward()
    optimizer.step()
    return loss.item() / sum(map(counted, batches)).item()


def not_stepped(model, optimizer, batches):
    optimizer.zero_grad()
    loss = sum(totalled(model, part) for part in batches) / sum(map(counted, batches))
    loss.backward()
    return loss.item()


def stepped_too_early(model, optimizer, batches):
    optimizer.step()
    optimizer.zero_grad()
    loss = sum(totalled(model, part) for part in batches) / sum(map(counted, batches))
    loss.backward()
    return loss.item()


def answers_on_the_desk(model, optimizer, batches):
    optimizer.zero_grad()
    loss = sum(totalled(model, part, reads=part.labels) for part in batches)
    loss = loss / sum(map(counted, batches))
    loss.backward()
    optimizer.step()
    return loss.item()


def the_sum_returned(model, optimizer, batches):
    return update_in_parts(model, optimizer, batches) * sum(map(counted, batches))


def the_last_returned(model, optimizer, batches):
    optimizer.zero_grad()
    count = sum(map(counted, batches))
    for part in batches:
        total = totalled(model, part)
        (total / count).backward()
    optimizer.step()
    return total / counted(part)


def mean_of_means_returned(model, optimizer, batches):
    means = [(totalled(model, part) / counted(part)).item() for part in batches]
    update_in_parts(model, optimizer, batches)
    return sum(means) / len(means)


def shifted_by_two(model, optimizer, batches):
    parts = [
        part._replace(target_input=part.target_input[:, :-1], labels=part.labels[:, 1:])
        for part in batches
    ]
    optimizer.zero_grad()
    loss = sum(totalled(model, part) for part in parts) / sum(map(counted, batches))
    loss.backward()
    optimizer.step()
    return loss.item()


def by_source_ids(model, optimizer, batches):
    optimizer.zero_grad()
    count = sum((part.source != 0).sum() for part in batches)
    whole = 0.0
    for part in batches:
        loss = totalled(model, part) / count
        loss.backward()
        whole += loss.item()
    optimizer.step()
    return whole


def by_parts(model, optimizer, batches):
    optimizer.zero_grad()
    whole = 0.0
    for part in batches:
        loss = totalled(model, part) / len(batches)
        loss.backward()
        whole += loss.item()
    optimizer.step()
    return whole


def counted_as_they_come(model, optimizer, batches):
    optimizer.zero_grad()
    whole, count = 0.0, 0
    for part in batches:
        count += counted(part)
        loss = totalled(model, part) / count
        loss.backward()
        whole += loss.item()
    optimizer.step()
    return whole


def means_by_all(model, optimizer, batches):
    optimizer.zero_grad()
    whole, count = 0.0, sum(map(counted, batches))
    for part in batches:
        logits = model(part.source, part.target_input)
        loss = F.cross_entropy(logits.mT, part.labels, ignore_index=0) / count
        loss.backward()
        whole += loss.item()
    optimizer.step()
    return whole


def softmax_in_front(model, optimizer, batches):
    optimizer.zero_grad()
    whole, count = 0.0, sum(map(counted, batches))
    for part in batches:
        p = model(part.source, part.target_input).softmax(-1)
        loss = F.cross_entropy(p.mT, part.labels, ignore_index=0, reduction="sum") / count
        loss.backward()
        whole += loss.item()
    optimizer.step()
    return whole


def divided_by_the_parts_at_the_end(model, optimizer, batches):
    return update_in_parts(model, optimizer, batches) / len(batches)


def only_the_last(model, optimizer, batches):
    return update_in_parts(model, optimizer, batches[-1:])


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (not_cleared, "the old gradient is not cleared"),
        (cleared_each_time, "the gradient is cleared before every part"),
        (only_the_last, "only the last part's is left for the step"),
        (a_step_for_each, "every part takes a step of its own"),
        (mean_of_means, "each part is averaged by itself"),
        (sum_of_means, "the averages of the parts are added up"),
        (update_of_one_sum, "before any goes backward"),
        (two_loops, "before any goes backward"),
        (put_together, "put together into one batch"),
        (padding_counted, "padding is counted as if it were a label"),
        (padding_in_the_divisor, "the number it is divided by does not"),
        (by_sentences, "divided by the number of sentences"),
        (by_source_ids, "the number of ids in the sources"),
        (by_parts, "the number of parts and not of labels"),
        (counted_as_they_come, "counted as the parts come"),
        (means_by_all, 'it needs reduction="sum"'),
        (softmax_in_front, "softmax twice"),
        (divided_by_the_parts_at_the_end, "the number of parts once more"),
        (undivided, "the surprises go backward undivided"),
        (not_stepped, "nothing reaches the parameters"),
        (stepped_too_early, "the step comes before backward"),
        (answers_on_the_desk, "which are the answers"),
        (the_sum_returned, "the sum of the surprises is returned"),
        (the_last_returned, "the loss of the last part alone is returned"),
        (mean_of_means_returned, "the loss returned is the mean of the parts' means"),
        (shifted_by_two, "labels are shifted once more"),
    ],
)
def test_wrong_updates_are_told_apart(capsys, function, diagnosis):
    result = verdict(capsys, function, "joint_update")
    assert not result
    assert diagnosis in " ".join(result.report.split())


def test_an_update_that_returns_nothing_is_told_so(capsys):
    result = verdict(capsys, lambda m, o, b: update_in_parts(m, o, b) and None, "joint_update")
    assert "is a `return` missing?" in result.report


def test_the_smallest_failing_input_of_a_loss_can_be_read(capsys):
    result = verdict(
        capsys, lambda logits, labels, e: loss_by_torch(logits, labels, e) + 1, "smoothed_loss"
    )
    assert (
        "No mistake that this checker knows" in result.report
        and "logits = torch.tensor([[[" in result.report
    )
    padded = verdict(
        capsys,
        lambda logits, labels, e: loss_by_torch(logits, labels, e) + (labels == 0).any() / 7,
        "smoothed_loss",
    )
    assert "logits = torch.tensor([[[1.0" in padded.report
