"""Every field of a configuration: engines, verifiers and exports get it right or refuse it.

A field that is silently ignored gives wrong numbers, so each consumer is held against the plain
NumPy oracle, which knows all of them. A new field fails here until it has an example.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model import oracle
from tests.verification.ordered_models import ordered_checkpoint
from tests.verification.rational import Rejected
from tests.verification.rational import check as second_check
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.checkpoints.checkpoint import read_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_tokens, token_rows
from tsc_interp.pruning.smaller import narrow
from tsc_interp.tasks.counts import AtLeast
from tsc_interp.training.engine import engine_for
from tsc_interp.training.losses import loss_named
from tsc_interp.verification import verify_ordered
from tsc_interp.verification.float32 import float32_answers
from tsc_interp.verification.order.running import judge_of

BASE = ClassifierConfig(n_letters=2, d_mlp=2)
ORDER = {"reads": "last_letter", "attend_cls": True, "n_positions": 4}

# An example of each field at work, and a word by which a refusal names it.
FIELDS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "n_letters": [({"n_letters": 3}, "letters")],
    "task": [({"task": AtLeast(letter="b", k=2)}, "task")],
    "n_layers": [({"n_layers": 2}, "layer")],
    "d_model": [({"d_model": 3}, "d_model")],
    "n_heads": [({"n_heads": 3}, "heads"), ({"n_heads": 0}, "attention")],
    "d_head": [({"d_head": 2}, "d_head")],
    "d_mlp": [({"d_mlp": 3}, "MLP"), ({"d_mlp": 0}, "MLP")],
    "norm": [({"norm": n, "d_model": 3}, "norm") for n in ("rms", "layer", "rms_pre", "layer_pre")],
    "norm_eps": [({"norm": "rms", "norm_eps": 0.3, "d_mlp": 0}, "norm")],
    "dropout": [({"dropout": 0.5}, "dropout")],
    "attend_cls": [({"attend_cls": True}, "CLS")],
    "n_positions": [({"n_positions": 4}, "positions")],
    "score_scale": [
        ({"score_scale": f"sqrt_d_head_{kind}"}, "log n")
        for kind in ("log_n", "log_n_cls", "ssmax")
    ],
    "embedding_init": [({"embedding_init": "linear_like"}, "init")],
    "attention_init": [({"attention_init": "output_fan_out"}, "init")],
    "mlp_init": [({"mlp_init": "output_fan_out"}, "init")],
    "biases": [({"biases": True}, "biases")],
    "act_fn": [({"act_fn": act}, "activation") for act in ("relu", "silu", "gelu_new")],
    "final_norm": [({"norm": "rms", "final_norm": True, "d_model": 3, "d_mlp": 0}, "norm")],
    "n_outputs": [({"n_outputs": 2}, "outputs"), ({"n_outputs": 3}, "outputs")],
    "reads": [
        ({"reads": "last", "attend_cls": True}, "causal"),
        ({"reads": "last_letter", "attend_cls": True}, "causal|order"),
    ],
    "positions": [
        ({"n_positions": 4, "positions": "sinusoidal"}, "positions"),
        ({"n_positions": 4, "positions": "shortformer"}, "positions"),
        ({"n_positions": 4, "positions": "rotary", "d_head": 2}, "positions|pairs"),
        ({**ORDER, "positions": "alibi"}, "positions"),
    ],
    "token_names": [({"token_names": ("left", "right")}, "names")],
    "adaptive_temperature": [
        ({"adaptive_temperature": True, "attend_cls": True, "n_letters": 3}, "temperature")
    ],
    "attention_norm": [({"attention_norm": "rms"}, "norm")],
    "rotary_dim": [
        ({**ORDER, "positions": "rotary", "d_head": 4, "rotary_dim": 2}, "positions|pairs")
    ],
    "rotary_base": [
        ({**ORDER, "positions": "rotary", "d_head": 4, "rotary_base": 2.5}, "positions|rotary_base")
    ],
    "rotary_adjacent_pairs": [
        ({**ORDER, "positions": "rotary", "d_head": 4, "rotary_adjacent_pairs": True}, "positions")
    ],
    "n_key_value_heads": [({"n_key_value_heads": 1}, "share keys and values")],
    "qk_norm": [({"qk_norm": kind, "d_head": 2}, "norm") for kind in ("rms", "rms_pre")],
    "attention_scale": [({"attention_scale": 0.4}, "scale|divided")],
    "gated_mlp": [({"gated_mlp": True, "act_fn": "silu"}, "gated")],
    "tied_embeddings": [({"tied_embeddings": True, "n_outputs": 2}, "tied")],
}
CASES = [
    pytest.param(BASE.replace(**options), words, id=f"{field}-{index}")
    for field, examples in FIELDS.items()
    for index, (options, words) in enumerate(examples)
]
every_case = pytest.mark.parametrize(("config", "words"), CASES)
LENGTH = 3


def test_every_field_has_an_example() -> None:
    assert FIELDS.keys() == ClassifierConfig.model_fields.keys()
    for field, examples in FIELDS.items():
        for options, _ in examples:
            assert getattr(BASE.replace(**options), field) != getattr(BASE, field)


def strings(config: ClassifierConfig, length: int) -> list[str]:
    return ["".join(row) for row in product(config.alphabet.letters, repeat=length)]


def outputs(checkpoint: Checkpoint, texts: list[str]) -> np.ndarray:
    weights = dict(checkpoint.weights)
    return np.array([oracle.logits(checkpoint.config, weights, text) for text in texts])


def wrong(checkpoint: Checkpoint, length: int) -> int:
    texts = strings(checkpoint.config, length)
    said = outputs(checkpoint, texts)
    answers = said[:, 0] > 0 if said.shape[1] == 1 else said.argmax(-1)
    return int((answers != checkpoint.config.classes(texts)).sum())


def handled(words: str, use: Callable[[], Any]) -> Any:
    """What it gives, or None where it refuses and says what it refuses."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return use()
        except (TscError, Rejected) as error:
            if any(word in str(error) for word in words.split("|")):
                return None
            raise


