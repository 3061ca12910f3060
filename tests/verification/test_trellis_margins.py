"""Margins over sets of strings against a forward pass at 256 bits, from both sides.

Of a single string every relaxation is exact but for rounding, so a margin must be met closely.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from tests.verification import precise_ordered
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks import Maximum
from tsc_interp.verification.checker.layer_rounding import Blur
from tsc_interp.verification.checker.relaxation import Form
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.spans import Span
from tsc_interp.verification.checker.trellis import TrellisChecker
from tsc_interp.verification.checker.trellis_model import TrellisModel

PLAIN = ClassifierConfig(
    n_letters=3, n_heads=2, d_model=4, d_head=2, d_mlp=5, n_positions=4, n_outputs=3,
    reads="last_letter", attend_cls=True,
)  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {"norm": "layer", "final_norm": True, "biases": True, "gated_mlp": True, "act_fn": "gelu_new"},
    {"norm": "rms_pre", "final_norm": True, "biases": True, "n_outputs": 1},
    {},
    {"biases": True, "n_outputs": 1, "act_fn": "relu"},
    {"norm": "rms", "act_fn": "silu"},
    {"norm": "layer", "biases": True, "gated_mlp": True},
    {"norm": "layer_pre", "final_norm": True, "d_mlp": 0, "biases": True},
    {"gated_mlp": True, "reads": "first"},
    {"d_mlp": 0, "reads": "last"},
    {"n_heads": 0, "norm": "rms", "final_norm": True},
    {"reads": "first", "score_scale": "sqrt_d_head_log_n_cls"},
]


def real_outputs(checkpoint: Checkpoint, string: Any) -> Any:
    """Times what the final norm divides by."""
    with mpmath.workprec(256):
        outputs = precise_ordered.outputs_of(checkpoint, string)
        outputs = outputs if len(outputs) > 1 else [mpmath.mpf(0), outputs[0]]
        scale = precise_ordered.final_scale(checkpoint, string)
        return np.array([float(output * scale) for output in outputs])


def gaps(model: TrellisModel, sets: Sets, winner: int, float32: bool = False) -> Any:
    every = np.arange(model.n_classes)
    with np.errstate(all="ignore"):
        return model.gaps(
            sets,
            model.readers(sets),
            np.full(len(sets), winner),
            every,
            np.full(len(sets), float32),
        )


def configs() -> list[ClassifierConfig]:
    drawn = [(random_config, wide_config)[seed % 2](seed + 70) for seed in range(10)]
    return [PLAIN.replace(**options) for options in OPTIONS] + [
        config for config in drawn if config.needs_order
    ]


@pytest.mark.parametrize("config", configs())
def test_margins_of_single_strings_are_met(config: ClassifierConfig) -> None:
    checkpoint = ordered_checkpoint(config, 4, scale=1.0)
    model, length = TrellisModel(checkpoint), min(2, longest(config, 30))
    sets = Sets.whole(TrellisChecker(checkpoint).trellis("length", length))
    singles, strings = sets.singles([0]), [string for string, _ in sets.strings(0)]
    outputs = np.array([real_outputs(checkpoint, string) for string in strings])
    size = np.abs(outputs).max()
    for winner in range(model.n_classes):
        found, real = gaps(model, singles, winner), outputs[:, [winner]] - outputs
        assert (found <= real + 1e-13 * size).all()
        assert (found >= real - 1e-8 * (1 + size)).all()
        sure = gaps(model, singles, winner, float32=True)
        others = np.arange(model.n_classes) != winner
        assert (sure <= found)[:, others].all()
        assert (sure < found)[:, others].any()
        reader = model.readers(singles)
        for one in np.unique(reader):
            # Together they are bounded by the worst of them, and not far below it.
            some = Sets(singles.trellis, [m[reader == one].any(0)[None] for m in singles.masks])
            both, worst = gaps(model, some, winner)[0], found[reader == one].min(0)
            assert (both <= worst + 1e-9).all()
            assert np.isfinite(both).all()


@pytest.mark.parametrize("config", configs())
def test_outputs_of_single_strings_are_those_of_the_forward_pass(config: ClassifierConfig) -> None:
    checkpoint = ordered_checkpoint(config, 5, scale=1.0)
    model, length = TrellisModel(checkpoint), longest(config, 30)
    for string in [(0,) * length, (1,) * (length - 1) + (0,)]:
        with ctx.workprec(128):
            found = model.outputs(model.attended(string))
        expected = real_outputs(checkpoint, string)
        np.testing.assert_allclose([float(x.mid()) for x in found], expected, rtol=1e-12)
        assert max(float(x.rad()) for x in found) < 1e-25


def test_only_the_classes_asked_for_are_bounded() -> None:
    checkpoint = ordered_checkpoint(PLAIN, 4)
    model = TrellisModel(checkpoint)
    singles = Sets.whole(TrellisChecker(checkpoint).trellis("length", 2)).singles([0])[:2]
    every, some = (
        model.gaps(singles, model.readers(singles), np.zeros(2, dtype=int), np.array(used), none)
        for used, none in (([0, 1, 2], np.zeros(2, dtype=bool)), ([2], np.zeros(2, dtype=bool)))
    )
    np.testing.assert_array_equal(every[:, 2], some[:, 2])
    assert (some[:, 1] == -np.inf).all()


# -- coefficients are free, and float32 is heard wherever it rounds ----------------------------


def some_strings(checkpoint: Checkpoint, count: int = 4) -> tuple[TrellisModel, Sets, Any]:
    model = TrellisModel(checkpoint)
    sets = Sets.whole(TrellisChecker(checkpoint).trellis("length", 2))
    singles = sets.singles([0])[np.arange(count)]
    return model, singles, [next(singles.strings(row))[0] for row in range(count)]


def states(checkpoint: Checkpoint, strings: Any) -> Any:
    with mpmath.workprec(256):
        rows = [precise_ordered.state_of(checkpoint, string) for string in strings]
        return np.array([[float(x) for x in row] for row in rows])


def test_whatever_coefficients_are_chosen_the_rest_holds_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Directions that are known to a hundredth only, and the lower end taken for their middle."""
    checkpoint = ordered_checkpoint(PLAIN.replace(biases=True), 4)
    model, sets, strings = some_strings(checkpoint)
    x = states(checkpoint, strings)
    keys, low = model._keys_of(sets, model.readers(sets)), model._directions.low
    noise = np.random.default_rng(1).uniform(0.0, 0.01, size=low.shape)
    monkeypatch.setattr(Span, "middle", property(lambda span: span.low))
    model._directions = Span(low, low + noise)
    ranges = model._ranges(sets, keys, None)
    for share in (0.0, 0.5, 1.0):
        real = x @ (low + share * noise).T
        assert (ranges.low <= real + 1e-12).all()
        assert (real - 1e-12 <= ranges.high).all()
    margins = model._margins

    def wider(*given: Any) -> Any:
        form, off = margins(*given)
        wide = np.random.default_rng(2).uniform(0.0, 0.01, size=form.row.low.shape)
        made.append((form.row.low, wide, form.rest))
        return Form(Span(form.row.low, form.row.low + wide), form.rest, form.rest), off

    made: list[Any] = []
    monkeypatch.setattr(model, "_margins", wider)
    found = gaps(model, sets, 0)
    ((row, wide, rest),) = made
    for share in (0.0, 1.0):
        real = ((row + share * wide) * x[:, None]).sum(-1) + rest.low
        assert (found <= real + 1e-12)[:, 1:].all()


