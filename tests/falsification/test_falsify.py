"""`tsc.falsify` finds planted bugs and names their place, and finds nothing where nothing is."""

from __future__ import annotations

from importlib import import_module
from itertools import count, product

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from studies.constructed import carry_adder
from tests.falsification.models import any_model, carry_model, palindrome_model, random_model
from tests.model.outside_models import tl_model
from tsc_interp.errors import UsageError
from tsc_interp.falsification.result import Falsification

falsifying = import_module("tsc_interp.falsification.falsify")


def palindrome(rows):
    letters = rows[:, 1:]
    return (letters == letters.flip(-1)).all(-1).long()


def adds_up(rows):
    """In numpy on purpose: a label may want arrays."""
    a, b, c, d = (np.asarray(rows)[:, ::-1][:, i] for i in (3, 2, 1, 0))
    return (10 * a + b + 10 * c + d >= 100).astype(int)


def any_letter(rows):
    return (rows[:, 1:] != 0).any(-1).long()


PAIRS = tsc.Frame(before=[3], places=6, letters=range(3), read=0)
SUMS = tsc.Frame(before=[10], places=4, letters=range(10), read=0)
FRAME_OF_OURS = "[0] x{66..74}; x=2..4; read=0"
PLACES = tsc.Frame(before=[2], places=14, letters=range(2), read=0)


@pytest.fixture(scope="module")
def missed():
    return tsc.falsify(palindrome_model(3, 3, missing=1), palindrome, frame=PAIRS)


def test_a_pair_that_is_never_compared_is_found_and_named(missed):
    assert missed.found
    assert missed.proved
    assert (missed.label, missed.answer) == (0, 1)
    assert missed.tokens == (3, 0, 0, 0, 0, 1, 0)
    worst = max(missed.by_place, key=float)
    assert worst.of == "pair 2 (places 2 and 5)"
    assert worst.wrong == worst.tried > 0
    assert all(one.wrong == 0 for one in missed.by_place if one is not worst)
    assert "pair 2 (places 2 and 5), wrong" in missed.findings[-1].text


def test_the_input_found_is_wrong_by_the_models_own_forward(missed):
    model = palindrome_model(3, 3, missing=1)
    with torch.no_grad():
        said = int(model(torch.tensor([missed.tokens]))[0, 0].argmax())
    assert said == missed.answer != missed.label == int(palindrome(torch.tensor([missed.tokens])))


def test_a_lost_carry_is_found():
    found = tsc.falsify(carry_model(lost=True), adds_up, frame=SUMS)
    assert found.proved
    a, b, c, d = found.tokens[1:]
    assert (found.label, found.answer) == (1, 0)
    assert a + c == 9
    assert b + d >= 10
    rates = {one.of: one.share for one in found.by_place}
    assert min(rates["place 2"], rates["place 4"]) == 1.0
    assert max(rates["place 1"], rates["place 3"]) < 1.0


def test_an_ignored_place_is_found_and_named():
    found = tsc.falsify(any_model(14, ignored=11), any_letter, frame=PLACES)
    assert found.tokens == (2, *[0] * 11, 1, 0, 0)
    assert found.proved
    assert max(found.by_place, key=float).of == "place 12"


@pytest.mark.parametrize(("model", "label", "frame"), [
    (palindrome_model(3, 3), palindrome, PAIRS),
    (carry_model(lost=False), adds_up, SUMS),
    (any_model(14), any_letter, PLACES),
])  # fmt: skip
def test_nothing_is_found_where_nothing_is(model, label, frame):
    found = tsc.falsify(model, label, frame=frame, tries=20_000)
    assert not found.found
    assert found.tokens is None
    assert not found.proved
    assert found.tried > 10_000
    assert "proves nothing" in found.findings[0].text
    assert sum(one.wrong for one in found.families) == 0
    every = tsc.falsify(model, label, frame=frame, exhaustive=True).enumerated
    assert (every.inputs, every.wrong, every.undecided) == (frame.count(), 0, 0)
    assert every.complete


