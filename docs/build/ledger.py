"""List every quantitative sentence of the README and the pages with the source behind it.

    python -m docs.build.ledger             every sentence: where it stands, its source, its words
    python -m docs.build.ledger --missing   only those without a source, exit code 1

A sentence is quantitative if it holds a measured-looking number: a percentage, a decimal, a number
with thousands, "N of M", or a number with a unit of time, memory or speed. Code, formulas and
headings do not count, nor do versions, dates and arXiv numbers.

The source is the nearest of these:

1. the entry of `docs/figures.toml` whose phrase the sentence holds;
2. a command or stored file in code (`tsc-interp ...`, `python -m ...`, `make ...`,
   `studies/results/...`) in the sentence, else in its block (paragraph, list item or table row);
3. anywhere in the section: a command as above, an include of what the build runs, a block of code
   that the tests run.

An entry is also how a definition, a limit of the software or a quotation says what it is.

Example:
    >>> page = "# T\\n\\n`make bench` takes 3.5 s.\\n\\n## Other\\n\\nIt holds for 12 %.\\n"
    >>> [(one.text, one.source) for one in sentences("x.md", page)]
    [('`make bench` takes 3.5 s.', 'make bench'), ('It holds for 12 %.', None)]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from docs.build.stored import sources

ROOT = Path(__file__).resolve().parents[2]

_QUANTITY = re.compile(
    r"\d\s?%|\d\.\d|\d,\d{3}\b|\b\d+ of (?:the |these |all )?\d"
    r"|\b\d+ (?:s|ms|µs|seconds?|minutes?|hours?|kB|MB|GB|times)\b"
)
_NOT_MEASURED = re.compile(
    r"\$[^$]*\$|`[^`]*`|\]\([^)]*\)|<!--.*?-->|<[^>]*>|\b\d{4}\.\d{5}\b|\b6\.7900\b"
    r"|\b(?:3\.9|4\.3)(?:'s)?\b"
    r"|(?:TransformerLens|Python|PyTorch|version|torch)\s+[\d.x]+\+?(?: (?:and|or) [\d.x]+)?"
    r"|\b\d\d? (?:January|February|March|April|May|June|July|August|September|October|November"
    r"|December) \d{4}",
    re.DOTALL,
)
_COMMAND = re.compile(
    r"(?<!`)`((?:OMP_NUM_THREADS=1 )?(?:tsc-interp|python|make) [^`]*"
    r"|(?:studies/results|studies/theory|examples)/[^`]*)`(?!`)"
)
_INCLUDE = re.compile(r'^\s*--8<-- "((?:docs/generated|studies|examples)/[^"]+)"', re.MULTILINE)
_BLOCK = re.compile(
    r"^```bash[^\n]*\n((?:tsc-interp|python|make) [^\n]+)\n"
    r"|^```python[^\n]*\n(?!--8<--)([^\n]+)\n",
    re.MULTILINE,
)
_FENCE = re.compile(r"^( *)```.*?^\1```[^\n]*$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)
_NEW_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) ?)")
_END = re.compile(r"(?<=[.?!:;])\s+(?=[A-Z*`(\[])")


@dataclass(frozen=True)
class Sentence:
    """A quantitative sentence, and what stands behind it."""

    page: str
    line: int
    text: str
    source: str | None


def sentences(page: str, text: str, known: Mapping[str, str] | None = None) -> Iterator[Sentence]:
    """Yield the quantitative sentences of a page, in order.

    Args:
        page: The page's name, for the result.
        text: Its Markdown.
        known: Phrases and their sources.
    """
    for start, section in _sections(text):
        behind = _first(section)
        prose = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), section)
        at = 0
        for block in _NEW_BLOCK.split(prose):
            at = prose.index(block, at)
            line = text.count("\n", 0, start) + prose.count("\n", 0, at) + 1
            for sentence in _END.split(block):
                if _QUANTITY.search(_NOT_MEASURED.sub(" ", sentence)):
                    said = " ".join(re.sub(r"<!--.*?-->", "", sentence).split())
                    entry = next((s for p, s in (known or {}).items() if p in said), None)
                    source = entry or _first(sentence) or _first(block) or behind
                    yield Sentence(page, line, said, source)


def _blank(match: re.Match[str]) -> str:
    """As many characters, so that places stay the same."""
    return re.sub(r"[^\n]", " ", match[0])


def _sections(text: str) -> Iterator[tuple[int, str]]:
    """(where it starts, its text without its heading)."""
    ends = [(m.start(), m.end()) for m in _HEADING.finditer(_FENCE.sub(_blank, text))]
    starts = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    for start, stop in zip(starts, stops, strict=True):
        yield start, text[start:stop]


def _first(text: str) -> str | None:
    """The first source named in a piece of a page, by the first kind of naming that is there."""
    for kind in (_COMMAND, _INCLUDE, _BLOCK):
        if found := kind.search(text):
            named = next(part for part in found.groups() if part is not None)
            return " ".join(named.split())
    return None


def pages() -> list[Path]:
    """Return the README, the benchmarks' page and all pages of the site written by hand."""
    site = ROOT / "docs" / "pages"
    written = [path for path in site.rglob("*.md") if "generated" not in path.parts]
    return [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted(written)]


def ledger() -> list[Sentence]:
    """Return the quantitative sentences of all pages."""
    known, found = sources(), []
    for path in pages():
        page = path.relative_to(ROOT).as_posix()
        found += sentences(page, path.read_text(encoding="utf-8"), known.get(page))
    return found


def main(arguments: list[str]) -> int:
    """Print the ledger; return 1 if a sentence has no source."""
    found = ledger()
    missing = [one for one in found if one.source is None]
    for one in missing if "--missing" in arguments else found:
        print(f"{one.page}:{one.line}\t{one.source or 'NO SOURCE'}\t{one.text}")
    print(f"{len(found)} sentences, {len(missing)} without a source", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
