"""One bound on what an argument or a file may allocate, asked before anything is allocated.

A checkpoint of a few kilobytes can name a table of gigabytes, and so can a string such as
`a{1000000}`. Whoever is about to make an array whose size somebody else chose asks here first.
"""

from __future__ import annotations

import math

from tsc_interp.errors import UsageError

MOST_BYTES = 4 * 2**30


def require_memory(what: str, *shape: int, each: int = 8, instead: str = "") -> None:
    """Refuse an array larger than 4 GiB before it is made.

    Args:
        what: What would be allocated, for the message.
        shape: The size of each axis; whole numbers of any size.
        each: Bytes for each entry, temporary copies included.
        instead: What the user can do.

    Raises:
        UsageError: The array would not fit; the message names its size and what to do.

    Example:
        >>> require_memory("a table of counts", 1000, 1000)
        >>> require_memory("attention", 10**6, 10**6, each=4)
        Traceback (most recent call last):
        tsc_interp.errors.UsageError: attention would take 3,725 GiB, at most 4 GiB are allocated
    """
    needed = math.prod(shape) * each
    if needed > MOST_BYTES:
        raise UsageError(
            f"{what} would take {_size(needed)}, at most {_size(MOST_BYTES)} are "
            f"allocated{': ' if instead else ''}{instead}"
        )


def _size(n_bytes: int) -> str:
    gibibytes = n_bytes / 2**30 if n_bytes < 2**1000 else math.inf
    return f"{gibibytes:,.0f} GiB" if gibibytes >= 10 else f"{gibibytes:.3g} GiB"
