"""Checkers for answers that are no tensors from tensors, as chapters 12 to 14 ask for them."""

import itertools
import threading
import time
from collections import Counter

import pytest
import torch
from torch import nn

from transformer_lib.checks import Case, Checker, Exercise
from transformer_lib.checks.deadline import StillRunning, time_limit
from transformer_lib.checks.inputs import drawn, random_tensor


def checker(**exercise):
    return Checker(Exercise(section="Again", **{"mistakes": {}, **exercise}))


def verdict(check, answer):
    (answer.__name__,) = check.exercises
    return check(answer).report


# -------------------------------------------------------------------------- words, lists and dicts


def merges(words, n, choose=max):
    """The `n` most frequent pairs, merged one after the other."""
    pieces, found = {tuple(word): count for word, count in words.items()}, []
    for _ in range(n):
        pairs = Counter()
        for piece, count in pieces.items():
            for pair in itertools.pairwise(piece):
                pairs[pair] += count
        if not pairs:
            break
        best = choose(sorted(pairs), key=pairs.get)
        found.append(best)
        pieces = {merged(piece, best): count for piece, count in pieces.items()}
    return found


def merged(piece, pair):
    out = []
    for part in piece:
        out.append(part)
        if tuple(out[-2:]) == pair:
            out[-2:] = ["".join(pair)]
    return tuple(out)


WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
MERGES = checker(
    name="merges",
    reference=merges,
    cases=[Case("one word", {"aab": 1}, 2), Case("four words", WORDS, 5)],
    mistakes={
        "the counts of the words are not used": lambda words, n: merges(dict.fromkeys(words, 1), n),
        "the rarest pair is merged": lambda words, n: merges(words, n, choose=min),
    },
)


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (lambda words, n: [list(pair) for pair in merges(words, n)], "all 2 cases pass"),
        (lambda words, n: (pair for pair in merges(words, n)), "all 2 cases pass"),
        (
            lambda words, n: merges(dict.fromkeys(words, 1), n),
            "Item 4 of your result is ('d', 'est'), and that is not right.\n"
            "  That is what happens when the counts of the words are not used.",
        ),
        (lambda words, n: merges(words, n + 1)[: n + 1], "Your result has 6 items; it must have f"),
        (lambda words, n: merges(words, 1), "Your result has 1 item; it must have more."),
        (lambda words, n: "ab", "Your result must be a list; it is a str."),
        (
            lambda words, n: [words.pop("low", None)] and merges({**WORDS, **words}, n),
            "Item 0 of your result is",
        ),
    ],
)
def test_lists_of_words(answer, evidence):
    text = verdict(MERGES, answer)
    assert evidence in text
    if "four words" in text:
        assert "('e', 's')" not in text  # the answer


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (lambda text: {"a": 2, "b": 1}, "✓"),
        (lambda text: {"a": 2, "b": 3}, "Your result for 'b' is 3, and that is not right."),
        (lambda text: {"a": 2, "c": 1}, "Your result has the key 'c', which does not belong"),
        (lambda text: {"a": 2}, "Your result has 1 key; it must have one more."),
        (lambda text: [2, 1], "Your result must be a dict; it is a list of length 2."),
    ],
)
def test_dicts(answer, evidence):
    count = checker(name="count", reference=lambda text: Counter(text), cases=[Case("aab", "aab")])
    assert evidence in verdict(count, answer)


@pytest.mark.parametrize("right", [63_082_497, torch.tensor(63_082_497)])
@pytest.mark.parametrize(
    "answer, shown",
    [(63_082_497, None), (63_082_497.0, None), (63_082_496, "63,082,496"), (5870.5, "5.87e+03")],
)
def test_a_count_is_right_to_the_last_one(right, answer, shown):
    count = checker(name="count", reference=lambda n: right, cases=[Case("one", 1)])
    report = verdict(count, lambda n: answer)
    if shown is None:
        assert report == "✓ count: its case passes."
    else:
        assert f"Your result is {shown}, and that is not right" in report


def test_strings_and_things_that_refuse_comparison():
    join = checker(name="join", reference=lambda parts: "".join(parts), cases=[Case("two", ["a"])])
    assert "✓" in verdict(join, lambda parts: parts[0])
    assert "Your result is 'b', and that is not right." in verdict(join, lambda parts: "b")
    text = verdict(join, lambda parts: torch.ones(2).numpy())
    assert "Your result is array([1., 1.], dtype=float32), and that is not right." in text


# ------------------------------------------------------------- models, and what is there to change


def train_step(model, x, y, *, rate=0.1, clear=True, forward=lambda model, x: model(x)):
    loss = ((forward(model, x) - y) ** 2).mean()
    if clear:
        model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= rate * p.grad
    return loss.item()


def used_model():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.copy_(random_tensor(2, 3))
        model.bias.zero_()
    return model


