"""`tsc-interp intervene`: change a part of a model, and see what becomes of its answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsc_interp.cli.common import DEFAULT_MODEL, messages, output, print_json, working
from tsc_interp.cli.eval import class_names
from tsc_interp.errors import UnsupportedError

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint

_SECONDS = 30.0
"""For each of two searches of an order-sensitive model; the rest is undecided."""


def command(
    changes: list[str],
    *,
    checkpoint: str | None = None,
    epoch: int | None = None,
    strings: list[str] | None = None,
    exact: bool = True,
    out: Path | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Change parts of a model and compare its answers before and after.

    Parts: head0, head0.query, head0.key[c], head0.value[c], head0.pattern, neuron1, mlp,
    layer1.head0, head0->neuron1, embed->logit. Changes: zero, mean, mean(aab, abc), from(aab),
    like(b), set(0.7), scale(0.5), noise(0.1, seed=0), resample(seed=0), patch(aab).

    Args:
        changes (PART=CHANGE): Such as head0=zero, 'head0.value[c]=like(b)',
            'head1->neuron0=mean(aab, abc)'.
        strings: A string to run; repeatable.
        exact: Also verify every string, before and after the change.
        out: Write the changed model here.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.checkpoints.checkpoint import is_checkpoint
    from tsc_interp.files import check_output
    from tsc_interp.interventions.hooks import intervene
    from tsc_interp.model.classifier import Classifier
    from tsc_interp.report.scoring import sensible_strings

    loaded = load_checkpoint(checkpoint or DEFAULT_MODEL, epoch=epoch)
    if out is not None:
        check_output(out, is_checkpoint, force=force, reads=[loaded.source])
    texts = strings or sensible_strings(loaded.config)
    outcome = intervene(Classifier.from_checkpoint(loaded), texts, changes)
    edited, effects, refused = None, None, None
    if exact or out is not None:
        edited, refused = _edited(loaded, changes, texts, must=out is not None)
    if exact and edited is not None:
        try:
            effects = _effects(loaded, edited, quiet)
        except UnsupportedError as error:  # such a model is not decided at every length
            refused = str(error)
    if out is not None and edited is not None:
        edited.save(out, force=force)
    pairs = zip(texts, outcome.before.tolist(), outcome.after.tolist(), strict=True)
    rows = [{"string": text, "before": before, "after": after} for text, before, after in pairs]
    if as_json:
        document = {"checkpoint": loaded.source, "interventions": changes, "results": rows}
        remarks = {"remarks": list(outcome.remarks), "exact": effects, "not_exact": refused}
        print_json("intervene/2", document | remarks)
        return
    _print(loaded, changes, rows)
    for remark in outcome.remarks:
        messages(quiet).print(remark)
    if effects is not None:
        for line in effects["sentences"]:
            output().print(line)
    elif refused is not None:
        output().print(f"Not decided for every string: {refused}")
    if out is not None:
        output().print(f"The changed model is {out}.")


def _edited(
    loaded: Checkpoint, changes: list[str], texts: list[str], *, must: bool
) -> tuple[Any, str | None]:
    """The changed model, or why its change cannot be written as weights."""
    from tsc_interp.interventions.weights import edit

    try:
        return edit(loaded, changes, strings=texts), None
    except UnsupportedError as error:
        if must:
            raise
        return None, str(error)


def _effects(loaded: Checkpoint, edited: Checkpoint, quiet: bool) -> dict[str, Any]:
    from tsc_interp.output.numbers import number
    from tsc_interp.verification import diff, horizon
    from tsc_interp.verification.verdict import verify_counts

    if loaded.config.needs_order:
        return _effects_in_order(loaded, edited, quiet)
    with working(quiet) as doing:
        doing("deciding every string before and after")
        compared = diff(loaded, edited)
        length = compared.counted.max_length
        wrong = [verify_counts(model, length).tally for model in (loaded, edited)]
        horizons = [horizon(model) for model in (loaded, edited)]
    errors = [t.false_positives.total_strings + t.false_negatives.total_strings for t in wrong]
    first = [h.shortest.string if h.shortest else None for h in horizons]
    sentences = [
        f"Wrong strings of up to {length} letters: {number(errors[0])} before, "
        f"{number(errors[1])} after.",
        f"First error: {first[0] or 'none found'} before, {first[1] or 'none found'} after.",
        f"Answers that change, up to {length} letters: {number(compared.counted.differing)}"
        + (f"; the first is {compared.shortest}." if compared.shortest else "."),
    ]
    return {
        "max_length": length,
        "wrong_before": str(errors[0]),
        "wrong_after": str(errors[1]),
        "horizon_before": horizons[0].to_dict(),
        "horizon_after": horizons[1].to_dict(),
        "diff": compared.to_dict(),
        "sentences": sentences,
    }


def _effects_in_order(loaded: Checkpoint, edited: Checkpoint, quiet: bool) -> dict[str, Any]:
    from tsc_interp.output.numbers import number
    from tsc_interp.verification.order.verify import verify_order

    effects: dict[str, Any] = {"sentences": []}
    with working(quiet) as doing:
        for when, model in (("before", loaded), ("after", edited)):
            doing(f"deciding every input {when}")
            verdict = verify_order(model, seconds=_SECONDS)
            effects |= {
                f"wrong_{when}": str(verdict.wrong),
                f"undecided_{when}": str(verdict.undecided),
            }
            first = verdict.first_wrong
            effects["sentences"].append(
                f"Wrong {when}: {number(verdict.wrong)} of {number(verdict.inputs)} inputs"
                + (f", {number(verdict.undecided)} undecided" if verdict.undecided else "")
                + (f"; one of them is {first.string}." if first else ".")
            )
    return effects


def _print(loaded: Checkpoint, changes: list[str], rows: list[dict[str, Any]]) -> None:
    from tsc_interp.output.table import print_table

    question, binary, name = (
        loaded.config.question,
        loaded.config.n_outputs == 1,
        class_names(loaded),
    )
    cells = []
    for row in rows:
        label = int(loaded.config.classes([row["string"]])[0])
        answers = [_answer(row[when]) for when in ("before", "after")]
        words = {(True, True): "right", (False, False): "wrong",
                 (True, False): "now wrong", (False, True): "now right"}  # fmt: skip
        verdict = words[answers[0] == label, answers[1] == label]
        shown = (
            [f"{row[when]:+.4f}" for when in ("before", "after")] if binary else map(name, answers)
        )
        cells.append([row["string"], *shown, verdict])
    title = f"{loaded.source}: {question}? with {', '.join(changes)}"
    heading = "logit" if binary else "answer"
    columns = ["string", f"{heading} before", f"{heading} after", ""]
    print_table(output(), columns, cells, title=title, right=(1, 2))


def _answer(logits: float | list[float]) -> int:
    """The sign of one output, or the first of the largest."""
    return logits.index(max(logits)) if isinstance(logits, list) else int(logits > 0)
