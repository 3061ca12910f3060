"""The README's two pictures, taken from real pages: `python -m docs.build.screenshots`.

Run by hand when the pages change: pictures are committed, since a README is read where nothing
runs. Needs chromium.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint

MODEL = "generalization-errors"
IMAGES = Path(__file__).parents[1] / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1100, "height": 980}, device_scale_factor=1.5)
        report = Path(folder) / "report"
        tsc.analyze(tsc.load(MODEL)).save(report)
        _open(page, report / "index.html")
        page.screenshot(path=IMAGES / "report.png")

        playground = Path(folder) / "playground.html"
        tsc.write_playground(load_checkpoint(MODEL), playground)
        page.set_viewport_size({"width": 1100, "height": 1500})
        _open(page, playground)
        page.locator("#map-panel, section:has(h2:text('Failure map'))").first.screenshot(
            path=IMAGES / "failure-map.png"
        )
        browser.close()


def _open(page: Page, path: Path) -> None:
    page.goto(path.as_uri())
    # Figures and the failure map are drawn after the page has loaded.
    page.wait_for_timeout(4000)


if __name__ == "__main__":
    main()
