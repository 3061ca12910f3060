"""What is a logit made of? Direct logit attribution: the parts add up to it. Chapter 2.

The residual stream at the query is a sum, and the read-out is linear, so with read-out direction w

    logit = w·embedding + sum_h,t w·(weight_ht v_ht W_O) + sum_m w·(post_m W_out) + biases

over heads h and letters t, and MLP neurons m, of every layer. With three outputs or more, the logit
is that of the right class minus the largest other one (`target.py`). In order-sensitive models a
head's part is also divided among the positions it reads from. These are direct effects: what a head
adds to the MLP's input is counted in the neurons. A final norm divides every part of a row by its
scale in this forward pass (`ln_final.hook_scale`, `final_norm.py`), so that the parts still add up
to the model's own logit; the result says how exactly they do.

Reads `hook_embed`, `hook_resid_pre`, `hook_pattern`, `hook_v`, `hook_post`, `hook_resid_post` and
`ln_final.hook_scale`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from einops import einsum
from numpy.typing import ArrayLike

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.attribution.final_norm import ReadOut, through_final_norm
from tsc_interp.probes.attribution.result import OUTSIDE, AttributionResult
from tsc_interp.probes.attribution.target import Answer, target
from tsc_interp.probes.running import (
    Floats,
    InputOptions,
    Pass,
    chosen_layers,
    readout_direction,
    start,
    weight,
)
from tsc_interp.probes.scores import same_for_heads
from tsc_interp.probes.standing_out import under_chance
from tsc_interp.results.base import LabeledArray, that_hold

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-4
"""How far the sum may be from the read-out, relative to the parts: float32 activations."""
MOST_NUMBERS = 20_000
"""Effects by position that are kept."""
MOST_PARTS = 1000
"""Parts told one by one; of more, the small ones of each head and MLP are told together."""
READS = (
    "hook_embed", "blocks.0.hook_resid_pre", "hook_resid_post", "attn.hook_pattern", "attn.hook_v",
    "mlp.hook_post", "ln_final.hook_scale",
)  # fmt: skip


@dataclass(frozen=True)
class Effect:
    name: str
    group: str
    effect: Floats
    """`[row]`."""


def run(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    layer: int | None = None,
    direction: ArrayLike | Tensor | None = None,
    answer: Answer | None = None,
    **options: Unpack[InputOptions],
) -> AttributionResult:
    """`layer` stops after that layer: what the residual stream there says in the direction.

    `direction` is a vector in residual space, say a column of W_U; `answer` an output, one for all
    rows or one for each, whose lead over the next is attributed. Without either it is our
    classifier's logit, the right class of several, and what any other model answers.
    """

    def forward() -> Pass:
        return start(model, strings, reads=READS, **options)

    given = forward()
    wanted = target(model, given, direction, answer)
    w = wanted.direction
    last = chosen_layers(model, layer)[-1]
    at_end = last == model.cfg.n_layers - 1
    seen = through_final_norm(model, given, w) if at_end else ReadOut(w)
    parts = _parts(model, given, seen, last)
    logits = seen.of(given.at_query(f"blocks.{last}.hook_resid_post"))
    logits = logits if seen.shift is None else logits + seen.shift
    if wanted.bias is not None and wanted.bias.any() and at_end:
        parts.append(Effect("output bias", "biases", wanted.bias))
        logits = logits + wanted.bias
    _check_sum(given, np.stack([part.effect for part in parts], axis=1), logits, last)
    names, by_group = _grouped(parts)
    sources = _sources(model, given, seen, last)
    parts = _gathered(parts)
    notes, chance = _not_applicable(model, given, last, seen), None
    if given.config is None:
        given = replace(given, logits=None, cache={})  # a second pass needs the room
        chance = max(under_chance(model, lambda: _largest_by_chance(model, forward(), w, last)))
    config, labels = given.config, None
    if config is not None and config.n_outputs == 1:
        labels = tuple(config.classes(given.rows).tolist())
    return AttributionResult(
        not_applicable=notes,
        effects=LabeledArray.of(
            np.stack([part.effect for part in parts], axis=1),
            string=given.rows,
            part=[part.name for part in parts],
        ),
        by_group=LabeledArray.of(by_group, string=given.rows, group=names),
        groups=tuple(part.group for part in parts),
        logits=LabeledArray.of(logits, string=given.rows),
        labels=labels if at_end else None,
        chance=chance,
        answers=wanted.answers if at_end else (),
        sources=sources,
    )


def _grouped(parts: list[Effect]) -> tuple[list[str], Floats]:
    """The groups, and their effects `[row group]`."""
    groups: dict[str, Floats] = {}
    for part in parts:
        groups[part.group] = groups.get(part.group, 0.0) + part.effect
    return list(groups), np.stack(list(groups.values()), axis=1)


def _parts(model: Any, run: Pass, seen: ReadOut, last: int) -> list[Effect]:
    embedded = run.at_query("hook_embed")
    parts = [Effect("embedding", "embedding", seen.of(embedded))]
    positions = run.at_query("blocks.0.hook_resid_pre") - embedded
    if positions.any():
        parts.append(Effect("position", "embedding", seen.of(positions)))
    for index in range(last + 1):
        where = "" if model.cfg.n_layers == 1 else f"layer {index} "
        if f"blocks.{index}.attn.hook_pattern" in run.cache:
            parts += _heads(model, run, seen, index, where)
            parts += _bias(model, index, "attn", "b_O", seen, f"{where}attention bias", run)
        if f"blocks.{index}.mlp.hook_post" in run.cache:
            parts += _neurons(model, run, seen, index, where)
            parts += _bias(model, index, "mlp", "b_out", seen, f"{where}MLP bias", run)
    if seen.shift is not None and seen.shift.any():
        parts.append(Effect("final norm's shift", "biases", seen.shift))
    return parts


def _heads(model: Any, run: Pass, seen: ReadOut, index: int, where: str) -> list[Effect]:
    """Each head's effect, divided among the tokens it attends to."""
    by_key = _by_key(model, run, seen, index)
    tokens = np.unique(run.tokens[(run.pattern(index) > 0).any(axis=1)])
    members = np.asarray(run.tokens[:, :, None] == tokens, dtype=np.float64)
    effects = by_key @ members  # [row head token]
    names = run.names(tokens)
    return [
        Effect(f"{where}head {h} ← {name}", f"{where}head {h}", effects[:, h, t])
        for h in range(effects.shape[1])
        for t, name in enumerate(names)
    ]


