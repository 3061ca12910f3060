"""Attribution: the parts sum to the logit, and each part is what removing it would change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.cases import CONFIGS, POSITIONED
from tests.probes.models import QUERY, TOKENS, check_survives_json, transformer_lens_model
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.registry import find_probe
from tsc_interp.tasks import Maximum

attribution = find_probe("attribution")

STRINGS = ["ab", "b{5}", "a{2}b{3}", "ba{7}"]


@pytest.mark.parametrize("config", [*CONFIGS, POSITIONED], ids=lambda config: config.key()[:6])
def test_parts_sum_to_the_logit(config: ClassifierConfig) -> None:
    model = HookedClassifier(config, seed=1)
    result = attribution.run(model, STRINGS)
    logits = model(STRINGS).detach().numpy()
    assert result.effects.array.sum(1) == pytest.approx(logits, abs=1e-5)
    assert result.by_group.array.sum(1) == pytest.approx(logits, abs=1e-5)
    assert result.error < 1e-5
    check_survives_json(result)


def test_a_neuron_is_worth_what_removing_it_costs() -> None:
    """Oracle: nothing follows the MLP, so zeroing a neuron changes the logit by its part."""
    model = load("generalization-errors")
    result = attribution.run(model, STRINGS)

    def zero(post: torch.Tensor, hook: object) -> torch.Tensor:
        post[..., 1] = 0
        return post

    with torch.no_grad():
        without = model.run_with_hooks(STRINGS, fwd_hooks=[("blocks.0.mlp.hook_post", zero)])
        change = (model(STRINGS) - without).numpy()
    assert result.effects.at(part="neuron 1") == pytest.approx(change, abs=1e-5)


def test_a_head_and_letter_by_hand(walkthrough: HookedClassifier) -> None:
    result = attribution.run(walkthrough, ["baac"])
    weight, value = 2 * 4.9982e-01, 3.1148  # two a's, as published; head 0's value of a
    output = walkthrough.W_O[0, 0, 0].detach() @ walkthrough.W_U[:, 0].detach()
    expected = weight * value * float(output)
    assert float(result.effects.at(part="head 0 ← a")[0]) == pytest.approx(expected, rel=1e-4)
    assert float(result.logits.array[0]) == pytest.approx(10.9587, abs=1e-4)


def test_copies_count_like_characters(odd_model: HookedClassifier) -> None:
    """The compressed form and the long form of a string have the same parts."""
    config = odd_model.config.replace(n_positions=40)
    weights = dict(odd_model.named_parameters()) | {"pos_embed.W_pos": torch.zeros(40, 7)}
    long_form = HookedClassifier(config, weights)
    strings = ["ab{4}e{3}", "d{9}c"]
    short, long = (attribution.run(model, strings) for model in (odd_model, long_form))
    for part in short.effects.labels["part"]:
        assert long.effects.at(part=part) == pytest.approx(short.effects.at(part=part), abs=1e-5)


@pytest.mark.parametrize("norm", ["LN", "LNPre", "RMS", "RMSPre", None])
@pytest.mark.parametrize("query", [QUERY, -1, 0])
def test_transformer_lens_model(norm: str | None, query: int) -> None:
    """Oracle: the model's own logit. Without the final norm's scale the sum was off by 3 here."""
    model = transformer_lens_model(norm)
    result = attribution.run(model, TOKENS, query=query, direction=model.W_U[:, 5])
    logits = (model(TOKENS)[:, query, 5] - model.b_U[5]).detach().numpy()
    assert result.effects.array.sum(1) == pytest.approx(logits, abs=1e-4)
    assert result.by_group.array.sum(1) == pytest.approx(logits, abs=1e-4)
    assert result.logits.array == pytest.approx(logits, abs=1e-4)
    off = np.abs(result.effects.array.sum(1) - logits).max()
    assert result.error <= off + 1e-5
    assert bool(result.not_applicable) == (norm is not None)
    visible = TOKENS[:, : query % TOKENS.shape[1] + 1].unique().tolist()
    named = {part.split("← ")[1] for part in result.effects.labels["part"] if "←" in part}
    assert named == {str(token) for token in visible}
    check_survives_json(result)


def test_earlier_layer_of_a_deep_model() -> None:
    model = transformer_lens_model()
    direction = np.linspace(-1, 1, 12)
    result = attribution.run(model, TOKENS, layer=0, direction=direction, token_names="abcdefghi")
    assert not any(part.startswith("layer 1") for part in result.effects.labels["part"])
    assert any("← i" in part for part in result.effects.labels["part"])
    assert any("layers after 0" in text for text in result.not_applicable)


def test_wrong_strings_are_explained() -> None:
    result = attribution.run(load("generalization-errors"), ["baac", "aac", "ab{100}"])
    failures = [finding for finding in result.findings if finding.severity == "failure"]
    assert len(failures) == 1
    assert "`ab{100}` is a false negative: its logit -1.97" in failures[0].text
    assert failures[0].numbers["logit"] == pytest.approx(-1.9749, abs=1e-3)


def test_refusals(walkthrough: HookedClassifier) -> None:
    for answer in (9, -1, [1, 2], "a", 0.5):
        with pytest.raises(UsageError, match="one of the 9 outputs"):
            attribution.run(transformer_lens_model(), TOKENS, answer=answer)
    with pytest.raises(UsageError, match="a direction or an answer"):
        attribution.run(transformer_lens_model(), TOKENS, answer=1, direction=np.ones(12))
    with pytest.raises(UsageError, match="layers 0 to 0"):
        attribution.run(walkthrough, ["ab"], layer=3)
    double = ("blocks.0.hook_mlp_out", lambda out, hook: 2 * out)
    with walkthrough.hooks([double]), pytest.raises(UnsupportedError, match="miss the residual"):
        attribution.run(walkthrough, ["ab"])


@pytest.mark.parametrize("norm", ["LN", "RMS", None])
@pytest.mark.parametrize("answer", [None, 3, [0, 1, 2, 3, 4]])
def test_the_lead_of_an_answer_over_the_best_other(norm: str | None, answer: object) -> None:
    """Oracle: the model's own logits; without an answer it is what the model answers."""
    model = transformer_lens_model(norm)
    result = attribution.run(model, TOKENS, query=QUERY, answer=answer, token_names="abcdefghi")
    logits = model(TOKENS)[:, QUERY].detach().numpy()
    chosen = logits.argmax(1) if answer is None else np.broadcast_to(answer, 5)
    expected, named = [], []
    for row, own in enumerate(chosen):
        other = max((x, -token) for token, x in enumerate(logits[row]) if token != own)
        expected.append(logits[row, own] - other[0])
        named.append(f"{'abcdefghi'[own]} over {'abcdefghi'[-other[1]]}")
    assert result.logits.array == pytest.approx(np.array(expected), abs=1e-4)
    assert result.effects.array.sum(1) == pytest.approx(np.array(expected), abs=1e-4)
    assert list(result.answers) == named
    check_survives_json(result)


