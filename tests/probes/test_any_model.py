"""The probes that read any TransformerLens model: what they read, refuse, and leave unsaid.

Runs against whichever TransformerLens is installed, like test_interop.py.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from tests.probes.models import QUERY, TOKENS, make_transformer_lens_model, transformer_lens_model
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.probes import attention
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.registry import figures, run_probe
from tsc_interp.probes.standing_out import shuffled

READING = ("specialization", "margin", "superposition")
PROBES = (*READING, "attribution")
ROTARY = {"positional_embedding_type": "rotary", "d_head": 4, "rotary_dim": 4}
GROUPED = {"n_heads": 6, "n_key_value_heads": 2, "d_head": 4, "d_model": 24}


def ask(probe: str, model: Any, tokens: Any, **options: Any) -> Any:
    if probe == "attribution":
        options.setdefault("direction", torch.ones(model.cfg.d_model))
    return run_probe(probe, model, tokens, **options)


@pytest.mark.parametrize(
    "options",
    [ROTARY, GROUPED, ROTARY | GROUPED, {"attn_scores_soft_cap": 0.7}],
    ids=["rotary", "grouped", "both", "capped"],
)
def test_attention_of_a_row_without_repeats_is_the_model_s_own(options: dict[str, Any]) -> None:
    """Oracle: where every token occurs once, its weight "if it occurred once" is its weight."""
    model = make_transformer_lens_model(**options)
    tokens = torch.tensor([[5, 3, 8, 0, 1, 7]])
    result = ask("specialization", model, tokens)
    cache = model.run_with_cache(tokens)[1]
    order = tokens[0].argsort()
    for layer in range(2):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"][0, :, -1][:, order]
        assert result.attention.array[layer] == pytest.approx(pattern.detach().numpy(), abs=1e-5)
    total = ask("attribution", model, tokens, direction=model.W_U[:, 4])
    logit = (model(tokens)[0, -1, 4] - model.b_U[4]).item()
    assert total.effects.array.sum() == pytest.approx(logit, abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_number_formats(dtype: torch.dtype) -> None:
    """Coarse formats are read to their own precision: bfloat16 was a raw TypeError."""
    model = make_transformer_lens_model().to(dtype)
    plain = transformer_lens_model()
    for probe in PROBES:
        ask(probe, model, TOKENS, query=QUERY, direction=torch.ones(12, dtype=dtype))
    coarse, fine = (
        ask("specialization", m, TOKENS, query=QUERY).attention.array for m in (model, plain)
    )
    assert coarse == pytest.approx(fine, abs=64 * torch.finfo(dtype).eps + 1e-5)


def test_masked_rows_are_read_like_rows_without_padding() -> None:
    """Each row at its own last token; oracle: the rows one by one, cut to their length."""
    model = transformer_lens_model()
    lengths = [7, 4, 6]
    tokens = torch.full((3, 7), 8)
    mask = torch.zeros(3, 7, dtype=torch.long)
    for row, length in enumerate(lengths):
        tokens[row, :length] = TOKENS[row, :length] % 8
        mask[row, :length] = 1
    read = attention.read(Inputs(model, tokens, attention_mask=mask))
    parts = run_probe("attribution", model, tokens, attention_mask=mask, direction=model.W_U[:, 2])
    assert "8" not in read.tokens
    for row, length in enumerate(lengths):
        alone = attention.read(Inputs(model, tokens[row : row + 1, :length]))
        for layer in range(2):
            for name in alone.tokens:
                place, own = read.tokens.index(name), alone.tokens.index(name)
                assert read.layers[layer].weights[row, :, place] == pytest.approx(
                    alone.layers[layer].weights[0, :, own], abs=1e-5
                )
        logit = (model(tokens[row : row + 1, :length])[0, -1, 2] - model.b_U[2]).item()
        assert parts.logits.array[row] == pytest.approx(logit, abs=1e-4)
    chosen = attention.read(Inputs(model, tokens, attention_mask=mask, query=[2, 0, -2]))
    one = attention.read(Inputs(model, tokens[:1], query=2))
    for place, name in enumerate(one.tokens):
        got = chosen.layers[0].weights[0, :, chosen.tokens.index(name)]
        assert got == pytest.approx(one.layers[0].weights[0, :, place], abs=1e-5)


@pytest.mark.parametrize(
    ("probe", "names"), [("margin", None), ("attribution", {8: "<pad>"}), ("attribution", None)]
)
def test_padding_is_not_read_without_a_word(probe: str, names: dict[int, str] | None) -> None:
    tokens = torch.tensor([[1, 2, 3, 4, 5, 8, 8], [2, 3, 1, 8, 8, 8, 8], [5, 4, 1, 2, 8, 8, 8]])
    said = ask(probe, transformer_lens_model(), tokens, token_names=names).not_applicable
    name = "<pad>" if names else "8"
    assert any(f"`{name}` looks like padding" in note for note in said), said
    whole = ask(probe, transformer_lens_model(), TOKENS, query=QUERY).not_applicable
    assert not any("padding" in note for note in whole)


def test_a_model_that_ignores_its_mask_is_refused() -> None:
    model = make_transformer_lens_model()
    plain = type(model).run_with_cache

    class Ignores:
        cfg, blocks, parameters = model.cfg, model.blocks, model.parameters
        named_parameters = model.named_parameters

        def run_with_cache(self, tokens: Any, attention_mask: Any = None, **options: Any) -> Any:
            return plain(model, tokens, **options)

    mask = torch.ones_like(TOKENS)
    mask[0, :2] = 0
    with pytest.raises(UnsupportedError, match="does not heed attention_mask"):
        attention.read(Inputs(Ignores(), TOKENS, attention_mask=mask))


# One that reads attention and one that does not: both make the same `Inputs` of it.
@pytest.mark.parametrize("probe", ["margin", "attribution"])
@pytest.mark.parametrize(
    ("tokens", "options", "words"),
    [
        (torch.tensor([[1, 99]]), {}, "token ids must lie in 0..8"),
        (torch.tensor([[1, -1]]), {}, "token ids must lie in 0..8"),
        (torch.zeros(1, 12, dtype=torch.long), {}, "at most 11"),
        (torch.zeros(2, 0, dtype=torch.long), {}, "token ids"),
        (torch.zeros(2, 3), {}, "token ids"),
        ([["a", "b"]], {}, "token ids|string"),
        ([[1, 2], [3]], {}, "token ids|string"),
        (torch.zeros(1, 3, dtype=torch.long, device="meta"), {}, "meta device"),
        (TOKENS, {"query": 7}, "query position 7"),
        (TOKENS, {"query": [1, 2]}, "one for each of the 5 rows"),
        (TOKENS, {"query": "last"}, "query is one position"),
        (TOKENS, {"layer": 2}, "layer 2 does not exist"),
        (TOKENS, {"layer": "0"}, "does not exist"),
        (TOKENS, {"direction": [1.0]}, r"must have shape \[12\]"),
        (TOKENS, {"direction": "up"}, "vector of 12 numbers"),
        (TOKENS, {"token_names": ["a", "b"]}, "token_names has 2 names"),
        (TOKENS, {"direction": [float("nan")] * 12}, "not finite"),
        (TOKENS, {"direction": [1j] * 12}, "vector of 12 numbers"),
        (TOKENS, {"token_names": 5}, "a list or a dictionary"),
        (TOKENS, {"token_names": {"3": "x"}}, "maps token ids"),
        (TOKENS, {"query": torch.zeros(5, dtype=torch.long, device="meta")}, "meta device"),
        (TOKENS, {"attention_mask": [[1, 0], [1]]}, "attention_mask must be shaped"),
        (TOKENS, {"attention_mask": torch.ones(5, 7, device="meta")}, "meta device"),
        (TOKENS, {"attention_mask": [[1, 0]]}, "attention_mask must be shaped"),
        (TOKENS, {"attention_mask": torch.zeros_like(TOKENS)}, "masked altogether"),
        (TOKENS, {"attention_mask": TOKENS.new_ones(5, 7).tril(), "query": 6}, "leaves out"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_words(
    probe: str, tokens: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        ask(probe, transformer_lens_model(), tokens, **options)


@pytest.mark.parametrize("probe", ["margin", "attribution"])
def test_models_that_cannot_be_read_are_refused_in_words(probe: str) -> None:
    model = transformer_lens_model()
    module = torch.nn.Linear(2, 2)
    module.cfg = model.cfg
    with pytest.raises(TscError, match="run_with_cache is needed, not Linear"):
        ask(probe, module, TOKENS)

    class Bare:
        cfg, blocks, parameters = model.cfg, model.blocks, model.parameters
        named_parameters = model.named_parameters

        def run_with_cache(self, tokens: Any, **options: Any) -> Any:
            return None, {}

    with pytest.raises(UnsupportedError, match="shows no"):
        ask(probe, Bare(), TOKENS)


def test_shuffled_weights_are_back_whatever_happens() -> None:
    model = transformer_lens_model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with shuffled(model, 0):
        changed = [not torch.equal(before[name], p) for name, p in model.named_parameters()]
        same = [
            torch.equal(before[name].flatten().sort().values, p.detach().flatten().sort().values)
            for name, p in model.named_parameters()
        ]
    assert any(changed)
    assert all(same)
    with pytest.raises(RuntimeError), shuffled(model, 1):
        raise RuntimeError
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_a_planted_head_stands_out_and_noise_does_not() -> None:
    """Weights written by hand: one head that reads token 4 against a model of noise."""
    noise = ask("margin", make_transformer_lens_model(), TOKENS, query=QUERY)
    assert noise.findings[0].numbers["standing out"] <= 1
    tokens = torch.tensor([[1, 4, 2, 3, 4], [4, 0, 5, 1, 4], [6, 2, 4, 7, 4], [3, 5, 8, 4, 4]])
    model = make_transformer_lens_model(normalization_type=None, n_layers=1)
    state = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in state.items():
            if "pos" in name or name.endswith("bias") or ".b_" in name:
                parameter.zero_()
        embedding = next(p for n, p in state.items() if p.shape == (9, 12) and "pos" not in n)
        embedding[4, 0] = 20.0
        query, key = (_attention_weight(state, part) for part in "qk")
        query[0, :1] = 3.0
        key[0, :1] = 3.0
    for probe in ("margin", "specialization"):
        result = ask(probe, model, tokens)
        told = [finding.text for finding in result.findings]
        assert any("ead 0 reads `4`" in text for text in told), told
        assert result.stands_out(0, 0)


def _attention_weight(state: dict[str, torch.nn.Parameter], part: str) -> torch.Tensor:
    """A view `[d_head d_model]` of head 0's weight that can be written to."""
    for name, parameter in state.items():
        if name.endswith(f"attn.W_{part.upper()}"):
            return parameter.data[0].T
        if f"attn._original_component.{part}." in name and name.endswith("weight"):
            return parameter.data[:3]
    raise AssertionError(list(state))


