"""Command lines that nobody should type: every command, hostile names, strings and numbers."""

from __future__ import annotations

import random
from pathlib import Path

from tests.fuzz.names import file_name, hostile
from tests.fuzz.running import Case
from tsc_interp.checkpoints import load_checkpoint

_OPTIONS = {
    "info": ("--checkpoint", "--epoch", "--json"),
    "list": ("--json",),
    "eval": ("--checkpoint", "--epoch", "--json", "string"),
    "verify": ("--checkpoint", "--epoch", "--json", "--max-length", "--check", "--out"),
    "analyze": ("--checkpoint", "--probe", "--json", "--compare", "--format", "--out", "string"),
    "playground": ("--checkpoint", "--epoch", "--compare", "--out"),
    "import": ("file", "--out", "--n-heads", "--norm-eps"),
    "train": ("file", "--seeds", "--set", "--name", "--runs"),
    "reproduce": ("name", "--runs"),
}
_NUMBERS = ("0", "-1", "1", "7", "1e9", "9" * 40, "9" * 5000, "٣", "0x10", "NaN", "inf", "1.5", "")
_CHECKPOINTS = ("walkthrough", "generalization-errors", "many-heads", "attend_cls", "walktrough")


def command_line(rng: random.Random, place: Path) -> Case:
    command = rng.choice(sorted(_OPTIONS))
    arguments = [command]
    for option in rng.sample(_OPTIONS[command], rng.randrange(0, len(_OPTIONS[command]) + 1)):
        arguments += _option(option, rng, place)
    if command == "analyze" and not {"--probe", "--format"} & set(arguments):
        arguments += ["--probe", "trace", "--format", "json"]
    if command in ("train", "reproduce"):
        arguments += [rng.choice(["--no-such-option", "--seeds=x"])]  # training itself is not it
    if command == "verify" and "--max-length" not in arguments:
        arguments += ["--max-length", "5"]
    return Case(repr(arguments), tuple(arguments))


def _option(option: str, rng: random.Random, place: Path) -> list[str]:
    if option in ("--json",):
        return [option]
    if option in ("--epoch", "--max-length", "--n-heads", "--norm-eps", "--seeds"):
        small = option == "--max-length" and rng.random() < 0.7
        return [option, str(rng.randrange(1, 30)) if small else rng.choice(_NUMBERS)]
    if option == "string":
        return [string(rng) for _ in range(rng.randrange(1, 4))]
    if option in ("--checkpoint", "--compare", "--check", "file"):
        value = _file(rng, place)
        return [value] if option == "file" else [option, value]
    value = rng.choice([hostile(rng), "trace", "json", "auto", str(place / file_name(rng))])
    return [value] if option == "name" else [option, value]


def _file(rng: random.Random, place: Path) -> str:
    """A bundled name, a hostile name of nothing, or a file of some kind under a hostile name."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(_CHECKPOINTS)
    if kind == 1:
        return hostile(rng)
    path = place / file_name(rng, ".safetensors")
    if kind == 2:
        path.mkdir(exist_ok=True)
    elif kind == 3:
        path.write_bytes(rng.randbytes(rng.randrange(0, 200)))
    else:
        loaded = load_checkpoint("walkthrough")
        path.write_bytes(loaded.to_bytes())
    return str(path)


def string(rng: random.Random) -> str:
    """Run-length notation, right or nearly right."""
    if rng.random() < 0.15:
        return hostile(rng)
    letters = "abc" if rng.random() < 0.8 else "abcdefxyzAé{} "
    parts = []
    for _ in range(rng.randrange(0, 6)):
        repeat = rng.choice(
            ["", "", "{2}", "{1000}", "{1000000000}", f"{{{rng.choice(_NUMBERS)}}}"]
        )
        parts.append(rng.choice(letters) + repeat)
    return "".join(parts)
