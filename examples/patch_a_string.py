"""Patching: find the part of a model that makes the difference between two strings."""

import tsc_interp as tsc
from tsc_interp.probes.registry import run_probe

# --8<-- [start:patching]
model = tsc.load("generalization-errors")
patched = run_probe("patching", model, ["ab{65}", "ab{100}"]).pairs[0]
print(patched.pair.sentence())
for head in (0, 1):
    effect = patched.site("z_all_pos").effect.at(layer=0, head=head)
    print(f"head {head}'s output from the clean run: {effect:.2f}")
for letter in "ab":
    effect = patched.site("scores_by_src").effect.at(layer=0, head=0, src_pos=letter)
    print(f"head 0 counting {letter} as in the clean string: {effect:.2f}")
# --8<-- [end:patching]

# --8<-- [start:paths]
result = run_probe("paths", model, ["ab{65}", "b{66}"])
for edge in result.pairs[0].edges[:5]:
    print(f"{edge.name:26} {edge.effect:5.2f}   estimated {edge.estimate:5.2f}")
outcome = tsc.intervene(model, "b{66}", result.pairs[0].edges[1].notation)
print(f"logit {outcome.before.item():.2f} becomes {outcome.after.item():.2f}")
# --8<-- [end:paths]
