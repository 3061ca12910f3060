"""The second checker: small, without dependencies, and it accepts what the package certifies."""

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

from tests.model import oracle
from tests.verification.models import VERIFIED, planted, random_checkpoint, unfailing
from tests.verification.rational import (
    KINDS,
    OTHERS,
    SCRIPT,
    check,
    claiming,
    name_of,
    rational,
    run,
)
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.rules import AtLeast, ContainsAll, Majority, Parity
from tsc_interp.verification import check as package_check

P = 192
Pair = tuple[int, int]
ALLOWED = {
    "fractions", "functools", "hashlib", "itertools", "json", "math", "re", "struct", "sys", "time",
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
    assert len(code) < 440  # without proofs and blank lines
    assert set(sys.stdlib_module_names) >= ALLOWED


def test_its_only_division_rounds_down() -> None:
    """No true division, so no floating-point number comes out of the arithmetic."""
    assert not [n for n in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(n, ast.Div)]


# -- what it accepts -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models(name: str, tmp_path: Path) -> None:
    checkpoint, path = load_checkpoint(name), tmp_path / "certificate.json"
    document = certify(checkpoint).document
    path.write_text(json.dumps(document))
    checkpoint.save(tmp_path / "model.safetensors")
    done = run(path, tmp_path / "model.safetensors")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "accepted:"
    assert f"  the horizon is {document['conclusion']['horizon']}" in lines
    assert len(lines) > len(document["claims"])
    # The file as it is shipped, of an older format version, is the same model.
    shipped = SCRIPT.parents[1] / "tsc_interp/checkpoints/bundled" / f"{name}.safetensors"
    assert rational.read_model(shipped.read_bytes())[2] == checkpoint.weight_hash()


QUICK = [c for c in KINDS if c.n_layers == 1 or not c.attend_cls] + OTHERS[1:] + VERIFIED[12:]


@pytest.mark.parametrize("config", QUICK, ids=name_of)
def test_certified_models(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 3, scale=3.0)
    document = certify(checkpoint, limit=12).document
    assert len(check(document, checkpoint)) >= len(document["claims"])


@pytest.mark.parametrize("config", [*KINDS, *OTHERS, *VERIFIED], ids=name_of)
def test_every_kind_of_model(config: ClassifierConfig) -> None:
    """All strings up to four letters, one box each, as the oracle judges them."""
    checkpoint = random_checkpoint(config, 5, scale=1.5)
    document = exhaustive(checkpoint, 4 if config.n_letters < 4 else 2)
    assert check(document, checkpoint)
    assert package_check(document, checkpoint)


def exhaustive(checkpoint: Checkpoint, length: int) -> dict[str, Any]:
    """A certificate made by brute force: nothing of the search is in it."""
    config, letters = checkpoint.config, checkpoint.config.alphabet.letters
    supports: dict[str, list[tuple[tuple[int, ...], bool]]] = {}
    for counts in product(range(length + 1), repeat=config.n_letters):
        if 0 < sum(counts) <= length:
            text = "".join(c * n for c, n in zip(letters, counts, strict=True))
            logit = oracle.logit(config, dict(checkpoint.weights), text)
            assert abs(logit) > 1e-9
            right = (logit > 0) == bool(config.task.labels(np.array(counts)))
            support = "".join(sorted(set(text)))
            supports.setdefault(support, []).append((counts, right))
    claims: list[dict[str, Any]] = []
    through = {}
    for support, found in supports.items():
        errors = sorted((sum(counts), counts) for counts, right in found if not right)
        through[support] = errors[0][0] - 1 if errors else length
        some = [[n for n in counts if n] for counts, _ in found if sum(counts) <= through[support]]
        boxes = [[n, n] for n in some]
        claims.append(
            {"kind": "right_up_to", "letters": support, "length": through[support], "boxes": boxes}
        )
        if errors:
            claims.append({"kind": "wrong", "string": config.alphabet.write(errors[0][1])})
    first = min(through.values(), default=length)
    wrong = {support for support, end in through.items() if end < length}
    every = ["".join(c for i, c in enumerate(letters) if mask >> i & 1)
             for mask in range(1, 1 << config.n_letters)]  # fmt: skip
    negative = {
        support: False if support in wrong else None
        for support in every
        if config.task.label_of_support(frozenset(support)) is False
    }
    horizon = first if first < length else None
    return claiming(
        checkpoint, *claims, horizon=horizon, finite=bool(wrong), negative_faces=negative
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"act_fn": "silu"}, "the activation 'silu'"),
        ({"act_fn": "gelu_new"}, "the activation 'gelu_new'"),
        ({"norm": "rms_pre"}, "the norm 'rms_pre'"),
        ({"norm": "layer", "final_norm": True}, "final_norm"),
        ({"n_outputs": 2}, "n_outputs"),
        ({"n_outputs": 3, "task": {"kind": "maximum"}}, "n_outputs"),
        ({"n_letters": 2, "task": {"kind": "most_frequent"}}, "the task 'most_frequent'"),
        ({"score_scale": "sqrt_d_head_log_n_cls"}, "scores scaled by"),
    ],
)
def test_what_it_does_not_know_it_names(options: dict[str, Any], reason: str) -> None:
    checkpoint = random_checkpoint(ClassifierConfig(**options), 1)
    document = certify(checkpoint, limit=3, boxes=50).document
    with pytest.raises(rational.Rejected, match=reason):
        check(document, checkpoint)


