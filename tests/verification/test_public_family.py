"""The options public models have, over the reals: exact against float, search against 256 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import ctx

import tsc_interp as tsc
from tests.cases import PUBLIC
from tests.verification import precise_ordered
from tests.verification.enumeration import verify_both_ways
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_task,
    wide_config,
    with_task,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import forward
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.inputs import from_strings
from tsc_interp.trusted.forward import Forward
from tsc_interp.trusted.spec import read_model
from tsc_interp.verification import verify_ordered


def fresh(config: ClassifierConfig, seed: int = 3) -> Checkpoint:
    return Checkpoint(config, {n: w.numpy() for n, w in initial_weights(config, seed).items()})


def outputs(checkpoint: Checkpoint, text: str, dtype: torch.dtype) -> np.ndarray:
    weights = {n: torch.from_numpy(w.copy()).to(dtype) for n, w in checkpoint.weights.items()}
    found = forward(checkpoint.config, weights, from_strings(checkpoint.config, [text]))
    found = found.reshape(-1).double()
    return (found if len(found) > 1 else torch.cat([found * 0, found])).numpy()


@pytest.mark.parametrize("seed", range(60))
def test_exact_evaluation_is_the_forward_pass(seed: int) -> None:
    """Differences of outputs: float64 to 1e-12 of their size, float32 to 1e-5."""
    config = wide_config(seed)
    checkpoint = ordered_checkpoint(config, seed, scale=1.0)
    exact, rng = Forward(read_model(checkpoint.to_bytes())), np.random.default_rng(seed)
    length = min(4, (config.n_positions or 9) - int(config.has_cls))
    for _ in range(2):
        string = rng.integers(0, config.n_letters, length).tolist()
        text = "".join(config.alphabet.letters[i] for i in string)
        first, reader = int(config.reads == "first"), exact.reader(length, string[-1])
        letters = [(2 + letter, place + first) for place, letter in enumerate(string)]
        keys = exact.keys(letters, reader)
        with ctx.workprec(200):
            made = np.array([float(x) for x in exact.outputs(keys, [1] * len(keys), reader)])
        found = made[0] - made
        precise = np.array([float(x) for x in precise_ordered.outputs_of(checkpoint, string)])
        precise = precise if len(precise) > 1 else np.array([0.0, precise[0]])
        size = 1 + np.abs(precise).max()
        assert found == pytest.approx(precise[0] - precise, abs=1e-14 * size, rel=1e-14)
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            said = outputs(checkpoint, text, dtype)
            assert said[0] - said == pytest.approx(found, abs=tolerance * size)


@pytest.mark.parametrize("seed", range(24))
def test_wrong_strings_are_counted_and_certified(seed: int) -> None:
    """Every string of one length, against 256 bits; the certificate is accepted and says it."""
    config = wide_config(seed, gated=False)
    task = random_task(config, seed) if config.needs_order else config.task
    checkpoint = with_task(ordered_checkpoint(config, seed), task)
    length = longest(config, 30)
    wrong = precise_ordered.wrong_strings(checkpoint, task, length)
    if wrong is None:
        pytest.skip("a string too close to a tie for 256 bits")
    verdict = verify_ordered(checkpoint, length, certify=True)
    found = verdict.lengths[-1]
    assert (found.wrong, found.undecided) == (len(wrong), 0)
    proved = tsc.check(verdict.certificate.document, checkpoint)
    assert proved.parts[-1].wrong == len(wrong)
    assert proved.parts[-1].right == config.n_letters**length - len(wrong)


@pytest.mark.parametrize("config", PUBLIC, ids=lambda config: config.key()[:6])
def test_nothing_changes_when_it_is_written_out(config: ClassifierConfig) -> None:
    checkpoint = fresh(config)
    plain = checkpoint.expanded()
    assert not plain.config.grouped
    assert not plain.config.tied_embeddings
    assert (plain is checkpoint) == (not (config.grouped or config.tied_embeddings))
    for text in ("a", "cab", "bbac"):
        inputs = from_strings(config, [text])
        found = [
            forward(
                one.config,
                {n: torch.from_numpy(w).double() for n, w in one.weights.items()},
                inputs,
            )
            for one in (checkpoint, plain)
        ]
        assert torch.allclose(*found, atol=1e-14, rtol=0)


COUNTED = [
    ClassifierConfig(n_heads=4, n_key_value_heads=2, d_head=2, biases=True, d_model=3),
    ClassifierConfig(n_heads=2, n_key_value_heads=1, n_layers=2, d_model=2, d_mlp=0),
    ClassifierConfig(attention_scale=0.4, d_head=2, norm="rms", d_model=3, d_mlp=0),
    ClassifierConfig(
        tied_embeddings=True, n_outputs=3, d_model=3, task=tsc.tasks.Maximum(), attention_scale=0.5
    ),
]


@pytest.mark.parametrize("config", COUNTED, ids=lambda config: config.key()[:6])
def test_counts_are_verified_where_weights_are_shared(config: ClassifierConfig) -> None:
    """Counts as brute force has them; the certificate is about the weights that are shared."""
    shared = ordered_checkpoint(config, 1)
    plain = shared.expanded()
    assert shared.weight_hash() != plain.weight_hash() or shared is plain
    found = tsc.certify(shared, limit=4)
    assert found.checked == tsc.check(found.document, shared)
    assert found.horizon.length == tsc.horizon(plain, limit=4).length
    told = verify_both_ways(shared, 4).tally
    assert not told.undecided.total_vectors
    weights = {n: torch.from_numpy(w).double() for n, w in shared.weights.items()}
    wrong = [0]
    for length in range(1, 5):
        rows = list(np.ndindex(*[3] * length))
        texts = ["".join("abc"[i] for i in row) for row in rows]
        said = forward(config, weights, from_strings(config, texts))
        said = (said > 0).long() if said.ndim == 1 else said.argmax(-1)
        wrong.append(int((said.numpy() != config.classes(texts)).sum()))
    assert [sum(kind.strings[n] for kind in told.errors) for n in range(5)] == wrong


def test_what_counts_are_not_verified_for_is_named() -> None:
    for options, words in (
        ({"gated_mlp": True}, "a gated MLP"),
        ({"qk_norm": "rms"}, "a norm of queries and keys"),
        ({"n_positions": 8, "positions": "rotary", "d_head": 2}, "positions"),
    ):
        checkpoint = fresh(ClassifierConfig(**options))
        calls = [tsc.horizon, tsc.certify, lambda model: tsc.verify(model, 3)]
        for call in calls[:1] if checkpoint.config.has_positions else calls:
            with pytest.raises(tsc.TscError, match=words):
                call(checkpoint)
