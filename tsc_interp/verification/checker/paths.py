"""Bounds the mean of a head over sets of paths of a trellis.

A head's output along one direction q is Σ w (q · v) / Σ w over the keys of a path, with weights
w > 0. For any number λ, one sweep over the stages finds the largest Σ w (q · v - λ) of all paths,
and λ + that / (least or largest Σ w) is above every mean. `highest` looks for a good λ by the path
that a sweep finds (Dinkelbach), but every sweep's bound holds whatever λ was: none is believed.
Several heads are bounded one by one, and, since they may cancel on every path, in one sweep of all.

Sweeps are in float64, and everything that they round is bounded at once: a path's total is a sum
with one term per place, each off by a few units of w (|q| · |v| + |λ|), and by what underflows
(`TINY`): letters far below the highest score have weights near the smallest numbers there are. The
assumptions are those of spans.py. A NaN survives every maximum, so it can only fail to show
something.

Part of the checker (trellis.py): nothing here is taken from the search.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.trusted.table import Index
from tsc_interp.verification.checker.sets import Mask, Sets
from tsc_interp.verification.checker.spans import TINY, UNIT, Floats, Span, down, up

_SWEEPS = 8
_CLOSE = 2.0**-36
"""Bounds this close to a mean that some path has, relatively, are not improved."""


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
        self.units = (d + 2 * length + len(tables) + 16) * UNIT
        self.room = up(off + up(np.abs(near) + off) * (2 * self.units))
        table = near[:, :n].reshape(len(tables), length, letters, 1 + d)
        self.weight, self.moment = table[..., 0], np.moveaxis(table[..., 1:], 3, 1)
        reader_sums = near[:, n:].sum(1) if own else np.zeros((len(tables), 1 + d))
        self.own_weight, self.own_moment = reader_sums[:, 0], reader_sums[:, 1:]

    def rooms(self, head: int, used: Mask) -> Floats:
        """At least what the keys of any path have together: `[set 1+d]`.

        `used [set place letter]`: which keys the paths of a set may have.
        """
        _, length, letters = used.shape
        room, n = self.room[head], length * letters
        total = np.broadcast_to(room[n:].sum(0), (len(used), room.shape[1]))
        for place in range(length):
            place_room = room[place * letters : (place + 1) * letters]
            total = total + np.where(used[:, place, :, None], place_room, 0.0).max(1)
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
    rows, heads = q.shape[1], range(len(keys[0].room))
    step = max(1, at_once // (len(sets) * sets.slots * max(1, len(heads))))
    bounds = np.zeros((len(sets), rows))
    for start in range(0, rows if heads else 0, step):
        chunk = slice(start, start + step)
        part = np.broadcast_to(q[:, chunk], (len(sets), *q[:, chunk].shape[1:]))
        wanted = None if enough is None else enough[:, chunk]
        if len(heads) == 1:
            bounds[:, chunk] = _Head(sets, keys, 0, part).bound(wanted)
            continue
        head_sums = [_Head(sets, keys, head, part) for head in heads]
        high = [head.bound(None) for head in head_sums]
        apart = high[0]
        for bound in high[1:]:
            apart = up(apart + bound)
        if wanted is None or not (apart < wanted).all():
            low = [-_Head(sets, keys, head, -part).bound(None) for head in heads]
            together = _together(head_sums, low, high)
            apart = np.where(together < apart, together, apart)
        bounds[:, chunk] = apart
    return bounds


def _together(heads: Sequence[_Head], low: Sequence[Floats], high: Sequence[Floats]) -> Floats:
    """Above the sum of all heads' means on every path, on which they may cancel: `[set row]`.

    With W = Σ w and T = Σ w (q · v - λ), a mean is λ + T / M + (mean - λ) (1 - W / M) for any λ and
    any M > 0. One sweep finds the largest Σ_heads T / M of all paths. The rest is at most how far
    the mean (between `low` and `high`) is from λ, times how far W / M is from 1.
    """
    first = heads[0]
    scores, total = [np.zeros_like(stage) for stage in first.scores], np.zeros_like(first.total)
    offset = np.zeros_like(first.total)
    for head, least, most in zip(heads, low, high, strict=True):
        level, (light, heavy) = least / 2 + most / 2, head.masses()
        mass = light / 2 + heavy / 2
        for stage, own, weights in zip(scores, head.scores, head.weights, strict=True):
            weight = (level[:, :, None, None] * weights[:, None]) / mass[..., None, None]
            stage += own / mass[..., None, None] - weight
        total += (head.total - level * head.mass) / mass
        room = head.room + np.abs(level) * head.mass_room + TINY
        offset = up(offset + up(level + up(up(room * (1 + head.units)) / mass)))
        away = np.maximum(up(most - level), up(level - least))
        share = np.maximum(up(up(heavy / mass) - 1), up(1 - down(light / mass)))
        offset = up(offset + up(away * share))
    job = np.nonzero(np.ones(total.shape, dtype=bool))
    largest = _Sums(first.sets, scores, first.weights, total, first.mass).sweep(
        np.zeros(total.size), *job
    )[0]
    return up(up(largest.reshape(total.shape) + offset) + TINY)


class _Sums:
    """What a path adds up to: of scores, and of weights beside them.

    scores [set row group slot] and weights [set group slot] per stage; total [set row] and mass
    [set 1] are what all paths have.
    """

    def __init__(
        self,
        sets: Sets,
        scores: list[Floats],
        weights: list[Floats],
        total: Floats,
        mass: Floats,
    ) -> None:
        self.sets, self.scores, self.weights = sets, scores, weights
        self.total, self.mass = total, mass

    def sweep(self, level: Floats, sets: Index, rows: Index) -> tuple[Floats, Floats]:
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
        total, common_mass = self.total[sets, rows], self.mass[sets, 0]
        return best[:, 0] + (total - level * common_mass), heavy[:, 0] + common_mass


class _Head(_Sums):
    """One head's totals over the paths of every set: `scores - λ weights` per stage."""

    def __init__(self, sets: Sets, keys: Sequence[Keys], head: int, q: Floats) -> None:
        trellis = sets.trellis
        shape = (len(sets), q.shape[1], trellis.length, keys[0].weight.shape[2])
        y, self.room = np.empty(shape), np.empty(shape[:2])
        super().__init__(sets, [], [], np.empty(shape[:2]), np.empty((len(sets), 1)))
        weight, self.mass_room = np.empty((shape[0], *shape[2:])), np.empty_like(self.mass)
        used = sets.used(shape[3])
        for key in {id(key): key for key in keys}.values():
            at = np.array([set_key is key for set_key in keys])
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
        for stage, layout, mask in zip(trellis.stages, sets.layouts, sets.rectangles, strict=True):
            letters = stage.letters[np.minimum(layout.edge, len(stage) - 1)]
            columns = [(place, letters[..., i]) for i, place in enumerate(stage.places)]
            scores = sum(y[:, :, place][:, :, chosen] for place, chosen in columns)
            self.scores.append(np.where(mask[:, None], scores, -np.inf))
            self.weights.append(np.asarray(sum(weight[:, place][:, at] for place, at in columns)))

    def bound(self, enough: Floats | None) -> Floats:
        """Above every mean, `[set row]`."""
        least, most = self.masses()
        level = self._middle() if enough is None else enough.copy()
        bounds, left = np.full(level.shape, np.inf), np.ones(level.shape, dtype=bool)
        for _ in range(_SWEEPS):
            at = np.nonzero(left)
            total, mass = self.sweep(level[at], *at)
            room = self.room[at] + np.abs(level[at]) * self.mass_room[at[0], 0] + TINY
            excess = up(up(total + up(room * (1 + self.units))))
            with np.errstate(all="ignore"):
                less = np.where(excess > 0, excess / least[at[0], 0], excess / most[at[0], 0])
                over, mean = up(level[at] + up(less)), level[at] + total / mass
            bounds[at] = np.minimum(bounds[at], over)  # NaN if one of them is
            close = over - mean <= _CLOSE * (np.abs(mean) + np.abs(over))
            if enough is not None:
                close |= bounds[at] < enough[at]
            level[at] = np.where(close | ~np.isfinite(mean), level[at], mean)
            left[at] = ~close
            if close.all():
                break
        return bounds

    def masses(self) -> tuple[Floats, Floats]:
        """At most the least, and at least the largest Σ w of a path: `[set 1]`."""
        least, most = self.mass, self.mass
        for weights, mask in zip(self.weights, self.sets.rectangles, strict=True):
            least = least + np.where(mask, weights, np.inf).min((1, 2))[:, None]
            most = most + np.where(mask, weights, 0.0).max((1, 2))[:, None]
        low = down(least - self.mass_room)
        return np.where(low > 0, low, np.nan), up(most + self.mass_room)

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


def _best(values: Floats, beside: Floats, rows: Index) -> tuple[Floats, Floats]:
    """The largest of each row of items, and what stands beside it: `[job row]`."""
    if rows.shape[1] == 1:
        return values[:, rows[:, 0]], beside[:, rows[:, 0]]
    pad = np.full((len(values), 1), -np.inf)
    values = np.concatenate([values, pad], axis=1)[:, rows]
    beside = np.concatenate([beside, pad], axis=1)[:, rows]
    slot = values.argmax(2)[..., None]
    return np.take_along_axis(values, slot, 2)[..., 0], np.take_along_axis(beside, slot, 2)[..., 0]
