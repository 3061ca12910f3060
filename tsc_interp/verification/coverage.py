"""Whether boxes leave nothing out: part of the checker, on exact numbers only.

A box is half open, `low ≤ x < high`, its ends whole numbers or floats (never NaN: the checker reads
them). The region is cut along sides of boxes until every piece lies in one box; a piece that no box
touches is a gap. Pieces wait in a list, not on Python's stack, and each is paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Box = tuple[Sequence[float], Sequence[float]]

_LOOKED_AT = 24


def covered(
    whole: Box, boxes: Sequence[Box], longest: int | None, pay: Callable[[int], None]
) -> bool:
    """Whether the boxes cover `whole`, except where the counts add up to more than `longest`.

    `pay` is told the number of boxes looked at, and stops a check that takes too long.
    """
    pieces: list[tuple[Box, Sequence[Box]]] = [(whole, boxes)]
    while pieces:
        piece, candidates = pieces.pop()
        low, high = piece
        if longest is not None and sum(low) > longest:
            continue
        pay(len(candidates))
        touching = [
            box for box in candidates if all(a < d and c < b for a, b, c, d in _ends(piece, box))
        ]
        if any(all(c <= a and b <= d for a, b, c, d in _ends(piece, box)) for box in touching):
            continue
        plane = _best_plane(piece, touching)
        if plane is None:
            return False
        axis, edge = plane
        pieces.append(((low, [*high[:axis], edge, *high[axis + 1 :]]), touching))
        pieces.append((([*low[:axis], edge, *low[axis + 1 :]], high), touching))
    return True


def _best_plane(piece: Box, touching: Sequence[Box]) -> tuple[int, float] | None:
    """A side of a box, inside the piece, that few boxes cross and that halves the rest."""
    low, high = piece
    step = max(1, len(touching) // _LOOKED_AT)
    planes = {
        (axis, edge)
        for box in touching[::step]
        for axis in range(len(low))
        for edge in (box[0][axis], box[1][axis])
        if low[axis] < edge < high[axis]
    }

    def cost(plane: tuple[int, float]) -> tuple[int, int, tuple[int, float]]:
        axis, edge = plane
        below = sum(box[1][axis] <= edge for box in touching)
        above = sum(box[0][axis] >= edge for box in touching)
        return len(touching) - below - above, abs(below - above), plane

    return min(planes, key=cost, default=None)


def _ends(a: Box, b: Box) -> Iterator[tuple[float, float, float, float]]:
    return zip(a[0], a[1], b[0], b[1], strict=True)
