"""The one notation of frames, in Python, TOML and pages: `[START] x{20} [END]; x=0..30; START=31`.

The first clause is the layout: fixed tokens in brackets, by id or by name, and places, one letter
of a set each. `x{20}` is twenty places and `x{1..20}` is one to twenty; only the last group may
vary. The other clauses define names (`START=31`), sets of letters (`x=0..30,40`) and options
(`read=-1`, `writes=4`, `classes=0,1`, `equal=4:1,5:2`, `distinct`, `name=palindromes`). Places that
repeat others are counted from 1, and may be spans: `equal=5..8:1..4`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tsc_interp.errors import UsageError, shorten

_ITEM = re.compile(r"\s*(?:\[\s*([^\]\[]+?)\s*\]|([A-Za-z_]\w*)(?:\{(\d+)(?:\.\.(\d+))?\})?)\s*")
_SPAN = re.compile(r"(-?\d+)(?:\.\.(-?\d+))?")
_OPTIONS = ("read", "classes", "writes", "equal", "name", "distinct")
_SETS = "xyzwvutsrqponmlkjihgfedcba"
EXAMPLE = "'[START] x{20} [END]; x=0..30; START=31; END=32'"
_MOST = 100_000


def parse(text: str, names: Mapping[int, str]) -> dict[str, Any]:
    """The options of a `Frame` that a text stands for; `names` adds to the names it defines."""
    layout, *clauses = text.split(";")
    options: dict[str, Any] = {}
    defined: dict[str, str] = {}
    for clause in filter(None, map(str.strip, clauses)):
        key, equals, value = (part.strip() for part in clause.partition("="))
        if not key:  # of a token that is called `=`, as in ==11
            key, equals, value = (part.strip() for part in clause.rpartition("="))
        if key in _OPTIONS:
            options[key] = _option(key, equals, value)
        elif key in defined or not value:
            raise UsageError(f"in a frame, {clause!r} should define one name, as in START=31")
        else:
            defined[key] = value
    items = _items(layout)
    sets = {name for kind, name, _, _ in items if kind == "places"}
    ids = {name: token for token, name in names.items()}
    for key, value in defined.items():
        if key not in sets:
            ids[key] = _one(key, value)
    return options | _laid_out(
        items, {key: numbers(defined[key]) for key in sets & {*defined}}, ids
    )


def _option(key: str, equals: str, value: str) -> Any:
    if key == "distinct":
        if equals:
            raise UsageError("in a frame, `distinct` stands alone, without a value")
        return True
    if key == "name":
        return value
    if key == "equal":
        return _pairs(value)
    return _one(key, value) if key == "writes" else numbers(value)


def _pairs(text: str) -> list[tuple[int, int]]:
    """`5..6:1..2,9:1` as (5, 1), (6, 2), (9, 1)."""
    pairs: list[tuple[int, int]] = []
    for part in text.split(","):
        places, colon, earlier = part.partition(":")
        sides = [numbers(side.strip()) for side in (places, earlier)] if colon else [(0,), ()]
        if len(sides[0]) != len(sides[1]):
            raise UsageError(
                f"in a frame, equal says which places repeat which, as in equal=5..8:1..4; got "
                f"{shorten(part)}"
            )
        pairs += zip(*sides, strict=True)
    return pairs


def _items(layout: str) -> list[tuple[str, str, int, int]]:
    """(token or places, its name, fewest, most), in order."""
    words, at = [], 0
    while at < len(layout.rstrip()):
        match = _ITEM.match(layout, at)
        if match is None:
            raise UsageError(
                f"cannot read the frame {shorten(layout)} from {layout[at : at + 12]!r} on; a "
                f"frame is written like {EXAMPLE}"
            )
        token, places, low, high = match.groups()
        fewest = 1 if low is None else int(low)
        most = fewest if high is None else int(high)
        if most > _MOST:
            raise UsageError(f"a frame has at most {_MOST:,} places, got {most:,}")
        words.append(("token", token, 1, 1) if token else ("places", places, fewest, most))
        at = match.end()
    return words


def _laid_out(
    items: Sequence[tuple[str, str, int, int]],
    sets: Mapping[str, tuple[int, ...]],
    ids: Mapping[str, int],
) -> dict[str, Any]:
    """Tokens before, between and after; what one set of letters each place has."""
    runs: list[list[int]] = [[]]
    ends, letters, low = [0], [], 0
    groups = [item for item in items if item[0] == "places"]
    for item in items:
        kind, name, fewest, most = item
        if kind == "token":
            runs[-1].append(_token(name, ids))
            continue
        if fewest != most and item is not groups[-1]:
            raise UsageError("only the last group of places in a frame may vary in length")
        low += fewest
        letters += [sets.get(name)] * most
        ends.append(len(letters))
        runs.append([])
    if not groups:
        raise UsageError(f"a frame needs places, as in {EXAMPLE}")
    between = {end: run for end, run in zip(ends[1:-1], runs[1:-1], strict=True) if run}
    return {
        "before": runs[0],
        "between": between,
        "after": runs[-1],
        "places": (low, len(letters)),
        "letters": letters,
        "names": {token: name for name, token in ids.items()},
    }


def _token(name: str, ids: Mapping[str, int]) -> int:
    if name in ids:
        return ids[name]
    if name.isdecimal():
        return int(name)
    raise UsageError(
        f"the frame has a token [{name}] that nothing defines; add {name}=ID to it, or give names="
    )


def _one(key: str, text: str) -> int:
    if re.fullmatch(r"\d+", text) is None:
        raise UsageError(f"in a frame, {key} is one whole number, got {shorten(text)}")
    return int(text)


def numbers(text: str) -> tuple[int, ...]:
    """`0..4,7` as its numbers."""
    tokens: list[int] = []
    for part in text.split(","):
        match = _SPAN.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"numbers are written like 0..4,7; got {shorten(text)}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last - first > _MOST:
            raise UsageError(f"at most {_MOST:,} numbers, got {shorten(part)}")
        tokens += range(first, last + 1)
    return tuple(tokens)


def spans(values: Sequence[int]) -> str:
    """The reverse of `numbers`, in the order given."""
    ranges: list[list[int]] = []
    for value in values:
        if ranges and value == ranges[-1][1] + 1:
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    return ",".join(f"{a}..{b}" if a < b else str(a) for a, b in ranges)


def write(frame: Mapping[str, Any]) -> str:
    """The options of a frame in this notation; `parse` reads it back."""
    names = {
        token: name if _can_be_written(name) else f"token{token}"
        for token, name in frame["names"].items()
    }
    sets: dict[tuple[int, ...], str] = {}
    for letters in frame["letters"]:
        if letters not in sets:
            free = (name for name in _SETS if name not in (*sets.values(), *names.values()))
            sets[letters] = next(free, f"set_{len(sets)}")
    parts = [_written(token, names) for token in frame["before"]]
    at = 0
    for end in (*sorted(frame["between"]), frame["places"][1]):
        parts += _groups(frame["places"], [sets[own] for own in frame["letters"]], at, end)
        parts += [_written(token, names) for token in frame["between"].get(end, ())]
        at = end
    parts += [_written(token, names) for token in frame["after"]]
    clauses = [" ".join(parts)]
    clauses += [f"{name}={spans(letters)}" for letters, name in sets.items()]
    clauses += [f"{name}={token}" for token, name in names.items()]
    clauses += [f"read={spans(frame['read'])}"] if frame["read"] != (-1,) else []
    clauses += [f"writes={frame['writes']}"] if frame["writes"] else []
    clauses += [f"classes={spans(frame['classes'])}"] if frame["classes"] is not None else []
    pairs = ",".join(f"{place}:{earlier}" for place, earlier in frame["equal"])
    clauses += [f"equal={pairs}"] if pairs else []
    clauses += ["distinct"] if frame["distinct"] else []
    clauses += [f"name={frame['name']}"] if frame["name"] else []
    return "; ".join(clauses)


def _can_be_written(name: str) -> bool:
    """Whether a token's name can be read back: `;` and brackets end names, options have others."""
    plain = not set(name) & set(";[]") and name == name.strip() and name not in _OPTIONS
    return plain and ("=" not in name or not name.strip("="))


def _groups(places: tuple[int, int], sets: Sequence[str], start: int, end: int) -> list[str]:
    """Places `start` to `end`: one group for each run of equal sets of letters."""
    low, high = places
    groups: list[str] = []
    while start < end:
        name, stop = sets[start], start + 1
        while stop < end and sets[stop] == name:
            stop += 1
        count = str(stop - start)
        if stop == high and low < high:
            count = f"{low - start}..{count}"
        groups.append(name if count == "1" else f"{name}{{{count}}}")
        start = stop
    return groups


def _written(token: int, names: Mapping[int, str]) -> str:
    return f"[{names.get(token, token)}]"
