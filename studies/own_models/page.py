"""Study: users' own models. What whole runs found (studies/results), and one of them again."""

# --8<-- [start:own-models]
import tsc_interp as tsc
from studies.external import own_models
from studies.keep import model, results

found = tsc.horizon(model("own_models"))
print(f"right up to {found.length} letters, then wrong on {found.shortest.string}")
print("proved" if found.proved else "not proved")
# --8<-- [end:own-models]
ten = {version: results("own_models", version) for version in (3, 4)}
assert (found.length, found.shortest.string) == (ten[4][0]["right_through"], ten[4][0]["shortest"])
assert found.proved

# --8<-- [start:own-models-table]
print(
    "TransformerLens   seed   right of 10,000   right up to   shortest failure   proved   seconds"
)
for version, rows in ten.items():
    for row in rows:
        print(
            f"{version:13}.x{row['seed']:7}{row['right']:18,}{row['right_through']:14,}"
            f"{row['shortest']:>19}{'yes' if row['proved'] else 'no':>9}"
            f"{row['horizon_seconds']:10.1f}"
        )
# --8<-- [end:own-models-table]
shortest_failures = own_models(ten)
