# ruff: noqa: E501  -- keys name a file, a function and a mutation
"""Mutants that no test can tell from the original, each with the reason.

A name is `file::function: before -> after`, with `(#2)` for the second such place in the function;
one that ends in `*` stands for all that begin so.
"""

from __future__ import annotations

_V, _T = "tsc_interp/verification", "tsc_interp/trusted"

EQUIVALENT: dict[str, str] = {
    f"{_T}/means.py::together: np.maximum(up(most - level), up(level - least)) ->*": (
        "the level is the middle but for one rounding, far below the slack of |level| units"
    ),
    f"{_T}/spec.py::_read: 8 -> 9 (#2)": "a header of no bytes is no JSON",
    f"{_T}/trees.py::path_leaves: *": "an estimate of bytes: any near it will do",
    f"{_T}/trees.py::_ratio: 0 < value < 1 -> 0 <= value < 1": "a cut at an end is refused, too",
    f"{_T}/language.py::unpacked: 1 -> 2": "any negative number is the size that is unknown",
    f"{_T}/language.py::inflated: 1 -> 2": "one byte more is read, and refused like the first",
    f"{_T}/language.py::read_table: letters.min() -> letters.max()": (
        "a second guard: a trellis refuses letters below zero"
    ),
    f"{_T}/spec.py::Spec.__post_init__: self.turned % 2 == 0 < self.turned <= self.d_head -> self.turned % 2 == 0 <= self.turned <=*": (
        "zero components stand for all of them, so there is always one"
    ),
    f"{_V}/bounds/supports.py::MarginSupport.combined: sign > 0 -> sign >= 0": "a sign is 1 or -1",
    "tsc_interp/output/console.py::SafeConsole.__init__: False -> True": (
        "a second guard: text is rendered without markup whatever the console's own setting"
    ),
    f"{_V}/search/search.py::search_support: len(batch) < _BATCH -> len(batch) <= _BATCH": (
        "one box more at a time: the same boxes in the same order"
    ),
    f"{_V}/bounds/intervals.py::square: high >= 0 -> high > 0": (
        "where one end is zero, the smaller square is zero either way"
    ),
    f"{_V}/bounds/intervals.py::square: low <= 0 -> low < 0": (
        "where one end is zero, the smaller square is zero either way"
    ),
    f"{_V}/bounds/intervals.py::largest_sorted_mean: 1 -> 2 (#6)": (
        "one candidate more, with light + heavy as weights: in the middle of their box, so a mean "
        "that is no larger than the best corner's"
    ),
    f"{_V}/search/cutting.py::halve_counts: top - 1 -> top + 1": (
        "the middle of two numbers is below the larger one unless rounding lifts it; up to 10^9 it "
        "does not"
    ),
    f"{_V}/search/cutting.py::_middle: bottom < middle < top -> bottom <= middle < top": (
        "a middle that is the bottom is replaced by the one halfway, or there is no number between"
    ),
    f"{_V}/search/cutting.py::_middle: middle > 0.001 -> middle >= 0.001": (
        "no middle is 0.001, which is no float64 of few bits; either rounding keeps it inside"
    ),
    f"{_V}/bounds/supports.py::count_box_bounds: -1 -> 1*": "counts have two axes, so the last is the second",
    f"{_V}/bounds/supports.py::_with_cls: -1 -> 1*": "counts have two axes, so the last is the second",
    f"{_V}/bounds/supports.py::ZeroSupport.logits: 1.0 -> 2.0": "any number below zero says the same",
    f"{_V}/bounds/tables.py::Tables._compute: 1 -> 2*": (
        "the columns of a table without rows, for models without an MLP"
    ),
    "tsc_interp/report/model_report.py::ModelCard._severity: 0 -> 1 (#2)": (
        "what is proved without a proof: 0 or 1, it is below the length of test strings"
    ),
}


def reason(name: str) -> str | None:
    """Why a survivor of this name is no gap in the tests, or None."""
    if name in EQUIVALENT:
        return EQUIVALENT[name]
    starts = (key[:-1] for key in EQUIVALENT if key.endswith("*"))
    return next((EQUIVALENT[f"{start}*"] for start in starts if name.startswith(start)), None)
