"""The README's moving picture: `python -m docs.build.animation`.

    ab, abb, abbb, ... -> logit, attention, place on the failure map -> one frame each -> SVG

Every number in it is the bundled model's. The picture is one SVG without a script: CSS shows one
frame after the other, and readers who prefer reduced motion see the last one.
"""

from __future__ import annotations

import re
from pathlib import Path

import tsc_interp as tsc
from tsc_interp.playground.mapfigure import failure_map

MODEL = "generalization-errors"
TARGET = Path(__file__).parents[1] / "images" / "flip.svg"
SECONDS_A_FRAME = 0.13
HOLD = 40
"""Frames that the last picture stays."""
PER_ROW = 23

_STYLE = """
:root{--ink:#1c2129;--soft:#5b6472;--page:#fff;--line:#d5d9de;
--a:#00835f;--b:#b58a00;--bad:#8f2d68;--good:#1f6f43}
@media (prefers-color-scheme:dark){
:root{--ink:#e6e9ee;--soft:#9aa4b2;--page:#15181d;--line:#3a414c;
--a:#2cc79a;--b:#e3b52c;--bad:#f3a3cd;--good:#6fd09a}}
text{font-family:system-ui,sans-serif;font-size:15px;fill:var(--ink)}
.page{fill:var(--page)}.soft{fill:var(--soft)}.big{font-size:19px;font-weight:700}
.mono{font-family:ui-monospace,monospace;font-size:24px;font-weight:700}
.bad{fill:var(--bad);font-weight:700}.good{fill:var(--good);font-weight:700}
.in-a{fill:var(--a)}.in-b{fill:var(--b)}.track{fill:var(--line)}
.letters{stroke:var(--b);stroke-width:12;stroke-dasharray:12 4;fill:none}
.f{opacity:0;animation:on %(total).2fs step-end infinite}
.f.last{animation-name:stay}
@keyframes on{0%%{opacity:1}%(one).4f%%{opacity:0}}
@keyframes stay{0%%{opacity:1}%(hold).4f%%{opacity:0}}
@media (prefers-reduced-motion:reduce){.f{animation:none}.f.last{opacity:1}}
"""


def main() -> None:
    TARGET.write_text(picture(), encoding="utf-8")
    print(f"{TARGET.relative_to(Path.cwd())}: {TARGET.stat().st_size:,} bytes")


def picture() -> str:
    """Return the SVG: the failure map on the left, one growing string on the right."""
    shortest = tsc.horizon(MODEL).shortest
    if shortest is None or shortest.string != f"ab{{{shortest.length - 1}}}":
        raise RuntimeError(f"the picture tells of one a among b; got {shortest}")
    times = shortest.length - 1
    model = tsc.load(MODEL)
    strings = [f"ab{{{count}}}" if count > 1 else "ab" for count in range(1, times + 1)]
    logits, cache = model.run_with_cache(strings)
    pattern = cache["pattern", 0][:, 0, 0].detach()
    outweighs = float(pattern[0, 1] / pattern[0, 2])
    frames = times - 1 + HOLD
    style = _STYLE % {
        "total": frames * SECONDS_A_FRAME,
        "one": 100 / frames,
        "hold": 100 * HOLD / frames,
    }
    drawn = "".join(
        _frame(
            count=index + 1,
            string=string,
            on_a=float(pattern[index, 1]),
            logit=float(logits[index].detach()),
            ending=_ending(outweighs, times) if index + 1 == times else "",
        )
        for index, string in enumerate(strings)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 420" role="img">'
        f"<title>One a and ever more b: the answer flips at {strings[-1]}</title>"
        f'<style>{style}{_map_style()}</style><rect class="page" width="900" height="420" rx="10"/>'
        f'<g class="tsc-map" transform="translate(0 14) scale(.97)">{_map()}</g>'
        f"{_fixed()}{drawn}</svg>\n"
    )


def _fixed() -> str:
    return (
        '<text class="soft" x="40" y="406">every ratio of the letters; '
        "striped: the model is wrong</text>"
        '<text class="big" x="455" y="52">Does the string contain an a and a b?</text>'
        '<text class="soft" x="455" y="218">head 0 reads</text>'
        '<text class="soft" x="455" y="288">logit</text>'
        '<rect class="track" x="575" y="276" width="285" height="14"/>'
        '<path d="M620 270v26" style="stroke:var(--ink);stroke-width:2"/>'
        '<text class="soft" x="596" y="314">no</text><text class="soft" x="628" y="314">yes</text>'
    )


def _frame(*, count: int, string: str, on_a: float, logit: float, ending: str) -> str:
    x, y = _place(string)
    rows = [
        f"M{479 if row == 0 else 455} {126 + 18 * row}"
        f"h{16 * min(PER_ROW, count - row * PER_ROW) - 4}"
        for row in range((count - 1) // PER_ROW + 1)
    ]
    width = 285 * on_a
    bar = 11.5 * logit
    verdict, colour = ("yes: right", "good") if logit > 0 else ("no: wrong", "bad")
    delay = (count - 1) * SECONDS_A_FRAME
    return (
        f'<g class="f{" last" if ending else ""}" style="animation-delay:{delay:.2f}s">'
        f'<g class="tsc-map" transform="translate(0 14) scale(.97)">'
        f'<circle class="you-halo" cx="{x}" cy="{y}" r="8"/>'
        f'<circle class="you-ring" cx="{x}" cy="{y}" r="8"/></g>'
        f'<text class="mono" x="455" y="94">{string}</text>'
        f'<text class="soft" x="560" y="94">one a, then {count} b</text>'
        f'<path class="in-a" d="M455 120h12v12h-12z"/><path class="letters" d="{"".join(rows)}"/>'
        f'<rect class="in-a" x="575" y="206" width="{width:.1f}" height="14"/>'
        f'<rect class="in-b" x="{575 + width:.1f}" y="206" width="{285 - width:.1f}" height="14"/>'
        f'<text x="575" y="242">a {on_a:.0%}, b {1 - on_a:.0%}</text>'
        f'<rect class="{colour}" x="{620 + min(bar, 0):.1f}" y="276" '
        f'width="{max(abs(bar), 1.5):.1f}" height="14"/>'
        f'<text x="690" y="314">{logit:+.2f}</text>'
        f'<text class="{colour}" x="760" y="314">{verdict}</text>{ending}</g>'
    )


def _ending(outweighs: float, times: int) -> str:
    return (
        f'<text x="455" y="360">One a outweighs one b {outweighs:.0f} times, '
        f"but there are {times} b.</text>"
        '<text class="bad" x="455" y="386">No shorter string is wrong: proved.</text>'
    )


def _map_style() -> str:
    found = re.search(r"<style>(.*?)</style>", failure_map(MODEL), re.DOTALL)
    assert found
    return found[1]


def _map() -> str:
    found = re.search(r"<svg[^>]*>(.*)</svg>", failure_map(MODEL), re.DOTALL)
    assert found
    return re.sub(r"<title.*?</title>", "", found[1])


def _place(string: str) -> tuple[str, str]:
    """Where the failure map marks the string."""
    marked = failure_map(MODEL, string=string)
    found = re.search(r'class="you-ring" cx="([\d.]+)" cy="([\d.]+)"', marked)
    assert found
    return found[1], found[2]


if __name__ == "__main__":
    main()
