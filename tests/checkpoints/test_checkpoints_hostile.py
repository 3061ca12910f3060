"""Files that are damaged, odd or made to hurt: refused in a line or two, or read in full."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from tests.checkpoints.test_checkpoints import fresh
from tests.report.test_import import BLOCK, as_the_report_stores_it
from tsc_interp.checkpoints import Checkpoint, load_checkpoint, read_checkpoint
from tsc_interp.checkpoints.checkpoint import FORMAT
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, TscError, UsageError
from tsc_interp.reproduction.source_models import read_source_model

CONFIG = ClassifierConfig()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "model.safetensors"


def refused(read, where, words: str = ".") -> str:
    with pytest.raises(CheckpointError, match=words) as caught:
        read(where)
    message = str(caught.value)
    assert len(message) < 900
    assert len(message.splitlines()) <= 2
    return message


def by_hand(path: Path, header: dict[str, object], data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def metadata(**changes: str) -> dict[str, str]:
    return {"format": FORMAT, "format_version": "2", "config": CONFIG.to_json(), **changes}


# -- one content, one file -------------------------------------------------------------------


def test_equal_checkpoints_are_equal_files_in_every_process(path):
    """The library alone writes its metadata in another order each time."""
    fresh(CONFIG).save(path)
    code = (
        "import sys; from tsc_interp.checkpoints import read_checkpoint;"
        "sys.stdout.buffer.write(read_checkpoint(sys.argv[1]).to_bytes())"
    )
    elsewhere = subprocess.check_output([sys.executable, "-c", code, path])
    written = {elsewhere, path.read_bytes(), *(fresh(CONFIG).to_bytes() for _ in range(8))}
    assert len(written) == 1
    shuffled = fresh(CONFIG)
    shuffled = Checkpoint(CONFIG, dict(reversed(shuffled.weights.items())), shuffled.provenance)
    assert shuffled.to_bytes() in written


def test_any_reader_of_safetensors_reads_the_file(path):
    saved = fresh(ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11))
    saved.save(path)
    with safe_open(path, framework="np") as file:
        names = set(file.keys())
        assert names == set(saved.weights)
        for name in names:
            assert np.array_equal(file.get_tensor(name), saved.weights[name])
        stored = file.metadata()
    assert stored["weight_hash"] == saved.weight_hash()
    assert json.loads(stored["provenance"]) == {"seed": 0}


def test_every_flipped_bit_of_the_weights_is_noticed(path):
    """1,135 of these 1,152 files used to load as other models."""
    fresh(CONFIG).save(path)
    content = path.read_bytes()
    weights = 4 * 36
    for bit in range(8 * weights):
        damaged = bytearray(content)
        damaged[len(content) - weights + bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        refused(read_checkpoint, path, "damaged|NaN or infinite")


def test_every_damaged_byte_of_the_header_is_noticed(path):
    fresh(CONFIG).save(path)
    content, generator = path.read_bytes(), random.Random(0)
    for index in range(0, len(content) - 4 * 36, 4):
        damaged = bytearray(content)
        damaged[index] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        refused(read_checkpoint, path)


def test_numbers_that_json_lacks_are_kept_as_words(path):
    odd = {"nan": float("nan"), "deep": [{"inf": float("inf")}, -float("inf")], "fine": 0.5}
    Checkpoint(CONFIG, fresh(CONFIG).weights, odd).save(path)
    kept = read_checkpoint(path).provenance
    assert kept == {"nan": "NaN", "deep": [{"inf": "Infinity"}, "-Infinity"], "fine": 0.5}
    json.dumps(kept, allow_nan=False)


# -- what is in a file -----------------------------------------------------------------------


@pytest.mark.parametrize("text", ["5", "[]", "null", '"x"', "{", "[" * 100_000, "9" * 5_000, ""])
@pytest.mark.parametrize("key", ["config", "provenance"])
def test_json_that_is_no_object(key, text, path):
    by_hand(path, {"__metadata__": metadata(**{key: text})}, b"")
    refused(read_checkpoint, path, "the stored (configuration|provenance)")


def test_a_configuration_of_many_unknown_options_is_told_briefly(path):
    many = json.dumps({f"option{index}" * 50: index for index in range(10_000)})
    by_hand(path, {"__metadata__": metadata(config=many)}, b"")
    with pytest.raises(CheckpointError, match="and 9995 more") as caught:
        read_checkpoint(path)
    assert len(str(caught.value)) < 3_000


DTYPES = "BOOL U8 I8 F8_E5M2 F8_E4M3 F16 BF16 I16 U16 I32 U32 F64 I64 U64 F4 C64"


@pytest.mark.parametrize("dtype", DTYPES.split())
def test_every_other_kind_of_number_is_refused(dtype, path):
    width = {"16": 2, "32": 4, "64": 8}.get(dtype[-2:], 1)
    header: dict[str, object] = {"__metadata__": metadata()}
    end = 0
    for name, shape in CONFIG.weight_shapes().items():
        size = int(np.prod(shape)) * width
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end := end + size]}
    by_hand(path, header, bytes(end))
    refused(read_checkpoint, path, "expected F32|not a readable safetensors file")


def test_thousands_of_unexpected_tensors_are_told_briefly(path):
    header: dict[str, object] = {"__metadata__": metadata()}
    for index in range(5_000):
        header[f"{'n' * 100}{index}"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    by_hand(path, header, b"")
    with pytest.raises(CheckpointError, match=r"unexpected .*, \.\.\.") as caught:
        read_checkpoint(path)
    assert len(str(caught.value)) < 1_500


@pytest.mark.parametrize("length", [2**24, 2**40, 2**63, 2**64 - 1])
def test_a_header_of_impossible_size_is_not_read(length, path):
    with path.open("wb") as file:
        file.write(length.to_bytes(8, "little"))
        file.truncate(2**27)  # a hole: the file claims 128 MB and takes none
    refused(read_checkpoint, path, "at most 16,000,000 are read|not a readable")


def test_shapes_are_compared_before_anything_is_loaded(path, monkeypatch):
    """A terabyte of zeros, as a hole in the file."""
    header = {
        "__metadata__": metadata(),
        **{name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
           for name in CONFIG.weight_shapes()},
        "embed.W_E": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]},
    }  # fmt: skip
    by_hand(path, header, b"")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 2**40)
    refused(read_checkpoint, path, r"embed\.W_E has shape|not a readable")


# -- what is at a path -----------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_checkpoint, load_checkpoint, read_source_model])
def test_odd_places_are_refused_at_once(read, tmp_path, monkeypatch):
    for name in ("n" * 300, "n" * 300 + "/model.safetensors", "a/" * 3_000):
        refused(read, tmp_path / name, "File name too long")
    os.mkfifo(tmp_path / "pipe")
    refused(read, tmp_path / "pipe", "neither a file nor a folder")
    refused(read, Path(os.devnull), "neither a file nor a folder")
    (tmp_path / "folder").mkdir()
    refused(read, tmp_path / "folder", "folder|directory")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(read, tmp_path / "loop")
    (tmp_path / "empty").write_bytes(b"")
    refused(read, tmp_path / "empty", "not a readable")

    def locked(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    fresh(CONFIG).save(tmp_path / "model.safetensors")
    monkeypatch.setattr(Path, "open", locked)  # root may read anything, so it is pretended
    monkeypatch.setattr(zipfile, "ZipFile", locked)
    refused(read, tmp_path / "model.safetensors", "Permission denied")


@pytest.mark.parametrize("where", [None, 5, b"model", "nul\0byte", ["walkthrough"]])
def test_what_is_no_name_is_wrong_usage(where):
    with pytest.raises(UsageError, match="a name or a path"):
        load_checkpoint(where)


# -- the source report's models --------------------------------------------------------------


@pytest.fixture(scope="module")
def state():
    return as_the_report_stores_it(CONFIG)


def test_a_zip_bomb_is_refused_unopened(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was opened"))
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(20_000_000))
    refused(read_source_model, tmp_path / "bomb.pt", "unpack to more than it is")
    # Stored, but the directory claims more than there is.
    with zipfile.ZipFile(tmp_path / "liar.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"small")
        archive.infolist()[0].file_size = 2**31
    refused(read_source_model, tmp_path / "liar.pt", "unpack to more than it is")


def odd_tensors():
    """By name, each made when it is asked for: some warn."""
    query = f"{BLOCK}.attention.query.weight"
    scale = f"{BLOCK}.attention.rsqrt_attention_head_size"
    shape = (2, 2)
    return {
        "sparse": lambda: {query: torch.eye(2).to_sparse()},
        "compressed": lambda: {query: torch.eye(2).to_sparse_csr()},
        "complex": lambda: {query: torch.zeros(shape, dtype=torch.complex64)},
        "quantized": lambda: {query: torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8)},
        "meta": lambda: {query: torch.zeros(shape, device="meta")},
        "expanded": lambda: {query: torch.zeros(1, 1).expand(100_000, 100_000)},
        "number as name": lambda: {5: torch.zeros(1)},
        "no tensor": lambda: {query: [1.0, 2.0]},
        "scale of many": lambda: {scale: torch.ones(3)},
        "scale zero": lambda: {scale: torch.zeros(())},
        "scale nan": lambda: {scale: torch.tensor(float("nan"))},
        "scale complex": lambda: {scale: torch.tensor(1j)},
        "float8": lambda: {query: torch.zeros(shape).to(torch.float8_e4m3fn)},
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", odd_tensors())
def test_odd_tensors_are_refused_or_become_plain_ones(kind, state, tmp_path):
    torch.save({**state, **odd_tensors()[kind]()}, tmp_path / "model.pt")
    if kind == "float8":
        assert read_source_model(tmp_path / "model.pt").weights["embed.W_E"].dtype == np.float32
    else:
        refused(read_source_model, tmp_path / "model.pt")


def test_a_parameter_is_a_tensor(state, tmp_path):
    torch.save({name: torch.nn.Parameter(w) for name, w in state.items()}, tmp_path / "model.pt")
    torch.save(state, tmp_path / "plain.pt")
    assert (
        read_source_model(tmp_path / "model.pt").weight_hash()
        == read_source_model(tmp_path / "plain.pt").weight_hash()
    )


def test_damaged_files_are_errors_or_models(state, tmp_path):
    """Never a traceback, never another model: bytes changed, cut out, repeated."""
    path, generator = tmp_path / "model.pt", random.Random(1)
    torch.save(state, path)
    content, expected = path.read_bytes(), read_source_model(path).weight_hash()
    outcomes = {"read": 0, "refused": 0}
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(generator.choice([1, 1, 3, 30])):
            at = generator.randrange(len(damaged))
            kind = generator.randrange(3)
            if kind == 0:
                damaged[at] = generator.randrange(256)
            elif kind == 1:
                del damaged[at : at + generator.randrange(1, 40)]
            else:
                damaged[at:at] = damaged[at : at + generator.randrange(1, 40)]
        path.write_bytes(damaged)
        try:
            assert read_source_model(path).weight_hash() == expected
            outcomes["read"] += 1
        except TscError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 50
