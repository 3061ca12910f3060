"""What is each part needed for? Remove it, and see which answers go wrong.

The probe removes every head, each layer's MLP and, of our classifier, every neuron and each
letter's value in each head of the first layer, one at a time. It replaces the part by one of two:

    zero    zero
    mean    its average: over 128 of the test strings, evenly spaced among them (for a letter's
            value the average value of all letters in them, counting copies), or over the given
            rows, position by position

On the given rows it reads the lead of the answer, its logit less the largest other one, and
whether the answer changes. The answer is what the model says as it is, or the one that is given.
Hooks: `hook_z`, `hook_v`, `mlp.hook_post`, `hook_mlp_out`.

Of our classifier with one logit the model without a part is again a classifier
(`tsc_interp.interventions.weights`). Its errors on every string up to 200 letters are counted
exactly, and its first error is found by search. First errors that a finding names are also given
to the checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import log10, nan
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, PlainSerializer

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError, UnsupportedError, UsageError
from tsc_interp.interventions.changes import Change, Mean, Zero
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.inputs import Floats, Inputs, as_array, lead
from tsc_interp.probes.probe import probe
from tsc_interp.probes.token_rows import answers_of, name_of
from tsc_interp.probes.wording import capital, joined, number, part_name, write_share
from tsc_interp.results.base import (
    Cell,
    Finding,
    LabeledArray,
    ProbeResult,
    Record,
    Table,
    that_hold,
)
from tsc_interp.results.views import Heat, Rows, shown

MEAN_OVER = 128
EXACT_PARTS = 24
MOST_LETTERS = 3
"""With more, or with norms or layers, an edited model takes seconds, and there are dozens."""
BOXES = 20_000
"""Boxes per set of letters, as the other searches of a report."""
MOST_ROWS = 24
MOST_NAMED = 2
"""Parts of a kind with a sentence of their own: each is checked, which takes a second."""
MOST_LISTED = 6
EXACT_IN_JSON = 2**53

Whole = Annotated[
    int,
    BeforeValidator(lambda given: int(given) if isinstance(given, str) else given),
    PlainSerializer(lambda n: n if n <= EXACT_IN_JSON else str(n), when_used="json"),
]
"""A count without limit: JSON has it as digits where its readers would round it."""


class Exact(Record):
    """Every string up to the result's length judged, and the search for the first error."""

    false_positives: Whole
    false_negatives: Whole
    undecided: Whole
    first_error: str | None
    horizon: int | None
    """The length before that of the first error; None if none was found."""
    proved: bool = False
    """Whether the checker derived the horizon again."""

    @property
    def errors(self) -> int:
        return self.false_positives + self.false_negatives + self.undecided

    @property
    def reach(self) -> float:
        """The horizon as a number that can be compared."""
        return float("inf") if self.horizon is None else float(self.horizon)

    def improves(self, before: Exact) -> bool:
        """Fewer errors without an earlier one, or a later first error without more of them."""
        no_worse = self.errors <= before.errors and self.reach >= before.reach
        return no_worse and (self.errors, self.reach) != (before.errors, before.reach)


class Ablated(Record):
    """The model without a part, judged exactly."""

    part: str
    """As interventions write it, such as `head0.value[c]`."""
    name: str
    """In words, such as `head 0`."""
    change: str
    """What is put in its place: zero or mean."""
    exact: Exact
    same_answers: bool
    """Whether every string up to the length is answered as before."""

    @property
    def whole(self) -> bool:
        """Whether it is a head, a neuron or an MLP; otherwise one letter's value in a head."""
        return ".value" not in self.part


