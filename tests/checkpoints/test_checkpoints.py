"""Checkpoints: what is written is read back, and nothing else is ever trusted."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.cases import CONFIGS, POSITIONED
from tests.checkpoints.run_directories import write_run
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint, read_checkpoint
from tsc_interp.checkpoints.checkpoint import FORMAT
from tsc_interp.checkpoints.safe import hash_arrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, OutputError, UsageError
from tsc_interp.model.initialise import initial_weights


def fresh(config: ClassifierConfig, seed: int = 0) -> Checkpoint:
    weights = {name: value.numpy() for name, value in initial_weights(config, seed).items()}
    return Checkpoint(config, weights, {"seed": seed})


def metadata(given: ClassifierConfig, **changes: str) -> dict[str, str]:
    return {"format": FORMAT, "format_version": "2", "config": given.to_json(), **changes}


def sealed(given: ClassifierConfig, weights: dict[str, np.ndarray]) -> dict[str, str]:
    return metadata(
        given,
        weight_hash=hash_arrays(given.to_json(), weights),
        provenance="{}",
        provenance_hash=hashlib.sha256(b"{}").hexdigest(),
    )


@pytest.mark.parametrize("config", [*CONFIGS, POSITIONED], ids=lambda config: config.key()[:6])
def test_round_trip(config: ClassifierConfig, tmp_path: Path) -> None:
    saved = fresh(config)
    saved.save(tmp_path / "deep" / "model.safetensors")
    loaded = load_checkpoint(tmp_path / "deep" / "model.safetensors")
    assert loaded.config == config
    assert loaded.provenance == {"seed": 0}
    assert loaded.weight_hash() == saved.weight_hash()
    assert all(np.array_equal(loaded.weights[name], saved.weights[name]) for name in saved.weights)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model.safetensors"]


def test_the_hash_sees_weights_shapes_and_configuration() -> None:
    plain = fresh(ClassifierConfig())
    nudged = {name: value.copy() for name, value in plain.weights.items()}
    nudged["unembed.W_U"][0, 0] = np.nextafter(nudged["unembed.W_U"][0, 0], np.float32(9))
    hashes = {
        plain.weight_hash(),
        Checkpoint(plain.config, nudged).weight_hash(),
        Checkpoint(plain.config.replace(attend_cls=True), plain.weights).weight_hash(),
    }
    assert len(hashes) == 3
    assert Checkpoint(plain.config, plain.weights, {"other": 1}).weight_hash() in hashes


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 100, 600, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "model.safetensors"
    fresh(ClassifierConfig()).save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        read_checkpoint(path)


class _Explosive:
    """Runs code when unpickled: makes a file in the current directory."""

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (Path.touch, (Path("code-was-run"),))


@pytest.mark.parametrize("write", [
    lambda path: path.write_bytes(pickle.dumps(_Explosive())),
    lambda path: torch.save({"w": torch.zeros(2)}, path),
])  # fmt: skip
def test_a_pickle_is_refused_unread(tmp_path: Path, write, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"pickled file.*not read here"):
        read_checkpoint(tmp_path / "model.safetensors")
    assert not Path("code-was-run").exists()


def test_each_wrong_content_has_its_own_words(tmp_path: Path) -> None:
    config = ClassifierConfig()
    good = dict(fresh(config).weights)
    path = tmp_path / "model.safetensors"
    bad_shape = {**good, "embed.W_E": np.zeros((6, 2), np.float32)}
    not_a_number = {**good, "embed.W_E": np.full((5, 2), np.nan, np.float32)}
    double = {**good, "embed.W_E": np.zeros((5, 2))}
    missing = {name: value for name, value in good.items() if name != "unembed.W_U"}
    cases: list[tuple[dict[str, np.ndarray], dict[str, str] | None, str]] = [
        (good, None, "not a tsc-interp checkpoint"),
        (good, {"format": "other"}, "not a tsc-interp checkpoint"),
        (good, metadata(config, format_version="3"), "a newer tsc-interp is needed"),
        (good, metadata(config, format_version="1"), "commit 7fc0354 of tsc-interp was the last"),
        (good, metadata(config, format_version="x"), "format version 'x'"),
        (good, metadata(config, config="{"), "not valid JSON"),
        (good, metadata(config, config='{"d_modle": 2}'), "unknown option 'd_modle'"),
        (good, metadata(config, provenance="{"), "stored provenance cannot be read"),
        (good, {"format": FORMAT, "format_version": "2"}, "configuration is missing"),
        (bad_shape, metadata(config), r"embed.W_E has shape \[6, 2\], expected \[5, 2\]"),
        (not_a_number, sealed(config, not_a_number), "embed.W_E has values that are NaN"),
        (good, metadata(config), "damaged: the weight_hash"),
        (double, metadata(config), "embed.W_E is F64, expected F32"),
        (missing, metadata(config), "missing unembed.W_U"),
        ({**good, "extra": np.zeros(1, np.float32)}, metadata(config), "unexpected extra"),
    ]
    for weights, meta, words in cases:
        save_file(weights, path, metadata=meta)
        with pytest.raises(CheckpointError, match=words):
            read_checkpoint(path)


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    fresh(ClassifierConfig()).save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OutputError, match="No space left on device; nothing was changed"):
        fresh(ClassifierConfig(), seed=1).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot write"):
        fresh(ClassifierConfig()).save(tmp_path / "file" / "model.safetensors")


def test_bundled_models_are_all_there_and_load() -> None:
    assert bundled_names() == [
        "walkthrough", "generalization-errors", "attend-cls", "increased-dimensionality",
        "lower-magnitude", "many-heads",
    ]  # fmt: skip
    for name in bundled_names():
        checkpoint = load_checkpoint(name)
        assert checkpoint.source == name
        assert {"experiment", "seed", "epoch"} <= checkpoint.provenance.keys()
    assert load_checkpoint().source == "walkthrough"


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(CheckpointError, match="did you mean 'generalization-errors'"):
        load_checkpoint("generalisation_errors")
    with pytest.raises(CheckpointError, match="expected a bundled model"):
        load_checkpoint("/nowhere/at/all.safetensors")


def test_run_directories(tmp_path: Path) -> None:
    epochs = {epoch: fresh(ClassifierConfig(), seed=epoch) for epoch in (0, 1, 2, 10)}

    def hash_of(where: Path | str, epoch: int | None = None) -> str:
        return load_checkpoint(where, epoch=epoch).weight_hash()

    write_run(tmp_path, epochs)
    with pytest.raises(CheckpointError, match=r"not finished.*--epoch"):
        load_checkpoint(tmp_path)
    assert hash_of(tmp_path, 10) == epochs[10].weight_hash()
    write_run(tmp_path, epochs, chosen=2)
    assert hash_of(tmp_path) == epochs[2].weight_hash()
    assert hash_of(str(tmp_path), 1) == epochs[1].weight_hash()
    with pytest.raises(UsageError, match="epochs 0 to 10; there is no epoch 3"):
        load_checkpoint(tmp_path, epoch=3)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"damaged: result\.json"):
        load_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="not a run directory"):
        load_checkpoint(tmp_path / "checkpoints")
    with pytest.raises(UsageError, match="run directory only"):
        load_checkpoint("walkthrough", epoch=1)
