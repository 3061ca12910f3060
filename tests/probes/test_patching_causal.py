"""Patching and paths of causal models, against the same thing by hand with PyTorch's own hooks.

Such a model reads at the last position, and no position sees what comes after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.model.test_forward import shaken_weights
from tsc_interp.config import ClassifierConfig
from tsc_interp.interventions.singly import expected, singly
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.inputs import from_tokens
from tsc_interp.probes.registry import find_probe

patching = find_probe("patching")
paths = find_probe("paths")

CLEAN, CORRUPTED = "abcab", "abbca"
SIZES: dict[str, Any] = {"d_model": 5, "n_heads": 2, "d_head": 3, "d_mlp": 7, "attend_cls": True}
CONFIGS = {
    "last": ClassifierConfig(**SIZES, reads="last", n_layers=2),
    "last letter": ClassifierConfig(**SIZES, reads="last_letter", biases=True),
    "positions": ClassifierConfig(**SIZES, reads="last_letter", n_positions=8, n_layers=2),
}
SITES = {
    "resid_pre": "hook_resid_pre",
    "attn_out": "hook_attn_out",
    "resid_mid": "hook_resid_mid",
    "mlp_out": "hook_mlp_out",
    "resid_post": "hook_resid_post",
    "z": "attn.hook_z",
    "k": "attn.hook_k",
    "v": "attn.hook_v",
}


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> HookedClassifier:
    config = CONFIGS[request.param]
    return HookedClassifier(config, shaken_weights(config))


def by_hand(model: HookedClassifier, hook: str, layer: int, at: tuple[int, ...]) -> float:
    """The corrupted string's logit with one entry from the clean one, by two PyTorch hooks."""
    point = dict(model.named_modules())[f"blocks.{layer}.{hook}"]
    kept: list[Tensor] = []
    index = (0, at[0]) if len(at) == 1 else (0, at[0], at[1])

    def keep(module: Any, given: Any, out: Tensor) -> None:
        kept.append(out.detach().clone())

    def put(module: Any, given: Any, out: Tensor) -> Tensor:
        changed = out.clone()
        changed[index] = kept[0][index]
        return changed

    with torch.no_grad():
        handle = point.register_forward_hook(keep)
        model(CLEAN)
        handle.remove()
        handle = point.register_forward_hook(put)
        found = float(model(CORRUPTED))
        handle.remove()
    return found


def test_every_patch_is_the_one_made_by_hand(model: HookedClassifier) -> None:
    found = patching.run(model, [CLEAN, CORRUPTED], by="position")
    one = found.pairs[0]
    clean, corrupted = float(model(CLEAN).detach()), float(model(CORRUPTED).detach())
    assert one.pair.corrupted_logit == pytest.approx(corrupted, abs=1e-6)
    for site, hook in SITES.items():
        effect = one.site(site).effect.array
        for layer, *at in np.ndindex(effect.shape):
            share = (by_hand(model, hook, layer, tuple(at)) - corrupted) / (clean - corrupted)
            assert effect[(layer, *at)] == pytest.approx(share, abs=2e-4), (site, layer, at)


def test_the_stream_where_it_is_read_is_everything(model: HookedClassifier) -> None:
    """The last residual stream restores all at the reading position, and nothing elsewhere."""
    [found] = patching.run(model, [CLEAN, CORRUPTED], by="position").pairs
    last = found.site("resid_post").effect.array[-1]
    assert found.query == len(last) - 1
    assert not last[:-1].any()
    assert last[-1] == pytest.approx(1.0, abs=1e-4)
    assert found.place in ("CLS", "4 b|a")


def test_pairs_of_different_lengths_are_read_at_their_own_ends(model: HookedClassifier) -> None:
    found = patching.run(model, ["a"], pairs=[(CLEAN, CORRUPTED), ("ab", "cb")], by="position")
    for one in found.pairs:
        assert one.query == len(one.pair.positions) - 1
        assert one.site("resid_post").effect.array[-1, one.query] == pytest.approx(1.0, abs=1e-4)
        assert not one.site("resid_post").effect.array[-1, :-1].any()


def test_repeated_rows_are_the_row(model: HookedClassifier) -> None:
    inputs = from_tokens(model.config, model.tokens([CORRUPTED]))
    rows = inputs.repeated(3)
    assert (rows.causal, rows.compressed) == (inputs.causal, inputs.compressed)
    expected_logit = float(model(CORRUPTED).detach())
    assert model(rows).tolist() == pytest.approx([expected_logit] * 3, abs=1e-6)
    nothing = f"head0=patch({CORRUPTED})"
    effects = singly(model, CORRUPTED, [nothing])
    assert float(effects.before[0]) == pytest.approx(expected_logit, abs=1e-6)
    assert effects.changes.tolist() == [0.0]
    assert expected(model, CORRUPTED, [nothing]).tolist() == pytest.approx([0.0], abs=1e-6)


def test_paths_of_a_linear_read_out_add_up(model: HookedClassifier) -> None:
    """What the logit hears of embedding, heads and neurons of the one layer is all it hears."""
    if model.config.n_layers > 1:
        pytest.skip("in deeper models writers also reach the logit through later ones")
    found = paths.run(model, [CLEAN, CORRUPTED], by="position").pairs[0]
    into = [edge for edge in found.edges if edge.target == "logit"]
    assert sum(edge.effect for edge in into) == pytest.approx(1.0, abs=1e-4)