class AblationResult(ProbeResult):
    """The model as it is, and without each of its parts."""

    probe: ClassVar[str] = "ablation"

    mean_over: str
    """Which strings a mean is taken over, in words."""
    leads: LabeledArray
    """`[string]`: by how much the answer leads, of the model as it is."""
    before: LabeledArray
    """`[string]`: the answer as it is; of one logit, 1 where it is positive."""
    after: LabeledArray
    """`[change part string]`: the answer without the part."""
    effects: LabeledArray
    """`[change part string]`: the change of the lead."""
    names: dict[str, str]
    """What the answers that occur are called."""
    length: int | None = None
    """Up to which strings are judged exactly; None if none are."""
    strings: Whole = 0
    """How many strings there are up to that length."""
    exact: Exact | None = None
    ablated: tuple[Ablated, ...] = ()

    @property
    def rows(self) -> int:
        return len(self.before.array)

    @property
    def in_rows(self) -> bool:
        """Whether answers to the given rows, the mean in a part's place, are all that is known."""
        return self.exact is None and "mean" in self.after.labels["change"]

    @property
    def changed(self) -> LabeledArray:
        """`[change part]`: how many answers change."""
        labels = {dim: self.after.labels[dim] for dim in ("change", "part")}
        return LabeledArray.of((self.after.array != self.before.array).sum(-1), **labels)

    @property
    def mean_effect(self) -> LabeledArray:
        """`[change part]`: the mean change of the answer's lead."""
        labels = {dim: self.effects.labels[dim] for dim in ("change", "part")}
        return LabeledArray.of(self.effects.array.mean(-1), **labels)

    def most_needed(self, change: str = "mean", heads: bool = False) -> int:
        """The place of the part that changes most answers; among equals, lowers the lead most."""
        changed, effect = self.changed.at(change=change), self.mean_effect.at(change=change)
        parts = self.changed.labels["part"]
        asked = [p for p, part in enumerate(parts) if not heads or "head" in part]
        return max(asked, key=lambda p: (changed[p], -effect[p]))

    def judged(self, change: str) -> list[Ablated]:
        """Every part under one change that was judged exactly."""
        return [one for one in self.ablated if one.change == change]

    # -- figures and tables --

    @shown(
        Heat(
            "How many strings go wrong without each part",
            "Every string of up to {result.length} letters, counted exactly. A cell is a power of "
            "ten: 90.0 means 10^90 wrong strings. A part whose row is like the first one can be "
            "replaced without a change in their number.",
            form=".1f", missing="none", most=MOST_ROWS + 1, table=False,
        )
    )  # fmt: skip
    def errors(self) -> LabeledArray | None:
        """`[part change]`: log10 of how many strings are wrong, the model as it is first."""
        if self.exact is None:
            return None
        changes = list(dict.fromkeys(one.change for one in self.ablated)) or ["zero"]
        rows = {"as it is": dict.fromkeys(changes, self.exact.errors)}
        for one in self.ablated:
            rows.setdefault(one.name, {})[one.change] = one.exact.errors
        cells = [[log10(n) if (n := row.get(c)) else nan for c in changes] for row in rows.values()]
        return LabeledArray.of(cells, part=list(rows), change=changes)

    @shown(
        Heat(
            "How many answers change without each part",
            "Each part in turn is replaced by zero, or by its mean over {result.mean_over}.",
            form=".0f", most=MOST_ROWS, across="change", name="answers", table=False,
        )
    )  # fmt: skip
    def answers_changed(self) -> LabeledArray | None:
        """`[change part]`, where nothing better is known."""
        return self.changed if self.exact is None else None

    @shown(
        Heat(
            "What happens to each answer's lead without each part",
            "The change of the lead of the answer when the part is set to zero: blue against the "
            "answer, vermillion in its favour.",
            form="+.2f", most=MOST_ROWS, name="leads",
        )
    )  # fmt: skip
    def at_zero(self) -> LabeledArray:
        """`[part string]`."""
        labels = {dim: self.effects.labels[dim] for dim in ("part", "string")}
        return LabeledArray.of(self.effects.at(change="zero"), **labels)

    @shown(Rows("Answers without each part"))
    def told(self) -> Table:
        columns = ("part", "put in its place", f"of {self.rows} answers changed",
                   "mean change of the answer's lead")  # fmt: skip
        changed, effect = self.changed, self.mean_effect
        rows = (
            (part, change, int(changed.array[c, p]), float(effect.array[c, p]))
            for p, part in enumerate(changed.labels["part"])
            for c, change in enumerate(changed.labels["change"])
        )
        return Table.from_rows("Answers without each part", columns, rows)

    @shown(Rows("Errors without each part"))
    def counted(self) -> Table | None:
        if self.exact is None:
            return None
        columns = ("part", "put in its place", "false positives", "false negatives",
                   "first error", "horizon", "proved")  # fmt: skip
        every = [("as it is", "", self.exact)]
        every += [(one.part, one.change, one.exact) for one in self.ablated]
        rows = (
            (part, change, number(exact.false_positives), number(exact.false_negatives),
             exact.first_error, exact.horizon, exact.proved)
            for part, change, exact in every
        )  # fmt: skip
        return Table.from_rows("Errors without each part", columns, rows)

    # -- in sentences --

    def conclude(self) -> Iterator[Finding]:
        before = self.exact
        if before is None:
            yield from self._of_answers()
            return
        text = f"As it is, the model gets {self._of_all(before.errors)} wrong"
        if before.first_error is not None:
            text += f"; its first error is {_known(before)}"
        yield Finding.of(f"{text}.", {"errors": _cell(before.errors), "horizon": before.horizon})
        for part in self.named():
            yield self._without(before, part)
        for whole in (True, False):
            yield from self._removable(before, whole)
        yield from self._mean_against_zero()

    def named(self) -> list[Ablated]:
        """What a sentence of its own is about: the parts most needed, and one that does harm."""
        if (before := self.exact) is None:
            return []
        chosen: list[Ablated] = []
        for whole in (True, False):
            parts = [one for one in self.judged("zero") if one.whole == whole]
            worse = [one for one in parts if one.exact.errors > before.errors]
            better = [one for one in parts if one.exact.improves(before)]
            worse.sort(key=lambda one: (-one.exact.errors, one.exact.reach))
            better.sort(key=lambda one: (one.exact.errors, -one.exact.reach))
            chosen += [*worse[: MOST_NAMED if whole else 1], *better[:1]]
        return chosen

    def _of_answers(self) -> Iterator[Finding]:
        """The part that rows need most, and how many they do not need."""
        for change in reversed(self.changed.labels["change"]):
            changed, most = self.changed.at(change=change), self.most_needed(change)
            effect, name = float(self.mean_effect.at(change=change)[most]), self._parts[most]
            idle = int((changed == 0).sum())
            instead = "zero" if change == "zero" else f"its mean over {self.mean_over}"
            text = (
                f"{capital(name)} matters most: if it is replaced by {instead}, "
                f"{int(changed[most])} of {self.rows} answers change, and the answer's lead "
                f"changes by {effect:+.4f} on average. {idle} of {len(self._parts)} parts can be "
                "replaced in this way without changing an answer."
            )
            numbers = {"changed": int(changed[most]), "idle parts": idle}
            yield Finding.of(text, numbers, part=name, change=change)

    @property
    def _parts(self) -> tuple[str, ...]:
        return self.effects.labels["part"]

    def _of_all(self, errors: int) -> str:
        share = errors / self.strings
        many = number(errors) + f" ({write_share(share)})" * (share > 0.01) if errors else "none"
        return f"{many} of the {number(self.strings)} strings up to {self.length} letters"

    def _without(self, before: Exact, part: Ablated) -> Finding:
        after, better = part.exact, part.exact.improves(before)
        text = (
            f"With {part.name} set to zero, the model gets {self._of_all(after.errors)} wrong "
            f"({number(after.false_positives)} false positives, {number(after.false_negatives)} "
            "false negatives)"
        )
        if after.first_error is None:
            text += ". No error was found"
        elif after.first_error != before.first_error:
            text += f". Its first error is then {_known(after)}"
        if better:
            text += ". The model does better without it"
        numbers: dict[str, Cell] = {
            "errors": _cell(after.errors),
            "before": _cell(before.errors),
            "horizon": after.horizon,
            "horizon before": before.horizon,
        }
        return Finding.of(
            f"{text}.", numbers, "warning" if better else "note", part=part.part, change="zero"
        )

    def _removable(self, before: Exact, whole: bool) -> Iterator[Finding]:
        """Parts without which every string up to the length is answered as before."""
        parts = [one for one in self.judged("zero") if one.whole == whole]
        free = [one for one in parts if one.same_answers]
        if not free:
            return
        kind = "heads, neurons and MLPs" if whole else "letters' values that were tried"
        names = joined([one.name for one in free])
        if len(free) > MOST_LISTED:
            names = f"{len(free)} of {len(parts)} {kind} (such as {free[0].name})"
        text = (
            f"{capital(names)} can {'each alone ' if len(free) > 1 else ''}be set to zero without "
            f"changing the answer to any string of up to {self.length} letters"
        )
        known = sorted({one.exact.horizon for one in free if one.exact.horizon is not None})
        if known and before.horizon is not None and known != [before.horizon]:
            span = f"{known[0]:,}" if len(known) == 1 else f"between {known[0]:,} and {known[-1]:,}"
            text += f". The horizon is then {span} instead of {before.horizon:,}"
        about = tuple(one.part for one in free)
        numbers: dict[str, Cell] = {"parts": len(free), "of": len(parts)}
        yield Finding.of(f"{text}.", numbers, "good", part=about, change="zero")

    def _mean_against_zero(self) -> Iterator[Finding]:
        """Whether an average in the part's place gives another result than zero in its place."""
        means = {one.part: one for one in self.judged("mean")}
        pairs = [(one, means[one.part]) for one in self.judged("zero") if one.part in means]
        if not pairs:
            return
        apart = [zero for zero, mean in pairs if zero.same_answers != mean.same_answers]
        text = f"Means over {self.mean_over} in the place of parts agree with zeros on which parts "
        text += "can be removed."
        if apart:
            by_mean = [one.name for one in apart if not one.same_answers]
            by_zero = [one.name for one in apart if one.same_answers]
            said = [f"only a mean over {self.mean_over} (of {joined(by_mean)})"] if by_mean else []
            said += [f"only zero (of {joined(by_zero)})"] if by_zero else []
            text = f"No answer changes with {' and '.join(said)} in a part's place, not with "
            text += "the other of the two." if len(said) > 1 else "zero." if by_mean else "a mean."
        yield Finding.of(text, {"parts": len(apart), "of": len(pairs)})


