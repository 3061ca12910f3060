"""The playground: one HTML page in which a person can run, question and change a model."""

from tsc_interp.playground.mapfigure import failure_map
from tsc_interp.playground.page import (
    is_playground,
    playground_fragment,
    read_history,
    write_playground,
)
from tsc_interp.playground.payload import page_name

__all__ = [
    "failure_map",
    "is_playground",
    "page_name",
    "playground_fragment",
    "read_history",
    "write_playground",
]
