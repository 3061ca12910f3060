"""The intervention that confirms a cause: a planted one is found, and its counts are counted."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification.models import hand_built
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.classifier import Classifier, open_classifier
from tsc_interp.report import Report
from tsc_interp.report.cause import Confirmation, confirm
from tsc_interp.tasks.counts import ContainsAll

PROBES = ["trace", "superposition", "margin", "attribution"]


def test_a_planted_impostor_is_found():
    """Contains a and b? In head 1 c passes for b: every string of a and c is taken for one."""
    scores, values = [[9, 0, 0], [0, 9, 9]], [[2, 0, 0], [0, 2, 2]]
    model = Classifier.from_checkpoint(hand_built(scores, values, 3.0))
    found = confirm(model, "ac")
    assert found.reason is None
    assert found.intervention in ("head1.value[c]=zero", "head1.value[c]=like(a)")
    # Strings over exactly a and c, in which one a leads 200 c's: 2^n - 2 of each length.
    assert found.false_positives == (sum(2**n - 2 for n in range(1, 201)), 0)
    assert found.false_negatives[0] == 0
    edited = tsc.edit(model, found.intervention)
    tally = tsc.verify(edited, 200).tally
    assert tally.false_positives.total_strings == 0
    assert tally.false_negatives.total_strings == found.false_negatives[1]
    after = float(Classifier.from_checkpoint(edited)(["ac"]).detach())
    assert after == pytest.approx(found.logit, abs=1e-5)
    assert after < 0


def test_the_head_that_is_blamed_is_changed():
    """Changes of other heads of this model cure the string as well, and are listed before."""
    model = open_classifier("many-heads")
    assert confirm(model, "abc{227}", 5).intervention == "head5.value[c]=zero"
    unblamed = confirm(model, "abc{227}")
    assert unblamed.intervention == "head0.value[c]=zero"
    assert confirm(model, "abc{227}", 99) == unblamed  # nothing there


def test_strings_are_counted_up_to_one_that_is_long():
    """Up to 200 letters nothing is wrong with this model, so nothing could change."""
    model = open_classifier("walkthrough")
    found = confirm(model, "abc{2165}")
    assert found.length == 2167
    wrong = tsc.verify(model, 2167).tally.false_negatives.total_strings
    assert found.false_negatives == (wrong, 0)
    assert f"up to 2,167 letters, all {wrong:,} false negatives disappear" in found.sentence()
    far = Confirmation("ab{5000000}", words="x", intervention="y")
    assert far.sentence().endswith("strings of its length were not counted.")


@pytest.fixture(scope="module")
def report() -> Report:
    return tsc.analyze("generalization-errors", ["b{2}c{152}", "ab"], probes=PROBES)


def test_every_form_of_a_report_has_it(report, capsys):
    known = report.models[0].confirmation
    assert known.string == "b{2}c{152}"
    assert known.intervention == "head0.value[c]=zero"
    assert known.false_positives == (893_605, 0)
    sentence = known.sentence()
    assert "exactly up to 200 letters, all 893,605 false positives disappear" in sentence
    plain = sentence.replace("`", "")
    assert plain in report.to_markdown().replace("`", "").replace("&#91;", "[").replace(
        "&#93;", "]"
    )
    assert "Tested:" in report.to_html(plotlyjs="cdn")
    report.show()
    assert "893,605 false positives" in " ".join(capsys.readouterr().out.split())
    again = Report.from_json(report.to_json())
    assert again.models[0].confirmation == known
    assert again.to_json() == report.to_json()


def test_a_report_from_before_is_read(report):
    data = json.loads(report.to_json())
    del data["models"][0]["confirmation"]
    assert Report.from_dict(data).models[0].confirmation is None


def test_counts_beyond_json_survive():
    known = Confirmation("ab", label=True, false_negatives=(3**200, 7), words="x")
    again = Confirmation.from_dict(json.loads(json.dumps(known.to_dict())))
    assert again == known
    assert (
        "false negatives fall from 2.66·10⁹⁵ to 7, and false positives stay at 0"
        in known.sentence()
    )


def test_an_error_beyond_what_is_counted():
    found = confirm(open_classifier("walkthrough"), "abc{5000}")
    assert found.false_negatives[0] == found.false_positives[0] == 0
    assert found.logit > 0
    assert (
        "exactly up to 200 letters, there is no error before or after the change"
        in found.sentence()
    )


def test_no_wrong_string_no_confirmation():
    model = tsc.analyze("walkthrough", ["aac", "baac"], probes=["trace", "attribution"]).models[0]
    assert model.confirmation is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_positions": 9}, "positions"),
        ({"norm": "rms"}, "norms"),
        ({"n_layers": 2}, "several layers"),
        ({"n_letters": 4}, "up to 16 heads and 3 letters"),
        ({"n_heads": 0}, "no attention"),
    ],
)
def test_where_it_does_not_apply_the_reason_is_given(options, says):
    found = confirm(Classifier(ClassifierConfig(**options), seed=0), "ab")
    assert says in found.reason
    assert found.sentence().startswith("No intervention confirms it: ")


def test_no_change_makes_it_right():
    """A logit that no letter moves: every value is zero already."""
    zero = np.zeros((1, 3)).tolist()
    options = {"task": ContainsAll(letters="a")}
    model = Classifier.from_checkpoint(hand_built([[1, 2, 3]], zero, 1.0, **options))
    assert "makes the string right" in confirm(model, "ab").reason


def test_answering_everything_alike_confirms_nothing():
    """One head, and no to everything once a's value is gone: right on b, and on nothing else."""
    options = {"task": ContainsAll(letters="a")}
    model = Classifier.from_checkpoint(hand_built([[9, 0, 0]], [[1, 1, 0]], 0.5, **options))
    found = confirm(model, "b")  # b passes for a
    assert found.intervention in ("head0.value[b]=zero", "head0.value[b]=like(c)")
    assert found.false_negatives[1] < sum(3**n for n in range(1, 201)) // 10