def _known(exact: Exact) -> str:
    return f"`{exact.first_error}`{' (proved)' if exact.proved else ''}"


def _cell(count: int) -> Cell:
    """Exact as digits where a JSON reader would round it."""
    return count if count <= EXACT_IN_JSON else str(count)


# -- what is computed ------------------------------------------------------------------------------


@probe(
    AblationResult,
    title="What is each part needed for?",
    question="Which strings go wrong without a head, a neuron or one letter's value?",
    chapter="2, 4",
    on_request=True,
    any_model=True,
    accepts=("query", "token_names", "attention_mask", "answer"),
    token_question="Which answers change without a head or an MLP?",
)
@one_thread()
def ablation(
    inputs: Inputs, *, exact: int | None = None, length: int | None = None
) -> AblationResult:
    """`exact` is how many parts are judged exactly, whole ones first, then by effect.

    The default is 24 for a model of one layer and three letters without norm, else none. They are
    judged on every string up to `length`: 200, or less where that is too many.
    """
    config = inputs.config
    if config is not None and inputs.query is not None:
        raise UsageError("a classifier is read at CLS; query is for other models")
    if length is not None and length < 1:
        raise UsageError(f"the length of strings to judge is a whole number from 1, got {length}")
    parts = list(_parts(inputs))
    if not parts:
        raise UnsupportedError("this model has no head and no neuron, so nothing to remove")
    changes, mean_over = _changes(inputs)
    inputs.check_work(1 + len(changes) * len(parts), f"removing each of {len(parts)} parts")
    result = _on_rows(inputs, parts, changes, mean_over)
    chosen = _chosen(config, parts, result.effects.array, exact)
    if config is not None:
        notes = _not_applicable(config, len(changes), len(chosen), len(parts))
        result = result.model_copy(update={"not_applicable": notes})
    if config is None or not chosen:
        return result
    return _exactly(inputs, result, chosen, changes, length)


