"""Public models: a small adder of our own in their format, counted against every single pair."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
import torch

import tsc_interp as tsc
from studies.__main__ import main
from studies.public_models.micro_adder import micro_adder, micro_outputs, micro_state
from studies.public_models.run import _sums, keep, line, read, row_of
from tests.studies.tiny_adders import (
    cumulative_file,
    jack_file,
    micro_file,
    one_digit_file,
    qwen_file,
)

DIGITS = range(10)


def test_a_file_is_counted_and_replayed(tmp_path: Path) -> None:
    """A one-digit adder by chance: what it gets wrong is what a plain forward pass gets wrong."""
    path = one_digit_file(tmp_path / "tiny.pt")
    subject = read(path)
    wrong = set()
    for a, b in product(DIGITS, DIGITS):
        total = a + b
        letters = torch.tensor([[a, 10, b, 11, total % 10]])
        answers = subject.outputs(letters)[0, 3:].argmax(-1).tolist()
        if answers != [total % 10, total // 10]:
            wrong.add((a, b))
    assert 0 < len(wrong) < 100
    row = row_of(path, seconds=600)
    assert (row["inputs"], row["wrong"], row["undecided"]) == ("100", str(len(wrong)), "0")
    a, b = min(wrong)
    assert row["replay"]["pair"] == [a, b]
    assert row["replay"]["agrees"]
    share = row["brute_force"]["wrong"] / row["brute_force"]["sample"]
    assert share == pytest.approx(len(wrong) / 100, abs=0.03)
    assert f"wrong {len(wrong)} of 100" in line(row)


def test_a_certificate_says_the_same_as_the_search(tmp_path: Path) -> None:
    row = row_of(cumulative_file(tmp_path / "sums.pt"), seconds=600)
    made = row["certificate"]
    assert row["inputs"] == "12"  # strings of one and two letters out of three
    assert 0 < int(row["wrong"]) < 12
    assert sum(int(part["wrong"]) for part in made["conclusion"]["parts"]) == int(row["wrong"])
    assert made["bytes"] > made["compressed_bytes"] > 0


def test_a_micro_adder_reads_as_its_plain_forward_pass(tmp_path: Path) -> None:
    """Two heads that are turned, biases, and a low-rank output."""
    path = micro_file(tmp_path / "micro.pt")
    letters = torch.randint(0, 14, (9, 33), generator=torch.Generator().manual_seed(1))
    plain = micro_outputs(micro_state(path), letters)[:, -1]
    found = tsc.load(micro_adder(path))(letters + 2)
    assert torch.allclose(found, plain, atol=1e-4)
    assert plain.abs().max() > 0.1


@pytest.mark.parametrize("name", ["jack.pt", "spiral.pt"])
def test_an_adder_of_tables_or_a_spiral_reads_as_its_plain_forward_pass(
    tmp_path: Path, name: str
) -> None:
    path = jack_file(tmp_path / name, spiral=name == "spiral.pt")
    letters = torch.randint(0, 14, (9, 33), generator=torch.Generator().manual_seed(1))
    subject = read(path)
    found = tsc.load(subject.checkpoint)(letters + 2)
    plain = subject.outputs(letters)[:, -1]
    assert torch.allclose(found, plain, atol=1e-4)
    assert plain.abs().max() > 0.1


def test_a_block_of_qwen_reads_as_its_plain_forward_pass(tmp_path: Path) -> None:
    """Two heads that share keys and values, norms of queries and keys, turned places, a gate."""
    subject = read(qwen_file(tmp_path / "qwen.npz"))
    letters = torch.randint(0, 10, (9, 34), generator=torch.Generator().manual_seed(1))
    found = tsc.load(subject.checkpoint)(letters + 2)
    plain = subject.outputs(letters)[:, -1]
    assert torch.allclose(found, plain, atol=1e-4)
    assert plain.abs().max() > 0.1


def test_random_sums_are_right_and_as_the_task_has_them(tmp_path: Path) -> None:
    task = read(qwen_file(tmp_path / "qwen.npz")).checkpoint.config.task
    rows = _sums(task, 50, torch.Generator().manual_seed(0))
    prompts = rows[:, : task.prompt_length].numpy()
    assert (task.answers(prompts) == rows[:, task.prompt_length :].numpy()).all()


def test_what_is_not_known_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    torch.save({"blocks.1.attn.W_Q": torch.zeros(1)}, path)
    row = row_of(path, seconds=1)
    assert "more than one layer" in row["refused"]
    assert "not verified" in line(row)


def test_a_newer_row_replaces_the_older_one(tmp_path: Path) -> None:
    store = tmp_path / "rows.json"
    for found in (1, 2):
        keep(store, {"name": "x", "sha256": "a", "found": found})
    keep(store, {"name": "y", "sha256": "b", "found": 3})
    assert [row["found"] for row in json.loads(store.read_text())["models"]] == [2, 3]


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no \.pt or \.npz file"):
        main(["public_models", str(tmp_path)])
