"""Some cases of the differential fuzz (`python -m tests.fuzz.claims` runs it for longer)."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import claims, oracle


@pytest.mark.parametrize("number", range(8))
def test_claims_about_random_tasks_and_models_are_true(number: int) -> None:
    endings = list(claims.tried(2, number + 8))
    assert endings
    assert not [ending for _, ending in endings if ending.startswith("BAD")]


@pytest.mark.parametrize("claim", [claims.by_verify, claims.by_counts, claims.by_falsify])
def test_a_wrong_answer_is_noticed(claim: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """One string of each model is said to be answered otherwise."""
    answer = oracle.Model.answer

    def lies(self: oracle.Model, letters: tuple[int, ...]) -> int | None:
        said = answer(self, letters)
        return 1 - min(said or 0, 1) if set(letters) == {0} else said

    monkeypatch.setattr(oracle.Model, "answer", lies)
    monkeypatch.setattr(claims, "claims_about", lambda subject: [claim])
    for number in range(40):
        subject = claims.drawn(np.random.default_rng([3, number]))
        of_order = subject is not None and subject.checkpoint.config.needs_order
        if subject is None or of_order != (claim is claims.by_verify) or subject.task.steps:
            continue
        endings = [ending for _, ending in claims.tried(3, number)]
        if "falsify" not in endings and any("FalseClaim" in ending for ending in endings):
            return
    pytest.fail("no case noticed it")


def test_the_oracle_imports_nothing_of_the_package() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
             for alias in node.names]  # fmt: skip
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.startswith(("tsc_interp", "tests"))]