def _parts(inputs: Inputs) -> Iterator[Part]:
    """Whole parts first, then letters' values."""
    cfg, config = inputs.model.cfg, inputs.config
    thinks = bool(getattr(cfg, "d_mlp", None)) and not getattr(cfg, "attn_only", False)
    for layer in range(cfg.n_layers):
        yield from (Part("head", layer, head) for head in range(cfg.n_heads))
        if config is not None:
            yield from (Part("neuron", layer, neuron) for neuron in range(config.d_mlp))
        if thinks:
            yield Part("mlp", layer)
    if config is not None and config.n_outputs == 1:
        for head in range(cfg.n_heads):
            yield from (Part("value", 0, head, letter) for letter in config.alphabet.letters)


def _changes(inputs: Inputs) -> tuple[dict[str, Change], str]:
    """What is put in a part's place, and what a mean is taken over, in words."""
    config, given = inputs.config, inputs.given
    if config is None:
        return {"zero": Zero(), "mean": Mean()}, "the given rows, position by position"
    if config.needs_order:
        lengths = {int(config.alphabet.counts(string).sum()) for string in given}
        alike = config.has_positions and len(lengths) == 1
        means: dict[str, Change] = {"mean": Mean(tuple(given))} if alike else {}
        return {"zero": Zero(), **means}, "the given strings"
    with suppress(ConfigError):  # the task names every letter
        counts = source_test_set(config)
        rows = np.linspace(0, len(counts) - 1, MEAN_OVER).astype(np.int64)
        strings = tuple(map(config.alphabet.write, counts[rows]))
        return {"zero": Zero(), "mean": Mean(strings)}, f"{MEAN_OVER} test strings"
    return {"zero": Zero(), "mean": Mean(tuple(given))}, "the given strings"


