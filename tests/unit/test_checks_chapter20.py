"""Chapter 20's checkers: answers that real learners give, each diagnosed by name."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.checks.chapter20 import check

pytestmark = pytest.mark.slow


def verdict(capsys, function, name):
    function.__name__ = name
    result = check(function)
    return result, " ".join(capsys.readouterr().out.split())


# ----------------------------------------------------------------------------------- add_extract


def by_scatter(ids, extract):
    longer = F.pad(ids, (0, 1))
    ends = (ids != 0).sum(dim=1, keepdim=True)
    return longer.scatter(1, ends, extract)


def by_lists(ids, extract):
    width = ids.size(1) + 1
    rows = [[i for i in row if i != 0] + [extract] for row in ids.tolist()]
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


@pytest.mark.parametrize("function", [by_scatter, by_lists])
def test_right_extracts_pass(capsys, function):
    result, said = verdict(capsys, function, "add_extract")
    assert result, said


def all_padding(ids, extract):
    longer = F.pad(ids, (0, 1))
    return longer.masked_fill(longer == 0, extract)


def at_the_first_0(ids, extract):
    found = F.pad(ids, (0, 1))
    for row, text in zip(found, ids, strict=True):
        row[text.eq(0).byte().argmax()] = extract
    return found


def where_there_is_padding(ids, extract):
    rows = [[*row, 0] for row in ids.tolist()]
    for row in rows:
        if 0 in row[:-1]:
            row[row.index(0)] = extract
    return torch.tensor(rows)


def all_ends(ids, extract):
    found = F.pad(ids, (0, 1))
    for end in (ids != 0).sum(1):
        found[:, end] = extract
    return found


def in_place_too(ids, extract):
    found = by_scatter(ids, extract)
    ids.copy_(found[:, :-1])
    return found


def no_longer(ids, extract):
    found = ids.clone()
    found[range(len(ids)), (ids != 0).sum(1)] = extract
    return found


def as_floats(ids, extract):
    return by_scatter(torch.cat([ids, torch.zeros(len(ids), 1)], 1)[:, :-1], float(extract))


def in_the_same_room(ids, extract):
    ends = (ids != 0).sum(1, keepdim=True).clamp(max=ids.size(1) - 1)
    return ids.scatter(1, ends, extract)


def one_behind(ids, extract):
    ends = (ids != 0).sum(1, keepdim=True)
    return F.pad(ids, (0, 2)).scatter(1, ends + 1, extract)[:, :-1]


def behind_the_first_2(ids, extract):
    found, ends = F.pad(ids, (0, 1)), (ids == 2).int().argmax(dim=1) + 1
    found[torch.arange(len(ids)), ends] = extract
    return found


def behind_the_last_2(ids, extract):
    ends = (torch.arange(ids.size(1)) * (ids == 2)).amax(dim=1, keepdim=True) + 1
    return F.pad(ids, (0, 1)).scatter(1, ends, extract)


def before_the_index(ids, extract):
    found = [[*row, 0] for row in ids.tolist()]
    for row in found:
        row[row.index(2) + 1] = extract
    return torch.tensor(found)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (behind_the_first_2, "the number 2 is looked for"),
        (behind_the_last_2, "the number 2 is looked for"),
        (before_the_index, "the number 2 is looked for"),
        (at_the_first_0, "its first token is overwritten"),
        (where_there_is_padding, "gets no token"),
        (all_ends, "at the ends of all texts"),
        (no_longer, "do not get longer"),
        (in_the_same_room, "do not get longer"),
        (one_behind, "one padding stands between"),
        (as_floats, "joined with floats"),
        (lambda ids, extract: F.pad(ids, (0, 1), value=extract), "the last column of every row"),
        (all_padding, "all padding becomes the token"),
        (lambda ids, extract: F.pad(ids, (1, 0), value=extract), "stands in front"),
        (lambda ids, extract: by_scatter(ids, extract)[:, :-1], "do not get longer"),
        (lambda ids, extract: F.pad(ids, (0, 1)), "the token is not there"),
    ],
)
def test_wrong_extracts_are_named(capsys, function, diagnosis):
    result, said = verdict(capsys, function, "add_extract")
    assert not result
    assert diagnosis in said


def test_right_ids_that_change_the_given_ones_have_no_other_mistake(capsys):
    result, said = verdict(capsys, in_place_too, "add_extract")
    assert not result
    assert "changed its input `ids`" in said and "That is what happens" not in said


# ------------------------------------------------------------------------------------ joint_loss


def by_torch(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:], ignore_index=0)
    return F.cross_entropy(label_logits, labels) + share * words


def by_hand(label_logits, labels, word_logits, ids, share):
    new = -label_logits.log_softmax(1)[torch.arange(len(labels)), labels].mean()
    log_p = word_logits.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
    real = ids[:, 1:] != 0
    return new - share * (log_p * real).sum() / real.sum()


@pytest.mark.parametrize("function", [by_torch, by_hand])
def test_right_joint_losses_pass(capsys, function):
    result, said = verdict(capsys, function, "joint_loss")
    assert result, said


def not_shifted(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits.mT, ids, ignore_index=0)
    return F.cross_entropy(label_logits, labels) + share * words


def with_padding(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:])
    return F.cross_entropy(label_logits, labels) + share * words


def alike(label_logits, labels, word_logits, ids, share):
    return by_torch(label_logits, labels, word_logits, ids, 1)


def by_all_places(label_logits, labels, word_logits, ids, share):
    logits, wanted = word_logits[:, :-1], ids[:, 1:]
    words = F.cross_entropy(logits.mT, wanted, ignore_index=0, reduction="sum") / wanted.numel()
    return F.cross_entropy(label_logits, labels) + share * words


def by_texts(label_logits, labels, word_logits, ids, share):
    each = F.cross_entropy(word_logits[:, :-1].mT, ids[:, 1:], ignore_index=0, reduction="none")
    return F.cross_entropy(label_logits, labels) + share * each.sum(dim=1).mean()


def by_what_is_read(label_logits, labels, word_logits, ids, share):
    read = ids[:, :-1] != 0
    words = F.cross_entropy(word_logits[:, :-1][read], ids[:, 1:][read])
    return F.cross_entropy(label_logits, labels) + share * words


def viewed(label_logits, labels, word_logits, ids, share):
    logits = word_logits[:, :-1].reshape(len(ids), word_logits.size(2), ids.size(1) - 1)
    words = F.cross_entropy(logits, ids[:, 1:], ignore_index=0)
    return F.cross_entropy(label_logits, labels) + share * words


def no_label_0(label_logits, labels, word_logits, ids, share):
    loss = torch.nn.CrossEntropyLoss(ignore_index=0)
    return loss(label_logits, labels) + share * loss(word_logits[:, :-1].mT, ids[:, 1:])


def rolled(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits.mT, torch.roll(ids, -1, 1), ignore_index=0)
    return F.cross_entropy(label_logits, labels) + share * words


def cut_alike(cut):
    def joint_loss(label_logits, labels, word_logits, ids, share):
        words = F.cross_entropy(word_logits[:, cut].mT, ids[:, cut], ignore_index=0)
        return F.cross_entropy(label_logits, labels) + share * words

    return joint_loss


def texts_shifted(label_logits, labels, word_logits, ids, share):
    words = F.cross_entropy(word_logits[:-1].mT, ids[1:], ignore_index=0)
    return F.cross_entropy(label_logits, labels) + share * words


def by_all_words(label_logits, labels, word_logits, ids, share):
    log_p = word_logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    words = -log_p[ids[:, 1:] != 0].sum() / (ids != 0).sum()
    return F.cross_entropy(label_logits, labels) + share * words


def with_softmax(of_labels, of_words):
    def joint_loss(label_logits, labels, word_logits, ids, share):
        if of_labels:
            label_logits = label_logits.softmax(dim=-1)
        if of_words:
            word_logits = word_logits.softmax(dim=-1)
        return by_torch(label_logits, labels, word_logits, ids, share)

    return joint_loss


def share_of_both(label_logits, labels, word_logits, ids, share):
    return share * by_torch(label_logits, labels, word_logits, ids, 1)


def labels_alone(label_logits, labels, word_logits, ids, share):
    return F.cross_entropy(label_logits, labels)


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (not_shifted, "at their own places"),
        (with_padding, "padding is counted"),
        (alike, "the share is not used"),
        (labels_alone, "the old task is gone"),
        (by_all_places, "divided by all places"),
        (by_texts, "only the texts are averaged"),
        (by_what_is_read, "among the words that are read"),
        (no_label_0, "the label 0 is left out"),
        (rolled, "the words are rolled"),
        (viewed, "mixes places and words"),
        (cut_alike(slice(None, -1)), "at their own places"),
        (cut_alike(slice(1, None)), "at their own places"),
        (texts_shifted, "the texts are shifted"),
        (by_all_words, "by the number of all words"),
        (with_softmax(True, False), "twice to the logits of the labels"),
        (with_softmax(False, True), "twice to the logits of the words"),
        (with_softmax(True, True), "twice to all logits"),
        (share_of_both, "the share is on both losses"),
    ],
)
def test_wrong_joint_losses_are_named(capsys, function, diagnosis):
    result, said = verdict(capsys, function, "joint_loss")
    assert not result
    assert diagnosis in said


def test_a_joint_loss_without_a_way_back_passes_and_hears_of_it(capsys):
    result, said = verdict(capsys, lambda *of: by_hand(*of).item(), "joint_loss")
    assert result
    assert "no gradient reaches `label_logits`" in said


# -------------------------------------------------------------------------------------- low_rank


def merged(x, weight, bias, a, b, alpha):
    return F.linear(x, weight + b @ a * (alpha / len(a)), bias)


def in_steps(x, weight, bias, a, b, alpha):
    return F.linear(x, weight, bias) + nn.functional.linear(F.linear(x, a), b) * alpha / b.size(1)


def frozen(x, weight, bias, a, b, alpha):
    kept = F.linear(x, weight.detach(), bias.detach())
    return kept + alpha / a.shape[0] * (x @ a.T @ b.T)


@pytest.mark.parametrize("function", [merged, in_steps, frozen])
def test_right_layers_pass(capsys, function):
    result, said = verdict(capsys, function, "low_rank")
    assert result, said


def reshaped(x, weight, bias, a, b, alpha):
    d, out = x.size(-1), len(bias)
    added = x @ a.reshape(d, -1) @ b.reshape(-1, out)
    return F.linear(x, weight, bias) + alpha / len(a) * added


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (reshaped, "take `.T`"),
        (
            lambda x, w, bias, a, b, alpha: x @ w + bias + alpha / len(a) * (x @ a.T @ b.T),
            "and the second 2 rows: a transpose is missing",
        ),
        (
            lambda x, w, bias, a, b, alpha: (w @ x.T + alpha / len(a) * (b @ a @ x.T)).T + bias,
            "`.T` turns the order of all axes around, and `x` has more than two",
        ),
        (
            lambda x, w, bias, a, b, alpha: (
                F.linear(x, w, bias) + alpha / len(a) * F.linear(F.linear(x, b), a)
            ),
            "x goes through b first",
        ),
        (
            lambda x, w, bias, a, b, alpha: F.linear(x, w + int(alpha / len(a)) * b @ a, bias),
            "rounded to a whole number",
        ),
        (lambda x, w, bias, a, b, alpha: F.linear(x, w + b @ a, bias), "is not scaled"),
        (lambda x, w, bias, a, b, alpha: F.linear(x, w + alpha * b @ a, bias), "not divided"),
        (lambda x, w, bias, a, b, alpha: F.linear(x, w, bias), "nothing is added"),
        (lambda x, w, bias, a, b, alpha: F.linear(x, w + b @ a * alpha / len(a)), "the bias is"),
    ],
)
def test_wrong_layers_are_named(capsys, function, diagnosis):
    result, said = verdict(capsys, function, "low_rank")
    assert not result
    assert diagnosis in said


@pytest.mark.parametrize("name", ["x", "a", "b"])
def test_a_layer_whose_own_matrices_cannot_learn_is_told(capsys, name):
    def low_rank(x, weight, bias, a, b, alpha):
        given = {"x": x, "a": a, "b": b}
        given[name] = given[name].detach()
        added = given["x"] @ given["a"].T @ given["b"].T
        frozen = F.linear(x.detach() if name == "x" else x, weight, bias)
        return frozen + alpha / len(a) * added

    result, said = verdict(capsys, low_rank, "low_rank")
    assert not result
    assert f"no gradient reaches `{name}`" in said
