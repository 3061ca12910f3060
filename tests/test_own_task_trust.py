"""What is believed of a task of one's own, and what is refused: each of these was believed once."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.errors import ConfigError
from tsc_interp.tasks import (
    AtLeast,
    Before,
    ContainsAll,
    Majority,
    Maximum,
    MostFrequent,
    Parity,
)
from tsc_interp.tasks.audit import check_supports

SHIPPED = (ContainsAll, AtLeast, Majority, Parity, MostFrequent, Maximum, Before)


class ManyOfB(tsc.tasks.OwnTask):
    """Label 1 from `k` letters b on, and said to have label 0 wherever both a and b occur."""

    kind: Literal["trust_many_of_b"] = "trust_many_of_b"
    k: int = 3

    def labels(self, counts: Any) -> Any:
        return counts[..., 1] >= self.k

    def label_of_support(self, letters: frozenset[str]) -> Any:
        return False if "a" in letters else None


@pytest.mark.parametrize("k", [1, 2, 40, 1000])
def test_a_support_that_contradicts_the_labels_is_refused(k: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"label_of_support says 0 .* over ab.* of a.*b\{{{k}\}}"
    ):
        tsc.ClassifierConfig(task=ManyOfB(k=k))


@pytest.mark.parametrize("n_letters", [2, 3, 8, 12, 20])
def test_every_support_is_compared(n_letters: int) -> None:
    """A rule that is false about one single set of letters, up to all twelve of them."""
    last = min(n_letters, 12) if n_letters <= 12 else 2
    lied = frozenset(tsc.ClassifierConfig(n_letters=n_letters).alphabet.letters[:last])

    class OneLie(tsc.tasks.OwnTask):
        kind: Literal["trust_one_lie"] = "trust_one_lie"

        def labels(self, counts: Any) -> Any:
            return (counts > 0).sum(-1) % 2 == 0

        def label_of_support(self, letters: frozenset[str]) -> Any:
            return (len(letters) % 2 == 0) ^ (letters == lied)

    with pytest.raises(ConfigError, match="contradicts itself"):
        tsc.ClassifierConfig(task=OneLie(), n_letters=n_letters)


class EndsInA(tsc.tasks.OwnTask):
    kind: Literal["trust_ends_in_a"] = "trust_ends_in_a"
    ordered: ClassVar[bool] = True

    def labels(self, letters: Any) -> Any:
        last = (letters >= 0).sum(1) - 1
        return letters[np.arange(len(letters)), last] == 0

    def label_of_support(self, letters: frozenset[str]) -> Any:
        return "a" in letters


def test_a_rule_on_order_is_compared_too() -> None:
    with pytest.raises(ConfigError, match="label_of_support says 1 of all strings over ab"):
        tsc.ClassifierConfig(task=EndsInA(), n_positions=9)


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda one: one.__name__)
def test_no_own_task_has_the_name_of_a_shipped_one(shipped: Any) -> None:
    """`most_frequent` got the shipped rule over boxes, whatever its labels said."""
    name = shipped().kind

    class Fixed(tsc.tasks.OwnTask):
        kind: Literal[name] = name  # type: ignore[valid-type]

        def labels(self, counts: Any) -> Any:
            return counts[..., 0] == 1

    class Free(tsc.tasks.OwnTask):
        kind: str = "trust_free"

        def labels(self, counts: Any) -> Any:
            return counts[..., 0] == 1

    for task in (Fixed(), Free(kind=name)):
        with pytest.raises(ConfigError, match=f"calls itself '{name}'"):
            tsc.ClassifierConfig(task=task)
    with pytest.raises(ConfigError, match="this one says 'trust_other'"):
        tsc.ClassifierConfig(task=Free(kind="trust_other"))


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda one: one.__name__)
def test_a_subclass_of_a_shipped_task_is_not_that_task(shipped: Any) -> None:
    class Other(shipped):
        def labels(self, counts: Any) -> Any:
            return counts[..., 0] == 1

    class Both(tsc.tasks.OwnTask, shipped):
        kind: Literal["trust_both"] = "trust_both"

        def labels(self, counts: Any) -> Any:
            return counts[..., 0] == 1

    for task in (Other(), Both()):
        with pytest.raises(ConfigError, match=rf"is a subclass of {shipped.__name__}.*OwnTask"):
            tsc.ClassifierConfig(task=task, n_positions=9, n_outputs=3)


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda one: one.__name__)
@pytest.mark.parametrize("n_letters", [2, 3, 5])
def test_the_shipped_tasks_agree_with_themselves(shipped: Any, n_letters: int) -> None:
    check_supports(shipped(), n_letters)