def _on_rows(
    inputs: Inputs, parts: Sequence[Part], changes: Mapping[str, Change], mean_over: str
) -> AblationResult:
    """The answers and leads on the given rows, by hooks."""
    import torch

    model, strings = inputs.model, inputs.row_names
    with torch.no_grad():
        outputs = inputs.outputs()
        before = outputs.argmax(1).cpu().numpy()
        asked = np.array(answers_of(inputs.answer, before, outputs.shape[1]))
        leads = as_array(lead(outputs, asked))
        effects = np.zeros((len(changes), len(parts), len(strings)))
        after = np.zeros(effects.shape, dtype=np.int64)
        for c, change in enumerate(changes.values()):
            for p, part in enumerate(parts):
                outputs = inputs.outputs(_hooks(inputs, part, change))
                effects[c, p] = as_array(lead(outputs, asked)) - leads
                after[c, p] = outputs.argmax(1).cpu().numpy()
    named = [part_name(part, model.cfg.n_layers) for part in parts]
    axes: dict[str, Any] = {"change": list(changes), "part": named, "string": strings}
    occurring = sorted({int(x) for x in (*before, *after.ravel(), *asked)})
    return AblationResult(
        mean_over=mean_over,
        leads=LabeledArray.of(leads, string=strings),
        before=LabeledArray.of(before, string=strings),
        after=LabeledArray.of(after, **axes),
        effects=LabeledArray.of(effects, **axes),
        names=_answer_names(inputs, occurring, outputs.shape[1]),
    )


def _answer_names(inputs: Inputs, occurring: Sequence[int], outputs: int) -> dict[str, str]:
    if inputs.config is not None and inputs.config.n_outputs == 1:
        return {"0": "no", "1": "yes"}
    are_tokens = inputs.config is None and outputs == getattr(inputs.model.cfg, "d_vocab", None)
    names = inputs.token_names if are_tokens else None
    return {str(output): name_of(names, output) for output in occurring}


def _hooks(inputs: Inputs, part: Part, change: Change) -> list[tuple[str, Callable[..., Any]]]:
    """The hooks that remove the part."""
    if inputs.config is not None:
        from tsc_interp.interventions.hooks import Hooks

        return Hooks(inputs.model, inputs.given, Intervention(part, change)).fwd_hooks
    import torch

    # A mean over the rows that have the position: an intervention knows of no attention mask.
    kept = torch.from_numpy(inputs.rows.kept).to(inputs.fed.device)[..., None]

    def remove(activation: Any, hook: Any) -> Any:
        changed = activation.clone()
        index = (slice(None), slice(None)) + (() if part.index is None else (part.index,))
        share = kept.to(activation.dtype)
        mean = (activation[index] * share).sum(0) / share.sum(0).clamp(min=1)
        changed[index] = mean if isinstance(change, Mean) else 0.0
        return changed

    return [(part.hook, remove)]


def _chosen(
    config: ClassifierConfig | None, parts: Sequence[Part], effects: Floats, exact: int | None
) -> list[Part]:
    """The parts to judge exactly: whole ones first, each kind by its largest mean effect."""
    if config is None or config.needs_order or config.n_outputs > 1:
        return []
    easy = config.n_letters <= MOST_LETTERS and config.n_layers == 1 and not config.has_norm
    most = exact if exact is not None else EXACT_PARTS if easy else 0
    size = np.abs(effects).mean(axis=2).max(axis=0)
    order = sorted(range(len(parts)), key=lambda p: (parts[p].kind == "value", -size[p]))
    kept = set(order[:most])
    return [part for p, part in enumerate(parts) if p in kept]


