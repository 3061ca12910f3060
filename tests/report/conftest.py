"""A report that several files look at, made once."""

from __future__ import annotations

import pytest

import tsc_interp as tsc
from tsc_interp.report import Report


@pytest.fixture(scope="session")
def errors() -> Report:
    """A model that fails, with everything that is asked by default."""
    return tsc.analyze("generalization-errors")