def test_a_class_without_an_output_and_the_label_itself_beat_nothing() -> None:
    model, sets, _ = some_strings(ordered_checkpoint(PLAIN, 4))
    label, none = sets.labels(), np.zeros(4, dtype=bool)
    assert not model.hold(sets, np.full(4, model.n_classes), none).any()
    assert not model.hold(sets, label, none).any()


@pytest.mark.parametrize("seed", range(4))
def test_single_strings_are_decided_as_their_outputs_say(seed: int) -> None:
    """Each class against the label alone; the label against all others."""
    config = PLAIN.replace(task=Maximum()) if seed % 2 else PLAIN.replace(n_outputs=4)
    checkpoint = ordered_checkpoint(config, seed)
    model, sets, strings = some_strings(checkpoint, 9)
    outputs = np.array([real_outputs(checkpoint, string) for string in strings])
    label, none = sets.labels(), np.zeros(9, dtype=bool)
    mine = np.take_along_axis(outputs, label[:, None], 1)[:, 0]
    right = outputs.argmax(1) == label
    assert (model.hold(sets, np.full(9, -1), none) == right).all()
    seen = set(right.tolist())
    for by in range(model.n_classes):
        beaten = outputs[:, by] > mine
        assert (model.hold(sets, np.full(9, by), none) == beaten).all()
        seen |= set(beaten[label != by].tolist())
    for string, one, answered in zip(strings, label, right, strict=True):
        assert model.verdict(string, int(one)) == answered
    assert seen == {False, True}


def test_one_doubt_leaves_a_string_undecided_and_one_defeat_decides_it(monkeypatch: Any) -> None:
    model, _, strings = some_strings(ordered_checkpoint(PLAIN, 4))
    monkeypatch.setattr(model, "outputs", lambda _: [arb(1), arb(1, 0.5), arb(0)])
    assert model.verdict(strings[0], 0) is None
    assert model.verdict(strings[0], 2) is False
    monkeypatch.setattr(model, "outputs", lambda _: [arb(2), arb(1, 0.5), arb(0)])
    assert model.verdict(strings[0], 0) is True


