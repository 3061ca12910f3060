"""What a TransformerLens user types works, differs as said, or is refused."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformer_lens import ActivationCache, TransformerBridge

from tests.model import compatibility
from tests.model.compatibility import (
    CACHE,
    FORWARD,
    MODEL,
    PARTS,
    REFUSED_OPTIONS,
    Row,
    Side,
    public,
    refused,
)
from tests.model.test_forward import shaken_weights
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier, RefusedError

# boot_native's attention has no such hooks, so there is nothing to compare with.
NOT_THERE = {"set_use_attn_result", "set_use_attn_in", "set_use_split_qkv_input"}
CALLED = [*MODEL, *CACHE, *FORWARD, *PARTS]


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    """The same model twice, with positions so that TransformerLens decomposes it alike."""
    config = ClassifierConfig(
        n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11, n_layers=2, n_positions=13,
        n_outputs=2,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HookedClassifier(config, shaken_weights(config))
        exported = model.to_transformer_lens()
        tokens = model.tokens(["aabcd", "b{4}e{2}", "ca"])
        yield tuple(
            Side(one, one.run_with_cache(tokens)[1], tokens, one is model)
            for one in (model, exported)
        )


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, torch.Tensor):
        assert ours.shape == theirs.shape
        finite = torch.isfinite(ours)
        assert torch.equal(finite, torch.isfinite(theirs))
        return torch.allclose(ours[finite], theirs[finite], atol=1e-5)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        return all(same(value, theirs[name]) for name, value in ours.items())
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


@pytest.mark.parametrize("row", CALLED, ids=lambda r: r.name)
def test_the_same_answer_as_transformer_lens(row: Row, sides: tuple[Side, Side]) -> None:
    ours, theirs = sides
    if row.expected is not None:
        assert same(row.call(ours), row.expected)
        return
    if row.name in NOT_THERE:
        with pytest.raises(NotImplementedError):
            getattr(theirs.model, row.name)(True)
        row.call(ours)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(row.call(ours), row.call(theirs))


@pytest.mark.parametrize("name", refused(TransformerBridge, MODEL))
def test_every_other_name_is_refused(name: str, sides: tuple[Side, Side]) -> None:
    with pytest.raises(RefusedError, match=f"{name} is TransformerLens's and not offered here"):
        getattr(sides[0].model, name)
    assert not hasattr(sides[0].model, name)


def test_a_cache_has_no_state_spaces(sides: tuple[Side, Side]) -> None:
    assert refused(ActivationCache, CACHE) == [
        "compute_ssm_effective_attention", "compute_ssm_state",
    ]  # fmt: skip
    for name in refused(ActivationCache, CACHE):
        with pytest.raises(RuntimeError, match="No SSM"):
            getattr(sides[0].cache, name)()


@pytest.mark.parametrize("name", REFUSED_OPTIONS)
def test_an_option_that_is_not_taken_says_so(name: str, sides: tuple[Side, Side]) -> None:
    with pytest.raises(UnsupportedError, match=f"{name} is not taken here"):
        sides[0].model(sides[0].tokens, **{name: "left"})


def test_parts_that_need_more_than_a_residual_stream_say_so(sides: tuple[Side, Side]) -> None:
    block, stream = sides[0].model.blocks[0], sides[0].cache["resid_pre", 0]
    for call in (lambda: block(stream), lambda: block.attn(stream, stream, stream)):
        with pytest.raises(UnsupportedError, match="attention needs to know how often each key"):
            call()


def test_no_name_and_no_option_is_invented() -> None:
    assert {row.name for row in MODEL} <= public(TransformerBridge) | {"forward"}
    assert {row.name for row in CACHE} <= public(ActivationCache)
    parameters = set(inspect.signature(TransformerBridge.forward).parameters)
    named = {row.name.split("=")[0] for row in FORWARD} | set(REFUSED_OPTIONS)
    assert parameters - {"self", "input", "kwargs"} == named


def test_the_page_shows_the_table() -> None:
    assert compatibility.render() in compatibility.PAGE.read_text()
