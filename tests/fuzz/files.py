"""Files that somebody, or a disk, has been at: checkpoints, `.pt` files, TOML, cached epochs, runs.

Each case damages one file of a sound original. Whatever is then read must be the original; anything
else must be refused in words. "Another model" is a failed assertion, which counts as a bad ending.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from tests.fuzz.names import hostile
from tests.fuzz.running import Case
from tsc_interp.checkpoints import read_checkpoint
from tsc_interp.checkpoints.locate import bundled_names, load_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import BalancedStream, streams
from tsc_interp.errors import TscError
from tsc_interp.training.config import Job, RunConfig, TrainingConfig
from tsc_interp.training.experiments import Experiment

ODD_VALUES = (
    None, True, 0, -1, 2**40, "9" * 5000, 1e308, "NaN", "", [], {}, [[[]]], {"a": {"b": {}}},
    "F8_E4M3", "BF16", "contains_all", [2, 2], "\ud800", "\x1b[31m",
)  # fmt: skip


def exit_code(read: Callable[[], object]) -> Callable[[], int]:
    """0 if it was read, the error's own code if it was refused; the command line prints no more."""

    def call() -> int:
        try:
            read()
        except TscError as error:
            refusal = error
        else:
            return 0
        assert len(str(refusal)) < 3_000, "refused at too great a length"
        return refusal.exit_code

    return call


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Bits flipped, bytes cut out or repeated, the end missing, or something else altogether."""
    changed = bytearray(content)
    kind = rng.randrange(8)
    if kind == 0:
        return bytes(changed[: rng.randrange(len(changed))])
    if kind == 1:
        return rng.choice(
            [b"", b"\0" * 100, os.urandom(0), b"PK\x03\x04", b"[" * 10_000, b"\x80\x04"]
        )
    for _ in range(rng.choice([1, 1, 1, 3, 30])):
        at = rng.randrange(len(changed))
        if kind < 6:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 6:
            del changed[at : at + rng.randrange(1, 40)]
        else:
            changed[at:at] = changed[at : at + rng.randrange(1, 40)]
        if not changed:
            return b""
    return bytes(changed)


def checkpoint(rng: random.Random, place: Path) -> Case:
    original = load_checkpoint(rng.choice(bundled_names()))
    content = original.to_bytes()
    path = place / "model.safetensors"
    path.write_bytes(_odd_header(rng, content) if rng.random() < 0.4 else damaged(rng, content))

    def read() -> None:
        found = read_checkpoint(path)
        assert found.weight_hash() == original.weight_hash(), "another model"
        assert found.provenance == original.provenance, "another provenance"

    return Case(f"checkpoint {path.stat().st_size} bytes", call=exit_code(read))


def _odd_header(rng: random.Random, content: bytes) -> bytes:
    """One value of the JSON header replaced by another kind of thing."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    names = rng.choice([list(header), list(header["__metadata__"])])
    table = header if names[0] in header else header["__metadata__"]
    name = rng.choice(names)
    if isinstance(table[name], dict) and rng.random() < 0.7:
        table = table[name]
        name = rng.choice(list(table))
    if rng.random() < 0.2:
        del table[name]
    else:
        value = rng.choice(ODD_VALUES)
        as_text = table is header["__metadata__"] and rng.random() < 0.7
        table[name] = json.dumps(value) if as_text else value
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


@cache
def _source_model() -> tuple[bytes, str]:
    import torch

    from tests.report.test_import import as_the_report_stores_it
    from tsc_interp.reproduction.source_models import read_source_model

    path = Path(mkdtemp()) / "model.pt"
    torch.save(as_the_report_stores_it(ClassifierConfig()), path)
    found = path.read_bytes(), read_source_model(path).weight_hash()
    shutil.rmtree(path.parent)
    return found


def source_model(rng: random.Random, place: Path) -> Case:
    from tsc_interp.reproduction.source_models import read_source_model

    content, expected = _source_model()
    path = place / "model.pt"
    path.write_bytes(damaged(rng, content))

    def read() -> None:
        assert read_source_model(path).weight_hash() == expected, "another model"

    return Case(f".pt {path.stat().st_size} bytes", call=exit_code(read))


_TOML = """\
name = "width"
about = "text"
seeds = "0..3"
[classifier]
d_model = [2, 8]
task = "contains_all"
norm_eps = 1e-5
[training]
max_epochs = 8
learning_rate = 0.01
[training.train]
kind = "balanced"
max_length = 10
"""


