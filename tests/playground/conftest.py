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

HERE = Path(__file__).parent
QUICK = {
    "test_logits_are_pythons_and_the_first_error_is_the_verifiers",
    "test_mute_undo_and_attribution",
    "test_keyboard_only",
    "test_a_shared_address_restores_the_view",
    "test_the_download_is_the_model_that_was_trained",
    "test_shortest_wrong_string_muting_and_the_link",
    # What would be an attack, and what Python decides by another way.
    "test_hostile_addresses_change_nothing",
    "test_addresses_with_options_there_are_not_train_nothing",
    "test_a_frame_is_filled_and_searched",
    "test_every_member_of_the_family_matches_python",
    "test_it_opens_on_a_wrong_pair_and_adds_what_is_typed",
}
"""Six journeys through a page, and the oracles; the slow tier has the others in a browser."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = getattr(item, "originalname", item.name)
        if item.get_closest_marker("browser") and item.path.parent == HERE and name not in QUICK:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pages are made, each when it is first visited."""
    return tmp_path_factory.mktemp("pages")


def make(name: str, path: Path) -> None:
    """A bundled model's page, a comparison, one with history, or one of an odd shape."""
    if name == "compare":
        write_playground("walkthrough", path, compare="many-heads")
    elif name == "several":
        others = [one for one in BUNDLED if one != "walkthrough"]
        write_playground("walkthrough", path, also=[*others, fresh(ODD["five-letters"], 1)])
    elif name == "history":
        history = training()
        write_playground(history[8], path, history=history)
    else:
        write_playground(name if name in BUNDLED else fresh(ODD[name], 1), path)


@pytest.fixture
def visit(browser: Any, pages: Path) -> Iterator[Open]:
    """Open a page; afterwards, nothing may have been logged and nothing requested."""
    contexts, problems = [], []

    def go(name: str, fragment: str = "", **options: Any) -> Any:
        given = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **options}
        if not (pages / f"{name}.html").exists():
            make(name, pages / f"{name}.html")
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
