"""The trusted core, and which tests are there to guard each file of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    file: str
    tests: tuple[str, ...]
    only: str = ""
    """As pytest's -k: what takes long and guards something else is left out."""


_VERIFICATION = "tsc_interp/verification"
_CHECKER = (
    "tests/test_checker_claims.py",
    "tests/test_checker_model.py",
    "tests/test_certificates.py",
    "tests/test_forged_certificates.py",
)
_OPENING = (
    "nonsense or other_weights or field_matters or smuggled or positions or before_any_work or "
    "time_is_up or deep_documents or tail_alone or a_box_has_a_label or order_of_keys"
)
_CLAIMS = (
    "not bundled and not max_logit and not certify_ends and not accepted_is_true and not deeper "
    "and not is_sealed and not bounds_hold and not strips and not brute_force and not softmax "
    "and not returned"
)
_CLASSES = ("tests/test_classes.py",)
_FLOAT32 = (
    "accepted or field or document or real_boxes or at_once or refusals or decides or claimed "
    "or strict or an_answer"
)
_ORDERED = ("tests/test_ordered_certificates.py",)
_FACES = ("tests/test_face_bounds.py", "tests/test_search_bounds.py")
_PROOFS = (
    "proof or every_length or positive_labels or wrong_somewhere or tails or charts or "
    "bound_that_is_none or logit_of_zero or boxes_are_cut or charts_ends or corner_of_zero or "
    "sharpened"
)

TARGETS = (
    Target(f"{_VERIFICATION}/kernel.py", ("tests/test_kernel.py",)),
    Target(
        f"{_VERIFICATION}/coverage.py",
        ("tests/test_forged_certificates.py",),
        "coverage or strips",
    ),
    Target(f"{_VERIFICATION}/checker.py", _CHECKER, _OPENING),
    Target(f"{_VERIFICATION}/box_claims.py", (*_CHECKER, "tests/test_diff.py"), _CLAIMS),
    Target(f"{_VERIFICATION}/checker_claims.py", (*_CHECKER, *_CLASSES), _CLAIMS),
    Target(f"{_VERIFICATION}/checker_labels.py", (*_CHECKER, *_CLASSES), _CLAIMS),
    Target(
        f"{_VERIFICATION}/checker_float32.py", ("tests/test_float32_certificates.py",), _FLOAT32
    ),
    Target(
        f"{_VERIFICATION}/checker_rounding.py",
        ("tests/test_float32_certificates.py",),
        "derivations or rooms_hold or refusals or walk_through",
    ),
    Target(
        f"{_VERIFICATION}/rounding.py",
        ("tests/test_float32_certificates.py", "tests/test_float32.py"),
        "derivations or rooms_hold or overflow or walk_through or bounds_grow",
    ),
    Target(f"{_VERIFICATION}/classes.py", _CLASSES, "not certificates and not accepted"),
    Target(f"{_VERIFICATION}/ordered_checker.py", _ORDERED),
    Target(f"{_VERIFICATION}/ordered_checker_boxes.py", _ORDERED),
    Target(f"{_VERIFICATION}/ordered_checker_model.py", _ORDERED),
    Target(f"{_VERIFICATION}/ordered_disjoint.py", _ORDERED, "disjoint or two_boxes"),
    Target(
        f"{_VERIFICATION}/agreement_checker.py",
        ("tests/test_diff.py",),
        "false_certificates or planted or every_length or refused or claims_by_hand",
    ),
    Target(f"{_VERIFICATION}/identity.py", ("tests/test_diff.py",), "same_function or fractions"),
    Target(f"{_VERIFICATION}/checker_model.py", ("tests/test_checker_model.py", *_CLASSES)),
    Target(f"{_VERIFICATION}/intervals.py", ("tests/test_intervals.py",)),
    Target(f"{_VERIFICATION}/tables.py", _FACES, "not any_model and not verdicts"),
    Target(f"{_VERIFICATION}/faces.py", _FACES, "not any_model and not verdicts"),
    Target(f"{_VERIFICATION}/layered.py", _FACES, "not any_model and not verdicts"),
    Target(
        f"{_VERIFICATION}/cutting.py",
        ("tests/test_search_faces.py", "tests/test_search_limits.py"),
        "cut or halves",
    ),
    Target(
        f"{_VERIFICATION}/search.py", ("tests/test_search_faces.py", "tests/test_search_limits.py")
    ),
    Target(f"{_VERIFICATION}/proofs.py", (*_FACES, "tests/test_search_limits.py"), _PROOFS),
    Target("tsc_interp/training/locking.py", ("tests/test_runs.py",), "lock or written_to"),
    Target("tsc_interp/report/reach.py", ("tests/test_report_verdict.py",)),
    Target("tsc_interp/report/model_report.py", ("tests/test_report_verdict.py",)),
    Target("tsc_interp/report/markdown.py", ("tests/test_report_escaping.py",)),
    Target("tsc_interp/output/visible.py", ("tests/test_output.py",)),
    Target("tsc_interp/output/console.py", ("tests/test_output.py",)),
    Target(
        "checker/rational_checker.py",
        ("tests/test_second_checker_arithmetic.py", "tests/test_second_checker_forged.py"),
        "not slices and not 2-layer and not matters[plain]",
    ),
)