def _by_key(model: Any, run: Pass, seen: ReadOut, index: int) -> Floats:
    """`[row head key]`: what each head adds by attending to each position."""
    pattern, output = run.pattern(index), weight(model, index, "attn", "W_O")
    if output is None:
        raise UnsupportedError(f"layer {index} of this model has no W_O to attribute through")
    values = same_for_heads(run.activation(f"blocks.{index}.attn.hook_v"), pattern.shape[1])
    reads = einsum(output, seen.direction, "head d_head d_model, row d_model -> row head d_head")
    written = einsum(values, reads, "row key head d_head, row head d_head -> row head key")
    return seen.scaled(pattern * written)


def _sources(model: Any, run: Pass, seen: ReadOut, last: int) -> LabeledArray | None:
    """`[string head position]`; None where places have no order, or where they are too many."""
    if run.config is not None and not run.config.needs_order:
        return None
    parts, names = [], []
    for index in range(last + 1):
        if f"blocks.{index}.attn.hook_pattern" in run.cache:
            parts.append(_by_key(model, run, seen, index))
            where = "" if model.cfg.n_layers == 1 else f"layer {index} "
            names += [f"{where}head {head}" for head in range(parts[-1].shape[1])]
    if not parts or sum(part.size for part in parts) > MOST_NUMBERS:
        return None
    places = range(run.tokens.shape[1])
    return LabeledArray.of(np.concatenate(parts, 1), string=run.rows, head=names, position=places)


