"""Which part of a model makes it wrong on an input: the ablation and patterns probes, in words.

Every head and MLP is replaced by its mean over inputs drawn by chance, one at a time, at the
position whose answer is wrong. A part without which the answer is right is the cause as far as one
part can be; for a head it is also said where that position attends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tsc_interp.errors import TscError
from tsc_interp.falsification.question import Question
from tsc_interp.probes.ablation import AblationResult, ablation
from tsc_interp.results.base import Cell, Finding

SAMPLE = 64


def mechanism(model: Any, question: Question, row: list[int]) -> tuple[Finding, ...]:
    """What the probes say of one wrong row; nothing where they do not know the model."""
    if model is None:
        return ()
    frame = question.frame
    n = len(row) - frame.length(0)
    sample = frame.rows(frame.sample(SAMPLE, np.random.default_rng(0), n))
    rows = np.vstack([[row], sample])
    labels = question.labels(rows)
    answers = np.array(question.answer(row))
    at = int((answers != labels[0]).argmax())
    position, label = frame.reads(n)[at], int(question.wanted(labels[:1])[0, at])
    written = question.written(rows, labels)
    try:
        probed = ablation.run(model, written, query=position, answer=label)
        assert isinstance(probed, AblationResult)
        lead = float(probed.leads.array[0])
        effects = probed.effects.array[1, :, 0]
        parts = probed.effects.labels["part"]
        best = int(effects.argmax())
        mended = int((probed.after.array[1, :, 0] == label).sum())
        text = (
            f"With its mean over {SAMPLE} other inputs in its place, {parts[best]} moves the right "
            f"answer's lead from {lead:.3g} to {lead + effects[best]:.3g}, the most of "
            f"{len(parts)} parts"
        )
        if effects[best] <= 0:
            text = (
                f"No head or MLP alone makes it wrong: with its mean over {SAMPLE} other inputs in "
                f"its place, none of {len(parts)} raises the right answer's lead of {lead:.3g}."
            )
        else:
            text += ": without it the answer is right" if lead + effects[best] > 0 else ""
            text += f"; {mended} parts do that alone." if mended > 1 else "."
            text += _attention(model, question, written[0], position, parts[best])
    except (TscError, AttributeError, KeyError, TypeError):
        return ()
    numbers: dict[str, Cell] = {"lead": lead, "effect": float(effects[best])}
    return (Finding(severity="note", text=text, numbers=numbers),)


def _attention(model: Any, question: Question, row: Any, position: int, part: str) -> str:
    """Where a head looks, from the position that is wrong."""
    import torch

    words = part.split()
    if words[-2:-1] != ["head"]:
        return ""
    layer = int(words[1]) if words[0] == "layer" else 0
    name = f"blocks.{layer}.attn.hook_pattern"
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.tensor([row.tolist()]), names_filter=name)
    weights = cache[name][0, int(words[-1]), position].float().cpu().numpy()
    best = int(weights.argmax())
    token = question.frame.text([int(row[best])])
    return (
        f" From position {position}, whose answer is wrong, it attends most to position {best}, "
        f"`{token}`, with weight {weights[best]:.2f}."
    )