def test_nothing_is_said_where_a_token_varies_more_than_it_leads() -> None:
    result = ask("margin", transformer_lens_model(), TOKENS, query=QUERY)
    assert result.lead is not None
    certain = result.model_copy(update={"chance": (-1.0,)})
    for i, h in np.ndindex(certain.lead.shape):
        varies = certain.lead.array[i, h] <= certain.doubt.array[i, h]
        assert certain.stands_out(i, h) == (not varies)
    told = [finding.text for finding in certain.concluded().findings[1:]]
    for i, h in np.ndindex(certain.lead.shape):
        named = any(text.startswith(f"Layer {i} head {h} ") for text in told)
        assert named == certain.stands_out(i, h)


def test_lead_and_spread_by_hand() -> None:
    """Oracle: each occurrence's own q·k, taken from the cache one by one."""
    model = transformer_lens_model()
    result = ask("margin", model, TOKENS, query=QUERY)
    cache = model.run_with_cache(TOKENS)[1]
    for layer in range(2):
        q, k = (cache[f"blocks.{layer}.attn.hook_{part}"].detach() for part in "qk")
        for head in range(2):
            seen: dict[int, list[float]] = {}
            for row in range(5):
                for key in range(QUERY + 1):
                    score = float(q[row, QUERY, head] @ k[row, key, head]) / 3**0.5
                    seen.setdefault(int(TOKENS[row, key]), []).append(score)
            means = {token: np.mean(scores) for token, scores in seen.items()}
            best, second = sorted(means, key=lambda token: -means[token])[:2]
            spread = max(
                abs(score - means[token]) for token in (best, second) for score in seen[token]
            )
            lead = means[best] - means[second]
            assert result.lead.array[layer, head] == pytest.approx(lead, abs=1e-5)
            assert result.doubt.array[layer, head] == pytest.approx(spread, abs=1e-5)