@every_case
def test_the_oracle_sees_the_field(config: ClassifierConfig, words: str) -> None:
    """So that a consumer that ignores it cannot agree with the oracle by accident."""
    inert = {"task", "dropout", "token_names", "embedding_init", "attention_init", "mlp_init"}
    shapes = config.weight_shapes()
    for field in ClassifierConfig.model_fields:
        value = getattr(BASE, field)
        if field in inert or getattr(config, field) == value:
            continue
        if field == "reads" and not config.needs_order:
            continue  # one layer read at a token of its own: both ways, or causal from the end
        try:
            without_it = config.replace(**{field: value})
        except TscError:
            continue  # needed by another option
        if without_it.weight_shapes() == shapes:
            checkpoint = ordered_checkpoint(config, 1)
            other = Checkpoint(without_it, checkpoint.weights)
            texts = strings(config, LENGTH)
            assert not np.allclose(outputs(checkpoint, texts), outputs(other, texts)), field


@every_case
def test_training_and_forward_pass(config: ClassifierConfig, words: str) -> None:
    """Both engines and the token form; a checkpoint comes back from its file as it was."""
    checkpoint = ordered_checkpoint(config, 1)
    texts = strings(config, LENGTH)
    expected = outputs(checkpoint, texts)
    weights = {n: torch.from_numpy(w).double() for n, w in checkpoint.weights.items()}
    rows = torch.from_numpy(token_rows(config, texts))
    found = forward(config, weights, from_tokens(config, rows)).numpy().reshape(expected.shape)
    assert found == pytest.approx(expected, abs=1e-5, rel=1e-5)  # tables are float32
    engine = engine_for(config, loss_named("cross_entropy", config.n_outputs))
    given = engine.prepare(
        config.alphabet.tokens(texts) if engine.uses_tokens else config.alphabet.count_matrix(texts)
    )
    said = engine.logits(engine.pack([checkpoint.weights]), given).reshape(expected.shape)
    assert said == pytest.approx(expected, abs=1e-3, rel=1e-3)  # float32


@every_case
def test_files(config: ClassifierConfig, words: str, tmp_path: Any) -> None:
    checkpoint = ordered_checkpoint(config, 1)
    checkpoint.save(tmp_path / "one.safetensors")
    again = read_checkpoint(tmp_path / "one.safetensors")
    assert again.config == config
    assert again.weight_hash() == checkpoint.weight_hash()


@every_case
def test_verification_of_counts(config: ClassifierConfig, words: str) -> None:
    checkpoint = ordered_checkpoint(config, 1)
    words = f"{words}|order of letters"
    verdict = handled(words, lambda: tsc.verify(checkpoint, LENGTH))
    if config.needs_order:  # decided over trellises, which other tests hold
        return
    if verdict is not None:
        assert not verdict.tally.undecided.total_vectors
        for length in range(1, LENGTH + 1):
            told = sum(kind.strings[length] for kind in verdict.tally.errors)
            assert told == wrong(checkpoint, length)
    assert (verdict is None) == bool(config.needs_order or config.beyond_counts)
    certificate = handled(words, lambda: tsc.certify(checkpoint, limit=2))
    assert (certificate is None) == (verdict is None)
    if certificate is not None:
        first = next((n for n in (1, 2) if wrong(checkpoint, n)), None)
        assert first is None or certificate.checked.horizon == first - 1
        assert tsc.check(certificate.document, checkpoint) == certificate.checked
        second = handled(
            f"{words}|not known|several|options",
            lambda: second_check(certificate.document, checkpoint),
        )
        known = {"biases", "act_fn", "reads", "token_names", "n_outputs"}
        written = set(config.to_dict()) - {*BASE.to_dict(), *known}
        assert second is None or not written


