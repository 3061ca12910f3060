"""The quick run of each laboratory, made once for all the tests that read it."""

from __future__ import annotations

from functools import cache

import pytest

from tsc_interp.laboratories.base import LabResult
from tsc_interp.laboratories.registry import LABORATORIES, find_laboratory

EVERY = pytest.mark.parametrize(
    "laboratory",
    [
        pytest.param(one, marks=pytest.mark.xdist_group(f"lab-{one.name}"), id=one.name)
        for one in LABORATORIES
    ],
)
"""All tests of one laboratory run in one process, so that they share its quick run."""


@cache
def quick(name: str) -> LabResult:
    return find_laboratory(name).run(quick=True)
