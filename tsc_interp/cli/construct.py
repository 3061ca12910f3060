"""`tsc-interp construct`: a classifier written down for a task and a length, and its proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tsc_interp.cli.common import tell, working
from tsc_interp.cli.signature import takes

if TYPE_CHECKING:
    from tsc_interp.construction.written import Construction
    from tsc_interp.verification.certificates import Certificate


@takes("construction/construct.py:construct", "scores")
def command(
    *,
    every_length: bool = False,
    log_n: bool = False,
    out: Path | None = None,
    certificate: Path | None = None,
    check: bool = True,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Construct a small classifier and prove up to which length it is right.

    For two letters up to a length, no classifier of this family has fewer weights. Exit code 3 if
    the checker cannot prove the model right up to its length.

    Args:
        max_length: The length up to which it is right; unlimited for at_least and --log-n.
        every_length: Right at every length with plain softmax; the logit tends to zero.
        log_n: Scale scores by log n: right at every length.
        out: Write the model here (.safetensors).
        certificate: Write the certificate here (.json).
        check: Prove with a certificate that the model is right.
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
    max_length = options.pop("max_length")
    model = construct(
        **options,
        max_length=None if every_length else max_length,
        scores="log_n" if log_n else "plain",
    )
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
    lines = [*_sentences(model, proof), *([] if out is None else [f"The model is {out}."])]
    tell(as_json, "construct/2", lambda: _document(model, proof), lines)
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
