"""Models of TransformerLens, taken over: the same logits for every option, and clear refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests import oracle
from tests.outside_models import tl_model
from tsc_interp.errors import ConfigError, TscError, UnsupportedError, UsageError
from tsc_interp.model.interop import HAS_BRIDGE_ONLY

ABC = {2: "a", 4: "b", 1: "c"}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"act_fn": "relu"},
    {"act_fn": "silu"},
    {"act_fn": "gelu_new"},
    {"attn_only": True},
    {"normalization_type": "LN"},
    {"normalization_type": "LNPre"},
    {"normalization_type": "RMS"},
    {"normalization_type": "RMSPre"},
    {"normalization_type": "LN", "attn_only": True, "eps": 1e-3},
    {"n_layers": 2, "normalization_type": "LN"},
    {"attention_dir": "bidirectional"},
    {"attention_dir": "bidirectional", "n_layers": 2, "normalization_type": "LNPre"},
    {"attn_scale": 0.7},
    {"use_attn_scale": False},
    {"d_vocab_out": 1},
    {"positions": True},
    {"positions": True, "attention_dir": "bidirectional"},
]


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def taken(model: Any, **options: Any) -> Any:
    return tsc.from_transformer_lens(model, **{"tokens": ABC, "query": 3, **options})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_logits(options: dict[str, Any]) -> None:
    model = tl_model(1, **options)
    checkpoint = taken(model)
    ids = {letter: token for token, letter in ABC.items()}
    first = options.get("attention_dir") == "bidirectional"
    for text in ("a", "ab", "cab", "bbaccb", "ccccccccccab"):
        row = [ids[letter] for letter in text]
        row = [3, *row] if first else [*row, 3]
        out = model(torch.tensor([row]))[0, 0 if first else -1].detach()
        expected = float(out[1] - out[0]) if len(out) == 2 else float(out[0])
        weights = dict(checkpoint.weights)
        assert oracle.logit(checkpoint.config, weights, text) == pytest.approx(expected, abs=2e-5)
        if not checkpoint.config.needs_order:
            assert tsc.evaluate(checkpoint, text)[0].logit == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_model_read_at_its_last_letter_keeps_all_outputs(seed: int) -> None:
    model = tl_model(seed, attn_only=True, d_vocab_out=6, positions=True)
    checkpoint = taken(model, query=None, task="majority")
    assert checkpoint.config.reads == "last_letter"
    out = tsc.load(checkpoint)(["abca"])[0]
    assert torch.allclose(out, model(torch.tensor([[2, 4, 1, 2]]))[0, -1], atol=1e-5)
    one = taken(model, query=None, classes=(5, 2))
    assert float(tsc.load(one)(["abca"])) == pytest.approx(float(out[2] - out[5]), abs=1e-5)


def test_horizons_of_what_was_taken_over_are_proved() -> None:
    """Every string up to six letters, by the original itself."""
    for seed in range(8):
        model = tl_model(seed, normalization_type=None)
        found = tsc.horizon(taken(model), limit=50)
        ids, wrong = {"a": 2, "b": 4, "c": 1}, []
        for length in range(1, 7):
            texts = [np.base_repr(i, 3).zfill(length) for i in range(3**length)]
            rows = [[ids["abc"[int(c)]] for c in text] + [3] for text in texts]
            out = model(torch.tensor(rows))[:, -1].detach()
            says = (out[:, 1] - out[:, 0] > 0).tolist()
            right = ["0" in text and "1" in text for text in texts]
            wrong += [length] * sum(a != b for a, b in zip(says, right, strict=True))
        if wrong:
            assert found.length == min(wrong) - 1
            assert found.proved
        else:
            assert found.right_through >= 6


def test_names_of_tokens_are_kept() -> None:
    checkpoint = taken(tl_model(), tokens={1: "(", 5: ")"}, task=tsc.ContainsAll(letters="ab"))
    assert checkpoint.config.token_names == ("(", ")")
    plain = taken(tl_model(), tokens=[1, 5])
    assert plain.config.token_names == ()
    assert np.array_equal(plain.weights["embed.W_E"], checkpoint.weights["embed.W_E"])
    swapped = taken(tl_model(), tokens={5: "b", 1: "a"})
    assert np.array_equal(plain.weights["embed.W_E"], swapped.weights["embed.W_E"])


@pytest.mark.parametrize(
    ("options", "given", "kind", "words"),
    [
        ({}, {"tokens": {9: "a"}}, UsageError, "different ids below 6"),
        ({}, {"tokens": {}}, UsageError, "different ids"),
        ({}, {"tokens": {3: "a"}}, UsageError, "none of them the query"),
        ({}, {"tokens": {1: "x", 2: "x"}}, UsageError, "same name"),
        ({}, {"classes": (0, 0)}, UsageError, "two different outputs"),
        ({}, {"classes": (0, 2)}, UsageError, "two different outputs"),
        ({}, {"task": "longest"}, ConfigError, "longest"),
        ({}, {"task": tsc.ContainsAll(letters="xy")}, ConfigError, "needs the letters xy"),
        ({"attention_dir": "bidirectional"}, {"query": None}, UsageError, "query="),
        ({"dtype": torch.float64}, {}, UnsupportedError, "float32"),
        ({"n_layers": 1, "act_fn": "solu_ln"}, {}, UnsupportedError, "solu_ln"),
    ],
    ids=str,
)
def test_refusals(
    options: dict[str, Any], given: dict[str, Any], kind: type[TscError], words: str
) -> None:
    model = tl_model()
    for name, value in options.items():
        setattr(model.cfg, name, value)
    with pytest.raises(kind, match=words):
        taken(model, **given)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("parallel_attn_mlp", True), ("gated_mlp", True), ("use_local_attn", True),
        ("attn_scores_soft_cap", 30.0), ("output_logits_soft_cap", 30.0), ("num_experts", 4),
        ("positional_embedding_type", "rotary"), ("positional_embedding_type", "alibi"),
        ("use_qk_norm", True), ("normalization_type", "Batch"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_refused_by_name(option: str, value: Any) -> None:
    model = tl_model()
    setattr(model.cfg, option, value)
    with pytest.raises(UnsupportedError, match=str(option)):
        taken(model)


@pytest.mark.parametrize(
    ("option", "value"),
    [("act_fn", "relu"), ("attn_scale", 5.0), ("eps", 3.0)]
    # 3.x asks its config at every forward pass.
    + [("attention_dir", "bidirectional")] * HAS_BRIDGE_ONLY,
)
def test_a_config_that_lies_is_found_out(option: str, value: Any) -> None:
    """The comparison with the original runs the original, whatever its config says."""
    model = tl_model(2, normalization_type="LN")
    setattr(model.cfg, option, value)
    with pytest.raises(UnsupportedError, match="does not compute what the original does"):
        taken(model)


@pytest.mark.skipif(HAS_BRIDGE_ONLY, reason="what TransformerLens 3 calls processing")
def test_folded_norms() -> None:
    model = tl_model(3, normalization_type="LN")
    model.process_weights_(center_writing_weights=True, center_unembed=False)
    assert taken(model).config.norm == "layer_pre"
