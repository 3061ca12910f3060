"""The documentation cannot rot: its blocks run, its includes exist, it leaves nothing out."""

from __future__ import annotations

import contextlib
import io
import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tsc_interp
from docs.build.check_site import problems
from docs.build.cli_reference import cli_reference, commands
from docs.build.commands import COMMANDS
from docs.build.scripts import scripts
from docs.build.sections import inside, pieces
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli import main
from tsc_interp.laboratories.registry import LABORATORIES
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.probes.registry import PROBES

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "pages"
SOURCES = sorted(
    path for path in PAGES.rglob("*.md") if "generated" not in path.relative_to(PAGES).parts
)
WRITTEN = [ROOT / "README.md", *SOURCES]

_BLOCK = re.compile(
    r"(?:<!-- (?P<remark>[^>]+) -->\n)?^```(?P<kind>bash|python)[^\n]*\n(?P<body>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
_INCLUDE = re.compile(r'^\s*--8<-- "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Block:
    kind: str
    body: str
    remark: str
    """`not run: REASON` or `exits with N`, from a comment right above the block."""


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [
        Block(match["kind"], match["body"], match["remark"] or "")
        for match in found
        if not _INCLUDE.fullmatch(match["body"].strip())
    ]


def _with_blocks() -> Iterator[object]:
    for page in WRITTEN:
        if blocks(page):
            yield pytest.param(page, id=page.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("page", _with_blocks())
def test_blocks_run(page: Path) -> None:
    """In order, in one directory and one namespace per page, as a reader would."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    with inside(), contextlib.redirect_stdout(io.StringIO()):
        for block in blocks(page):
            if block.remark.startswith("not run: "):
                continue
            if block.kind == "python":
                code = compile(block.body, str(page), "exec", dont_inherit=True)
                exec(code, namespace)
            else:
                _run_commands(block)


def _run_commands(block: Block) -> None:
    lines = block.body.replace("\\\n", " ").splitlines()
    expected = int(block.remark.removeprefix("exits with ") or 0)
    for line in lines:
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "python" and words[1].endswith(".py"):
            # Examples and checks have a test of their own.
            assert (ROOT / words[1]).is_file(), line
        elif words[0] == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert set(words[1:]) <= set(targets), line
        else:
            assert words[0] == "tsc-interp", f"cannot run {line!r}: say why in a remark"
            assert main(words[1:]) == expected, line


def test_a_reason_is_given_for_every_block_that_is_not_run() -> None:
    for page in WRITTEN:
        for block in blocks(page):
            assert re.fullmatch(r"|exits with \d|not run: .{8,}", block.remark), (page, block)


def test_includes_exist() -> None:
    """Code by its section, output and figures by what the build will write."""
    for page in SOURCES:
        for target in _INCLUDE.findall(page.read_text(encoding="utf-8")):
            path, _, section = target.partition(":")
            if not path.startswith("docs/generated/"):
                file = ROOT / path
                assert file.is_file(), (page, target)
                if section:
                    assert section in dict(pieces(file.read_text())), (page, target)
            elif path.endswith(".txt"):
                assert _will_be_written(path.removeprefix("docs/generated/")), (page, target)


def _will_be_written(path: str) -> bool:
    kind, _, rest = path.partition("/")
    stem = rest.removesuffix(".txt")
    if kind == "commands":
        return stem in COMMANDS
    if kind == "notebooks":
        return (ROOT / "examples" / f"{stem}.ipynb").is_file()
    if kind == "probes":
        return stem in {"index", *(probe.name for probe in PROBES)}
    if kind == "laboratories":
        return stem in {"index", *(one.name for one in LABORATORIES)}
    if kind in ("examples", "theory", "studies"):
        script, section = stem.split("/")
        source = scripts()[f"{kind}/{script}"].read_text()
        return section == "all" or section in dict(pieces(source))
    return path in ("cli.txt", "trusted.txt")


def test_nothing_is_left_out() -> None:
    """Every probe has a page, every public name is in the reference, every page has a way in."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    reached = [page for page in SOURCES if page.relative_to(PAGES).as_posix() in menu]
    for page in reached:  # grows while it is read
        text = page.read_text(encoding="utf-8")
        linked = {(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+\.md)", text)}
        for kind in ("probes", "laboratories"):  # their lists are made with the site
            if f"docs/generated/{kind}/index.txt" in text:
                linked |= set((PAGES / kind).glob("*.md"))
        reached += sorted(linked.intersection(SOURCES) - set(reached))
    assert set(reached) == set(SOURCES)
    for probe in PROBES:
        assert (PAGES / "probes" / f"{probe.name}.md").is_file(), probe.name
    topics = sorted((PAGES / "reference").glob("*.md"))
    reference = "\n".join(page.read_text(encoding="utf-8") for page in topics)
    for name in set(tsc_interp._PUBLIC) - {"__version__"}:
        documented = re.search(rf"^::: tsc_interp\..*\b{name}$", reference, re.MULTILINE)
        whole_module = name == "TscError" and "::: tsc_interp.errors" in reference
        assert documented or whole_module, name


def test_command_line_reference_has_every_option() -> None:
    text = cli_reference()
    for name, command in commands().items():
        assert f"## {name}\n" in text
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert parameter.opts[0] in text, (name, parameter.opts)


def test_site_check_sees_what_is_wrong(tmp_path: Path) -> None:
    assert "holds no site" in next(problems(tmp_path))
    plotly = "/**\n* plotly.js v9\n*/"
    (tmp_path / "plotly.min.js").write_text(plotly)
    (tmp_path / "index.html").write_text('<script src="plotly.min.js"></script>')
    assert not list(problems(tmp_path))
    bad = {
        "plotly.js is there 2 times": f"<script>{plotly}</script>",
        "from the network": '<script async src="https://example.org/x.js"></script>',
        "weighs": "x" * 1_200_001,
        "there is no such file": '<a href="../nowhere.html">',
        "there is no such place": '<h1 id="here"></h1><a href="#here"><a href="index.html#there">',
        "from the root of a host": '<link href="/assets/style.css">',
    }
    for words, content in bad.items():
        (tmp_path / "page.html").write_text(content)
        assert words in " ".join(problems(tmp_path))


def _numbers() -> Iterator[tuple[str, str, object, object]]:
    """Page, words in it, what they claim, and the same computed now."""
    wrong = load_checkpoint("generalization-errors")
    best = load_checkpoint("walkthrough")
    horizon = tsc_interp.horizon(wrong).length
    yield "chapters/3.md", f"exact horizon is {horizon} letters", 66, horizon
    _, cache = HookedClassifier.from_checkpoint(wrong).run_with_cache("abc")
    scores = cache["blocks.0.attn.hook_attn_scores"][0, 0, 0]
    halved = math.exp(float(scores[1] - scores[2]))
    yield "chapters/3.md", "about forty `b`s take half", True, 38 < halved < 44
    yield (
        "chapters/4.md",
        "fails, a little\nbeyond two thousand",
        True,
        (2000 < (tsc_interp.horizon(best).length or 0) < 2400),
    )
    yield "chapters/4.md", "all 19,683 strings of nine letters", 19_683, 3**9
    yield "chapters/5.md", "1,373,700 count vectors", 1_373_700, math.comb(203, 3) - 1
    matrix = wrong.provenance["confusion_matrix"]
    yield (
        "chapters/5.md",
        "wrong on 697 of 9,984",
        (697, 9984),
        (
            matrix[0][1] + matrix[1][0],
            sum(map(sum, matrix)),
        ),
    )
    yield "probes/margin.md", "e³·⁷ ≈ 40", True, 38 < math.exp(3.7) < 42


def test_numbers_in_the_prose_are_true() -> None:
    """Most numbers stand in generated output; those that do not are computed here again."""
    for page, words, claimed, measured in _numbers():
        text = " ".join((PAGES / page).read_text(encoding="utf-8").split())
        assert " ".join(words.split()) in text, (page, words)
        assert claimed == measured, (page, words)


def test_formulas_become_mathml_and_code_stays_code():
    from xml.etree import ElementTree

    from markdown import markdown

    def page(text: str) -> str:
        return markdown(text, extensions=["docs.build.formulas", "md_in_html"])

    inline = page(r"so $e^{s_a} < 1$ and `$x$` costs $5 or $6")
    assert "<msup>" in inline
    assert "<code>$x$</code> costs $5 or $6" in inline
    assert '<span class="formula" tabindex="0"><math' in page(r"$$\frac{1}{n}$$")
    namespace = "{http://www.w3.org/1998/Math/MathML}"
    for path in sorted((ROOT / "docs" / "pages" / "theory").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        assert "<sub>" not in text, path
        for formula in re.findall(r"<math.*?</math>", page(text), flags=re.DOTALL):
            # Commands that are not known would stand there as text.
            words = [e.text or "" for e in ElementTree.fromstring(formula).iter() if e.tag]
            assert not any("\\" in word for word in words), (path, formula)
            assert ElementTree.fromstring(formula).tag == f"{namespace}math"
