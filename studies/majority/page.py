"""Study: majority. What whole runs found (studies/results), and one of them again."""

# --8<-- [start:majority]
from studies.external import majority_reach
from studies.keep import model, results
from studies.majority.run import errors

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
