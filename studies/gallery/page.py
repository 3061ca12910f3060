"""Study: what `tsc.falsify` finds in public models. From the stored rows."""

import json
from typing import Any

from studies.tables import RESULTS
from tsc_interp.falsification.result import Rate
from tsc_interp.results.intervals import told_share

rows: list[dict[str, Any]] = json.loads((RESULTS / "gallery.json").read_text(encoding="utf-8"))[
    "models"
]
searched = [row for row in rows if row["kind"] == "found"]


def short(value: Any) -> str:
    """A class, or several of them from the first that differs on."""
    return str(value) if not isinstance(value, list) else " ".join(map(str, value))


def word(row: dict[str, Any]) -> str:
    if row["tokens"] is None:
        return "none found"
    text = row["text"].replace("START ", "").replace(" END", "")
    return f"`{text}`: right {short(row['label'])}, model {short(row['answer'])}"


def place(row: dict[str, Any]) -> str:
    rates = [Rate.model_validate(one) for one in row["by_place"]]
    seen = [one for one in rates if one.wrong]
    if not seen:
        return "—"
    worst = sorted(seen, key=lambda one: -one.share)[:2]
    return "; ".join(f"{one.of}: {one.wrong:,} of {one.tried:,}" for one in worst)


def rate(row: dict[str, Any]) -> str:
    one = row["error_rate"]
    return told_share(one["wrong"], one["tried"], digits=2)


# --8<-- [start:table]
print("| model | layers | simplest wrong input | proved | error rate | one letter changed, missed "
      "| tried | CPU |")  # fmt: skip
print("|---|---|---|---|---|---|---|---|")
for row in searched:
    print(
        f"| {row['name']} | {row['layers']} | {word(row)} | {'yes' if row['proved'] else '—'} "
        f"| {rate(row)} | {place(row)} | {row['tried']:,} | {row['seconds']:.1f} s |"
    )
# --8<-- [end:table]

# --8<-- [start:summary]
wrong = [row for row in searched if row["tokens"] is not None]
print(
    f"The search finds a wrong input in {len(wrong)} of {len(searched)} models, and proves that it "
    f"is wrong, in {min(row['seconds'] for row in wrong):.0f} to "
    f"{max(row['seconds'] for row in wrong):.0f} CPU seconds each."
)
# --8<-- [end:summary]
