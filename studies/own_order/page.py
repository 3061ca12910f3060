"""Study: one-layer models of our own on tasks of order, from the stored rows."""

import json

from studies.tables import RESULTS

rows = json.loads((RESULTS / "own_order.json").read_text(encoding="utf-8"))["rows"]
for row in rows:  # in float32 the model itself says the same
    assert row["undecided"] or row["by_length"] == row["forced"], row["task"]

# --8<-- [start:table]
print("| task | parameters | strings | wrong | undecided | first wrong | search |")
print("|---|---|---|---|---|---|---|")
for row in rows:
    first = f"`{row['first']}`" if row["first"] else "—"
    print(
        f"| {row['task']} | {row['parameters']:,} | {row['strings']:,} | {row['wrong']:,} "
        f"| {row['undecided']:,} | {first} | {row['search_seconds']:.1f} s |"
    )
# --8<-- [end:table]
