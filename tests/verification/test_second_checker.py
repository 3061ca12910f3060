"""The second checker: small, without dependencies, and it accepts what the package proves."""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

import tsc_interp as tsc
from tests.model import oracle
from tests.trusted.asking import Asked
from tests.trusted.paths import strings
from tests.verification.models import VERIFIED, planted, random_checkpoint, unfailing
from tests.verification.ordered_models import (
    copying,
    longest,
    ordered_checkpoint,
    random_config,
    with_task,
)
from tests.verification.rational import KINDS, OTHERS, SCRIPT, check, name_of, rational, run
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.trusted.replay import Replay, sealed
from tsc_interp.verification.documents import model_of, rule_of

P = 192
ALLOWED = {
    "base64", "fractions", "functools", "hashlib", "itertools", "json", "math", "random", "struct",
    "sys", "time", "zlib",
}  # fmt: skip


# -- what it is ----------------------------------------------------------------------------------


def test_it_is_small_and_imports_only_the_standard_library() -> None:
    text = SCRIPT.read_text()
    code: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped | {tokenize.ENDMARKER}:
            code |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom):
            assert node.module in ALLOWED
        elif isinstance(node, ast.Name):
            assert node.id not in ("eval", "exec", "__import__", "round")
        elif isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = node.body[0]
            if ast.get_docstring(node):
                code -= set(range(first.lineno, (first.end_lineno or 0) + 1))
    assert len(code) < 895  # without proofs and blank lines
    assert set(sys.stdlib_module_names) >= ALLOWED


def test_its_only_division_rounds_down() -> None:
    """No true division, so no floating-point number comes out of the arithmetic."""
    assert not [n for n in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(n, ast.Div)]


# -- what it accepts -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models(name: str, tmp_path: Path) -> None:
    checkpoint, path = load_checkpoint(name), tmp_path / "proof.json"
    document = certify(checkpoint).document
    path.write_text(json.dumps(document))
    checkpoint.save(tmp_path / "model.safetensors")
    done = run(path, tmp_path / "model.safetensors")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "accepted:"
    assert f"  the horizon is {document['conclusion']['horizon']}" in lines
    assert len(lines) > len(document["parts"])
    # The file as it is shipped, of an older format version, is the same model.
    shipped = SCRIPT.parents[1] / "tsc_interp/checkpoints/bundled" / f"{name}.safetensors"
    assert rational.read_model(shipped.read_bytes())[2] == checkpoint.weight_hash()


QUICK = [c for c in [*KINDS, *OTHERS, *VERIFIED[12:]] if c.n_layers == 1]


@pytest.mark.parametrize("config", QUICK, ids=name_of)
def test_certified_models(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 3, scale=3.0)
    document = certify(checkpoint, limit=12).document
    assert len(check(document, checkpoint)) > len(document["parts"])


@pytest.mark.parametrize("config", [*KINDS, *OTHERS], ids=name_of)
def test_every_kind_of_model(config: ClassifierConfig) -> None:
    """All strings of up to three letters, each by itself: nothing of the search is in it."""
    checkpoint = random_checkpoint(config, 5, scale=1.5)
    replay = Replay([model_of(checkpoint)], rule := {"counts": rule_of(config)}, None)
    singles = []
    for counts in product(range(4), repeat=config.n_letters):
        if 0 < sum(counts) < 4:
            some = tuple(i for i, n in enumerate(counts) if n)
            answer = replay.judges[0].answer_to_counts(some, [n for n in counts if n])
            if answer != int(config.task.classes(np.array(counts))):
                singles.append({"counts": list(counts), "tree": [["is", answer]]})
            else:
                each = {"letters": list(some), "up_to": 1, "tree": [["each"]]}
                singles += [each] if sum(counts) == 1 else []
    conclusion = replay.run(singles)
    document = sealed([model_of(checkpoint)], rule, None, singles, conclusion)
    assert len(check(document, checkpoint)) > len(singles) > 0


def test_two_models() -> None:
    """Where they answer alike, and apart; one of them attends to CLS."""
    names = "walkthrough", "attend-cls"
    document = tsc.diff(*names, limit=40).document
    assert document["schema"] == "tsc-interp/proof/1"
    assert check(document, *map(load_checkpoint, names))
    with pytest.raises(rational.Rejected, match="other models"):
        check(document, *map(load_checkpoint, reversed(names)))


def test_right_at_every_length() -> None:
    checkpoint = unfailing()
    document = certify(checkpoint, limit=300).document
    assert check(document, checkpoint)[-1] == "every answer is right at every length"
    assert {"from", "up_to"} <= {key for part in document["parts"] for key in part}