def test_equal_seeds_give_equal_results(missed):
    again = tsc.falsify(palindrome_model(3, 3, missing=1), palindrome, frame=PAIRS)
    assert again == missed
    other = tsc.falsify(palindrome_model(3, 3, missing=1), palindrome, frame=PAIRS, seed=1)
    assert other != missed
    assert other.tokens == missed.tokens


class Killed(Exception):
    pass


def test_a_killed_search_goes_on_and_ends_alike(missed, tmp_path):
    said = []

    def dies(doing):
        said.append(doing)
        if len(said) == 4:
            raise Killed

    model, state = palindrome_model(3, 3, missing=1), tmp_path / "state.jsonl"
    with pytest.raises(Killed):
        tsc.falsify(model, palindrome, frame=PAIRS, state=state, progress=dies)
    kept = state.read_text()
    assert kept.count("\n") > 3
    state.write_text(kept + '["torn off')  # killed while it wrote
    assert tsc.falsify(model, palindrome, frame=PAIRS, state=state) == missed
    assert state.read_text().startswith(kept)
    for other in (
        {"model": palindrome_model(3, 3, missing=2), "label": palindrome, "frame": PAIRS},
        {"model": model, "label": palindrome, "frame": PAIRS.replace(name="other")},
        {"model": model, "label": any_letter, "frame": PAIRS},
    ):
        with pytest.raises(UsageError, match="another model, frame or label"):
            tsc.falsify(**other, state=state)


class Cluster:
    """What `client=` needs of a `dask.distributed.Client`; work crosses a pickle."""

    def nthreads(self):
        return {"here": 1}

    def map(self, function, items, pure):
        cloudpickle = pytest.importorskip("cloudpickle")
        return [cloudpickle.loads(cloudpickle.dumps(function))(one) for one in items]

    def gather(self, made):
        return made


def test_an_enumeration_goes_on_and_runs_elsewhere(tmp_path):
    model, state = palindrome_model(3, 3, missing=1), tmp_path / "state.jsonl"
    options = {"frame": PAIRS, "exhaustive": True}
    plain = tsc.falsify(model, palindrome, **options)
    assert plain.enumerated.wrong == 54
    for more in ({"state": state}, {"state": state}, {"client": Cluster()}):
        assert tsc.falsify(model, palindrome, **options, **more) == plain
    assert any("letters" in line for line in state.read_text().splitlines())


def test_the_mechanism_is_the_part_that_moves_the_lead_most(missed):
    """By hand: each head's z replaced by its mean, START's outputs read."""
    model = palindrome_model(3, 3, missing=1)
    drawn = PAIRS.sample(64, np.random.default_rng(0), 6)
    rows = torch.from_numpy(np.vstack([[missed.tokens], PAIRS.rows(drawn)]))
    leads = {}
    for part in [None, *range(6), "MLP"]:

        def change(x, hook, part=part):
            x = x.clone()
            at = (slice(None), slice(None)) + ((part,) if isinstance(part, int) else ())
            x[at] = x[at].mean(0)
            return x

        name = "blocks.0.hook_mlp_out" if part == "MLP" else "blocks.0.attn.hook_z"
        with torch.no_grad():
            out = model.run_with_hooks(rows, fwd_hooks=[] if part is None else [(name, change)])
        leads[part] = float(out[0, 0, 0] - out[0, 0, 1])
    best = max((one for one in leads if one is not None), key=leads.get)
    (said,) = missed.mechanism
    assert said.numbers["lead"] == pytest.approx(leads[None], abs=1e-5)
    assert leads[None] + said.numbers["effect"] == pytest.approx(leads[best], abs=1e-5)
    assert said in missed.findings


