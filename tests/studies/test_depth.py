"""Bounds over boxes of inputs, against every input of the box, and counts against enumeration.

Bounds and the rows they are compared with share no arithmetic: rows go through `Runner`, whose own
oracle is ball arithmetic.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from studies.depth.bounds.attention import Keys, attended
from studies.depth.bounds.first import Boxes
from studies.depth.bounds.forms import Form
from studies.depth.bounds.layers import _CURVATURE, _values, activated, normed
from studies.depth.bounds.margins import Bounder
from studies.depth.boxes import decide_by_boxes
from tests.falsification.models import palindrome_model, random_model
from tests.sizes import many
from tsc_interp.errors import UnsupportedError
from tsc_interp.falsification.enumerating import enumerate_all
from tsc_interp.falsification.network import of_transformer_lens
from tsc_interp.falsification.question import Question, in_batches, labelled
from tsc_interp.falsification.running import Runner

KINDS = [
    {},
    {"attention_dir": "bidirectional", "act_fn": "relu", "n_layers": 3},
    {"normalization_type": "RMS", "act_fn": "silu"},
    {"normalization_type": None, "act_fn": "gelu_new", "attention_dir": "bidirectional"},
    {"n_layers": 1},
    {"attn_only": True},
    {"attn_only": True, "attention_dir": "bidirectional", "normalization_type": "RMS"},
]


def network(seed: int, scale: float, kind: dict):
    """Random weights; small ones are bounded tightly, large ones take every fallback."""
    attn_only = kind.get("attn_only", False)
    model = random_model(seed, **{k: v for k, v in kind.items() if k != "attn_only"})
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
    found = of_transformer_lens(model)
    if attn_only:
        from dataclasses import replace

        layers = [replace(x, norm2=None, into=None, out=None) for x in found.layers]
        found = replace(found, layers=tuple(layers), activation="")
    return found


def random_boxes(rng, count, length, places, letters, vocabulary):
    rows = torch.randint(0, vocabulary, (count, length), generator=rng)
    at = torch.stack([torch.randperm(length, generator=rng)[:places] for _ in range(count)])
    drawn = [torch.randperm(vocabulary, generator=rng)[:letters] for _ in range(count * places)]
    sets = torch.stack(drawn).reshape(count, places, letters)
    return Boxes(rows.scatter(1, at, sets[:, :, 0]), at, sets)


def every_row(boxes: Boxes, i: int):
    choices = itertools.product(*boxes.letters[i].tolist())
    rows = boxes.rows[i].repeat(len(boxes.letters[i][0]) ** boxes.letters.shape[1], 1)
    rows[:, boxes.places[i]] = torch.tensor(list(choices))
    return rows


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_every_margin_of_a_box_lies_within_its_bounds(kind, scale):
    rng = torch.Generator().manual_seed(7)
    decided = 0
    for seed in range(many(1, 40)):
        net = network(seed, scale, kind)
        runner, bounder = Runner(net, torch.float64, bounded=False), Bounder(net)
        for places, letters in ((2, 3), (3, 2)):
            boxes = random_boxes(rng, 2, 6, places, letters, 7)
            reads = (5, int(boxes.places[0, 0]))  # a fixed position, or not; and a free one
            wanted = torch.randint(0, 5, (2, 2), generator=rng)
            found = bounder(boxes, reads, wanted)
            for i in range(2):
                rows = every_row(boxes, i)
                outputs, _ = runner(rows, reads)
                for j in range(2):
                    margins = outputs[:, j, wanted[i, j], None] - outputs[:, j]
                    margins = margins[:, torch.arange(5) != wanted[i, j]]
                    low, high = found.low[i, j], found.high[i, j]
                    if net.final is None:
                        assert (margins >= low - 1e-9).all()
                        assert (margins <= high + 1e-9).all()
                    assert not ((low > 0) & (margins < -1e-9).any(0)).any()
                    assert not ((high < 0) & (margins > 1e-9).any(0)).any()
                    decided += int(((low > 0) | (high < 0)).sum())
    assert scale > 0.5 or decided  # a bound that never decides would pass all of the above


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
def test_the_margins_times_sigma_lie_within_their_bounds(kind):
    """Behind a norm bounds are of sigma times the margin; sigma is from the model's own cache."""
    rng = torch.Generator().manual_seed(8)
    model = random_model(3, **kind)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.6)
    net, model = of_transformer_lens(model), model.double()
    boxes = random_boxes(rng, 3, 6, 2, 3, 7)
    found = Bounder(net)(boxes, (5,), torch.zeros(3, 1, dtype=torch.long))
    for i in range(3):
        with torch.no_grad():
            outputs, cache = model.run_with_cache(every_row(boxes, i))
        stream = cache[f"blocks.{len(net.layers) - 1}.hook_resid_post"][:, 5]
        sigma = (stream.var(-1, correction=0, keepdim=True) + net.eps).sqrt()
        margins = (outputs[:, 5, :1] - outputs[:, 5, 1:]) * sigma
        assert (margins >= found.low[i, 0] - 1e-5).all()
        assert (margins <= found.high[i, 0] + 1e-5).all()


