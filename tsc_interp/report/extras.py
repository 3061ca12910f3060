"""What stands behind the probes in a page: things that are pages of their own."""

from __future__ import annotations

from dataclasses import dataclass

from tsc_interp.errors import TscError
from tsc_interp.report.content import ReportContent


@dataclass(frozen=True)
class Extra:
    """A page to be placed in a frame, or the reason why there is none."""

    anchor: str
    title: str
    lead: str
    page: str | None


def playground(report: ReportContent) -> list[Extra]:
    """The model to try out, if the report still knows it: one read from JSON does not."""
    from tsc_interp.playground import playground_fragment

    known = [model.checkpoint for model in report.models if model.checkpoint is not None]
    if len(known) < len(report.models):
        return []
    title = "Try it out"
    try:
        page = playground_fragment(known[0], compare=known[1] if len(known) > 1 else None)
    except TscError as error:
        return [Extra("playground", title, f"There is no playground for this: {error}.", None)]
    lead = "Type a string, move the counts, change a weight, and see what the model makes of it."
    return [Extra("playground", title, lead, page)]
