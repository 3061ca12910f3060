"""Reports of classifiers that were imported: every option of the wider family, no wrong word."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model.outside_models import tl_model, to_bridge
from tsc_interp.cli import main
from tsc_interp.data import source_test_set
from tsc_interp.report import Report

ABC = {2: "a", 4: "b", 1: "c"}
NAMED = {1: "(", 5: ")", 2: "<x>"}
SEEN = ["superposition", "margin", "specialization"]


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def taken(options: dict[str, Any], **given: Any) -> Any:
    reading = {"tokens": ABC, "query": 3, "task": "contains_all", **given}
    return tsc.from_transformer_lens(tl_model(1, **options), **reading)


# What a model has, how it is read, the probes that answer, and what is said of the others.
FAMILY: list[tuple[dict[str, Any], dict[str, Any], list[str], dict[str, str]]] = [
    ({"normalization_type": "RMSPre"}, {}, ["trace", *SEEN, "attribution", "cone"],
     {"init-norm": "trained elsewhere"}),
    ({"positions": True, "attn_only": True}, {"query": None}, [*SEEN, "attribution", "patterns"],
     {"trace": "the last letter reads"}),
    ({"positions": True}, {"task": "before"}, ["trace", *SEEN, "attribution", "patterns"],
     {"cone": "sees order"}),
    ({"d_vocab_out": 3}, {"task": "most_frequent"}, [*SEEN, "attribution"],
     {"trace": "3 outputs", "cone": "3 outputs"}),
    ({"d_vocab_out": 3, "positions": True, "attn_only": True}, {"task": "maximum", "query": None},
     [*SEEN, "attribution", "patterns"], {"trace": "3 outputs"}),
]  # fmt: skip


@pytest.mark.parametrize(("options", "given", "asked", "refused"), FAMILY, ids=str)
def test_every_member_of_the_family_has_a_page(
    options: dict[str, Any],
    given: dict[str, Any],
    asked: list[str],
    refused: dict[str, str],
    tmp_path: Path,
) -> None:
    checkpoint = taken(options, **given)
    # The pages are the subject, whatever the search decides in a second.
    report = tsc.analyze(checkpoint, seconds=1 if checkpoint.config.needs_order else None)
    model = report.models[0]
    assert sorted(model.sections) == sorted(asked)
    for probe, words in refused.items():
        assert words in model.not_run[probe]
    assert "tsc-interp analyze" not in report.to_markdown()  # it is nowhere on disk
    page = report.save(tmp_path / "out", plotlyjs="cdn").read_text()
    assert "from_transformer_lens" in page
    assert Report.from_json(report.to_json()).to_json() == report.to_json()
    for finding in report.findings:
        if options.get("positions"):
            assert "is mistaken for it" not in finding.text  # values differ from place to place
            assert "No head reads `" not in finding.text


@to_bridge
def test_a_deeper_model_is_searched_for_its_page(tmp_path: Path) -> None:
    """Oracle: the original's own answer to the input that the page takes apart."""
    original = tl_model(1, n_layers=2, normalization_type="LN")
    checkpoint = tsc.from_transformer_lens(original, tokens=ABC, query=3, task="before")
    report = tsc.analyze(checkpoint, seconds=2)
    card = report.models[0].card
    assert {"patterns", "attribution", "ablation"} <= set(report.models[0].sections)
    assert "answers “" in report.findings[0].text
    assert card.weight_hash == checkpoint.weight_hash()
    row = [int({"a": 2, "b": 4, "c": 1, "CLS": 3}[one]) for one in card.tested.text.split()]
    with torch.no_grad():
        said = int(original(torch.tensor([row]))[0, -1].argmax())
    assert (said, str(said)) == (1 - card.tested.label, str(card.tested.answer))
    page = report.save(tmp_path / "out", plotlyjs="cdn").read_text()
    assert "Why is it wrong on" in page
    assert "from_transformer_lens" in page
    assert "Try it out" in page
    assert Report.from_json(report.to_json()).to_json() == report.to_json()


