"""Chapter 5: every string there is.

    python examples/ch5_exact_verification.py

A test set is a sample. This script samples nothing: it counts every string up to a length, finds
the first error of any length, and proves claims about all lengths, which a checker confirms.
"""

# --8<-- [start:count]
import tempfile
from pathlib import Path

import tsc_interp as tsc
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.reproduction.experiments import experiment_named
from tsc_interp.verification import CertificateError

model = tsc.load("generalization-errors")
verdict = tsc.verify(model, max_length=200)
tally = verdict.tally
print(f"{tally.vectors:,} count vectors stand for {tally.strings:.3e} strings")
for name, side in (("positives", tally.false_positives), ("negatives", tally.false_negatives)):
    print(f"false {name}: {side.total_vectors:,} count vectors, {side.total_strings:.3e} strings")
print(
    f"wrong: {float(1 - verdict.accuracy):.3e} of all strings; the shortest are "
    f"{verdict.false_positive.string} and {verdict.false_negative.string}"
)
# --8<-- [end:count]

# --8<-- [start:lengths]
for length in (66, 67, 100, 150, 200):
    right, total = tally.accuracy_at(length)
    wrong = total - right
    vectors = tally.false_positives.vectors[length] + tally.false_negatives.vectors[length]
    print(
        f"length {length:3}: {vectors:5,} wrong count vectors, "
        f"{wrong:.3e} wrong strings, a fraction {wrong / total:.2e}"
    )
# --8<-- [end:lengths]

# --8<-- [start:horizons]
models = {name: load_checkpoint(name) for name in bundled_names()}
with tempfile.TemporaryDirectory() as place:
    for run in tsc.train(experiment_named("all_initializations").jobs(), place):
        chosen = run.directory.checkpoint(run.result.chosen_epoch)
        models[f"all_initializations, {run.result.seed}"] = chosen

print("model                     horizon   first false positive   first false negative")
for name, checkpoint in models.items():
    certificate = tsc.certify(checkpoint)
    known = certificate.horizon
    none_ever = all(support.holds_for_all_lengths for support in certificate.negative_supports)
    positive, negative = known.shortest_false_positive, known.shortest_false_negative
    shown = positive.string if positive else "none, proved" if none_ever else "none found"
    print(f"{name:24} {known.length:>8,}   {shown:22} {negative.string}")
# --8<-- [end:horizons]

# --8<-- [start:certify]
certificate = tsc.certify("walkthrough")
for sentence in certificate.proved:
    print("-", sentence)
# --8<-- [end:certify]

# --8<-- [start:check]
with tempfile.TemporaryDirectory() as place:
    file = Path(place) / "walkthrough.json"
    certificate.save(file)
    accepted = tsc.check(file, "walkthrough")
    print(f"{file.name}: {file.stat().st_size:,} bytes, {len(accepted)} claims confirmed")
    try:
        tsc.check(file, "generalization-errors")
    except CertificateError as error:
        print("for another model:", error)
# --8<-- [end:check]

# --8<-- [start:report]
report = tsc.analyze(model, probes=["cone"])
report.show()
print("report:", report.save("tsc-report/ch5"))
# --8<-- [end:report]