def _not_applicable(
    config: ClassifierConfig, changes: int, chosen: int, parts: int
) -> tuple[str, ...]:
    counted = not config.needs_order and config.n_outputs == 1
    return that_hold({
        "this model sees order or has several outputs, so nothing is counted exactly: only the "
        "answers to the given strings": not counted,
        "the strings have different lengths, so parts have no mean position by position; only "
        "zero": changes == 1,
        "with norms, only a whole part set to zero can be written as weights, so only that is "
        "counted exactly": counted and config.has_norm,
        "letters' values are removed in the first layer only: later they vary with the string":
        config.n_layers > 1 and config.n_outputs == 1,
        f"{chosen} of {parts} parts are judged exactly, to save time; in Python, "
        f"run_probe('ablation', model, strings, exact={parts}) judges all":
        counted and chosen < parts,
    })  # fmt: skip


# -- the exact half: edited models, their wrong strings up to a length, and their first errors -----


def _exactly(
    inputs: Inputs, result: AblationResult, parts: Sequence[Part], changes: Mapping[str, Change],
    length: int | None,
) -> AblationResult:  # fmt: skip
    """The result with each of these parts replaced in the weights, and the model so made judged."""
    from tsc_interp.interventions.weights import edit
    from tsc_interp.verification.count_model import checkpoint_of
    from tsc_interp.verification.counting.differences import affordable_length

    checkpoint, config = checkpoint_of(inputs.model), inputs.model.config
    length = length or affordable_length(config.n_letters)
    exact, ablated = _judge(checkpoint, length), []
    for part in parts:
        for change, how in changes.items():
            with suppress(UnsupportedError):  # said once for all parts: `_not_applicable`
                edited = edit(checkpoint, Intervention(part, how))
                after = _judge(edited, length)
                same = _same_answers(checkpoint, exact, edited, after, length)
                ablated.append(
                    Ablated(part=str(part), name=part_name(part, config.n_layers), change=change,
                            exact=after, same_answers=same)
                )  # fmt: skip
    judged = result.model_copy(update={
        "length": length, "strings": sum(config.n_letters**n for n in range(1, length + 1)),
        "exact": exact, "ablated": tuple(ablated),
    })  # fmt: skip
    named = judged.named()
    for place, one in enumerate(ablated):
        if one in named:
            wanted = Intervention(Part.parse(one.part), changes[one.change])
            proved = _prove(edit(checkpoint, wanted), one.exact)
            ablated[place] = one.model_copy(update={"exact": proved})
    update = {"exact": _prove(checkpoint, exact), "ablated": tuple(ablated)}
    return judged.model_copy(update=update)


def _judge(checkpoint: Checkpoint, length: int) -> Exact:
    """Counted string by string; the horizon is searched for, and not proved."""
    from tsc_interp.verification.horizons import horizon
    from tsc_interp.verification.verdict import verify_counts

    tally = verify_counts(checkpoint, length).tally
    reach = horizon(checkpoint, boxes=BOXES, prove=False)
    return Exact(
        false_positives=tally.false_positives.total_strings,
        false_negatives=tally.false_negatives.total_strings,
        undecided=tally.undecided.total_strings,
        first_error=reach.shortest.string if reach.shortest else None,
        horizon=reach.length if reach.complete else None,
    )


def _prove(checkpoint: Checkpoint, known: Exact) -> Exact:
    """The same with the horizon the checker derives, if it is the one that was found."""
    from tsc_interp.verification.horizons import horizon

    reach = horizon(checkpoint, boxes=BOXES)
    agrees = reach.shortest is not None and reach.shortest.string == known.first_error
    return known.model_copy(update={"proved": reach.proved and agrees})


def _same_answers(
    checkpoint: Checkpoint, before: Exact, edited: Checkpoint, after: Exact, length: int
) -> bool:
    """Whether no string up to the length changes its answer: equal counts are not enough."""
    from tsc_interp.verification.counting.differences import difference

    kinds = ("false_positives", "false_negatives", "undecided")
    if after.undecided or any(getattr(after, k) != getattr(before, k) for k in kinds):
        return False
    if not after.errors:
        return True  # both right everywhere
    apart = difference(checkpoint, edited, length)
    return not apart.differing and not apart.undecided
