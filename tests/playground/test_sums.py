"""What the page for models that add is told: its map against all pairs one by one, its proof."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from studies.constructed import carry_adder
from tests.playground.test_playground import payload_of
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.playground import playground_fragment, write_playground
from tsc_interp.playground.sums import cell_counts, cell_size, digit_of, has_map, sums_payload
from tsc_interp.tasks import Addition


def noisy_adder(seed: int, digits: int = 2, base: int = 3, **options: Any) -> Checkpoint:
    """A constructed adder whose weights are disturbed: wrong here and there."""
    adder = carry_adder(digits, base)
    random = np.random.default_rng(seed)
    weights = {
        name: weight + random.normal(0, 0.02, weight.shape).astype(np.float32)
        for name, weight in adder.weights.items()
    }
    config = adder.config.replace(task=Addition(digits=digits, base=base, **options))
    return Checkpoint(config, weights, {}, source="noisy")


def answers(model: Checkpoint, a: int, b: int) -> list[tuple[int, int]]:
    """(said, right) at each step, after the right digits so far; float64, one pair at a time."""
    task: Any = model.config.task
    row: list[int | None] = [None] * task.prompt_length
    for place, letter in task.whole().fixed:
        row[place] = letter
    for name, value in (("a", a), ("b", b)):
        for digit in range(task.digits):
            at = next(p for p in range(len(row)) if task.place_name(p) == f"{name}{digit}")
            row[at] = value // task.base**digit % task.base
    out = []
    for step in range(task.n_steps):
        digit = step if task.total == "least" else task.n_steps - 1 - step
        right = (a + b) // task.base**digit % task.base
        letters = "".join(model.config.alphabet.letters[x] for x in row if x is not None)
        out.append((int(tsc.evaluate(model, [letters])[0].prediction), right))
        row.append(right)
    return out


@pytest.mark.parametrize(
    ("model", "options"),
    [(carry_adder(2, 3, shift=1.5), {}), (noisy_adder(1), {}), (noisy_adder(3, total="most"), {})],
)
def test_cells_hold_what_all_pairs_one_by_one_give(model: Checkpoint, options: Any) -> None:
    task: Any = model.config.task
    verdict = tsc.verify(model)
    assert verdict.wrong
    counted: dict[tuple[int, int], dict[Any, int]] = {}
    for a, b in product(range(9), repeat=2):
        for step, (said, right) in enumerate(answers(model, a, b)):
            if said != right:
                digit = digit_of(task, step)
                carry = int(a % 3**digit + b % 3**digit >= 3**digit)
                cell = carry, a // 3**digit % 3, b // 3**digit % 3
                counts = counted.setdefault((step, digit), {})
                counts[cell] = counts.get(cell, 0) + 1
    for step, part in enumerate(verdict.parts):
        if has_map(task, step):
            assert cell_counts(task, part) == counted.get((step, digit_of(task, step)), {}), step
            sizes = sum(9 * cell_size(task, step, carry) for carry in (0, 1))
            assert sizes == 81
    for step in sums_payload(model.config, verdict)["known"]["steps"]:
        for *cell, wrong, _, pair in step["cells"] or ():
            if wrong != "0":
                a, b = (int(text, 3) for text in pair)
                said = answers(model, a, b)
                assert any(one != right for one, right in said), (cell, pair)


def test_an_adder_and_another_model_need_different_pages(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"adds two numbers.*answers by letter counts"):
        playground_fragment(carry_adder(2, 3), also=["walkthrough"])
    hexadecimal = ClassifierConfig(
        n_letters=18, n_outputs=18, task=Addition(digits=1, base=16), n_positions=6, d_model=3,
        reads="last_letter", attend_cls=True,
    )  # fmt: skip
    weights = {n: np.zeros(s, np.float32) for n, s in hexadecimal.weight_shapes().items()}
    assert "sums" not in payload_of(playground_fragment(Checkpoint(hexadecimal, weights)))["models"]
    assert not list(tmp_path.iterdir())


def test_the_page_carries_a_proof_that_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "adder.safetensors"
    carry_adder(2, 3).save(path)
    write_playground(path, tmp_path / "page.html")
    payload = payload_of((tmp_path / "page.html").read_text())
    proof = payload["models"][0]["sums"]["known"]["proof"]
    document = json.loads(gzip.decompress(b64decode(proof["content"])))
    assert len(json.dumps(document)) + 1 == proof["bytes"]
    (tmp_path / "proof.json").write_text(json.dumps(document))
    assert "81 are right" in str(list(tsc.check(tmp_path / "proof.json", path)))
