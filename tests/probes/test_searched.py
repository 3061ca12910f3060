"""Probes that need the first errors of one model share one search."""

from __future__ import annotations

from typing import Any

import pytest

from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes import searched as shared
from tsc_interp.probes.registry import find_probe
from tsc_interp.report.reach import reach
from tsc_interp.verification import certificates, horizons
from tsc_interp.verification.search.search import search_supports


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The budget of each search made, wherever it is made."""
    made: list[int] = []

    def counted(supports: Any, limit: int, budget: int, **options: Any) -> Any:
        made.append(budget)
        return search_supports(supports, limit, budget, **options)

    monkeypatch.setattr(shared, "_known", {})
    for module in (shared, certificates, horizons):
        monkeypatch.setattr(module, "search_supports", counted)
    return made


def test_cone_and_the_report_search_once(searches: list[int]) -> None:
    model = Classifier.from_checkpoint(as_checkpoint("walkthrough"))
    [(string, _)] = reach(as_checkpoint("walkthrough")).errors()
    assert string == "abc{2165}"
    assert find_probe("cone").run(model, ["ab"]).horizon == 2166
    assert searches == [shared.BUDGET]


def test_a_changed_weight_is_searched_again(searches: list[int]) -> None:
    checkpoint = as_checkpoint("walkthrough")
    shared.searched(checkpoint)
    weights = {**checkpoint.weights, "unembed.W_U": 2 * checkpoint.weights["unembed.W_U"]}
    shared.searched(type(checkpoint)(checkpoint.config, weights))
    shared.searched(checkpoint)
    assert len(searches) == 2
