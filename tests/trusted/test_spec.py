"""Bytes of checkpoints: what is read is what the package reads, and nothing malformed is read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.verification.ordered_models import ordered_checkpoint, random_config, wide_config
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.checkpoints.checkpoint import read_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError
from tsc_interp.trusted import spec as trusted_spec
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.spec import Spec, read_model


def parts_of(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The header, the options in it, and the numbers."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    return header, json.loads(header["__metadata__"]["config"]), content[8 + size :]


def file_of(header: Any, options: Any, numbers: bytes) -> bytes:
    if options is not None:
        header = {**header, "__metadata__": {**header["__metadata__"], "config": options}}
        if not isinstance(options, str):
            header["__metadata__"]["config"] = json.dumps(options)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


@pytest.mark.parametrize("seed", range(30))
def test_a_model_is_read_as_the_package_reads_it(seed: int) -> None:
    config = (wide_config if seed % 2 else random_config)(seed)
    checkpoint = ordered_checkpoint(config, seed)
    same_as(checkpoint)
    layers = config.replace(n_layers=2, norm=random.Random(seed).choice(["off", "layer"]),
                            final_norm=False)  # fmt: skip
    same_as(ordered_checkpoint(layers, seed))


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models_are_read(name: str) -> None:
    same_as(load_checkpoint(name))


def same_as(checkpoint: Checkpoint) -> None:
    model, written = read_model(checkpoint.to_bytes()), checkpoint.expanded()
    assert model.hash == checkpoint.weight_hash()
    assert set(model.weights) >= set(written.weights)
    for name, weight in written.weights.items():
        np.testing.assert_array_equal(model.weights[name], weight)
    spec, config = model.spec, checkpoint.config
    for name in ("has_norm", "centred_norm", "learned_norm", "log_n", "cls_counted", "turned",
                 "kv_heads", "has_positions", "added_positions"):  # fmt: skip
        assert getattr(spec, name) == getattr(config, name), name
    assert spec.vocab == config.alphabet.vocab_size
    assert spec.shapes() == config.weight_shapes()


def values(rng: random.Random) -> Any:
    numbers = [0, 1, 2, 3, 4, 5, 7, -1, 0.5, 1.0, 1e-7, 1e-5, 10**6, 10**8, True, False]
    words = ["off", "rms", "layer", "rms_pre", "first", "last", "last_letter", "rotary", "alibi",
             "learned", "sinusoidal", "shortformer", "relu", "silu", "sqrt_d_head_log_n",
             "sqrt_d_head_ssmax", "x", ""]  # fmt: skip
    return rng.choice([*numbers, *words, None, [], {}, float("nan"), float("inf")])


@pytest.mark.parametrize("seed", range(12))
def test_whatever_options_are_read_the_package_reads_alike(seed: int, tmp_path: Path) -> None:
    """Options changed at random, the weights made to fit: refused, or a model of that function."""
    rng = random.Random(seed)
    read = 0
    for _ in range(150):
        config = (wide_config if rng.random() < 0.5 else random_config)(rng.randrange(200))
        header, options, _ = parts_of(ordered_checkpoint(config, 1).to_bytes())
        for _ in range(rng.choice([1, 1, 2])):
            options[rng.choice(sorted(set(ClassifierConfig.model_fields) - {"task"}))] = values(rng)
        try:
            known = ClassifierConfig.from_json(json.dumps(options))
        except (TscError, ValueError):
            known = None
        if known is not None and sum(np.prod(s) for s in known.weight_shapes().values()) < 1e5:
            content = ordered_checkpoint(known, 1).to_bytes()
            if known.beyond_verification:
                with pytest.raises(NotProved):
                    read_model(content)
                continue
            header, _, numbers = parts_of(content)
            same_as(ordered_checkpoint(known, 1))
            # As the forger wrote it, the text that is hashed is another one.
            assert read_model(file_of(header, options, numbers)).spec == read_model(content).spec
            read += 1
        elif known is None:
            refused_or_harmless(header, options)
    assert read


HARMLESS = {
    "rotary_dim", "rotary_base", "rotary_adjacent_pairs", "n_key_value_heads", "attention_scale",
    "token_names", "dropout", "embedding_init", "attention_init", "mlp_init", "positions",
    "qk_norm", "d_head",
}  # fmt: skip
"""Options that the package refuses where they have no effect; the trusted base ignores them."""


def refused_or_harmless(header: Any, options: dict[str, Any]) -> None:
    """What the package refuses is refused here, too, but for what changes no function."""
    try:
        shapes = read_shapes(options)
    except (NotProved, TypeError, ValueError, KeyError):
        return
    if sum(int(np.prod(shape)) for shape in shapes.values()) > 1e5:
        return
    defaults = {name: f.default for name, f in ClassifierConfig.model_fields.items()}
    plain = {**options, **{name: defaults[name] for name in HARMLESS & set(options)}}
    plain["task"] = {"kind": "contains_all", "letters": "a"}
    for kept in ("positions", "d_head", "n_key_value_heads", "qk_norm"):
        if options.get("n_heads", 2) and kept in options:
            plain[kept] = options[kept]
    for name in ("rotary_dim", "rotary_base", "rotary_adjacent_pairs"):
        if plain.get("positions") == "rotary" and name in options:
            plain[name] = options[name]
    ClassifierConfig.from_json(json.dumps(plain))


def read_shapes(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    from dataclasses import fields

    from tsc_interp.trusted import spec

    known = {field.name for field in fields(spec.Spec)}
    for name, (value, _) in spec._REFUSED.items():
        given = options.get(name, value)
        spec.require(type(given) is type(value) and given == value, "")
    spec.require(set(options) <= known | spec._INERT | set(spec._REFUSED), "")
    return spec.Spec(**{name: value for name, value in options.items() if name in known}).shapes()


@pytest.mark.parametrize("seed", range(6))
def test_bent_files_are_refused_or_another_model(seed: int, tmp_path: Path) -> None:
    """Bytes changed anywhere: what is still read has another hash, or is the same model."""
    rng = random.Random(seed)
    checkpoint = ordered_checkpoint(wide_config(seed), seed)
    content, path = checkpoint.to_bytes(), tmp_path / "bent.safetensors"
    model, size = read_model(content), 8 + int.from_bytes(content[:8], "little")
    for _ in range(300):
        bent = bytearray(content)
        for _ in range(rng.choice([1, 1, 2, 5])):
            where = rng.randrange(8) if rng.random() < 0.1 else rng.randrange(len(bent))
            where = rng.randrange(size) if rng.random() < 0.6 else where
            kind = rng.choice(["set", "set", "drop", "add"])
            if kind == "set":
                bent[where] = rng.choice([rng.randrange(256), *b'0123456789[]{},:"x'])
            elif kind == "drop":
                del bent[where : where + rng.choice([1, 4, 100])]
            else:
                bent[where:where] = bytes(rng.choice([1, 4]))
        try:
            found = read_model(bytes(bent))
        except NotProved:
            found = None
        path.write_bytes(bytes(bent))
        try:
            package: Checkpoint | None = read_checkpoint(path)
        except TscError:
            package = None
        if package is not None and found is not None and package.config.to_json() == (
            parts_of(bytes(bent))[0]["__metadata__"]["config"]
        ):  # fmt: skip
            assert found.hash == package.weight_hash()
        if found is not None and found.hash == model.hash:
            for name, weight in model.weights.items():
                np.testing.assert_array_equal(found.weights[name], weight)


def test_headers_that_do_not_fit_are_refused() -> None:
    checkpoint = ordered_checkpoint(wide_config(3), 1)
    header, options, numbers = parts_of(checkpoint.to_bytes())
    entry = header["embed.W_E"]
    start, end = entry["data_offsets"]

    def refused(content: bytes) -> None:
        with pytest.raises(NotProved):
            read_model(content)

    assert read_model(file_of(header, options, numbers)).spec
    for changed in (
        {**entry, "dtype": "F16"}, {**entry, "shape": entry["shape"][::-1]},
        {**entry, "data_offsets": [start, end + 4]}, {**entry, "data_offsets": [-4, end - 4]},
        {**entry, "data_offsets": [len(numbers), len(numbers) + end - start]},
        {**entry, "data_offsets": [start]}, {}, None, [],
    ):  # fmt: skip
        refused(file_of({**header, "embed.W_E": changed}, options, numbers))
    refused(file_of({**header, "more": entry}, options, numbers))
    refused(file_of({k: v for k, v in header.items() if k != "embed.W_E"}, options, numbers))
    refused(file_of(header, options, numbers[:-4]))
    for value in (np.nan, np.inf):
        bad = np.frombuffer(numbers, dtype="<f4").copy()
        bad[3] = value
        refused(file_of(header, options, bad.tobytes()))
    text = json.dumps(options)
    for config in (
        text[:-1], text.replace("{", '{"n_heads": 1, ', 1), "[]", "3", "null", text + "x",
        text.replace("{", '{"unheard_of": 1, ', 1), text.replace("{", '{"norm_eps": NaN, ', 1),
    ):  # fmt: skip
        refused(file_of(header, config, numbers))
    for content in (b"", b"\0" * 8, b"\0" * 7, (10**9).to_bytes(8, "little") + b"{}"):
        refused(content)
    for name in ("n_layers", "n_letters", "d_model", "n_positions", "n_heads", "d_mlp"):
        for size in (10**5, 10**8, 10**30, -1, 1.0, True, "1", None):
            refused(file_of(header, {**options, name: size}, numbers))


PLAIN: dict[str, Any] = {"n_letters": 2, "d_model": 2, "n_heads": 1, "d_head": 2, "d_mlp": 1}


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, False),
        ({"n_positions": 4}, True),
        ({"reads": "last_letter", "attend_cls": True}, True),
        ({"reads": "last", "attend_cls": True}, False),
        ({"reads": "last", "attend_cls": True, "n_layers": 2}, True),
    ],
)
def test_which_models_see_order(options: dict[str, Any], seen: bool) -> None:
    assert Spec(**PLAIN | options).sees_order is seen


def test_a_final_norm_is_of_a_kind() -> None:
    assert Spec(**PLAIN, final_norm=True, norm="rms")
    with pytest.raises(NotProved, match="of no kind"):
        Spec(**PLAIN, final_norm=True)


def test_the_least_scale_of_scores() -> None:
    assert Spec(**PLAIN, attention_scale=1e-6)
    with pytest.raises(NotProved, match="below 1e-6"):
        Spec(**PLAIN, attention_scale=0.9e-6)


def test_files_are_limited_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    content = ordered_checkpoint(ClassifierConfig(), 1).to_bytes()
    parameters = sum(weight.size for weight in read_model(content).weights.values())
    with pytest.raises(NotProved, match="beyond the end"):
        read_model(content[:-4])
    monkeypatch.setattr(trusted_spec, "MAX_PARAMETERS", parameters)
    assert read_model(content)
    monkeypatch.setattr(trusted_spec, "MAX_PARAMETERS", parameters - 1)
    with pytest.raises(NotProved, match=f"{parameters} parameters"):
        read_model(content)
    size = int.from_bytes(content[:8], "little")
    monkeypatch.setattr(trusted_spec, "MAX_PARAMETERS", parameters)
    monkeypatch.setattr(trusted_spec, "MAX_HEADER", size + 8)
    assert read_model(content)
    monkeypatch.setattr(trusted_spec, "MAX_HEADER", size + 7)
    with pytest.raises(NotProved, match="no header"):
        read_model(content)


@pytest.mark.parametrize(("value", "known"), [(False, True), (True, False), (0, False)])
def test_a_refused_option_may_have_the_value_that_changes_nothing(value: Any, known: bool) -> None:
    header, options, numbers = parts_of(ordered_checkpoint(ClassifierConfig(), 1).to_bytes())
    content = file_of(header, {**options, "adaptive_temperature": value}, numbers)
    if known:
        assert read_model(content)
    else:
        with pytest.raises(NotProved, match="not known here"):
            read_model(content)


def test_one_output_is_as_good_as_two() -> None:
    assert [Spec(**PLAIN, n_outputs=n).n_classes for n in (1, 2, 3)] == [2, 2, 3]


def test_alibi_needs_causal_attention() -> None:
    options = PLAIN | {"positions": "alibi", "n_positions": 4, "attend_cls": True}
    assert Spec(**options, reads="last")
    with pytest.raises(NotProved, match="ALiBi"):
        Spec(**options)


def test_learned_factors_of_log_n_are_named() -> None:
    header, options, numbers = parts_of(ordered_checkpoint(ClassifierConfig(), 1).to_bytes())
    with pytest.raises(NotProved, match="a learned factor of log n"):
        read_model(file_of(header, {**options, "score_scale": "sqrt_d_head_ssmax"}, numbers))
