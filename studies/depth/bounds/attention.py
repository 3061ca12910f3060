"""Attention over boxes, from one query: the layers behind the first.

Weights of keys y with scores s_y and values v_y. Subtracting the mean score changes nothing, so a
weight is w_y exp(d_y), with w_y its value at the centre and d_y the deviation of s_y from the mean.
With c the output at the centre, the output is c + M / W, for M the sum of w_y exp(d_y) (v_y - c)
and W that of w_y exp(d_y). Both are a constant from the keys whose letter is known, plus a table
for each free place, exact at the centre; the exponential lies between two parallel lines, and
products of two deviations go into a remainder. A second bound takes each term of M - t W by its
own range, for the t nearest to c that the signs allow (Dinkelbach); the narrower one is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from studies.depth.bounds.forms import UNIT, UP, Form, unflatten

_TINY = 1e-250
"""More than any weight that underflows stands for."""
_WIDE = 200.0
_STEPS = 12


@dataclass(frozen=True)
class Keys:
    """Keys and values of all vertices, as one query sees them, with `places` free places."""

    key: Form
    value: Form
    seen: Tensor
    """`[box vertex]`: False for what the query does not see."""
    known: int
    """How many vertices, the first ones, have a letter that is known."""

    def joined(self, terms: Tensor) -> tuple[Tensor, Tensor]:
        """Terms `[box vertex ...]` of known keys, and of free ones `[box place letter ...]`."""
        places, letters = self.key.table.shape[1:3]
        return terms[:, : self.known], unflatten(terms[:, self.known :], 1, (places, letters))

    def worst(self, terms: Tensor) -> Tensor:
        """The largest sum of terms over the choices of letters."""
        known, free = self.joined(terms)
        return known.sum(1) + free.amax(2).sum(1)


def as_known(vertex: int, keys: Keys) -> tuple[Keys, int]:
    """What a query at a free place sees: the letter there is known, its vertex one more such key.

    Returns:
        The keys, and the number of the query's own vertex among them.
    """
    letters = keys.key.table.shape[2]
    place, letter = divmod(vertex - keys.known, letters)
    if place < 0:
        return keys, vertex

    def moved(part: Tensor, axis: int) -> Tensor:
        one = part.narrow(axis, vertex, 1)
        size = part.shape[axis] - keys.known
        return torch.cat([part.narrow(axis, 0, keys.known), one,
                          part.narrow(axis, keys.known, size)], axis)  # fmt: skip

    def known(form: Form) -> Form:
        table = form.table.clone()
        table[:, place] = 0
        slack = form.slack + UNIT * form.size
        centre = form.centre + form.table[:, place, letter]
        return Form(moved(centre, 1), moved(table, 3), moved(form.noise, 1), moved(slack, 1))

    seen = moved(keys.seen, 1)
    start = keys.known + 1 + place * letters
    seen[:, start : start + letters] = False
    return Keys(known(keys.key), known(keys.value), seen, keys.known + 1), keys.known


def attended(query: Form, keys: Keys, own: int, heads: int, *, keep: bool) -> Form:
    """What one query's heads read, side by side.

    Args:
        query: One vertex.
        keys: What it sees.
        own: The query's own vertex.
        heads: How many there are, side by side in queries, keys and values.
        keep: Whether the noise of known keys stays apart; else it becomes part of the remainder.
    """
    query, key, value = query.middled(), keys.key.middled(), keys.value.middled()
    places, letters = key.table.shape[1:3]

    def split(part: Tensor) -> Tensor:
        return unflatten(part, -1, (heads, -1))

    # Each key has its own view of the query, whose letter at the key's place is the key's.
    q = split(query.centre[:, 0])[:, None].expand(-1, key.centre.shape[1], -1, -1).clone()
    turned = split(query.table[:, :, :, 0])
    q[:, keys.known :] += turned.flatten(1, 2)
    k, v = split(key.centre), split(value.centre)
    scale = 1 / math.sqrt(k.shape[-1])
    turns = torch.einsum("bflhd,byhd->bflyh", turned, k)
    for place in range(places):
        own_part = slice(keys.known + place * letters, keys.known + (place + 1) * letters)
        turns[:, place, :, own_part] = 0
    tables = (torch.einsum("byhd,bflyhd->bflyh", q, split(key.table)) + turns) * scale
    mine = torch.einsum("bnhd,byhd->bnyh", split(query.noise[:, 0]), k) * scale
    theirs = torch.einsum("byhd,bynhd->bynh", q, split(key.noise)) * scale
    noise = split(value.noise)
    own_noise = noise[:, own]
    own_seen = keys.seen[:, own].to(q.dtype)[:, None, None, None]
    mine[:, :, own] += theirs[:, own]
    noise, theirs = noise.clone(), theirs.clone()
    noise[:, own], theirs[:, own] = 0, 0
    size = split(query.size)
    rest = split(query.radius) * split(key.radius) + q.abs() * split(key.slack)
    rest = rest + split(query.slack) * k.abs() + UNIT * size * split(key.size)
    rest = UP * scale * rest.sum(-1)
    # Scores at the centre, and the mean deviation as an affine form of its own.
    scores = ((q * k).sum(-1) * scale).masked_fill(~keys.seen[..., None], -torch.inf)
    top = scores.amax(1, keepdim=True)
    rest = rest + UNIT * (1 + (q * k).abs().sum(-1) * scale + top.abs())
    w = (scores - top).exp()
    known, free = keys.joined(w)
    w = w / (known.sum(1) + free.mean(2).sum(1))[:, None]
    p = torch.cat([w[:, : keys.known], w[:, keys.known :] / letters], 1)
    mean = torch.einsum("byh,bflyh->bflh", p, tables)
    tables = tables - mean[:, :, :, None]
    for place in range(places):
        own_part = slice(keys.known + place * letters, keys.known + (place + 1) * letters)
        tables[:, place, :, own_part] = 0
    w[:, keys.known :] *= (-mean).clamp(-_WIDE, _WIDE).exp().flatten(1, 2)
    mine = mine - torch.einsum("byh,bnyh->bnh", p, mine)[:, :, None]
    apart = theirs.abs().sum(2) + rest
    common = UP * (p * apart).sum(1, keepdim=True)
    around = UP * (mine.abs().sum(1) + common + (1 - 2 * p).clamp(min=0) * apart)
    around = around + UNIT * (1 + tables.abs().amax(2).sum(1) + mean.abs().amax((1, 2))[:, None])
    low = tables.amin(2).sum(1) - around
    high = tables.amax(2).sum(1) + around
    gone = ~keys.seen[..., None]
    low, high = low.masked_fill(gone, 0.0), high.masked_fill(gone, 0.0)
    wide = ((high > _WIDE) | (low < -_WIDE)).any(1) | (mean.abs() > _WIDE).any(2).any(1)
    low, high = low.clamp(-_WIDE, _WIDE), high.clamp(-_WIDE, _WIDE)
    slope, middle, band = _exponential(low, high)
    e, linear = w * middle, w * slope
    share = torch.cat([e[:, : keys.known], e[:, keys.known :] / letters], 1)
    c = (torch.einsum("byh,byhd->bhd", share, v) / share.sum(1)[..., None]).nan_to_num(0.0)
    # One more component, 1 for every key, makes W a component of the same sum.
    one = torch.ones_like(v[..., :1])
    nothing = torch.zeros_like(one)
    u = torch.cat([v - c[:, None], one], -1)
    v_table = torch.nn.functional.pad(split(value.table), (0, 1))
    v_noise = torch.nn.functional.pad(noise, (0, 1))
    v_radius = torch.cat([split(value.radius), nothing], -1)
    v_slack = torch.cat([split(value.slack), nothing], -1)
    v_size = torch.cat([split(value.size) + c.abs()[:, None], one], -1)
    cross = (tables * linear[:, None, None])[..., None] * u[:, None, None]
    cross = cross + e[:, None, None, ..., None] * v_table  # [box place letter vertex head part]
    table = cross[:, :, :, : keys.known].sum(3)
    table = table + keys.joined(e[..., None] * u)[1]
    both = unflatten(cross[:, :, :, keys.known :], 3, (places, letters))
    between = (both.amin(4) + both.amax(4)) / 2
    table = table + between.sum(3)
    off = (both - between[:, :, :, :, None]).abs().amax(2).sum(1).amax(2).sum(1)
    reach = torch.maximum(high, -low)
    spread = (w * (slope * reach + band))[..., None]
    box = (linear * rest + w * band)[..., None] * u.abs() + spread * v_radius
    box = box + e[..., None] * v_slack + (UNIT * (e[..., None] + spread) + _TINY) * v_size
    coupled = (w * slope)[..., None, None] * theirs.transpose(2, 3)[..., None] * u[..., None, :]
    coupled = coupled + e[..., None, None] * v_noise.transpose(2, 3)
    if keep:
        box = torch.cat([box[:, : keys.known], box[:, keys.known :]
                         + coupled[:, keys.known :].abs().sum(3)], 1)  # fmt: skip
    else:
        box = box + coupled.abs().sum(3)
    drift = keys.worst(linear[..., None] * u), keys.worst(-(linear[..., None] * u))
    off = off + common[:, 0, :, None] * torch.maximum(drift[0], drift[1]).clamp(min=0)
    ours = (mine * linear[:, None])[..., None] * u[:, None]
    ours_known, ours_free = ours[:, :, : keys.known].sum(2), ours[:, :, keys.known :]
    ours_free = unflatten(ours_free, 2, (places, letters))
    ours_between = (ours_free.amin(3) + ours_free.amax(3)) / 2
    off = off + (ours_free - ours_between[:, :, :, None]).abs().sum(1).amax(2).sum(1)
    own_now = torch.nn.functional.pad(own_noise, (0, 1)) * e[:, own][:, None, :, None]
    ours = ours_known + ours_between.sum(2) + own_now * own_seen
    box = UP * (keys.worst(box) + off)
    centre = (e[..., None] * u)[:, : keys.known].sum(1)
    symbols = [ours]
    if keep:
        symbols.append(coupled[:, : keys.known].permute(0, 1, 3, 2, 4).flatten(1, 2))
    moved = Form(
        centre.flatten(1)[:, None],
        table.flatten(3)[:, :, :, None],
        torch.cat(symbols, 1).flatten(2)[:, None],
        box.flatten(1)[:, None],
    ).middled()
    return _quotient(moved, c, keys, w, low, high, wide, [split(x) for x in value.ends])


def _quotient(
    moved: Form, c: Tensor, keys: Keys, w: Tensor, low: Tensor, high: Tensor, wide: Tensor,
    ends: list[Tensor],
) -> Form:  # fmt: skip
    """c + M / W, from the forms of M and W beside each other in each head."""
    heads, width = c.shape[1:]

    def parts(x: Tensor) -> tuple[Tensor, Tensor]:
        x = unflatten(x, -1, (heads, width + 1))
        return x[..., :-1].flatten(-2), x[..., -1]

    least = torch.maximum(parts(moved.ends[0])[1][:, 0], -keys.worst(-w * low.exp()))
    most = torch.minimum(parts(moved.ends[1])[1][:, 0], keys.worst(w * high.exp()))
    least, most = least.clamp(min=_TINY) / UP, most * UP
    most = torch.maximum(least, most)
    inverse = ((1 / least + 1 / most) / 2).repeat_interleave(width, -1)[:, None]
    off = UP * ((1 / least - 1 / most) / 2).repeat_interleave(width, -1)[:, None] + UNIT * inverse
    m = Form(*(parts(x)[0] for x in (moved.centre, moved.table, moved.noise, moved.slack)))
    m_size = torch.maximum(m.ends[0].abs(), m.ends[1].abs())
    rest = UP * (off * m_size + inverse * m.slack)
    flat = c.flatten(1)[:, None]
    found = Form(
        flat + m.centre * inverse,
        m.table * inverse[:, None, None],
        m.noise * inverse[:, :, None],
        UNIT * (flat.abs() + inverse * m.size),
    )
    bottom, top = _dinkelbach(w, low, high, wide, c, keys, ends)
    always = wide.repeat_interleave(width, -1)[:, None] | ~torch.isfinite(rest)
    return found.or_interval(rest, bottom.flatten(1)[:, None], top.flatten(1)[:, None], always)


def _exponential(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """slope, middle and band: exp(x) is within band of slope x + middle, from low to high."""
    width, ends = high - low, (low.exp(), high.exp())
    slope = torch.where(width > 1e-6, (ends[1] - ends[0]) / width.clamp(min=1e-6), ends[0])
    touch = torch.minimum(torch.maximum(slope.log(), low), high)
    under = touch.exp() - slope * touch
    over = torch.maximum(ends[0] - slope * low, ends[1] - slope * high)
    rounding = UNIT * (ends[1] + slope * (low.abs() + high.abs() + 1))
    return slope, (under + over) / 2, UP * (over - under).clamp(min=0) / 2 + rounding


def _dinkelbach(
    w: Tensor, low: Tensor, high: Tensor, wide: Tensor, c: Tensor, keys: Keys, ends: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Bounds of a mean of values: every t with sum of max w (v - t) below 0 is above the mean."""
    gone = ~keys.seen[..., None, None]
    least, most = (w * low.exp())[..., None], (w * high.exp())[..., None]
    found = []
    for sign, end in ((1, ends[1]), (-1, ends[0])):
        value = sign * end
        safe = value.masked_fill(gone, -torch.inf).amax(1)
        close = torch.minimum(sign * c, safe)
        for _ in range(_STEPS):
            t = (safe + close) / 2
            v = value - t[:, None]
            terms = torch.maximum(least * v, most * v)
            room = UNIT * (most * (value.abs() + t.abs()[:, None]))
            holds = keys.worst((terms + room).masked_fill(gone, 0.0)) <= 0
            holds &= ~wide[..., None]
            safe, close = torch.where(holds, t, safe), torch.where(holds, close, t)
        found.append(sign * (safe + UNIT * safe.abs()))
    return found[1], found[0]
