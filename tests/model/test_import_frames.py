"""Frames of imported models: every row run by the model's own code is the oracle of `verify`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model.outside_models import tl_model
from tests.sizes import many
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.errors import UsageError

BOTH = {"attention_dir": "bidirectional"}
CASES: list[tuple[str, str, dict[str, Any], Any]] = [
    # frame, task, options of the model, named
    ("[5] x{4} [3]; x=0..2", "palindrome", {}, "causal, ends"),
    ("[5] x{1..4} [3]; x=0..2", "parity", {}, "causal, lengths"),
    ("x{2} [4] y{2} [5]; x=0..1; y=1..3", "before", {}, "between, letters per place"),
    ("x{1..5}; x=1..3", "parity", {}, "the last letter reads"),
    ("[4] x{3} [5]; x=0..3; distinct", "palindrome", {}, "distinct"),
    ("[4] x{4} [5] [3]; x=0..2; read=-2", "parity", {}, "tokens behind the read"),
    ("[4] x{4} [5]; x=0..2; classes=1,0", "palindrome", {}, "classes the other way"),
    ("x{2} [0] x; x=0..2", "parity", {}, "a fixed token that is a letter, too"),
    ("[5] x{1..4} [3]; x=0..2; read=0", "palindrome", BOTH, "both ways, front"),
    ("[4] [5] x{1..3} [3]; x=0..2; read=1", "parity", BOTH, "both ways, second token"),
    ("[4] x{4} [5]; x=0..2; read=-1", "palindrome", BOTH, "both ways, end"),
    ("[4] x{3} [5] [3]; x=0..2; read=-2", "parity", BOTH, "both ways, last but one"),
]


def classes_of(task: str, frame: tsc.Frame, letters: list[list[int]]) -> list[int]:
    """Written out: a is the lowest letter."""
    alphabet = sorted({one for each in frame.letters for one in each})
    a, b = alphabet[0], alphabet[1]
    found = []
    for word in letters:
        if task == "palindrome":
            found.append(int(word == word[::-1]))
        elif task == "parity":
            found.append(word.count(a) % 2)
        else:
            first = [one for one in word if one in (a, b)]
            found.append(int(bool(first) and first[0] == a))
    return found


def wrong_rows(model: Any, frame: tsc.Frame, task: str) -> tuple[int, list[list[int]]]:
    """How many rows there are, and the wrong ones: products, no code of frames but `rows`."""
    total, wrong = 0, []
    for n in range(max(1, frame.places[0]), frame.places[1] + 1):
        words = [list(one) for one in product(*frame.letters[:n])]
        words = [one for one in words if not frame.distinct or len(set(one)) == n]
        total += len(words)
        rows = frame.rows(words)
        with torch.no_grad():
            outputs = model(torch.from_numpy(rows))[:, frame.read[0]].double().numpy()
        order = list(frame.classes or range(outputs.shape[1]))
        said = outputs[:, order].argmax(-1)
        right = classes_of(task, frame, words)
        wrong += [row for row, a, b in zip(rows.tolist(), said, right, strict=True) if a != b]
    return total, wrong


def made(options: dict[str, Any], seed: int, positions: bool) -> Any:
    norm = {"normalization_type": "LN"} if seed % 2 else {}
    return tl_model(seed, positions=positions, **{"n_ctx": 7, **norm, **options})


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("case", CASES, ids=[one[3] for one in CASES])
def test_verify_decides_exactly_the_rows_of_the_frame(case: Any, positions: bool) -> None:
    text, task, options, _ = case
    frame = tsc.Frame.parse(text)
    for seed in range(many(1, 4)):
        model = made(options, seed + len(text), positions)
        mine = tsc.from_transformer_lens(model, frame=frame, task=task)
        verdict = tsc.verify(mine)
        total, wrong = wrong_rows(model, frame, task)
        counted = verdict.tally.wrong if isinstance(verdict, tsc.Verdict) else verdict.wrong
        assert counted == len(wrong)
        if not isinstance(verdict, tsc.Verdict):
            assert (verdict.inputs, verdict.undecided) == (total, 0)


def test_three_outputs_keep_the_frames_order() -> None:
    model = tl_model(3, positions=True, d_vocab_out=3, n_ctx=7)
    frame = tsc.Frame.parse("[4] x{3} [5]; x=0..2; classes=2,0,1")
    mine = tsc.from_transformer_lens(model, frame=frame, task="maximum")
    rows = [list(one) for one in product(range(3), repeat=3)]
    with torch.no_grad():
        outputs = model(torch.from_numpy(frame.rows(rows)))[:, -1]
    said = [(2, 0, 1).index(int(one)) for one in outputs.argmax(-1)]
    assert tsc.verify(mine).wrong == sum(a != max(word) for a, word in zip(said, rows, strict=True))
    names = "abc"
    answers = tsc.evaluate(mine, ["".join(names[i] for i in word) for word in rows])
    assert [one.prediction for one in answers] == said


def test_a_written_sum_is_restricted_to_the_prompts_of_its_frame() -> None:
    model = tl_model(5, positions=True, d_vocab=5, d_vocab_out=5, n_ctx=7)
    frame = tsc.Frame.parse("x [3] y [4]; x=0..1; y=0..2; writes=2")
    task = {"kind": "addition", "digits": 1, "base": 3}
    mine = tsc.from_transformer_lens(model, frame=frame, task=task)
    wrong = 0
    for x, y in product(range(2), range(3)):
        total = [(x + y) % 3, (x + y) // 3]  # least significant digit first
        row = torch.tensor([[x, 3, y, 4, total[0]]])
        with torch.no_grad():
            said = model(row)[0, [3, 4]].argmax(-1).tolist()
        wrong += said != total
    verdict = tsc.verify(mine)
    assert (verdict.inputs, verdict.wrong, verdict.undecided) == (6, wrong, 0)


def test_a_certificate_of_a_framed_model_is_checked_and_kept_with_its_frame(tmp_path: Any) -> None:
    model = made({}, 1, True)
    mine = tsc.from_transformer_lens(
        model, frame="[START] x{4} [END]; x=0..2; START=5; END=3", task="palindrome"
    )
    certificate = tsc.certify(mine)
    proved = tsc.check(certificate, mine)
    assert proved.parts[0].inputs == 81
    mine.save(tmp_path / "mine.safetensors")
    again = load_checkpoint(tmp_path / "mine.safetensors")
    assert again.config == mine.config
    assert str(again.config.frame).startswith("[START] x{4} [END]")
    assert "START" in str(again.provenance["frame"])
    found = tsc.falsify(again, seconds=20)
    assert found.tokens is None or (len(found.tokens) == 6 and found.label in (0, 1))
    assert tsc.verify(again).wrong == 0 or found.found


def test_strings_are_places_whole_rows_or_names() -> None:
    mine = tsc.from_transformer_lens(
        made({}, 2, True), frame="[START] x{4} [END]; x=0..2; START=5; END=3", task="palindrome"
    )
    three = tsc.evaluate(mine, ["abba", "eabbad", "0 1 1 0", "START 0 1 1 0 END"])
    assert len({one.logit for one in three}) == 1
    assert {one.label for one in three} == {1}
    for wrong, why in {"abb": "4 letters", "abbe": "place 4", "dabbae": "position 0"}.items():
        with pytest.raises(tsc.TscError, match=why):
            tsc.evaluate(mine, wrong)


def test_names_of_one_character_are_written_without_spaces() -> None:
    mine = tsc.from_transformer_lens(
        made({}, 2, True), frame="[5] x{1..4} [3]; x=0..1; (=0; )=1", task="brackets"
    )
    three = tsc.evaluate(mine, ["(())", "( ( ) )", "aabb"])
    assert len({one.logit for one in three}) == 1
    assert {one.label for one in three} == {1}
    rows = [tsc.run_probe("patterns", mine, one).strings[0].tokens for one in ("(())", "aabb")]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("frame", "options", "why"),
    [
        ("x{4}; x=0..2; read=0..3", {}, "answers once"),
        ("x{4} [5]; x=0..2; read=1", {}, "behind the position read"),
        ("x{4}; x=0..2; read=0", BOTH, "fixed token"),
        ("[4] x{1..4} [5]; x=0..2; read=-1", BOTH, "same in every input"),
        ("[9] x{4}; x=0..2", {}, "6 tokens"),
        ("x{4} [5]; x=0..2; classes=0,7", {}, "2 outputs"),
    ],
)
def test_what_no_classifier_reads_is_refused(frame: str, options: Any, why: str) -> None:
    with pytest.raises(tsc.TscError, match=why):
        tsc.from_transformer_lens(made(options, 1, True), frame=frame, task="parity")


def test_a_frame_of_letters_alone_keeps_a_model_of_counts() -> None:
    mine = tsc.from_transformer_lens(
        tl_model(4, positions=False), frame="x{1..6} [5]; x=0..2", task="parity"
    )
    assert not mine.config.needs_order
    assert tsc.verify(mine).tally.max_length == 6
    assert np.isfinite(tsc.horizon(mine, limit=6).verified_length)


def test_probes_interventions_and_reports_read_rows_by_the_frame() -> None:
    model = made({}, 2, True)
    frame = "[START] x{4} [END]; x=0..2; START=5; END=3"
    mine = tsc.from_transformer_lens(model, frame=frame, task="palindrome")

    def silent(z: Any, hook: Any) -> Any:
        return torch.cat([0 * z[:, :, :1], z[:, :, 1:]], 2)

    with torch.no_grad():
        out = model.run_with_hooks(
            torch.tensor([[5, 0, 1, 1, 0, 3]]), fwd_hooks=[("blocks.0.attn.hook_z", silent)]
        )[0, -1]
    after = tsc.intervene(mine, ["abba"], "head0=zero").after
    assert float(after[0]) == pytest.approx(float(out[1] - out[0]), abs=1e-5)
    report = tsc.analyze(mine, probes=["attribution"])
    assert all(mine.config.classes([text]).size for text in report.models[0].strings)
    assert "[START] x{4} [END]" in mine.config.question
    with pytest.raises(tsc.TscError, match=r"positions|frame"):
        tsc.horizon(mine)


def test_a_name_is_the_title_of_its_pages() -> None:
    model = tl_model()
    frame = tsc.Frame.parse("x{1..3}; x=1..3", name="sums of a frame")
    options: dict[str, Any] = {"task": "parity", "samples": 4}
    assert tsc.from_transformer_lens(model, frame=frame, **options).source == "sums of a frame"
    named = tsc.from_transformer_lens(model, frame=frame, name="my model", **options)
    assert named.source == "my model"
    assert tsc.analyze(named, ["ab"], probes=["patterns"]).models[0].card.name == "my model"


@pytest.mark.parametrize("given", [type, 3, ["x{3}"]])
def test_what_is_no_frame_is_refused(given: Any) -> None:
    model = tl_model(d_vocab=4, n_ctx=8)
    for call in (
        lambda: tsc.from_transformer_lens(model, frame=given, task="parity"),
        lambda: tsc.falsify(model, "parity", frame=given),
    ):
        with pytest.raises(UsageError, match=r"frame is a tsc\.Frame or its notation, got"):
            call()


def test_what_the_original_does_not_accept_is_said() -> None:
    """Its context is 6 tokens; positions do not end there, so the import reads further."""
    model = tl_model(d_vocab=4, n_ctx=6)
    frame = "x{1..9} [3]; x=0..2"
    with pytest.warns(UserWarning, match=r"up to 10 tokens, and the original accepts 6 \(n_ctx\)"):
        mine = tsc.from_transformer_lens(model, frame=frame, task="parity")
    short = tsc.from_transformer_lens(model, frame="x{1..5} [3]; x=0..2", task="parity")
    assert mine.original_reads == short.original_reads == 6
    with pytest.raises(UsageError, match=r"rows of up to 10 tokens; the model accepts 6 \(n_ctx\)"):
        tsc.falsify(model, "parity", frame=frame)
    for places, accepts in ((9, False), (5, True)):
        found = tsc.falsify(mine, frame=f"x{{{places}}} [0]; x=2..4", tries=0)
        assert found.original_accepts is accepts
        assert found.to_dict()["original_accepts"] is accepts
        assert type(found).from_dict(found.to_dict()) == found
        assert ("does not accept" in found.findings[0].text) is not accepts
    first = tsc.horizon(short, limit=20)
    assert first.original_reads == 5
    assert first.original_accepts is (first.shortest.length <= 5)
    assert first.to_dict()["original_accepts"] is first.original_accepts
    assert "The original reads up to 5 letters: it" in "".join(text for _, text in first.lines())
