"""Patching by letter: against a separate numpy model with values replaced by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model.outside_models import tl_model
from tests.model.test_forward import shaken_weights
from tests.probes.models import TOKENS, check_survives_json, transformer_lens_model
from tests.probes.patching_oracle import OneLayer
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import StringError, TscError, UnsupportedError, UsageError
from tsc_interp.interventions.hooks import intervene
from tsc_interp.interventions.parts import Part, place
from tsc_interp.interventions.singly import singly
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.registry import find_probe, run_probe
from tsc_interp.tasks.counts import AtLeast, Maximum, Parity

patching = find_probe("patching")

ODD = ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11)
PAIRS = [("ab{3}e{2}", "a{4}ce"), ("bd", "d{9}")]


@pytest.mark.parametrize("name", ["odd", "generalization-errors"])
def test_every_value_replaced_by_hand(name: str) -> None:
    if name == "odd":
        model, pairs = HookedClassifier(ODD, shaken_weights(ODD)), PAIRS
    else:
        model, pairs = load(name), [("ab{66}", "ab{100}"), ("aab", "acc"), ("bc", "bcab{90}")]
    config = model.config
    oracle = OneLayer(config, {k: v.detach() for k, v in model.named_parameters()})
    result = patching.run(model, ["a"], pairs=pairs)
    for (clean, corrupted), patched in zip(pairs, result.pairs, strict=True):
        assert patched.pair.clean_logit == pytest.approx(
            oracle.values(clean)["logit",], rel=1e-4, abs=1e-4
        )

        def expect(site: str, key: tuple, patched=patched, pair=(clean, corrupted), **where):
            found = float(patched.site(site).effect.at(layer=0, **where))
            assert found == pytest.approx(oracle.effect(*pair, key), abs=2e-4), (site, where)

        for site in ("attn_out", "resid_mid", "mlp_out", "resid_post"):
            expect(site, (site,), pos="CLS")
        for h in range(config.n_heads):
            expect("z", ("z", h), pos="CLS", head=h)
            expect("z_all_pos", ("z", h), head=h)
            expect("pattern_by_pos", ("pattern", h), head=h, dest_pos="CLS")
            expect("pattern_all_pos", ("pattern", h), head=h)
            for t, letter in enumerate(config.alphabet.letters):
                expect("scores_by_src", ("score", h, t), head=h, src_pos=letter)
        for n in range(config.d_mlp):
            expect("post", ("post", n), pos="CLS", neuron=n)
        # By letter nothing before the attention weights differs, and letters are not read out.
        for site in ("resid_pre", "q", "k", "v", "q_all_pos"):
            assert patched.site(site).same.all(), site
            assert not patched.site(site).changes.any()
        for site in ("attn_out", "resid_post", "mlp_out"):
            assert not patched.site(site).changes[0, 1:].any()
    check_survives_json(result)


def test_one_at_a_time_is_what_many_rows_do() -> None:
    """Each row of a batch has its own intervention, and nothing leaks between rows."""
    config = ClassifierConfig(n_layers=2, d_model=5, n_heads=2, d_head=3, d_mlp=4)
    model = HookedClassifier(config, shaken_weights(config))
    wanted = [
        "head0=patch(abb)", "layer1.head1.key=patch(abb)", "neuron2@0=patch(abb)", "mlp@2=zero",
        "layer1.resid_pre@3=patch(abb)", "head1.score@<-2=patch(abb)",
        "head0->layer1.head0.key=zero",
        "head1.pattern@0<-1=patch(abb)", "layer1.attn=scale(0.5)", "neuron1->logit=patch(abb)",
        "head0->neuron3@0=patch(abb)", "layer1.resid_mid@0=patch(abb)",
    ]  # fmt: skip
    effects = singly(model, "acc", wanted)
    rows = zip(wanted, effects.before.tolist(), effects.after.tolist(), strict=True)
    for one, before, after in rows:
        alone = intervene(model, ["acc"], one)
        assert after == pytest.approx(float(alone.after), abs=1e-5), one
        assert float(alone.before) == pytest.approx(before, abs=1e-5)
    assert effects.changes.abs().gt(1e-5).sum() >= 9


def test_an_intervention_that_changes_nothing_is_exactly_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the processor rounds differently in batches of other sizes."""
    monkeypatch.setattr("tsc_interp.interventions.singly.AT_ONCE", 3)
    config = ClassifierConfig(n_layers=2, d_model=5, n_heads=2, d_head=3, d_mlp=4)
    model = HookedClassifier(config, shaken_weights(config))
    parts = ("head0", "head1", "layer1.head0", "layer1.head1", "mlp", "layer1.mlp", "neuron2")
    for rows in (1, 3, 7):
        effects = singly(model, "acc", [f"{part}=scale(1)" for part in parts[:rows]])
        assert effects.before.shape == effects.after.shape == (rows,)
        assert not effects.changes.any()


