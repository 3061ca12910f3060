"""The errors of the trusted base, from which every other error of the package is derived."""

from __future__ import annotations


class TscError(Exception):
    """Base of every error that this package raises on purpose.

    Example:
        >>> import tsc_interp as tsc
        >>> try:
        ...     tsc.evaluate("walk-through", "ab")
        ... except tsc.TscError as error:
        ...     print(str(error)[:57])
        no checkpoint 'walk-through': did you mean 'walkthrough'?
    """

    exit_code = 1


class UsageError(TscError):
    """The request itself is wrong: an unknown name, an impossible option, a bad combination."""

    exit_code = 2


class NotProved(TscError):
    """A document that is not accepted, with the reason, or a model that is beyond the proofs."""

    exit_code = 3


class LeavesNotProved(NotProved):
    """Leaves of a tree do not hold what they say; whoever writes the tree may leave them open."""

    def __init__(self, problem: str, leaves: list[int]) -> None:
        """`leaves` by their numbers in the tree, from 0."""
        super().__init__(f"rejected: {problem}")
        self.leaves = leaves


def require(holds: bool, problem: str) -> None:
    """Raise `NotProved` with the problem, unless it holds."""
    if not holds:
        raise NotProved(f"rejected: {problem}")
