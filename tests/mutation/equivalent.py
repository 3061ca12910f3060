# ruff: noqa: E501  -- keys name a file, a function and a mutation
"""Mutants that no test can tell from the original, each with the reason.

A name is `file::function: before -> after`, with `(#2)` for the second such place in the function;
one that ends in `*` stands for all that begin so.
"""

from __future__ import annotations

_V = "tsc_interp/verification"

EQUIVALENT: dict[str, str] = {
    f"{_V}/checker/layer_rounding.py::LayerRounding.centred: -1 -> 1": "sizes have two axes",
    f"{_V}/checker/layer_rounding.py::LayerRounding.ends: (gamma(len(self._out) + 4) * reach + len(self._out) * _TINY) * _SLACK ->*": (
        "gamma and reach carry the same slack"
    ),
    f"{_V}/checker/layer_rounding.py::LayerRounding.centred: (sizes + sizes.mean(-1, keepdims=True)) * _SLACK ->*": (
        "gamma and the sum carry the same slack"
    ),
    f"{_V}/checker/layer_rounding.py::LayerRounding.ends: -1 -> 1": "sizes have two axes",
    f"{_V}/checker/layer_rounding.py::LinearMap.__init__: config.norm_eps > LEAST_EPS ->*": (
        "squares that underflow are lost beside an epsilon of this size, too"
    ),
    **{
        f"{_V}/checker/layer_rounding.py::{place} < _LARGEST -> {place.split(': ')[1]} <= _LARGEST": (
            "a quarter of what float32 holds: a limit with room on both sides"
        )
        for place in (
            "LayerRounding.opened: sizes",
            "LayerRounding.ends: reach",
            "LinearMap.__init__: most",
            "LinearMap.off: reach",
        )
    },
    f"{_V}/checker/layer_rounding.py::LayerRounding.ends: (added + mean + drift) * _SLACK ->*": (
        "each of the three carries that slack twice"
    ),
    f"{_V}/checker/spans.py::Span.__matmul__: 1 -> 2 (#2)": "more room than is needed: looser",
    f"{_V}/checker/spans.py::activation: 0.0 -> 1.0 (#2)": "far numbers are replaced at the end",
    **{
        f"{_V}/checker/spans.py::Span.square: self.{one}": "the smaller end is zero itself then"
        for one in ("low <= 0 -> self.low < 0", "high >= 0 -> self.high > 0")
    },
    **{
        f"{_V}/checker/spans.py::{one}": "more room, cells, bits or terms than are needed"
        for one in (
            "Span.__matmul__: 8 -> 9",
            "Span.__matmul__: terms * UNIT -> terms / UNIT (#2)",
            "_table: 1 -> 2",
            "_table: 2 -> 3",
            "_table: 160 -> 161",
            "_series: 1 -> 2 (#2)",
        )
    },
    f"{_V}/checker/spans.py::activation: np.abs(x) <= reach -> np.abs(x) < reach": (
        "at the reach itself both bounds hold"
    ),
    f"{_V}/checker/spans.py::_table: 0.51 -> 1.51*": "the remainder over more than a cell: looser",
    f"{_V}/checker/attention_rounding.py::AttentionRounding._head: kernel.is_less(share, arb(1) / 4) ->*": (
        "a limit with room: every share below one has a bound"
    ),
    **{
        f"{_V}/checker/sets.py::{one}": "one state or pad more, which no edge names"
        for one in ("_spread: 1 -> 2", "Sets._on_paths: 1 -> 2", "Sets.counts: 1 -> 2")
    },
    **{
        f"{_V}/checker/sets.py::Layout.__init__: {one}": (
            "the first edge leaves state 0, so any other number before it makes its group new"
        )
        for one in ("1 -> 2", "-1 -> 1", "1 -> 2 (#2)", "-1 -> 1 (#2)")
    },
    **{
        f"{_V}/checker/sets.py::slots: {one}": "such numbers tell pairs of states apart as well"
        for one in (
            "1 -> 2",
            "stage.source * (int(stage.target.max()) + 1) + stage.target -> stage.source * (int(stage.target.max()) + 1) - stage.target",
        )
    },
    f"{_V}/checker/sets.py::_only: 1 -> 2 (#2)": "any number below all letters says: none",
    f"{_V}/checker/trellis_claims.py::Tally.error: string < self.first_wrong ->*": (
        "of equal strings either is the first"
    ),
    f"{_V}/checker/trellis_claims.py::Claim.of: 1 -> 2 (#6)": "no leaf has -1 or -2 entries",
    **{
        f"{_V}/checker/paths.py::{one}": "how many sweeps are made: every sweep gives a bound"
        for one in (
            "_Head.bound: over - mean <= _CLOSE*",
            "_Head.bound: np.abs(mean) + np.abs(over) ->*",
            "_Head.bound: _CLOSE * (np.abs(mean) + np.abs(over)) ->*",
            "_Head.bound: close |= bounds[at] < enough[at] ->*",
            "_Head.bound: bounds[at] < enough[at] ->*",
            "_Head.bound: break ->*",
            "highest: (apart < wanted).all() ->*",
        )
    },
    f"{_V}/checker/paths.py::_Head._middle: *": "a level to begin with: every level gives a bound",
    f"{_V}/checker/paths.py::_Head.bound: excess > 0 -> excess >= 0": "zero over either is zero",
    f"{_V}/checker/paths.py::_Head.bound: close | ~np.isfinite(mean) ->*": (
        "a mean is no number only where the bound is none, or the set has no path"
    ),
    f"{_V}/checker/paths.py::_Sums.sweep: 1 -> 2": "one state more at the start: no edge leaves it",
    **{
        f"{_V}/checker/paths.py::_Head.__init__: 1 -> 2 ({one})": (
            "NumPy takes every negative size for: what is left"
        )
        for one in ("#3", "#4")
    },
    f"{_V}/checker/paths.py::_best: 1 -> 2 (#3)": "one pad more, which no row names",
    f"{_V}/checker/paths.py::highest: 1 -> 2 (#2)": "two rows at a time where one was allowed",
    **{
        f"{_V}/checker/relaxation.py::{change}": "a coefficient or node, and any will do"
        for change in (
            "inverse_root: 0.0 -> 1.0 (#2)",
            "inverse_root: -2 -> 2 (#2)",
            "inverse_root: 3 -> 4",
            "inverse_root: (-2 * slope) ** (-2 / 3) - eps -> (-2 * slope) ** (-2 / 3) + eps",
            "inverse_root: slope < 0 -> slope <= 0",
            "inverse_root: 0 -> 1",
            "inverse_root: high > low -> high >= low",
            "inverse_root: -2 * slope -> -2 / slope",
            "activated: high > low -> high >= low",
            "activated: 0 -> 1",
            "activated: 0.0 -> 1.0",
            "_nodes: _NODES + 1 -> _NODES - 1",
            "_nodes: 0 -> 1",
            "_nodes: 1 -> 2 (#2)",
            "_nodes: 1 -> 2 (#3)",
            "_nodes: 1 -> 2 (#4)",
        )
    },
    f"{_V}/checker/relaxation.py::product: left.rest + right.rest - centre + Span(-apart, apart) ->*": "the interval is its own mirror image",
    f"{_V}/checker/relaxation.py::inverse_root: Span.exact(high) - Span.exact(low) ->*": "wider than it is: looser",
    f"{_V}/checker/paths.py::highest: 1 -> 2 (#3)": "of no heads there is nothing to bound",
    f"{_V}/checker/paths.py::highest: apart < wanted -> apart <= wanted": "found either way",
    f"{_V}/checker/paths.py::highest: together < apart -> together <= apart": "the same number",
    **{
        f"{_V}/checker/paths.py::_together: {change}": (
            "the level and the mass are middles, so both sides are equal but for one rounding"
        )
        for change in ("np.maximum(*", "1 -> 2 (#2)")
    },
    f"{_V}/checker/paths.py::_Head.masses: low > 0 -> low >= 0": (
        "an excess above zero over no weight is infinite: nothing is shown either way"
    ),
    f"{_V}/checker/paths.py::_Head.bound: room * (1 + self.units) -> room / (1 + self.units)": (
        "rooms carry twice what their sums round"
    ),
    f"{_V}/checker/paths.py::_Head.masses: 2 -> 3 (#3)": "more room than is needed: looser",
    **{
        f"{_V}/checker/trellis_model.py::TrellisModel.{one}": (
            "a range around zero is its own negative"
        )
        for one in (
            "gaps: reach + blur.span(*",
            "_margins: state + blur.span(*",
            "_margins: rest + Span(-off, off) ->*",
            "_ranges: ranges + blur.span(blur.along(chosen[None])) ->*",
        )
    },
    f"{_V}/checker/trellis_model.py::TrellisModel._margins: blur is not None and ends is not None ->*": (
        "there are both or neither"
    ),
    f"{_V}/checker/trellis_model.py::TrellisModel._posts: 0 -> 1": (
        "not looked at where float32 is not asked about"
    ),
    f"{_V}/checker/trellis_model.py::TrellisModel._win: winner[:, None] < np.arange(self.n_classes) -> winner[:, None] <=*": (
        "the winner itself is never one of the others"
    ),
    f"{_V}/checker/trellis.py::TrellisChecker._each: 1 -> 2": "any number below zero is no class",
    f"{_V}/checker/trellis.py::TrellisChecker._batch: 1 -> 2": (
        "two leaves of a few inputs at a time where one was allowed"
    ),
    f"{_V}/checker/trellis.py::TrellisChecker._certain: 1 -> 2": (
        "asked once more whether the label is the answer, which no wrong input is"
    ),
    f"{_V}/checker/box_claims.py::BoxClaims.letter_sets: 1 -> 2 (#2)": (
        "there is no set of more letters than the alphabet has"
    ),
    f"{_V}/checker/box_claims.py::BoxClaims._cover_counts: length - len(letters) -> length + len(letters)": (
        "the box around all strings may be larger: only strings up to the length must be covered"
    ),
    f"{_V}/checker/box_claims.py::BoxClaims._cover_counts: 1 -> 2 (#3)": (
        "the box around all strings may be larger: only strings up to the length must be covered"
    ),
    f"{_V}/checker/model.py::BoxModel._logit: 1 -> 2 (#2)": (
        "a second query of the last layer is computed, and nothing reads it"
    ),
    f"{_V}/checker/labels.py::_leader: j < i -> j <= i": "no letter is compared with itself",
    f"{_V}/checker/identity.py::exact_form: neurons.get(key, Fraction(0)) + output ->*": (
        "every output weight changes its sign, in both forms"
    ),
    f"{_V}/checker/identity.py::exact_form: 0 -> 1 (#5)": (
        "forms with no head differ from those with one in their other entries"
    ),
    f"{_V}/checker/identity.py::exact_form.cut: 1 -> 2": (
        "what the next head adds is named twice, in both forms"
    ),
    f"{_V}/bounds/supports.py::MarginSupport.combined: sign > 0 -> sign >= 0": "a sign is 1 or -1",
    f"{_V}/checker/kernel.py::_largest_mean: break -> pass": (
        "smaller values cannot raise the mean (shown in its docstring): the scan only ends later"
    ),
    f"{_V}/checker/kernel.py::_largest_mean: is_less(bound, largest) -> is_at_most(bound, largest)": (
        "where the two are equal, either is the answer"
    ),
    f"{_V}/checker/kernel.py::_compare: x < y -> x <= y": (
        "equal values are called ascending one way: the order among them changes no mean"
    ),
    f"{_V}/checker/coverage.py::_best_plane: *": (
        "which side is cut along first decides how long it takes; every side strictly inside the "
        "piece leads to the same answer, and none but those is offered"
    ),
    f"{_V}/checker/coverage.py::covered: ((bottom < high) & (low < top)).all(axis=1) ->*": (
        "boxes beside the piece are kept: none of them holds it, and their sides only cut it finer"
    ),
    f"{_V}/checker/coverage.py::covered: bottom < high -> bottom <= high": (
        "a box that only touches the piece from outside cannot hold it, and its sides do not cut it"
    ),
    f"{_V}/checker/coverage.py::covered: low < top -> low <= top": (
        "a box that only touches the piece from outside cannot hold it, and its sides do not cut it"
    ),
    f"{_V}/checker/model.py::_columns: 0 -> 1": (
        "every key has a row and all rows are of one length; there are two at least, CLS's first"
    ),
    f"{_V}/checker/budget.py::Budget.__init__: 0.0 -> 1.0": (
        "a time long past: every check sets it before anything is paid for"
    ),
    f"{_V}/checker/budget.py::Budget.__call__: monotonic() < self._until -> monotonic() <= self._until": (
        "one instant more"
    ),
    "tsc_interp/output/console.py::SafeConsole.__init__: False -> True": (
        "a second guard: text is rendered without markup whatever the console's own setting"
    ),
    "checker/rational_checker.py::Check.check_right_at_all_lengths: 0 -> 1 (#2)": (
        "both entries of this pair are the same"
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
    f"{_V}/search/proofs.py::tail_bounds: 1 + 64 * UNIT -> 1 - 64 * UNIT": (
        "a second guard: the support's own error bound has 16 · 746 units for log n, twice"
    ),
    f"{_V}/search/proofs.py::tail_bounds: np.exp(power) * (1 + 64 * UNIT) ->*": (
        "a second guard: the support's own error bound has 16 · 746 units for log n, twice"
    ),
    f"{_V}/search/proofs.py::tail_bounds: gaps < -1 -> gaps <= -1": (
        "gaps are rounded up first: one that is -1 then was below it, and N^0 = 1 bounds it"
    ),
    f"{_V}/search/proofs.py::_ChartSearch._add: at_corner.min() -> at_corner.max()": (
        "how soon a search that cannot succeed gives up; what is proved is the same"
    ),
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
