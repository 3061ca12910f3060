"""Ablation of any TransformerLens model: equal to hooks written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.probes.models import (
    QUERY,
    TOKENS,
    check_survives_json,
    make_transformer_lens_model,
    transformer_lens_model,
)
from tsc_interp.errors import UnsupportedError, UsageError
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
                now = result.after.at(change=change, part=part, string=f"row {row}")
                assert int(now) == after[row].argmax()
            changed = int(result.changed.at(change=change, part=part))
            assert changed == (after.argmax(1) != said).sum()
    check_survives_json(result)
    assert [figure.name for figure in figures(result)] == ["answers", "leads"]


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
    assert result.leads.array == pytest.approx(np.abs(logit), abs=1e-5)
    assert (result.before.array == (logit > 0)).all()


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer_lens_model()
    with pytest.raises(UsageError, match="one of the 9 outputs"):
        run_probe("ablation", model, TOKENS, answer=12)
    monkeypatch.setattr("tsc_interp.probes.inputs.MOST_WORK", 100_000)
    with pytest.raises(UnsupportedError, match="too much for a model of"):
        run_probe("ablation", model, TOKENS)
