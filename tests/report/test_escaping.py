"""A model's name, its metadata and a probe's words are text in every form of a report."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
from html.parser import HTMLParser

import markdown
import pytest
from markdown_it import MarkdownIt

import tsc_interp as tsc
from tests.fuzz.names import HOSTILE
from tsc_interp.output.visible import visible
from tsc_interp.report import Report
from tsc_interp.report.commands import command, python
from tsc_interp.report.content import anchor
from tsc_interp.report.markdown import _table, plain, prose, render_markdown
from tsc_interp.results.base import Table

# Everything a renderer may have switched on, among them attributes in braces and raw HTML.
EXTENSIONS = ["extra", "attr_list", "tables", "fenced_code", "sane_lists", "admonition", "toc"]
RENDERERS = {
    "markdown": lambda text: markdown.markdown(text),
    "markdown extra": lambda text: markdown.markdown(text, extensions=EXTENSIONS),
    "commonmark": lambda text: MarkdownIt("commonmark").render(text),
    "github-like": lambda text: MarkdownIt("commonmark", {"html": True}).enable(
        ["table", "strikethrough"]
    ).render(text),
}  # fmt: skip
OURS = {"h1", "h2", "h3", "ul", "li", "strong", "em", "p", "code", "a", "pre"} | {
    "table", "thead", "tbody", "tr", "th", "td"}  # fmt: skip


class Page(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def model() -> tsc.report.ModelReport:
    return tsc.analyze("walkthrough", ["ab"], probes=["trace"]).models[0]


@pytest.fixture(scope="module", autouse=True)
def one_figure(model):
    """Drawn once, not again for each name."""
    drawn = list(model.sections["trace"].figures[:1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tsc_interp.probes.registry.Probe.figures", lambda self, result: drawn)
        yield


@pytest.fixture(scope="module")
def quiet(model, one_figure) -> str:
    """The page under a name that asks for nothing."""
    return renamed(model, "quiet").to_html(plotlyjs="cdn")


def renamed(model: tsc.report.ModelReport, name: str) -> Report:
    card = dataclasses.replace(
        model.card, name=name, source=f"{name}.safetensors", provenance={name: {name: name}}
    )
    bare = dataclasses.replace(model, card=card, checkpoint=None)
    return Report((dataclasses.replace(bare, not_run={"cone": f"because of {name}"}),))


def markdown_is_ours(report: Report, name: str) -> None:
    text = report.to_markdown()
    for renderer, render in RENDERERS.items():
        page = Page(render(text))
        assert {tag for tag, _ in page.tags} <= OURS, renderer
        for _, attributes in page.tags:
            assert set(attributes) <= {"href", "id", "class", "style"}, renderer
            assert (attributes.get("href") or "index.html#").startswith("index.html#")
            assert (attributes.get("style") or "text-align").startswith("text-align")
        assert " ".join(visible(name).split()) in " ".join(page.text.split()), renderer


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_holds_no_tag_but_ours(name, model):
    markdown_is_ours(renamed(model, name), name)


def html_is_ours(quiet: str, report: Report, name: str) -> None:
    """The same tags with the same attributes as under a name that asks for nothing."""
    page = Page(report.to_html(plotlyjs="cdn"))
    # Between backticks stands code, in a name as well; it is a tag of ours without attributes.
    shown, expected = (
        [
            (tag, set(attributes))
            for tag, attributes in where.tags
            if (tag, attributes) != ("code", {})
        ]
        for where in (page, Page(quiet))
    )
    assert shown == expected
    assert visible(name) in page.text


@pytest.mark.parametrize("name", HOSTILE)
def test_html_holds_no_tag_but_ours(name, model, quiet):
    html_is_ours(quiet, renamed(model, name), name)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("text", [
    "`aac` is <b>right</b>", "odd ` backtick <b>", "`a`{ onclick=alert(1) }", "``", "a `b` c `",
])  # fmt: skip
def test_a_sentence_keeps_its_code_and_nothing_else(text, renderer):
    page = Page(RENDERERS[renderer](f"# {prose(text)}\n\n- {prose(text)}\n"))
    assert {tag for tag, _ in page.tags} <= {"h1", "ul", "li", "code", "p"}
    assert all(set(attributes) <= {"id"} for _, attributes in page.tags)


def test_plain_text_stays_readable():
    assert plain("ab{100}c{55}: W_Q is 1.5, -2") == "ab{100}c{55}: W_Q is 1.5, -2"
    assert plain("<a|b>_x_") == "&#60;a&#124;b&#62;&#95;x&#95;"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a `b` c", "a `b` c"),
        ("`b`", "`b`"),
        ("odd ` one", "odd &#96; one"),
        ("`a` and ` one", "`a` and &#96; one"),
        ("``", ""),
        ("`<`<", "&#60;&#60;"),
        ("*x*", "&#42;x&#42;"),
    ],
)
def test_sentences_are_written(text, written):
    assert prose(text) == written


def test_numbers_stand_to_the_right():
    table = Table(title="t", columns=("n", "name|s", "mixed"), rows=((1, "x", 1), (2.5, "y", "z")))
    assert _table(table) == [
        "| n | name&#124;s | mixed |",
        "| ---: | --- | --- |",
        "| 1 | x | 1 |",
        "| 2.5000 | y | z |",
    ]


def test_two_models_have_headings_and_anchors_of_their_own(model):
    """Each figure leads to the page."""
    one, two = renamed(model, "first").models[0], renamed(model, "second").models[0]
    (figure,) = model.sections["trace"].figures[:1]
    keys = [f"trace-{figure.name}", f"trace-{figure.name}-2"]
    assert [anchor(index, "trace", figure.name) for index in (0, 1)] == keys
    text = render_markdown(Report((one, two))).splitlines()
    for heading in ("## first", "## second", "### first", "### second"):
        assert text.count(heading) == 1
    links = [f"[Figure: {plain(figure.title)}](index.html#{key}). {prose(figure.alt)}"
             for key in keys]  # fmt: skip
    assert set(links) <= set(text)
    alone = render_markdown(Report((one,))).splitlines()
    assert not [line for line in alone if line in ("## first", "### first")]
    assert links[0] in alone
    assert alone[0] == "<!-- made by tsc-interp -->"
    assert alone[1].startswith("# ")
    assert f"- *cone* was not run: {prose('because of first')}" in alone
    assert alone.count("In a shell:") == alone.count("In Python:") == 1
    assert text.count("In a shell:") == 1
    # A probe that only one of them was asked has one section.
    less = dataclasses.replace(two, results=())
    some = render_markdown(Report((one, less))).splitlines()
    assert some.count("### first") == 1
    assert "### second" not in some


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\ud800" not in name])
def test_the_command_to_paste_names_the_very_same_file(name, model):
    report = renamed(model, name)
    line = command(report)
    assert line.isprintable()
    assert "`" not in line
    script = f"set -- {line}\nprintf '%s' \"$4\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode("utf-8", "surrogateescape") == f"{name}.safetensors"
    if name.isprintable() and "`" not in name:
        assert shlex.split(line)[3] == f"{name}.safetensors"
    lines = python(report, "trace").splitlines()
    assert all(line.isprintable() for line in lines)
    (call,) = (line for line in lines if "tsc.analyze(" in line)
    calls = {"tsc": type("", (), {"analyze": staticmethod(lambda where, *_, **__: where)})}
    exec(f"strings = []\n{call}", calls)
    assert calls["report"] == f"{name}.safetensors"