def test_letters_the_corrupted_string_lacks() -> None:
    """In a second layer values depend on the string; with weight 0 they are still not heard."""
    config = ClassifierConfig(n_layers=2, d_model=5, n_heads=2, d_head=3, d_mlp=4)
    model = HookedClassifier(config, shaken_weights(config))
    patched = patching.run(model, ["a"], pairs=[("abcc", "ab")]).pairs[0]
    values = patched.site("v")
    assert not values.same[1].all()
    c = values.effect.labels["pos"].index("c")
    assert values.moved.array[1, c].min() > 1e-4
    assert not values.changes[1, c].any()
    assert values.changes[1, 1:3].any()


def test_two_given_strings_are_clean_and_corrupted_in_this_order() -> None:
    model = load("walkthrough")
    there = patching.run(model, ["aab", "aac"]).pairs[0].pair
    back = patching.run(model, ["aac", "aab"]).pairs[0].pair
    assert (there.clean, there.corrupted) == ("aab", "aac") == (back.corrupted, back.clean)
    assert (
        there.clean_logit
        == back.corrupted_logit
        == pytest.approx(float(model("aab").detach()), abs=1e-6)
    )
    assert there.effect(there.clean_logit) == 1
    assert there.effect(there.corrupted_logit) == 0
    assert there.patched_logit(0.25) == pytest.approx(
        there.corrupted_logit + 0.25 * (there.clean_logit - there.corrupted_logit)
    )
    assert "The clean string is `aab`" in there.sentence()
    assert "the corrupted string `aac`" in there.sentence()


def test_pairs_found_around_a_wrong_string() -> None:
    model = load("generalization-errors")
    result = patching.run(model, ["aac", "baac", "ab{100}"])
    wrong, labels = (patched.pair for patched in result.pairs)
    assert (wrong.clean, wrong.corrupted) == ("ab{65}", "ab{100}")
    assert [wrong.right(0), wrong.right(1)] == [True, False]
    assert wrong.labels == (1, 1)
    # Longer ones of its kind are wrong: the brute-force search for the last right one.
    right = [n for n in range(1, 100) if bool(model([f"ab{{{n}}}"]) > 0)]
    assert max(right) == 65
    assert labels.labels == (1, 0)
    assert labels.right(0)
    assert labels.right(1)
    assert result.findings[0].severity == "failure"


@pytest.mark.parametrize("task", [AtLeast(letter="b", k=3), Parity()])
@pytest.mark.parametrize("positions", [0, 12])
def test_found_pairs_are_one_letter_apart(task, positions: int) -> None:
    config = ClassifierConfig(task=task, n_positions=positions, d_model=4, d_mlp=5)
    model = HookedClassifier(config, shaken_weights(config))
    for strings in (["c"], ["aac", "b", "abcb"]):
        pairs = [one.pair for one in patching.run(model, strings).pairs]
        assert pairs
        for pair in pairs:
            counts = config.alphabet.count_matrix([pair.clean, pair.corrupted])
            assert pair.labels == tuple(task.labels(counts).astype(int).tolist())
            if pair.labels[0] != pair.labels[1]:
                assert pair.labels == (1, 0)
                assert np.abs(counts[0] - counts[1]).sum() <= 2
            if positions:
                assert counts[0].sum() == counts[1].sum()


@pytest.mark.parametrize(
    ("strings", "options", "says"),
    [
        (["ab"], {"pairs": [("ab", "ab!")]}, "unexpected '!'"),
        (["ab"], {"pairs": [("aab", "aba")]}, "same logit"),
        (["ab"], {"pairs": [("ab", "ab")]}, "same logit"),
        (["ab", "abb"], {"by": "position"}, "of one length"),
        (["ab"], {"pairs": [("a{200}", "a{199}b")], "by": "position"}, "at most"),
        (["ab"], {"by": "word"}, "'letter' or 'position'"),
        (["ab"], {"pairs": ["ab"]}, "a pair is two strings"),
        (["ab"], {"pairs": []}, "1 to 16 pairs"),
        ([], {}, "at least one string"),
    ],
)
def test_wrong_use(walkthrough, strings, options, says) -> None:
    with pytest.raises(TscError, match=says):
        patching.run(walkthrough, strings, **options)


