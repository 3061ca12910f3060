"""How to get a section again: the shell command and the Python lines, ready to paste."""

from __future__ import annotations

import re
import shlex

from tsc_interp.checkpoints.run_directory import run_of
from tsc_interp.laboratories.base import LabResult
from tsc_interp.report.content import ReportContent

_OUTSIDE = """import json

import torch
import tsc_interp as tsc

with open("report.json") as file:  # beside this page
    card = json.load(file)["models"][0]["model"]
asked = card["asked"]  # model: the one whose weight hash is {hash}...
names = {{int(token): name for token, name in asked["names"].items()}}
options = {{key: asked[key] for key in ("query", "direction", "attention_mask")}}
report = tsc.analyze(
    model, torch.tensor(asked["tokens"]), probes=[{probe!r}], token_names=names or None, **options
)
report.show(tables=True)"""


def command(report: ReportContent, probe: str | None = None) -> str:
    """Empty for a model that lives in a Python process."""
    first, *others = _sources(report)
    if not all([first, *others]):
        return ""
    where, epoch = _run_and_epoch(first)
    parts = ["tsc-interp", "analyze", "--checkpoint", where]
    parts += [] if epoch is None else ["--epoch", str(epoch)]
    parts += [part for other in others for part in ("--compare", _at_epoch(other))]
    if report.models[0].card.asked is None:  # else the whole report has the search's inputs
        parts += [*(["--probe", probe] if probe else []), *report.models[0].strings]
    return " ".join(_shell(part) for part in parts)


def python(report: ReportContent, probe: str) -> str:
    card = report.models[0].card
    first, *others = _sources(report)
    opening = "import tsc_interp as tsc\n\n"
    in_memory = (
        f"{opening}# checkpoint: as tsc.from_transformer_lens or tsc.from_torch gave it; "
        f"its weight hash is {card.weight_hash[:12]}...\n"
    )
    if card.asked is not None:
        if first:
            return f"{opening}tsc.analyze({_python(first)})[{probe!r}]"
        if card.task:
            return f"{in_memory}tsc.analyze(checkpoint)[{probe!r}]"
        return _OUTSIDE.format(hash=card.weight_hash[:12], probe=probe)
    subject, options = "checkpoint", f"probes=[{probe!r}]"
    if all([first, *others]):
        where, epoch = _run_and_epoch(first)
        subject = _python(where)
        options += "" if epoch is None else f", epoch={epoch}"
        options += "".join(f", compare={_python(_at_epoch(other))}" for other in others)
    else:
        opening = in_memory
    return (
        f"{opening}strings = {list(report.models[0].strings)!r}\n"
        f"report = tsc.analyze({subject}, strings, {options})\n"
        "report.show(tables=True)"
    )


def lab_command(result: LabResult) -> str:
    parts = ["tsc-interp", "lab", result.probe, *(["--quick"] if result.options.quick else [])]
    for name, value in result.options.asked().items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            parts.append(option if value else option.replace("--", "--no-", 1))
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            parts += [option, text]
    return " ".join(_shell(part) for part in parts)


def lab_python(result: LabResult) -> str:
    options = {**({"quick": True} if result.options.quick else {}), **result.options.asked()}
    arguments = "".join(f", {name}={value!r}" for name, value in options.items())
    return (
        f"import tsc_interp as tsc\n\nreport = tsc.lab({result.probe!r}{arguments})\n"
        "report.show(tables=True)"
    )


def _sources(report: ReportContent) -> list[str]:
    """What to type for each model; nothing for one that is in a Python process only."""
    return [model.card.typed for model in report.models]


def _shell(part: str) -> str:
    """Quoted for a shell; what cannot be seen, or could end a code block, byte by byte."""
    if part.isprintable() and "`" not in part:
        return shlex.quote(part)
    # A surrogate from here on stands for a byte of a file name; the others for nothing at all.
    data = re.sub("[\ud800-\udc7f]", "?", part).encode("utf-8", "surrogateescape")
    written = [
        chr(byte) if 32 <= byte < 127 and byte not in b"'\\`" else f"\\x{byte:02x}" for byte in data
    ]
    return f"$'{''.join(written)}'"


def _python(text: str) -> str:
    return repr(text).replace("`", "\\x60")


def _run_and_epoch(source: str) -> tuple[str, int | None]:
    """A run's checkpoint as run and epoch: only the run knows its history."""
    run_and_epoch = run_of(source)
    return (source, None) if run_and_epoch is None else (str(run_and_epoch[0]), run_and_epoch[1])


def _at_epoch(source: str) -> str:
    where, epoch = _run_and_epoch(source)
    return where if epoch is None else f"{where}@{epoch}"
