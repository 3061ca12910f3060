"""Margins over sets of strings against a forward pass at 256 bits, from both sides.

Of a single string every relaxation is exact but for rounding, so a margin must be met closely.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from tests.trusted.asking import Asked
from tests.trusted.paths import singles, strings
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
from tsc_interp.trusted import judge
from tsc_interp.trusted.float_layer import Rounded
from tsc_interp.trusted.margins import Relaxed
from tsc_interp.trusted.relaxation import Form
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spans import Span

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


def configs() -> list[ClassifierConfig]:
    drawn = [(random_config, wide_config)[seed % 2](seed + 70) for seed in range(10)]
    return [PLAIN.replace(**options) for options in OPTIONS] + [
        config for config in drawn if config.needs_order
    ]


@pytest.mark.parametrize("config", configs())
def test_margins_of_single_strings_are_met(config: ClassifierConfig) -> None:
    checkpoint = ordered_checkpoint(config, 4, scale=1.0)
    asked, length = Asked(checkpoint), min(2, longest(config, 30))
    sets = Sets.whole(asked.trellis(length))
    alone, every = singles(sets, [0]), [string for string, _ in strings(sets, 0)]
    outputs = np.array([real_outputs(checkpoint, string) for string in every])
    size = np.abs(outputs).max()
    for winner in range(asked.n_classes):
        found, real = asked.gaps(alone, winner), outputs[:, [winner]] - outputs
        assert (found <= real + 1e-13 * size).all()
        assert (found >= real - 1e-8 * (1 + size)).all()
        sure = asked.gaps(alone, winner, float32=True)
        others = np.arange(asked.n_classes) != winner
        assert (sure <= found)[:, others].all()
        assert (sure < found)[:, others].any()
        reader = asked.judge.order.readers(alone)
        for one in np.unique(reader):
            # Together they are bounded by the worst of them, and not far below it.
            some = Sets(alone.trellis, [m[reader == one].any(0)[None] for m in alone.masks])
            both, worst = asked.gaps(some, winner)[0], found[reader == one].min(0)
            assert (both <= worst + 1e-9).all()
            assert np.isfinite(both).all()


@pytest.mark.parametrize("config", configs())
def test_outputs_of_single_strings_are_those_of_the_forward_pass(config: ClassifierConfig) -> None:
    checkpoint = ordered_checkpoint(config, 5, scale=1.0)
    forward, length = Asked(checkpoint).forward, longest(config, 30)
    for string in [(0,) * length, (1,) * (length - 1) + (0,)]:
        reader, first = forward.reader(length, string[-1]), int(config.reads == "first")
        letters = [(2 + letter, place + first) for place, letter in enumerate(string)]
        keys = forward.keys(letters, reader)
        with ctx.workprec(128):
            found = forward.outputs(keys, [1] * len(keys), reader)
        expected = precise_ordered.outputs_of(checkpoint, string)
        expected = [0.0, *expected] if len(expected) == 1 else expected
        ends = [float(x.mid()) for x in found], [*map(float, expected)]
        np.testing.assert_allclose(*ends, rtol=1e-12)
        assert max(float(x.rad()) for x in found) < 1e-25


def test_only_the_classes_asked_for_are_bounded() -> None:
    asked, few, _ = some_strings(ordered_checkpoint(PLAIN, 4), 2)
    every, some = (asked.gaps(few, 0, used=used) for used in ([0, 1, 2], [2]))
    np.testing.assert_allclose(every[:, 2], some[:, 2], rtol=1e-13)
    assert (some[:, 1] == -np.inf).all()


# -- coefficients are free, and float32 is heard wherever it rounds ----------------------------


def some_strings(checkpoint: Checkpoint, count: int = 4) -> tuple[Asked, Sets, Any]:
    asked = Asked(checkpoint)
    some = singles(Sets.whole(asked.trellis(2)), [0])[np.arange(count)]
    return asked, some, [next(strings(some, row))[0] for row in range(count)]


def states(checkpoint: Checkpoint, strings: Any) -> Any:
    with mpmath.workprec(256):
        rows = [precise_ordered.state_of(checkpoint, string) for string in strings]
        return np.array([[float(x) for x in row] for row in rows])


def test_whatever_coefficients_are_chosen_the_rest_holds_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Directions that are known to a hundredth only, and the lower end taken for their middle."""
    checkpoint = ordered_checkpoint(PLAIN.replace(biases=True), 4)
    asked, sets, strings = some_strings(checkpoint)
    model, regions, x = asked.margins, asked.regions(sets), states(checkpoint, strings)
    low = model._directions.low
    noise = np.random.default_rng(1).uniform(0.0, 0.01, size=low.shape)
    monkeypatch.setattr(Span, "middle", property(lambda span: span.low))
    model._directions = Span(low, low + noise)
    ranges = model._ranges(regions, None)
    for share in (0.0, 0.5, 1.0):
        real = x @ (low + share * noise).T
        assert (ranges.low <= real + 1e-12).all()
        assert (real - 1e-12 <= ranges.high).all()
    plain = Relaxed.form

    def wider(*given: Any) -> Any:
        form, off = plain(*given)
        wide = np.random.default_rng(2).uniform(0.0, 0.01, size=form.row.low.shape)
        made.append((form.row.low, wide, form.rest))
        return Form(Span(form.row.low, form.row.low + wide), form.rest, form.rest), off

    made: list[Any] = []
    monkeypatch.setattr(Relaxed, "form", wider)
    monkeypatch.setattr(Form, "flat", lambda form: form)
    found = asked.gaps(sets, 0)
    (row, wide, rest), *_ = made
    for share in (0.0, 1.0):
        real = ((row + share * wide) * x[:, None]).sum(-1) + rest.low
        assert (found <= real + 1e-12)[:, 1:].all()


