"""Hold the built site to its promises: `python -m docs.build.check_site`, after `mkdocs build`.

Nothing from the network, plotly.js once for the whole site, pages of a sensible weight, no link
that leads nowhere; and in a real browser, from disk, at two widths: no error in the console, every
figure drawn, nothing wider than the screen. Without a browser that part is skipped with a remark,
unless TSC_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from docs.build.links import broken_links

SITE = Path(__file__).resolve().parents[2] / "site"
HEAVIEST_PAGE = 1_200_000
HEAVIEST_PLAYGROUND = 200_000
_LOOKS = ((1280, "light"), (390, "dark"))
PLOTLY_MARK = b"plotly.js v"

_LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(?P<src>[^\"]+)\"")
_STYLES = re.compile(
    r"<link\b(?=[^>]*rel=\"(?:stylesheet|preload|icon)\")[^>]*href=\"(?P<src>[^\"]+)\""
)


def problems(site: Path) -> Iterator[str]:
    """What a look at the files finds wrong."""
    if not (site / "index.html").is_file():
        yield f"{site} holds no site; run mkdocs build first"
        return
    copies = [path for path in site.rglob("*") if path.is_file() and _is_plotly(path)]
    if len(copies) != 1:
        yield f"plotly.js is there {len(copies)} times: {[p.name for p in copies]}"
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site).as_posix()
        text = page.read_text(encoding="utf-8")
        playground = name.startswith("generated/playground/")
        # A training history is extra, by epoch.
        plain = playground and not name.endswith("training.html")
        limit = HEAVIEST_PLAYGROUND if plain else HEAVIEST_PAGE
        if len(text.encode()) > limit:
            yield f"{name} weighs {len(text.encode()):,} bytes, more than {limit:,}"
        for found in (*_LOADED.finditer(text), *_STYLES.finditer(text)):
            if found["src"].startswith(("http:", "https:", "//")):
                yield f"{name} loads {found['src']} from the network"
    yield from broken_links(site)


def _is_plotly(path: Path) -> bool:
    if path.suffix not in (".js", ".html"):
        return False
    with path.open("rb") as file:
        return PLOTLY_MARK in file.read()


def browser_problems(site: Path, executable: str) -> list[str]:
    """What a browser finds wrong, with every page opened from disk, at both widths at once."""
    with ProcessPoolExecutor(2) as pool:
        asked = [pool.submit(_seen, site, executable, *look) for look in _LOOKS]
        return [problem for one in asked for problem in one.result()]


def _seen(site: Path, executable: str, width: int, scheme: str) -> list[str]:
    return list(_problems_at(site, executable, width, scheme))


def _problems_at(site: Path, executable: str, width: int, scheme: str) -> Iterator[str]:
    from playwright.sync_api import sync_playwright

    pages = sorted(site.rglob("*.html"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        for path in pages:
            name = f"{path.relative_to(site).as_posix()} at {width}"
            page = context.new_page()
            heard: list[str] = []
            page.on("pageerror", lambda error, heard=heard: heard.append(str(error)))
            page.on(
                "console",
                lambda message, heard=heard: (
                    heard.append(message.text) if message.type == "error" else None
                ),
            )
            page.goto(path.as_uri())
            page.evaluate("window.tscDrawAll ? window.tscDrawAll() : null")
            undrawn = page.evaluate(
                "[...document.querySelectorAll('.tsc-plot')]"
                ".filter((plot) => !plot.querySelector('.main-svg, canvas')).length"
            )
            wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            page.close()
            yield from (f"{name}: {text}" for text in heard)
            if undrawn:
                yield f"{name}: {undrawn} figures are not drawn"
            if wider > 0:
                yield f"{name}: {wider} pixels wider than the screen"
        browser.close()


def main() -> int:
    found = list(problems(SITE))
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is not None:
        found += browser_problems(SITE, executable)
    elif os.environ.get("TSC_REQUIRE_BROWSER") == "1":
        found.append("no chromium, and TSC_REQUIRE_BROWSER=1 asks for one")
    else:
        print("no chromium: the pages were not opened")
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"{len(list(SITE.rglob('*.html')))} pages hold their promises")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
