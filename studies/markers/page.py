"""Study: markers. What whole runs found (studies/results), and one of them again."""

# --8<-- [start:markers]
import tsc_interp as tsc
from studies.external import marker_errors
from studies.keep import model, results

marked = tsc.verify(model("markers"), 8, certify=True)
for sentence in marked.certificate.proved:
    print("-", sentence)
print("in the model's own words:", *marked.shortest.tokens)
# --8<-- [end:markers]
both = {version: results("markers", version) for version in (3, 4)}
assert [one.wrong for one in marked.lengths] == both[4][0]["wrong"]

# --8<-- [start:markers-table]
print("TransformerLens   seed     wrong   by its own passes   right up to   search   passes")
for version, rows in both.items():
    for row in rows:
        print(
            f"{version:13}.x{row['seed']:7}{sum(row['wrong']):10,}{row['asked']:20,}"
            f"{row['right_through']:14}{row['search_seconds']:7.2f} s"
            f"{row['forward_seconds']:7.1f} s"
        )
# --8<-- [end:markers-table]
wrong_marked = marker_errors(both)
