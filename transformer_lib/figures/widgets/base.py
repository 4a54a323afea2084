"""What all live figures have in common."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from transformer_lib.validation import plain_number

from .. import style
from ..engine import source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parent
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./kit\.js";\n', re.MULTILINE)


def read(name: str) -> str:
    """Return the text of a file that lies beside this one."""
    return (FOLDER / name).read_text(encoding="utf-8")


def compose(module: str, *, engine: bool | str = False) -> str:
    """Join the kit and a figure's module into the one ES module that a browser can load.

    A widget's module reaches the browser as text, where ``./kit.js`` has no address. The figure's
    import is therefore left out and the kit put before it; its names are then simply in scope.

    Args:
        module: the file name of the figure's module, such as ``"soft_lookup.js"``.
        engine: whether the figure runs a model: it finds the Transformer in ``engine``, and the
            function that makes it, whose text a Worker can be made of, in ``engineSource``. A
            file's name, such as ``"translator.js"``, brings what that file exports instead.

    Raises:
        ValueError: the module does not import exactly once, or not from ``./kit.js`` alone.
    """
    figure, found = _IMPORT.subn("", read(module))
    if found != 1 or re.search(r"^import\b", figure, re.MULTILINE):
        raise ValueError(f"{module} must have exactly one import, from ./kit.js; found {found}")
    text = source(engine) if isinstance(engine, str) else source()
    model = f"function engineSource() {{\n{text}return engine;\n}}\n" if engine else ""
    model += "const engine = engineSource();\n" if engine else ""
    return f"{read('kit.js')}\n{model}{figure}"


def dress(sheet: str) -> str:
    """Put the kit's style sheet before a figure's own, such as ``"soft_lookup.css"``.

    A page with several figures holds the kit's sheet several times, and the last one comes after
    the figures before it. The figure's own rules are therefore given one class more: they win
    wherever they stand.
    """
    own = read(sheet).replace("figure.live-figure", "figure.live-figure.live-figure")
    return f"{read('kit.css')}\n{own}"


class LiveFigure(anywidget.AnyWidget):
    """A live figure: traits hold its numbers, an ES module draws them.

    In a notebook with a kernel, what the reader does comes back in the traits. In a published page
    the module works alone. Where no script runs, the still picture of the same state stands in.

    A subclass gives ``_esm = compose("….js")``, ``_css = dress("….css")``, synced traits,
    ``shown`` and ``draw``.
    """

    # ipywidgets 7, which Colab has, shows a widget by this method, without its still picture. Where
    # there is none, IPython asks for the bundle below.
    _ipython_display_ = None

    shown: tuple[str, ...] = ()
    """The traits that the text form shows."""

    anchor = traitlets.Unicode(
        help="name of the figure in the page's address; a second figure of a class needs its own"
    ).tag(sync=True)

    note = traitlets.Unicode(help="a quiet line below the figure: where its numbers are from").tag(
        sync=True
    )

    @traitlets.default("anchor")
    def _anchor(self) -> str:
        return type(self).__name__

    @traitlets.validate("anchor")
    def _check_anchor(self, proposal: Any) -> str:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", proposal["value"]):
            raise ValueError(
                "anchor must be letters, digits, - and _, a letter first, since it becomes part of "
                f"an address; got {proposal['value']!r}"
            )
        return proposal["value"]

    def __init__(self, **numbers: Any) -> None:
        # ipywidgets has traits of its own, `keys` among them, and would take them without a word
        own = self.class_traits().keys() - anywidget.AnyWidget.class_traits().keys()
        for name in numbers.keys() - own - {"layout"}:
            raise TypeError(f"{type(self).__name__} has no argument {name!r}")
        super().__init__(**numbers)

    def draw(self) -> Figure:
        """Draw the state as a still picture."""
        raise NotImplementedError

    def __repr__(self) -> str:
        # No address in it: stored outputs are compared with fresh ones.
        state = ", ".join(f"{name}={_plain(getattr(self, name))!r}" for name in self.shown)
        return f"{type(self).__name__}({state})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/plain"] = repr(self)  # ipywidgets cuts it off, in some versions
            bundle[0]["image/png"] = base64.b64encode(self._png()).decode("ascii")
        return bundle

    def _png(self) -> bytes:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image  # matplotlib depends on it

        with style.context():
            # without pyplot: a figure that pyplot knows would be shown by the notebook once more
            canvas = FigureCanvasAgg(self.draw())
            canvas.draw()
            pixels = Image.frombytes("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba()))
        png = io.BytesIO()
        # 256 colours are a third of the bytes, which every notebook and every page would carry;
        # maximum coverage keeps the colour of a small dot, which the default gives away
        few = pixels.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
        few.save(png, "PNG", optimize=True)
        return png.getvalue()


def _plain(value: Any) -> Any:
    """Lists as tuples, for a short text form."""
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


class Numbers(traitlets.List):
    """A list of finite numbers, nested to a given depth, each between two limits.

    Tuples, tensors and arrays become lists of floats; what does not fit is refused with its place.
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
    """A finite number between two limits; ``whole`` asks for an integer."""

    def __init__(self, default: float, *, low: float, high: float, whole: bool = False) -> None:
        super().__init__(default_value=default)
        self.low, self.high, self.whole = low, high, whole
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> float:
        kinds = (int,) if self.whole else (int, float)
        value = plain_number(value)
        # JSON has one kind of number: a page sends 4.0 as 4, and some send 4 as 4.0
        if self.whole and isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, kinds):
            kind = "a whole number" if self.whole else "a number"
            raise TypeError(f"{self.name} must be {kind}; got {value!r}")
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.name} must be from {self.low:g} to {self.high:g}; got {value}")
        return value if self.whole else float(value)


class OneOf(traitlets.TraitType):
    """One of a few words."""

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
    """Raise a ValueError unless these traits have one length, and say which has which."""
    lengths = {name: len(getattr(figure, name)) for name in names}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise ValueError(f"{' and '.join(names)} must have the same length; got {said}")
