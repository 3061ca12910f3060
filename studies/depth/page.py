"""Study: bounds over boxes of inputs of deeper models. From the stored rows."""

import json
from typing import Any

from studies.tables import RESULTS

rows: list[dict[str, Any]] = json.loads((RESULTS / "depth.json").read_text(encoding="utf-8"))[
    "rows"
]
boxes = [row for row in rows if row["kind"] == "box"]
frames = [row for row in rows if row["kind"] == "frame"]


def said(row: dict[str, Any] | None) -> str:
    if row is None:
        return "—"
    if "failed" in row:
        return "fails"
    return f"{row['decided']} of {row['of']}, {row['seconds']:.2f} s"


# --8<-- [start:boxes]
print(
    "| model | free places | inputs of a box | answered alike | our bounds | auto_LiRPA, IBP "
    "| CROWN-IBP | CROWN |"
)
print("|---|---|---|---|---|---|---|---|")
for one in (row for row in boxes if row["tool"] == "tsc-interp"):
    same = {row["method"]: row for row in boxes if row["tool"] != "tsc-interp"
            and (row["model"], row["free"]) == (one["model"], one["free"])}  # fmt: skip
    others = " | ".join(said(same.get(method)) for method in ("IBP", "CROWN-IBP", "CROWN"))
    print(
        f"| {one['model']} | {one['free']} | {one['inputs']:,} | {one['alike']} of {one['of']} "
        f"| {said(one)} | {others} |"
    )
# --8<-- [end:boxes]

# --8<-- [start:frames]
print("| model | free places | inputs | by | decided | wrong | decided in boxes | boxes | CPU |")
print("|---|---|---|---|---|---|---|---|---|")
for row in frames:
    print(
        f"| {row['model']} | {row['free']} | {row['inputs']:,} | {row['tool']} "
        f"| {row['decided'] / row['inputs']:.1%} | {row['wrong']:,} | {row['in_boxes']:,} "
        f"| {row['boxes']:,} | {row['seconds']:.1f} s |"
    )
# --8<-- [end:frames]