def test_wrong_use_of_models_with_positions_and_without_tasks() -> None:
    model = HookedClassifier(ClassifierConfig(n_positions=9), seed=0)
    with pytest.raises(UsageError, match="both strings must be of one length"):
        patching.run(model, ["ab", "abb"])
    with pytest.raises(UsageError, match="by='position'"):
        patching.run(model, ["ab", "bb"], by="letter")
    other = transformer_lens_model(None)
    with pytest.raises(UsageError, match="one of the 9 outputs"):
        patching.run(other, TOKENS, answer=9)
    with pytest.raises(UsageError, match="token ids must lie in"):
        patching.run(other, -TOKENS)
    with pytest.raises(UsageError, match="two row numbers"):
        patching.run(other, TOKENS, answer=3, pairs=[(0, 7)])
    with pytest.raises(UsageError, match="token ids"):
        patching.run(other, ["ab"], answer=3)
    with pytest.raises(UnsupportedError, match="run_with_hooks"):
        patching.run(object(), TOKENS)
    with pytest.raises(StringError):
        patching.run(load("walkthrough"), ["xyz"])


def test_any_transformer_lens_model() -> None:
    """Two causal layers with norms: one patch by hand, and the last residual restores all."""
    model = transformer_lens_model()
    result = patching.run(model, TOKENS, answer=5, pairs=[(2, 0), (1, 3)])
    for patched in result.pairs:
        assert patched.site("resid_post").effect.array[1, -1] == pytest.approx(1, abs=1e-4)
    clean, corrupted = TOKENS[2:3], TOKENS[0:1]
    cache = model.run_with_cache(clean)[1]

    def put(value: torch.Tensor, hook: object) -> torch.Tensor:
        value = value.clone()
        value[:, 4, 1] = cache["blocks.0.attn.hook_v"][:, 4, 1]
        return value

    hooks = [("blocks.0.attn.hook_v", put)]
    after = model.run_with_hooks(corrupted, fwd_hooks=hooks)[0, -1].detach()
    lead = float(after[5] - torch.cat([after[:5], after[6:]]).max())
    pair = result.pairs[0].pair
    found = result.pairs[0].site("v").effect.array[0, 4, 1]
    assert found == pytest.approx(pair.effect(lead), abs=1e-4)
    check_survives_json(result)


def test_a_pair_of_rows_is_enough() -> None:
    """Without an answer it is the lead of what the model answers to the clean row."""
    model = transformer_lens_model()
    pair = TOKENS[[2, 0]]
    for given in (pair, pair.tolist(), pair.numpy()):
        result = run_probe("patching", model, given)
        logits = model(pair)[:, -1].detach()
        own = int(logits[0].argmax())
        lead = [float(x[own] - torch.cat([x[:own], x[own + 1 :]]).max()) for x in logits]
        told = result.pairs[0].pair
        assert (told.clean_logit, told.corrupted_logit) == pytest.approx(tuple(lead), abs=1e-5)


def test_the_right_class_of_several_outputs() -> None:
    config = ClassifierConfig(
        task=Maximum(), n_letters=4, n_outputs=4, d_model=6, n_heads=2, d_head=3
    )
    model = HookedClassifier(config, seed=2)
    result = patching.run(model, ["abd", "abb"])
    logits = model(["abd", "abb"]).detach().numpy()
    lead = logits[:, 3] - logits[:, :3].max(1)
    pair = result.pairs[0].pair
    assert (pair.clean_logit, pair.corrupted_logit) == pytest.approx(tuple(lead), abs=1e-5)
    assert result.pairs[0].site("resid_post").effect.array[0, 0] == pytest.approx(1, abs=1e-4)
    with pytest.raises(UnsupportedError, match="4 outputs"):
        patching.run(model, ["abd"])


def test_notation_of_positions() -> None:
    for text in ("head0@3", "layer1.head0.pattern@0<-3", "head1.score@<-2", "resid_mid@0", "attn",
                 "layer2.resid_post", "head0->neuron1@0"):  # fmt: skip
        assert str(place(text)) == text
    assert place("head0.pattern@0<-3") == Part("pattern", 0, 0, position=0, seen=3)
    for text, says in {
        "head0@0<-3": "second position",
        "logit@0": "no position",
        "head0@0->logit": "at every position, or at one",
        "resid_mid[c]": "names no part",
    }.items():
        with pytest.raises(UsageError, match=says):
            place(text)
    with pytest.raises(UsageError, match="beyond the 4 positions"):
        intervene(load("walkthrough"), ["ab"], "head0@4=zero")


def test_pairs_of_a_framed_model_fit_its_frame() -> None:
    """A letter replaced in a row may not be one of the frame's fixed tokens."""
    frame = tsc.Frame.parse("[5] x{4} [3]; x=0..2")
    external = tl_model(11, n_ctx=7, positions=True)
    checkpoint = tsc.from_transformer_lens(external, frame=frame, task="palindrome")
    config = checkpoint.config
    for string in ("abba", "abca"):
        for one in run_probe("patching", checkpoint, [string]).pairs:
            for text in (one.pair.clean, one.pair.corrupted):
                letters = map(config.alphabet.letters.index, config.alphabet.expand(text))
                assert list(letters) in config.frame
