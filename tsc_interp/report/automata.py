"""A task on order as a picture: the states of its automaton, and which letters lead where.

    task -> machine, with a name for each state -> places in layers -> SVG

Layers are steps from the start. The SVG has no script and takes its ink from the page, light or
dark. Above `MOST_DRAWN` states a table says the same.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

from tsc_interp.plots.colours import INK, MUTED, NEGATIVE, POSITIVE, faint
from tsc_interp.strings import LETTERS
from tsc_interp.tasks import AtLeast, Before, ContainsAll, Maximum, Parity
from tsc_interp.tasks.machine import Machine, explore
from tsc_interp.tasks.unrolling import _parts

MOST_DRAWN, MOST_LISTED = 12, 60
_RADIUS, _ACROSS, _DOWN = 21.0, 118.0, 92.0
_COUNTED = (ContainsAll, AtLeast, Parity, Maximum, Before)
Point = tuple[float, float]


@dataclass(frozen=True)
class Drawn:
    """An automaton that can be drawn: reachable states only, the start first."""

    names: tuple[str, ...]
    step: tuple[tuple[int, ...], ...]
    label: tuple[int, ...]
    letters: tuple[str, ...]

    def arrows(self) -> dict[tuple[int, int], str]:
        """From state to state, the letters that lead there."""
        by_pair: dict[tuple[int, int], list[int]] = {}
        for state, row in enumerate(self.step):
            for letter, to in enumerate(row):
                by_pair.setdefault((state, to), []).append(letter)
        return {pair: self._merged(letters) for pair, letters in by_pair.items()}

    def _merged(self, letters: list[int]) -> str:
        """Neighbours in the alphabet as a range: `a-d, f`."""
        runs: list[list[int]] = []
        for letter in letters:
            if runs and runs[-1][-1] == letter - 1:
                runs[-1].append(letter)
            else:
                runs.append([letter])
        name = self.letters
        return ", ".join(
            f"{name[run[0]]}–{name[run[-1]]}" if len(run) > 2 else ", ".join(name[i] for i in run)
            for run in runs
        )


def drawn(task: Any, n_letters: int, names: Sequence[str] = ()) -> Drawn | None:
    """The automaton of a task, the same at every length; None for tasks that have none.

    Args:
        task: A rule of `tsc.tasks`.
        n_letters: The size of the alphabet.
        names: What letters are called, if not a, b, c.
    """
    stated: Sequence[str] = getattr(task, "states", ())
    if isinstance(task, _COUNTED):
        start, step, labels = _parts(task, n_letters, 1)
        # Before the first letter a maximum has no class.
        machine, _ = explore(start, step, lambda s: max(0, int(labels([s])[0])), n_letters)
    elif hasattr(task, "machine"):
        # A machine that grows with the length (a sum) is not one automaton.
        machine = task.machine(n_letters, 2)
        if len(machine) != len(task.machine(n_letters, 3)):
            return None
    else:
        return None
    letters = tuple(names) or tuple(LETTERS[:n_letters])
    kept, words = _reached(machine, letters if max(map(len, letters)) == 1 else LETTERS)
    number = {state: i for i, state in enumerate(kept)}
    return Drawn(
        names=tuple(stated[s] for s in kept) if stated else tuple(words),
        step=tuple(tuple(number[to] for to in machine.step[s].tolist()) for s in kept),
        label=tuple(int(machine.label[s]) for s in kept),
        letters=letters,
    )


def _reached(machine: Machine, letters: Sequence[str]) -> tuple[list[int], list[str]]:
    """States in the order of the shortest strings that lead to them, and these strings."""
    words = {machine.start: "start"}
    order, shortest = [machine.start], {machine.start: ""}
    for state in order:  # grows while it is read
        for letter, to in enumerate(machine.step[state].tolist()):
            if to not in words:
                shortest[to] = words[to] = shortest[state] + letters[letter]
                order.append(to)
    return order, [words[state] for state in order]


# -- the picture -------------------------------------------------------------------------------


def automaton_picture(
    task: Any, n_letters: int, names: Sequence[str] = (), classes: Sequence[str] = ()
) -> str | None:
    """The automaton of a task as HTML that stands by itself: SVG, or a table where it is large.

    Args:
        task: A rule of `tsc.tasks`.
        n_letters: The size of the alphabet.
        names: What letters are called, if not a, b, c.
        classes: What classes are called, if not by their numbers.

    Returns:
        One `figure` element; None where the task is no automaton of up to 60 states.

    Example:
        >>> from tsc_interp.tasks import Regex
        >>> picture = automaton_picture(Regex("(a|b)*c"), 3)
        >>> "from start by a, b to start; from start by c to c" in picture
        True
    """
    machine = drawn(task, n_letters, names)
    if machine is None or len(machine.names) > MOST_LISTED:
        return None
    shown = _svg(machine) if len(machine.names) <= MOST_DRAWN else _table(machine)
    known = sorted(set(machine.label))
    legend = " ".join(
        f'<span><svg width="14" height="14" aria-hidden="true">'
        f"{_disc((7.0, 7.0), 5.0, c, known[-1] < 2)}</svg> "
        f"{html.escape(classes[c] if c < len(classes) else f'class {c}')}</span>"
        for c in known
    )
    words = (
        f"The automaton of the task: {html.escape(task.describe())}. It starts at the arrow, each "
        "letter leads to the next state, and the state after the last letter says the class."
        + ("" if getattr(task, "states", ()) else " A state is named by a shortest string there.")
    )
    return (
        f'<figure class="tsc-automaton">{shown}<figcaption>{legend}<br>{words}</figcaption>'
        "</figure>"
    )


def _disc(at: Point, radius: float, label: int, two: bool) -> str:
    """Colour says the class, and so does a second ring: one ring more for each class."""
    colour = ((NEGATIVE, POSITIVE) if two else MUTED)[label % (2 if two else len(MUTED))]
    rings = min(label, 3) if radius > 10 else 0
    discs = [
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius - 3.5 * ring:.1f}" '
        f'fill="{faint(colour, 0.16) if not ring else "none"}" stroke="{colour}" '
        'stroke-width="2"/>'
        for ring in range(rings + 1)
    ]
    return "".join(discs)


def places(machine: Drawn) -> list[Point]:
    """Each state in the column of its distance from the start, columns centred on one line."""
    column = {0: 0}
    for state in range(len(machine.names)):  # in breadth-first order, so it is known
        for to in machine.step[state]:
            column.setdefault(to, column[state] + 1)
    members: dict[int, list[int]] = {}
    for state, at in sorted(column.items()):
        members.setdefault(at, []).append(state)
    tallest = max(map(len, members.values()))
    places: list[Point] = [(0.0, 0.0)] * len(machine.names)
    for at, states in members.items():
        top = (tallest - len(states)) * _DOWN / 2
        for row, state in enumerate(states):
            places[state] = (at * _ACROSS, top + row * _DOWN)
    return places


def _svg(machine: Drawn) -> str:
    at, arrows = places(machine), machine.arrows()
    curves = {(u, v): _bent(at, u, v, arrows) for u, v in arrows if u != v}
    parts = [_arrow(curve, arrows[pair]) for pair, curve in curves.items()]
    parts += [_loop(at[u], text) for (u, v), text in arrows.items() if u == v]
    x, y = at[0]
    parts.append(_path(f"M {x - _RADIUS - 26:.1f} {y:.1f} L {x - _RADIUS - 3:.1f} {y:.1f}"))
    for state, (x, y) in enumerate(at):
        parts.append(_disc((x, y), _RADIUS, machine.label[state], max(machine.label) < 2))
        name = machine.names[state]
        below = len(name) > 5
        parts.append(_text((x, y + (_RADIUS + 15 if below else 4.5)), name, 12))
    transitions = "; ".join(
        f"from {machine.names[u]} by {text} to {machine.names[v]}"
        for (u, v), text in arrows.items()
    )
    # Rings need room, loops above them, and letters beside what bends.
    xs, ys = zip(*at, *map(_middle, curves.values()), strict=True)
    left, width = min(xs) - 56, max(xs) - min(xs) + 56 + 34
    top, height = min(ys) - 64, max(ys) - min(ys) + 64 + 40
    title = f"Automaton with {len(machine.names)} states. {transitions}."
    return (
        f'<svg viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" role="img" '
        f'style="width:100%;max-width:{width:.0f}px;height:auto" '
        f'font-family="inherit" aria-label="{html.escape(title)}">'
        '<defs><marker id="tsc-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{INK}"/>'
        f"</marker></defs>{''.join(parts)}</svg>"
    )


def _bend(at: list[Point], u: int, v: int, arrows: dict[tuple[int, int], str]) -> float:
    """How far an arrow leaves the straight line: around states between, and from its reverse."""
    columns = abs(at[u][0] - at[v][0]) / _ACROSS
    rows = abs(at[u][1] - at[v][1]) / _DOWN
    if columns > 1.5 or (columns < 0.5 and rows > 1.5):
        return 46.0 * max(columns, rows)
    return 40.0 if (v, u) in arrows or columns < 0.5 else 0.0


def _bent(at: list[Point], u: int, v: int, arrows: dict[tuple[int, int], str]) -> list[Point]:
    """Start, control point and end of a curve that bends to its left."""
    (x0, y0), (x1, y1) = at[u], at[v]
    length, bend = hypot(x1 - x0, y1 - y0), _bend(at, u, v, arrows)
    middle = (
        (x0 + x1) / 2 + (y1 - y0) / length * bend,
        (y0 + y1) / 2 - (x1 - x0) / length * bend,
    )
    return [_towards(at[u], middle), middle, _towards(at[v], middle)]


def _towards(centre: Point, other: Point) -> Point:
    """Where a line from the centre of a state leaves its ring."""
    away = hypot(other[0] - centre[0], other[1] - centre[1])
    share = (_RADIUS + 3) / away
    return (
        centre[0] + (other[0] - centre[0]) * share,
        centre[1] + (other[1] - centre[1]) * share,
    )


def _arrow(curve: list[Point], text: str) -> str:
    (x0, y0), (xc, yc), (x1, y1) = curve
    x, y = _middle(curve)
    path = f"M {x0:.1f} {y0:.1f} Q {xc:.1f} {yc:.1f} {x1:.1f} {y1:.1f}"
    return _path(path) + _text((x, y + 4), text, 13, halo=True)


def _middle(curve: list[Point]) -> Point:
    """The point of a quadratic curve half way."""
    (x0, y0), (xc, yc), (x1, y1) = curve
    return x0 / 4 + xc / 2 + x1 / 4, y0 / 4 + yc / 2 + y1 / 4


def _loop(at: Point, text: str) -> str:
    x, y = at[0], at[1] - _RADIUS - 1
    path = f"M {x - 8:.1f} {y:.1f} c -14 -30 30 -30 16 0"
    return _path(path) + _text((x, y - 27), text, 13)


def _path(path: str) -> str:
    ink = f'stroke="{INK}" stroke-width="1.5" marker-end="url(#tsc-tip)"'
    return f'<path d="{path}" fill="none" {ink}/>'


def _text(at: Point, text: str, size: int, halo: bool = False) -> str:
    page = "var(--page, var(--md-default-bg-color, Canvas))"
    around = f' style="paint-order:stroke;stroke:{page};stroke-width:5px"' if halo else ""
    return (
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size}" text-anchor="middle" '
        f'fill="currentColor"{around}>{html.escape(text)}</text>'
    )


def _table(machine: Drawn) -> str:
    """A row for each state: where each letter leads, and its class."""
    head = "".join(f"<th>{html.escape(x)}</th>" for x in ("state", *machine.letters, "class"))
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(x)}</td>"
            for x in (name, *(machine.names[to] for to in row), str(label))
        )
        + "</tr>"
        for name, row, label in zip(machine.names, machine.step, machine.label, strict=True)
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{table}</div>'