def test_results_survive_json_and_show_themselves(missed):
    assert Falsification.from_dict(missed.to_dict()) == missed
    assert "label 0, answer 1 (proved)" in repr(missed)
    assert "What was tried" in missed._repr_html_()
    assert [one.name for one in missed.figures()] == ["by-place", "by-class"]
    low, high = missed.error_rate.interval
    assert low < missed.error_rate.share < high


def brute_force(model, label, frame):
    """Wrong inputs by the model's own forward in float64."""
    wrong = []
    for word in product(*frame.letters):
        rows = torch.from_numpy(frame.rows([word]))
        with torch.no_grad():
            said = int(model(rows)[0, frame.reads(len(word))[0]].argmax())
        if said != int(np.asarray(label(rows))[0]):
            wrong.append(tuple(rows[0].tolist()))
    return wrong


def test_enumeration_counts_what_brute_force_counts():
    model = random_model(3)
    frame = tsc.Frame(before=[6], places=4, letters=range(4), after=[5], read=-1)
    wrong = brute_force(model, lambda rows: rows[:, 2], frame)
    found = tsc.falsify(model, lambda rows: rows[:, 2], frame=frame, exhaustive=True)
    assert 0 < found.enumerated.wrong == len(wrong)
    assert found.tokens in wrong
    assert found.enumerated.complete
    assert found.enumerated.in_float64 == found.enumerated.inputs == 4**4


@pytest.mark.parametrize(("gap", "wrong"), [(2.0**-100, 0), (-(2.0**-100), 9)])
def test_enumeration_decides_near_ties_in_balls(gap, wrong):
    """Outputs of palindromes differ by 2^-100, by symmetry: far less than float64 can bound."""
    frame = tsc.Frame(before=[3], places=4, letters=range(3), read=0)
    model = palindrome_model(2, 3, gap=gap)
    counts = tsc.falsify(model, palindrome, frame=frame, exhaustive=True).enumerated
    assert (counts.inputs, counts.undecided) == (81, 0)
    assert (counts.in_balls, counts.wrong) == (9, wrong)


def test_several_positions_and_written_answers():
    model = random_model(4)
    frame = tsc.Frame(places=4, letters=range(5), writes=3)
    found = tsc.falsify(model, lambda rows: rows[:, :3], frame=frame)
    rows = torch.tensor([[*found.tokens, *found.label[:2]]])
    with torch.no_grad():
        said = model(rows)[0, 3:].argmax(-1).tolist()
    assert tuple(said) == found.answer != found.label
    assert found.proved
    many = tsc.falsify(model, lambda rows: rows[:, 1:3], frame=frame.replace(writes=0, read=(1, 2)))
    assert len(many.answer) == 2


def test_our_models_bring_their_task():
    found = tsc.falsify("generalization-errors", frame=FRAME_OF_OURS, tries=0)
    assert found.proved
    assert found.tokens[0] == 0
    letters = "".join(" abc"[one - 1] for one in found.tokens[1:])
    assert not tsc.evaluate("generalization-errors", letters)[0].correct


def test_tasks_label_token_rows():
    frame = tsc.Frame(before=[3], places=6, letters=range(3), read=0)
    found = tsc.falsify(palindrome_model(3, 3, missing=0), tsc.tasks.Palindrome(), frame=frame)
    assert found.tokens == (3, 0, 0, 0, 0, 0, 1)


def test_hooked_models_are_searched_and_not_proved():
    model = palindrome_model(3, 3, missing=1)
    model.blocks[0].hook_resid_post.register_forward_hook(lambda *_: None)
    found = tsc.falsify(model, palindrome, frame=PAIRS)
    assert found.found
    assert not found.proved
    assert "hook" in found.not_proved