def test_the_limit_argument() -> None:
    checkpoint = planted(10**8)
    document = certify(checkpoint, limit=300).document
    assert document["conclusion"]["finite"]
    assert any("in the limit of" in sentence for sentence in check(document, checkpoint))


KNOWN = [
    seed for seed in range(260)
    if (config := random_config(seed)).norm == "off"
    and config.act_fn in ("gelu", "relu") and config.positions == "learned"
]  # fmt: skip


@pytest.mark.parametrize("seed", KNOWN)
def test_tables_of_random_models(seed: int) -> None:
    """With positions or not, read anywhere, with several outputs and heads."""
    config = random_config(seed)
    checkpoint = ordered_checkpoint(config, seed)
    document = Asked(checkpoint).document([min(3, longest(config, 200))])
    stated = document["conclusion"]["tables"][0]
    known = f"{stated['right']} right, {stated['wrong']} wrong"
    assert known in check(document, checkpoint)[-1]


def test_of_a_large_document_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not looked at is said; what was drawn is told by its seed."""
    checkpoint = with_task(copying(4), Maximum())
    document = Asked(checkpoint).document([5])
    assert "5: 1,024 inputs, all strings; 1,024 right" in check(document, checkpoint)[-1]
    monkeypatch.setattr(rational, "LEAVES", 20)
    first, *rest = check(document, checkpoint, seed=3)
    assert "hold, drawn with seed 3; the others are not checked" in first
    assert 5 < int(first.split()[0]) < 60
    assert all(line.startswith("stated: ") for line in rest)
    assert check(document, checkpoint, seed=3)[0] == first != check(document, checkpoint, seed=4)[0]


def test_a_step_of_a_model_that_writes_is_audited_as_a_table() -> None:
    """Norms are not known to it, tables with fixed letters and several letters per stage are."""
    from tests.trusted.test_tables import adder

    asked = Asked(adder())
    table = asked.language([1])["tables"][0]
    read, trellis = rational.Table(table, 5, 5), asked.trellis(1)
    assert read.inputs == sum(1 for _ in _strings(trellis))
    for labels in ([label] for label in trellis.labels):
        stages, told = read.of_labels({*labels})
        merged = trellis.of_labels(labels)
        assert told == merged.label.tolist()
        for stage, expected in zip(stages, merged.stages, strict=True):
            rows = zip(expected.source.tolist(), expected.target.tolist(),
                       map(tuple, expected.letters.tolist()), strict=True)  # fmt: skip
            assert stage == list(rows)


def _strings(trellis: Any) -> Any:
    from tsc_interp.trusted.sets import Sets

    return strings(Sets.whole(trellis), 0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"act_fn": "silu"}, "the activation 'silu'"),
        ({"act_fn": "gelu_new"}, "the activation 'gelu_new'"),
        ({"norm": "rms_pre"}, "the norm 'rms_pre'"),
        ({"norm": "layer"}, "the norm 'layer'"),
        ({"norm": "layer", "final_norm": True}, "final_norm"),
        ({"score_scale": "sqrt_d_head_log_n_cls"}, "scores scaled by"),
    ],
)
def test_what_it_does_not_know_it_names(options: dict[str, Any], reason: str) -> None:
    checkpoint = random_checkpoint(ClassifierConfig(**options), 1)
    document = certify(checkpoint, limit=3, boxes=50).document
    with pytest.raises(rational.Rejected, match=reason):
        check(document, checkpoint)


def test_what_is_said_of_float32_is_not_counted() -> None:
    checkpoint = planted(3, c_score=-1.0)
    document = certify(checkpoint, limit=5, float32="tokens").document
    assert check(document, checkpoint)[-1] == "nothing it says of float32 is checked"


# -- its bounds ----------------------------------------------------------------------------------


def model_of_bytes(checkpoint: Checkpoint) -> Any:
    return rational.Model(*rational.read_model(checkpoint.to_bytes())[:2], P, lambda: None)


def exact(x: float) -> int:
    num, den = x.as_integer_ratio()
    return (num << P) // den


BINARY = [config for config in [*KINDS, *OTHERS] if config.n_outputs == 1]


@settings(max_examples=120)
@given(st.sampled_from(BINARY), st.integers(0, 99), st.floats(0.5, 4), st.data())
def test_bounds_hold_every_string(
    config: ClassifierConfig, seed: int, scale: float, data: Any
) -> None:
    """Boxes of counts, boxes of ratios and tails, each around a string; its logit by the oracle."""
    checkpoint = random_checkpoint(config, seed, scale)
    counts = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(any))
    support, some = tuple(i for i in (0, 1) if counts[i]), [n for n in counts if n]
    logit = oracle.logit(config, dict(checkpoint.weights), "a" * counts[0] + "b" * counts[1])
    model, cls, n = model_of_bytes(checkpoint), float(config.attend_cls), sum(counts)
    low = [data.draw(st.integers(1, k)) for k in some]
    high = [data.draw(st.integers(k, 3 * k)) for k in some]
    logs = rational.log_bounds(sum(low), P)[0], rational.log_bounds(sum(high), P)[1]
    own = rational.log_bounds(n, P)
    boxes: list[Any] = [([cls, *low], [cls, *high], logs, False)]
    boxes.append(([cls, *some], [cls, *some], own, False))
    if config.log_n:
        ones = [cls] + [1] * len(some)
        start = data.draw(st.integers(1, n))
        boxes.append((ones, ones, rational.log_bounds(start, P), True))
    else:
        ratios = [k / max(some) for k in (cls, *some)]
        width = data.draw(st.floats(0, 1))
        light = [max(0.0, r - width) if r < 1 else r for r in ratios]  # the largest weighs 1
        boxes.append((light, [r + width * (0 < r < 1) for r in ratios], own, False))
    spots = tuple((token, 0) for token in (0, *(2 + i for i in support)))
    for light, heavy, around, tail in boxes:
        pairs = zip(map(float, light), map(float, heavy), strict=True)
        ends = [(exact(a), exact(b)) for a, b in pairs]
        region = rational.Box(range(len(ends)), ends, around if config.log_n else None, tail)
        (least,), (less,) = (list(model.lows(spots, region, j, [1 - j])) for j in (1, 0))
        assert least / 2**P <= logit + 1e-8 * (1 + abs(logit))
        assert -less / 2**P >= logit - 1e-8 * (1 + abs(logit))
        if light == heavy and not tail:
            assert -less - least < 1 << (P - 40)


def ball(x: int) -> Any:
    return arb(fmpq(x, 1 << P))


@given(st.integers(1, 5), st.integers(0, 99))
def test_scores_are_divided_by_the_root_of_the_head_size(d_head: int, seed: int) -> None:
    """Large scores, so that a unit in the divisor would show; against `arb`."""
    checkpoint = random_checkpoint(ClassifierConfig(d_head=d_head), seed, scale=1e6)
    weights, model = checkpoint.weights, model_of_bytes(checkpoint)
    heads = model.layers[0][0]
    embedding = weights["embed.W_E"].tolist()
    for head, (scores, _) in enumerate(model.tables(heads, model.embed, 1)):
        q, k = (weights[f"blocks.0.attn.W_{part}"][head].tolist() for part in "QK")
        with ctx.workprec(1200):
            for token, (low, high) in enumerate(scores[0]):
                truth = arb(0)
                for d in range(d_head):
                    asked = sum((arb(x) * q[i][d] for i, x in enumerate(embedding[0])), arb(0))
                    key = sum((arb(x) * k[i][d] for i, x in enumerate(embedding[token])), arb(0))
                    truth += asked * key
                truth /= arb(d_head).sqrt()
                assert not ball(low) > truth
                assert not ball(high) < truth
                assert high - low < 1 << 120


TASKS = [
    ContainsAll(letters="ac"), AtLeast(letter="b", k=1), AtLeast(letter="b", k=3),
    Majority(letter="a"), Parity(letter="c"), Parity(letter="a", odd=False), Maximum(),
    MostFrequent(),
]  # fmt: skip


@settings(max_examples=300)
@given(st.sampled_from(TASKS), st.sampled_from(["a", "b", "c", "ab", "bc", "abc"]), st.data())
def test_labels_of_boxes(task: Any, letters: str, data: Any) -> None:
    """Against the package's label of every single count vector, and against a listed rule."""
    low = tuple(data.draw(st.integers(1, 4)) for _ in letters)
    high = tuple(a + data.draw(st.integers(0, 3)) for a in low)
    config = ClassifierConfig(task=task, n_outputs=3 if task.kind[0] == "m" else 1)
    support = tuple("abc".index(letter) for letter in letters)
    labels, inputs = set(), []
    for counts in product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))):
        full = [dict(zip(letters, counts, strict=True)).get(letter, 0) for letter in "abc"]
        labels.add(int(task.classes(np.array(full))))
        inputs.append([full, int(task.classes(np.array(full)))])
    rule = rational.Rule(rule_of(config), 3)
    found = rule.label(support, low, high)
    assert found == (labels.pop() if len(labels) == 1 else None)
    assert rule.shared(support) in (None, found)
    listed = rational.Rule({"rule": "listed", "supports": [], "inputs": inputs}, 3)
    assert listed.label(support, low, low) == inputs[0][1]
    assert listed.label(support, low, tuple(b + 9 for b in high)) is None
