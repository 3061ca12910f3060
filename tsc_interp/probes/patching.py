"""Which activations make the difference between two strings? Activation patching. Chapter 3.

The model reads the corrupted string, except that one activation has the value it has when the model
reads the clean string. The effect, in TransformerLens's convention,

    (patched - corrupted) / (clean - corrupted)     of the logit

is 1 where the clean string's logit is restored and 0 where nothing changed. One activation at a
time: `resid_pre`, `resid_mid`, `resid_post`, `attn_out`, `mlp_out` as `[layer pos]`; each head's
`z`, `q`, `k`, `v` as `[layer pos head]` and over all positions as `[layer head]`; its pattern as
`[layer head]`, `[layer head dest_pos]` and `[layer head dest_pos src_pos]`; each neuron as
`[layer pos neuron]`. These are the numbers `transformer_lens.patching` gives.

**By letter.** Without positions only letter counts matter, so strings of any lengths can be
compared: a position is a kind of token, CLS or a letter, and patching it at `a` patches every copy
of `a` at once. Then the two inputs differ in how often each letter occurs, and in nothing else. So
in the first layer embeddings, queries, keys and values are the same in both runs, and patching them
changes nothing by construction; counts enter where attention weighs its keys. For that there is one
more site, `scores_by_src`, `[layer head src_pos]`: one head counts one letter as often as the clean
string has it. Patching the key or value of a letter that the corrupted string does not have changes
nothing either, because its weight is zero; a pattern patched from the clean string can give weight
to such a letter, whose value is then what it would be. The result counts separately the patches
that moved no activation and those that moved one on which the logit does not depend.

**By position** (models with positions, or `by="position"`): both strings must be of one length.

Reads and replaces `hook_resid_pre`, `hook_resid_mid`, `hook_resid_post`, `hook_attn_out`,
`hook_mlp_out`, `hook_q`, `hook_k`, `hook_v`, `hook_attn_scores`, `hook_pattern`, `hook_z`,
`mlp.hook_post`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Kind, Part
from tsc_interp.probes.inputs import Inputs, as_array
from tsc_interp.probes.pairs import By, Pair, PairRun, Pairs, pair_runs
from tsc_interp.probes.probe import probe
from tsc_interp.probes.wording import SCALE, capital, joined
from tsc_interp.results.base import (
    Cell,
    Finding,
    LabeledArray,
    ProbeResult,
    Record,
    Shown,
    Table,
    head_name,
    unknown,
)
from tsc_interp.results.views import Bars, Each, Heat, Rows, shown

MOST_ENTRIES = 1024
"""Of patterns, entry by entry: more are left out, and it is said."""
MOST_ROWS = 60
NOTHING = 1e-6
"""An effect below this is rounding."""
SAME = 1e-5
"""So is a difference between two float32 activations."""
_STREAM: dict[str, Kind] = {
    "resid_pre": "resid_pre", "attn_out": "attn", "resid_mid": "resid_mid", "mlp_out": "mlp",
    "resid_post": "resid_post",
}  # fmt: skip
_IN_HEADS: dict[str, Kind] = {"z": "head", "q": "query", "k": "key", "v": "value"}
_INSIDE = ("z", "pattern", "q", "k", "v")
_PAIR = "{result.pair.clean} into {result.pair.corrupted}"
_EQUAL = "= marks what is the same in both runs, where there is nothing to patch."


class Site(Record):
    """One kind of activation, patched everywhere it is, one place at a time."""

    name: str
    """TransformerLens's name of it: `resid_pre`, `z`, `pattern_by_pos`, ..."""
    effect: LabeledArray
    """`[layer pos]`, `[layer pos head]`, ...: (patched - corrupted) / (clean - corrupted)."""
    moved: LabeledArray
    """The same shape: by how much the activation itself differs between the two runs."""

    @property
    def same(self) -> NDArray[np.bool_]:
        """Where the activation is the same in both runs, so that there was nothing to patch."""
        return np.asarray((self.moved.array <= SAME) & ~self.changes)

    @property
    def changes(self) -> NDArray[np.bool_]:
        """Where the logit changes."""
        return np.asarray(np.abs(self.effect.array) > NOTHING)

    @property
    def shown(self) -> NDArray[np.float64]:
        """The effects, not a number where there was nothing to patch."""
        return np.where(self.same, np.nan, self.effect.array)


