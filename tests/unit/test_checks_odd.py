"""Answers that nobody expects: a check says what is wrong with them, and raises nothing itself."""

import dataclasses
import decimal
import fractions
import itertools
import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.unit.test_checks import EXERCISES
from transformer_lib.checks import Case, Checker, Exercise


class Hostile:
    """Raises wherever it is touched."""

    def _no(self, *args, **kwargs):
        raise RuntimeError("do not touch me")

    __eq__ = __len__ = __iter__ = __repr__ = __str__ = __bool__ = __float__ = __getitem__ = _no
    __hash__ = None


class HostileError(Exception):
    def __str__(self):
        raise RuntimeError("no message")


class OwnEnd(BaseException):
    pass


def raised(error):
    def raises(*args, **kwargs):
        raise error

    return raises


def forever():
    while True:
        yield 1


def quantized():
    return torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8)


def nested():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def endless_list():
    items = []
    items.append(items)
    return items


# What is returned, made anew at each call.
ODD = {
    "nothing": lambda: None,
    "an int too large": lambda: 2**70,
    "an int with 5,000 digits": lambda: 10**5000,
    "infinity": lambda: float("inf"),
    "a fraction": lambda: fractions.Fraction(1, 3),
    "a decimal": lambda: decimal.Decimal("0.5"),
    "a complex number": lambda: 1j,
    "a NumPy number": lambda: np.float32(1),
    "a NumPy truth": lambda: np.True_,
    "a NumPy array": lambda: np.ones((2, 3)),
    "an array of objects": lambda: np.array([None, "a"], dtype=object),
    "a string": lambda: "text",
    "bytes": lambda: b"text",
    "a set": lambda: {1, 2},
    "a dict": lambda: {"weights": torch.ones(2)},
    "a generator": lambda: (x for x in range(3)),
    "a generator without end": forever,
    "an iterator without end": lambda: itertools.repeat(0),
    "a class": lambda: Hostile,
    "a hostile object": Hostile,
    "a list of hostile objects": lambda: [Hostile(), Hostile()],
    "a list that holds itself": endless_list,
    "a nested list": lambda: [[1.0, 2.0], [3.0]],
    "pairs of nothing": lambda: (None, None),
    "a module": lambda: nn.Linear(2, 3),
    "a sparse tensor": lambda: torch.eye(3).to_sparse(),
    "a sparse row tensor": lambda: torch.eye(3).to_sparse_csr(),
    "a tensor without numbers": lambda: torch.ones(2, 3, device="meta"),
    "a complex tensor": lambda: torch.ones(2, 3, dtype=torch.complex64),
    "a quantized tensor": quantized,
    "a nested tensor": nested,
    "a tensor of bytes": lambda: torch.ones(2, dtype=torch.uint8),
    "a tensor in 8 bits": lambda: torch.ones(2, 3).to(torch.float8_e4m3fn),
    "an empty tensor": lambda: torch.ones(0, 3),
    "a parameter": lambda: nn.Parameter(torch.ones(2, 3)),
}
RAISED = {
    "SystemExit": SystemExit(),
    "StopIteration": StopIteration(),
    "GeneratorExit": GeneratorExit(),
    "MemoryError": MemoryError(),
    "RecursionError": RecursionError(),
    "an exception without a message": HostileError(),
    "an exception that is no Exception": OwnEnd(),
    "an exception of many lines": ValueError("one\ntwo"),
}


async def waits(*args, **kwargs):
    return 1


def itself(*args, **kwargs):
    return itself


class CallsItself:
    def __call__(self, *args, **kwargs):
        return self


def spoils(*args, **kwargs):
    """Changes what it gets in every way there is."""
    for value in [*args, *kwargs.values()]:
        if isinstance(value, torch.Tensor):
            value.zero_()
            value.resize_(0)
        elif isinstance(value, list | dict | set):
            value.clear()
        elif isinstance(value, nn.Module):
            value._modules.clear()
            value._parameters.clear()


def settings(*args, **kwargs):
    """Turns the screws of PyTorch and of the random numbers."""
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    return 1.0


FUNCTIONS = {
    **{name: lambda *a, make=make, **k: make() for name, make in ODD.items()},
    **{name: raised(error) for name, error in RAISED.items()},
    "a coroutine": waits,
    "a function that returns itself": itself,
    "an object that returns itself": CallsItself(),
    "what spoils its inputs": spoils,
    "what changes settings": settings,
    "a wrong signature": lambda: 1,
    "a built-in": len,
    "a class that is no module": Hostile,
    "PyTorch's own": torch.softmax,
}


class NoSuper(nn.Module):
    def __init__(self, *args, **kwargs):
        pass

    def forward(self, *args, **kwargs):
        return 1


def returning(make):
    class Odd(nn.Module):
        def __init__(self, *args, **kwargs):
            super().__init__()

        def forward(self, *args, **kwargs):
            return make()

    return Odd


def built_with(part):
    class Odd(nn.Module):
        def __init__(self, *args, **kwargs):
            super().__init__()
            self.part = part()

        def forward(self, x, *args, **kwargs):
            return x

    return Odd


CLASSES = {
    **{name: returning(make) for name, make in ODD.items()},
    **{name: returning(raised(error)) for name, error in RAISED.items()},
    "no super().__init__()": NoSuper,
    "no module": type("Plain", (), {}),
    "a lazy part": built_with(lambda: nn.LazyLinear(3)),
    "a complex parameter": built_with(lambda: nn.Parameter(torch.ones(3, dtype=torch.complex64))),
    "a parameter without numbers": built_with(lambda: nn.Parameter(torch.ones(3, device="meta"))),
    "a list that holds itself": built_with(endless_list),
    "a compiled part": built_with(lambda: torch.jit.script(nn.Linear(2, 2))),
    "exit() at once": built_with(raised(SystemExit())),
    "a function": lambda *a, **k: 1,
    "an abstract module": nn.Module,
}


def small(exercise):
    """The exercise with a few cases and mistakes: an odd answer fails at the first."""
    some = dict(itertools.islice(exercise.mistakes.items(), 2))
    return dataclasses.replace(exercise, cases=[*exercise.cases[:2]], mistakes=some)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "exercise"), EXERCISES)
def test_no_odd_answer_passes_or_ends_in_a_traceback(module, exercise):
    check = Checker(small(exercise))
    kinds = FUNCTIONS if exercise.cases[0].init is None else CLASSES
    before = torch.get_default_dtype(), torch.is_grad_enabled(), random.getstate()
    may_pass = {"is_equivariant", "leaks", "same_in_company"}  # True or False, in two cases
    for name, answer in kinds.items():
        globals()[exercise.name] = answer
        result = check(answer)
        assert result.report[0] == "✗" or exercise.name in may_pass, name
    del globals()[exercise.name]
    assert before == (torch.get_default_dtype(), torch.is_grad_enabled(), random.getstate())


ONE = Exercise(
    name="one", reference=lambda: 1, cases=[Case("the only")], mistakes={}, section="One"
)


def test_an_answer_whose_name_is_no_text_is_named_by_its_kind():
    class Odd:
        def __init__(self):
            self.__name__ = []

        def __call__(self):
            return 1

    assert "no exercise for an Odd" in Checker(ONE)(Odd()).report


def test_an_interrupt_is_the_readers():
    one = raised(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        Checker(ONE)(one)
