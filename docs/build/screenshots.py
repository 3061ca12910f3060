"""The README's picture of a report, taken from a real page: `python -m docs.build.screenshots`.

Run by hand when the pages change: pictures are committed, since a README is read where nothing
runs. Needs chromium.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import tsc_interp as tsc

MODEL = "generalization-errors"
IMAGES = Path(__file__).parents[1] / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1100, "height": 1210}, device_scale_factor=1.5)
        report = Path(folder) / "report"
        tsc.analyze(MODEL).save(report)
        _open(page, report / "index.html")
        page.screenshot(path=IMAGES / "report.png")
        browser.close()


def _open(page: Page, path: Path) -> None:
    page.goto(path.as_uri())
    # Figures and the failure map are drawn after the page has loaded.
    page.wait_for_timeout(4000)


if __name__ == "__main__":
    main()