def two_steps(answer, model, x, y):
    losses = [answer(model, x, y) for _ in range(2)]
    return losses[0]


TRAIN_STEP = checker(
    name="train_step",
    reference=lambda model, x, y: train_step(model, x, y),
    cases=[Case("two steps of one model", used_model(), random_tensor(5, 3), torch.ones(5, 2))],
    mistakes={
        "old gradients are added to the new": lambda m, x, y: train_step(m, x, y, clear=False),
        "the step goes up the hill": lambda m, x, y: train_step(m, x, y, rate=-0.1),
    },
    use=two_steps,
    changes=["model"],
)


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (lambda model, x, y: train_step(model, x, y), "✓ train_step: its case passes."),
        (
            lambda model, x, y: ((model(x) - y) ** 2).mean().item(),
            "Your function leaves `model` as it was.",
        ),
        (
            lambda model, x, y: train_step(model, x, y, clear=False),
            "All 6 entries of `model` afterwards for 'weight' are wrong, the first at [0, 0]: "
            "yours is",
        ),
        (
            lambda model, x, y: train_step(model, x, y, clear=False),
            "That is what happens when old gradients are added to the new.",
        ),
    ],
)
def test_a_training_step_changes_the_model_because_that_is_the_point(answer, evidence):
    text = verdict(TRAIN_STEP, answer)
    assert evidence in text
    assert "No mistake" not in text or "leaves" in text


def test_a_model_is_an_input_like_others():
    run = checker(
        name="run", reference=lambda model: model(torch.ones(3)), cases=[Case("a", used_model())]
    )
    assert "✓" in verdict(run, lambda model: model.forward(torch.ones(3)))

    def spoil(model):
        result = model(torch.ones(3))
        nn.init.zeros_(model.weight)
        return result

    assert "your function changed its input `model` in place" in verdict(run, spoil)
    assert "    model = a Linear\n" in verdict(run, lambda model: model.bias)


# ------------------------------------------------------------------ step functions, state, a cache


def counting(tokens):
    """A model: the next token is likely the last one plus 1; 5 ends."""
    return nn.functional.one_hot((tokens[-1] + 1).clamp(max=5), 6).float()


def greedy(step, first, end):
    tokens = [first]
    while tokens[-1] != end:
        tokens.append(int(step(torch.tensor(tokens)).argmax()))
    return tokens


GREEDY = checker(
    name="greedy",
    reference=greedy,
    cases=[Case("from 3", counting, 3, 5), Case("from 1", counting, 1, 5)],
    mistakes={"the end is left out": lambda step, first, end: greedy(step, first, end)[:-1]},
    seconds=0.3,
)


def test_an_answer_may_take_a_function():
    assert "✓" in verdict(GREEDY, lambda step, first, end: greedy(step, first, end))
    text = verdict(GREEDY, lambda step, first, end: greedy(step, first, end)[:-1])
    assert "Your result has 2 items; it must have more." in text
    assert "That is what happens when the end is left out." in text
    text = verdict(GREEDY, lambda step, first, end: [first])
    assert "    step = counting\n    first = 3\n" in text


def test_an_endless_loop_is_stopped_and_shown():
    def forever(step, first, end):
        while first != end:
            try:
                step(torch.tensor([first]))
            except Exception:
                return []
        return []

    text = verdict(GREEDY, forever)
    assert "Your function was still running after 0.3 seconds, and was stopped\n  in the line" in (
        text
    )
    assert text.endswith("No other case was tried after it.")


def test_a_bare_except_does_not_keep_the_loop_alive():
    caught = 0
    with pytest.raises(StillRunning), time_limit(0.05):
        while True:
            try:
                while True:
                    pass
            except:  # noqa: E722
                caught += 1
                if caught > 2:
                    raise
    assert caught == 3


def test_a_limit_leaves_nothing_behind():
    before = threading.active_count()
    for pause in (0.0, 0.01, 0.02):  # before, at and after the limit
        try:
            with time_limit(0.01):
                time.sleep(pause)
        except StillRunning:
            pass
    give_up = time.monotonic() + 60  # a busy machine may need a while to end a thread
    while threading.active_count() > before and time.monotonic() < give_up:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_endless_recursion_is_an_error_like_others():
    def again(step, first, end):
        return again(step, first, end)

    assert "Your function raised RecursionError" in verdict(GREEDY, again)


class Sums:
    """A cache: feeding one number after the other gives the sums so far."""

    def __init__(self):
        self.total = 0.0

    def step(self, x):
        self.total = self.total + x
        return self.total


def fed(cache, x):
    cache = cache()
    return [cache.step(number) for number in x]


SUMS = checker(
    name="Sums",
    reference=Sums,
    cases=[Case("three numbers", torch.tensor([1.0, 2.0, 4.0]))],
    mistakes={"nothing is remembered": type("Sums", (Sums,), {"step": lambda self, x: x})},
    use=fed,
)


