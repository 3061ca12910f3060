"""Specialization: what heads read, and whether they repeat each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.probes.models import QUERY, TOKENS, check_survives_json, transformer_lens_model
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.registry import find_probe
from tsc_interp.probes.specialization import SpecializationResult, entropy

specialization = find_probe("specialization")


def texts(result: SpecializationResult) -> str:
    return "\n".join(f"{finding.severity}: {finding.text}" for finding in result.findings)


def test_walkthrough_has_a_head_for_each_letter(walkthrough: HookedClassifier) -> None:
    result = specialization.run(walkthrough, ["aac"])
    assert result.reads == (("a", "b"),)
    assert "Head 0 reads `a`" in texts(result)
    assert "good: Every letter" in texts(result)
    a, b = (float(result.values.at(layer=0, head=0, letter=letter)[0]) for letter in "ab")
    assert a * b < 0  # the report: values of opposite sign


def test_lower_magnitude_reads_b_twice() -> None:
    result = specialization.run(load("lower-magnitude"), ["ab"])
    assert result.reads == (("b", "b"),)
    assert "Heads 0 and 1 both read `b`" in texts(result)
    assert "warning: Heads 0 and 1 attend alike" in texts(result)
    assert "failure: No head reads `a` (both heads read `b`)" in texts(result)


def test_attention_is_that_of_a_string_with_every_letter_once(odd_model: HookedClassifier) -> None:
    """Oracle: the model's own pattern on that string."""
    result = specialization.run(odd_model, ["a{9}e"])
    pattern = odd_model.run_with_cache("abcde")[1]["blocks.0.attn.hook_pattern"][0, :, 0, 1:]
    assert result.attention.array[0] == pytest.approx(pattern.detach().numpy(), abs=1e-6)


@pytest.mark.parametrize("attend_cls", [False, True])
@pytest.mark.parametrize("scale", ["sqrt_d_head", "sqrt_d_head_log_n"])
def test_attention_with_growing_scores(scale: str, attend_cls: bool) -> None:
    """Scores grow with the number of letters: CLS was counted among them."""
    model = HookedClassifier(ClassifierConfig(score_scale=scale, attend_cls=attend_cls), seed=4)
    result = specialization.run(model, ["a{9}b"])
    pattern = model.run_with_cache("abc")[1]["blocks.0.attn.hook_pattern"][0, :, 0]
    pattern = pattern[:, 0 if attend_cls else 1 :]
    assert result.attention.array[0] == pytest.approx(pattern.detach().numpy(), abs=1e-6)


def test_a_copied_head_is_found() -> None:
    config = ClassifierConfig(n_letters=4, d_model=6, n_heads=3, d_head=2)
    weights = {
        name: w.detach().clone() for name, w in HookedClassifier(config, seed=2).named_parameters()
    }
    for part in "QKVO":
        weights[f"blocks.0.attn.W_{part}"][2] = weights[f"blocks.0.attn.W_{part}"][0]
    result = specialization.run(HookedClassifier(config, weights), ["abcd"])
    assert float(result.overlap.array[0, 0, 2]) == pytest.approx(1)
    assert "attend alike" in texts(result)


def test_entropy_bounds() -> None:
    assert entropy(np.array([0.25] * 4)) == pytest.approx(np.log(4))
    assert entropy(np.array([1.0, 0.0])) == 0


def test_transformer_lens_model_per_layer() -> None:
    """Oracle: softmax of each token's mean score, from the cache, for the visible positions."""
    model = transformer_lens_model()
    result = specialization.run(model, TOKENS, query=QUERY)
    assert result.attention.dims == ("layer", "head", "letter")
    assert len(result.reads) == 2
    cache = model.run_with_cache(TOKENS)[1]
    seen = TOKENS[:, : QUERY + 1]
    for layer in range(2):
        q = cache[f"blocks.{layer}.attn.hook_q"][:, QUERY]
        k = cache[f"blocks.{layer}.attn.hook_k"][:, : QUERY + 1]
        scores = torch.einsum("bhk,bjhk->bjh", q, k) / 3**0.5
        tokens = seen.unique()
        mean = torch.stack([scores[seen == token].mean(0) for token in tokens], dim=1)
        expected = mean.softmax(-1).detach().numpy()
        assert result.attention.array[layer] == pytest.approx(expected, abs=1e-5)
    check_survives_json(result)


def test_signs_of_values(walkthrough: HookedClassifier) -> None:
    """The report: each head of `walkthrough` gives a and b values of opposite sign."""
    assert "Every head gives `a` and `b` values of opposite sign" in texts(
        specialization.run(walkthrough, ["aac"])
    )
    model = HookedClassifier(walkthrough.config, dict(walkthrough.named_parameters()))
    with torch.no_grad():  # head 1's values become all of one sign
        model.get_parameter("blocks.0.attn.W_V")[1] = torch.tensor([[-1.0], [0.0]])
        model.get_parameter("embed.W_E")[2:, 0] = torch.tensor([-1.0, -2.0, -3.0])
    assert "head 1 1.0000 and 2.0000" in texts(specialization.run(model, ["aac"]))
    assert "Every head" not in texts(specialization.run(model, ["aac"]))
