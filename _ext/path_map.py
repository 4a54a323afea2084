"""The path through the book as a picture: `{path-map}` draws a station for each chapter.

The picture is SVG in the page, so it takes the page's colors, light or dark, and its stations are
links. A chapter without a page yet is drawn, and is none. There are two drawings, one for wide and
one for narrow screens; the style sheet shows one of them.
"""

from html import escape
from itertools import pairwise
from pathlib import Path
from zlib import crc32

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import reading
from book import chapter_of

# Each chapter's name on the map and its sign, on a field of 40 x 28.
STATIONS = {
    1: ("Lookup", "M16,15L6,7M16,15L32,6M16,15L34,23|M3,7a3,3 0 1 0 6,0a3,3 0 1 0-6,0M29,6a3,3 0 1"
        " 0 6,0a3,3 0 1 0-6,0M31,23a3,3 0 1 0 6,0a3,3 0 1 0-6,0M16,10l5,5-5,5-5-5z"),
    2: ("Scale", "M3,16l4-3 6,12 7-22H37M26,22l5-9M25,13l7,9|"),
    3: ("Bottleneck", "M3,3L15,11V17L3,25M37,3L25,11V17L37,25M12,14H28|"),
    4: ("Self, cross", "M8,6V22M8,6L20,22M20,6L32,22M32,6L8,22M20,6V22|M5,3h6v6h-6zM17,3h6v6h-6z"
        "M29,3h6v6h-6zM5,19h6v6h-6zM17,19h6v6h-6zM29,19h6v6h-6z"),
    5: ("Masks", "M8,2h24v24h-24zM16,2v24M24,2v24M8,10h24M8,18h24|M8,2h8v8h8v8h8v8h-24z"),
    6: ("Heads", "M14,2H36V16M9,6H31V21|M4,11h22v14h-22z"),
    7: ("The block", "M8,2V26M8,5H20M20,5V8M20,20V23H11|M13,8h18v12h-18z"),
    8: ("Encoder", "M20,1V4M20,10V12M20,18V20M20,26V28|M8,4h24v6h-24zM8,12h24v6h-24z"
        "M8,20h24v6h-24z"),
    9: ("Decoder", "M4,5h10v18h-10zM14,14H22M19,11l3,3-3,3|M23,2h13v24h-13z"),
    10: ("Positions", "M2,14C6,0 11,0 14.5,14S23,28 26.5,14 35,0 38,10"
         "M2,20C10,4 20,4 26,16S36,24 38,20|"),
    11: ("The whole", "M11,1V27M29,1V27M16,15C21,15 19,9 24,9|M6,8h10v13h-10zM24,4h10v19h-10z"),
    12: ("Text", "M2,8h14v12h-14zM31,8h7v12h-7z|M18,8h11v12h-11z"),
    13: ("Training", "M4,2V25H38M7,5C11,20 18,21 37,22|"),
    14: ("Decoding", "M5,14L17,5 30,2M17,5L30,9M5,14L17,22 30,18M17,22L30,26|M27,6h6v6h-6z"
         "M2,11h6v6h-6zM14,2h6v6h-6z"),
    15: ("Evidence", "M20,4V24M12,25H28M6,8L34,5M6,8V17M34,5V14|M1,17a5,5 0 0 0 10,0z"
         "M29,14a5,5 0 0 0 10,0z"),
    16: ("Inside", "M25,18L34,26|M18,2a9,9 0 1 0 .01,0z"),
    17: ("Faster", "M4,14H13M13,14L20,4H33M13,14H33M13,14L20,24H33|M30,0l8,4-8,4zM30,10l8,4-8,4z"
         "M30,20l8,4-8,4z"),
    18: ("GPT", "M2,14H34M30,10l4,4-4,4|M3,8h7v12h-7zM13,8h7v12h-7zM23,8h5v12h-5z"),
    19: ("BERT", "M2,8h9v12h-9zM29,8h9v12h-9zM12,4L16,1H24L28,4|M15,8h11v12h-11z"),
    20: ("Labels", "M3,6H22M3,14H22M3,22H22|M27,3h10v6h-10z"),
    21: ("Changes", "M4,14A9,9 0 1 1 13,23M4,14l-3-4M4,14l5-3M13,8v6l5,3|M26,9h11v11h-11z"),
    22: ("Weights", "M4,4h20v20h-20zM8,9H20M8,14H20M8,19H16M26,14H37M33,10l4,4-4,4|"),
}  # fmt: skip
PARTS = {  # where each begins
    7: "Part II. The Transformer",
    12: "Part III. Training and using it",
    18: "Part IV. To today's models",
}
TILE = (68, 46)