@pytest.mark.parametrize(("label", "frame", "words"), [
    (lambda rows: rows[:, 0].float(), PAIRS, "whole number from 0.*of rows it returned"),
    (lambda tokens: {}[0], PAIRS, "KeyError"),
    (lambda rows: 0 * rows[:, 0] + 2, PAIRS, "0 to 1"),
    (3, PAIRS, "function of one input"),
    (palindrome, PAIRS.replace(before=(9,)), "tokens up to 9"),
    (palindrome, tsc.Frame(before=[3], places=9, letters=range(3)), "positions"),
    (palindrome, None, "frame"),
])  # fmt: skip
def test_errors_say_what_does_not_fit(label, frame, words):
    with pytest.raises(UsageError, match=words):
        tsc.falsify(palindrome_model(3, 3), label, frame=frame)


@pytest.mark.parametrize("missing", [1, None])
def test_seconds_bound_the_whole_call(monkeypatch, missing):
    """With a clock that only labels move: what is shrunk and proved is within the time, too."""
    now = [0.0]

    def slow(rows):
        now[0] += 0.1
        return palindrome(rows)

    monkeypatch.setattr(falsifying, "monotonic", lambda: now[0])
    found = tsc.falsify(palindrome_model(3, 3, missing), slow, frame=PAIRS, seconds=2)
    assert found.stopped == "time ran out"
    assert found.found == (missing is not None)
    assert found.tried > 0
    assert now[0] < 3.5
    now[0] = 0.0
    every = tsc.falsify(
        palindrome_model(3, 3, missing), slow, frame=PAIRS, seconds=0.05, exhaustive=True
    )
    assert not every.enumerated.complete
    assert now[0] < 1


def test_nothing_tried_is_said(monkeypatch):
    ticks = count()
    monkeypatch.setattr(falsifying, "monotonic", lambda: next(ticks))
    found = tsc.falsify(palindrome_model(3, 3), palindrome, frame=PAIRS, seconds=0.5)
    assert found.findings[0].text == "Nothing was tried: time ran out first; allow more seconds."


def test_an_adder_is_falsified_and_enumerated():
    """Its errors are known: with a shift of 1.5 the nine pairs whose sum is 22 in base 3."""
    wrong, right = carry_adder(2, base=3, shift=1.5), carry_adder(2, base=3)
    found = tsc.falsify(wrong)
    assert found.proved
    assert found.text == "11+11="
    assert (found.label, found.answer) == ((2, 2, 0), (2, 2, 1))
    assert "==6" in found.frame
    assert tsc.falsify(wrong, frame=found.frame, tries=0).text == found.text
    every = tsc.falsify(wrong, exhaustive=True)
    assert (every.enumerated.inputs, every.enumerated.wrong) == (81, 9)
    assert every.text == found.text
    none = tsc.falsify(right, exhaustive=True)
    assert none.enumerated.proves_right
    assert none.findings[0].text.startswith("Proved: none of the 81 inputs of the frame is wrong (")
    assert "proved: none of all 81 inputs is wrong" in repr(none)
    inside = tsc.falsify(wrong, frame="x{2} [5] y{2} [6]; x=2..3; y=2..4; writes=3")
    assert inside.text == "335336"


def test_an_adder_of_transformer_lens_is_falsified():
    """Its tokens are its outputs, so what it writes is found without a shift."""
    model = tl_model(d_vocab=5, d_vocab_out=5, n_ctx=8, positions=True)
    task = tsc.tasks.Addition(digits=2, base=3)
    frame = tsc.Frame(places=4, letters=range(3), between={2: [3]}, after=[4], writes=3)
    found = tsc.falsify(model, task, frame=frame)
    a, b, _, c, d, _ = found.tokens
    high, low = divmod(3 * (a + c) + b + d, 9)[0], (3 * (a + c) + b + d) % 9
    assert found.label == (low % 3, low // 3, high)
    assert found.proved


def test_long_runs_are_written_once():
    assert tsc.Frame.parse("[S] x{1..70}; x=0..1; S=5; a=0; b=1").text([5, 0, *[1] * 66]) == (
        "Sab{66}"
    )
