"""How soon a page appears: `make bench` runs this if the site is built and there is a browser.

Times are those of a phone, 390 pixels wide with a processor four times slower than this one: the
fastest of five visits. A busy machine makes them longer, so no test depends on them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/site"))
import pages

from browsers import find_browser

VISITED = ("index.html", *pages.chapters())
WATCH = """
  window.paint = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.paint = entry.startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
"""


def painted(browser, url: str) -> float:
    """Milliseconds to the largest contentful paint."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    try:
        page = context.new_page()
        client = context.new_cdp_session(page)
        client.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        page.add_init_script(WATCH)
        page.goto(url, wait_until="networkidle")
        page.wait_for_function("window.paint")  # told late where the machine is busy
        page.wait_for_timeout(300)
        return page.evaluate("window.paint")
    finally:
        context.close()


def main() -> None:
    executable = find_browser()
    if executable is None or not (pages.BOOK / "index.html").is_file():
        print("pages: skipped, no browser or no site (make book)")
        return
    with pages.serving(pages.BOOK) as address:
        print("\nlargest contentful paint on a slow phone, fastest of five visits")
        with pages.browsing(executable) as browser:
            for page in VISITED:
                times = [painted(browser, address + page) for _ in range(5)]
                print(f"  {page:<40} {min(times):6.0f} ms")


if __name__ == "__main__":
    main()
