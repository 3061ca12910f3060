"""Reports of TransformerLens models that are no classifiers of ours.

Runs against whichever TransformerLens is installed, like test_interop.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.probes.models import QUERY, TOKENS, make_transformer_lens_model, transformer_lens_model
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.falsification.result import Enumerated, Falsification, Rate
from tsc_interp.probes.registry import run_probe
from tsc_interp.report import Report, row_subject
from tsc_interp.report.transformer_lens import weight_hash
from tsc_interp.results.base import Finding

PROBES = ["patterns", "attribution", "ablation", "circuits-weights"]
NAMES = ["?", "X", "Y", "<pad>", "l", "two words", "n", "`o`", "$p$"]


@pytest.fixture(scope="module")
def report() -> Report:
    model = transformer_lens_model()
    return tsc.analyze(model, TOKENS, query=QUERY, token_names=NAMES, direction=model.W_U[:, 2])


@pytest.fixture(scope="module")
def many() -> tuple[Any, torch.Tensor, Report]:
    """More rows and heads than are read and drawn."""
    model = make_transformer_lens_model(n_layers=5, n_heads=6, d_head=4, d_model=24, n_ctx=9)
    tokens = torch.randint(0, 9, (90, 8), generator=torch.Generator().manual_seed(5))
    return model, tokens, tsc.analyze(model, tokens, direction=model.W_U[:, 7])


def test_results_are_the_probes_own(report: Report) -> None:
    """Oracle: the same probes asked one by one; only rows have other names here."""
    model = transformer_lens_model()
    assert [result.probe for result in report.models[0].results] == PROBES
    order = list(report.models[0].card.asked.shown)
    for name in PROBES:
        options = {"direction": model.W_U[:, 2]} if name == "attribution" else {}
        if name != "circuits-weights":
            options["query"] = QUERY
        alone = run_probe(name, model, TOKENS[order], token_names=NAMES, **options)
        assert alone.findings == report[name].findings
    parts = report["attribution"]
    said = (model(TOKENS)[:, QUERY, 2] - model.b_U[2]).detach().numpy()
    order = [int(re.findall(r"\d+", label)[0]) for label in parts.logits.labels["string"]]
    assert parts.logits.array == pytest.approx(said[order], abs=1e-4)
    assert list(parts.logits.array) == sorted(parts.logits.array, reverse=True)
    with torch.no_grad():
        pattern = model.run_with_cache(TOKENS)[1]["blocks.1.attn.hook_pattern"].numpy()
    for one in report["patterns"].strings:
        row = int(re.findall(r"\d+", one.name)[0])
        assert one.tokens == tuple(NAMES[token] for token in TOKENS[row].tolist())
        assert one.weights.at(layer=1) == pytest.approx(pattern[row], abs=1e-5)


def _rows(result: Any) -> tuple[str, ...]:
    if result.probe == "patterns":
        return tuple(one.name for one in result.strings)
    arrays = [getattr(result, name, None) for name in ("logits", "string_values")]
    return next((a.labels["string"] for a in arrays if a is not None), ())


def test_every_form_and_back(report: Report, tmp_path: Path) -> None:
    again = Report.from_json(report.to_json())
    assert again.models == report.models
    assert again.to_json() == report.to_json()
    assert again.to_html(plotlyjs="cdn") == report.to_html(plotlyjs="cdn")
    page = report.save(tmp_path / "out").read_text()
    text = (tmp_path / "out" / "report.md").read_text()
    for form in (page, text):
        assert "Not tested: no label was given" in form
        assert "no task is known" in form
    for finding in report.findings:
        assert finding.severity in ("note", "good")
    assert "&lt;pad&gt;" in page
    assert "<pad>" not in page.replace("\\u003cpad>", "")
    assert "tsc-interp analyze" not in page  # there is no checkpoint to name
    for probe in PROBES:
        assert f'id="{probe}"' in page
    for probe in ("trace", "cone", "init-norm"):
        assert f'id="{probe}"' not in page
        assert probe in report.models[0].not_run


def test_the_model_card_says_what_it_is_and_what_was_asked(report: Report) -> None:
    model = transformer_lens_model()
    card = report.models[0].card
    facts = dict(card.first_facts() + card.facts())
    expected = {
        "layers": "2", "heads": "2", "d model": "12", "d head": "3", "d mlp": "5", "norm": "LN",
        "activation": "gelu", "positions": "standard", "attention": "causal", "vocabulary": "9",
        "longest input": "11", "number format": "float32", "rows": "5 of 5 given",
        "tokens a row": "7", "read at position": "4", "attention mask": "none",
        "read-out direction": "a vector of 12 numbers",
        "Parameters": f"{sum(p.numel() for p in model.parameters()):,}",
    }  # fmt: skip
    assert {name: facts[name] for name in expected} == expected
    card = report.models[0].card
    assert card.weight_hash == weight_hash(model)
    assert card.weight_hash != weight_hash(make_transformer_lens_model(seed=4))
    assert card.asked.texts()[0][1].split() == [
        word for token in TOKENS[card.asked.shown[0]][: QUERY + 1] for word in NAMES[token].split()
    ]


def test_the_python_of_a_section_gives_it_again(report: Report, tmp_path: Path) -> None:
    from tsc_interp.report.commands import command, python

    assert command(report) == ""
    report.save(tmp_path / "out")
    shown = python(report, "patterns").replace("report.json", str(tmp_path / "out" / "report.json"))
    space: dict[str, Any] = {"model": transformer_lens_model()}
    exec(compile(shown.replace("report.show(tables=True)", ""), "shown", "exec"), space)
    assert space["report"]["patterns"] == report["patterns"]


def test_of_many_rows_and_heads_some_are_chosen(many: tuple[Any, torch.Tensor, Report]) -> None:
    model, tokens, report = many
    card = report.models[0].card
    assert len(card.asked.rows) == row_subject.MOST_ROWS
    assert card.asked.rows[0] == 0
    assert card.asked.rows[-1] == 89
    assert card.asked.tokens[5] == tuple(tokens[card.asked.rows[5]].tolist())
    assert "64 rows of 8 tokens (of 90 given" in card.verdict().text
    # Oracle: the read-out of every row read, from the model's own logits.
    said = (model(tokens)[:, -1, 7] - model.b_U[7]).detach().numpy()[list(card.asked.rows)]
    order = [card.asked.rows[place] for place in np.argsort(-said, kind="stable")]
    assert list(card.asked.shown) == [*order[:4], *order[-4:]]
    for result in report.models[0].results:
        assert len(_rows(result)) in (0, row_subject.MOST_SHOWN)
    assert sum(len(section.figures) for section in report.models[0].sections.values()) <= 12
    assert len(report.to_html(plotlyjs="cdn")) < 1e6
    assert len(json.dumps(report.to_dict())) < 2e6


def test_rows_that_do_not_fit_are_refused_with_what_would(monkeypatch: Any) -> None:
    model = transformer_lens_model()
    monkeypatch.setattr(row_subject, "MOST_BYTES", 4000)
    with pytest.raises(UsageError, match=r"rows of \d+ tokens fit") as caught:
        tsc.analyze(model, TOKENS, probes=["margin"])
    fits = int(re.findall(r"rows of (\d+) tokens fit", str(caught.value))[0])
    assert 1 <= fits < 7
    some = tsc.analyze(model, TOKENS[:, :fits], probes=["margin"])
    assert len(some.models[0].card.asked.rows) >= 1


def test_masks_and_one_query_per_row_reach_the_probes() -> None:
    model = transformer_lens_model()
    mask = torch.ones_like(TOKENS)
    mask[1, 5:] = 0
    report = tsc.analyze(model, TOKENS, probes="specialization", attention_mask=mask)
    alone = run_probe("specialization", model, TOKENS, attention_mask=mask)
    assert report["specialization"].findings == alone.findings
    assert report.models[0].card.asked.query == (6, 4, 6, 6, 6)
    chosen = tsc.analyze(model, TOKENS, probes="specialization", query=[1, 2, 3, 4, 5])
    assert chosen.models[0].card.asked.query == (1, 2, 3, 4, 5)
    assert "positions 1 to 5" in chosen.findings[0].text


@pytest.mark.parametrize(
    ("tokens", "options", "words"),
    [
        (None, {}, "which tokens"),
        ("abc", {}, "token ids"),
        (["ab", "c"], {}, "token ids"),
        (torch.tensor([[1, 99]]), {}, "token ids must lie in"),
        (TOKENS, {"query": 9}, "query position 9"),
        (TOKENS, {"direction": [1.0, 2.0]}, r"must have shape \[12\]"),
        (TOKENS, {"direction": "up"}, "vector of 12 numbers"),
        (TOKENS, {"token_names": ["a"]}, "token_names has 1 names"),
        (TOKENS, {"probes": ["margins"]}, "did you mean 'margin'"),
        (TOKENS, {"probes": []}, "no probe to run"),
        (TOKENS, {"answer": [1, 2]}, "one for each of the 5 rows"),
        (TOKENS, {"answer": 9, "probes": ["attribution"]}, "one of the 9 outputs"),
        (TOKENS, {"compare": "walkthrough"}, "not compared"),
        (TOKENS, {"epoch": 3}, "has no epochs"),
    ],
)
def test_wrong_use_is_refused_in_words(tokens: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tsc.analyze(transformer_lens_model(), tokens, **options)


@pytest.mark.parametrize("probe", ["trace", "cone", "patching", "dynamics"])
def test_a_probe_that_does_not_apply_says_why_when_named(probe: str) -> None:
    with pytest.raises(UnsupportedError, match=f"probe {probe}: it "):
        tsc.analyze(transformer_lens_model(), TOKENS, probes=[probe])


def test_options_of_other_models_are_refused_for_a_classifier() -> None:
    with pytest.raises(UsageError, match="query: for models of TransformerLens"):
        tsc.analyze("walkthrough", ["ab"], query=0)
    with pytest.raises(TscError, match="neither a string"):
        tsc.analyze("walkthrough", TOKENS)


def test_by_default_the_answer_is_taken_apart_and_put_to_the_test() -> None:
    """Oracle: the model's own logits, as it is and with one head at its mean."""
    model = transformer_lens_model()
    report = tsc.analyze(model, TOKENS, query=QUERY, name="mine & yours", token_names=NAMES)
    logits = model(TOKENS)[:, QUERY].detach().numpy()
    lead = np.sort(logits, axis=1)[:, -1] - np.sort(logits, axis=1)[:, -2]
    assert report["attribution"].logits.array == pytest.approx(lead, abs=1e-4)
    page = report.to_html(plotlyjs="cdn")
    assert "<h1>mine &amp; yours</h1>" in page
    assert "Which heads does it need?" in page
    assert 'class="tsc-attention"' in page
    text = re.search(r"<b>Tested:</b> (.*?)</p>", page)[1]
    name = re.search(r"the output of layer (\d) head (\d) replaced", text)
    layer, head = map(int, name.groups())

    def mean(z: torch.Tensor, hook: Any) -> torch.Tensor:
        z = z.clone()
        z[:, :, head] = z[:, :, head].mean(0)
        return z

    after = model.run_with_hooks(TOKENS, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", mean)])
    changed = int((after[:, QUERY].argmax(-1).numpy() != logits.argmax(1)).sum())
    assert f"{changed} of all 5 answers change" in text or (
        changed == 0 and "no answer changes" in text
    )


WRONG = (2, 6, 5, 3, 5, 8, 8)
FOUND = Falsification(
    model="", frame="x{7}; x=0..8; TWO=2; read=5", tokens=WRONG, text="TWO 6 5 3 5 8 8", label=3,
    answer=4, margin=-1.0, proved=True, not_proved=None, tried=1234, families=(),
    error_rate=Rate(of="inputs", wrong=3, tried=200), by_class=(), by_length=(),
    by_place=(Rate(of="place 1", wrong=0, tried=9), Rate(of="place 2", wrong=9, tried=12)),
    enumerated=None, mechanism=(Finding(severity="note", text="Head 1 did it."),),
    examples=(WRONG, (1, 2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 2, 1)), position=5,
    stopped="time ran out", seed=0,
)  # fmt: skip


def test_a_wrong_input_that_was_found_comes_first() -> None:
    model = transformer_lens_model()
    report = tsc.analyze(model, TOKENS, found=FOUND, token_names=NAMES, probes=["patterns"])
    verdict = report.findings[0]
    assert verdict.severity == "failure"
    assert verdict.text.startswith("`TWO 6 5 3 5 8 8` is wrong: the label is 3, the answer 4.")
    assert "Proved in ball arithmetic" in verdict.text
    assert "3 of 200 (1.50%, 95% CI 0.31% to 4.32%)" in verdict.text
    assert report["patterns"].strings[0].name.startswith("row 0")
    assert report.models[0].card.asked.tokens[0] == WRONG
    assert Report.from_json(report.to_json()).models == report.models

    nothing = FOUND.model_copy(update={"tokens": None, "examples": ()})
    text = tsc.analyze(model, TOKENS, found=nothing, probes=["patterns"]).findings[0].text
    assert text.startswith("No wrong input was found among 1,234 tried")
    every = Enumerated(
        inputs=25, wrong=0, undecided=0, in_float64=25, in_balls=0, complete=True
    )  # fmt: skip
    nothing = nothing.model_copy(update={"enumerated": every})
    told = tsc.analyze(model, TOKENS, found=nothing, probes=["patterns"]).findings[0]
    assert told.severity == "good"
    assert told.text.startswith("Proved: none of the 25 inputs of the frame is wrong")
    with pytest.raises(UsageError, match="has 7 tokens"):
        tsc.analyze(model, TOKENS[:, :5], found=FOUND)
    with pytest.raises(UsageError, match="falsify returned"):
        tsc.analyze(model, TOKENS, found="all of it")


def test_a_search_brings_its_rows_its_names_and_where_it_is_read(tmp_path: Path) -> None:
    report = tsc.analyze(transformer_lens_model(), found=FOUND, name="mine")
    asked = report.models[0].card.asked
    assert (asked.tokens, set(asked.query)) == (FOUND.examples, {5})
    assert asked.names[2] == "TWO"
    page = report.save(tmp_path / "out", plotlyjs="cdn").read_text()
    assert "Why is it wrong on <code>TWO 6 5 3 5 8 8</code>?" in page
    assert "Head 1 did it." in page
    assert "Which changes does it miss?" in page
    assert "9 of 12" in page


def test_the_model_is_left_as_it_was() -> None:
    model = make_transformer_lens_model()
    before = weight_hash(model)
    tsc.analyze(model, TOKENS, direction=model.W_U[:, 2])
    assert weight_hash(model) == before
    hooks = [point for point in model.hook_dict.values() if point.fwd_hooks]
    assert not hooks