def toml(rng: random.Random, place: Path) -> Case:
    lines = _TOML.splitlines()
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(lines))
        name, equals, _ = lines[at].partition(" = ")
        if equals:
            lines[at] = f"{name} = {_toml_value(rng)}"
        elif rng.random() < 0.3:
            lines[at] = rng.choice(["[classifier.task]", "[training.loss]", "[[classifier]]"])
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    path = place / "experiment.toml"
    path.write_bytes(damaged(rng, content) if rng.random() < 0.3 else content)
    return Case(repr(content), call=exit_code(lambda: Experiment.load(path)))


def _toml_value(rng: random.Random) -> str:
    return rng.choice([
        "5", "-1", "true", "1e400", "nan", "inf", "9" * 5000, "[]", "[1, 'x', {}]", "{}", "{a = 1}",
        "[[2, 3]]", "1979-05-27", "0x10", "'0..9'", "'1,2'", "[" * 2_000 + "]" * 2_000,
        f"[{', '.join(map(str, range(1_000)))}]", json.dumps(hostile(rng)),
    ])  # fmt: skip


def cached_epoch(rng: random.Random, place: Path) -> Case:
    stream, config = BalancedStream(batches=2), ClassifierConfig()
    os.environ["TSC_CACHE"] = "off"
    streams._balanced_epochs.cache_clear()
    expected = [stream.epoch(config, index).copy() for index in range(2)]
    os.environ["TSC_CACHE"] = str(place / "cache")
    streams._balanced_epochs.cache_clear()
    stream.epoch(config, 1)
    files = sorted((place / "cache").rglob("*.epoch"))
    file = rng.choice(files)
    other = rng.choice(files).read_bytes()
    content = other if rng.random() < 0.1 else damaged(rng, file.read_bytes())
    file.unlink()
    if rng.random() < 0.1:
        rng.choice([os.mkfifo, os.mkdir])(file)
    else:
        file.write_bytes(content)

    def read() -> None:
        streams._balanced_epochs.cache_clear()
        for index in range(2):
            assert np.array_equal(stream.epoch(config, index), expected[index]), "other strings"

    return Case(file.name, call=exit_code(read))


_QUICK = TrainingConfig(
    train=BalancedStream(batches=3),
    validation=BalancedStream(max_length=20, batches=1),
    test=BalancedStream(max_length=40, batches=1),
    max_epochs=3,
)
QUICK_JOB = Job("here", RunConfig(training=_QUICK), 0)


class _Stop(Exception):
    pass


@cache
def sound_runs() -> dict[str, Path]:
    """A finished run and an unfinished one, made once."""
    from tsc_interp.training.jobs import Watcher, train

    class Stopping(Watcher):
        def epoch(self, job: Job, state: object) -> None:
            if getattr(state, "epoch", 0) == 2:
                raise _Stop

    base = Path(mkdtemp())
    other = Job("here", QUICK_JOB.config, 1)
    train([QUICK_JOB, other], base / "finished")
    for job in (QUICK_JOB, other):
        try:
            train([job], base / "unfinished", Stopping())
        except _Stop:
            continue
    return {name: base / name for name in ("finished", "unfinished")}


def run_directory(rng: random.Random, place: Path) -> Case:
    from tsc_interp.training.jobs import train

    here = Path("here", QUICK_JOB.config.key(), "seed=0")
    runs = place / "runs"
    shutil.copytree(sound_runs()[rng.choice(["finished", "unfinished"])], runs,
                    ignore=shutil.ignore_patterns(".lock"))  # fmt: skip
    files = sorted(path for path in (runs / here).rglob("*") if path.is_file())
    file = rng.choice(files)
    content = rng.choice([
        lambda: damaged(rng, file.read_bytes()),
        lambda: rng.choice(files).read_bytes(),
        lambda: (runs / here.with_name("seed=1") / file.relative_to(runs / here)).read_bytes(),
    ])()  # fmt: skip
    file.unlink()
    if rng.random() < 0.9:
        file.write_bytes(content)
    expected = contents(sound_runs()["finished"] / here)

    def read() -> None:
        train([QUICK_JOB], runs)
        assert contents(runs / here) == expected, "another run"
        RunDirectory.open(runs / here).history()

    return Case(str(file.relative_to(place)), call=exit_code(read))


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


KINDS = {
    "checkpoint": checkpoint,
    "pt": source_model,
    "toml": toml,
    "cache": cached_epoch,
    "run": run_directory,
}
