"""Other people's models: what whole runs found (benchmarks/results), and one of each again."""

# --8<-- [start:own-models]
import tsc_interp as tsc
from benchmarks.keep import model, results
from benchmarks.majority import errors
from docs.build.outside import majority_reach, marker_errors, own_models, wrong_by_maximum

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

# --8<-- [start:max-of-four]
maximum = tsc.verify_ordered(model("max_of_four"), 4, min_length=4)
print(f"{maximum.total_wrong:,} of {maximum.strings:,} sequences are wrong,")
print(f"{maximum.total_undecided} undecided; {maximum.lengths[0].boxes:,} boxes were looked at")
print("the first:", *maximum.shortest.tokens, "whose maximum the model says is", end=" ")
print(maximum.shortest.answer)
# --8<-- [end:max-of-four]
four = results("max_of_four", 3)
assert maximum.total_wrong == four[0]["wrong"]

# --8<-- [start:max-of-four-table]
print("seed   wrong of 16,777,216    accuracy   boxes   search     brute force, close calls")
for row in four:
    print(
        f"{row['seed']:4}{row['wrong']:22,}{1 - row['wrong'] / 64**4:12.6f}{row['boxes']:8,}"
        f"{row['search_seconds']:7.2f} s{row['force_seconds']:14.1f} s{row['close']:13}"
    )
mean = sum(1 - row["wrong"] / 64**4 for row in four) / len(four)
print(f"mean accuracy {mean:.4f}")
# --8<-- [end:max-of-four-table]
wrong_sequences = wrong_by_maximum(four)

# --8<-- [start:majority]
majority = errors(model("majority"), 255)
first = next(length for length, wrong in enumerate(majority["wrong"]) if wrong)
print(
    f"no error up to length {first - 1}; at length {first} {majority['wrong'][first]:.3e} strings"
)
print(f"of {2.0**first:.3e} are wrong, such as {majority['first']}; none is undecided")
# --8<-- [end:majority]
many = results("majority", 4)
assert (first - 1, majority["first"]) == (many[0]["right_through"], many[0]["first"])
assert not any(majority["undecided"])

# --8<-- [start:majority-table]
print("d_model   seed   right of 3 × 2,000   every string right up to   some error   seconds")
for row in many:
    print(
        f"{row['d_model']:7}{row['seed']:7}{' '.join(f'{n:,}' for n in row['sampled']):>21}"
        f"{row['right_through']:27,}{row['some'] or 'none found':>15}"
        f"{row['exact_seconds']:10.1f}"
    )
# --8<-- [end:majority-table]
reach = majority_reach(many)

# --8<-- [start:markers]
marked = tsc.verify_ordered(model("markers"), 8, certify=True)
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
