"""How soon a page appears: `make bench` runs this if the site is built and there is a browser.

Lighthouse says when the largest thing on a page would be there on a slow phone with a slow line.
A real host is faster than the server here, which compresses nothing. No test depends on the times.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/site"))
import pages

from browsers import find_browser


def main() -> None:
    if find_browser() is None or not (pages.BOOK / "index.html").is_file():
        print("pages: skipped, no browser or no site (make book)")
        return
    print("\nlargest contentful paint on a slow phone")
    with pages.serving(pages.BOOK) as address:
        for page in ("index.html", *pages.chapters()):
            report = pages.lighthouse(address + page, "--only-audits=largest-contentful-paint")
            paint = report["audits"]["largest-contentful-paint"]["displayValue"]
            print(f"  {page:<40} {paint}")


if __name__ == "__main__":
    main()
