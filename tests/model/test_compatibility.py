"""What a TransformerLens user types works, differs as said, or is refused with the reason.

Runs against whichever TransformerLens is installed, like test_interop.py.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from transformer_lens import ActivationCache

from tests.model import compatibility
from tests.model.compatibility import CACHES, CALLABLE, MODEL, OPTIONS
from tests.model.compatibility_rows import Row, Side
from tests.model.test_forward import shaken_weights
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.interop import HAS_BRIDGE_ONLY

HERE = "4.3" if HAS_BRIDGE_ONLY else "3.9"
# boot_native's attention has no such hooks, so there is nothing to compare with on 4.3.
NOT_THERE = {"set_use_attn_result", "set_use_attn_in", "set_use_split_qkv_input"}
CALLED = [row for row in [*MODEL, *CACHES, *OPTIONS, *CALLABLE] if row.call]


def their_model_class() -> Any:
    import transformer_lens

    name = "TransformerBridge" if HAS_BRIDGE_ONLY else "HookedTransformer"
    return getattr(transformer_lens, name)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and not hasattr(nn.Module, name)}


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
    if HERE not in row.versions:
        assert row.name not in public(their_model_class()) | public(ActivationCache)
        return
    ours, theirs = sides
    if row.expected is not None:
        assert same(row.call(ours), row.expected)
        return
    if HAS_BRIDGE_ONLY and row.name in NOT_THERE:
        with pytest.raises(NotImplementedError):
            getattr(theirs.model, row.name)(True)
        row.call(ours)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(row.call(ours), row.call(theirs))


@pytest.mark.parametrize("row", [r for r in MODEL if r.status == "refused"], ids=lambda r: r.name)
def test_a_refusal_gives_its_reason(row: Row, sides: tuple[Side, Side]) -> None:
    with pytest.raises(UnsupportedError, match="is not offered here") as refused:
        getattr(sides[0].model, row.name)
    assert row.note in str(refused.value)
    assert not hasattr(sides[0].model, row.name)


@pytest.mark.parametrize("row", [r for r in CACHES if r.status == "refused"], ids=lambda r: r.name)
def test_transformer_lens_itself_refuses(row: Row, sides: tuple[Side, Side]) -> None:
    with pytest.raises(RuntimeError, match="No SSM"):
        getattr(sides[0].cache, row.name)()


@pytest.mark.parametrize("row", [r for r in OPTIONS if r.status == "refused"], ids=lambda r: r.name)
def test_an_option_that_is_not_taken_says_so(row: Row, sides: tuple[Side, Side]) -> None:
    with pytest.raises(UnsupportedError, match=f"{row.name} is not taken here: {row.note}"):
        sides[0].model(sides[0].tokens, **{row.name: "left"})


def test_parts_that_need_more_than_a_residual_stream_say_so(sides: tuple[Side, Side]) -> None:
    block, stream = sides[0].model.blocks[0], sides[0].cache["resid_pre", 0]
    for call in (lambda: block(stream), lambda: block.attn(stream, stream, stream)):
        with pytest.raises(UnsupportedError, match="attention needs to know how often each key"):
            call()


def test_no_option_is_missing_from_the_table() -> None:
    parameters = set(inspect.signature(their_model_class().forward).parameters)
    named = {row.name.split("=")[0] for row in OPTIONS if HERE in row.versions}
    assert parameters - {"self", "input", "kwargs"} == named


@pytest.mark.parametrize(("rows", "kind"), [(MODEL, "model"), (CACHES, "cache")])
def test_no_name_is_missing_from_the_table(rows: list[Row], kind: str) -> None:
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    theirs = public(ActivationCache if kind == "cache" else their_model_class())
    theirs |= {"forward"} if kind == "model" else set()
    assert theirs == {row.name for row in rows if HERE in row.versions}


def test_the_page_shows_the_table() -> None:
    assert compatibility.render() in compatibility.PAGE.read_text()
