"""What leaves the program: text without control, numbers in JSON, tables that fit."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import math
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.control import Control
from rich.text import Text

import tsc_interp as tsc
from studies.constructed import carry_adder
from tests.fuzz.names import HOSTILE
from tsc_interp import telling
from tsc_interp.cli.common import live_bar
from tsc_interp.output.console import SafeConsole
from tsc_interp.output.json_form import json_number, to_json
from tsc_interp.output.numbers import Share, percent, share
from tsc_interp.output.table import print_table
from tsc_interp.output.visible import visible, write_everything


def console(width: int | None = None) -> SafeConsole:
    """A terminal that wide, or a pipe."""
    options = {} if width is None else {"width": width}
    return SafeConsole(file=io.StringIO(), color_system=None, **options)


# -- text ------------------------------------------------------------------------------------


@given(st.text(st.characters()))
def test_visible_text_holds_nothing_that_controls(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    shown.encode("utf-8")
    if text.isprintable():
        assert shown == text


def test_visible_writes_what_python_would() -> None:
    assert visible("\x1b[31m\n\u202e\udcff\x7f[/x]") == "\\x1b[31m\\n\\u202e\\udcff\\x7f[/x]"
    assert visible("a\nb\tc", keep="\n") == "a\nb\\tc"
    assert visible(12) == "12"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_console_prints_names_as_they_are(name: str) -> None:
    pipe = console()
    pipe.print(name)
    pipe.print(Text(name.expandtabs()))  # ready-made, so it never met `render_str`
    print_table(pipe, (name, name), [(name, name)], title=name)
    shown = pipe.file.getvalue()
    assert shown.replace("\n", "").isprintable()
    assert visible(name) in shown
    assert visible(name, keep="\n") in shown


def test_a_console_reads_no_markup_emoji_or_numbers_out_of_text() -> None:
    """Not even when asked to: colours would be escape codes in what was printed."""
    where = SafeConsole(file=io.StringIO(), force_terminal=True, color_system="truecolor")
    where.print("[bold]12.5[/bold] :smile: https://example.org 'text' True", style=None)
    assert where.file.getvalue() == "[bold]12.5[/bold] :smile: https://example.org 'text' True\n"


def test_colours_that_we_ask_for_survive_the_defence() -> None:
    """A control segment of Rich's own is not text of somebody's."""
    where = SafeConsole(file=io.StringIO(), force_terminal=True, color_system="standard")
    where.print(Control.home(), end="")
    where.print(Text("bad\x1b[2J", style="red"))
    assert where.file.getvalue() == "\x1b[H\x1b[31mbad\\x1b[2J\x1b[0m\n"


def test_an_ascii_terminal_gets_something_legible() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write_everything(stream)
    stream.write("2 × 3 – “∞” 日 \udcff")
    stream.flush()
    assert raw.getvalue() == b'2 x 3 - "inf" \\u65e5 \\udcff'


# -- numbers ---------------------------------------------------------------------------------

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(documents)
def test_every_document_is_strict_ascii_json(document: object) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = to_json(document)
    json.loads(text, parse_constant=refuse)
    assert text.isascii()


@given(st.floats())
def test_numbers_come_back_as_they_were(value: float) -> None:
    back = float(json.loads(to_json(value)))
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_there_is_one_form_for_what_json_lacks() -> None:
    forms = [json_number(x) for x in (math.nan, math.inf, -math.inf, -0.0)]
    assert forms == ["NaN", "Infinity", "-Infinity", -0.0]


# -- tables ----------------------------------------------------------------------------------

numbers = st.integers(-(10**12), 10**12).map(lambda n: f"{n:,}") | st.floats(
    allow_nan=False, allow_infinity=False, width=32
).map(lambda x: f"{x:.4e}")


@given(
    st.integers(30, 130) | st.none(),
    st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n),
                                                 min_size=1, max_size=5)),
)  # fmt: skip
def test_numbers_are_never_split(width: int | None, rows: list[list[str]]) -> None:
    where = console(width)
    columns = [f"a longer heading {index}" for index in range(len(rows[0]))]
    print_table(where, columns, rows, title="numbers", right=range(len(columns)))
    shown = where.file.getvalue()
    found = re.findall(r"-?\d[\d,.e+-]*", shown)
    for number in (cell for row in rows for cell in row):
        assert number in found
    if width is not None:
        assert max(map(len, shown.splitlines())) <= width


def test_a_pipe_gets_a_line_per_row_without_a_frame() -> None:
    pipe = console()
    print_table(pipe, ("name", "size"), [("a", "1"), ("b" * 200, "1,000")], right=[1], title="t")
    assert pipe.file.getvalue().splitlines() == [
        "t",
        f"{'name':<200}   size",
        f"{'a':<200}      1",
        f"{'b' * 200}  1,000",
    ]


def test_what_does_not_fit_beside_each_other_stands_below() -> None:
    narrow = console(34)
    rows = [("many-heads", "1,184", "sixteen_heads_of_size_one"), ("w", "36", "one")]
    print_table(narrow, ("name", "parameters", "trained as"), rows, right=[1])
    assert narrow.file.getvalue().splitlines() == [
        "many-heads",
        "  parameters: 1,184",
        "  trained as:                     ",
        "  sixteen_heads_of_size_one       ",
        "w",
        "  parameters: 36   trained as: one",
    ]


def test_a_live_bar_counts_on_a_terminal_and_is_none_elsewhere() -> None:
    written = io.StringIO()
    shown = Console(file=written, force_terminal=True, width=80)
    with live_bar(shown, "runs") as update:
        assert update is not None
        update("starting", total=3)
        update("seed 7", advance=1)
    assert "1/3" in written.getvalue()
    assert "runs, seed 7" in re.sub("\x1b\\[[0-9;]*m", "", written.getvalue())
    with live_bar(Console(file=io.StringIO()), "runs") as update:
        assert update is None


def test_shares_are_written_shortly_and_never_rounded_to_all_or_nothing() -> None:
    assert share(Fraction(1, 32)) == "0.03125"
    assert share(Fraction(1, 10**200)) == "1.00·10⁻²⁰⁰"
    assert share(Fraction(3, 3**3001)) == "4.33·10⁻¹⁴³²"
    assert share(1 - Fraction(1, 10**200)) == "1 − 1.00·10⁻²⁰⁰"
    assert (share(Fraction(0)), share(Fraction(1))) == ("0", "1")
    assert repr(Share(2, 3)) == "0.6667"
    assert 1 - Share(2, 3) == Fraction(1, 3)
    assert [percent(v) for v in (0.999949, 0.99996, 1.0)] == ["99.99%", "over 99.99%", "100.00%"]


def test_a_verdict_and_a_checkpoint_print_what_a_reader_can_read() -> None:
    verdict = tsc.verify("generalization-errors", 200)
    assert str(verdict.error_rate) == "8.03·10⁻³⁴"
    assert verdict.accuracy == 1 - verdict.error_rate
    assert len(repr(verdict.accuracy)) < 20
    checkpoint = tsc.load("walkthrough").to_checkpoint()
    assert repr(checkpoint) == "<Checkpoint: walkthrough, contains a and b?, 36 parameters>"
    assert "embed.W_E" in checkpoint._repr_html_()


@pytest.mark.parametrize("call", [
    lambda told: tsc.verify("walkthrough", 20, progress=told),
    lambda told: tsc.horizon("generalization-errors", limit=80, progress=told),
    lambda told: tsc.certify("walkthrough", limit=20, progress=told),
    lambda told: tsc.diff("walkthrough", "attend-cls", max_length=5, limit=9, progress=told),
    lambda told: tsc.falsify("generalization-errors", tries=0, progress=told,
                             frame="[CLS] x{66..68}; x=2..4; CLS=0; read=0"),
    lambda told: tsc.analyze("walkthrough", "ab", probes="trace", progress=told),
])  # fmt: skip
def test_long_calls_say_what_they_do(
    call: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`progress=True` prints lines on standard error, and nothing without it."""
    monkeypatch.setattr(telling, "_SECONDS", (0.0, 0.0))
    call(None)
    assert capsys.readouterr() == ("", "")
    call(True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") >= 1


def test_a_certificate_about_order_says_its_steps() -> None:
    said: list[str] = []
    tsc.certify(carry_adder(2, base=3), progress=said.append)
    assert any(doing.startswith("searching: ") for doing in said)
    assert "deriving part 3 of 3" in said


def test_signatures_name_no_address() -> None:
    for name in tsc.__all__:
        if callable(getattr(tsc, name)):
            with contextlib.suppress(ValueError):
                assert " at 0x" not in str(inspect.signature(getattr(tsc, name))), name
