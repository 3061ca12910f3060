"""Classifiers that are written down, and how far their margins allow.

python examples/construct.py
"""

# --8<-- [start:weights]
import tsc_interp as tsc
from tsc_interp.construction.bound import reach
from tsc_interp.results.arrays import LabeledArray
from tsc_interp.results.drawing import draw
from tsc_interp.results.views import Lines

model = tsc.construct("contains_all", letters="ab", max_length=1000)
for name, weight in model.checkpoint.weights.items():
    print(f"{name:18} {weight.ravel().round(4).tolist()}")
found = tsc.certify(model).horizon
print(f"right up to {found.length} letters, proved: {found.proved}; then {found.shortest.string}")
# --8<-- [end:weights]
assert found.length == 1000

# --8<-- [start:two-heads]
model = tsc.construct("contains_all", letters="ab", max_length=1000, mlp=False)
for name, weight in model.checkpoint.weights.items():
    print(f"{name:18} {weight.ravel().round(4).tolist()}")
found = tsc.certify(model).horizon
print(f"right up to {found.length} letters, proved: {found.proved}; then {found.shortest.string}")
# --8<-- [end:two-heads]
assert found.length == 1000

# --8<-- [start:for-ever]
for letters in ("ab", "abc", "abcd"):
    model = tsc.construct("contains_all", letters=letters, scores="log_n")
    certificate = tsc.certify(model)
    print(f"{letters:5} {model.shape()}: {certificate.proved[-1]}")
    assert certificate.horizon.infinite
# --8<-- [end:for-ever]

# --8<-- [start:bound]
lasting = {}
for length in (10, 100, 1000, 10_000):
    model = tsc.construct("contains_all", max_length=length, mlp=False)
    bound = reach(model)
    lasts = tsc.horizon(model).length
    lasting[round(bound.margin, 3)] = (bound.allowed, lasts)
    print(f"log M = {bound.margin:.4f} allows {bound.allowed:,.0f} letters; it lasts {lasts:,}")
# --8<-- [end:bound]
allowed, lasts = zip(*lasting.values(), strict=True)
assert allowed == lasts

numbers = LabeledArray.of([allowed, lasts], kind=["allowed", "exact horizon"], margin=lasting)
caption = "No model of this kind can be above the first line; the built ones are on it."
how = Lines("Horizon against margin", caption, x="log M", y="letters", form=",.0f", log_y=True)
(margins,) = draw(numbers, how, "margins")
