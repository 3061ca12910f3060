"""f(kn) = f(n) without CLS attention; with it, the same holds in the limit."""

# --8<-- [start:repeat]
import torch

from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts
from tsc_interp.strings import Alphabet


def exact_logits(name: str, counts: list[list[int]], **changes: object) -> list[float]:
    """Logits in float64, the configuration changed if asked."""
    checkpoint = load_checkpoint(name)
    config = checkpoint.config.replace(**changes)
    weights = {key: torch.from_numpy(array).double() for key, array in checkpoint.weights.items()}
    return forward(config, weights, from_counts(config, torch.tensor(counts))).tolist()


repeats = [1, 2, 10, 1000, 1_000_000]
ratio = (3, 1, 5)  # aaab ccccc, again and again
scaled = [[k * count for count in ratio] for k in repeats]

plain = exact_logits("walkthrough", scaled)
attending = exact_logits("attend-cls", scaled)
limit = exact_logits("attend-cls", scaled[:1], attend_cls=False)[0]

print("   k    walkthrough          attend-cls")
for k, one, other in zip(repeats, plain, attending, strict=True):
    print(f"{k:7} {one:+.13f} {other:+.13f}")
print(f"{'limit':>7} {'':16} {limit:+.13f}")
# --8<-- [end:repeat]
assert max(plain) - min(plain) < 1e-12
gaps = [abs(value - limit) for value in attending]
assert gaps == sorted(gaps, reverse=True)
assert gaps[-1] < 1e-5 * max(1.0, gaps[0])

# --8<-- [start:errors-repeat]
wrong = "b{2}c{152}"
alphabet = Alphabet(3)
counts = alphabet.counts(wrong)
family = [[int(k * count) for count in counts] for k in (1, 2, 5, 100)]
for row, value in zip(family, exact_logits("generalization-errors", family), strict=True):
    print(f"{alphabet.write(row):14} {value:+.6f}")
# --8<-- [end:errors-repeat]
assert min(exact_logits("generalization-errors", family)) > 0, "all of them are false positives"
