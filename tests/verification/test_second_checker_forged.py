"""Forged proofs and damaged files: the second checker rejects them, and says why."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trusted.asking import Asked
from tests.trusted.counts import contradicted, forged_parts, sealed
from tests.verification.models import hand_built, planted, random_checkpoint, unfailing
from tests.verification.ordered_models import copying, with_task
from tests.verification.rational import KINDS, OTHERS, accepts, check, name_of, rational, run
from tsc_interp import certify
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import ContainsAll, Maximum
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.replay import replay
from tsc_interp.verification.documents import model_of, rule_of

Rejected = rational.Rejected
MAXIMUM = with_task(copying(3), Maximum())

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


def package_accepts(document: Any, *checkpoints: Checkpoint) -> bool:
    try:
        replay(document, [model_of(checkpoint) for checkpoint in checkpoints])
    except NotProved:
        return False
    return True


@pytest.mark.parametrize(
    ("checkpoint", "document"),
    [
        (planted(4, c_score=-1.0), None),
        (unfailing(), None),
        (MAXIMUM, Asked(MAXIMUM).document([2])),
    ],
    ids=["plain", "log-n", "table"],
)
def test_every_field_matters(checkpoint: Checkpoint, document: Any) -> None:
    """With a fitting digest, the two checkers agree on every change; nearly all are rejected."""
    document = document or certify(checkpoint, limit=9).document
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


def test_parts_cannot_be_left_out() -> None:
    for checkpoint in (planted(4, c_score=-1.0), unfailing()):
        document = certify(checkpoint, limit=9).document
        for index in range(len(document["parts"])):
            fewer = [part for i, part in enumerate(document["parts"]) if i != index]
            forged = sealed({**document, "parts": fewer})
            assert accepts(forged, checkpoint) == package_accepts(forged, checkpoint)


# -- false claims --------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [*KINDS, *OTHERS], ids=name_of)
def test_false_parts(config: ClassifierConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything one would like to be true: what is accepted, the oracle does not contradict."""
    monkeypatch.setattr(rational, "PIECES", 4)
    monkeypatch.setattr(rational, "PRECISIONS", (192, 1024))
    checkpoint = random_checkpoint(config, 2, scale=2.0)
    read = rational.read_model(checkpoint.to_bytes())
    judge = rational.Judge(*read[:2], lambda: None)
    refused = held = 0
    for part in list(forged_parts(config))[:: 1 + config.n_layers // 2]:
        counts = rational.Counts([judge], rational.Rule(rule_of(config), config.n_letters), bool)
        try:
            counts.add(part)
        except (Rejected, ValueError):
            refused += 1
            continue
        held += 1
        assert contradicted(checkpoint, part) is None, part
    assert refused > 15


def test_two_models_attend_each_to_its_own_keys() -> None:
    """The logit is n / (n + 1) - 9/10 with CLS, and 1/10 without."""
    task = ContainsAll(letters="a")
    models = [hand_built([[0.0, 0.0]], [[1.0, 1.0]], 0.9, task=task, attend_cls=cls)
              for cls in (False, True)]  # fmt: skip
    judges = [rational.Judge(*rational.read_model(m.to_bytes())[:2], lambda: None) for m in models]
    for some in (judges, judges[::-1]):
        for j in (0, 1):
            part = {"letters": [0], "up_to": 3, "tree": [["is", j]]}
            with pytest.raises(Rejected, match="not proved"):
                rational.Counts(some, None, lambda: None).add(part)


def test_tables_are_audited() -> None:
    """No letter that does not exist, no input twice, no state from nowhere, a label for each."""
    table = Asked(MAXIMUM).language([2])["tables"][0]
    rows = rational.unpacked(table["stages"][1]["edges"], 3, 99)
    assert rational.Table(table, 3, 3).inputs == 9

    def stage(*edges: Any, **more: Any) -> Any:
        from tsc_interp.trusted.language import packed

        other = {"places": [1], "edges": packed(np.array(edges)), **more}
        return {**table, "stages": [table["stages"][0], other]}

    for bad, problem in (
        (stage(*rows, (0, 0, 3)), "does not exist"),
        (stage(*rows, rows[0]), "place the same letters"),
        (stage(*(row for row in rows if row[0])), "without edges"),
        (stage(*rows, (7, 0, 0)), "without edges"),
        (stage(*((a, b + 1, c) for a, b, c in rows)), "numbered from 0"),
        (stage(*rows, places=[0]), "no stage, or to several"),
        ({**table, "fixed": [[1, 0]]}, "no stage, or to several"),
        (stage(*rows[:-1]), "one label for each edge"),
        ({**table, "name": {"length": 3}}, "another name"),
    ):
        with pytest.raises(Rejected, match=problem):
            rational.Table(bad, 3, 3)
    with pytest.raises(Rejected, match="without an output"):
        rational.Table(table, 3, 2)


def test_other_weights_are_refused() -> None:
    """The hash exchanged does not help where it matters."""
    checkpoint, other = planted(4, c_score=-1.0), planted(5, c_score=-1.0)
    document = certify(checkpoint, limit=9).document
    with pytest.raises(Rejected, match="other models"):
        check(document, other)
    with pytest.raises(Rejected, match="not proved"):
        check(sealed({**document, "models": [other.weight_hash()]}), other)


def test_older_proofs_are_refused() -> None:
    document = certify(planted(4, c_score=-1.0), limit=9).document
    with pytest.raises(Rejected, match=r"certificate/1' is not known here"):
        check(sealed({**document, "schema": "tsc-interp/certificate/1"}), planted(4, c_score=-1.0))


# -- files that cannot be read ---------------------------------------------------------------------


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
    rational.check(document, [with_data(content)])

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
        (with_data(content, config(reads="last_letter")), "attends to itself"),
        (with_data(content, config(reads="second")), "what reads is not known"),
        (with_data(content, config(n_positions=4)), "do not fit"),
        (with_data(content, config(n_outputs=2)), "not float32 of shape"),
        (with_data(content, config(n_letters=0)), "impossible size"),
        (with_data(content, config(attend_cls=True)), "other models"),
    ):
        with pytest.raises(Rejected, match=problem):
            rational.check(document, [bad])
    for bad in (b"", content[:7], content[:40], b"PK" + content, struct.pack("<Q", 1 << 60)):
        with pytest.raises((Rejected, struct.error, ValueError, KeyError)):
            rational.check(document, [bad])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"schema": 1, "schema": 1}', "key twice"),
        ('{"parts": [{"counts": 1, "counts": 1}]}', "key twice"),
        ('{"parts": NaN}', "not JSON"),
        ('{"parts": [-Infinity]}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 100_000, "not JSON"),
        ("{} {}", "not JSON"),
        (f'{{"parts": {"9" * 10_000}}}', "not JSON"),
        ("", "not JSON"),
    ],
)
def test_strict_json(text: str, problem: str) -> None:
    with pytest.raises(Rejected, match=problem):
        rational.check(text.encode(), [planted(4).to_bytes()])


def test_nonsense_and_the_exit_codes(tmp_path: Path) -> None:
    checkpoint = planted(4, c_score=-1.0)
    model, path = tmp_path / "model.safetensors", tmp_path / "proof.json"
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
