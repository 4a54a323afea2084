"""How soon a page appears: `make bench` runs this if the site is built and there is a browser.

Lighthouse says when the largest thing on a page would be there on a slow phone with a slow line.
A real host is faster than the server here, which compresses nothing. No test depends on the times.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/site"))
import pages

from browsers import find_browser


def painted(browser: str, address: str) -> str:
    """When the largest thing on a page is there, as Lighthouse says it."""
    audit = "largest-contentful-paint"
    command = [
        *(pages.NODE, pages.ROOT / "node_modules/lighthouse/cli/index.js", address),
        *("--quiet", "--output=json", "--no-enable-error-reporting", f"--only-audits={audit}"),
        "--chrome-flags=--headless --no-sandbox --disable-gpu",
    ]
    surroundings = os.environ | {"CHROME_PATH": browser}
    run = subprocess.run(command, stdout=subprocess.PIPE, env=surroundings, check=True)
    return json.loads(run.stdout)["audits"][audit]["displayValue"]


def main() -> None:
    browser = find_browser()
    if browser is None or not (pages.BOOK / "index.html").is_file():
        print("pages: skipped, no browser or no site (make book)")
        return
    print("\nlargest contentful paint on a slow phone")
    with pages.serving(pages.BOOK) as address:
        for page in ("index.html", *pages.chapters()):
            print(f"  {page:<40} {painted(browser, address + page)}")


if __name__ == "__main__":
    main()
