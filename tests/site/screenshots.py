"""Take pictures of every page of the built site: light, dark, and as wide as a phone.

    python tests/site/screenshots.py                     # into _build/screenshots
    python tests/site/screenshots.py index.html          # one page
    python tests/site/screenshots.py --readme            # the picture in README.md

They are for people to look at; nothing compares them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import BOOK, ROOT, browsing, open_page, pages, serving

from browsers import find_browser

FOLDER = ROOT / "_build" / "screenshots"
WAYS = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}
README_PICTURE = ROOT / ".github" / "page.png"
MAX_HEIGHT = 16_000  # Chromium draws no picture higher than this


def set_theme(context, theme: str) -> None:
    """Choose the theme as a reader's earlier visit would have."""
    context.add_init_script(
        f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}');"
    )


def take_readme_picture(browser, base: str) -> None:
    """The top of the landing page, in 200 colors: a README should load fast."""
    from PIL import Image

    context = browser.new_context(viewport={"width": 880, "height": 930}, color_scheme="light")
    set_theme(context, "light")
    page = open_page(context, base + "index.html")
    README_PICTURE.parent.mkdir(exist_ok=True)
    page.screenshot(path=README_PICTURE)
    context.close()
    picture = Image.open(README_PICTURE).convert("RGB").quantize(200)
    picture.save(README_PICTURE, optimize=True)
    print(f"{README_PICTURE.relative_to(ROOT)}  {README_PICTURE.stat().st_size // 1000} kB")


def main(arguments: list[str]) -> int:
    wanted = arguments or pages()
    executable = find_browser()
    if not wanted or not (BOOK / "index.html").is_file():
        print(f"no site in {BOOK}: run make book first")
        return 1
    if executable is None:
        print("no browser: set CHROME_PATH, or install chromium")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with serving(BOOK) as base, browsing(executable) as browser:
        if wanted == ["--readme"]:
            take_readme_picture(browser, base)
            return 0
        for way, options in WAYS.items():
            context = browser.new_context(reduced_motion="reduce", **options)
            set_theme(context, options["color_scheme"])
            for name in wanted:
                page = open_page(context, base + name)
                size = page.viewport_size
                height = page.evaluate("document.documentElement.scrollHeight")
                target = (
                    FOLDER / f"{Path(name).with_suffix('').as_posix().replace('/', '-')}-{way}.png"
                )
                page.screenshot(
                    path=target,
                    full_page=True,
                    clip={
                        "x": 0,
                        "y": 0,
                        "width": size["width"],
                        "height": min(height, MAX_HEIGHT),
                    },
                )
                page.close()
                print(target.relative_to(ROOT) if ROOT in target.parents else target)
            context.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
