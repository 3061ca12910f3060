"""Represents sets of inputs as paths of a trellis, and bounds the mean of a head over each.

A head's output along one direction q is Σ w (q · v) / Σ w over the keys of a path, with weights
w > 0. For any number λ, one sweep over the stages finds the largest Σ w (q · v - λ) of all paths,
and λ + that / (least or largest Σ w) is above every mean. `highest` looks for a good λ by the path
that a sweep finds (Dinkelbach), but every sweep's bound holds whatever λ was: none is believed.

Sweeps are in float64, and everything that they round is bounded at once: a path's total is a sum
with one term per place, each off by a few units of w (|q| · |v| + |λ|). The assumptions are those
of spans.py. A NaN survives every maximum, so it can only fail to show something.

Part of the checker (trellis.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.tasks.trellis import Index, Stage, Trellis
from tsc_interp.verification.checker.spans import UNIT, Floats, Span, down, up

Mask = NDArray[np.bool_]

_SWEEPS = 8
_CLOSE = 2.0**-36
"""Bounds this close to a mean that some path has, relatively, are not improved."""


class Layout:
    """One stage with its edges in a rectangle, `[group slot]`: a group per (source, target).

    Slots without an edge have the number of edges. `incoming [target most]` has the groups that
    lead to each state, padded with the number of groups; `outgoing` those that leave each.
    """

    def __init__(self, stage: Stage) -> None:
        order = np.lexsort((stage.target, stage.source))
        source, target = stage.source[order], stage.target[order]
        new = (np.diff(source, prepend=-1) != 0) | (np.diff(target, prepend=-1) != 0)
        self.edge = _padded(np.cumsum(new) - 1, order, len(stage))
        self.source, self.target = source[new], target[new]
        groups = np.arange(len(self.source))
        self.incoming = _padded(self.target, groups, len(groups))
        self.outgoing = _padded(self.source, groups, len(groups))


def slots(trellis: Trellis) -> int:
    """Slots of the rectangles of all stages, without making them: at least the edges."""
    found = 0
    for stage in trellis.stages:
        pairs = stage.source * (int(stage.target.max()) + 1) + stage.target
        sizes = np.unique(pairs, return_counts=True)[1]
        found += len(sizes) * int(sizes.max())
    return found


def _padded(row: Index, item: Index, nothing: int) -> Index:
    """`[row most]`: the items of each row from the left, then `nothing`."""
    by_row = np.argsort(row, kind="stable")
    sizes = np.bincount(row)
    column = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.full((len(sizes), int(sizes.max())), nothing, dtype=np.int64)
    found[row[by_row], column] = item[by_row]
    return found


class Sets:
    """Sets of paths of one trellis: those through the edges `masks[stage] [set edge]`."""

    def __init__(
        self, trellis: Trellis, masks: Sequence[Mask], layouts: Sequence[Layout] | None = None
    ) -> None:
        self.trellis = trellis
        self.layouts = layouts or [Layout(stage) for stage in trellis.stages]
        self.masks = self._on_paths(masks)

    @classmethod
    def whole(cls, trellis: Trellis) -> Sets:
        """One set of all paths."""
        return cls(trellis, [np.ones((1, len(stage)), dtype=bool) for stage in trellis.stages])

    def __len__(self) -> int:
        return len(self.masks[0])

    def __getitem__(self, chosen: Any) -> Sets:
        return Sets(self.trellis, [mask[chosen] for mask in self.masks], self.layouts)

    def _on_paths(self, masks: Sequence[Mask]) -> list[Mask]:
        """The edges that lie on a path of chosen edges from the first stage to the last."""
        kept = list(masks)
        reached: Mask = np.ones((len(kept[0]), 1), dtype=bool)
        for number, (stage, layout) in enumerate(
            zip(self.trellis.stages, self.layouts, strict=True)
        ):
            kept[number] = kept[number] & reached[:, stage.source]
            reached = _some(_some(kept[number], layout.edge), layout.incoming)
        for number in reversed(range(len(kept))):
            stage, layout = self.trellis.stages[number], self.layouts[number]
            kept[number] = kept[number] & reached[:, stage.target]
            reached = _some(_some(kept[number], layout.edge), layout.outgoing)
        return kept

    @property
    def has_paths(self) -> Mask:
        return np.asarray(self.masks[0].any(1))

    def counts(self) -> list[int]:
        """How many paths each set has."""
        ways: NDArray[Any] = np.ones((len(self), 1), dtype=object)
        for mask, layout in zip(self.masks, self.layouts, strict=True):
            edges = _spread(mask, layout.edge, False).sum(2)
            ways = _spread(ways[:, layout.source] * edges, layout.incoming, 0).sum(2)
        return [int(number) for number in ways.sum(1)]

    def labels(self) -> Index:
        """The label that all paths of a set have; -1 where they have several, or there are none."""
        return _only(self.masks[self.trellis.label_stage], self.trellis.label)

    def letters_at(self, place: int) -> Index:
        """The letter that all paths of a set have at a place, or -1."""
        for at, letter in self.trellis.fixed:
            if at == place:
                return np.where(self.masks[0].any(1), letter, -1)
        number, column = self.trellis.place_of[place]
        return _only(self.masks[number], self.trellis.stages[number].letters[:, column])

    def strings(self, which: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Every path of one set as its letters, and its label."""
        row, stages = dict(self.trellis.fixed), self.trellis.stages
        for path in self._walk(which):
            for stage, edge in zip(stages, path, strict=True):
                row.update(zip(stage.places, stage.letters[edge].tolist(), strict=True))
            label = int(self.trellis.label[path[self.trellis.label_stage]])
            yield tuple(row[place] for place in range(self.trellis.length)), label

    def singles(self, which: Sequence[int]) -> Sets:
        """Every path of these sets as a set of its own, in the order of `strings`."""
        edges = np.array([path for one in which for path in self._walk(one)])
        columns = zip(edges.T, self.trellis.stages, strict=True)
        masks = [column[:, None] == np.arange(len(stage)) for column, stage in columns]
        return Sets(self.trellis, masks, self.layouts)

    def _walk(self, which: int, *path: int) -> Iterator[tuple[int, ...]]:
        """The edges of every path of one set that begins so."""
        number, stages = len(path), self.trellis.stages
        if number == len(stages):
            yield path
            return
        state = int(stages[number - 1].target[path[-1]]) if path else 0
        leaving = self.masks[number][which] & (stages[number].source == state)
        for edge in np.flatnonzero(leaving).tolist():
            yield from self._walk(which, *path, edge)

    def first(self) -> tuple[int, ...]:
        """The first path of all sets in the order of the alphabet."""
        left, found = self, dict(self.trellis.fixed)
        for place in range(self.trellis.length):
            if place in found:
                continue
            number, column = self.trellis.place_of[place]
            letters = self.trellis.stages[number].letters[:, column]
            found[place] = int(letters[left.masks[number].any(0)].min())
            masks = list(left.masks)
            masks[number] = masks[number] & (letters == found[place])
            left = Sets(self.trellis, masks, self.layouts)
            left = left[left.has_paths]
        return tuple(found[place] for place in range(self.trellis.length))

    def used(self, letters: int) -> Mask:
        """`[set place letter]`: which letters stand where in some path."""
        found = np.zeros((len(self), self.trellis.length, letters), dtype=bool)
        for place, letter in self.trellis.fixed:
            found[:, place, letter] = True
        for stage, mask in zip(self.trellis.stages, self.masks, strict=True):
            rows, edges = np.nonzero(mask)
            for column, place in enumerate(stage.places):
                found[rows, place, stage.letters[edges, column]] = True
        return found

    @property
    def slots(self) -> int:
        """Numbers in one table of a sweep, for each set and row."""
        return sum(layout.edge.size for layout in self.layouts)

    @cached_property
    def rectangles(self) -> list[Mask]:
        """`[set group slot]` per stage: the edges of each set."""
        pairs = zip(self.masks, self.layouts, strict=True)
        return [_spread(mask, layout.edge, False) for mask, layout in pairs]


