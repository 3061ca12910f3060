"""Reports on models with hostile names: a page and a Markdown file hold no tag but our own."""

from __future__ import annotations

import dataclasses
import random
from functools import cache
from pathlib import Path

from tests.fuzz.names import hostile
from tests.fuzz.running import Case
from tsc_interp.report import Report


@cache
def _report() -> Report:
    import tsc_interp as tsc

    report = tsc.analyze("walkthrough", ["ab"], probes=["trace"])
    section = report.models[0].sections["trace"]
    # One figure, drawn once, not again for each name.
    section.__dict__["figures"] = section.figures[:1]
    return report


def _named(name: str) -> Report:
    model = _report().models[0]
    card = dataclasses.replace(
        model.card, name=name, source=f"{name}.safetensors", provenance={name: {name: name}}
    )
    renamed = dataclasses.replace(
        model, card=card, checkpoint=None, not_run={"cone": f"because of {name}"}
    )
    renamed.__dict__["sections"] = model.sections
    return Report((renamed,))


@cache
def _quiet() -> str:
    return _named("quiet").to_html(plotlyjs="cdn")


def page(rng: random.Random, place: Path) -> Case:
    from tests.report.test_escaping import html_is_ours

    name = hostile(rng)

    def call() -> int:
        html_is_ours(_quiet(), _named(name), name)
        return 0

    return Case(repr(name), call=call)


def markdown(rng: random.Random, place: Path) -> Case:
    from tests.report.test_escaping import markdown_is_ours

    name = hostile(rng)

    def call() -> int:
        markdown_is_ours(_named(name), name)
        return 0

    return Case(repr(name), call=call)


KINDS = {"page": page, "markdown": markdown}
