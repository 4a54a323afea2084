"""The library's reference, made from its source without importing it.

    .. library:: attention masks      an entry for each public name of these modules
    .. library-names:: attention      a table of the same names, with the first sentence of each

A name stands once, where it is defined, and is called by the shortest path it can be imported
from. Sphinx's viewcode makes the pages that show the code.
"""

import builtins
import re
from functools import cache
from pathlib import Path

import griffe
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.addnodes import desc_signature
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from library_source import PACKAGE, Library, docstring, entry, summary

ROLES = {griffe.Kind.MODULE: "mod", griffe.Kind.CLASS: "class", griffe.Kind.FUNCTION: "func"}


class LibraryDirective(SphinxDirective):
    """A page is built again when a file of its modules changes."""

    required_arguments = 1
    final_argument_whitespace = True

    @property
    def asked(self) -> list[str]:
        return self.arguments[0].split()

    def run(self):
        for module in self.asked:
            for path in library(self.env.app).files(module):
                self.env.note_dependency(str(path))
        return [node for module in self.asked for node in self.of(module)]

    def parsed(self, lines) -> list[nodes.Node]:
        container = nodes.Element()
        text = StringList(list(lines), source=self.get_source_info()[0])
        nested_parse_with_titles(self.state, text, container, self.content_offset)
        return container.children


class Entries(LibraryDirective):
    """An entry for each public name of the modules."""

    def of(self, module):
        here = library(self.env.app)
        described = here.modules[f"{PACKAGE}.{module}"]
        lines = [*heading(described.path, "-"), *docstring(described), ""]
        for path in here.names(module):
            thing = here.public[path]
            if thing.is_module:
                lines += [*heading(path, "~"), f".. py:module:: {path}", "", *docstring(thing), ""]
                continue
            parent, _, name = path.rpartition(".")
            options = [f":module: {parent}"]
            if thing.path != path:
                options.append(f":canonical: {thing.path}")
            lines += entry(thing, name, *options)
        return self.parsed(lines)


def heading(path: str, underline: str) -> list[str]:
    return [f"``{path}``", underline * (len(path) + 4), ""]


class Names(LibraryDirective):
    """The public names of the modules, each with the first sentence of its docstring."""

    def of(self, module):
        here = library(self.env.app)
        lines = [".. list-table::", "   :class: library-names", "   :widths: auto", ""]
        for path in here.names(module):
            thing = here.public[path]
            role = ROLES.get(thing.kind, "data")
            lines += [f"   * - :py:{role}:`~{path}`", f"     - {summary(thing)}"]
        return self.parsed(lines)


# --- references and the pages of source ----------------------------------------------------------


@cache
def library(app) -> Library:
    return Library(Path(app.srcdir))


def resolve(app, env, node, contnode):
    """What a docstring calls by a short name: the one public thing called so.

    A type in a signature that is none of ours, torch's say, is text and no link.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    here = library(app)
    paths = {path for path in here.public if f".{path}".endswith(f".{target}")}
    if target.rpartition(".")[0] in here.modules:
        defined = here.definition(target).path
        if defined not in here.home:
            return contnode  # it exists, and is the library's own business
        paths.add(here.home[defined])
    if len(paths) == 1:
        domain = env.get_domain("py")
        return domain.resolve_xref(
            env, node["refdoc"], app.builder, "obj", paths.pop(), node, contnode
        )
    around = node.parent
    while around is not None and not isinstance(around, desc_signature):
        around = around.parent
    return contnode if around is not None or hasattr(builtins, target) else None


def where_defined(app, module, name):
    """For viewcode: the module whose source shows a public name."""
    found = library(app).public.get(f"{module}.{name.split('.')[0]}")
    return found.module.path if found else module


@cache  # viewcode asks once for each name
def source_of(app, module):
    """For viewcode: the text of a module, and on which lines each name is defined."""
    found = library(app).modules.get(module)
    if found is None:
        return None
    code = found.filepath.read_text(encoding="utf-8")
    return code, ModuleAnalyzer.for_string(code, module).find_tags()


# What viewcode puts before the code of each entry: the name in its module, and the way back.
BACK = re.compile(r'(id="([\w.]+)">\n<a class="viewcode-back" href="[^"#]*#)[^"]*')


def lead_back(app, pagename, templatename, context, doctree):
    """From the code to its entry. Viewcode takes all entries of a module to share one path."""
    home = library(app).home

    def right(link):
        name, _, member = link[2].partition(".")
        return ".".join(filter(None, (link[1] + home[f"{context['title']}.{name}"], member)))

    if pagename.startswith(f"_modules/{PACKAGE}"):
        context["body"] = BACK.sub(right, context["body"])


def setup(app):
    app.setup_extension("sphinx.ext.viewcode")
    app.add_directive("library", Entries)
    app.add_directive("library-names", Names)
    app.connect("missing-reference", resolve)
    app.connect("viewcode-follow-imported", where_defined)
    app.connect("viewcode-find-source", source_of)
    app.connect("html-page-context", lead_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