def test_an_object_with_state_is_used_step_by_step():
    shared = []

    class Remembers:
        def step(self, x):
            shared.append(x)
            return sum(shared)

    assert "✓" in verdict(SUMS, Sums)
    text = verdict(SUMS, type("Mine", (), {"step": lambda self, x: 1 * x}))
    assert "Item 1 of your result is 2, and that is not right." in text
    assert "That is what happens when nothing is remembered." in text
    assert "'Mine' object has no attribute 'step'" in verdict(SUMS, type("Mine", (), {})).replace(
        "Sums", "Mine"
    )
    text = verdict(SUMS, Remembers)
    assert "gives another result when it runs again on the same input" in text


# ---------------------------------------------------------------------------------- random answers


def dropout(x, p, scale=True):
    kept = torch.rand(x.shape) >= p
    return x * kept / (1 - p if scale else 1)


DROPOUT = checker(
    name="dropout",
    reference=dropout,
    cases=[Case("a quarter", torch.ones(3), 0.25), Case("nine tenths", torch.ones(2), 0.9)],
    mistakes={
        "what is kept is not made larger": lambda x, p: dropout(x, p, scale=False),
        "p is the share that is kept": lambda x, p: dropout(x, 1 - p),
    },
    use=drawn(
        1000, lambda results: {"mean": results.mean(0), "zeros": (results == 0).sum(0) / 1000}
    ),
    atol=0.5,
)


def test_random_answers_are_compared_by_what_many_draws_have_in_common():
    def other_numbers(x, p):
        return x * torch.empty_like(x).bernoulli_(1 - p) / (1 - p)

    assert "✓" in verdict(DROPOUT, other_numbers)
    text = verdict(DROPOUT, lambda x, p: other_numbers(x, p) * (1 - p))
    assert "Your result for 'mean'" in text or "your result for 'mean'" in text
    assert "That is what happens when what is kept is not made larger." in text


def test_noise_where_none_belongs_is_told():
    double = checker(name="double", reference=lambda x: 2 * x, cases=[Case("one", torch.ones(3))])
    text = verdict(double, lambda x: 2 * x + torch.rand(3))
    assert "Your function gives another result when it runs again on the same input: it dr" in text


# ------------------------------------------------------------------- gradients, dtypes and devices

LENGTH = checker(
    name="length",
    reference=lambda x: (x * x).sum(-1).sqrt(),
    cases=[Case("two rows", random_tensor(2, 3)), Case("float64", random_tensor(2, 3).double())],
    keeps=["dtype", "device", "gradient"],
)


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (lambda x: x.norm(dim=-1), "✓"),
        (lambda x: x.detach().norm(dim=-1), "but no gradient reaches `x`: the way back"),
        (lambda x: torch.as_tensor(x.numpy()).norm(dim=-1), "no gradient reaches `x`"),
        (lambda x: x.norm(dim=-1).detach() + 0 * x.sum(), "the gradient that reaches `x` is not"),
        (lambda x: x.float().norm(dim=-1), "dtype float32; for this input, float64."),
        (
            lambda x: (x * x * torch.ones(3, dtype=x.dtype)).sum(-1).sqrt(),
            "but only on the CPU: on another device, your code meets a tensor",
        ),
    ],
)
def test_what_an_answer_must_keep(answer, evidence):
    text = verdict(LENGTH, answer)
    assert evidence in text
    assert "That is what happens" not in text


def test_the_learners_prints_are_shown_once_for_each_case(capsys):
    def length(x):
        print("here I am")
        return x.norm(dim=-1)

    verdict(LENGTH, length)
    assert capsys.readouterr().out.count("here I am") == 2


# ------------------------------------------------------------------ a mistake that sometimes raises


def raising_at(*denominators):
    def share(a, b):
        if b in denominators:
            raise ZeroDivisionError
        return a - b

    return share


def test_a_mistake_is_known_where_another_form_of_it_raises():
    cases = [Case("halves", 1.0, 2.0), Case("thirds", 1.0, 3.0), Case("nothing", 1.0, 0.0)]
    check = checker(
        name="share",
        reference=lambda a, b: a / b if b else 0.0,
        cases=cases,
        mistakes={"it is taken away": lambda a, b: a - b, "it is empty": lambda a, b: 0.0},
    )
    for denominators in ((), (0.0,)):
        assert "when it is taken away." in verdict(check, raising_at(*denominators))
    # Where it mostly raises, one number is no evidence; where the mistake is right, it is another.
    assert "That is what" not in verdict(check, raising_at(0.0, 3.0))
    always_0 = lambda a, b: 0.0 if b else 1 / 0  # noqa: E731
    always_0.__name__ = "share"
    assert "That is what" not in verdict(check, always_0)