def test_equal_outputs_may_differ_in_float32() -> None:
    weights = {n: w.copy() for n, w in ordered_checkpoint(PLAIN, 4).weights.items()}
    weights["unembed.W_U"][:, 2] = weights["unembed.W_U"][:, 1]
    model, sets, _ = some_strings(Checkpoint(PLAIN, weights))
    assert (gaps(model, sets, 1)[:, 2] == 0).all()
    assert (gaps(model, sets, 1, float32=True)[:, 2] < 0).all()
    # A set about the reals keeps its tie beside sets about float32.
    asked = np.arange(len(sets)) > 0
    winner, every = np.ones(len(sets), dtype=np.int64), np.arange(3)
    found = model.gaps(sets, model.readers(sets), winner, every, asked)[:, 2]
    assert ((found < 0) == asked).all()


def still(model: TrellisModel, sets: Sets) -> tuple[Any, Span, Any]:
    """What float32 makes of a residual stream that has no error yet; ranges, and posts."""
    keys = model._keys_of(sets, model.readers(sets))
    drifts: Any = [StubDrift(0.0, model.config.d_model)] * len(sets)
    blur = Blur(np.ones(len(sets), dtype=bool), drifts)
    ranges = model._ranges(sets, keys, None)
    return blur, ranges, model._posts(ranges, None)


class StubDrift:
    """Off by a number of its own times the sizes of a direction."""

    def __init__(self, number: float, d: int) -> None:
        self.number, self.sizes = number, np.full(d, 1.0)

    def along(self, q: Any) -> Any:
        return self.number * np.abs(q).sum(-1)


class Ends:
    """Roundings after the activations that are given."""

    def __init__(self, count: int, d: int, outputs: int) -> None:
        noise = np.random.default_rng(3)
        self.sizes, self.added, self.state = noise.uniform(0.1, 1.0, size=(3, count, d))
        self.each = noise.uniform(0.1, 1.0, size=(count, outputs))
        self.asked: list[Any] = []

    def outputs(self, outer: Any, read: Any, scale: Any) -> Any:
        self.asked.append((outer, read, scale))
        return self.each


@pytest.mark.parametrize(
    "options", [{}, {"n_outputs": 1}, {"norm": "layer", "final_norm": True}, {"n_outputs": 2}]
)
def test_what_is_rounded_after_activations(options: dict[str, Any], monkeypatch: Any) -> None:
    config = PLAIN.replace(**options)
    checkpoint = ordered_checkpoint(config, 4)
    model, sets, _ = some_strings(checkpoint)
    blur, ranges, posts = still(model, sets)
    winner = np.array([0, 1, 1, 0])
    plain, nothing = model._margins(winner, ranges, posts, None)
    assert not nothing.any()
    ends = Ends(4, config.d_model, config.n_outputs)
    seen: list[Any] = []

    def make(given: Any, sizes: Any) -> Ends:
        seen.append((given, sizes))
        return ends

    monkeypatch.setattr(model.rounding, "ends", make)
    form, off = model._margins(winner, ranges, posts, blur)
    assert seen[0][0] is blur
    np.testing.assert_array_equal(seen[0][1], posts.values.size)
    each = ends.each if config.n_outputs > 1 else np.insert(ends.each, 0, 0.0, axis=1)
    outer = model._spans["outer"].middle.T
    for row in range(4):
        for j in range(model.n_classes):
            apart = np.abs(outer[winner[row]] - outer[j])
            expected = each[row, j] + each[row, winner[row]] + (apart * ends.added[row]).sum()
            expected *= 1 + 2.0**-20
            assert expected * (1 - 1e-12) <= off[row, j] <= expected * (1 + 1e-12) + 1e-300
    assert (form.rest.low <= plain.rest.low - off * (1 - 1e-12)).all()
    if not config.final_norm:  # what is added after the scale counts with it
        np.testing.assert_allclose(form.rest.low, plain.rest.low - off, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(form.rest.high, plain.rest.high + off, rtol=1e-12, atol=1e-12)
    ((asked, read, scale),) = ends.asked
    assert asked is model.rounding.outer
    if config.final_norm:
        state = model._final_state(ranges, posts)
        size = np.maximum(np.abs(state.low - ends.state), np.abs(state.high + ends.state))
        np.testing.assert_allclose(read, size, rtol=1e-12)
        most = np.sqrt((size**2).mean(1) + config.norm_eps)
        np.testing.assert_allclose(scale[:, 0], most, rtol=1e-12)
    else:
        np.testing.assert_array_equal(read, ends.sizes)
        np.testing.assert_array_equal(scale, np.ones((4, 1)))


GATED = {"norm": "layer", "gated_mlp": True, "biases": True}


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("activated", {}), ("activated", {"gated_mlp": True}), ("opened", {"gated_mlp": True}),
        ("centred", {"norm": "layer"}), ("centred", GATED), ("inner.heard", {"norm": "rms"}),
        ("inner.heard", GATED), ("gates.heard", GATED), ("inner.off", {}), ("inner.off", GATED),
        ("gates.off", GATED), ("gates.off", {"gated_mlp": True}), ("opened", GATED),
        ("activated", GATED),
    ],
)  # fmt: skip
def test_every_rounding_before_is_heard(
    place: str, options: dict[str, Any], monkeypatch: Any
) -> None:
    """One rounding at a time, all others nothing: every neuron's range grows by its effect."""
    model, sets, _ = some_strings(ordered_checkpoint(PLAIN.replace(**options), 4, scale=1.0))
    blur, ranges, plain = still(model, sets)
    rounding, asked = model.rounding, {}

    def patched(owner: Any, name: str, whole: str, width: int) -> None:
        def made(given: Any, *_: Any) -> Any:
            asked[whole] = given
            return np.full((len(sets), width), 0.01 if whole == place else 0.0)

        monkeypatch.setattr(owner, name, made)

    d, n = model.config.d_model, model.config.d_mlp
    patched(rounding, "centred", "centred", d)
    for name, part in (("inner", rounding.inner), ("gates", rounding.gates)):
        for kind in ("heard", "off") if part is not None else ():
            patched(part, kind, f"{name}.{kind}", n)
    patched(rounding, "activated", "activated", n)
    patched(rounding, "opened", "opened", n)
    found = model._posts(ranges, blur)
    assert (found.values.low < plain.values.low).all()
    assert (found.values.high > plain.values.high).all()
    assert (found.rest.high - found.rest.low > plain.rest.high - plain.rest.low).all()
    exactly = place == "opened" or (place == "activated" and not options)
    if exactly:
        np.testing.assert_allclose(found.values.high - plain.values.high, 0.01, rtol=1e-6)
        np.testing.assert_allclose(plain.values.low - found.values.low, 0.01, rtol=1e-6)
    if "opened" in asked and place == "activated":
        late = model._spans["late"].size
        before = model._posts(ranges, None).plus(-model._spans["late"]).values.size
        assert (asked["opened"] >= before + late - 1e-9).all()
    read = blur.sizes
    if model.config.has_norm:
        np.testing.assert_array_equal(asked["centred"], read)
        assert (asked["inner.off"] <= np.sqrt(d) + 1e-9).all()
    else:
        np.testing.assert_array_equal(asked["inner.off"], read)