def test_the_right_class_of_several() -> None:
    """A multiclass classifier: positive exactly where the right class is answered."""
    config = ClassifierConfig(
        task=Maximum(), n_letters=4, n_outputs=4, d_model=6, n_heads=2, d_head=3
    )
    model = HookedClassifier(config, seed=2)
    strings = ["ad", "cb", "aab", "dddc", "a"]
    result = attribution.run(model, strings)
    logits = model(strings).detach().numpy()
    right = config.classes(strings)
    assert ((result.logits.array > 0) == (logits.argmax(1) == right)).all()
    failures = [f for f in result.findings if f.severity == "failure"]
    wrong = np.flatnonzero(logits.argmax(1) != right)
    assert len(failures) == 1 <= len(wrong)
    assert f"`{strings[wrong[0]]}` is wrong: the lead of class" in failures[0].text


def test_by_source_position() -> None:
    """Oracle: weight times value times W_O, position by position, in plain loops."""
    model = transformer_lens_model(None)
    result = attribution.run(model, TOKENS, query=QUERY, direction=model.W_U[:, 5])
    with torch.no_grad():
        _, cache = model.run_with_cache(TOKENS)
    assert result.sources is not None
    for row, layer, head, key in [(0, 0, 1, 2), (3, 1, 0, 4), (4, 1, 1, 0)]:
        value = cache[f"blocks.{layer}.attn.hook_v"][row, key, head]
        weight = cache[f"blocks.{layer}.attn.hook_pattern"][row, head, QUERY, key]
        written = value @ model.blocks[layer].attn.W_O[head].detach()
        expected = float(weight * (written @ model.W_U[:, 5].detach()))
        label = f"layer {layer} head {head}"
        got = result.sources.at(string=f"row {row}", head=label, position=key)
        assert float(got) == pytest.approx(expected, abs=1e-5)
    total = result.sources.array.sum(-1)  # all places together are the head
    for h, label in enumerate(result.sources.labels["head"]):
        assert total[:, h] == pytest.approx(result.by_group.at(group=label), abs=1e-5)
    assert attribution.run(load("walkthrough"), ["ab"]).sources is None