def test_float32_claims_are_not_known_to_it() -> None:
    checkpoint = planted(3, c_score=-1.0)
    document = certify(checkpoint, limit=5, float32="tokens").document
    assert package_check(document, checkpoint)
    with pytest.raises(rational.Rejected, match="float32 are not known here"):
        check(document, checkpoint)


def test_right_at_every_length() -> None:
    checkpoint = unfailing()
    document = certify(checkpoint, limit=300).document
    assert check(document, checkpoint)[-1] == "no string of any length is misclassified"
    assert {claim["kind"] for claim in document["claims"]} == {"right_up_to", "right_beyond"}


def test_the_limit_argument() -> None:
    checkpoint = planted(10**8)
    document = certify(checkpoint, limit=300).document
    assert [claim["kind"] for claim in document["claims"]].count("limit") == 1
    assert any("share a limit" in sentence for sentence in check(document, checkpoint))


# -- its bounds ----------------------------------------------------------------------------------


def model_of(checkpoint: Checkpoint) -> Any:
    return rational.Model(*rational.read_model(checkpoint.to_bytes())[:2], P, lambda: None)


def exact(x: float) -> int:
    num, den = x.as_integer_ratio()
    return (num << P) // den


@settings(max_examples=120)
@given(st.sampled_from([*KINDS, *OTHERS]), st.integers(0, 99), st.floats(0.5, 4), st.data())
def test_bounds_hold_every_string(
    config: ClassifierConfig, seed: int, scale: float, data: Any
) -> None:
    """Boxes of counts, boxes of ratios and tails, each around a string; its logit by the oracle."""
    checkpoint = random_checkpoint(config, seed, scale)
    counts = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(any))
    support, some = tuple(i for i in (0, 1) if counts[i]), [n for n in counts if n]
    logit = oracle.logit(config, dict(checkpoint.weights), "a" * counts[0] + "b" * counts[1])
    model, cls, n = model_of(checkpoint), float(config.attend_cls), sum(counts)
    low = [data.draw(st.integers(1, k)) for k in some]
    high = [data.draw(st.integers(k, 3 * k)) for k in some]
    logs = rational.log_bounds(sum(low), P)[0], rational.log_bounds(sum(high), P)[1]
    plain = (1 << P, 1 << P)
    boxes = [([cls, *low], [cls, *high], logs if config.log_n else plain, False)]
    boxes.append(
        ([cls, *some], [cls, *some], rational.log_bounds(n, P) if config.log_n else plain, False)
    )
    if config.log_n:
        start = data.draw(st.integers(1, n))
        boxes.append(
            ([cls] + [1] * len(some), [cls] + [1] * len(some), rational.log_bounds(start, P), True)
        )
    else:
        ratios = [k / max(some) for k in (cls, *some)]
        width = data.draw(st.floats(0, 1))
        boxes.append(
            (
                [max(0.0, r - width) if r < 1 else r for r in ratios],  # the largest weighs 1
                [r + width * (0 < r < 1) for r in ratios],
                plain,
                False,
            )
        )
    for light, heavy, around, tail in boxes:
        ends = [
            (exact(a), exact(b)) for a, b in zip(map(float, light), map(float, heavy), strict=True)
        ]
        least, most = model.bound(support, ends, around, tail)
        assert least / 2**P <= logit + 1e-8 * (1 + abs(logit))
        assert most / 2**P >= logit - 1e-8 * (1 + abs(logit))
        if light == heavy and not tail:
            assert most - least < 1 << (P - 60)


