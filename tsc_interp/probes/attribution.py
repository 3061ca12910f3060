"""What is a logit made of? Direct logit attribution: the parts add up to it. Chapter 2.

The residual stream at the query is a sum, and the read-out is linear, so with read-out direction w

    logit = w·embedding + sum_h,t w·(weight_ht v_ht W_O) + sum_m w·(post_m W_out) + biases

over heads h and letters t, and MLP neurons m, of every layer. With three outputs or more, the logit
is that of the right class minus the largest other one (`readout.py`). In order-sensitive models a
head's part is also divided among the positions it reads from. These are direct effects: what a head
adds to the MLP's input is counted in the neurons. A final norm divides every part of a row by its
scale in this forward pass (`ln_final.hook_scale`), so that the parts still add up to the model's
own logit; the result says how exactly they do.

Reads `hook_embed`, `hook_resid_pre`, `hook_pattern`, `hook_v`, `hook_post`, `hook_resid_post` and
`ln_final.hook_scale`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from einops import einsum

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.inputs import Floats, Inputs, Pass, chosen_layers, weight
from tsc_interp.probes.probe import ROW_OPTIONS, probe
from tsc_interp.probes.readout import ReadOut, target, through_final_norm
from tsc_interp.probes.scores import same_for_heads
from tsc_interp.probes.standing_out import under_chance
from tsc_interp.results.base import (
    Cell,
    Finding,
    LabeledArray,
    Number,
    ProbeResult,
    Table,
    largest,
    that_hold,
)
from tsc_interp.results.views import Heat, Rows, Stack, shown

TOLERANCE = 1e-4
"""How far the sum may be from the read-out, relative to the parts: float32 activations."""
MOST_NUMBERS = 20_000
"""Effects by position that are kept."""
MOST_PARTS = 1000
"""Parts told one by one; of more, the small ones of each head and MLP are told together."""
MOST_ROWS = 200
"""Parts in a table."""
MOST_NAMED = 5
OUTSIDE = ("embedding", "biases")
"""Groups that are no head and no MLP."""
READS = (
    "hook_embed", "blocks.0.hook_resid_pre", "hook_resid_post", "attn.hook_pattern", "attn.hook_v",
    "mlp.hook_post", "ln_final.hook_scale",
)  # fmt: skip


class AttributionResult(ProbeResult):
    """The parts of each logit."""

    probe: ClassVar[str] = "attribution"

    by_group: Annotated[
        LabeledArray,
        Stack(
            "What each {result.total} is made of",
            "Bars to the right of zero {result.up}, bars to the left {result.down}; the diamond is "
            "their sum, the {result.total}. These are direct effects: what a head tells the MLP "
            "counts as MLP.",
            x="effect", name="sums", form="+.4f", table=False,
        ),
    ]  # fmt: skip
    """`[string group]`: embedding, each head, each MLP, biases."""
    effects: Annotated[
        LabeledArray,
        Heat(
            "Every part of every {result.total}",
            "One column per {result.row}; its cells add up to its {result.total}. Vermillion cells "
            "{result.up}, blue ones {result.down}. 'head 0 ← a' is what head 0 adds by looking at "
            "a.",
            across="string", name="parts", form="+.2f", most=24, table=False,
        ),
    ]  # fmt: skip
    """`[string part]`: what each part adds to the logit."""
    groups: tuple[str, ...]
    """The group of each part."""
    logits: LabeledArray
    """`[string]`: the model's own read-out."""
    labels: tuple[int, ...] | None = None
    """The true label of each string, for a model with a task."""
    chance: Number | None = None
    """Without a task: the largest mean effect of any head or MLP with shuffled weights."""

    answers: tuple[str, ...] = ()
    """`7 over 3`, for each string: which output's lead over which other is attributed."""
    sources: LabeledArray | None = None
    """`[string head position]`: a head's effect by where it reads from, where order counts."""

    @property
    def row(self) -> str:
        """What is attributed: strings of our classifier, rows of any other model."""
        return "row" if self.chance is not None else "string"

    @property
    def total(self) -> str:
        """What the parts add up to."""
        if self.answers:
            return "logit difference"
        return "read-out" if self.chance is not None else "logit"

    @property
    def up(self) -> str:
        """What a positive effect does, in words."""
        if self.answers:
            return "speak for the answer"
        return "raise it" if self.chance is not None else "push towards yes"

    @property
    def down(self) -> str:
        """What a negative effect does."""
        return {"speak for the answer": "against it", "raise it": "lower it"}.get(
            self.up, "towards no"
        )

    @property
    def error(self) -> float:
        """The largest difference between the sum of the parts and the read-out."""
        return float(np.abs(self.effects.array.sum(1) - self.logits.array).max())

    @shown(
        Heat(
            "What each head adds, by the position it reads from",
            "Averaged over the {result.row}s; columns are positions. Vermillion cells {result.up}, "
            "blue ones {result.down}.",
            name="sources", form="+.2f", most=12, table=False,
        )
    )  # fmt: skip
    def mean_sources(self) -> LabeledArray | None:
        """`[head position]`."""
        if self.sources is None:
            return None
        labels = {dim: self.sources.labels[dim] for dim in ("head", "position")}
        return LabeledArray.of(self.sources.array.mean(0), **labels)

    @shown(Rows("Each string's logit"))
    def sums(self) -> Table:
        groups, strings = self.by_group.labels["group"], self.effects.labels["string"]
        rows = zip(strings, self.by_group.array.tolist(), self.logits.array.tolist(), strict=True)
        return Table.from_rows(
            f"Each {self.row}'s {self.total}",
            (self.row, *groups, self.total),
            ((string, *row, logit) for string, row, logit in rows),
        )

    @shown(Rows("Each part"))
    def parts(self) -> Table:
        effects = self.effects.array
        mean, size = effects.mean(0).tolist(), np.abs(effects).mean(0).tolist()
        rows = list(zip(self.effects.labels["part"], self.groups, mean, size, strict=True))
        title = f"Each part, averaged over the {self.row}s"
        if len(rows) > MOST_ROWS:
            rows = sorted(rows, key=lambda row: -row[3])[:MOST_ROWS]
            title += f" (the {MOST_ROWS} largest)"
        return Table.from_rows(title, ("part", "group", "mean", "mean size"), rows)

    # -- in sentences --

    def conclude(self) -> Iterator[Finding]:
        count, strings = len(self.groups), self.effects.labels["string"]
        subject = "read-out at" if self.labels is None else "logit of"
        if self.answers:
            subject = "lead of the answer in"
        text = (
            f"The {subject} each of the {len(strings)} {self.row}s is the sum of {count} parts, "
            f"to within {self.error:.1g}."
        )
        yield Finding.of(text, {"error": self.error, "parts": count}, "good")
        if (mean := self.mean_sources) is not None:
            head, place = np.unravel_index(np.abs(mean.array).argmax(), mean.shape)
            size, reader = float(mean.array[head, place]), mean.labels["head"][head]
            text = (
                f"The largest effect of one position is that of position "
                f"{mean.labels['position'][place]} through {reader}: {size:+.4f} on average."
            )
            yield Finding.of(text, {"mean effect": size}, head=reader, position=int(place))
        if self.chance is not None:
            yield self._beyond_chance(self.chance)
            return
        if self.labels is None:
            sizes = np.abs(self.by_group.array).mean(0)
            name = self.by_group.labels["group"][int(sizes.argmax())]
            text = f"The largest effect is that of {name}: {sizes.max():.4f} in mean size."
            yield Finding.of(text, {"mean size": float(sizes.max())}, part=name)
        elif 0 < sum(self.labels) < len(self.labels):
            yield self._separation(np.array(self.labels, dtype=bool))
        wrong = self.logits.array < 0 if self.answers else np.zeros(len(strings), dtype=bool)
        if self.labels is not None:
            wrong = (self.logits.array > 0) != np.array(self.labels, dtype=bool)
        if wrong.any():
            yield self._wrong(int(wrong.argmax()), wrong)

    def _beyond_chance(self, chance: float) -> Finding:
        """Which heads and MLPs do more than any with shuffled weights."""
        size, groups = np.abs(self.by_group.array).mean(0), self.by_group.labels["group"]
        inside = [g for g, name in enumerate(groups) if name not in OUTSIDE]
        beyond = sorted((g for g in inside if size[g] > chance), key=lambda g: -float(size[g]))
        text = (
            f"{len(beyond) or 'None'} of {len(inside)} heads and MLPs "
            f"{'has' if len(beyond) < 2 else 'have'} a larger mean direct effect than any has with "
            f"shuffled weights ({chance:.4f})"
        )
        named = ", ".join(f"{groups[g]} {size[g]:.4f}" for g in beyond[:MOST_NAMED])
        more = ", ..." if len(beyond) > MOST_NAMED else ""
        numbers: dict[str, Cell] = {groups[g]: float(size[g]) for g in beyond[:MOST_NAMED]}
        text += f": {named}{more}." if beyond else "."
        return Finding.of(text, {"chance": chance, **numbers})

    def _separation(self, labels: np.ndarray) -> Finding:
        """Which group tells positive from negative strings: the difference of its mean effects."""
        effects, groups = self.by_group.array, self.by_group.labels["group"]
        difference = effects[labels].mean(0) - effects[~labels].mean(0)
        order = np.argsort(-np.abs(difference), kind="stable")[:3]
        parts = ", ".join(f"{groups[g]} {difference[g]:+.2f}" for g in order)
        rise = float(difference.sum())
        text = f"From negative to positive strings the mean logit changes by {rise:+.2f}: {parts}."
        return Finding.of(text, {groups[g]: float(difference[g]) for g in order})

    def _wrong(self, row: int, wrong: np.ndarray) -> Finding:
        """The logit as a sum, and where it departs from right strings of the same label."""
        string, logit = self.effects.labels["string"][row], float(self.logits.array[row])
        numbers: dict[str, Cell] = {self.total: logit}
        if self.labels is None:
            kind = f"is wrong: the lead of class {self.answers[row]}"
            like = np.zeros(len(wrong), dtype=bool)
        else:
            kind = f"is a false {'negative' if self.labels[row] else 'positive'}: its logit"
            like = ~wrong & (np.array(self.labels) == self.labels[row])
        text = f"`{string}` {kind} {logit:+.4f} = {self._sum(row)}."
        if like.any():
            change = self.effects.array[row] - self.effects.array[like].mean(0)
            most = int((change if logit > 0 else -change).argmax())
            part = self.effects.labels["part"][most]
            text += (
                f" Compared with right strings of the same label, {part} changes it most "
                f"({change[most]:+.2f})."
            )
            numbers[part] = float(change[most])
        return Finding.of(text, numbers, "failure", string=string)

    def _sum(self, row: int) -> str:
        """`embedding -4.13, head 0 -1.83, ...`, the smallest of many left to "the rest"."""
        effects, groups = self.by_group.array[row], self.by_group.labels["group"]
        kept = largest(np.abs(effects), MOST_NAMED)
        parts = [f"{groups[g]} {effects[g]:+.2f}" for g in kept]
        if len(groups) > MOST_NAMED:
            parts.append(f"the rest {effects.sum() - effects[kept].sum():+.2f}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Effect:
    name: str
    group: str
    effect: Floats
    """`[row]`."""


@probe(
    AttributionResult,
    title="What adds up to the logit?",
    question="How much does each head, letter and neuron add to the logit?",
    chapter="2",
    any_model=True,
    accepts=(*ROW_OPTIONS, "answer"),
    row_by_row=True,
    token_title="What adds up to the read-out?",
    token_question="How much does each head, token and neuron add to the read-out?",
)
def attribution(inputs: Inputs, *, layer: int | None = None) -> AttributionResult:
    """`layer` stops after that layer: what the residual stream there says in the direction.

    `direction` is a vector in residual space, say a column of W_U; `answer` an output, one for all
    rows or one for each, whose lead over the next is attributed. Without either it is our
    classifier's logit, the right class of several, and what any other model answers.
    """

    model, given = inputs.model, inputs.run(*READS)
    wanted = target(model, given, inputs.given_direction, inputs.answer)
    w = wanted.direction
    last = chosen_layers(model, layer)[-1]
    at_end = last == model.cfg.n_layers - 1
    seen = through_final_norm(model, given, w) if at_end else ReadOut(w)
    parts, by_place = _parts(model, given, seen, last)
    logits = seen.of(given.at_query(f"blocks.{last}.hook_resid_post"))
    logits = logits if seen.shift is None else logits + seen.shift
    if wanted.bias is not None and wanted.bias.any() and at_end:
        parts.append(Effect("output bias", "biases", wanted.bias))
        logits = logits + wanted.bias
    _check_sum(given, np.stack([part.effect for part in parts], axis=1), logits, last)
    by_group = _grouped(parts)
    parts = _gathered(parts)
    ordered = given.config is None or given.config.needs_order
    few = 0 < sum(heads.size for heads in by_place.values()) <= MOST_NUMBERS
    notes, chance = _not_applicable(model, given, last, seen), None
    if given.config is None:

        def by_chance() -> float:
            return _largest_by_chance(model, inputs.fresh().run(*READS), w, last)

        chance = max(under_chance(model, by_chance))
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
        by_group=LabeledArray.of(
            np.stack(list(by_group.values()), axis=1), string=given.rows, group=by_group
        ),
        groups=tuple(part.group for part in parts),
        logits=LabeledArray.of(logits, string=given.rows),
        labels=labels if at_end else None,
        chance=chance,
        answers=wanted.answers if at_end else (),
        sources=LabeledArray.of(
            np.stack(list(by_place.values()), 1),
            string=given.rows, head=by_place, position=range(given.tokens.shape[1]),
        ) if ordered and few else None,
    )  # fmt: skip


