"""Several heads, an MLP, norms: each channel's range over a box, then what follows for the outputs.

Per head and channel the largest mean over a box is the root λ of F(λ) = Σ_p max_l w (v - λ): each
place picks its letter alone, and Dinkelbach's iteration λ + F(λ) / Σ w finds the root from below.
Channels are differences of outputs and the activations' arguments, so that without norms the only
slack is that heads and neurons are bounded one by one. Norms divide by a range of scales. What is
not decided is cut in two, down to single strings.
"""

from __future__ import annotations

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification import intervals
from tsc_interp.verification.activations import ACTIVATIONS
from tsc_interp.verification.intervals import LEAST_WEIGHT, MEAN_TINY, UNIT, Array, Interval
from tsc_interp.verification.ordered_boxes import (
    RIGHT,
    Boxes,
    Decided,
    Index,
    Mask,
    Step,
    join,
    split_at,
)
from tsc_interp.verification.ordered_tables import WEIGHT_UNITS, OrderedTables, Rounded

_NUMBERS_AT_ONCE = 1 << 20
_ITERATIONS = 30


class General:
    """Bounds and cuts for boxes of one length."""

    def __init__(self, tables: OrderedTables, config: ClassifierConfig) -> None:
        self.tables, self.config = tables, config
        self._numbers = max(tables.values.values.size, 1)
        self._sizes = self._largest_sums()

    @property
    def cost(self) -> float:
        """Microseconds of a box, about."""
        return 40.0 + float(self._numbers) / 8

    def step(self, boxes: Boxes) -> Step:
        at_once = max(1, _NUMBERS_AT_ONCE // self._numbers)
        starts = range(0, len(boxes), at_once)
        with np.errstate(all="ignore"):
            parts = [self._step(boxes[start : start + at_once]) for start in starts]
        decided = [one for part in parts for one in part.decided]
        waiting = join([part.waiting for part in parts], boxes)
        return Step(decided, waiting, join([part.doubtful for part in parts], boxes))

    def _step(self, boxes: Boxes) -> Step:
        low, high = self.differences(boxes)
        right = (low > 0).all(1)
        instead = high.argmin(1)
        wrong = (high.min(1) < 0) & ~right
        decided = [Decided(boxes[right], np.full(int(right.sum()), RIGHT))]
        decided.append(Decided(boxes[wrong], instead[wrong]))
        open_ = ~(right | wrong)
        single = boxes.is_single()
        cut = open_ & ~single
        return Step(decided, self._cut(boxes[cut], low[cut]), boxes[open_ & single])

    # -- bounds --------------------------------------------------------------------------------

    def differences(self, boxes: Boxes) -> Interval:
        """The label's output minus each other's, times the final norm's scale: `[box class]`.

        Infinite where it is settled by equal weights: the label itself, and ties.
        """
        channels = self._channels(boxes)
        outer = channels["outer"]
        if "inner" in self.tables.slices:
            active = self._active(channels)
            outer = intervals.add(outer, self._times_gaps(active, boxes))
        if self.config.final_norm:
            state = channels["outer_state"]
            if "inner" in self.tables.slices:
                added = self.tables.matrices["added_state"]
                state = intervals.add(state, _times(active, added))
            shift = self._gap_of(self.tables.matrices["outer_shift"], boxes)
            low, high = self._scale(state)
            scale = low[:, None], high[:, None]
            outer = intervals.add(outer, intervals.multiply(shift, scale))
        low, high = intervals.sure(*outer)
        classes, label = np.arange(self.tables.classes), boxes.label[:, None]
        same = self.tables.same[boxes.label]
        settled = np.where(classes >= label, np.inf, -np.inf)
        return np.where(same, settled, low), np.where(same, settled, high)

    def _active(self, channels: dict[str, Interval]) -> Interval:
        inner = channels["inner"]
        if self.config.has_norm:
            low, high = self._scale(channels["inner_state"])
            # 1 / scale: the scale is at least the root of epsilon, so this is a bounded range.
            share = intervals.outward(1 / high, 1 / low)
            inner = intervals.multiply(inner, (share[0][:, None], share[1][:, None]))
            inner = intervals.add(inner, _ends(self.tables.matrices["inner_shift"]))
        return ACTIVATIONS[self.config.act_fn].bounds(*inner)

    def _scale(self, state: Interval) -> Interval:
        """√(mean square + ε), of a state's range: `[box]`."""
        low, high = intervals.square(state)
        width = low.shape[1]
        slack = (width + 8) * UNIT
        eps = self.config.norm_eps
        least = np.sqrt(low.sum(1) / width * (1 - slack) + eps) * (1 - 8 * UNIT)
        most = np.sqrt(high.sum(1) / width * (1 + slack) + eps) * (1 + 8 * UNIT)
        return np.maximum(least, np.sqrt(eps) * (1 - 8 * UNIT)), most

    def _gap_of(self, row: Rounded, boxes: Boxes) -> Interval:
        """A row of numbers per class as differences from the label's."""
        values, errors = row.values[0], row.errors[0]
        gaps = values[boxes.label][:, None] - values
        size = np.abs(values)[boxes.label][:, None] + np.abs(values)
        off = errors[boxes.label][:, None] + errors + 4 * UNIT * size
        return gaps - off, gaps + off

    def _times_gaps(self, active: Interval, boxes: Boxes) -> Interval:
        """Activations times what they add to each difference."""
        added = self.tables.matrices["added_outer"]
        low = np.empty((len(boxes), self.tables.classes))
        high = np.empty_like(low)
        for label in np.unique(boxes.label):
            rows = boxes.label == label
            gaps = added.values[:, [label]] - added.values
            size = np.abs(added.values[:, [label]]) + np.abs(added.values)
            off = added.errors[:, [label]] + added.errors + 2 * UNIT * size
            some = active[0][rows], active[1][rows]
            low[rows], high[rows] = _times(some, Rounded(gaps, off))
        return low, high

    def _channels(self, boxes: Boxes) -> dict[str, Interval]:
        """Every channel's range, `outer` as differences from the label's."""
        tables = self.tables
        constant, reading = tables.constant, boxes.reading
        own, off = _relative(constant.values[reading], constant.errors[reading], tables, boxes)
        low, high = own - off, own + off
        for head in range(tables.weights.shape[1]):
            more = self._head(boxes, head)
            low, high = low + more[0], high + more[1]
        terms = tables.weights.shape[1] + 2
        low, high = intervals.outward(low, high, terms)
        # Sums of terms that cancel: what rounds is measured by their sizes, not by the sum's.
        size = np.abs(own) + self._sizes
        off = 2 * terms * UNIT * size
        return {
            name: (low[:, part] - off[:, part], high[:, part] + off[:, part])
            for name, part in tables.slices.items()
        }

    def _largest_sums(self) -> Array:
        """More than the sum of the heads' largest values, per channel (twice, for differences)."""
        values, fixed = self.tables.values.values, self.tables.fixed_values.values
        most = np.abs(values).max((1, 2), initial=0.0).sum(0)
        most = most + np.abs(fixed).max(0, initial=0.0).sum(0)
        outer = self.tables.slices["outer"]
        most[outer] = 2 * most[outer].max(initial=0.0)
        return np.asarray(most)

    def _head(self, boxes: Boxes, head: int) -> Interval:
        """The range of one head's mean, `[box channel]`."""
        tables = self.tables
        weights = tables.weights[boxes.reading, head]
        held, errors = tables.values.values[head], tables.values.errors[head]
        shape = (len(boxes), *held.shape)
        values, off = _relative(
            np.broadcast_to(held, shape), np.broadcast_to(errors, shape), tables, boxes
        )
        fixed_weight = tables.fixed_weights[boxes.reading, head]
        fixed, fixed_off = _relative(
            tables.fixed_values.values[boxes.reading, head],
            tables.fixed_values.errors[boxes.reading, head],
            tables,
            boxes,
        )
        inside, itself = boxes.sets[..., None], self.tables.attends_itself
        most_off = np.where(inside, off, 0.0).max((1, 2), initial=0.0)
        most_off = np.maximum(most_off, fixed_off) if itself else most_off
        size = np.where(inside, np.abs(values), 0.0).max((1, 2), initial=0.0)
        size = np.maximum(size, np.abs(fixed)) if itself else size
        given = boxes.sets, weights, fixed_weight if itself else None
        high = _largest_mean(*given, values, fixed, size)
        low = -_largest_mean(*given, -values, -fixed, size)
        reach = 5 * (tables.free + 8 + WEIGHT_UNITS) * UNIT * size + most_off + MEAN_TINY
        return low - reach, high + reach

    # -- cuts ----------------------------------------------------------------------------------

    def _cut(self, boxes: Boxes, low: Array) -> Boxes:
        """In two, where the difference most in doubt depends most on the letter (a guess)."""
        if not len(boxes):
            return boxes
        rows = np.arange(len(boxes))
        pull = self._pull(boxes, low.argmin(1))
        least = np.where(boxes.sets, pull, np.inf).min(2)
        most = np.where(boxes.sets, pull, -np.inf).max(2)
        several = boxes.sets.sum(2) > 1
        place = np.where(several, np.nan_to_num(most - least, nan=0.0), -1.0).argmax(1)
        middle = (least[rows, place] + most[rows, place]) / 2
        part = boxes.sets[rows, place] & (pull[rows, place] <= middle[:, None])
        # NaN compares false: whatever happens, one of several letters is parted from the rest.
        useless = ~part.any(1) | (part == boxes.sets[rows, place]).all(1)
        first = boxes.sets[rows, place].argmax(1)
        part[useless] = False
        part[rows[useless], first[useless]] = True
        return split_at(boxes, place, part)

    def _pull(self, boxes: Boxes, doubtful: Index) -> Array:
        """How each letter at each place moves one difference, to first order: `[box place letter]`.

        Around the mean of the box's own weights, activations taken as the identity.
        """
        tables = self.tables
        outer = tables.values.values[..., tables.slices["outer"]]
        label = boxes.label
        direction = np.moveaxis(outer[..., label] - outer[..., doubtful], -1, 0)
        if "inner" in tables.slices:
            added = tables.matrices["added_outer"].values
            gaps = (added[:, label] - added[:, doubtful]).T
            inner = tables.values.values[..., tables.slices["inner"]]
            direction = direction + np.einsum("hplk,bk->bhpl", inner, gaps)
        weights = tables.weights[boxes.reading] * boxes.sets[:, None]
        total = weights.sum((2, 3)) + tables.fixed_weights[boxes.reading]
        mean = (weights * direction).sum((2, 3)) / total
        moved = tables.weights[boxes.reading] * (direction - mean[:, :, None, None])
        return np.asarray((moved / total[:, :, None, None]).sum(1))


def _largest_mean(
    sets: Mask,
    weights: Array,
    fixed_weight: Array | None,
    values: Array,
    fixed: Array,
    size: Array,
) -> Array:
    """λ with Σ w (v - λ) ≤ 0 in float64 for every string of each box: `[box channel]`.

    A float64 sum of n terms is the exact sum of terms off by n + 3 units each, and it grows with
    each term; so λ is above every mean in which weights are moved by that little, and above the
    real ones by 5 times so much of the largest value, which the caller adds. Where the iteration
    has not ended, or weights are too small to divide by, the largest value is the bound.
    """
    inside = sets[..., None]
    heavy = weights[..., None]
    unit = 8 * (sets.shape[1] + 8) * UNIT * size
    best = np.where(inside, values, -np.inf).max((1, 2), initial=-np.inf)
    level = np.where(inside, values, np.inf).min((1, 2), initial=np.inf)
    if fixed_weight is None:
        fixed_weight = np.zeros(len(sets))
    else:  # a weight that underflows is still a key's
        best, level = np.maximum(best, fixed), np.minimum(level, fixed)
    least_total = np.where(sets, weights, np.inf).min(2).sum(1) + fixed_weight
    done = np.zeros(level.shape, dtype=bool)
    for _ in range(_ITERATIONS):
        terms = np.where(inside, heavy * (values - level[:, None, None]), -np.inf)
        chosen = terms.argmax(2)
        picked = np.take_along_axis(terms, chosen[:, :, None], 2)[:, :, 0]
        excess = picked.sum(1) + fixed_weight[:, None] * (fixed - level)
        done = excess <= 0
        if done.all():
            break
        total = np.take_along_axis(weights, chosen, 2).sum(1) + fixed_weight[:, None]
        # At least one bump, so that what is left is not below what float64 can tell.
        level = np.where(done, level, level + np.maximum(excess / total, unit))
    usable = done & (least_total > LEAST_WEIGHT)[:, None] & np.isfinite(level)
    return np.asarray(np.where(usable, np.minimum(level, best), best))


def _relative(
    values: Array, errors: Array, tables: OrderedTables, boxes: Boxes
) -> tuple[Array, Array]:
    """Outputs as differences from the label's, the other channels as they are; and errors."""
    part = tables.slices["outer"]
    shape = (len(boxes), *(1,) * (values.ndim - 2), 1)
    label = boxes.label.reshape(shape)
    outer, off = values[..., part], errors[..., part]
    own = np.take_along_axis(outer, label, -1)
    own_off = np.take_along_axis(off, label, -1)
    found, found_off = values.copy(), errors.copy()
    found[..., part] = own - outer
    found_off[..., part] = own_off + off + 2 * UNIT * (np.abs(own) + np.abs(outer))
    return found, found_off


def _ends(row: Rounded) -> Interval:
    return row.values - row.errors, row.values + row.errors


def _times(x: Interval, matrix: Rounded) -> Interval:
    """An interval times a matrix that is known up to errors."""
    low, high = intervals.times_matrix(x, matrix.values)
    size = np.maximum(np.abs(x[0]), np.abs(x[1])) @ matrix.errors
    off = size * (1 + (len(matrix.errors) + 4) * UNIT)
    return low - off, high + off
