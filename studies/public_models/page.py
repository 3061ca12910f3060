"""Study: how many inputs do public models get wrong, exactly? From the stored rows."""

import json

from studies.public_models.names import KNOWN
from studies.tables import RESULTS, Row

rows = json.loads((RESULTS / "public_models.json").read_text(encoding="utf-8"))["models"]
decided = [row for row in rows if "inputs" in row]
others = [row for row in rows if "inputs" not in row]
for row in decided:
    right = int(row["inputs"]) - int(row["wrong"]) - int(row["undecided"])
    assert right >= 0
    assert row["replay"] is None or row["replay"]["agrees"], row["name"]


def first(row: Row) -> str:
    """The first wrong input, and what the plain forward pass answers."""
    wrong, replay = row["first_wrong"], row["replay"]
    if wrong is None:
        return "—"
    found = "" if row["first_is_first"] else " (found first)"
    if wrong.get("step") is None:
        return f"<code>{' '.join(wrong['tokens'])}</code> → class {replay['answer']}{found}"
    first, second = replay["pair"]
    return f"<code>{first} + {second}</code> → {''.join(reversed(replay['written']))}{found}"


def covers(row: Row) -> bool:
    """Whether a certificate decides everything: its parts leave no input open."""
    made = row["certificate"]
    parts = made["conclusion"]["parts"] if made else [{"undecided": 1}]
    return not any(int(part.get("undecided", 0)) for part in parts)


def power(value: float, digits: int = 0) -> str:
    """As people write it: 7.4 · 10 to the 20, and 10 to the 20 alone."""
    front, exponent = f"{value:.{digits}e}".split("e")
    high = f"10<sup>{int(exponent)}</sup>"
    return high if float(front) == 1 else f"{front}&nbsp;·&nbsp;{high}"


def left(row: Row) -> str:
    """The number of undecided inputs, rounded if it has more digits than a column holds."""
    undecided = int(row["undecided"])
    return power(undecided, 2) if undecided > 10**9 else f"{undecided:,}"


# --8<-- [start:table]
columns = ["model", "numbers", "claimed right", "wrong, exactly", "undecided", "sampled wrong"]
columns += ["first wrong, replayed", "seconds", "checked in", "proof", "SHA-256"]
print('<div class="scrolls"><table class="sortable"><thead><tr>')
print("".join(f"<th>{name}</th>" for name in columns))
print("</tr></thead><tbody>")
for row in sorted(decided, key=lambda row: (row["undecided"] != "0", -int(row["wrong"]))):
    made = row["certificate"] if row["certificate"] and covers(row) else None
    size = f"{made['compressed_bytes'] / 1000:,.1f}&nbsp;kB" if made else "—"
    wrong = f"{int(row['wrong']):,} of&nbsp;{power(float(row['inputs']), 1)}"
    if row["undecided"] != "0":
        wrong = f"at least {wrong}" if row["wrong"] != "0" else "none found"
    sample = row["brute_force"]
    cells = [
        (row["name"], row["name"]),
        (row["numbers"], f"{row['numbers']:,}"),
        (row.get("claimed") or "", (row.get("claimed") or "—").replace(" ", "&nbsp;")),
        (row["wrong"], wrong),
        (row["undecided"], left(row)),
        (sample["wrong"], f"{sample['wrong']:,} of&nbsp;{sample['sample']:,}"),
        ("", first(row)),
        (row["search_seconds"], f"{row['search_seconds']:.0f}"),
        (made["checking_seconds"] if made else "", made["checking_seconds"] if made else "—"),
        (made["compressed_bytes"] if made else 0, size),
        (row["sha256"], f"<code>{row['sha256'][:8]}</code>"),
    ]
    print("<tr>" + "".join(f'<td data-sort="{key}">{cell}</td>' for key, cell in cells) + "</tr>")
print("</tbody></table></div>")
# --8<-- [end:table]

# --8<-- [start:others]
for row in others:
    reason = row["refused"].removeprefix("ValueError: ")
    print(f"- *{row['name']}* ({row.get('source', row['file'])}): {reason}.")
named = {row["name"] for row in rows}
unasked = [str(one["name"]) for one in KNOWN.values() if one["name"] not in named]
if unasked:
    print(
        f"- The study recognises these files, but the stored run lacks them: {', '.join(unasked)}."
    )
# --8<-- [end:others]

# --8<-- [start:summary]
clean = [row for row in decided if row["wrong"] == "0" and row["undecided"] == "0"]
wrong = [row for row in decided if row["wrong"] != "0"]
open_ = sum(row["undecided"] != "0" for row in decided)
print(
    f"Of {len(KNOWN)} public files, {len(decided)} have a verdict: {len(clean)} are right on every "
    f"input, {len(wrong)} have wrong inputs, and {open_} have undecided inputs."
)
if open_:
    print(
        "Models with errors take longer to decide, so the undecided models may differ from "
        "the others. Do not conclude from the table which share of public models is right."
    )
# --8<-- [end:summary]

# --8<-- [start:notes]
allowed = sorted({row["seconds_allowed"] for row in rows if "seconds_allowed" in row})
print(f"- Each search had {' or '.join(f'{x:.0f}' for x in allowed)} seconds on the clock.")
replays = [row for row in decided if row["replay"]]
if replays:
    print(
        f"- The plain forward pass was run on all {len(replays)} first wrong inputs, and gives the "
        "answers that the search predicted."
    )
whole = [row["name"] for row in decided if row["certificate"] and covers(row)]
if whole:
    print(f"- A proof that covers every input was made and checked for {', '.join(whole)}.")
# --8<-- [end:notes]