class Patched(Shown):
    """One pair, and what patching from its clean into its corrupted run does."""

    pair: Pair
    by: str
    query: int
    """The position the logit is read from."""
    sites: tuple[Site, ...]

    def site(self, name: str) -> Site:
        for site in self.sites:
            if site.name == name:
                return site
        raise unknown("site", name, [site.name for site in self.sites])

    def has(self, name: str) -> bool:
        return any(site.name == name for site in self.sites)

    @property
    def layers(self) -> tuple[str, ...]:
        return self.site("resid_post").effect.labels["layer"]

    @property
    def place(self) -> str:
        """What the position is called that the logit is read from."""
        return self.pair.positions[self.query]

    def named(self, layer: int, what: str) -> str:
        return what if len(self.layers) == 1 else f"layer {layer} {what}"

    @property
    def heads(self) -> list[str]:
        if not self.has("z_all_pos"):
            return []
        shape = self.site("z_all_pos").effect.shape
        return [head_name(len(self.layers), i, h) for i, h in np.ndindex(shape)]

    def parts(self) -> dict[str, float]:
        """The effect of each head, and of each neuron where the logit is read, patched alone."""
        effects: dict[str, float] = {}
        if self.heads:
            every = self.site("z_all_pos").effect.array.ravel().tolist()
            effects |= zip(self.heads, every, strict=True)
        if self.has("post"):
            neurons = self.site("post").effect.array[:, self.query]
            for (i, n), effect in np.ndenumerate(neurons):
                effects[self.named(i, f"neuron {n}")] = float(effect)
        return effects

    @shown(
        Bars(
            f"What restores the clean logit: {_PAIR}",
            "{result.scale} Each head's output, and each neuron at {result.place}, patched alone.",
            x="effect on the logit", form=".4f", name="parts", table=False,
        )
    )  # fmt: skip
    def each_part(self) -> LabeledArray:
        parts = self.parts()
        return LabeledArray.of(list(parts.values()), part=parts)

    @shown(
        Heat(
            f"Where the difference is: {_PAIR}",
            "{result.scale} The residual stream and what is added to it, patched at one position "
            f"at a time. {{result.places}} {_EQUAL}",
            form=".2f", missing="=", table=False,
        )
    )  # fmt: skip
    def stream(self) -> LabeledArray:
        """`[stream position]`."""
        sites = [name for name in _STREAM if self.has(name)]
        rows = [(i, name) for i in range(len(self.layers)) for name in sites]
        return LabeledArray.of(
            np.stack([self.site(name).shown[i] for i, name in rows]),
            stream=[self.named(i, name) for i, name in rows], position=self.pair.positions,
        )  # fmt: skip

    @shown(
        Heat(
            f"Inside each head: {_PAIR}",
            "{result.scale} What a head returns (z), how it spreads its attention (pattern), its "
            f"queries, keys and values, each patched at all positions at once. {_EQUAL}",
            form=".2f", missing="=", name="heads", table=False,
        )
    )  # fmt: skip
    def inside(self) -> LabeledArray | None:
        """`[head activation]`."""
        if not self.heads:
            return None
        columns = [self.site(f"{name}_all_pos").shown.ravel() for name in _INSIDE]
        return LabeledArray.of(np.stack(columns, axis=1), head=self.heads, activation=_INSIDE)

    @shown(
        Heat(
            f"Whose count matters to which head: {_PAIR}",
            "{result.scale} One head's scores for one letter (or one position) come from the clean "
            "run. By letter they hold the count: the head sees the letter as often as the clean "
            f"string has it. {_EQUAL}",
            form=".2f", missing="=", table=False,
        )
    )  # fmt: skip
    def counts(self) -> LabeledArray | None:
        """`[head position]`."""
        if not self.has("scores_by_src"):
            return None
        places = self.pair.positions
        cells = self.site("scores_by_src").shown.reshape(-1, len(places))
        return LabeledArray.of(cells, head=self.heads, position=places)

    @property
    def scale(self) -> str:
        return self.pair.scale()

    @property
    def places(self) -> str:
        if self.by == "letter":
            return "A position is a kind of token, all copies of a letter at once."
        return "b|c: b in the clean string, c in the corrupted one."

    @shown(Rows("Patches that change the logit"))
    def effects(self) -> Table:
        """The largest effects first."""
        rows: list[tuple[Cell, ...]] = []
        for site in self.sites:
            labels = site.effect.labels
            for at in zip(*np.nonzero(site.changes), strict=True):
                place = " ".join(
                    f"{dim} {labels[dim][i]}" for dim, i in zip(site.effect.dims, at, strict=True)
                )
                effect = float(site.effect.array[at])
                rows.append((site.name, place, effect, self.pair.patched_logit(effect)))
        rows.sort(key=lambda row: -abs(float(row[2] or 0)))
        most = "" if len(rows) <= MOST_ROWS else f", the largest {MOST_ROWS} of {len(rows)}"
        pair = f"{self.pair.clean} into {self.pair.corrupted}"
        title = f"Patches from {pair} that change the logit{most}"
        columns = ("activation", "where", "effect", "logit")
        return Table.from_rows(title, columns, rows[:MOST_ROWS])

    # -- in sentences --

    def conclude(self) -> Iterator[Finding]:
        pair, effects = self.pair, self.parts()
        order = sorted(effects, key=lambda name: -abs(effects[name]))[:4]
        shares = ", ".join(f"{name} {_share(effects[name])}" for name in order)
        text = (
            f"{pair.sentence()} These parts, patched alone, have the largest effects ({SCALE}): "
            f"{shares}."
        )
        answer = pair.corrupted_logit > 0
        flips = [name for name in order if (pair.patched_logit(effects[name]) > 0) != answer]
        if flips and (pair.clean_logit > 0) != answer:
            text += f" {capital(joined(flips, 'or'))} alone is enough to change the answer."
        numbers: dict[str, Cell] = {name: effects[name] for name in order}
        numbers |= {"clean logit": pair.clean_logit, "corrupted logit": pair.corrupted_logit}
        yield Finding.of(
            text, numbers, pair.severity, string=pair.corrupted, clean=pair.clean,
            parts=tuple(order),
        )  # fmt: skip
        if self.by == "letter" and self.has("scores_by_src"):
            yield from self._counting(self.site("scores_by_src").effect)

    def _counting(self, site: LabeledArray) -> Iterator[Finding]:
        """By letter: whose count, in which head, makes the difference."""
        numbers: dict[str, Cell] = {}
        counts = []
        for cell in np.argsort(-np.abs(site.array), axis=None, kind="stable")[:3]:
            i, h, s = np.unravel_index(int(cell), site.shape)
            effect, letter = float(site.array[i, h, s]), site.labels["src_pos"][s]
            if abs(effect) >= 0.005:
                head = head_name(len(self.layers), i, h)
                counts.append(f"{head} counting {letter} {_share(effect)}")
                numbers[f"{head}, {letter}"] = effect
        if counts:
            text = (
                f"If in `{self.pair.corrupted}` one head counts one letter as often as in "
                f"`{self.pair.clean}`, the largest effects are: {', '.join(counts)}."
            )
            yield Finding.of(text, numbers, string=self.pair.corrupted)


