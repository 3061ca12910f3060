"""Norms and activations on forms: each is replaced by an affine map and a remainder."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from studies.depth.bounds.forms import UNIT, UP, Form

_CURVATURE = {"gelu": 0.8, "gelu_new": 0.9, "silu": 0.51}
"""No second derivative is larger; checked on a fine grid by the tests."""
_GRID = 33


# -- norms -------------------------------------------------------------------------------------


def centred(x: Form, kind: str) -> Form:
    """Minus its mean where the norm is LayerNorm; tables in the middle."""
    if kind == "layer":
        width = x.centre.shape[-1]
        slack = x.slack + x.slack.mean(-1, keepdim=True)
        slack = UP * (slack + UNIT * (x.size + x.size.sum(-1, keepdim=True) / width))
        found = x.each(lambda part: part - part.mean(-1, keepdim=True))
        x = Form(found.centre, found.table, found.noise, slack)
    return x.middled()


def variance(x: Form, eps: float) -> tuple[Form, Tensor, Tensor]:
    """Of centred vectors: one component, with one more symbol; its least and largest value."""
    width = x.centre.shape[-1]
    weight = 2 * x.centre / width
    size = UP * x.radius.square().mean(-1, keepdim=True)
    own = x.centre.square().mean(-1, keepdim=True)
    total = UNIT * (own + eps + size + (weight.abs() * x.size).sum(-1, keepdim=True))
    found = Form(
        own + eps + size / 2,
        torch.einsum("bflpd,bpd->bflp", x.table, weight)[..., None],
        torch.einsum("bpnd,bpd->bpn", x.noise, weight)[..., None],
        (x.slack * weight.abs()).sum(-1, keepdim=True) * UP + total,
    ).with_noise(size[:, :, None] / 2)
    low, high = x.ends
    least = torch.where((low < 0) & (high > 0), 0.0, torch.minimum(low.abs(), high.abs()))
    most = torch.maximum(low.abs(), high.abs())
    floor = torch.maximum(found.ends[0], least.square().mean(-1, keepdim=True) / UP + eps)
    roof = torch.minimum(found.ends[1], most.square().mean(-1, keepdim=True) * UP + eps)
    return found, floor.clamp(min=eps) / UP, roof * UP


def normed(x: Form, weight: Tensor, bias: Tensor, kind: str, eps: float) -> Form:
    """LayerNorm or RMS norm: x times g, where g = variance^(-1/2) lies between parallel lines."""
    x = centred(x, kind)
    v, least, most = variance(x, eps)
    a, b = least.sqrt(), most.sqrt()
    slope = -1 / (a * b * (a + b))
    touch = (-2 * slope).pow(-2 / 3).clamp(least, most)
    under = touch.rsqrt() - slope * touch
    over = torch.maximum(1 / a - slope * least, 1 / b - slope * most)
    g = v.each(lambda part: part * _like(slope, part))
    rounding = UNIT * (1 / a + slope.abs() * (most + v.size))
    middle = (under + over) / 2
    band = UP * (over - under).clamp(min=0) / 2 + slope.abs() * v.slack + rounding
    g = Form(g.centre + middle, g.table, g.noise, torch.zeros_like(band))
    g = g.with_noise(band[:, :, None])
    low, high = g.ends
    low, high = torch.maximum(low, 1 / b / UP), torch.minimum(high, 1 / a * UP)
    off = UP * torch.maximum(high - g.centre, g.centre - low)
    noise = x.centre[:, :, None] * g.noise
    noise[:, :, : x.noise.shape[2]] += x.noise * g.centre[:, :, None]
    found = Form(
        x.centre * g.centre,
        x.table * g.centre[:, None, None] + x.centre[:, None, None] * g.table,
        noise,
        UP * x.slack * g.centre.abs() + UNIT * x.size * g.size,
    )
    least_x, most_x = x.ends
    largest = UP * math.sqrt(x.centre.shape[-1])
    bottom = torch.where(least_x < 0, least_x / a, least_x / b) - UNIT * x.size / a
    top = torch.where(most_x > 0, most_x / a, most_x / b) + UNIT * x.size / a
    bottom, top = bottom.clamp(-largest, largest), top.clamp(-largest, largest)
    never = torch.zeros_like(bottom, dtype=torch.bool)
    return found.or_interval(UP * x.radius * off, bottom, top, never).scaled(weight, bias)


def _like(scale: Tensor, part: Tensor) -> Tensor:
    """`[box position 1]` for a centre, table or noise."""
    if part.ndim == 5:
        return scale[:, None, None]
    return scale if part.ndim == 3 else scale[:, :, None]


# -- activations -------------------------------------------------------------------------------


def activated(x: Form, name: str) -> Form:
    """ReLU, GELU or SiLU: between the two parallel lines that its ends on the range give."""
    x = x.middled()
    low, high = x.ends
    width = high - low
    ends = _values(low, name), _values(high, name)
    slope = torch.where(width > 1e-9, (ends[1] - ends[0]) / width.clamp(min=1e-9), 0.0)
    if name == "relu":
        corners = torch.stack([ends[0] - slope * low, ends[1] - slope * high])
        inside = (low < 0) & (high > 0)
        under = torch.where(inside, corners.amin(0).clamp(max=0), corners.amin(0))
        over = torch.where(inside, corners.amax(0).clamp(min=0), corners.amax(0))
    else:
        steps = torch.linspace(0, 1, _GRID, dtype=low.dtype)
        at = low[..., None] + width[..., None] * steps
        rest = _values(at, name) - slope[..., None] * at
        bulge = _CURVATURE[name] * (width / (_GRID - 1)).square() / 8 * UP
        under, over = rest.amin(-1) - bulge, rest.amax(-1) + bulge
    found = x.each(lambda part: part * _like(slope, part))
    middle = (under + over) / 2
    rounding = UNIT * (ends[0].abs() + ends[1].abs() + 2 * x.size * (1 + slope.abs()))
    rest = UP * (over - under) / 2 + slope.abs() * x.slack * UP + rounding
    found = Form(found.centre + middle, found.table, found.noise, torch.zeros_like(rest))
    return found.with_noise(torch.diag_embed(rest))


def _values(x: Tensor, name: str) -> Tensor:
    if name == "relu":
        return x.relu()
    if name == "silu":
        return functional.silu(x)
    return functional.gelu(x, approximate="tanh" if name == "gelu_new" else "none")
