"""`tsc-interp construct`: a classifier written down for a task and a length, and its proof."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tsc_interp.cli.common import ForceOption, JsonOption, QuietOption, output, print_json, working

if TYPE_CHECKING:
    from tsc_interp.construction.written import Construction
    from tsc_interp.verification.certificates import Certificate


class Task(StrEnum):
    contains_all = "contains_all"
    at_least = "at_least"
    majority = "majority"
    parity = "parity"


def command(
    task: Task = typer.Option(Task.contains_all, help="The task of the classifier."),
    letters: str = typer.Option("ab", help="The letters of contains_all."),
    letter: str = typer.Option("a", help="The letter of the other tasks."),
    k: int = typer.Option(2, "-k", help="How often the letter must occur, for at_least."),
    n_letters: int | None = typer.Option(
        None, help="The size of the alphabet (default: 3, or what is needed)."
    ),
    max_length: int = typer.Option(
        1000, help="The length up to which it is right; unlimited for at_least and --log-n."
    ),
    every_length: bool = typer.Option(
        False,
        "--every-length",
        help="Right at every length with plain softmax; the logit tends to zero.",
    ),
    log_n: bool = typer.Option(
        False, "--log-n", help="Scale scores by log n: right at every length."
    ),
    mlp: bool = typer.Option(
        True, "--mlp/--no-mlp", help="For two letters: use a neuron instead of a second head."
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the model here (.safetensors)."
    ),
    certificate: Path | None = typer.Option(None, help="Write the certificate here (.json)."),
    check: bool = typer.Option(
        True, "--check/--no-check", help="Prove with a certificate that the model is right."
    ),
    force: ForceOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Construct a small classifier and prove up to which length it is right.

    For two letters up to a length, no classifier of this family has fewer weights. Exit code 3 if
    the checker cannot prove the model right up to its length.
    """
    from tsc_interp.checkpoints.checkpoint import is_checkpoint
    from tsc_interp.construction.construct import construct
    from tsc_interp.errors import UsageError
    from tsc_interp.files import check_output
    from tsc_interp.verification.certificates import certify_counts
    from tsc_interp.verification.documents import is_certificate

    if certificate is not None and not check:
        raise UsageError("there is no certificate to write with --no-check")
    if out is not None:
        check_output(out, is_checkpoint, force=force)
    if certificate is not None:
        check_output(certificate, is_certificate, force=force)
    model = construct(
        task.value, letters=letters, letter=letter, k=k, n_letters=n_letters,
        max_length=None if every_length else max_length, scores="log_n" if log_n else "plain",
        mlp=mlp,
    )  # fmt: skip
    proof = None
    if check:
        with working(quiet) as doing:
            doing("certifying")
            limit = 4 * model.length if model.length else min(max(max_length, 2), 10**6)
            proof = certify_counts(model, limit=limit)
    if out is not None:
        model.checkpoint.save(out, force=force)
    if certificate is not None and proof is not None:
        proof.save(certificate, force=force)
    if as_json:
        print_json("construct/2", _document(model, proof))
    else:
        for sentence in _sentences(model, proof):
            output().print(sentence)
        if out is not None:
            output().print(f"The model is {out}.")
    if proof is not None and not _kept(model, proof):
        raise typer.Exit(3)


def _kept(model: Construction, proof: Certificate) -> bool:
    """Whether the checker went as far as was promised, or as far as it was asked to look."""
    if model.length is None:
        return proof.horizon.infinite or proof.horizon.verified_length == proof.horizon.limit
    return proof.horizon.verified_length >= model.length


def _sentences(model: Construction, proof: Certificate | None) -> list[str]:
    task = model.checkpoint.config.task.describe()
    sentences = [f"{task[:1].upper()}{task[1:]}: {model.shape()}.", f"Idea: {model.how}."]
    if proof is None:
        return [*sentences, f"Written to be {model.promise}; not checked."]
    reach = proof.horizon
    if reach.infinite:
        return [*sentences, "Proved: right on every string of every length."]
    sentences.append(f"Proved: right on every string up to {reach.verified_length:,} letters.")
    if reach.shortest is not None:
        sentences.append(f"The first error is {reach.shortest.text}.")
    elif model.length is None:
        sentences.append("Beyond that it is right by a proof on paper (documentation, construct).")
    return sentences


def _document(model: Construction, proof: Certificate | None) -> dict[str, Any]:
    if proof is None:
        return {**model.to_dict(), "horizon": None, "proved": []}
    return {**model.to_dict(), "horizon": proof.horizon.to_dict(), "proved": list(proof.proved)}
