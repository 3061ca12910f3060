"""The questions put to general verifiers are the ones `tsc.verify` answers."""

from __future__ import annotations

from typing import Any

import torch

import tsc_interp as tsc
from studies.keep import model
from studies.verifiers import page
from studies.verifiers.questions import CountsNetwork, Heads
from studies.verifiers.run import line, supports


def test_counts_give_the_logit_of_the_model() -> None:
    relu = model("relu")
    strings = ["ab", "c", "aab{7}c{3}", "b{9}c"]
    counts = torch.from_numpy(relu.config.alphabet.count_matrix(strings)).double()
    found = CountsNetwork(Heads.of(relu))(counts)[:, 0]
    assert torch.allclose(found.float(), tsc.load(relu)(strings), atol=1e-4)


def test_the_horizon_that_lengths_are_about() -> None:
    found: Any = tsc.horizon(model("relu"), prove=False)
    assert found.length == 351
    assert [label for _, label in supports()] == [False, False, False, True, False, False, True]


def test_every_stored_row_can_be_said() -> None:
    assert page.rows
    for row in page.rows:
        assert line(row)
        assert page.said(row)
    answers = {(row.get("length"), row["right"]) for row in page.rows if row["answered"]}
    assert all(right == (length != 352) for length, right in answers)
