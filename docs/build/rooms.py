"""The picture of the rooms in CONTRIBUTING: `python -m docs.build.rooms` draws it again.

Rooms stand in the order that tests/test_rooms.py holds. A line goes from a room to one that it
imports from, unless one between them says so already; the more imports, the thicker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tests.test_rooms import PACKAGE, ROOMS, VERIFICATION, imports, part, room

ROOT = PACKAGE.parent
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
STEP, WIDTH = 26, 150

Arrows = Counter[tuple[str, str]]

_STYLE = (
    "text{font:13px sans-serif;fill:#334}.t{font-weight:bold}rect{fill:#eef2f8;stroke:#8aa}"
    "path{fill:none;stroke:#47a;opacity:.6}rect.c{fill:#fdf3d8;stroke:#b80}"
)


def draw() -> str:
    """The package and, beside it, the rooms of verification, as one SVG."""
    outer: Arrows = Counter()
    inner: Arrows = Counter()
    for path in PACKAGE.rglob("*.py"):
        if path in (PACKAGE / "__init__.py", PACKAGE / "verification" / "__init__.py"):
            continue  # they name everything and load nothing
        for module, other in imports(path):
            outer[room(module), room(other)] += 1
            if room(module) == room(other) == "verification":
                inner[part(module), part(other)] += 1
    names = [name for name in ROOMS if any(name in pair for pair in outer)]
    body = _diagram("tsc_interp", names, outer, 10)
    body += _diagram("tsc_interp/verification", (*VERIFICATION, "top"), inner, 480)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {40 + STEP * len(names)}" '
        'role="img" aria-label="The rooms of the package, and what imports what">'
        f"<style>{_STYLE}</style>{body}</svg>\n"
    )


def _diagram(title: str, names: Sequence[str], arrows: Arrows, x: int) -> str:
    place = {name: 40 + STEP * i for i, name in enumerate(names)}
    drawn = [f'<text class="t" x="{x}" y="24">{escape(title)}</text>']
    back = {pair for pair in arrows if place[pair[0]] < place[pair[1]]}  # known exceptions
    for start, end in sorted(_direct(set(arrows) - back) | back):
        a, b, edge = place[start] + 10, place[end] + 10, x + WIDTH
        reach, count = edge + 12 + abs(a - b) * 0.6, arrows[start, end]
        drawn.append(
            f'<path d="M{edge} {a}C{reach:.0f} {a} {reach:.0f} {b} {edge} {b}" '
            f'stroke-width="{0.8 + min(count, 60) ** 0.5 / 2:.1f}">'
            f"<title>{start} imports from {end}: {count}</title></path>"
        )
    for name in names:
        trusted = ' class="c"' if name == "checker" else ""
        drawn.append(
            f'<rect{trusted} x="{x}" y="{place[name]}" width="{WIDTH}" height="20" rx="4"/>'
            f'<text x="{x + 8}" y="{place[name] + 15}">{escape(name)}</text>'
        )
    return "".join(drawn)


def _direct(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs that do not follow from two others."""
    after: dict[str, set[str]] = {}
    for start, end in pairs:
        if start != end:
            after.setdefault(start, set()).add(end)

    def reached(start: str, seen: set[str]) -> set[str]:
        for end in after.get(start, set()) - seen:
            seen.add(end)
            reached(end, seen)
        return seen

    return {
        (start, end)
        for start, ends in after.items()
        for end in ends
        if not any(end in reached(other, set()) for other in ends - {end})
    }


if __name__ == "__main__":
    Path(PICTURE).write_text(draw(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
