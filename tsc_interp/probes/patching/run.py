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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Kind, Part
from tsc_interp.interventions.singly import singly
from tsc_interp.probes.inputs import as_array
from tsc_interp.probes.pairs import PairOptions, PairRun, pair_runs
from tsc_interp.probes.patching.result import Patched, PatchingResult, Site
from tsc_interp.results.base import LabeledArray

if TYPE_CHECKING:
    from torch import Tensor

MOST_ENTRIES = 1024
"""Of patterns, entry by entry: more are left out, and it is said."""
_STREAM: dict[str, Kind] = {
    "resid_pre": "resid_pre", "attn_out": "attn", "resid_mid": "resid_mid", "mlp_out": "mlp",
    "resid_post": "resid_post",
}  # fmt: skip
_IN_HEADS: dict[str, Kind] = {"z": "head", "q": "query", "k": "key", "v": "value"}


def run(
    model: Any, strings: Sequence[str] | Tensor, **options: Unpack[PairOptions]
) -> PatchingResult:
    """`pairs=[(clean, corrupted), ...]`; without, two given strings are one, clean first.

    Of more strings, or one, pairs are found: a wrong string and a right one of its label, and two
    strings one letter apart with different labels. On any TransformerLens model: token ids
    `[batch pos]` for strings, pairs of rows, and the logit of token `answer` at position `query`.
    """
    runs = pair_runs(model, strings, **options)
    patched = tuple(_patched(run) for run in runs)
    read = {run.query for run in runs}
    return PatchingResult(
        not_applicable=_not_applicable(runs, patched),
        by=runs[0].by,
        n_layers=model.cfg.n_layers,
        query=read.pop() if len(read) == 1 else -1,  # pairs of several lengths, read at their ends
        pairs=patched,
    )


@dataclass(frozen=True)
class _Plan:
    """One site: the parts to patch, one for each combination of labels, in their order."""

    name: str
    labels: dict[str, tuple[str, ...]]
    parts: list[Part]


def _patched(pair_run: PairRun) -> Patched:
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
    return Patched(pair=pair_run.pair, sites=tuple(sites))


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


def _not_applicable(runs: list[PairRun], patched: Sequence[Patched]) -> tuple[str, ...]:
    notes = []
    if not patched[0].has("pattern_dest_src_pos") and patched[0].has("pattern_by_pos"):
        size = int(np.prod(patched[0].site("pattern_by_pos").effect.shape))
        entries = size * len(runs[0].pair.positions)
        notes.append(f"the {entries:,} single entries of the patterns were not patched: too many")
    if not _edits_mid(runs[0]):
        notes.append(
            "resid_mid was not patched: a TransformerBridge passes such an edit to the MLP only"
        )
    return tuple(notes)
