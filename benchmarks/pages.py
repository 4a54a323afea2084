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

AUDIT = "largest-contentful-paint"
LIGHTHOUSE = (pages.NODE, pages.ROOT / "node_modules/lighthouse/cli/index.js")
OPTIONS = (
    *("--quiet", "--output=json", "--no-enable-error-reporting", f"--only-audits={AUDIT}"),
    "--chrome-flags=--headless --no-sandbox --disable-gpu",
)


def main() -> None:
    browser = find_browser()
    if browser is None or not (pages.BOOK / "index.html").is_file():
        print("pages: skipped, no browser or no site (make book)")
        return
    print("\nlargest contentful paint on a slow phone")
    surroundings = os.environ | {"CHROME_PATH": browser}
    with pages.serving(pages.BOOK) as address:
        for page in ("index.html", *pages.chapters()):
            command = [*LIGHTHOUSE, address + page, *OPTIONS]
            report = json.loads(subprocess.check_output(command, env=surroundings))
            print(f"  {page:<40} {report['audits'][AUDIT]['displayValue']}")


if __name__ == "__main__":
    main()
