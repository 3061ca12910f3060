"""The trusted core, and which tests are there to guard each file of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    file: str
    tests: tuple[str, ...]
    only: str = ""
    """As pytest's -k: what takes long and guards something else is left out."""


_CHECKER = (
    "tests/test_kernel.py",
    "tests/test_certificates.py",
    "tests/test_forged_certificates.py",
)
_FAST = "not accepted_is_true and not deeper and not every_field_is_sealed"

TARGETS = (
    Target("tsc_interp/verification/kernel.py", ("tests/test_kernel.py",)),
    Target(
        "tsc_interp/verification/coverage.py",
        ("tests/test_forged_certificates.py",),
        "coverage or strips",
    ),
    Target("tsc_interp/verification/checker.py", _CHECKER, _FAST),
    Target("tsc_interp/verification/checker_claims.py", _CHECKER, _FAST),
    Target(
        "tsc_interp/verification/checker_model.py",
        _CHECKER,
        "not deeper and not every_field_is_sealed",
    ),
    Target("tsc_interp/verification/intervals.py", ("tests/test_intervals.py",)),
    Target(
        "tsc_interp/verification/tables.py",
        ("tests/test_search_bounds.py", "tests/test_horizon.py"),
    ),
    Target(
        "tsc_interp/verification/faces.py", ("tests/test_search_bounds.py", "tests/test_horizon.py")
    ),
    Target(
        "tsc_interp/verification/layered.py",
        ("tests/test_search_bounds.py", "tests/test_horizon.py"),
    ),
    Target(
        "tsc_interp/verification/proofs.py",
        ("tests/test_search_bounds.py", "tests/test_horizon.py", "tests/test_certificates.py"),
    ),
    Target("tsc_interp/training/locking.py", ("tests/test_runs.py",), "lock or written_to"),
    Target("tsc_interp/report/reach.py", ("tests/test_report_verdict.py",)),
)
