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

TARGETS = (
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
            ("replay_counts", ("test_replay_counts", "test_trees"), ""),
            ("counts", ("test_counts", "test_replay_counts"), ""),
            ("boxes", ("test_counts", "test_replay_counts"), ""),
            ("facts", ("test_replay_counts",), ""),
            ("language", ("test_language", "test_path_trees"), ""),
            ("budget", ("test_table_memory",), ""),
            ("spec", ("test_spec",), ""),
        )
    ),
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
        "not 2-layer and not matters",
    ),
)
