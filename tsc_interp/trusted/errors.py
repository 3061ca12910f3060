"""The one error of the trusted base: something was not proved, and why."""

from __future__ import annotations


class NotProved(Exception):
    """A document that is not accepted, or a model that the trusted base does not know."""


def require(holds: bool, problem: str) -> None:
    """Raise `NotProved` with the problem, unless it holds."""
    if not holds:
        raise NotProved(problem)
