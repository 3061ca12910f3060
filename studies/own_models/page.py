"""Study: users' own models. What a whole run found (studies/results), and one of them again."""

# --8<-- [start:own-models]
import tsc_interp as tsc
from studies.external import own_models
from studies.keep import model, results

found = tsc.horizon(model("own_models"))
print(f"right up to {found.length} letters, then wrong on {found.shortest.string}")
print("proved" if found.proved else "not proved")
# --8<-- [end:own-models]
rows = results("own_models")
assert (found.length, found.shortest.string) == (rows[0]["right_through"], rows[0]["shortest"])
assert found.proved
assert all(row["original_logits"][0] > row["original_logits"][1] for row in rows)

# --8<-- [start:own-models-table]
print("seed   right of 10,000   right up to   shortest failure   proved   seconds")
for row in rows:
    print(
        f"{row['seed']:4}{row['right']:18,}{row['right_through']:14,}"
        f"{row['shortest']:>19}{'yes' if row['proved'] else 'no':>9}"
        f"{row['horizon_seconds']:10.1f}"
    )
# --8<-- [end:own-models-table]
shortest_failures = own_models(rows)
