"""What a probe's page includes: its docstring, and what it says and draws of a bundled model."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tsc_interp as tsc
from docs.build.figures import fragment
from tsc_interp.probes.registry import PROBES, Probe, Question, find_probe
from tsc_interp.report import Report
from tsc_interp.report.commands import command
from tsc_interp.report.model_report import Section
from tsc_interp.reproduction.experiments import experiment_named
from tsc_interp.source_report import EXAMPLES
from tsc_interp.training.jobs import train

STRINGS = list(EXAMPLES)
# Where another model has more to show than the one with errors of both kinds.
MODELS = {"trace": "walkthrough", "specialization": "lower-magnitude", "init-norm": "walkthrough"}


def write_probe_page(name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(_page(find_probe(name)), encoding="utf-8")


def write_probe_index(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"| [{p.name}]({p.name}.md) | {p.question} | {p.chapter or '-'} |" for p in PROBES]
    table = "\n".join(["| probe | question | chapter |", "|---|---|---|", *rows])
    (folder / "index.txt").write_text(table + "\n", encoding="utf-8")


def _page(probe: Probe) -> str:
    report, shown = _report(probe)
    return "\n\n".join(
        [
            f"*{probe.question}*" + (f" Chapter {probe.chapter}." if probe.chapter else ""),
            *computes(probe),
            f"## On a bundled model\n\n```bash\n{shown}\n```",
            *told(report.models[0].sections[probe.name]),
        ]
    )


def _report(probe: Probe) -> tuple[Report, str]:
    """The probe's answer, and the command that gives it again."""
    if not probe.needs_run:
        report = tsc.analyze(
            MODELS.get(probe.name, "generalization-errors"), STRINGS, probes=[probe.name]
        )
        return report, command(report, probe.name)
    with tempfile.TemporaryDirectory() as place:
        run = train(experiment_named("generalization_errors").jobs(), place)[0]
        directory = run.directory.path
        report = tsc.analyze(directory, STRINGS, probes=[probe.name])
        # Figures are drawn when they are first asked for, which may read the run.
        assert report.models[0].sections[probe.name].figures
        kept = Path("runs") / directory.relative_to(place)
    train_it = "tsc-interp reproduce generalization_errors"
    return report, f"{train_it}\ntsc-interp analyze --checkpoint {kept} --probe {probe.name}"


def computes(question: Question) -> list[str]:
    """What its file says of itself: what is computed and which hooks it reads."""
    _, _, body = question.explanation.partition("\n\n")
    return ["## What it computes", body]


def told(section: Section) -> list[str]:
    """What was found, and every figure."""
    findings = [f"- **{finding.severity}**: {finding.text}" for finding in section.result.findings]
    return ["\n".join(findings), *(fragment(figure) for figure in section.figures)]