@pytest.fixture(scope="module")
def large() -> tuple[Any, torch.Tensor]:
    model = make_transformer_lens_model(
        n_layers=5, n_heads=6, d_head=4, d_model=24, d_mlp=250, d_vocab=300, n_ctx=50
    )
    tokens = torch.randint(0, 300, (4, 50), generator=torch.Generator().manual_seed(2))
    return model, tokens


@pytest.mark.parametrize("probe", PROBES)
def test_large_models_have_bounded_results_in_words_of_tokens(
    probe: str, large: tuple[Any, torch.Tensor]
) -> None:
    model, tokens = large
    result = ask(probe, model, tokens, direction=model.W_U[:, 7])
    assert len(json.dumps(result.to_dict())) < 1e6
    assert sum(len(table.rows) for table in result.tables()) < 500
    assert len(figures(result)) <= 3
    assert len(result.findings) < 20
    if probe == "attribution":
        logits = (model(tokens)[:, -1, 7] - model.b_U[7]).detach().numpy()
        assert result.effects.array.sum(1) == pytest.approx(logits, abs=2e-4)
        assert result.by_group.array.sum(1) == pytest.approx(logits, abs=2e-4)
        assert len(result.groups) < 1100
    else:
        assert any("tokens the query sees, the 16" in note for note in result.not_applicable)
    words = [finding.text for finding in result.findings]
    for figure in figures(result):
        words += [figure.title, figure.caption, figure.alt]
    words += [table.title for table in result.tables()]
    assert not [text for text in words if "task" in text or "letter" in text]


def test_tokens_go_where_the_model_is() -> None:
    """No accelerator is needed to see it: the model notes where its tokens were."""
    model = transformer_lens_model()
    seen = []

    class Elsewhere:
        cfg, blocks = model.cfg, model.blocks

        def parameters(self) -> Any:
            return iter([torch.empty(1, device="meta")])

        def run_with_cache(self, tokens: torch.Tensor, **options: Any) -> Any:
            seen.append(tokens.device.type)
            return model.run_with_cache(TOKENS, **options)

    Inputs(Elsewhere(), TOKENS).run("hook_embed")
    assert seen == ["meta"]