def _spread(values: NDArray[Any], places: Index, nothing: Any) -> NDArray[Any]:
    """`values [set item]` at these places `[row most]`, `nothing` where there is none."""
    column = np.full((len(values), 1), nothing, dtype=values.dtype)
    return np.concatenate([values, column], axis=1)[:, places]


def _some(flags: Mask, places: Index) -> Mask:
    """Whether one of the items of each row is set: `[set row]`."""
    return np.asarray(_spread(flags, places, False).any(2))


def _only(mask: Mask, values: Index) -> Index:
    """The one value of all chosen edges, or -1: `[set]`."""
    most = np.iinfo(np.int64).max
    low = np.where(mask, values, most).min(1)
    return np.where(low == np.where(mask, values, -1).max(1), low, -1)


class Keys:
    """What one reader meets in strings of one length, per head and key.

    weight [head place letter], moment [head d place letter]: w, and w v; numbers near the real ones
    own_weight [head], own_moment [head d]: of the reader itself, zero where it does not attend
    room [head key 1+d]: how far w and w v can be from those, w first, and what sums with so many
    terms round of them; the reader itself is the last key
    base, reach [d]: the reader's own residual; where its residual lies after attention
    """

    def __init__(
        self, length: int, letters: int, own: bool, tables: Sequence[Span], base: Span, reach: Span
    ) -> None:
        """`tables [key item]` per head: w, w v, place by place; with `own`, the reader last."""
        self.base, self.reach = base, reach
        d, n = len(base.low), length * letters
        near = np.array([table.middle for table in tables]).reshape(len(tables), n + own, 1 + d)
        off = np.array([table.radius for table in tables]).reshape(near.shape)
        self.units = (d + 2 * length + 16) * UNIT
        self.room = up(off + up(np.abs(near) + off) * (2 * self.units))
        table = near[:, :n].reshape(len(tables), length, letters, 1 + d)
        self.weight, self.moment = table[..., 0], np.moveaxis(table[..., 1:], 3, 1)
        mine = near[:, n:].sum(1) if own else np.zeros((len(tables), 1 + d))
        self.own_weight, self.own_moment = mine[:, 0], mine[:, 1:]

    def rooms(self, head: int, used: Mask) -> Floats:
        """At least what the keys of any path have together: `[set 1+d]`.

        `used [set place letter]`: which keys the paths of a set may have.
        """
        _, length, letters = used.shape
        room, n = self.room[head], length * letters
        total = np.broadcast_to(room[n:].sum(0), (len(used), room.shape[1]))
        for place in range(length):
            here = room[place * letters : (place + 1) * letters]
            total = total + np.where(used[:, place, :, None], here, 0.0).max(1)
        return up(total * (1 + self.units))


