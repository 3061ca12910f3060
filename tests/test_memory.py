"""Small files and short arguments that would fill the memory are refused before they do."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tsc_interp.checkpoints import safe
from tsc_interp.errors import CheckpointError, TscError, UsageError
from tsc_interp.memory import MOST_BYTES, require_memory
from tsc_interp.tasks import Automaton, Regex


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Whatever gets past the bound fails here, and does not take the machine along."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (24 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_the_bound_is_exact_and_says_how_much_was_asked_for() -> None:
    require_memory("a table", MOST_BYTES // 8)
    with pytest.raises(UsageError, match=r"a table would take 4 GiB, at most 4 GiB"):
        require_memory("a table", MOST_BYTES // 8 + 1)
    with pytest.raises(UsageError, match="inf GiB"):
        require_memory("a table", 10**400)


def stored(options: dict[str, Any], path: Path) -> Path:
    """A checkpoint of an ordinary model whose file then says something else about it."""
    config = tsc.ClassifierConfig(n_letters=2, n_positions=6, n_heads=1, d_mlp=0)
    weights = {name: np.ones(shape, np.float32) for name, shape in config.weight_shapes().items()}
    plain = tsc.Checkpoint(config, weights)
    said = json.dumps({**config.to_dict(), **options})
    path.write_bytes(safe.to_bytes(plain.weights, {
        "format": "tsc-interp/checkpoint", "format_version": "2", "config": said,
    }))  # fmt: skip
    return path


PATTERNS = ["((a{500}){500}){500}", "(" * 3000 + "a" + ")" * 3000, "(" * 50 + "a" + "{9})" * 50,
            "((a?){999}){999}", "a" * 100_000]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern[:20])
def test_a_file_with_a_huge_expression_is_refused(pattern: str, tmp_path: Path) -> None:
    path = stored({"task": {"kind": "regex", "pattern": pattern}}, tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match=r"2,000 letters|100 brackets"):
        tsc.evaluate(path, "a")


def test_an_expression_of_too_many_states_is_given_up() -> None:
    with pytest.raises(UsageError, match="200,000 states"):
        Regex("(a|b)*a(a|b){300}").labels(np.array([[0, 1]]))


@pytest.mark.parametrize("options", [
    {"positions": "rotary", "d_head": 4096}, {"positions": "sinusoidal", "d_model": 4096},
])  # fmt: skip
def test_a_file_with_a_huge_table_of_positions_is_refused(
    options: dict[str, Any], tmp_path: Path
) -> None:
    path = stored({**options, "n_positions": 65536}, tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match="positions would take 6 GiB"):
        tsc.evaluate(path, "a")


def test_tasks_inside_each_other_are_refused(tmp_path: Path) -> None:
    task: Any = {"kind": "palindrome"}
    for _ in range(200):
        task = {"kind": "framed", "frame": "[0] x{2}; x=0..1", "task": task}
    with pytest.raises(CheckpointError, match="a task has one frame"):
        tsc.load(stored({"task": task}, tmp_path / "a.safetensors"))


def test_a_string_too_long_for_attention_is_refused() -> None:
    model = tsc.load("generalization-errors")
    with pytest.raises(UsageError, match=r"1,000,001 positions would take .* give shorter strings"):
        model(model.tokens(["a{1000000}"]))
    assert model(["a{1000000}"]).shape == (1,)  # by its counts


def test_a_saved_state_with_a_huge_context_is_refused() -> None:
    from tsc_interp.model.import_files import build

    sizes = {"d_model": 2, "d_head": 2, "n_heads": 1, "n_layers": 1, "n_ctx": 200_000}
    options = {**sizes, "attn_only": True, "d_vocab": 4, "positional_embedding_type": "rotary"}
    with pytest.raises(TscError, match="n_ctx = 200,000 tokens would take 186 GiB"):
        build(options, {"embed.W_E": torch.ones(100, 100)})


def test_an_automaton_of_too_many_states_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 200,000 states, got 10,000,000"):
        Automaton(states=10**7, start=0, letters="a", step=[[0]], label=[0])
