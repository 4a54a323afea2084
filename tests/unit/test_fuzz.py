"""Wrong calls end in a right result, or in an error that names the argument.

`tests/fuzz` makes the calls. They are the same in every run; for others, or more:
``FUZZ_SEED=7 FUZZ_CALLS=20000 python -m pytest tests/unit/test_fuzz.py -s``.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import os
import random
import re
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformer_lib
from fuzz import calls
from fuzz.spoil import spoiled
from transformer_lib.cache import AttentionCache
from transformer_lib.data import multi30k

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about what it is given here

SEED = int(os.environ.get("FUZZ_SEED", 0))
N_CALLS = int(os.environ.get("FUZZ_CALLS", 2000))
LIBRARY = Path(transformer_lib.__file__).parent
LIMIT = 60.0  # seconds for a call: it ends what hangs, however busy the machine

# --- what is public ------------------------------------------------------------------------------

# The front door and the modules next to it; modules inside a package are internal.
NOT_FUZZED = {
    "transformer_lib.__main__": "takes its arguments from a command line; test_cli.py",
    "transformer_lib.files": "writes what the others hand it; test_checkpoint.py",
    "transformer_lib.checks": "takes what learners wrote, and must survive it; test_checks.py",
    "transformer_lib.figures": "pictures; test_figures.py, test_widgets.py",
    "transformer_lib.validation": "what the others refuse with",
}
# Called by the library alone, which has checked what it hands over: names as pytest shows them.
TRUSTING = {"AttentionCache.append", "KVCache.append_positions"}


def public_functions() -> dict[Any, type | None]:
    """Every public function, class and method, and the class that it belongs to."""
    found: dict[Any, type | None] = {}
    for path in sorted(LIBRARY.iterdir()):
        name = f"transformer_lib.{path.stem}"
        package = path.suffix == ".py" or (path / "__init__.py").is_file()
        if not package or name in NOT_FUZZED:
            continue
        module = importlib.import_module(name.removesuffix(".__init__"))
        for thing in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if isinstance(thing, ModuleType):  # exported as a whole
                own = inspect.getmembers(thing, inspect.isfunction)
                found |= {
                    f: None for name, f in own if f.__module__ == thing.__name__ and name[0] != "_"
                }
            elif inspect.isclass(thing):
                found |= dict.fromkeys(_methods(thing), thing)
            elif callable(thing):
                found[thing] = None
    return {f: owner for f, owner in found.items() if f.__qualname__ not in TRUSTING}


def _methods(cls: type) -> list[Any]:
    """A class's constructor and methods, unless it is a record that the library itself fills."""
    if issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False):
        return []
    record = issubclass(cls, tuple) or (is_dataclass(cls) and not hasattr(cls, "__post_init__"))
    found: list[Any] = [cls] if "__init__" in vars(cls) and not record else []
    for name, method in vars(cls).items():
        function = getattr(method, "__func__", method)
        if inspect.isfunction(function) and not name.startswith("_"):
            ours = function.__module__.startswith("transformer_lib")
            found += [function] * (ours and len(inspect.signature(function).parameters) > 1)
    return found


PUBLIC = public_functions()
each_function = pytest.mark.parametrize("function", PUBLIC, ids=lambda f: f.__qualname__)


def test_all_of_it_is_found() -> None:
    assert len(PUBLIC) > 100


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is made up may become a file, and no test downloads."""
    monkeypatch.chdir(tmp_path)
    captions = tmp_path / "captions.gz"
    captions.write_bytes(gzip.compress(b"a dog\na cat\n"))
    monkeypatch.setattr(multi30k, "_file", lambda *_: captions)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_: calls.cache_folder())


# --- one call ------------------------------------------------------------------------------------


class Wrong(AssertionError):
    """A call that ended in neither a right result nor a proper error."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in a block that computes for longer, where the system can.

    It counts the processor's time: on a busy machine a call may have to wait for its turn.
    """
    main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "setitimer") or not main:
        yield
        return

    def stop(*_: Any) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(function: Any, call: calls.Call, wrong: dict[str, Any]) -> str:
    """Run a call: "answered" or "refused", or an error that says what is wrong with the outcome."""
    given = call.given | wrong
    try:
        with time_limit(LIMIT), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call.run(**given)
    except Exception as error:
        if not _is_proper(error, wrong):
            raise Wrong(f"{type(error).__name__}: {error}") from error
        return "refused"
    for name, value in wrong.items():
        if function not in calls.ANYTHING and (type(value) is object or _is_nan(value)):
            raise Wrong(f"{name} is {value}, and was accepted")
    if not_finite(result) and not not_finite(given):
        raise Wrong(f"NaN or infinity from finite arguments: {result}")
    try:
        calls.check(function, result, given)
    except Exception as error:
        raise Wrong(f"wrong result: {type(error).__name__}: {error}") from error
    return "answered"


def _is_proper(error: Exception, wrong: dict[str, Any]) -> bool:
    """Whether the library itself says what is wrong, and with which argument."""
    where = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if not where.is_relative_to(LIBRARY):  # of what was handed over to be called, or of a file
        return bool(calls.OTHERS & wrong.keys()) or _is_of_a_file(error, wrong)
    if not isinstance(error, TypeError | ValueError):  # the first: of training
        return isinstance(error, FloatingPointError) or _is_of_a_file(error, wrong)
    # "t" is not named by "isn't", nor "x" by "max". What is wrong with a file is said of its path.
    names = [rf"(?<![\w'’]){re.escape(name)}\b" for name in wrong]
    values = [each for value in wrong.values() for each in _listed(value)]
    names += [re.escape(str(each)) for each in values if isinstance(each, Path | str) and str(each)]
    return any(re.search(name, str(error)) for name in names)


def _is_of_a_file(error: Exception, wrong: dict[str, Any]) -> bool:
    return isinstance(error, OSError) and bool(calls.FILES & wrong.keys())


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def not_finite(thing: Any) -> bool:
    """Whether there is a NaN or an infinity anywhere in it."""
    if isinstance(thing, Tensor):
        numbers = thing.is_floating_point() or thing.is_complex()
        return numbers and thing.device.type != "meta" and not thing.isfinite().all()
    if isinstance(thing, np.ndarray):
        return thing.dtype.kind == "f" and not np.isfinite(thing).all()
    if isinstance(thing, float):
        return not abs(thing) < float("inf")
    if isinstance(thing, AttentionCache):  # whose buffers are longer than what is in them
        return thing.length > 0 and not_finite(thing.read())
    if isinstance(thing, dict):
        return not_finite(list(thing.values()))
    if isinstance(thing, list | tuple):
        return any(map(not_finite, thing))
    if isinstance(thing, nn.Module):
        return any(not_finite(tensor) for tensor in thing.state_dict().values())
    return hasattr(thing, "__dict__") and any(map(not_finite, vars(thing).values()))


# --- all calls -----------------------------------------------------------------------------------


def right_call(function: Any, seed: int) -> calls.Call:
    random.seed(seed)
    torch.manual_seed(seed)
    return calls.right_call(function, PUBLIC[function])


def as_numpy(value: Any) -> Any:
    """The value with numbers as NumPy has them, and tuples for lists."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return tuple(map(as_numpy, value))
    if isinstance(value, dict):
        return {name: as_numpy(inner) for name, inner in value.items()}
    kind = {int: np.int64, float: np.float32}.get(type(value))
    return value if kind is None else kind(value)


