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
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.rational import KINDS, OTHERS, SCRIPT, check, claiming, name_of, rational, run
from tests.verification_models import VERIFIED, planted, random_checkpoint, unfailing
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.verification import check as package_check

P = 192
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
    assert len(code) < 400  # without proofs and blank lines
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
    faces: dict[str, list[tuple[tuple[int, ...], bool]]] = {}
    for counts in product(range(length + 1), repeat=config.n_letters):
        if 0 < sum(counts) <= length:
            text = "".join(c * n for c, n in zip(letters, counts, strict=True))
            logit = oracle.logit(config, dict(checkpoint.weights), text)
            assert abs(logit) > 1e-9
            right = (logit > 0) == bool(config.task.labels(np.array(counts)))
            face = "".join(sorted(set(text)))
            faces.setdefault(face, []).append((counts, right))
    claims: list[dict[str, Any]] = []
    through = {}
    for face, found in faces.items():
        errors = sorted((sum(counts), counts) for counts, right in found if not right)
        through[face] = errors[0][0] - 1 if errors else length
        some = [[n for n in counts if n] for counts, _ in found if sum(counts) <= through[face]]
        boxes = [[n, n] for n in some]
        claims.append(
            {"kind": "right_up_to", "letters": face, "length": through[face], "boxes": boxes}
        )
        if errors:
            claims.append({"kind": "wrong", "string": config.alphabet.write(errors[0][1])})
    first = min(through.values(), default=length)
    wrong = {face for face, end in through.items() if end < length}
    every = ["".join(c for i, c in enumerate(letters) if mask >> i & 1)
             for mask in range(1, 1 << config.n_letters)]  # fmt: skip
    negative = {
        face: False if face in wrong else None
        for face in every
        if config.task.label_of_support(frozenset(face)) is False
    }
    horizon = first if first < length else None
    return claiming(
        checkpoint, *claims, horizon=horizon, finite=bool(wrong), negative_faces=negative
    )


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
    face, some = tuple(i for i in (0, 1) if counts[i]), [n for n in counts if n]
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
                [max(0.0, r - width) for r in ratios],
                [r + width * (r > 0) for r in ratios],
                plain,
                False,
            )
        )
    for light, heavy, around, tail in boxes:
        ends = [
            (exact(a), exact(b)) for a, b in zip(map(float, light), map(float, heavy), strict=True)
        ]
        least, most = model.bound(face, ends, around, tail)
        assert least / 2**P <= logit + 1e-8 * (1 + abs(logit))
        assert most / 2**P >= logit - 1e-8 * (1 + abs(logit))
        if light == heavy and not tail:
            assert most - least < 1 << (P - 60)