def test_errors_of_the_residual_stream_are_heard_in_ranges_and_margins() -> None:
    model, sets, _ = some_strings(ordered_checkpoint(PLAIN, 4))
    keys, d = model._keys_of(sets, model.readers(sets)), model.config.d_model
    drifts: Any = [StubDrift(0.25, d)] * len(sets)
    blur = Blur(np.array([True, True, False, True]), drifts)
    plain, found = (model._ranges(sets, keys, given) for given in (None, blur))
    off = 0.25 * np.abs(model._directions.middle).sum(-1) * np.array([1, 1, 0, 1])[:, None]
    np.testing.assert_allclose(found.high - plain.high, off, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.low - found.low, off, rtol=1e-9, atol=1e-12)


def test_time_is_paid_for_and_work_is_done_in_parts(monkeypatch: Any) -> None:
    paid: list[int] = []
    checkpoint = ordered_checkpoint(PLAIN, 4)
    for memory, at_once in ((10**12, 1 << 20), (256 * 5000, 5000), (1, 1)):
        model = TrellisModel(checkpoint, lambda: paid.append(1), memory or 1)
        assert model._at_once == at_once
    model, sets, strings = some_strings(checkpoint)
    model.pay = lambda: paid.append(1)
    gaps(model, sets, 0)
    paid.clear()
    gaps(model, sets, 0)
    assert paid == [1]  # tables are there already
    paid.clear()
    model.verdict(strings[0], 0)
    assert paid
    sizes: list[int] = []

    def win(some: Sets, *_: Any) -> Any:
        sizes.append(len(some))
        return np.ones(len(some), dtype=bool)

    monkeypatch.setattr(model, "_win", win)
    rows = 2 * max(len(model._directions.low), model.n_classes)
    none = np.zeros(4, dtype=bool)
    for count, parts in ((1, [1] * 4), (2, [2, 2]), (3, [3, 1]), (9, [4])):
        model._at_once = count * rows * (sets.slots + 600)
        sizes.clear()
        assert model.hold(sets, np.full(4, -1), none).all()
        assert sizes == parts
        model._at_once -= 1
        sizes.clear()
        model.hold(sets, np.full(4, -1), none)
        assert sizes[0] == max(1, min(4, count - 1))
