"""The wider family in the trainer: several outputs, causal attention, positions, tasks on order.

Gradients are held against autograd over the hooked model's own loss, one model at a time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.training.test_loop import last_of_each, same
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import AllStrings, BalancedStream
from tsc_interp.errors import ConfigError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.inputs import as_read
from tsc_interp.strings import letters_of_tokens
from tsc_interp.training.config import RunConfig, TrainingConfig
from tsc_interp.training.engine import batches, engine_for
from tsc_interp.training.ensemble import start, train_ensemble
from tsc_interp.training.experiments import Experiment
from tsc_interp.training.losses import loss_named
from tsc_interp.training.testing import answers, evaluate_ensemble

CAUSAL = {"reads": "last", "attend_cls": True}
WIDER = {
    "most frequent": {"task": "most_frequent", "n_outputs": 3, "d_model": 4},
    "maximum, five letters": {"task": "maximum", "n_letters": 5, "n_outputs": 6, "d_model": 7},
    "two outputs of two": {"n_outputs": 2, "biases": True, "norm": "layer_pre", "final_norm": True},
    "causal in no order": {**CAUSAL, "act_fn": "relu"},
    "causal, two layers": {**CAUSAL, "n_layers": 2, "d_model": 4, "task": "before"},
    "the last letter reads": {
        "reads": "last_letter", "attend_cls": True, "n_outputs": 3, "task": "most_frequent",
        "n_positions": 13, "d_model": 5,
    },
    "before": {"task": "before", "n_positions": 13, "biases": True},
    "sinusoidal": {
        "task": "before", "n_positions": 13, "positions": "sinusoidal", "d_model": 6,
        "norm": "layer", "final_norm": True, "act_fn": "silu",
    },
    "causal positions": {
        **CAUSAL, "n_positions": 13, "n_outputs": 4, "n_letters": 4, "task": "maximum",
        "act_fn": "gelu_new", "norm": "rms",
    },
}  # fmt: skip
SHORT = TrainingConfig(
    train=BalancedStream(batches=7, order="shuffled"),
    validation=BalancedStream(max_length=11, batches=2, order="shuffled"),
    test=BalancedStream(max_length=12, batches=2, order="shuffled"),
    max_epochs=3,
    check_from=9,
)


def run_config(name: str, **changes: object) -> RunConfig:
    return RunConfig(
        classifier=ClassifierConfig(**WIDER[name]), training=SHORT.replace(**changes)
    )  # fmt: skip


@pytest.mark.parametrize("name", WIDER)
def test_gradients_are_the_hooked_models(name: str) -> None:
    config = ClassifierConfig(**WIDER[name])
    loss = loss_named("cross_entropy", config.n_outputs)
    engine = engine_for(config, loss)
    source = BalancedStream(max_length=12, batch_size=37, batches=1, order="shuffled")
    ((strings, labels),) = batches(engine, source, 0)
    many = [{k: 1.5 * w for k, w in initial_weights(config, seed).items()} for seed in range(3)]
    packed = engine.pack([{k: w.numpy() for k, w in one.items()} for one in many])
    gradient, logits = engine.gradient(packed, strings, labels)
    values = loss.values(logits, labels)
    for i, found in enumerate(engine.unpack(gradient)):
        model = HookedClassifier(config, many[i]).double()
        tokens = torch.from_numpy(as_read(config, source.epoch_tokens(config, 0)))
        out, expected = model(tokens, return_type="both")
        expected.backward()
        np.testing.assert_allclose(logits[i], out.detach(), rtol=1e-4, atol=1e-5)
        each = model.loss_fn(out, tokens, per_token=True).detach()
        np.testing.assert_allclose(values[i], each, rtol=1e-4, atol=1e-5)
        for key, parameter in model.named_parameters():
            np.testing.assert_allclose(
                found[key], parameter.grad, rtol=1e-3, atol=1e-6, err_msg=f"{i} {key}"
            )


def test_a_small_loss_keeps_its_digits() -> None:
    """Two outputs of the softmax are one output's sigmoid, down to 1e-30."""
    gaps = np.array([[-70.0, -20.0, -3.0, 0.0, 2.0, 90.0]], dtype=np.float32)
    two = np.stack([gaps, np.zeros_like(gaps)], axis=-1)
    one = loss_named("cross_entropy")
    labels = np.ones(6, dtype=np.int64)
    found = loss_named("cross_entropy", 2).values(two, labels)
    np.testing.assert_allclose(found, one.values(-gaps, labels.astype(np.float32)), rtol=2e-6)
    slope = loss_named("cross_entropy", 2).gradient(two, labels)
    expected = one.gradient(-gaps, labels.astype(np.float32))
    np.testing.assert_allclose(slope[..., 1], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", WIDER)
def test_it_learns_resumes_exactly_and_does_not_mix_models(name: str) -> None:
    """Together with another to rounding, in the same company bit for bit."""
    config = run_config(name)
    first, second = start(config, 0), start(config, 5)
    states = [active[0] for active in train_ensemble([second])]
    assert states[-1].metrics[-1].train_loss < states[0].metrics[0].train_loss
    same(last_of_each([states[0]])[0], states[-1])
    together = last_of_each([first, second])
    same(together[1], last_of_each([first, second])[1])
    for alone, beside in zip(states[-1].metrics, together[1].metrics, strict=True):
        assert beside.train_loss == pytest.approx(alone.train_loss, rel=1e-4)
        assert beside.validation_loss == pytest.approx(alone.validation_loss, rel=1e-3)


@pytest.mark.parametrize("name", WIDER)
def test_the_test_counts_wrong_answers(name: str) -> None:
    """Against the hooked model, string by string."""
    config = run_config(name)
    classifier = config.classifier
    weights = {k: w.numpy() for k, w in initial_weights(classifier, 3).items()}
    (result,) = evaluate_ensemble(config, [weights])
    rows = config.training.test.epoch_tokens(classifier, 0)
    letters = classifier.alphabet.letters
    texts = ["".join(letters[i] for i in row if i >= 0) for row in letters_of_tokens(rows)]
    logits = HookedClassifier(classifier, weights)(texts).detach()
    said = logits.argmax(-1) if classifier.n_outputs > 1 else (logits > 0).long()
    expected = np.zeros((max(classifier.n_outputs, 2),) * 2, dtype=int)
    wrong = set()
    for text, answer, label in zip(texts, said.tolist(), classifier.classes(texts), strict=True):
        expected[label, answer] += 1
        if label != answer:
            kept = text if classifier.needs_order else "".join(sorted(text))
            wrong.add(classifier.alphabet.canonical(kept))
    assert result.matrix() == expected.tolist()
    assert result.errors == expected.sum() - expected.trace()
    assert set(result.misclassified) == wrong
    assert len(result.misclassified) == len(wrong)


def test_what_is_no_number_is_no_answer() -> None:
    nan = np.nan
    logits = np.array([[[nan, 1, 2], [nan, nan, nan], [3, 3, nan]]], dtype=np.float32)
    assert answers(logits, 3).tolist() == [[2, 0, 0]]
    assert answers(np.array([[nan, 1.0, -1.0]], dtype=np.float32), 1).tolist() == [[0, 1, 0]]


def test_shuffled_strings_are_the_same_letters_in_another_order() -> None:
    config = ClassifierConfig(n_positions=60)
    kept, mixed = (BalancedStream(max_length=50, order=order) for order in ("sorted", "shuffled"))
    for epoch in (0, 1):
        one, other = kept.epoch_tokens(config, epoch), mixed.epoch_tokens(config, epoch)
        assert (kept.epoch(config, epoch) == mixed.epoch(config, epoch)).all()
        assert (one == np.sort(one, axis=1)).sum() < one.size  # PAD is below the letters
        assert (np.sort(one, axis=1) == np.sort(other, axis=1)).all()
        assert ((one == 1) == (other == 1)).all()
        assert (other[:, 0] == 0).all()
        assert (one != other).any(1).mean() > 0.5
        assert (other == mixed.epoch_tokens(config, epoch)).all()
    # Every order of three different letters, each about as often.
    abc = mixed.replace(max_length=3, batches=900).epoch_tokens(config, 0)[:, 1:]
    orders, times = np.unique(abc[(np.sort(abc) == [2, 3, 4]).all(1)], axis=0, return_counts=True)
    assert len(orders) == 6
    assert times.max() < 1.2 * times.min()


def test_the_option_leaves_older_keys_alone() -> None:
    assert RunConfig().key() == RunConfig.from_json(RunConfig().to_json()).key()
    assert "order" not in RunConfig().to_json()
    assert BalancedStream(order="shuffled").key() != BalancedStream().key()
    again = RunConfig.from_json(RunConfig(training=SHORT).to_json())
    assert again.training.train.order == "shuffled"


@pytest.mark.parametrize(
    ("classifier", "training", "words"),
    [
        ({"task": "before", "n_positions": 152}, {}, "order = 'shuffled'"),
        ({"task": "most_frequent", "n_outputs": 3}, {"loss": "sigmoid_scaled"}, "for one output"),
        ({"n_positions": 12}, {"test": {"max_length": 12}}, "up to 13 positions"),
    ],
)
def test_what_would_not_train(
    classifier: dict[str, object], training: dict[str, object], words: str
) -> None:
    short = {"validation": {"max_length": 9}, "test": {"max_length": 9}} | training
    with pytest.raises(ConfigError, match=words):
        RunConfig(classifier=ClassifierConfig(**classifier), training=short)


def test_without_cls_a_string_may_fill_every_position() -> None:
    options = {"reads": "last_letter", "attend_cls": True, "n_positions": 12}
    assert RunConfig(classifier=ClassifierConfig(**options), training=SHORT)


def test_from_a_file_to_a_trained_model(tmp_path: Path) -> None:
    """A task by its name in TOML; the run on disk is read back and answers like the trained one."""
    (tmp_path / "order.toml").write_text(
        'name = "order"\nseeds = "0..1"\n[classifier]\ntask = "before"\nn_positions = 8\n'
        "d_model = 8\nd_head = 4\nd_mlp = 8\nnorm = \"layer\"\nfinal_norm = true\nbiases = true\n"
        "[training]\nmax_epochs = 6\n"
        '[training.train]\nkind = "all_strings"\nlength = 6\nbatch_size = 32\n'
        '[training.validation]\nmax_length = 6\nbatches = 2\norder = "shuffled"\n'
        '[training.test]\nmax_length = 6\nbatches = 4\norder = "shuffled"\n'
    )  # fmt: skip
    experiment = Experiment.load(tmp_path / "order.toml")
    runs = tsc.train(experiment, tmp_path / "runs")
    again = tsc.train(experiment, tmp_path / "runs")
    assert [run.result for run in again] == [run.result for run in runs]
    best = min(runs, key=lambda run: run.result.test.errors)
    tested = sum(map(sum, best.result.test.matrix()))
    assert best.result.test.errors < tested / 10
    assert AllStrings(length=6).in_order is False
