"""What all live figures have in common."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from transformer_lib.validation import plain_number

from ..engine import source

FOLDER = Path(__file__).parent
MADE_UP = "Stand-in numbers, made up to show how the figure works."
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./kit\.js";\n', re.MULTILINE)


def read(name: str) -> str:
    """Return the text of a file next to this one."""
    return (FOLDER / name).read_text(encoding="utf-8")


def compose(module: str, *, engine: bool | str = False) -> str:
    """Join the kit and a figure's module into one ES module that a browser can load.

    A widget's module reaches the browser as text, where ``./kit.js`` has no address. So the kit's
    text replaces the figure's import.

    Args:
        module: the file name of the figure's module, such as ``"soft_lookup.js"``.
        engine: whether the figure runs a model. The module then finds the Transformer in
            ``engine``, and in ``engineSource`` the function that makes it, from whose text it can
            start a Worker. A file name, such as ``"translator.js"``, brings that file's exports
            instead.
    """
    figure = _IMPORT.sub("", read(module))
    text = source(engine) if isinstance(engine, str) else source()
    model = f"function engineSource() {{\n{text}return engine;\n}}\n" if engine else ""
    model += "const engine = engineSource();\n" if engine else ""
    return f"{read('kit.js')}\n{model}{figure}"


def dress(sheet: str) -> str:
    """Put the kit's style sheet before a figure's own, such as ``"soft_lookup.css"``.

    On a page with several figures, a later copy of the kit's sheet follows an earlier figure's own
    rules. So these get one more class, to win in any order.
    """
    own = read(sheet).replace("figure.live-figure", "figure.live-figure.live-figure")
    return f"{read('kit.css')}\n{own}"


class LiveFigure(anywidget.AnyWidget):
    """A live figure: traits hold its numbers, an ES module draws them.

    In a notebook with a kernel, the reader's changes come back in the traits. On a published page
    the module works alone.

    A subclass defines ``_esm = compose("….js")``, ``_css = dress("….css")``, synced traits and
    ``shown``.
    """

    shown: tuple[str, ...] = ()
    """The traits that ``repr`` shows."""

    anchor = traitlets.Unicode(
        help="the figure's name in the page's address; two figures of a class need different ones"
    ).tag(sync=True)

    note = traitlets.Unicode(help="a line below the figure: where its numbers come from").tag(
        sync=True
    )

    @traitlets.default("anchor")
    def _anchor(self) -> str:
        return type(self).__name__

    @traitlets.validate("anchor")
    def _check_anchor(self, proposal: Any) -> str:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", proposal["value"]):
            raise ValueError(
                "anchor must be a letter followed by letters, digits, - and _, since it becomes "
                f"part of an address; got {proposal['value']!r}"
            )
        return proposal["value"]

    def __init__(self, **numbers: Any) -> None:
        # ipywidgets would silently accept its own traits, such as `keys`
        own = self.class_traits().keys() - anywidget.AnyWidget.class_traits().keys()
        for name in numbers.keys() - own - {"layout"}:
            raise TypeError(f"{type(self).__name__} has no argument {name!r}")
        super().__init__(**numbers)

    def __repr__(self) -> str:
        # without an object address, since stored outputs are compared with fresh ones
        state = ", ".join(f"{name}={_plain(getattr(self, name))!r}" for name in self.shown)
        return f"{type(self).__name__}({state})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/plain"] = repr(self)  # some versions of ipywidgets cut it off
        return bundle


def _plain(value: Any) -> Any:
    """Turn lists into tuples."""
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


class Numbers(traitlets.List):
    """A list of finite numbers, nested to a given depth, each between two limits.

    Tuples, tensors and arrays become lists.
    """

    def __init__(self, default: Sequence, *, depth: int = 1, low: float, high: float) -> None:
        super().__init__(default_value=list(default))
        self.depth, self.low, self.high = depth, low, high
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> list:
        if hasattr(value, "tolist"):
            value = value.tolist()
        return self._check(value, str(self.name), self.depth)

    def _check(self, value: Any, where: str, depth: int) -> Any:
        if depth:
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"{where} must be a list; got {value!r}")
            return [self._check(item, f"{where}[{i}]", depth - 1) for i, item in enumerate(value)]
        value = plain_number(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{where} must be a number; got {value!r}")
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise ValueError(f"{where} must be from {self.low:g} to {self.high:g}; got {value}")
        return value


class Number(traitlets.TraitType):
    """A finite number between two limits; with ``whole``, an integer."""

    def __init__(self, default: float, *, low: float, high: float, whole: bool = False) -> None:
        super().__init__(default_value=default)
        self.low, self.high, self.whole = low, high, whole
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> float:
        kinds = (int,) if self.whole else (int, float)
        value = plain_number(value)
        # JSON has only one kind of number: a page may send 4.0 as 4, or 4 as 4.0
        if self.whole and isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, kinds):
            kind = "a whole number" if self.whole else "a number"
            raise TypeError(f"{self.name} must be {kind}; got {value!r}")
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.name} must be from {self.low:g} to {self.high:g}; got {value}")
        return value if self.whole else float(value)


class OneOf(traitlets.TraitType):
    """One of several strings."""

    def __init__(self, *words: str) -> None:
        super().__init__(default_value=words[0])
        self.words = words
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> str:
        if value not in self.words:
            raise ValueError(
                f"{self.name} must be one of {', '.join(map(repr, self.words))}; got {value!r}"
            )
        return value


def same_length(figure: traitlets.HasTraits, names: Sequence[str]) -> None:
    """Raise a ValueError unless these traits all have the same length."""
    lengths = {name: len(getattr(figure, name)) for name in names}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise ValueError(f"{' and '.join(names)} must have the same length; got {said}")


def all_or_none(arguments: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Return whether these arguments are given; raise a ValueError if only some of them are."""
    missing = [name for name in names if name not in arguments]
    given = [name for name in names if name in arguments]
    if missing and given:
        raise ValueError(f"{', '.join(names)} go together; got only {', '.join(given)}")
    return not missing
