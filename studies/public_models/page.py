"""Study: how many inputs do public models get wrong, exactly? From the stored rows."""

import json

from studies.public_models.names import KNOWN
from studies.tables import RESULTS, Row

YEAR = 365.25 * 24 * 3600
rows = json.loads((RESULTS / "public_models.json").read_text(encoding="utf-8"))["models"]
decided = [row for row in rows if "inputs" in row]
others = [row for row in rows if "inputs" not in row]
for row in decided:
    right = int(row["inputs"]) - int(row["wrong"]) - int(row["undecided"])
    assert right >= 0
    assert row["replay"] is None or row["replay"]["agrees"], row["name"]


def first(row: Row) -> str:
    """The first wrong input and what is written instead, both as numbers or values."""
    wrong = row["first_wrong"]
    if wrong is None:
        return "—"
    if wrong.get("step") is None:
        return " ".join(wrong["tokens"])
    text = "".join(row["replay"]["prompt"])
    written = "".join(reversed(row["replay"]["written"]))
    return f"`{text}` → {written}" + ("" if row["first_is_first"] else " (found first)")


def certificate(row: Row) -> str:
    made = row["certificate"]
    if made is None:
        return "not made"
    return f"{made['compressed_bytes'] / 1000:,.0f} kB, {made['checking_seconds']:.0f} s"


# --8<-- [start:table]
print("| model | parameters | claimed right | inputs | wrong | undecided | first wrong, replayed "
      "| search | certificate, check | brute force |")  # fmt: skip
print("|---|---|---|---|---|---|---|---|---|---|")
for row in decided:
    each = row["brute_force"]["seconds_each"]
    print(
        f"| {row['name']} | {row.get('parameters') or row['numbers']:,} "
        f"| {row.get('claimed') or '—'} | {float(row['inputs']):.2e} | {int(row['wrong']):,} "
        f"| {int(row['undecided']):,} | {first(row)} | {row['search_seconds']:.1f} s "
        f"| {certificate(row)} "
        f"| {each * 1e6:.0f} µs each: {each * int(row['inputs']) / YEAR:.0e} years |"
    )
# --8<-- [end:table]

# --8<-- [start:others]
for row in others:
    print(f"- *{row['name']}* ({row.get('source', row['file'])}): {row['refused']}")
# --8<-- [end:others]

# --8<-- [start:summary]
clean = [row for row in decided if row["wrong"] == "0" and row["undecided"] == "0"]
wrong = [row for row in decided if row["wrong"] != "0"]
missing = sorted({str(one["name"]) for one in KNOWN.values()} - {row["name"] for row in decided})
print(
    f"Of {len(KNOWN)} public files, {len(decided)} have a verdict: {len(clean)} are right on every "
    f"input, {len(wrong)} have wrong inputs, "
    f"{sum(row['undecided'] != '0' for row in decided)} have inputs left undecided. The other "
    f"{len(missing)} have none: {', '.join(missing)}. Models with errors take longer to decide, so "
    "the table favours those that are right; it says nothing about the share of public models that "
    "are."
)
# --8<-- [end:summary]
