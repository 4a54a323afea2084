"""Each line of code is an element of its own, which knows its indent.

On a narrow screen the style sheet breaks long lines. What goes on stands four letters to the right
of where the line began. What an indent has beyond 12 letters can be taken out there.
"""

import re
from html import unescape

from pygments.formatters import HtmlFormatter
from sphinx.highlighting import PygmentsBridge

DEEP = re.compile(r"^((?:<span[^>]*>)? {12})( +)")


class Lines(HtmlFormatter):
    def wrap(self, source):
        return super().wrap(own_element(line) for line in source)


def own_element(piece):
    is_code, html = piece
    if not is_code:
        return piece
    text = unescape(re.sub(r"<[^>]*>", "", html))
    indent = len(text) - len(text.lstrip(" "))
    style = f' style="--indent:{indent}"' if indent else ""
    html = DEEP.sub(r'\1<span class="deep-indent">\2</span>', html)
    return is_code, f'<span class="line"{style}>{html}</span>'


def setup(app):
    PygmentsBridge.html_formatter = Lines
    return {"parallel_read_safe": True, "parallel_write_safe": True}
