"""Forged certificates and damaged files: the second checker rejects them, and says why."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cases import POSITIONED
from tests.model import oracle
from tests.verification.models import planted, random_checkpoint, unfailing
from tests.verification.rational import (
    KINDS,
    OTHERS,
    Rejected,
    check,
    claiming,
    name_of,
    rational,
    run,
    sealed,
)
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.verification import CertificateError
from tsc_interp.verification import check as package_check

# -- bent certificates ---------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every part of a JSON document."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            yield from places(inner, (*path, key))


def changed(document: Any, path: tuple[Any, ...], new: Any) -> Any:
    inner = document = copy.deepcopy(document)
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new(inner[path[-1]]) if callable(new) else new
    return document


def bent(value: Any) -> list[Any]:
    """Other values: more, less, another type, nothing."""
    if isinstance(value, bool) or value is None:
        return [not value, None if value is not None else False, 1]
    if isinstance(value, (int, float)):
        step = 1 if isinstance(value, int) else 0.01
        return [value + step, value - step, -value - 1, str(value), 1e308]
    if isinstance(value, str):
        return [value + "a", value[:-1], "c{9}", 7]
    return ["x", value[:-1] if isinstance(value, list) else {}, [value]]


def accepts(document: Any, checkpoint: Checkpoint) -> bool:
    try:
        check(document, checkpoint)
    except Exception:
        return False
    return True


def package_accepts(document: Any, checkpoint: Checkpoint) -> bool:
    try:
        package_check(document, checkpoint)
    except CertificateError:
        return False
    return True


@pytest.mark.parametrize(
    "checkpoint", [planted(4, c_score=-1.0), unfailing()], ids=["plain", "log-n"]
)
def test_every_field_matters(checkpoint: Checkpoint) -> None:
    """With a fitting digest, the two checkers agree on every change; nearly all are rejected."""
    document = certify(checkpoint, limit=9).document
    assert accepts(document, checkpoint)
    tried = accepted = 0
    for path in places(document):
        value = document
        for step in path:
            value = value[step]
        if path == ("digest",):
            continue
        assert not accepts(changed(document, path, "?"), checkpoint)  # not sealed again
        for new in bent(value):
            if json.dumps(new) == json.dumps(value):
                continue
            forged = sealed(changed(document, path, lambda _, new=new: new))
            tried, verdict = tried + 1, accepts(forged, checkpoint)
            accepted += verdict
            assert verdict == package_accepts(forged, checkpoint), (path, new)
    assert accepted < 0.06 * tried  # a weaker bound or a larger box that is still true


def test_claims_cannot_be_left_out() -> None:
    checkpoint = planted(4, c_score=-1.0)
    document = certify(checkpoint, limit=9).document
    for index in range(len(document["claims"])):
        fewer = [claim for i, claim in enumerate(document["claims"]) if i != index]
        forged = sealed({**document, "claims": fewer})
        assert accepts(forged, checkpoint) == package_accepts(forged, checkpoint)


PROBLEM = "not proved|share no label|is open|needs scores|ratios alone"


# -- false claims --------------------------------------------------------------------------------


def _verdicts(checkpoint: Checkpoint, length: int) -> dict[tuple[int, ...], bool]:
    """Whether each count vector is right, by the plain float64 oracle; close calls left out."""
    config, found = checkpoint.config, {}
    for counts in product(range(length + 1), repeat=config.n_letters):
        if 0 < sum(counts) <= length:
            text = "".join(c * n for c, n in zip("ab", counts, strict=True))
            logit = oracle.logit(config, dict(checkpoint.weights), text)
            if abs(logit) > 1e-6:
                found[counts] = (logit > 0) == bool(config.task.labels(np.array(counts)))
    return found


@pytest.mark.parametrize("config", [*KINDS, *OTHERS], ids=name_of)
def test_false_claims(config: ClassifierConfig) -> None:
    """On models of every kind, every kind of claim with false content."""
    rejected = 0
    for seed in (0, 2):
        checkpoint = random_checkpoint(config, seed, scale=2.0)
        for counts, right in _verdicts(checkpoint, 4).items():
            for claim in _false_claims(checkpoint, counts, right):
                with pytest.raises(Rejected, match=PROBLEM):
                    check(claiming(checkpoint, claim), checkpoint)
                rejected += 1
    assert rejected > 25


def _false_claims(
    checkpoint: Checkpoint, counts: tuple[int, ...], right: bool
) -> Iterator[dict[str, Any]]:
    config = checkpoint.config
    letters = "".join(c for c, n in zip("ab", counts, strict=True) if n)
    some = [n for n in counts if n]
    if right:
        yield {"kind": "wrong", "string": config.alphabet.write(counts)}
        return
    single, wide = [[some, some]], [[some, [n + 2 for n in some]]]
    for boxes in (single, wide):
        yield {"kind": "right_up_to", "letters": letters, "length": sum(some), "boxes": boxes}
    for length in {2, max(2, sum(some))}:
        yield {"kind": "right_beyond", "letters": letters, "length": length}
    label = config.task.label_of_support(frozenset(letters))
    free = len(some) - 1 + int(config.attend_cls)
    largest = max(some)
    ratios = [1 / largest] * config.attend_cls + [n / largest for n in some]
    del ratios[config.attend_cls + some.index(largest)]
    around = [[max(0.0, r - 0.01) for r in ratios], [min(1.0, r + 0.01) for r in ratios]]
    charts = [{"largest": c, "boxes": [around if some[i] == largest else [[0] * free, [1] * free]]}
              for i, c in enumerate(letters)]  # fmt: skip
    bound = 1e-9 if label else 0
    yield {"kind": "right_at_all_lengths", "letters": letters, "bound": bound, "charts": charts}


def test_false_limits() -> None:
    """Equal labels, a letter outside, growing scores, several letters, a limit of zero."""
    plain = planted(10**8)
    for model, letter, letters, problem in (
        (plain, "b", "bc", "differ in label"),
        (plain, "a", "bc", "not one of"),
        (plain, "bc", "abc", "not one of"),
        (plain, "b", "ax", "not a set"),
        (unfailing(), "c", "abc", "do not grow"),
    ):
        claim = {"kind": "limit", "letter": letter, "letters": letters}
        with pytest.raises(Rejected, match=problem):
            check(claiming(model, claim), model)
    weights = {**plain.weights, "unembed.W_U": np.zeros((5, 1), dtype=np.float32)}
    zero = Checkpoint(plain.config, weights)
    with pytest.raises(Rejected, match="may be zero"):
        check(claiming(zero, {"kind": "limit", "letter": "b", "letters": "ab"}), zero)


def test_false_conclusions() -> None:
    checkpoint = planted(4, c_score=-1.0)
    for conclusion in ({"horizon": 5}, {"infinite": True}, {"finite": True}, {"extra": 1}):
        with pytest.raises(Rejected, match="does not follow"):
            check(claiming(checkpoint, **conclusion), checkpoint)
    supports = dict.fromkeys(("b", "c", "bc"))
    assert check(claiming(checkpoint, negative_faces=supports), checkpoint) == []
    with pytest.raises(Rejected, match="does not follow"):
        check(claiming(checkpoint, negative_faces={**supports, "bc": True}), checkpoint)


# -- models that cannot be certified, and files that cannot be read --------------------------------


def test_positions_are_refused() -> None:
    """The certificate is that of the same model without positions, its hash exchanged."""
    checkpoint = random_checkpoint(POSITIONED, 1)
    plain = POSITIONED.replace(n_positions=0)
    weights = {n: w for n, w in checkpoint.weights.items() if n != "pos_embed.W_pos"}
    document = certify(Checkpoint(plain, weights), limit=9).document
    with pytest.raises(Rejected, match="order of letters"):
        check(sealed({**document, "weight_hash": checkpoint.weight_hash()}), checkpoint)


def test_other_weights_are_refused() -> None:
    """One weight, one unit in the last place; the hash exchanged does not help where it matters."""
    checkpoint, other = planted(4, c_score=-1.0), planted(5, c_score=-1.0)
    document = certify(checkpoint, limit=9).document
    with pytest.raises(Rejected, match="another model"):
        check(document, other)
    with pytest.raises(Rejected, match="not proved"):
        check(sealed({**document, "weight_hash": other.weight_hash()}), other)


def with_data(content: bytes, header: Any = None, data: bytes | None = None) -> bytes:
    size = struct.unpack("<Q", content[:8])[0]
    text = json.loads(content[8 : 8 + size])
    text = json.dumps(header(text) if header else text).encode()
    return struct.pack("<Q", len(text)) + text + (content[8 + size :] if data is None else data)


def test_bent_model_files() -> None:
    checkpoint = planted(4, c_score=-1.0)
    document = json.dumps(certify(checkpoint, limit=9).document).encode()
    content = checkpoint.to_bytes()
    data = content[8 + struct.unpack("<Q", content[:8])[0] :]
    rational.check(document, with_data(content))

    def config(**changes: Any) -> Any:
        def edit(header: Any) -> Any:
            options = {**json.loads(header["__metadata__"]["config"]), **changes}
            text = json.dumps(options, sort_keys=True, separators=(",", ":"))
            return {**header, "__metadata__": {"config": text}}

        return edit  # fmt: skip

    name = "unembed.W_U"
    for bad, problem in (
        (with_data(content, data=struct.pack("<f", np.nan) + data[4:]), "NaN"),
        (with_data(content, data=struct.pack("<f", -np.inf) + data[4:]), "NaN"),
        (with_data(content, data=data[:-4]), "in its place"),
        (with_data(content, data=data + bytes(4)), "in its place"),
        (with_data(content, lambda h: {k: v for k, v in h.items() if k != name}), "do not fit"),
        (with_data(content, lambda h: {**h, "pos_embed.W_pos": h[name]}), "do not fit"),
        (with_data(content, lambda h: {**h, name: {**h[name], "dtype": "I32"}}), "in its place"),
        (with_data(content, lambda h: {**h, name: {**h[name], "shape": [1, 5]}}), "in its place"),
        (with_data(content, lambda h: {**h, name: h["blocks.0.attn.W_V"]}), "in its place"),
        (with_data(content, config(n_layers=2)), "do not fit"),
        (with_data(content, config(attend_cls=1)), "unknown options"),
        (with_data(content, config(causal=True)), "models with causal are not known"),
        (with_data(content, config(biases=1)), "unknown options"),
        (with_data(content, config(biases=True)), "do not fit"),
        (with_data(content, config(reads="last_letter")), "causal attention"),
        (with_data(content, config(reads="first")), "causal attention"),
        (with_data(content, config(n_letters=13)), "up to 12 letters"),
        (with_data(content, config(n_letters=0)), "impossible size"),
        (with_data(content, config(norm_eps=0.0)), "norm_eps"),
        (with_data(content, config(attend_cls=True)), "another model"),
        (with_data(content, config(task={"kind": "contains_all", "letters": "z"})), "letters"),
        (with_data(content, config(task={"kind": "contains_all", "letters": "ba"})), "letters"),
        (with_data(content, config(task={"kind": "majority", "letter": "ab"})), "letters"),
    ):
        with pytest.raises(Rejected, match=problem):
            rational.check(document, bad)
    for bad in (b"", content[:7], content[:40], b"PK" + content, struct.pack("<Q", 1 << 60)):
        assert not accepted_bytes(document, bad)


def accepted_bytes(document: bytes, content: bytes) -> bool:
    try:
        rational.check(document, content)
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"schema": 1, "schema": 1}', "key twice"),
        ('{"claims": [{"kind": "wrong", "kind": "wrong"}]}', "key twice"),
        ('{"claims": NaN}', "not JSON"),
        ('{"claims": [-Infinity]}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 100_000, "not JSON"),
        ("{} {}", "not JSON"),
        (f'{{"claims": {"9" * 10_000}}}', "not JSON"),
        ("", "not JSON"),
    ],
)
def test_strict_json(text: str, problem: str) -> None:
    with pytest.raises(Rejected, match=problem):
        rational.check(text.encode(), planted(4).to_bytes())


def test_nonsense_and_the_exit_codes(tmp_path: Path) -> None:
    checkpoint = planted(4, c_score=-1.0)
    model, path = tmp_path / "model.safetensors", tmp_path / "certificate.json"
    checkpoint.save(model)
    for text in ("null", "[]", "3", '"x"', "{}", '{"digest": []}'):
        path.write_text(text)
        done = run(path, model)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith("rejected: ")
    assert run(tmp_path / "missing.json", model).returncode == 2
    assert run(path).returncode == 2
    assert run().stderr.startswith("usage: ")
    path.write_text(json.dumps(certify(checkpoint, limit=9).document))
    assert run(path, model).returncode == 0
    hurried = run(path, model, 0)
    assert (hurried.returncode, hurried.stderr) == (3, "rejected: there was not enough time\n")


def test_a_small_certificate_of_many_letters_is_cheap() -> None:
    """No corner is visited that the proof does not need: 13 keys have 8,192 corners."""
    config = ClassifierConfig(n_letters=12, attend_cls=True)
    checkpoint = random_checkpoint(config, 1)
    letters = "abcdefghijkl"
    claim = {
        "kind": "right_up_to",
        "letters": letters,
        "length": 13,
        "boxes": [[[1] * 12, [2] * 12]],
    }
    found = accepts(claiming(checkpoint, claim), checkpoint)
    assert found == package_accepts(claiming(checkpoint, claim), checkpoint)
