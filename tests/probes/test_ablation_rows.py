"""Ablation of any TransformerLens model: equal to hooks written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.model.outside_models import to_bridge
from tests.probes.models import (
    QUERY,
    TOKENS,
    check_survives_json,
    make_transformer_lens_model,
    transformer_lens_model,
)
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.hooks import intervene
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.probes.registry import figures, run_probe


@pytest.mark.parametrize("change", ["zero", "mean"])
@pytest.mark.parametrize("norm", ["LN", None])
def test_equal_to_hooks_by_hand(norm: str | None, change: str) -> None:
    model = transformer_lens_model(norm)
    result = run_probe("ablation", model, TOKENS, query=QUERY, token_names="abcdefghi")
    with torch.no_grad():
        before = model(TOKENS)[:, QUERY].numpy()
    said = before.argmax(1)
    for layer in range(2):
        for head in (0, 1, None):

            def edit(x: torch.Tensor, hook: Any, head: int | None = head) -> torch.Tensor:
                x = x.clone()
                where = x if head is None else x[:, :, head]
                where[:] = 0 if change == "zero" else where.mean(0)
                return x

            place = f"blocks.{layer}." + ("hook_mlp_out" if head is None else "attn.hook_z")
            with torch.no_grad():
                after = model.run_with_hooks(TOKENS, fwd_hooks=[(place, edit)])[:, QUERY].numpy()
            part = f"layer {layer} " + ("MLP" if head is None else f"head {head}")
            for row in range(5):
                lead = [x[row, said[row]] - np.delete(x[row], said[row]).max()
                        for x in (before, after)]  # fmt: skip
                got = result.effects.at(change=change, part=part, string=f"row {row}")
                assert float(got) == pytest.approx(lead[1] - lead[0], abs=1e-5)
                now = result.answers.after.at(change=change, part=part, string=f"row {row}")
                assert int(now) == after[row].argmax()
            changed = int(result.answers.changed.at(change=change, part=part))
            assert changed == (after.argmax(1) != said).sum()
    check_survives_json(result)
    assert [figure.name for figure in figures(result)] == ["answers", "logits"]


def test_a_masked_row_does_not_enter_the_mean() -> None:
    model = transformer_lens_model()
    mask = torch.ones_like(TOKENS)
    mask[1, 5:] = 0
    result = run_probe("ablation", model, TOKENS, attention_mask=mask)
    kept = mask[:, :, None].float()

    def edit(z: torch.Tensor, hook: Any) -> torch.Tensor:
        z = z.clone()
        z[:, :, 1] = (z[:, :, 1] * kept).sum(0) / kept.sum(0)
        return z

    at = (torch.arange(5), mask.sum(1) - 1)
    with torch.no_grad():
        before = model(TOKENS, attention_mask=mask)[at].numpy()
        after = model.run_with_hooks(
            TOKENS, fwd_hooks=[("blocks.0.attn.hook_z", edit)], attention_mask=mask
        )[at].numpy()
    said = before.argmax(1)
    for row in range(5):
        lead = [x[row, said[row]] - np.delete(x[row], said[row]).max() for x in (before, after)]
        got = result.effects.at(change="mean", part="layer 0 head 1", string=f"row {row}")
        assert float(got) == pytest.approx(lead[1] - lead[0], abs=1e-5)


def test_one_output_is_judged_by_its_sign() -> None:
    model = make_transformer_lens_model(d_vocab_out=1)
    result = run_probe("ablation", model, TOKENS)
    with torch.no_grad():
        logit = model(TOKENS)[:, -1, 0].numpy()
    assert result.logits.array == pytest.approx(np.abs(logit), abs=1e-5)
    assert (result.answers.before.array == (logit > 0)).all()


@to_bridge
def test_a_head_that_does_nothing_changes_nothing() -> None:
    model = HookedClassifier(ClassifierConfig(n_layers=2, d_model=5, n_positions=8), seed=1)
    with torch.no_grad():
        model.blocks[1].attn.W_O[0] = 0
    exported = model.to_transformer_lens(n_ctx=8)
    tokens = model.tokens(["abca", "aabc", "ccab"])
    result = run_probe("ablation", exported, tokens, query=0)
    assert np.abs(result.effects.at(part="layer 1 head 0")).max() < 1e-6
    assert np.abs(result.effects.at(part="layer 1 head 1")).max() > 1e-6
    assert not result.answers.changed.at(part="layer 1 head 0").any()


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer_lens_model()
    with pytest.raises(UsageError, match="one of the 9 outputs"):
        run_probe("ablation", model, TOKENS, answer=12)
    with pytest.raises(UsageError, match="query: for TransformerLens models"):
        run_probe("ablation", "walkthrough", ["ab"], query=0)
    monkeypatch.setattr("tsc_interp.probes.ablation.MOST_WORK", 100_000)
    with pytest.raises(UnsupportedError, match="too much for a model of"):
        run_probe("ablation", model, TOKENS)


@to_bridge
def test_a_multiclass_classifier_is_ablated_by_its_export() -> None:
    """Oracle: our own hooks, by `intervene`."""
    config = ClassifierConfig(n_letters=3, n_outputs=3, n_heads=2, task="most_frequent")
    torch.manual_seed(3)
    model = HookedClassifier(config)
    strings = ["abc", "aab", "ccb", "bbb"]
    result = run_probe("ablation", model, strings)
    for head in range(2):
        after = intervene(model, strings, [f"head{head}=zero"]).after.argmax(-1).tolist()
        got = [int(result.answers.after.at(change="zero", part=f"head {head}", string=f"row {i}"))
               for i in range(4)]  # fmt: skip
        assert got == after
    with pytest.raises(UnsupportedError, match="one length"):
        run_probe("ablation", model, ["a", "aab"])