@pytest.mark.parametrize("seed", range(4))
def test_single_strings_are_decided_as_their_outputs_say(seed: int) -> None:
    """Each class against the label alone; the label against all others."""
    config = PLAIN.replace(task=Maximum()) if seed % 2 else PLAIN.replace(n_outputs=4)
    checkpoint = ordered_checkpoint(config, seed)
    asked, sets, strings = some_strings(checkpoint, 9)
    outputs = np.array([real_outputs(checkpoint, string) for string in strings])
    label, classes = sets.labels(), np.arange(asked.n_classes)
    mine = np.take_along_axis(outputs, label[:, None], 1)[:, 0]
    answer, sure = asked.judge.of_inputs(np.array(strings), label, np.arange(9) % 2 == 0)
    right = outputs.argmax(1) == label
    led = np.where(classes == label[:, None], -np.inf, outputs)
    assert (answer == np.where(right, label, led.argmax(1))).all()
    assert sure[::2].any()
    assert not sure[1::2].any()
    seen = set(right.tolist())
    for by in range(asked.n_classes):
        assert (asked.answered(sets, by) == (outputs.argmax(1) == by)).all()
        beaten, winner = outputs[:, by] > mine, np.full(9, by)
        wanted = classes == label[:, None]
        others = label != by
        shown = asked.judge.on_paths(sets[others], winner[others], wanted[others])
        assert (shown == beaten[others]).all()
        seen |= set(beaten[others].tolist())
    for string, answer in zip(strings, outputs.argmax(1), strict=True):
        assert asked.judge.answer_to_string(string) == answer
    assert seen == {False, True}


def test_one_doubt_leaves_a_string_undecided(monkeypatch: Any) -> None:
    asked, _, strings = some_strings(ordered_checkpoint(PLAIN, 4))
    for outputs, answer in (
        ([arb(1), arb(1, 0.5), arb(0)], None),
        ([arb(2), arb(1, 0.5), arb(0)], 0),
        ([arb(0), arb(1, 0.25), arb(2)], 2),
        ([arb(1), arb(1), arb(0)], 0),
        ([arb("nan"), arb(1), arb(0)], None),
    ):
        monkeypatch.setattr(asked.forward, "outputs", lambda *_, said=outputs: said)
        assert asked.judge.answer_to_string(strings[0]) == answer


def test_equal_outputs_may_differ_in_float32() -> None:
    weights = {n: w.copy() for n, w in ordered_checkpoint(PLAIN, 4).weights.items()}
    weights["unembed.W_U"][:, 2] = weights["unembed.W_U"][:, 1]
    asked, sets, _ = some_strings(Checkpoint(PLAIN, weights))
    assert (asked.gaps(sets, 1)[:, 2] == 0).all()
    assert (asked.gaps(sets, 1, float32=True)[:, 2] < 0).all()


def still(asked: Asked, sets: Sets) -> tuple[Any, Span, Any]:
    """What float32 makes of a residual stream that has no error yet; ranges, and posts."""
    errors: Any = [StubErrors(0.0, asked.spec.d_model)] * len(sets)
    ranges = asked.margins._ranges(asked.regions(sets), None)
    return Rounded(errors), ranges, asked.margins._posts(ranges, None)[0]


