"""A few damaged files of every kind; more: `python -m tests.fuzz checkpoint --cases 5000`."""

from __future__ import annotations

import pytest

from tests.fuzz import run_cases
from tests.fuzz.files import KINDS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "cases"), [
    ("checkpoint", 150), ("pt", 100), ("toml", 100), ("cache", 40), ("run", 25),
])  # fmt: skip
def test_damaged_files_are_refused_or_read_as_what_they_were(kind, cases, monkeypatch):
    monkeypatch.setenv("TSC_CACHE", "off")
    bad = [o for o in run_cases(KINDS[kind], cases, seed=1, limit_seconds=900) if o.bad]
    assert not bad, f"{bad[0].ending}: {bad[0].case.what[:500]!a}\n{bad[0].detail}"