class PatchingResult(ProbeResult):
    """For each pair, the effect of every patched activation."""

    probe: ClassVar[str] = "patching"

    by: str
    """`letter` (a position is a kind of token) or `position` (a place in the string)."""
    n_layers: int
    pairs: Annotated[tuple[Patched, ...], Each()]

    def conclude(self) -> Iterator[Finding]:
        for patched in self.pairs:
            yield from patched.conclude()
        sites = [site for patched in self.pairs for site in patched.sites]
        total = sum(site.same.size for site in sites)
        same = sum(int(site.same.sum()) for site in sites)
        text = f"Of {total:,} patches, {same:,} move no activation: it is the same in both runs."
        if self.by == "letter":
            text += (
                " Compared by letter, two strings differ only in how often each letter occurs: "
                "embeddings, and first-layer queries, keys and values are the same in both."
            )
        yield Finding.of(text, {"patches": total, "same": same})


@probe(
    PatchingResult,
    title="Which activations matter?",
    question="Which activations, taken from one string, turn the answer to another?",
    chapter="3",
    on_request=True,
    accepts=("query", "answer", "token_names"),
    why_not="it compares pairs of rows: tsc.run_probe('patching', model, tokens, pairs=...)",
)
def patching(inputs: Inputs, *, pairs: Pairs | None = None, by: By | None = None) -> PatchingResult:
    """`pairs=[(clean, corrupted), ...]`; without, two given strings are one, clean first.

    Of more strings, or one, pairs are found: a wrong string and a right one of its label, and two
    strings one letter apart with different labels. On any TransformerLens model: token ids
    `[batch pos]` for strings, pairs of rows, and the logit of token `answer` at position `query`.
    """
    runs = pair_runs(inputs, pairs, by)
    patched = tuple(_patched(run) for run in runs)
    return PatchingResult(
        not_applicable=_not_applicable(runs[0], patched[0]),
        by=runs[0].by,
        n_layers=inputs.model.cfg.n_layers,
        pairs=patched,
    )


@dataclass(frozen=True)
class _Plan:
    """One site: the parts to patch, one for each combination of labels, in their order."""

    name: str
    labels: dict[str, tuple[str, ...]]
    parts: list[Part]