def highest(
    sets: Sets,
    keys: Sequence[Keys],
    q: Floats,
    enough: Floats | None = None,
    at_once: int = 1 << 22,
) -> Floats:
    """Above Σ_heads q · (what the head adds) on every path of a set: `[set row]`.

    Args:
        sets: The inputs.
        keys: What the reader of each set meets.
        q: `[set row d]` exact numbers; one set stands for all.
        enough: `[set row]` bounds below this are not improved.
        at_once: Numbers of one table of a sweep.

    Returns:
        A bound for each, NaN where none could be shown.
    """
    rows = q.shape[1]
    step = max(1, at_once // (len(sets) * sets.slots))
    found = np.zeros((len(sets), rows))
    for start in range(0, rows, step):
        some = slice(start, start + step)
        part = np.broadcast_to(q[:, some], (len(sets), *q[:, some].shape[1:]))
        heads = len(keys[0].room)
        for head in range(heads):
            wanted = enough[:, some] if enough is not None and heads == 1 else None
            bound = _Head(sets, keys, head, part).bound(wanted)
            found[:, some] = up(found[:, some] + bound)
    return found


class _Head:
    """One head's totals over the paths of every set: `scores - λ weights` per stage."""

    def __init__(self, sets: Sets, keys: Sequence[Keys], head: int, q: Floats) -> None:
        self.sets, trellis = sets, sets.trellis
        shape = (len(sets), q.shape[1], trellis.length, keys[0].weight.shape[2])
        y, self.room = np.empty(shape), np.empty(shape[:2])
        self.total, self.mass = np.empty(shape[:2]), np.empty((len(sets), 1))
        weight, self.mass_room = np.empty((shape[0], *shape[2:])), np.empty_like(self.mass)
        used = sets.used(shape[3])
        for key in {id(key): key for key in keys}.values():
            at = np.array([one is key for one in keys])
            y[at] = (q[at] @ key.moment[head].reshape(q.shape[2], -1)).reshape(-1, *shape[1:])
            weight[at], self.mass[at] = key.weight[head], key.own_weight[head]
            self.total[at] = q[at] @ key.own_moment[head]
            room = key.rooms(head, used[at])
            self.room[at] = (np.abs(q[at]) @ room[:, 1:, None])[..., 0]
            self.mass_room[at, 0] = room[:, 0]
        for place, letter in trellis.fixed:
            self.total = self.total + y[:, :, place, letter]
            self.mass = self.mass + weight[:, place, letter, None]
        self.units = keys[0].units
        self.scores: list[Floats] = []
        self.weights: list[Floats] = []
        for stage, layout, mask in zip(trellis.stages, sets.layouts, sets.rectangles, strict=True):
            letters = stage.letters[np.minimum(layout.edge, len(stage) - 1)]
            columns = [(place, letters[..., i]) for i, place in enumerate(stage.places)]
            scores = sum(y[:, :, place][:, :, chosen] for place, chosen in columns)
            self.scores.append(np.where(mask[:, None], scores, -np.inf))
            self.weights.append(np.asarray(sum(weight[:, place][:, at] for place, at in columns)))

    def bound(self, enough: Floats | None) -> Floats:
        """Above every mean, `[set row]`."""
        least, most = self._masses()
        level = self._middle() if enough is None else enough.copy()
        found, left = np.full(level.shape, np.inf), np.ones(level.shape, dtype=bool)
        for _ in range(_SWEEPS):
            at = np.nonzero(left)
            total, mass = self._sweep(level[at], *at)
            # A NaN must not vanish, nor a level that is none improve anything.
            room = self.room[at] + np.abs(level[at]) * self.mass_room[at[0], 0]
            excess = up(up(total + up(room * (1 + self.units))))
            with np.errstate(all="ignore"):
                less = np.where(excess > 0, excess / least[at[0], 0], excess / most[at[0], 0])
                over, mean = up(level[at] + up(less)), level[at] + total / mass
            none = np.isnan(over) | np.isnan(found[at])
            found[at] = np.where(none, np.nan, np.minimum(found[at], over))
            close = over - mean <= _CLOSE * (np.abs(mean) + np.abs(over))
            if enough is not None:
                close |= found[at] < enough[at]
            level[at] = np.where(close | ~np.isfinite(mean), level[at], mean)
            left[at] = ~close
            if close.all():
                break
        return found

    def _masses(self) -> tuple[Floats, Floats]:
        """At most the least, and at least the largest Σ w of a path: `[set 1]`."""
        least, most = self.mass, self.mass
        for weights, mask in zip(self.weights, self.sets.rectangles, strict=True):
            least = least + np.where(mask, weights, np.inf).min((1, 2))[:, None]
            most = most + np.where(mask, weights, 0.0).max((1, 2))[:, None]
        room = up(self.mass_room * (1 + UNIT))
        low = down(least - room)
        return np.where(low > 0, low, np.nan), up(most + room)

    def _middle(self) -> Floats:
        """Somewhere to begin: the mean over all edges."""
        total, mass = self.total, self.mass
        for scores, weights, mask in zip(
            self.scores, self.weights, self.sets.rectangles, strict=True
        ):
            number = mask.sum((1, 2))[:, None]
            total = total + np.where(mask[:, None], scores, 0.0).sum((2, 3)) / number
            mass = mass + (weights * mask).sum((1, 2))[:, None] / number
        return np.asarray(total / mass)

    def _sweep(self, level: Floats, sets: Index, rows: Index) -> tuple[Floats, Floats]:
        """The largest Σ (scores - level weights) of a path, and that path's Σ w, about.

        `[job]`, each job a row of a set.
        """
        best = heavy = np.zeros((len(level), 1))
        for scores, weights, layout in zip(
            self.scores, self.weights, self.sets.layouts, strict=True
        ):
            weight = weights[sets]
            value = scores[sets, rows]
            value -= level[:, None, None] * weight
            slot = value.argmax(2)[..., None]
            groups = np.take_along_axis(value, slot, 2)[..., 0] + best[:, layout.source]
            mass = np.take_along_axis(weight, slot, 2)[..., 0] + heavy[:, layout.source]
            best, heavy = _best(groups, mass, layout.incoming)
        best, heavy = _best(best, heavy, np.arange(best.shape[1])[None])
        total, mine = self.total[sets, rows], self.mass[sets, 0]
        return best[:, 0] + (total - level * mine), heavy[:, 0] + mine


def _best(values: Floats, beside: Floats, rows: Index) -> tuple[Floats, Floats]:
    """The largest of each row of items, and what stands beside it: `[job row]`."""
    if rows.shape[1] == 1:
        return values[:, rows[:, 0]], beside[:, rows[:, 0]]
    pad = np.full((len(values), 1), -np.inf)
    values = np.concatenate([values, pad], axis=1)[:, rows]
    beside = np.concatenate([beside, pad], axis=1)[:, rows]
    slot = values.argmax(2)[..., None]
    return np.take_along_axis(values, slot, 2)[..., 0], np.take_along_axis(beside, slot, 2)[..., 0]
