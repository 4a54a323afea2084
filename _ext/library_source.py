"""The library as its source says: griffe reads the modules, napoleon the docstrings.

Nothing is imported, so no torch is needed. Public is what `transformer_lib` and its modules list in
`__all__`; files inside a package are its own business.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import griffe
from sphinx.ext.napoleon import Config, GoogleDocstring

PACKAGE = "transformer_lib"
FACADES = {"figures"}  # packages that list nothing themselves: their modules do
LONGEST_VALUE = 60  # characters of a constant that are shown
NAPOLEON = Config(
    napoleon_use_param=False,
    napoleon_use_rtype=False,
    napoleon_custom_sections=["Source", ("Attributes", "params_style")],
)


class Library:
    """The modules of the package and, of each public name, its definition."""

    def __init__(self, root: Path) -> None:
        package = griffe.load(PACKAGE, search_paths=[root], allow_inspection=False)
        self.modules = {module.path: module for module in walk(package)}
        self.public: dict[str, griffe.Object] = {}  # by the path a reader imports it from
        self.home: dict[str, str] = {}  # path of a definition -> public path
        for path in sorted(self.modules, key=lambda path: (path.count("."), path)):
            if not is_behind_the_door(path):
                continue
            for name in self.modules[path].exports or ():
                found = self.definition(f"{path}.{name}")
                self.add(f"{path}.{name}", found)
        for path, module in list(self.public.items()):  # one that is public as a whole
            for name, found in module.members.items() if module.is_module else ():
                if not found.is_alias and found.is_function and not name.startswith("_"):
                    self.add(f"{path}.{name}", found)

    def add(self, path: str, found: griffe.Object) -> None:
        """Unless it has a shorter path already."""
        if self.home.setdefault(found.path, path) == path:
            self.public[path] = found

    def definition(self, path: str) -> griffe.Object:
        """What a path means. A function may be called as its module is: the function is meant."""
        parent, _, name = path.rpartition(".")
        imported = self.modules[parent].imports.get(name, path)
        if imported != path:
            return self.definition(imported)
        found = self.modules[parent].members.get(name)
        if found is None or found.is_alias:
            raise ValueError(f"{path} is in an __all__, but griffe finds no definition of it")
        return found

    def names(self, module: str) -> list[str]:
        """The public paths of what a module defines, in the order of the source.

        Modules that are public as a whole come last, each before what is called by its name.
        """
        inside = f"{PACKAGE}.{module}"
        imported = [path.rpartition(".")[0] for path in self.modules[inside].imports.values()]
        rank = {path: place for place, path in enumerate(dict.fromkeys(imported))}
        found = [
            (
                thing.module.path in self.public and path.startswith(thing.module.path),
                rank.get(thing.module.path, -1),
                0 if thing.is_module else thing.lineno or 0,
                path,
            )
            for path, thing in self.public.items()
            if f"{thing.path}.".startswith(f"{inside}.")
        ]
        return [path for *_, path in sorted(found)]

    def files(self, module: str) -> list[Path]:
        """What a page about the module depends on; the front door, since names depend on it."""
        inside = f"{PACKAGE}.{module}"
        return [self.modules[PACKAGE].filepath] + [
            found.filepath
            for path, found in self.modules.items()
            if f"{path}.".startswith(f"{inside}.")
        ]


def walk(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for member in module.members.values():
        if not member.is_alias and member.is_module:
            yield from walk(member)


def is_behind_the_door(path: str) -> bool:
    """transformer_lib, transformer_lib.data, transformer_lib.figures.plots; no deeper."""
    _, *inside = path.split(".")
    return len(inside) < 2 or (len(inside) == 2 and inside[0] in FACADES)


# --- from definitions to reStructuredText -------------------------------------------------------


def class_signature(cls: griffe.Class, name: str) -> str:
    """A class with its parameters: those of its `__init__`, or a record's fields."""
    if any(str(base) == "NamedTuple" for base in cls.bases):
        fields = [
            f"{name}: {field.annotation}" + (f" = {field.value}" if field.value else "")
            for name, field in cls.members.items()
            if field.is_attribute
            and field.annotation is not None
            and "property" not in field.labels
        ]
        return f"{name}({', '.join(fields)})"
    return cls.signature(name=name) if "__init__" in cls.members else name


def docstring(thing: griffe.Object) -> list[str]:
    text = thing.docstring.value if thing.docstring else ""
    return GoogleDocstring(text, NAPOLEON, what="object", name=thing.name).lines()


def entry(thing: griffe.Object, name: str, *options: str) -> Iterator[str]:
    """A definition, and a class's public members, as directives of Sphinx's Python domain."""
    kind, head, extra = described(thing, name)
    yield f".. py:{kind}:: {head}"
    yield from (f"   {option}" for option in (*options, *extra))
    yield ""
    yield from (f"   {line}".rstrip() for line in docstring(thing))
    yield ""
    for member in members(thing):
        yield from (f"   {line}".rstrip() for line in entry(member, member.name))


def described(thing: griffe.Object, name: str) -> tuple[str, str, list[str]]:
    """The directive for a definition, its argument and its options."""
    if thing.is_class:
        return "class", class_signature(thing, name), []
    if thing.is_function:
        kind = "method" if thing.parent.is_class else "function"
        kind = next((k for k in ("classmethod", "staticmethod") if k in thing.labels), kind)
        returns = str(thing.returns) != "None"
        return kind, thing.signature(name=name, return_type=returns), []
    if "property" in thing.labels:
        return "property", name, [f":type: {thing.annotation}"] if thing.annotation else []
    value = str(thing.value or "")
    return "data", name, [f":value: {value}"] if 0 < len(value) < LONGEST_VALUE else []


def members(thing: griffe.Object) -> list[griffe.Object]:
    """The public methods and properties that a class itself documents, in their order."""
    return [
        member
        for name, member in (thing.members.items() if thing.is_class else ())
        if not name.startswith("_")
        and not member.is_alias
        and member.docstring
        and (member.is_function or "property" in member.labels)
    ]


def summary(thing: griffe.Object) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join(
        (thing.docstring.value if thing.docstring else "").split("\n\n")[0].split()
    )
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]