def _patched(pair_run: PairRun) -> Patched:
    from tsc_interp.interventions.singly import singly

    plans = list(_plans(pair_run))
    wanted = [Intervention(part, pair_run.patch) for plan in plans for part in plan.parts]
    effects = singly(pair_run.model, pair_run.corrupted, wanted, metric=pair_run.metric)
    changes, moved = as_array(effects.changes), as_array(effects.moved)
    shares = changes / (pair_run.pair.clean_logit - pair_run.pair.corrupted_logit)
    sites, start = [], 0
    for plan in plans:
        shape = tuple(len(entries) for entries in plan.labels.values())
        piece = slice(start, start := start + len(plan.parts))
        sites.append(
            Site(
                name=plan.name,
                effect=LabeledArray.of(shares[piece].reshape(shape), **plan.labels),
                moved=LabeledArray.of(moved[piece].reshape(shape), **plan.labels),
            )
        )
    return Patched(pair=pair_run.pair, by=pair_run.by, query=pair_run.query, sites=tuple(sites))


def _plans(pair_run: PairRun) -> Iterable[_Plan]:
    cfg, places = pair_run.model.cfg, pair_run.pair.positions
    layers, heads = range(cfg.n_layers), range(cfg.n_heads)
    at = range(len(places))
    layer, head = tuple(map(str, layers)), tuple(map(str, heads))
    attends, thinks = bool(cfg.n_heads), bool(cfg.d_mlp) and not getattr(cfg, "attn_only", False)
    for name, kind in _STREAM.items():
        if (kind in ("attn", "resid_mid") and not attends) or (kind == "mlp" and not thinks):
            continue
        if kind == "resid_mid" and (not _edits_mid(pair_run) or not thinks):
            continue
        parts = [Part(kind, i, position=p) for i, p in product(layers, at)]
        yield _Plan(name, {"layer": layer, "pos": places}, parts)
    if attends:
        for name, kind in _IN_HEADS.items():
            parts = [Part(kind, i, h, position=p) for i, p, h in product(layers, at, heads)]
            yield _Plan(name, {"layer": layer, "pos": places, "head": head}, parts)
            parts = [Part(kind, i, h) for i, h in product(layers, heads)]
            yield _Plan(f"{name}_all_pos", {"layer": layer, "head": head}, parts)
        yield from _patterns(pair_run, layer, head)
    if thinks:
        neurons = range(cfg.d_mlp)
        labels = {"layer": layer, "pos": places, "neuron": tuple(map(str, neurons))}
        parts = [Part("neuron", i, n, position=p) for i, p, n in product(layers, at, neurons)]
        yield _Plan("post", labels, parts)


def _patterns(pair_run: PairRun, layer: tuple[str, ...], head: tuple[str, ...]) -> Iterable[_Plan]:
    places, at = pair_run.pair.positions, range(len(pair_run.pair.positions))
    layers, heads = range(len(layer)), range(len(head))
    labels = {"layer": layer, "head": head}
    parts = [Part("pattern", i, h) for i, h in product(layers, heads)]
    yield _Plan("pattern_all_pos", labels, parts)
    parts = [Part("pattern", i, h, position=p) for i, h, p in product(layers, heads, at)]
    yield _Plan("pattern_by_pos", {**labels, "dest_pos": places}, parts)
    if len(parts) * len(places) <= MOST_ENTRIES:
        entries = product(layers, heads, at, at)
        parts = [Part("pattern", i, h, position=p, seen=s) for i, h, p, s in entries]
        yield _Plan(
            "pattern_dest_src_pos", {**labels, "dest_pos": places, "src_pos": places}, parts
        )
    if pair_run.ours:  # a TransformerBridge discards edits of scores
        parts = [Part("score", i, h, seen=s) for i, h, s in product(layers, heads, at)]
        yield _Plan("scores_by_src", {**labels, "src_pos": places}, parts)


def _edits_mid(pair_run: PairRun) -> bool:
    """A TransformerBridge passes an edit of `hook_resid_mid` to the MLP alone, not around it."""
    return pair_run.ours or type(pair_run.model).__name__ != "TransformerBridge"


def _not_applicable(run: PairRun, patched: Patched) -> tuple[str, ...]:
    notes = []
    if not patched.has("pattern_dest_src_pos") and patched.has("pattern_by_pos"):
        entries = patched.site("pattern_by_pos").effect.array.size * len(run.pair.positions)
        notes.append(f"the {entries:,} single entries of the patterns were not patched: too many")
    if not _edits_mid(run):
        notes.append(
            "resid_mid was not patched: a TransformerBridge passes such an edit to the MLP only"
        )
    return tuple(notes)


def _share(effect: float) -> str:
    text = f"{effect:.2f}"
    return "0.00" if text == "-0.00" else text