def _neurons(model: Any, run: Pass, seen: ReadOut, index: int, where: str) -> list[Effect]:
    output = weight(model, index, "mlp", "W_out")
    if output is None:
        raise UnsupportedError(f"layer {index} of this model has an MLP without W_out")
    post = run.at_query(f"blocks.{index}.mlp.hook_post")
    effects = seen.scaled(post * (seen.direction @ output.T))
    return [
        Effect(f"{where}neuron {m}", f"{where}MLP", effects[:, m]) for m in range(effects.shape[1])
    ]


def _bias(
    model: Any, index: int, part: str, name: str, seen: ReadOut, called: str, run: Pass
) -> list[Effect]:
    bias = weight(model, index, part, name)
    if bias is None or not bias.any():
        return []
    return [Effect(called, "biases", seen.scaled(seen.direction @ bias))]


def readouts(
    model: Any,
    strings: Any,
    *,
    direction: ArrayLike | Tensor,
    **options: Unpack[InputOptions],
) -> Floats:
    """`[row]`: what the last layer's residual stream says in the direction, norm included."""
    w = readout_direction(model, direction)
    assert w is not None
    last = f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"
    run = start(model, strings, reads=(last, "ln_final.hook_scale"), **options)
    seen = through_final_norm(model, run, np.tile(w, (len(run.rows), 1)))
    readout = seen.of(run.at_query(last))
    return readout if seen.shift is None else readout + seen.shift


def _largest_by_chance(model: Any, run: Pass, w: Floats, last: int) -> float:
    """The largest mean effect of a head or MLP, of a model whose weights are shuffled now."""
    at_end = last == model.cfg.n_layers - 1
    seen = through_final_norm(model, run, w) if at_end else ReadOut(w)
    names, effects = _grouped(_parts(model, run, seen, last))
    size = np.abs(effects).mean(axis=0)
    return max(float(size[g]) for g, name in enumerate(names) if name not in OUTSIDE)


def _gathered(parts: list[Effect]) -> list[Effect]:
    """The parts with the largest effects, and for each group one that is all its others."""
    if len(parts) <= MOST_PARTS:
        return parts
    size = np.array([np.abs(part.effect).max() for part in parts])
    kept = np.zeros(len(parts), dtype=bool)
    kept[np.argsort(-size, kind="stable")[:MOST_PARTS]] = True
    rest: dict[str, list[Effect]] = {}
    for part, stays in zip(parts, kept, strict=True):
        if not stays:
            rest.setdefault(part.group, []).append(part)
    together = [
        Effect(
            f"{group}: {len(small)} smaller parts", group, np.sum([p.effect for p in small], axis=0)
        )
        for group, small in rest.items()
    ]
    return [part for part, stays in zip(parts, kept, strict=True) if stays] + together


def _check_sum(run: Pass, effects: Floats, logits: Floats, last: int) -> None:
    worst = float(np.abs(effects.sum(1) - logits).max())
    # Coarse formats round the residual stream at every addition: two in each layer.
    rounding = 2 * (last + 2) * run.epsilon(f"blocks.{last}.hook_resid_post")
    largest = max(1.0, float(np.abs(effects).sum(1).max()))
    if not worst <= max(TOLERANCE, rounding) * largest:
        raise UnsupportedError(
            f"the parts miss the residual stream's read-out by {worst:.3g}: this model adds "
            "something these hooks do not show (a norm after a sub-layer, a parallel path)"
        )


def _not_applicable(model: Any, run: Pass, last: int, seen: ReadOut) -> tuple[str, ...]:
    attending = [i for i in range(last + 1) if f"blocks.{i}.attn.hook_pattern" in run.cache]
    padding = None if run.padding is None else run.names([run.padding])[0]
    return that_hold({
        f"layers after {last} are left out, so the sum is not the final read-out":
        last < model.cfg.n_layers - 1,
        "the final norm's scale is taken as it was in this forward pass: what a part would change "
        "by changing that scale is not counted": seen.scale is not None,
        f"`{padding}` looks like padding and is attended to: pass attention_mask (1 for tokens, 0 "
        "for padding) if it is": padding is not None and run.padding_weight(attending) > 0,
    })  # fmt: skip
