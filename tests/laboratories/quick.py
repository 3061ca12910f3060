"""One small run of each laboratory, made once for all the tests that read it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.sizes import THOROUGH
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

SMALLER: dict[str, dict[str, Any]] = {
    "pretrain": {"seeds": 2, "pretrain_steps": 4, "finetune_steps": 3},
    "positions": {"batches": 6, "epochs": 2, "max_length": 7},
    "failures": {"seeds": 3, "cells": "length=10"},
    "efficient": {"max_length": 9},
    "image": {"steps": 6, "test": 100},
}  # fmt: skip
"""What a contract needs of a quick run; the docs build makes every quick run as it stands."""


def smaller(name: str) -> dict[str, Any]:
    """The options of the small run besides `quick`: none with TSC_THOROUGH=1."""
    return {} if THOROUGH else SMALLER.get(name, {})


@cache
def small(name: str) -> LabResult:
    return find_laboratory(name).run(quick=True, **smaller(name))