@each_function
def test_a_right_call_is_answered_with_numbers_of_numpy_and_tuples_too(function: Any) -> None:
    for seed in range(2):
        assert judge(function, right_call(function, seed), {}) == "answered"
    call = right_call(function, 2)
    assert judge(function, call, as_numpy(call.given)) == "answered"


@each_function
def test_each_argument_is_checked(function: Any) -> None:
    """No argument may be any object, and no number NaN or negative."""
    for name, right in right_call(function, 0).given.items():
        number = isinstance(right, int | float) and not isinstance(right, bool)
        number = number and name != "pad_id"  # whose -100 is usual elsewhere
        for value in (object(), *((-3, float("nan")) if number else ())):
            outcome = judge(function, right_call(function, 0), {name: value})
            assert outcome == "refused" or function in calls.ANYTHING, f"{name}={value}"


@pytest.mark.slow
def test_wrong_calls_are_refused_by_name_or_answered_rightly() -> None:
    outcomes: Counter[str] = Counter()
    failures = []
    for number in range(N_CALLS):
        function = list(PUBLIC)[number % len(PUBLIC)]
        call = right_call(function, 1000 * SEED + number)
        names = random.sample(list(call.given), min(len(call.given), random.choice((1, 1, 1, 2))))
        wrong = {name: spoiled(name, call.given[name]) for name in names}
        try:
            outcomes[judge(function, call, wrong)] += 1
        except Wrong as error:
            shown = ", ".join(f"{name}={_shown(value)}" for name, value in wrong.items())
            failures.append(f"{function.__qualname__}({shown}): {error}")
    print(dict(outcomes))
    assert not failures, "\n".join(failures)
    assert outcomes["refused"] > N_CALLS / 3
    assert outcomes["answered"] > N_CALLS / 20


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)} on {value.device}"
    return " ".join(repr(value).split())[:60]


# --- the judge itself ----------------------------------------------------------------------------


def _raising(error: Exception) -> Any:
    def run(**_: Any) -> None:
        raise error

    return run


def _forever(t: int) -> None:
    while t:
        pass


@pytest.mark.parametrize(
    "run, complaint",
    [
        (_raising(IndexError("t is out of range")), "IndexError"),
        (_raising(ValueError("t must be another")), "ValueError"),  # not the library's
        (lambda t: transformer_lib.causal_mask(3, s=-1), "ValueError"),  # names another
        (lambda t: torch.full((2,), torch.nan), "NaN or infinity"),
        (lambda t: {"loss": [float("nan")]}, "NaN or infinity"),
        (_forever, "TimeoutError: no answer"),
    ],
)
def test_the_judge_finds(run, complaint, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 0.05)
    with pytest.raises(Wrong, match=complaint):
        judge(None, calls.Call(run, {"t": 3}), {"t": 4})


def test_the_judge_finds_a_wrong_result_and_what_was_let_in() -> None:
    x = {"query": torch.randn(2, 3), "key": torch.randn(2, 3), "value": torch.randn(2, 3)}
    call = calls.right_call(transformer_lib.attention, None)
    call.run = partial(lambda **given: transformer_lib.attention(**(given | {"mask": None})))
    given = x | {"mask": torch.eye(2, dtype=torch.bool), "bias": None}
    with pytest.raises(Wrong, match="wrong result"):
        judge(transformer_lib.attention, call, given)
    for value in (float("nan"), object()):
        with pytest.raises(Wrong, match="t is "):
            judge(None, calls.Call(lambda t: 1, {"t": 3.0}), {"t": value})