def _grouped(parts: list[Effect]) -> dict[str, Floats]:
    """Of each group the effects `[row]`."""
    groups: dict[str, Floats] = {}
    for part in parts:
        groups[part.group] = groups.get(part.group, 0.0) + part.effect
    return groups


def _parts(
    model: Any, run: Pass, seen: ReadOut, last: int
) -> tuple[list[Effect], dict[str, Floats]]:
    """All parts, and of each head what it adds by attending to each position, `[row position]`."""
    embedded = run.at_query("hook_embed")
    parts = [Effect("embedding", "embedding", seen.of(embedded))]
    by_place: dict[str, Floats] = {}
    positions = run.at_query("blocks.0.hook_resid_pre") - embedded
    if positions.any():
        parts.append(Effect("position", "embedding", seen.of(positions)))
    for index in range(last + 1):
        where = "" if model.cfg.n_layers == 1 else f"layer {index} "
        if f"blocks.{index}.attn.hook_pattern" in run.cache:
            tokens = np.unique(run.tokens[(run.pattern(index) > 0).any(axis=1)])
            members = np.asarray(run.tokens[:, :, None] == tokens, dtype=np.float64)
            by_key = _by_key(model, run, seen, index)
            effects, names = by_key @ members, run.names(tokens)  # [row head token]
            for h in range(by_key.shape[1]):
                head = f"{where}head {h}"
                by_place[head] = by_key[:, h]
                parts += [
                    Effect(f"{head} ← {name}", head, effects[:, h, t])
                    for t, name in enumerate(names)
                ]
            parts += _bias(model, index, "attn", "b_O", seen, f"{where}attention bias")
        if f"blocks.{index}.mlp.hook_post" in run.cache:
            output = weight(model, index, "mlp", "W_out")
            if output is None:
                raise UnsupportedError(f"layer {index} of this model has an MLP without W_out")
            post = run.at_query(f"blocks.{index}.mlp.hook_post")
            effects = seen.scaled(post * (seen.direction @ output.T))
            parts += [
                Effect(f"{where}neuron {m}", f"{where}MLP", effect)
                for m, effect in enumerate(effects.T)
            ]
            parts += _bias(model, index, "mlp", "b_out", seen, f"{where}MLP bias")
    if seen.shift is not None and seen.shift.any():
        parts.append(Effect("final norm's shift", "biases", seen.shift))
    return parts, by_place