def ball(x: int) -> Any:
    return arb(fmpq(x, 1 << P))


sized = st.integers(0, P + 4).flatmap(lambda bits: st.integers(-(1 << bits), 1 << bits))


@pytest.mark.parametrize("norm", ["rms", "layer"])
@given(st.lists(st.tuples(sized, sized), min_size=3, max_size=3), st.data())
def test_norms_over_boxes(norm: Any, row: list[Pair], data: Any) -> None:
    """A state anywhere in its box is normalised, scaled and shifted as the definition says."""
    checkpoint = random_checkpoint(ClassifierConfig(d_model=3, norm=norm), 1)
    weights = {**checkpoint.weights, "blocks.0.ln1.w": np.float32([1.5, -2, 0.25])}
    if norm == "layer":
        weights["blocks.0.ln1.b"] = np.float32([0.5, 1, -3])
    model = model_of(Checkpoint(checkpoint.config, weights))
    box = [(a, a + abs(width)) for a, width in row]
    at = [data.draw(st.integers(*side)) for side in box]
    with ctx.workprec(1200):
        v = [ball(x) for x in at]
        mean = sum(v, arb(0)) / 3 if norm == "layer" else arb(0)
        v = [x - mean for x in v]
        root = (sum((x * x for x in v), arb(0)) / 3 + arb(1e-5)).sqrt()
        bounds = model.read("blocks.0.ln1", [*box, (0, 0)])
        for i, (x, (low, high)) in enumerate(zip(v, bounds, strict=True)):
            truth = x / root * arb(float(weights["blocks.0.ln1.w"][i]))
            truth += arb(float(weights["blocks.0.ln1.b"][i])) if norm == "layer" else 0
            assert not ball(low) > truth
            assert not ball(high) < truth


@given(st.integers(1, 5), st.integers(0, 99))
def test_scores_are_divided_by_the_root_of_the_head_size(d_head: int, seed: int) -> None:
    """Large scores, so that a unit in the divisor would show; against `arb`."""
    checkpoint = random_checkpoint(ClassifierConfig(d_head=d_head), seed, scale=1e6)
    weights, model = checkpoint.weights, model_of(checkpoint)
    block, heads = model.layers[0][:2]
    embedding = weights["embed.W_E"].tolist()
    for head, (scores, _) in enumerate(model.tables(block, heads, model.embed, 1)):
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
    Majority(letter="a"), Parity(letter="c"), Parity(letter="a", odd=False),
]  # fmt: skip


@settings(max_examples=200)
@given(st.sampled_from(TASKS), st.sampled_from(["a", "b", "c", "ab", "bc", "abc"]), st.data())
def test_labels_of_boxes(task: Any, letters: str, data: Any) -> None:
    """Against the package's label of every single count vector."""
    low = [data.draw(st.integers(1, 4)) for _ in letters]
    high = [a + data.draw(st.integers(0, 3)) for a in low]
    labels = set()
    for counts in product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))):
        full = [dict(zip(letters, counts, strict=True)).get(letter, 0) for letter in "abc"]
        labels.add(bool(task.labels(np.array(full))))
    expected = labels.pop() if len(labels) == 1 else None
    assert rational.box_label(task.model_dump(), letters, low, high) is expected
