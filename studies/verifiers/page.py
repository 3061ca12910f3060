"""Study: general verifiers on the same questions, from the stored rows."""

import json

from studies.tables import RESULTS, Row

rows = json.loads((RESULTS / "verifiers.json").read_text(encoding="utf-8"))["rows"]


def said(row: Row) -> str:
    """The answer, or how much of the question is left."""
    if not row["answered"]:
        return f"no answer: {row['open']:,} of {row['parts']:,} open"
    return "right" if row["right"] else "wrong"


def tool(row: Row) -> str:
    return f"{row['tool']}, {row['method']}" if "method" in row else row["tool"]


lengths = list(dict.fromkeys(row["length"] for row in rows if row["question"] == "strings"))
tools = list(dict.fromkeys(map(tool, rows)))

# --8<-- [start:strings]
print(f"| | {' | '.join(f'strings up to {n}' for n in lengths)} |")
print("|---" * (len(lengths) + 1) + "|")
for name in tools:
    cells = []
    for n in lengths:
        (row,) = [row for row in rows if tool(row) == name and row.get("length") == n] or [None]
        cells.append("—" if row is None else f"{said(row)}, {row['seconds']:.1f} s")
    if set(cells) != {"—"}:
        print(f"| {name} | {' | '.join(cells)} |")
# --8<-- [end:strings]
