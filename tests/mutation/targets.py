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
    "tests/verification/test_checker_claims.py",
    "tests/verification/test_checker_model.py",
    "tests/verification/test_certificates.py",
    "tests/verification/test_forged_certificates.py",
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
_CLASSES = ("tests/verification/test_classes.py",)
_FLOAT32 = (
    "accepted or field or document or real_boxes or at_once or refusals or decides or claimed "
    "or strict or an_answer"
)
_FACES = ("tests/verification/test_support_bounds.py", "tests/verification/test_search_bounds.py")
_PROOFS = (
    "proof or every_length or positive_labels or wrong_somewhere or tails or charts or "
    "bound_that_is_none or logit_of_zero or boxes_are_cut or charts_ends or corner_of_zero or "
    "sharpened"
)

_EDGES = "tests/verification/test_trusted_edges.py"
_MEMORY = "tests/verification/test_checker_memory.py"

TARGETS = (
    Target(f"{_VERIFICATION}/checker/budget.py", (_MEMORY,)),
    Target(
        f"{_VERIFICATION}/checker/coverage.py",
        ("tests/verification/test_forged_certificates.py",),
        "coverage or strips",
    ),
    Target(f"{_VERIFICATION}/checker/check.py", _CHECKER, _OPENING),
    Target(f"{_VERIFICATION}/checker/document.py", _CHECKER, _OPENING),
    Target(
        f"{_VERIFICATION}/checker/box_claims.py",
        (*_CHECKER, "tests/verification/test_diff.py"),
        _CLAIMS,
    ),
    Target(f"{_VERIFICATION}/checker/claims.py", (*_CHECKER, *_CLASSES), _CLAIMS),
    Target(f"{_VERIFICATION}/checker/labels.py", (*_CHECKER, *_CLASSES), _CLAIMS),
    Target(
        f"{_VERIFICATION}/checker/float32.py",
        ("tests/verification/test_float32_certificates.py", _EDGES),
        f"{_FLOAT32} or room",
    ),
    Target(
        f"{_VERIFICATION}/checker/rounding.py",
        ("tests/verification/test_float32_certificates.py", _EDGES),
        "derivations or rooms_hold or refusals or walk_through or room",
    ),
    Target(
        f"{_VERIFICATION}/bounds/rounding.py",
        ("tests/verification/test_float32_certificates.py", "tests/verification/test_float32.py"),
        "derivations or rooms_hold or overflow or walk_through or bounds_grow",
    ),
    *(
        Target(f"tsc_interp/trusted/{file}.py", tuple(f"tests/trusted/{t}.py" for t in tests), only)
        for file, tests, only in (
            ("balls", ("test_balls",), ""),
            ("spans", ("test_spans",), "not curvature"),
            (
                "relaxation",
                ("test_relaxation", "test_spans"),
                "relax or no_number or products or box or chord",
            ),
            ("means", ("test_means_terms", "test_means"), ""),
            ("sets", ("test_sets",), ""),
            ("trees", ("test_path_trees", "test_trees"), ""),
            ("order", ("test_keys", "test_means_terms", "test_means"), ""),
            (
                "margins",
                ("test_margins", "test_tables", "test_float_layer"),
                "margins or tie_only or prove_nothing or 256_bits0 or adversary",
            ),
            ("float_attention", ("test_float_attention", "test_float_attention_terms"), ""),
            ("float_layer", ("test_float_layer_terms", "test_float_layer"), "terms or gamma"),
            ("float32", ("test_float_norm", "test_float_attention"), ""),
            ("judge", ("test_margins", "test_tables"), "not forged"),
            ("replay_tables", ("test_table_parts", "test_tables"), "table_parts or no_field"),
            ("replay", ("test_tables",), "no_field or another or limits"),
            ("spec", ("test_spec",), ""),
        )
    ),
    Target(
        f"{_VERIFICATION}/checker/agreement.py",
        ("tests/verification/test_diff.py",),
        "false_certificates or planted or every_length or refused or claims_by_hand",
    ),
    Target(
        f"{_VERIFICATION}/checker/identity.py",
        ("tests/verification/test_diff.py", _EDGES),
        "same_function or fractions or wider_heads or neuron or adds_for_every or second_letter",
    ),
    Target(
        f"{_VERIFICATION}/checker/model.py",
        ("tests/verification/test_checker_model.py", *_CLASSES, _EDGES),
    ),
    Target(f"{_VERIFICATION}/bounds/intervals.py", ("tests/verification/test_intervals.py",)),
    Target(f"{_VERIFICATION}/bounds/tables.py", _FACES, "not any_model and not verdicts"),
    Target(
        f"{_VERIFICATION}/bounds/supports.py",
        (*_FACES, *_CLASSES),
        "not any_model and not verdicts and not certificates and not accepted",
    ),
    Target(f"{_VERIFICATION}/bounds/layered.py", _FACES, "not any_model and not verdicts"),
    Target(
        f"{_VERIFICATION}/search/cutting.py",
        ("tests/verification/test_search_supports.py", "tests/verification/test_search_limits.py"),
        "cut or halves",
    ),
    Target(
        f"{_VERIFICATION}/search/search.py",
        ("tests/verification/test_search_supports.py", "tests/verification/test_search_limits.py"),
    ),
    Target(
        f"{_VERIFICATION}/search/proofs.py",
        (*_FACES, "tests/verification/test_search_limits.py"),
        _PROOFS,
    ),
    Target(
        "tsc_interp/training/locking.py", ("tests/checkpoints/test_runs.py",), "lock or written_to"
    ),
    Target("tsc_interp/report/reach.py", ("tests/report/test_verdict.py",)),
    Target("tsc_interp/report/model_report.py", ("tests/report/test_verdict.py",)),
    Target("tsc_interp/report/markdown.py", ("tests/report/test_escaping.py",)),
    Target("tsc_interp/output/visible.py", ("tests/test_output.py",)),
    Target("tsc_interp/output/console.py", ("tests/test_output.py",)),
    Target(
        "checker/rational_checker.py",
        (
            "tests/verification/test_second_checker_arithmetic.py",
            "tests/verification/test_second_checker_forged.py",
        ),
        "not slices and not 2-layer and not matters[plain]",
    ),
)