def wide():
    """Four rows, one for each part: to the right, back to the left, and the same again."""
    place = {n: (64 + 128 * (n - 1), 78) for n in range(1, 7)}
    place |= {n: (64 + 128 * (12 - n), 196) for n in range(7, 12)}
    place |= {n: (64 + 128 * (n - 12), 346) for n in range(12, 18)}
    place |= {n: (64 + 128 * (23 - n), 494) for n in range(18, 23)}
    captions = [(122, 18, "Part I. Attention")]
    captions += [(0, 190, "Part II"), (0, 208, "The Transformer")]
    captions += [(212, 299, PARTS[12]), (212, 447, PARTS[18])]
    return "wide", (768, 556), place, captions, (64, 13), (64, 494)


def narrow():
    """Three columns, downwards."""
    place, captions, y = {}, [(122, 18, "Part I. Attention")], 74
    for first, last in ((1, 6), (7, 11), (12, 17), (18, 22)):
        if first in PARTS:
            captions.append((72, y - 34, PARTS[first]))
        for n in range(first, last + 1):
            row, column = divmod(n - first, 3)
            place[n] = (56 + 112 * (2 - column if row % 2 else column), y + 92 * row)
        y += 2 * 92 + 36
    return "narrow", (336, y + 8), place, captions, (56, 13), (168, y - 10)


def draw(form, link, minutes):
    """One drawing as SVG.

    link(chapter) is its page's address, or None; minutes[chapter] the time of its first reading.
    """
    name, (width, height), place, captions, start, end = form
    stops = [start, *place.values(), end]
    road = f"M{start[0]},{start[1]}"
    for (x, y), (u, v) in pairwise(stops):
        road += f"H{u}" if y == v else f"V{v}" if x == u else f"V{v - 52}H{u}V{v}"
    found = [f'<path class="path-road" d="{road}"/>']
    for x, y, text in captions:
        found.append(f'<text class="path-part" x="{x}" y="{y}">{text}</text>')
    for text, (x, y) in (("fruit?", start), ("Llama", end)):
        half = 4.6 * len(text) + 10
        x = min(x, width - half - 2)
        found.append(
            f'<rect class="path-end" x="{x - half:.0f}" y="{y - 12}" width="{2 * half:.0f}" '
            f'height="26" rx="13"/><text class="path-word" x="{x}" y="{y + 6}">{text}</text>'
        )
    for n, (x, y) in place.items():
        title, sign = STATIONS[n]
        lines, solid = sign.split("|")
        station = (
            f'<rect x="{x - TILE[0] / 2:g}" y="{y - TILE[1] / 2:g}" width="{TILE[0]}" '
            f'height="{TILE[1]}" rx="8"/><g transform="translate({x - 20} {y - 14})">'
            f'<path d="{lines}"/><path class="path-solid" d="{solid}"/></g>'
            f'<text x="{x}" y="{y + 41}"><tspan>{n}</tspan> {escape(title)}</text>'
        )
        if address := link(n):
            label = f'href="{escape(address)}" aria-label="Chapter {n}: {escape(title)}"'
            found.append(f'<a class="path-stop" {label}>{station}</a>')
        else:
            found.append(f'<g class="path-stop path-planned">{station}</g>')
        if n in minutes:
            found.append(f'<text class="path-time" x="{x}" y="{y + 57}">{minutes[n]} min</text>')
    words = "A map of the path through the book, from a lookup to today's models; a list follows."
    return (
        f'<svg class="path-map path-{name}" viewBox="0 0 {width} {height}" role="group" '
        f'aria-label="{words}">{"".join(found)}</svg>'
    )


class path_map(nodes.General, nodes.Element):
    """Where the picture stands."""


class PathMap(SphinxDirective):
    def run(self):
        self.env.note_reread()  # chapters come without this page being touched
        return [path_map()]


def write_map(translator, node):
    builder = translator.builder
    pages = {chapter_of(name): name for name in builder.env.found_docs}

    def link(chapter):
        target = pages.get(chapter)
        return builder.get_relative_uri(builder.current_docname, target) if target else None

    there = reading.chapters(Path(builder.srcdir))
    minutes = {number: reading.times(path)[0] for number, path in there.items()}
    translator.body.append("".join(draw(form(), link, minutes) for form in (wide, narrow)))
    raise nodes.SkipNode


def skip(translator, node):
    raise nodes.SkipNode


def setup(app):
    app.add_node(path_map, html=(write_map, None), latex=(skip, None), text=(skip, None))
    app.add_directive("path-map", PathMap)
    # Pages built by an earlier version of this file are built again.
    version = crc32(Path(__file__).read_bytes())
    return {"env_version": version, "parallel_read_safe": True, "parallel_write_safe": True}