def test_errors_of_several_classes_are_counted() -> None:
    """Oracle: the original's own largest output, on the test strings, one by one."""
    model = tl_model(1, d_vocab_out=3)
    reading = {"tokens": ABC, "query": 3, "task": "most_frequent"}
    checkpoint = tsc.from_transformer_lens(model, **reading)
    report = tsc.analyze(checkpoint, probes=["margin"])
    counts = source_test_set(checkpoint.config)
    short = counts[counts.sum(1) <= 18]
    card = report.models[0].card
    assert card.test.strings == len(counts)
    ids, wrong, compared = [2, 4, 1], 0, 0
    for row in short[:200]:
        tokens = [ids[letter] for letter in range(3) for _ in range(row[letter])]
        out = model(torch.tensor([[*tokens, 3]]))[0, -1]
        wrong += int(out.argmax()) != int(row.argmax())
        compared += 1
    classes = tsc.load(checkpoint)(
        [checkpoint.config.alphabet.write(row) for row in short[:compared]]
    ).argmax(-1)
    assert wrong == int((classes.numpy() != short[:compared].argmax(1)).sum())
    every = tsc.load(checkpoint)([checkpoint.config.alphabet.write(row) for row in counts])
    assert card.test.wrong == int((every.argmax(-1).numpy() != counts.argmax(1)).sum())
    assert f"wrong on {card.test.wrong:,} of tsc-interp's own" in card.verdict().text
    assert card.reach.wrong == tsc.horizon(checkpoint).shortest.string
    again = Report.from_json(report.to_json()).models[0].card
    assert again == card


def test_a_trace_is_taken_where_the_model_reads() -> None:
    """Oracle: the original's own pattern and residual stream at its last position."""
    model = tl_model(1, positions=True)
    checkpoint = tsc.from_transformer_lens(model, tokens=ABC, query=3, task="contains_all")
    result = tsc.run_probe("trace", checkpoint, ["abca", "ca"])
    for text in ("abca", "ca"):
        row = [{"a": 2, "b": 4, "c": 1}[letter] for letter in text] + [3]
        out, cache = model.run_with_cache(torch.tensor([row]))
        pattern = cache["blocks.0.attn.hook_pattern"][0, :, -1].detach()
        for token, letter in ((2, "a"), (4, "b"), (1, "c"), (3, "CLS")):
            weight = pattern[:, [at for at, one in enumerate(row) if one == token]].sum(-1)
            got = result.weights.at(layer=0, string=text, token=letter)
            assert got == pytest.approx(weight.numpy(), abs=1e-5)
        state = result.states.at(layer=0, stage="resid_post", string=text, token="CLS")
        expected = cache["blocks.0.hook_resid_post"][0, -1].detach().numpy()
        assert state == pytest.approx(expected, abs=1e-4)
        logit = float(out[0, -1, 1] - out[0, -1, 0])
        assert float(result.logits.at(string=text)) == pytest.approx(logit, abs=1e-4)


def test_folded_norms_are_attributed_to_the_last_digit() -> None:
    checkpoint = taken({"normalization_type": "LNPre"})
    result = tsc.run_probe("attribution", checkpoint, ["ab", "cc"])
    logits = [tsc.evaluate(checkpoint, text)[0].logit for text in ("ab", "cc")]
    assert result.effects.array.sum(1) == pytest.approx(logits, abs=1e-5)


def test_labels_of_a_task_on_order() -> None:
    checkpoint = taken({"positions": True}, task="before")
    result = tsc.run_probe("trace", checkpoint, ["ab", "ba", "bac", "cca"])
    assert result.labels == (1, 0, 0, 1)
    parts = tsc.run_probe("attribution", checkpoint, ["ab", "ba", "bac", "cca"])
    assert parts.labels == (1, 0, 0, 1)


def test_names_stand_on_every_page_and_the_command_line_takes_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "imported.safetensors"
    taken({"positions": True}, tokens=NAMED).save(file)
    out = tmp_path / "out"
    asked = ["-p", "margin", "--seconds", "1", "-o", str(out)]
    assert main(["analyze", "--checkpoint", str(file), *asked]) == 0
    legend = "a is (, b is ), c is <x>"
    assert legend in " ".join(capsys.readouterr().out.split())
    assert "a is (, b is ), c is &lt;x&gt;" in (out / "index.html").read_text()
    assert "b is ), c is" in (out / "report.md").read_text()
    assert f"--checkpoint {file}" in (out / "index.html").read_text()


def test_default_strings_fit_the_positions_there_are() -> None:
    for positions in (3, 5, 20):
        config = tsc.ClassifierConfig(n_positions=positions, attend_cls=True)
        model = tsc.HookedClassifier(config, seed=0)
        report = tsc.analyze(model, probes=["attribution"])
        lengths = [int(config.alphabet.counts(text).sum()) for text in report.models[0].strings]
        assert lengths
        assert max(lengths) <= positions - 1
    assert np.isfinite(report["attribution"].logits.array).all()
