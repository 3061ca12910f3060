"""From boxes to bounds on margins: the labelled output minus each other one, in units of sigma."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from studies.depth.bounds.attention import Keys, as_known, attended
from studies.depth.bounds.first import Boxes, Tables
from studies.depth.bounds.forms import UNIT, UP, Form, unflatten
from studies.depth.bounds.layers import activated, centred, normed, variance
from tsc_interp.errors import UnsupportedError
from tsc_interp.falsification.network import Affine, Layer, Network

_SYMBOLS = 96
"""Noise symbols of a vertex that stay apart between layers."""


@dataclass(frozen=True)
class Margins:
    """Bounds of the margins `[box read other]`, times a positive number where norms are."""

    low: Tensor
    high: Tensor
    table: Tensor
    """`[box place letter read other]`: how the relaxed margin depends on each letter."""


@dataclass(frozen=True)
class Aim:
    """The margins as functions of the residual stream: x weight + more sigma."""

    weight: Tensor
    """`[box component other]`."""
    size: Tensor
    more: Tensor
    """`[box other]`."""
    more_size: Tensor


class Bounder:
    """A network over boxes of inputs.

    Args:
        network: The model.

    Raises:
        UnsupportedError: The model's norms have no epsilon.
    """

    def __init__(self, network: Network) -> None:
        if network.norm != "off" and network.eps <= 0:
            raise UnsupportedError("norms without an epsilon cannot be bounded here")
        self.network = network
        self._parts: dict[int, tuple[Tensor, Tensor]] = {}
        for layer in (*network.layers, network):
            for part in vars(layer).values():
                if isinstance(part, Affine):
                    both = torch.from_numpy(part.weight), torch.from_numpy(part.bias)
                    self._parts[id(part)] = both

    @torch.no_grad()
    def __call__(self, boxes: Boxes, reads: tuple[int, ...], wanted: Tensor) -> Margins:
        """Bound the margins.

        Args:
            boxes: The inputs.
            reads: The positions read.
            wanted: `[box read]`: the output that should be largest.
        """
        found = [self._read(boxes, one, wanted[:, i]) for i, one in enumerate(reads)]
        low, high, table = zip(*found, strict=True)
        return Margins(torch.stack(low, 1), torch.stack(high, 1), torch.stack(table, 3))

    def _read(self, boxes: Boxes, read: int, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """At one position, which may be one of the free places."""
        free = (boxes.places == read).any(1)
        length, (places, letters) = boxes.rows.shape[1], boxes.letters.shape[1:]
        own = list(range(length, length + places * letters)) if bool(free.any()) else []
        aim = self._aim(wanted)
        low, high, table = self._margins(*self.stream(boxes, [read, *own], aim), aim)
        if not own:
            return low[:, 0], high[:, 0], table[:, :, :, 0]
        which, place = torch.arange(len(free)), (boxes.places == read).long().argmax(1)
        least, most = (unflatten(x[:, 1:], 1, (places, letters))[which, place] for x in (low, high))
        tables = table[:, :, :, 1:].mean(3)
        tables[which, place] = (least + most) / 2
        return (
            torch.where(free[:, None], least.amin(1), low[:, 0]),
            torch.where(free[:, None], most.amax(1), high[:, 0]),
            torch.where(free[:, None, None, None], tables, table[:, :, :, 0]),
        )

    def stream(self, boxes: Boxes, reads: list[int], aim: Aim) -> tuple[Form, Form]:
        """The residual stream behind the last layer at some vertices, and what is aimed at in it.

        Heads of a last layer without an MLP are bounded in the direction of the margins, too.
        """
        net = self.network
        vectors = torch.from_numpy(net.embed)[None].expand(boxes.rows.shape[1], -1, -1)
        if net.positions is not None:
            vectors = vectors + torch.from_numpy(net.positions)[: len(vectors), None]
        centre = vectors[boxes.positions, boxes.tokens]
        none = centre.new_zeros(*boxes.letters.shape, *centre.shape[1:])
        x = Form(centre, none, centre[:, :, None, :][:, :, :0], UNIT * centre.abs())
        for number, layer in enumerate(net.layers):
            last = number == len(net.layers) - 1
            asked = reads if last else list(range(centre.shape[1]))
            has_mlp = layer.into is not None
            before = x.at(torch.tensor(asked))
            if number == 0:
                read = self._tables(layer, vectors).attended(boxes).at(torch.tensor(asked))
            else:
                straight = aim if last and not has_mlp else None
                read = self._attention(layer, x, boxes, asked, keep=last, aim=straight)
                if straight is not None:
                    return self._aimed(layer, before, read, aim)
            x = before.plus(self._mapped(layer.output, read))
            if layer.into is not None and layer.out is not None:
                hidden = self._mapped(layer.into, self._normed(layer.norm2, x))
                x = x.plus(self._mapped(layer.out, activated(hidden, net.activation)))
            x = x.condensed(_SYMBOLS)
        return x, x.mapped(aim.weight)

    def _aimed(self, layer: Layer, before: Form, read: Form, aim: Aim) -> tuple[Form, Form]:
        """From heads whose last components are what they add to the margins."""
        net, count = self.network, aim.weight.shape[-1]
        out, bias = self._parts[id(layer.output)]
        pick = torch.eye(net.n_heads * (net.d_head + count), dtype=out.dtype)
        pick = unflatten(pick, 0, (net.n_heads, -1))
        usual = pick[:, : net.d_head].flatten(0, 1).T @ out
        x = before.plus(read.mapped(usual, bias))
        direct = read.mapped(pick[:, net.d_head :].sum(0).T)
        slack = before.slack + UNIT * (before.size + bias.abs())
        before = Form(before.centre + bias, before.table, before.noise, slack)
        return x, before.mapped(aim.weight).plus(direct)

    def _aim(self, wanted: Tensor) -> Aim:
        """Behind the last norm a margin is (w x + b sigma) / sigma; its sign needs no quotient."""
        net = self.network
        weight, bias = self._parts[id(net.unembed)]
        others = torch.arange(net.outputs - 1).expand(*wanted.shape, -1)
        others = others + (others >= wanted[..., None])
        both = weight.T[wanted][:, None], weight.T[others]
        away, size = both[0] - both[1], both[0].abs() + both[1].abs()
        more = bias[wanted][..., None] - bias[others]
        more_size = bias[wanted].abs()[..., None] + bias[others].abs()
        if net.final is not None:
            scale, shift = self._parts[id(net.final)]
            more, more_size = more + away @ shift, more_size + size @ shift.abs()
            away, size = away * scale, size * scale.abs()
            if net.norm == "layer":
                away = away - away.mean(-1, keepdim=True)
                size = size + size.mean(-1, keepdim=True)
        return Aim(away.transpose(1, 2), size.transpose(1, 2), more, more_size)

    def _tables(self, layer: Layer, vectors: Tensor) -> Tables:
        """Letter by letter: norms are exact here, up to rounding."""
        net, x, grown = self.network, vectors, torch.tensor(1.0)
        if layer.norm1 is not None:
            weight, bias = self._parts[id(layer.norm1)]
            c = x - x.mean(-1, keepdim=True) if net.norm == "layer" else x
            sigma = (c.square().mean(-1, keepdim=True) + net.eps).sqrt()
            grown = 1 + (x.norm(dim=-1) / sigma[..., 0]).max()
            x = c / sigma * weight + bias
        heads = (net.n_heads, net.d_head)
        q, k, v = (
            unflatten(x @ self._parts[id(part)][0] + self._parts[id(part)][1], -1, heads)
            for part in (layer.query, layer.key, layer.value)
        )
        norms = [self._parts[id(part)][0].norm() for part in (layer.query, layer.key, layer.value)]
        size = 1 + grown * (1 + x.norm(dim=-1).max())
        biases = [float(torch.from_numpy(part.bias).norm()) for part in (layer.query, layer.key)]
        queries, keys = (size * n + b for n, b in zip(norms, biases, strict=False))
        error = UNIT * (1 + float(queries * keys) / math.sqrt(net.d_head))
        values = UNIT * float(size * norms[2]) / max(float(v.abs().max()), 1e-300)
        return Tables(q, k, v, 4 * (error + values), net.causal, net.unseen)

    def _attention(
        self, layer: Layer, x: Form, boxes: Boxes, asked: list[int], *, keep: bool, aim: Aim | None
    ) -> Form:
        net, z = self.network, self._normed(layer.norm1, x)
        query, key, value = (
            self._mapped(part, z) for part in (layer.query, layer.key, layer.value)
        )
        if aim is not None:
            out = unflatten(self._parts[id(layer.output)][0], 0, (net.n_heads, -1))
            toward = torch.einsum("hdm,bmo->bhdo", out, aim.weight)
            unit = torch.eye(net.d_head, dtype=out.dtype).expand(*toward.shape[:2], -1, -1)
            each = torch.cat([unit, toward], -1)
            value = value.mapped(torch.stack([torch.block_diag(*one) for one in each]))
        length = boxes.rows.shape[1]
        seen = torch.cat(
            [~boxes.free, torch.ones_like(boxes.letters, dtype=torch.bool).flatten(1)], 1
        )
        if net.unseen is not None:
            seen &= boxes.tokens != net.unseen
        found = []
        for vertex in asked:
            own = seen.clone()
            if net.causal:
                own &= boxes.positions <= boxes.positions[:, vertex, None]
            keys, at = as_known(vertex, Keys(key, value, own, length))
            one = query.at(torch.tensor([vertex]))
            found.append(attended(one, keys, at, net.n_heads, keep=keep))
        most = max(one.noise.shape[2] for one in found)
        noise = [functional.pad(f.noise, (0, 0, 0, most - f.noise.shape[2])) for f in found]
        return Form(
            torch.cat([one.centre for one in found], 1),
            torch.cat([one.table for one in found], 3),
            torch.cat(noise, 1),
            torch.cat([one.slack for one in found], 1),
        )

    def _margins(self, x: Form, aimed: Form, aim: Aim) -> tuple[Tensor, Tensor, Tensor]:
        """Lower and upper bounds `[box vertex other]`, and the tables."""
        net = self.network
        ends, root = (aim.more[:, None], aim.more[:, None]), torch.ones(1, dtype=x.centre.dtype)
        if net.final is not None:
            _, least, most = variance(centred(x, net.norm), net.eps)
            both = torch.stack([ends[0] * least.sqrt() / UP, ends[0] * most.sqrt() * UP])
            ends, root = (both.amin(0), both.amax(0)), most.sqrt() * UP
        room = UNIT * (x.size @ aim.size + root * aim.more_size[:, None])
        low, high = aimed.ends
        return low + ends[0] - room, high + ends[1] + room, aimed.table

    def _mapped(self, part: Affine, x: Form) -> Form:
        return x.mapped(*self._parts[id(part)])

    def _normed(self, part: Affine | None, x: Form) -> Form:
        net = self.network
        return x if part is None else normed(x, *self._parts[id(part)], net.norm, net.eps)
