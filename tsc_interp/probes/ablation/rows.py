"""Ablation of any TransformerLens model, by hooks: what happens without each head and each MLP.

The part's output (`hook_z` of a head, `hook_mlp_out`) becomes zero, or at each position its mean
over the rows. Measured is the lead of the answer, its logit less the largest other one, and whether
the answer changes. The answer is what the model says as it is, or the one that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.parts import Part
from tsc_interp.probes.ablation.result import AblationResult, Answers
from tsc_interp.probes.inputs import Floats, as_array
from tsc_interp.probes.token_rows import (
    Query,
    TokenNames,
    answers_of,
    device_of,
    name_of,
    need_method,
    token_rows,
)
from tsc_interp.results.base import LabeledArray

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

MOST_WORK = 100_000_000_000
"""Parameters times tokens times passes: some 30 seconds of one processor core."""
Hook = Callable[[Any, Any], Any]


def run_rows(
    model: Any,
    tokens: Any,
    *,
    query: Query | None = None,
    answer: int | Sequence[int] | None = None,
    token_names: TokenNames | None = None,
    attention_mask: ArrayLike | Tensor | None = None,
) -> AblationResult:
    import torch

    need_method(model, "run_with_hooks")
    given = token_rows(model, tokens, query, attention_mask)
    cfg = model.cfg
    thinks = bool(getattr(cfg, "d_mlp", None)) and not getattr(cfg, "attn_only", False)
    parts = []
    for layer in range(cfg.n_layers):
        parts += [Part("head", layer, head) for head in range(cfg.n_heads)]
        parts += [Part("mlp", layer)] if thinks else []
    _check_work(model, given.tokens.size, 1 + 2 * len(parts))
    ids = torch.from_numpy(given.tokens).to(device_of(model))
    kept = torch.from_numpy(given.kept).to(ids.device)
    options = {} if attention_mask is None else {"attention_mask": kept.long()}
    at = np.arange(len(ids)), given.query

    def logits(hook: tuple[str, Hook] | None) -> Floats:
        with torch.no_grad():
            out = model.run_with_hooks(ids, fwd_hooks=[hook] if hook else [], **options)
        return as_array(out[at]).reshape(len(ids), -1)

    before = logits(None)
    answers = before.argmax(1) if before.shape[1] > 1 else (before[:, 0] > 0).astype(np.int64)
    chosen = answers_of(answer, answers, max(2, before.shape[1]))
    names = tuple(f"row {row}" for row in range(len(ids)))
    effects = np.zeros((2, len(parts), len(ids)))
    after = np.zeros((2, len(parts), len(ids)))
    for c, mean in enumerate((False, True)):
        for p, part in enumerate(parts):
            changed = logits((part.hook, _without(part, kept if mean else None)))
            effects[c, p] = _lead(changed, chosen) - _lead(before, chosen)
            many_outputs = changed.shape[1] > 1
            after[c, p] = changed.argmax(1) if many_outputs else changed[:, 0] > 0
    called = [
        f"layer {part.layer} " * (cfg.n_layers > 1)
        + ("MLP" if part.index is None else f"head {part.index}")
        for part in parts
    ]
    axes: dict[str, Any] = {"change": ("zero", "mean"), "part": called}
    outputs = {int(output) for output in (*answers, *after.ravel(), *chosen)}
    tokens_out = before.shape[1] == getattr(cfg, "d_vocab", None)
    return AblationResult(
        mean_over="the given rows, position by position",
        logits=LabeledArray.of(_lead(before, chosen), string=names),
        effects=LabeledArray.of(effects, **axes, string=names),
        answers=Answers(
            rows=len(ids),
            before=LabeledArray.of(answers, string=names),
            after=LabeledArray.of(after, **axes, string=names),
            changed=LabeledArray.of((after != answers).sum(-1), **axes),
            mean_effect=LabeledArray.of(effects.mean(-1), **axes),
            names={str(o): name_of(token_names if tokens_out else None, o) for o in outputs},
        ),
    )


def _check_work(model: Any, tokens: int, passes: int) -> None:
    size = sum(parameter.numel() for parameter in model.parameters())
    if size * tokens * passes > MOST_WORK:
        fits = max(1, MOST_WORK // max(1, size * passes))
        raise UnsupportedError(
            f"removing each of {(passes - 1) // 2} parts takes {passes} passes over {tokens:,} "
            f"tokens, which is too much for a model of {size:,} parameters; {fits:,} tokens fit"
        )


def _without(part: Part, kept: Any) -> Hook:
    """The hook that removes the part: zero, or the mean over the rows that have the position."""

    def remove(activation: Any, hook: Any) -> Any:
        changed = activation.clone()
        index = (slice(None), slice(None)) + (() if part.index is None else (part.index,))
        new = 0.0
        if kept is not None:
            share = kept[..., None].to(activation.dtype)
            new = (activation[index] * share).sum(0) / share.sum(0).clamp(min=1)
        changed[index] = new
        return changed

    return remove


def _lead(logits: Floats, chosen: Any) -> Floats:
    """The answer's logit less the largest of the others; of one output, towards the answer."""
    if logits.shape[1] == 1:
        return np.asarray(np.where(np.asarray(chosen) > 0, 1.0, -1.0) * logits[:, 0])
    rows = np.arange(len(logits))
    others = logits.copy()
    others[rows, chosen] = -np.inf
    return np.asarray(logits[rows, chosen] - others.max(1))