def _by_key(model: Any, run: Pass, seen: ReadOut, index: int) -> Floats:
    """`[row head key]`: what each head adds by attending to each position."""
    pattern, output = run.pattern(index), weight(model, index, "attn", "W_O")
    if output is None:
        raise UnsupportedError(f"layer {index} of this model has no W_O to attribute through")
    values = same_for_heads(run.activation(f"blocks.{index}.attn.hook_v"), pattern.shape[1])
    reads = einsum(output, seen.direction, "head d_head d_model, row d_model -> row head d_head")
    written = einsum(values, reads, "row key head d_head, row head d_head -> row head key")
    return seen.scaled(pattern * written)


def _bias(model: Any, index: int, part: str, name: str, seen: ReadOut, called: str) -> list[Effect]:
    bias = weight(model, index, part, name)
    if bias is None or not bias.any():
        return []
    return [Effect(called, "biases", seen.scaled(seen.direction @ bias))]


def _largest_by_chance(model: Any, run: Pass, w: Floats, last: int) -> float:
    """The largest mean effect of a head or MLP, of a model whose weights are shuffled now."""
    at_end = last == model.cfg.n_layers - 1
    seen = through_final_norm(model, run, w) if at_end else ReadOut(w)
    groups = _grouped(_parts(model, run, seen, last)[0])
    return max(float(np.abs(groups[name]).mean()) for name in groups if name not in OUTSIDE)


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
