"""Attention patterns: equal to the model's own, averages by slow loops, habits that are planted."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.probes.models import QUERY, TOKENS, check_survives_json, transformer_lens_model
from tsc_interp.errors import TscError, UnsupportedError
from tsc_interp.probes.patterns import PatternsResult, mean_focus, mean_habits
from tsc_interp.probes.registry import run_probe

NAMES = list("?XYklmn<o")


@pytest.fixture(scope="module")
def result() -> PatternsResult:
    return run_probe(
        "patterns", transformer_lens_model(), TOKENS, query=QUERY, token_names=NAMES
    )  # fmt: skip


@pytest.fixture(scope="module")
def patterns() -> np.ndarray:
    """`[row layer head query key]` by TransformerLens itself."""
    with torch.no_grad():
        _, cache = transformer_lens_model().run_with_cache(TOKENS)
    parts = [cache[f"blocks.{i}.attn.hook_pattern"].numpy() for i in range(2)]
    return np.stack(parts, axis=1).astype(float)


def test_every_weight_is_the_models_own(result, patterns):
    assert result.rows == len(result.strings) == len(TOKENS)
    for row, one in enumerate(result.strings):
        assert one.weights.array == pytest.approx(patterns[row], abs=1e-5)
        assert one.tokens == tuple(NAMES[token] for token in TOKENS[row].tolist())
        assert one.reads == QUERY
    check_survives_json(result)


def test_averages_by_slow_loops(result, patterns):
    assert result.by_position.array == pytest.approx(patterns.mean(0), abs=1e-5)
    kinds = result.by_token.labels["from"]
    for s, source in enumerate(kinds):
        for t, target in enumerate(kinds):
            total, count = np.zeros((2, 2)), 0
            for row, tokens in enumerate(TOKENS.tolist()):
                for q, from_token in enumerate(tokens):
                    if NAMES[from_token] == source:
                        count += 1
                        for k, to_token in enumerate(tokens):
                            if NAMES[to_token] == target:
                                total += patterns[row, :, :, q, k]
            assert result.by_token.array[:, :, s, t] == pytest.approx(total / count, abs=1e-6)


def _planted(weights, tokens):
    return [
        SimpleNamespace(pattern=weights[None, None], tokens=tokens, copies=np.ones(len(tokens)))
    ]


@pytest.mark.parametrize(
    ("habit", "place"),
    [
        ("previous", lambda q, tokens: q - 1),
        ("itself", lambda q, tokens: q),
        ("first", lambda q, tokens: 0),
        ("mirror", lambda q, tokens: len(tokens) - 1 - q),
        ("after same", lambda q, tokens: tokens.index(tokens[q]) + 1),
        ("same", lambda q, tokens: tokens.index(tokens[q])),
    ],
)
def test_a_planted_habit_gets_all_the_weight(habit, place):
    tokens = list("xyzuvxyzuv")  # each a second time, so that a copy has a place after it
    weights = np.full((10, 10), 0.0)
    for q in range(10):
        at = place(q, tokens)
        later = habit in ("after same", "same") and q < 5
        weights[q, at if 0 <= at < 10 and not later else (q + 2) % 10] = 1
    found, chance = mean_habits(_planted(weights, tokens), causal=False)
    got = {name: float(array[0, 0]) for name, array in found.items()}
    # `same` has no place for a first copy's queries but the later copy, which was not planted.
    assert got[habit] == pytest.approx(0.5 if habit == "same" else 1.0)
    assert all(got[other] < got[habit] for other in got if other != habit)
    assert chance["previous"] == pytest.approx(0.1)
    assert chance["after same"] == pytest.approx(0.1)


def test_uniform_attention_is_said_to_be_uniform():
    even = np.tri(6) / np.tri(6).sum(1, keepdims=True)
    one = _planted(even, list("abcdef"))
    assert float(mean_focus(one, causal=True)[0, 0]) == pytest.approx(0)
    model = tsc.HookedClassifier(tsc.ClassifierConfig(n_positions=9, n_letters=4), seed=0)
    with torch.no_grad():
        model.blocks[0].attn.W_Q.zero_()
    result = run_probe("patterns", model, ["abcd", "ddca"])
    assert "attend to everything alike" in result.findings[0].text
    assert not any("its weight on average" in finding.text for finding in result.findings)


def test_copies_of_a_letter_count_together():
    """Without positions a long string has one place per letter, a short one is written out."""
    long = run_probe("patterns", "walkthrough", ["ab{40}c"])
    assert long.strings[0].tokens == ("CLS", "a", "b×40", "c")
    assert long.by_position is None
    short = run_probe("patterns", "walkthrough", ["ab{4}c"])
    assert short.strings[0].tokens == ("CLS", "a", "b", "b", "b", "b", "c")
    token = short.by_token
    written = short.strings[0].weights.array
    assert float(token.at(layer=0, head=1, **{"from": "CLS", "to": "b"})) == pytest.approx(
        written[0, 1, 0, 2:6].sum(), abs=1e-4
    )
    assert token.array.sum(-1) == pytest.approx(1)


def test_masked_rows_leave_their_padding_out():
    mask = torch.ones_like(TOKENS)
    mask[1, 5:] = 0
    result = run_probe("patterns", transformer_lens_model(), TOKENS, attention_mask=mask)
    assert [len(one.tokens) for one in result.strings] == [7, 5, 7, 7, 7]
    assert result.strings[1].weights.array.sum(-1) == pytest.approx(1, abs=1e-4)


def test_the_view_holds_the_weights_and_no_markup_of_others(tmp_path: Path):
    view = tsc.show_attention(transformer_lens_model(), TOKENS, token_names=NAMES)
    page = view.save(tmp_path / "view.html").read_text()
    data = json.loads(re.search(r'application/json">(.*?)</script>', page, re.DOTALL)[1])
    assert "<o" not in re.sub(r"<option", "", page.split("</style>")[-1].split("function")[0])
    assert data["strings"][0]["tokens"] == [NAMES[t] for t in TOKENS[0].tolist()]
    assert len(data["heads"]) == 4
    assert data["strings"][-1]["name"].startswith("average over 5")
    raw = np.frombuffer(base64.b64decode(data["strings"][0]["weights"]), dtype=np.uint8)
    own = run_probe("patterns", transformer_lens_model(), TOKENS).strings[0].weights.array
    assert raw.reshape(2, 2, 7, 7) / 255 == pytest.approx(own, abs=0.5 / 255 + 1e-4)
    assert "http" not in page
    assert view.save(tmp_path / "view.html").exists()  # a page of ours is replaced
    (tmp_path / "other.html").write_text("mine")
    with pytest.raises(TscError, match=r"other\.html"):
        view.save(tmp_path / "other.html")


def test_one_row_of_tokens_is_enough():
    row = TOKENS[0]
    for given in (row, row.tolist(), row[None], [row.tolist()]):
        assert repr(tsc.show_attention(transformer_lens_model(), given)) == (
            "<AttentionView: 4 heads on row 0>"
        )


def test_a_model_without_attention_is_refused():
    config = tsc.ClassifierConfig(n_heads=0, d_mlp=4)
    with pytest.raises(UnsupportedError, match="no attention"):
        run_probe("patterns", tsc.HookedClassifier(config, seed=0), ["ab"])


def test_an_imported_model_is_shown_in_its_own_tokens() -> None:
    config = tsc.ClassifierConfig(token_names=("red", "green", "blue"))
    weights = tsc.load("walkthrough").to_checkpoint().weights
    shown = tsc.show_attention(tsc.Checkpoint(config, dict(weights)), "green red{2}")
    assert repr(shown) == "<AttentionView: 2 heads on green red{2}>"
    assert set(shown.strings[0].tokens) == {"CLS", "green", "red"}