def form(rng, positions, width, symbols):
    def draw(*shape):
        return torch.randn(shape, generator=rng, dtype=torch.float64)

    return Form(
        draw(2, positions, width),
        draw(2, 2, 3, positions, width) * 0.3,
        draw(2, positions, symbols, width) * 0.1,
        draw(2, positions, width).abs() * 0.05,
    )


def corners(x: Form, rng, count=200):
    """Members of a form, extreme ones among them, with the letters and symbols they came from."""
    for _ in range(count):
        letter = torch.randint(0, 3, (2,), generator=rng)
        e = torch.rand(x.noise.shape[:3], generator=rng, dtype=torch.float64) * 2 - 1
        e = e.sign() if torch.rand(1, generator=rng) < 0.7 else e
        s = (torch.rand(x.slack.shape, generator=rng, dtype=torch.float64) * 2 - 1).sign()
        table = x.table[:, 0, letter[0]] + x.table[:, 1, letter[1]]
        yield letter, x.centre + table + (x.noise * e[..., None]).sum(2) + s * x.slack, e


@pytest.mark.parametrize("change", ["layer", "rms", "relu", "gelu", "gelu_new", "silu"])
def test_relaxations_hold_at_the_corners_of_a_form(change):
    """The affine part is compared, too: with its letters and symbols fixed, little is left."""
    rng = torch.Generator().manual_seed(9)
    x = form(rng, 3, 6, 4)
    one, zero = torch.ones(6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
    norm = change in ("layer", "rms")
    y = normed(x, 2 * one, zero + 1, change, 1e-5) if norm else activated(x, change)
    for letter, member, e in corners(x, rng):
        if norm:
            c = member - member.mean(-1, keepdim=True) if change == "layer" else member
            true = 2 * c / (c.square().mean(-1, keepdim=True) + 1e-5).sqrt() + 1
        else:
            true = _values(member, change)
        own = x.noise.shape[2]
        affine = y.centre + y.table[:, 0, letter[0]] + y.table[:, 1, letter[1]]
        affine = affine + (y.noise[:, :, :own] * e[..., None]).sum(2)
        rest = y.noise[:, :, own:].abs().sum(2) + y.slack
        assert ((true - affine).abs() <= rest + 1e-12).all()


@pytest.mark.parametrize("size", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("keep", [False, True])
def test_attention_holds_at_the_corners_of_a_form(size, keep):
    """Three known vertices and two places of three letters; the query is vertex 0."""
    rng = torch.Generator().manual_seed(10)
    z = form(rng, 9, 6, 4)
    table = z.table * size
    table[:, 0, :, 3:6], table[:, 1, :, 6:9] = 0, 0  # a vertex knows the letter of its own place
    z = Form(z.centre, table, z.noise * size, z.slack * size * 0.01)
    maps = [torch.randn(6, 6, generator=rng, dtype=torch.float64) * 0.7 for _ in range(3)]
    query, key, value = (z.mapped(one) for one in maps)
    keys = Keys(key, value, torch.ones(2, 9, dtype=torch.bool), 3)
    y = attended(query.at(torch.tensor([0])), keys, 0, 2, keep=keep)
    for letter, member, e in corners(z, rng, 400):
        seen = [0, 1, 2, 3 + int(letter[0]), 6 + int(letter[1])]
        q, k, v = (
            (member[:, at] @ one).reshape(2, -1, 2, 3)
            for at, one in zip(([0], seen, seen), maps, strict=True)
        )
        pattern = (torch.einsum("bihd,bjhd->bhj", q, k) / 3**0.5).softmax(-1)
        true = torch.einsum("bhj,bjhd->bhd", pattern, v).flatten(1)
        affine = y.centre + y.table[:, 0, letter[0]] + y.table[:, 1, letter[1]]
        affine = affine[:, 0] + (y.noise[:, 0, :4] * e[:, 0, :, None]).sum(1)
        rest = y.noise[:, 0, 4:]
        if keep:  # the symbols of the known keys, then what is left
            affine = affine + (rest[:, :12] * e[:, :3].reshape(2, 12, 1)).sum(1)
            rest = rest[:, 12:]
        assert ((true - affine).abs() <= rest.abs().sum(1) + y.slack[:, 0] + 1e-9).all()


@pytest.mark.parametrize("name", list(_CURVATURE))
def test_no_second_derivative_is_larger_than_its_bound(name):
    x = torch.linspace(-12, 12, 240_001, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(_values(x, name).sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)
    assert float(bend.abs().max()) < _CURVATURE[name] - 1e-3


def question(net, frame, label):
    return Question(in_batches(net), net.outputs, frame, labelled(label, frame))


@pytest.mark.parametrize("scale", [0.3, 0.6])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[5]], ids=str)
def test_counts_are_those_of_enumeration(kind, scale):
    net = network(3, scale, kind)
    frame = tsc.Frame(before=[6], places=range(2, 6), letters=range(3), after=[5])

    def label(rows):
        return (np.asarray(rows)[:, 1] > 0) * 2

    late = time.monotonic() + 600
    boxes = decide_by_boxes(question(net, frame, label), net, late, lambda _: None)
    every, _ = enumerate_all(question(net, frame, label), net, late, lambda _: None)
    assert (boxes.inputs, boxes.wrong) == (every.inputs, every.wrong)
    assert boxes.left == boxes.undecided == 0
    assert (boxes.simplest is None) == (every.wrong == 0)


def test_wrong_inputs_of_a_model_with_a_planted_bug_are_counted():
    net = of_transformer_lens(palindrome_model(2, 3, missing=1))
    frame = tsc.Frame(before=[3], places=4, letters=range(3), read=0)
    asked, late = question(net, frame, "palindrome"), time.monotonic() + 600
    found = decide_by_boxes(asked, net, late, lambda _: None)
    assert (found.wrong, found.left) == (3 * 3 * 2, 0)
    assert found.simplest is not None


def test_time_that_runs_out_leaves_inputs_undecided():
    net = network(3, 1.0, KINDS[0])
    frame = tsc.Frame(before=[6], places=7, letters=range(5), after=[5])
    found = decide_by_boxes(
        question(net, frame, lambda rows: np.asarray(rows)[:, 1] * 0), net, 0.0, lambda _: None
    )
    assert (found.inputs, found.left) == (0, 5**7)


def test_what_boxes_do_not_describe_is_refused():
    net = network(3, 0.3, KINDS[0])
    frame = tsc.Frame(places=3, letters=range(5), distinct=True)
    with pytest.raises(UnsupportedError, match="distinct"):
        decide_by_boxes(question(net, frame, lambda rows: rows[:, 0]), net, 0.0, lambda _: None)