@every_case
def test_verification_of_order(config: ClassifierConfig, words: str) -> None:
    """One layer; counts and certificates, where the option is known to the bounds."""
    checkpoint = ordered_checkpoint(config, 1)
    if config.n_layers == 1 and not config.beyond_verification:
        texts, judge = strings(config, LENGTH), judge_of(checkpoint)
        expected = outputs(checkpoint, texts)
        expected = (
            np.concatenate([expected * 0, expected], 1) if expected.shape[1] < 2 else expected
        )
        for text, row in zip(texts, expected, strict=True):
            gaps = np.sort(row)
            if gaps[-1] - gaps[-2] > 1e-5 * (1 + np.abs(row).max()):
                string = [config.alphabet.letters.index(c) for c in text]
                assert judge.answer_to_string(string) == row.argmax()
    verdict = handled(
        words, lambda: verify_ordered(checkpoint, LENGTH, min_length=LENGTH, certify=True)
    )
    refused = config.n_layers > 1 or config.beyond_verification
    assert (verdict is None) == bool(refused)
    if verdict is not None:
        assert (verdict.lengths[-1].wrong, verdict.lengths[-1].undecided) == (
            wrong(checkpoint, LENGTH),
            0,
        )
        assert verdict.certificate.checked.parts[-1].wrong == wrong(checkpoint, LENGTH)


@every_case
def test_the_bound_on_float32(config: ClassifierConfig, words: str) -> None:
    """What float32 says is within the bound of what the oracle says."""
    checkpoint = ordered_checkpoint(config, 1, scale=1.0)
    allowed = f"{words}|one layer|norms|with positions"
    texts = strings(config, LENGTH)
    answers = handled(allowed, lambda: float32_answers(checkpoint, texts))
    refused = config.n_layers > 1 or config.has_norm or config.needs_order or config.beyond_counts
    assert (answers is None) == bool(refused)
    if answers is None:
        return
    single = {n: torch.from_numpy(w) for n, w in checkpoint.weights.items()}
    rows = torch.from_numpy(token_rows(config, texts))
    double = {n: w.double() for n, w in single.items()}
    found, exact = (
        forward(config, weights, from_tokens(config, rows)).double().numpy().reshape(len(texts), -1)
        for weights in (single, double)
    )
    for answer, row, truth in zip(answers, found, exact, strict=True):
        off = np.abs(
            (row - row[[answer.label % len(row)]]) - (truth - truth[[answer.label % len(row)]])
        )
        off = off if len(row) > 1 else np.abs(row - truth)
        assert off.max() <= answer.bound < 1e-3


@every_case
def test_export(config: ClassifierConfig, words: str) -> None:
    checkpoint = ordered_checkpoint(config, 1)
    model = tsc.load(checkpoint)
    limits = "it turns|it rounds|it builds|it refuses"
    exported = handled(f"{words}|{limits}", lambda: model.to_transformer_lens())
    if exported is None:
        return
    texts = strings(config, LENGTH)
    with torch.no_grad():
        out = exported(model.tokens(texts))[:, 0 if config.reads == "first" else -1].numpy()
    out = out[:, 1:] - out[:, :1] if config.n_outputs == 1 else out
    assert out == pytest.approx(outputs(checkpoint, texts), abs=1e-3, rel=1e-3)


@every_case
def test_what_knows_the_reports_own_models_only(config: ClassifierConfig, words: str) -> None:
    """A narrower residual is refused for whatever else there is; constants need biases there."""
    checkpoint = ordered_checkpoint(config, 1)
    own = not (config.beyond_report or config.has_positions)
    part = "neuron0" if config.has_mlp else "head0"
    narrower = handled(words, lambda: narrow(checkpoint))
    assert own or narrower is None
    constant = handled(words, lambda: tsc.edit(checkpoint, f"{part}=mean(ab)"))
    assert own or config.biases or constant is None
    assert tsc.edit(checkpoint, f"{part}=zero").config == config
    for name in set(config.to_dict()) & ClassifierConfig.added - {"token_names"}:
        assert config.beyond_report, name


def test_nothing_refused_is_called_supported() -> None:
    """The words of a refusal are those of the configuration."""
    gated = BASE.replace(gated_mlp=True)
    assert gated.beyond_counts == ("a gated MLP",)
    with pytest.raises(UnsupportedError, match="a gated MLP"):
        tsc.horizon(ordered_checkpoint(gated, 1))
