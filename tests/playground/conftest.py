"""One browser and one set of pages for all the tests of the playground.

The browser is closed when they are done: its event loop would be in the way of other tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.playground.pages import (
    BUNDLED,
    CHROMIUM,
    ODD,
    Open,
    check_request,
    fresh,
    training,
)
from tsc_interp.playground import write_playground


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One page per bundled model, a comparison, one with history, and odd shapes."""
    folder = tmp_path_factory.mktemp("pages")
    for name in BUNDLED:
        write_playground(name, folder / f"{name}.html")
    write_playground("walkthrough", folder / "compare.html", compare="many-heads")
    others = [name for name in BUNDLED if name != "walkthrough"]
    five = fresh(ODD["five-letters"], 1)
    write_playground("walkthrough", folder / "several.html", also=[*others, five])
    history = training()
    write_playground(history[8], folder / "history.html", history=history)
    for name, config in ODD.items():
        write_playground(fresh(config, 1), folder / f"{name}.html")
    return folder


@pytest.fixture
def visit(browser: Any, pages: Path) -> Iterator[Open]:
    """Open a page; afterwards, nothing may have been logged and nothing requested."""
    contexts, problems = [], []

    def go(name: str, fragment: str = "", **options: Any) -> Any:
        given = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **options}
        context = browser.new_context(**given)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: check_request(request.url, problems))
        page.goto((pages / f"{name}.html").as_uri() + fragment)
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []
