"""Interventions: the hook form against the weight form, and both against arithmetic by hand."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.cases import ATTENTION, FAMILY, PUBLIC
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli.app import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.interventions.changes import change
from tsc_interp.interventions.hooks import Hooks, intervene
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Direction, edges, place, writers
from tsc_interp.interventions.weights import edit
from tsc_interp.model.classifier import Classifier

STRINGS = ["a", "ab", "aab", "bc{7}", "abc{30}", "cc", "acb{5}"]
MEAN = "mean(aab, abc, c, abcc)"
LETTER_CHANGES = (
    "zero", "scale(2)", MEAN, "like(b)", "from(ab)", "set(0.7, -2)",
    "noise(0.3, seed=2)", "noise(0.2, along=direction)", "noise(0.2, along=norm)",
)  # fmt: skip


def model_of(seed: int = 0, **options) -> Classifier:
    sizes = {"d_model": 3, "n_heads": 2, "d_head": 2, "d_mlp": 3} | options
    model = Classifier(ClassifierConfig(**sizes), seed=seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model


def all_interventions(config: ClassifierConfig) -> list[str]:
    parts = [str(part) for part in writers(config) if part.kind != "embed"]
    parts += [f"layer{layer}.mlp" for layer in range(config.n_layers)]
    wanted = [f"{p}={c}" for p in parts for c in ("zero", MEAN, "from(abc)", "scale(0.5)")]
    wanted += [f"head1.{k}={c}" for k in ("query", "key", "value") for c in ("zero", "scale(2)")]
    wanted += [f"head1.{k}[c]={c}" for k in ("key", "value") for c in LETTER_CHANGES]
    wanted += [f"{edge}={c}" for edge in edges(config) for c in ("zero", MEAN)]
    wanted += [
        "head0=set(0.5, 3)",
        "neuron2=set(-1.5)",
        "mlp=set(1, 0, -2)",
        "head0->logit=set(2, 1)",
    ]
    return wanted


@pytest.mark.parametrize(
    ("layers", "cls", "log_n"), [(1, False, False), (1, True, True), (2, True, False)]
)
def test_weights_do_what_hooks_do(layers, cls, log_n):
    scale = "sqrt_d_head_log_n" if log_n else "sqrt_d_head"
    model = model_of(layers, n_layers=layers, attend_cls=cls, score_scale=scale)
    checkpoint = model.to_checkpoint()
    moved = 0
    for text in all_interventions(model.config):
        outcome = intervene(model, STRINGS, text)
        edited = Classifier.from_checkpoint(edit(checkpoint, text))
        with torch.no_grad():
            torch.testing.assert_close(edited(STRINGS), outcome.after, atol=3e-5, rtol=1e-5)
        moved += bool((outcome.after - outcome.before).abs().max() > 1e-3)
    assert moved > 60  # nearly all of them do something


@pytest.mark.parametrize("seed", range(3))
def test_several_at_once(seed):
    model = model_of(seed, n_layers=2)
    rng = np.random.default_rng(seed)
    cuts = rng.choice([str(edge) for edge in edges(model.config)], 5, replace=False)
    wanted = [*(f"{cut}=zero" for cut in cuts), "head0.key[a]=like(c)", "layer1.head1=scale(0.3)"]
    outcome = intervene(model, STRINGS, wanted)
    edited = Classifier.from_checkpoint(edit(model.to_checkpoint(), wanted))
    with torch.no_grad():
        torch.testing.assert_close(edited(STRINGS), outcome.after, atol=3e-5, rtol=1e-5)


def test_set_puts_the_numbers_there_and_refuses_others():
    model = model_of()
    seen = {}
    hooks = [*Hooks(model, STRINGS, "head1.value[c]=set(0.25, -3)").fwd_hooks]
    hooks.append(("blocks.0.attn.hook_v", lambda v, hook: seen.update(v=v)))
    model.run_with_hooks(STRINGS, fwd_hooks=hooks)
    assert seen["v"][:, 3, 1].unique(dim=0).tolist() == [[0.25, -3.0]]
    assert str(change("set(.25,-3e0)")) == "set(0.25, -3)"
    for text, words in {
        "head1.value[c]=set(1)": "1 numbers, but value has 2",
        "neuron0=set(1, 2)": "2 numbers, but neuron has 1",
        "head0.pattern=set(1)": "use patch",
        "head0=set()": "is no change",
        "head0=set(nan)": "finite",
        "head0=set(b)": "is no change",
    }.items():
        with pytest.raises(TscError, match=words):
            intervene(model, STRINGS, text)


def test_one_head_by_hand():
    """A model of one number per vector, small enough for arithmetic on paper."""
    config = ClassifierConfig(d_model=1, n_heads=1, d_head=1, d_mlp=0)
    weights = {name: np.ones(shape, np.float32) for name, shape in config.weight_shapes().items()}
    weights["embed.W_E"] = np.array([[1.0], [0.0], [0.5], [2.0], [-1.0]], np.float32)
    model = Classifier(config, weights)
    odds = {"a": np.exp(0.5), "b": np.exp(2.0), "c": np.exp(-1.0)}

    def logit(values):  # of aab
        total = 2 * odds["a"] + odds["b"]
        return 1 + (2 * odds["a"] * values[0] + odds["b"] * values[1]) / total

    for text, expected in {
        "head0=zero": 1.0,
        "head0=scale(3)": 1 + 3 * (logit((0.5, 2.0)) - 1),
        "head0=from(b)": 3.0,
        "head0=mean(a, b, c)": 1 + (0.5 + 2.0 - 1.0) / 3,
        "head0.value[a]=like(c)": logit((-1.0, 2.0)),
        "head0.value[b]=zero": logit((0.5, 0.0)),
        "head0.value[b]=mean(aab)": logit((0.5, 1.0)),
        "head0.query=zero": 1 + (2 * 0.5 + 2.0) / 3,
        "head0->logit=zero": 1.0,
        "embed->logit=zero": logit((0.5, 2.0)) - 1,
        "embed->head0.query=zero": 1 + (2 * 0.5 + 2.0) / 3,
    }.items():
        after = float(intervene(model, ["aab"], text).after)
        assert after == pytest.approx(expected, abs=1e-6), text
        with torch.no_grad():
            built_in = float(Classifier.from_checkpoint(edit(model.to_checkpoint(), text))(["aab"]))
        assert built_in == pytest.approx(expected, abs=1e-6), text


def test_a_cut_edge_is_heard_by_no_one_else():
    model = model_of(d_mlp=2)
    before = model.run_with_cache(STRINGS)[1]
    hooks = Hooks(model, STRINGS, "head0->neuron1=zero").fwd_hooks
    seen = {}
    names = ("blocks.0.mlp.hook_pre", "blocks.0.hook_resid_mid")
    watch = [(name, lambda x, hook: seen.update({hook.name: x.detach()})) for name in names]
    model.run_with_hooks(STRINGS, fwd_hooks=[*hooks, *watch])
    pre, was = seen[names[0]], before[names[0]]
    assert torch.equal(pre[..., 0], was[..., 0])
    assert float((pre[..., 1] - was[..., 1])[:, 0].detach().abs().min()) > 1e-3
    assert torch.equal(seen[names[1]], before[names[1]])


def test_a_direction_of_the_residual_stream():
    model = model_of()
    direction = (1.0, -2.0, 0.5)
    for text in ("zero", "scale(0.25)", MEAN, "from(abc)"):
        wanted = Intervention(Direction("resid_post", 0, direction), change(text))
        outcome = intervene(model, STRINGS, wanted)
        edited = Classifier.from_checkpoint(edit(model.to_checkpoint(), wanted))
        with torch.no_grad():
            torch.testing.assert_close(edited(STRINGS), outcome.after, atol=1e-5, rtol=1e-5)
    cache = model.run_with_cache(STRINGS)[1]
    unit = torch.tensor(direction) / torch.tensor(direction).norm()
    cls = cache["blocks.0.hook_resid_post"][:, 0]
    expected = (cls - (cls @ unit)[:, None] * unit) @ model.W_U[:, 0]
    wanted = Intervention(Direction("resid_post", 0, direction), change("zero"))
    torch.testing.assert_close(intervene(model, STRINGS, wanted).after, expected.detach())


def test_resampling_takes_every_value_from_another_string():
    model = model_of()
    outcome = intervene(model, STRINGS, "head0=resample(seed=3)")
    z = model.run_with_cache(STRINGS)[1]["blocks.0.attn.hook_z"][:, 0, 0]
    hooks = Hooks(model, STRINGS, "head0=resample(seed=3)").fwd_hooks
    seen = []
    model.run_with_hooks(
        STRINGS, fwd_hooks=[*hooks, ("blocks.0.attn.hook_z", lambda x, hook: seen.append(x))]
    )
    taken = [int((z - row).abs().sum(-1).argmin()) for row in seen[0][:, 0, 0]]
    assert sorted(taken) == list(range(len(STRINGS)))
    assert all(here != there for here, there in enumerate(taken))
    assert not torch.equal(outcome.before, outcome.after)
    with pytest.raises(UnsupportedError, match="no constant"):
        edit(model.to_checkpoint(), "head0=resample(seed=3)")


def test_noise_turns_keys_by_as_much_as_it_says():
    model = model_of()
    keys = model.run_with_cache(STRINGS)[1]["blocks.0.attn.hook_k"][0, :, 0]
    for text, check in {
        "noise(0.25)": lambda new: (new - keys).norm(dim=-1) / keys.norm(dim=-1) - 0.25,
        "noise(0.25, along=norm)": lambda new: (
            (new.norm(dim=-1) / keys.norm(dim=-1) - 1).abs() - 0.25
        ),
        "noise(0.25, along=direction)": lambda new: new.norm(dim=-1) - keys.norm(dim=-1),
    }.items():
        seen = []
        hooks = Hooks(model, STRINGS, f"head0.key={text}").fwd_hooks
        model.run_with_hooks(
            STRINGS,
            fwd_hooks=[*hooks, ("blocks.0.attn.hook_k", lambda x, hook, s=seen: s.append(x))],
        )
        assert float(check(seen[0][0, :, 0]).detach().abs().max()) < 1e-5, text
        assert not torch.allclose(seen[0][0, :, 0], keys), text


def test_what_changes_nothing_is_said():
    model = model_of()
    (remark,) = intervene(model, ["ab"], "head0.key[a]=scale(1)").remarks
    assert "changed nothing" in remark
    assert intervene(model, ["ab"], "head0.key[a]=scale(1.5)").remarks == ()


def test_a_hook_that_did_not_fire_is_an_error():
    model = model_of()
    hooks = Hooks(model, ["ab"], "head0=zero")
    with pytest.raises(UsageError, match="did not fire"):
        hooks.remarks()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("head7=zero", "2 heads"),
        ("neuron9=zero", "3 neurons"),
        ("layer3.head0=zero", "1 layer"),
        ("elbow=zero", "names no part"),
        ("head0", "part=change"),
        ("head0=gone", "'gone' is no change; changes are zero"),
        ("head0=zro", "did you mean 'zero'"),
        ("head0=scale(inf)", "is no change|finite"),
        ("head0=like(b)", "one letter's key or value"),
        ("head0.pattern[c]=zero", "no pattern"),
        ("head0->head1=zero", "edges end at"),
        ("neuron0->head0.key=zero", "computed before"),
        ("head0.value[z]=zero", "'z'"),
        ("logit=zero", "logit"),
        ("head0.pattern=mean(aab, abc)", "no mean"),
    ],
)
def test_wrong_use_is_a_clear_error(text, says):
    with pytest.raises(TscError, match=says):
        intervene(model_of(), STRINGS, text)


def test_what_weights_cannot_hold_is_refused():
    model = model_of(n_layers=2)
    for text, says in {
        "head0.pattern=zero": "no constant",
        "layer1.head0.key[c]=zero": "depends on the string",
        "head0=noise(0.1)": "no constant",
        "head0=mean": "over no strings",
        "head0=mean(ab)": "has c",  # a later layer reads what the head writes at every letter
        "head0->logit=scale(0.5)": "cut or made constant",
    }.items():
        with pytest.raises(TscError, match=says):
            edit(model.to_checkpoint(), text)
    normed = model_of(norm="rms").to_checkpoint()
    edit(normed, ["head0=zero", "neuron1=scale(0.5)"])
    for text in ("head0=mean(aab)", "head0.key[c]=zero", "head0->logit=zero"):
        with pytest.raises(UnsupportedError, match="norms"):
            edit(normed, text)
    # As a hook it can be: nothing but the read-out stands between a head and the logit.
    hooked = model_of(norm="rms")
    outcome = intervene(hooked, STRINGS, "head0->logit=zero")
    with torch.no_grad():
        z = hooked.run_with_cache(STRINGS)[1]["blocks.0.attn.hook_z"][:, 0, 0]
        direct = (z @ hooked.W_O[0, 0] @ hooked.W_U)[:, 0]
    assert torch.allclose(outcome.before - outcome.after, direct, atol=1e-5)


@pytest.mark.parametrize("config", [*FAMILY, *ATTENTION, *PUBLIC], ids=lambda config: "")
def test_zero_and_scale_can_be_written_as_weights_of_any_classifier(config):
    model = Classifier.from_checkpoint(ordered_checkpoint(config, 3))
    strings = ["abc", "cab", "aaa", "bca"]
    last = f"layer{config.n_layers - 1}."
    for text in ("head0=zero", f"{last}head1=scale(-0.5)", "neuron1=zero", "mlp=scale(2)",
                 f"{last}head1.query=scale(2)", "head0.key=zero", "head1.value=zero"):  # fmt: skip
        if not (config.has_attention if "head" in text else config.has_mlp):
            continue
        try:
            edited = edit(model.to_checkpoint(), text)
        except UnsupportedError:
            assert config.grouped or config.qk_norm != "off"
            assert "key" in text or "query" in text or "value" in text
            continue
        assert edited.config == config
        with torch.no_grad():
            changed = Classifier.from_checkpoint(edited)(strings)
        expected = intervene(model, strings, text).after
        torch.testing.assert_close(changed, expected, atol=2e-5, rtol=2e-5)


CONSTANTS = ("mean(abc, cab, aaa, bca)", "from(bca)")


@pytest.mark.parametrize(
    "config", [c for c in (*FAMILY, *ATTENTION, *PUBLIC) if c.biases], ids=lambda config: ""
)
def test_constants_of_the_last_layer_become_biases(config):
    """Oracle: hooks that put the mean in place at every position."""
    model = Classifier.from_checkpoint(ordered_checkpoint(config, 3))
    strings = ["abc", "cab", "aaa", "bca"]
    last = f"layer{config.n_layers - 1}."
    written = 0
    for part, constant in itertools.product(("head1", "neuron1", "mlp"), CONSTANTS):
        if not (config.has_attention if part == "head1" else config.has_mlp):
            continue
        text = f"{last}{part}={constant}"
        try:
            edited = edit(model.to_checkpoint(), text)
        except UnsupportedError:
            assert config.beyond_verification or not (config.has_cls or config.has_positions)
            continue
        written += 1
        with torch.no_grad():
            changed = Classifier.from_checkpoint(edited)(strings)
        expected = intervene(model, strings, text).after
        torch.testing.assert_close(changed, expected, atol=2e-5, rtol=2e-5)
    assert written or config.beyond_verification or not (config.has_cls or config.has_positions)


def test_an_edited_order_sensitive_model_is_decided_again():
    config = ClassifierConfig(n_positions=5, n_heads=2, d_model=4, d_head=2, biases=True)
    checkpoint = ordered_checkpoint(config, 5)
    edited = edit(checkpoint, "head1=zero")
    verdict = tsc.verify(edited, lengths=[3])
    words = ["".join(letters) for letters in itertools.product("abc", repeat=3)]
    answers = intervene(Classifier.from_checkpoint(checkpoint), words, "head1=zero").after > 0
    assert verdict.wrong == int((answers.numpy() != config.classes(words)).sum())


def test_positions_need_strings_of_one_length():
    model = model_of(n_positions=8)
    with pytest.raises(UsageError, match="one length"):
        intervene(model, ["ab", "abc"], "head0=mean")
    outcome = intervene(model, ["abc", "cab", "aaa"], "head0=mean")
    z = model.run_with_cache(["abc", "cab", "aaa"])[1]["blocks.0.attn.hook_z"]
    seen = []
    hooks = Hooks(model, ["abc", "cab", "aaa"], "head0=mean").fwd_hooks
    hooks.append(("blocks.0.attn.hook_z", lambda x, hook: seen.append(x)))
    model.run_with_hooks(["abc", "cab", "aaa"], fwd_hooks=hooks)
    torch.testing.assert_close(seen[0][1, :, 0], z[:, :, 0].mean(0))
    assert outcome.remarks == ()
    with pytest.raises(UnsupportedError, match="positions: zero and scale"):
        edit(model.to_checkpoint(), "head0=mean(aab)")


def test_notation_survives_a_round_trip():
    for text in all_interventions(ClassifierConfig(n_layers=2, d_mlp=2)):
        one = Intervention.parse(text)
        assert Intervention.parse(str(one)) == one
    assert str(place("layer0.head1->layer1.head0.key")) == "head1->layer1.head0.key"


def test_the_same_interventions_on_the_exported_model():
    model = tsc.load("walkthrough")
    exported = model.to_transformer_lens(n_ctx=16)
    strings = ["aabcc", "abccc", "bbccc"]
    tokens = model.tokens(strings)
    for text in ("head0=zero", "head1.value[c]=zero", "neuron0=zero", "head0->neuron1=zero",
                 "head0->logit=zero", "mlp=zero", "head1.key[b]=scale(0.5)"):  # fmt: skip
        ours = intervene(model, strings, text)
        names = model.config.alphabet.token_names
        theirs = intervene(exported, tokens, text, token_names=names)
        after = theirs.after[:, 0, 1] - theirs.after[:, 0, 0]
        torch.testing.assert_close(after, ours.after, atol=1e-5, rtol=1e-5)
        assert ours.remarks == theirs.remarks == ()


def test_an_edited_model_says_what_was_done(tmp_path):
    edited = tsc.edit("walkthrough", "head0.value[c]=like(b)")
    edited.save(tmp_path / "edited.safetensors")
    again = load_checkpoint(tmp_path / "edited.safetensors")
    assert again.provenance["interventions"] == ["head0.value[c]=like(b)"]
    assert tsc.horizon(again).length != tsc.horizon("walkthrough").length


def test_the_command(tmp_path, capsys):
    out = tmp_path / "changed.safetensors"
    wanted = ["intervene", "head0.value[c]=like(b)", "-c", "generalization-errors", "-s", "bc{70}"]
    assert main([*wanted, "-o", str(out)]) == 0
    told = capsys.readouterr().out
    assert "now right" in told
    assert main([*wanted, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    before, after = tsc.verify("generalization-errors"), tsc.verify(out)
    for when, verdict in (("before", before), ("after", after)):
        tally = verdict.tally
        wrong = tally.false_positives.total_strings + tally.false_negatives.total_strings
        assert document["exact"][f"wrong_{when}"] == str(wrong)
    assert before.tally.false_positives.total_vectors > 0
    assert after.tally.false_positives.total_vectors == 0
    assert main(["intervene", "head0.pattern=zero", "-s", "ab"]) == 0
    assert "Not decided for every string" in capsys.readouterr().out
    assert main(["intervene", "head9=zero"]) == 2
    assert main(["intervene", "head0.pattern=zero", "-o", str(tmp_path / "no.safetensors")]) != 0
    assert not (tmp_path / "no.safetensors").exists()