class StubErrors:
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
    asked, sets, _ = some_strings(checkpoint)
    model, (rounded, ranges, posts) = asked.margins, still(asked, sets)
    winner = np.array([0, 1, 1, 0])
    times, every = model._posts(ranges, None)[1], np.arange(asked.n_classes)[None]
    relaxed = Relaxed(model, asked.regions(sets), None, ranges, posts, times)
    plain, nothing = relaxed.form(winner, every)
    assert not nothing.any()
    ends = Ends(4, config.d_model, config.n_outputs)
    seen: list[Any] = []

    def make(given: Any, sizes: Any) -> Ends:
        seen.append((given, sizes))
        return ends

    monkeypatch.setattr(model.rounding, "ends", make)
    form, off = replace(relaxed, rounded=rounded).form(winner, every)
    assert seen[0][0] is rounded
    np.testing.assert_array_equal(seen[0][1], posts.values.size)
    each = ends.each if config.n_outputs > 1 else np.insert(ends.each, 0, 0.0, axis=1)
    outer = model._spans["outer"].middle.T
    for row in range(4):
        for j in range(asked.n_classes):
            apart = np.abs(outer[winner[row]] - outer[j])
            expected = each[row, j] + each[row, winner[row]] + (apart * ends.added[row]).sum()
            expected *= 1 + 2.0**-20
            assert expected * (1 - 1e-12) <= off[row, j] <= expected * (1 + 1e-12) + 1e-300
    assert (form.rest.low <= plain.rest.low - off * (1 - 1e-12)).all()
    if not config.final_norm:  # what is added after the scale counts with it
        np.testing.assert_allclose(form.rest.low, plain.rest.low - off, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(form.rest.high, plain.rest.high + off, rtol=1e-12, atol=1e-12)
    ((outer_map, read, scale),) = ends.asked
    assert outer_map is model.rounding.outer
    if config.final_norm:
        state = model.final_state(ranges, posts).values
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
        ("centred", {"norm": "layer"}), ("centred", GATED), ("inner.carried", {"norm": "rms"}),
        ("inner.carried", GATED), ("gates.carried", GATED), ("inner.off", {}), ("inner.off", GATED),
        ("gates.off", GATED), ("gates.off", {"gated_mlp": True}), ("opened", GATED),
        ("activated", GATED),
    ],
)  # fmt: skip
def test_every_rounding_before_is_heard(
    place: str, options: dict[str, Any], monkeypatch: Any
) -> None:
    """One rounding at a time, all others nothing: every neuron's range grows by its effect."""
    base, sets, _ = some_strings(ordered_checkpoint(PLAIN.replace(**options), 4, scale=1.0))
    model, (rounded, ranges, plain) = base.margins, still(base, sets)
    rounding, asked = model.rounding, {}

    def patched(owner: Any, name: str, whole: str, width: int) -> None:
        def made(given: Any, *_: Any) -> Any:
            asked[whole] = given
            return np.full((len(sets), width), 0.01 if whole == place else 0.0)

        monkeypatch.setattr(owner, name, made)

    d, n = model.spec.d_model, model.spec.d_mlp
    patched(rounding, "centred", "centred", d)
    for name, part in (("inner", rounding.inner), ("gates", rounding.gates)):
        for kind in ("carried", "off") if part is not None else ():
            patched(part, kind, f"{name}.{kind}", n)
    patched(rounding, "activated", "activated", n)
    patched(rounding, "opened", "opened", n)
    found, _ = model._posts(ranges, rounded)
    assert (found.values.low < plain.values.low).all()
    assert (found.values.high > plain.values.high).all()
    assert (found.rest.high - found.rest.low > plain.rest.high - plain.rest.low).all()
    exactly = place == "opened" or (place == "activated" and not options)
    if exactly:
        np.testing.assert_allclose(found.values.high - plain.values.high, 0.01, rtol=1e-6)
        np.testing.assert_allclose(plain.values.low - found.values.low, 0.01, rtol=1e-6)
    if "opened" in asked and place == "activated":
        late = model._spans["late"].size
        before = model._posts(ranges, None)[0].plus(-model._spans["late"]).values.size
        assert (asked["opened"] >= before + late - 1e-9).all()
    read = rounded.sizes
    if model.spec.has_norm:
        np.testing.assert_array_equal(asked["centred"], read)
        assert (asked["inner.off"] <= np.sqrt(d) + 1e-9).all()
    else:
        np.testing.assert_array_equal(asked["inner.off"], read)


def test_errors_of_the_residual_stream_are_heard_in_ranges_and_margins() -> None:
    asked, sets, _ = some_strings(ordered_checkpoint(PLAIN, 4))
    model, regions = asked.margins, asked.regions(sets)
    errors: Any = [StubErrors(0.25, asked.spec.d_model)] * len(sets)
    plain, found = (model._ranges(regions, given) for given in (None, Rounded(errors)))
    off = np.tile(0.25 * np.abs(model._directions.middle).sum(-1), (len(sets), 1))
    np.testing.assert_allclose(found.high - plain.high, off, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.low - found.low, off, rtol=1e-9, atol=1e-12)


def test_work_is_done_in_parts_that_fit_into_memory(monkeypatch: Any) -> None:
    asked, sets, _ = some_strings(ordered_checkpoint(PLAIN, 4))
    one = 8 * sets.slots + asked.margins.rows * judge._PER_PATHS
    for numbers, sizes in ((1, [1] * 4), (one, [1] * 4), (2 * one, [2, 2]), (3 * one, [3, 1])):
        monkeypatch.setattr(judge, "_AT_ONCE", numbers)
        parts = list(asked.judge.path_regions(sets))
        assert [len(at) for at, _, _ in parts] == [len(some.sets) for _, some, _ in parts] == sizes
    monkeypatch.setattr(judge, "_AT_ONCE", 1 << 40)
    asked.budget.memory = 256 * 2 * one
    assert [len(at) for at, _, _ in asked.judge.path_regions(sets)] == [2, 2]
