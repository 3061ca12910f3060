"""Chapter 4: what makes a model fail later, or not at all.

    python examples/ch4_improving_generalization.py

This script repeats the report's experiments on attention, data, initialisation, dimensionality and
heads, with many seeds at a time. It judges each model twice: by its errors on the report's 9,984
test strings, and by its exact horizon.
"""

# --8<-- [start:setup]
import atexit
import tempfile

import numpy as np

import tsc_interp as tsc
from tsc_interp.plots.style import INK, MUTED, Figure, new_figure
from tsc_interp.reproduction.experiments import experiment_named
from tsc_interp.training.experiments import Experiment

place = tempfile.TemporaryDirectory()
atexit.register(place.cleanup)
horizons: dict[str, list[int]] = {}
errors: dict[str, list[int]] = {}


def train_and_judge(wanted: str | Experiment) -> None:
    """Train an experiment, or one of the report's by name, and print the result of each seed."""
    experiment = experiment_named(wanted) if isinstance(wanted, str) else wanted
    name = experiment.name
    runs = tsc.train(experiment.jobs(), place.name)
    errors[name] = [run.result.test.errors for run in runs]
    found = [tsc.horizon(run.directory.checkpoint(run.result.chosen_epoch)) for run in runs]
    horizons[name] = [one.verified_length for one in found]
    print(f"{name}\n  seed  epoch  false pos.  false neg.  horizon  first error")
    for run, one in zip(runs, found, strict=True):
        (_, positives), (negatives, _) = run.result.test.confusion_matrix
        first = one.shortest.string if one.shortest else "none up to 10^6"
        print(
            f"  {run.result.seed:4}  {run.result.chosen_epoch:5}  {positives:10,}  "
            f"{negatives:10,}  {one.verified_length:7,}  {first}"
        )


# --8<-- [end:setup]

# --8<-- [start:baseline]
train_and_judge("all_initializations")
# --8<-- [end:baseline]

# --8<-- [start:attention]
train_and_judge("attend_cls")
attending = tsc.load("attend-cls")
for string in ("aac", "baac", "ac{100}", "a{100}b", "c", "c{100}"):
    pattern = attending.run_with_cache(string)[1]["blocks.0.attn.hook_pattern"][0, :, 0, 0]
    print(f"{string:8} weight of CLS, by head: {pattern[0]:.4f} {pattern[1]:.4f}")
# --8<-- [end:attention]

# --8<-- [start:data]
# The report trains two seeds on all strings of length 9. Two say little, so here are eight, beside
# a balanced stream of the same length.
every_string = {"kind": "all_strings", "length": 9}
sources = {"all_strings_of_length_9": every_string, "balanced_up_to_length_9": {"max_length": 9}}
for source, options in sources.items():
    train_and_judge(tsc.Experiment.of(source, "0..7", training={"train": options}))
for source in sources:
    print(
        f"{source}: median of test errors {np.median(errors[source]):,.0f}, "
        f"of horizons {np.median(horizons[source]):,.0f}"
    )
# --8<-- [end:data]

# --8<-- [start:width]
train_and_judge("increased_dimensionality")
# --8<-- [end:width]

# --8<-- [start:magnitude]
train_and_judge("lower_magnitude_initializations")
train_and_judge("default_embeddings_initialization")
# --8<-- [end:magnitude]

# --8<-- [start:heads]
train_and_judge("increased_num_attention_heads")
# --8<-- [end:heads]

# --8<-- [start:picture]
plot = new_figure("horizon (letters)", height=110 + 44 * len(horizons))
for row, (name, lengths) in enumerate(horizons.items()):
    spread = np.linspace(-0.22, 0.22, len(lengths)) if len(lengths) > 1 else np.zeros(1)
    plot.add_scatter(
        x=np.maximum(lengths, 0.7),
        y=row + spread,
        mode="markers",
        name=name,
        marker={"color": MUTED[0], "size": 9, "opacity": 0.8},
        hovertemplate="%{text}<extra></extra>",
        text=[f"{name}: horizon {length:,}" for length in lengths],
    )
plot.add_vline(x=200, line={"color": INK, "dash": "dash", "width": 1.5})
plot.add_annotation(
    x=np.log10(200),
    y=1,
    yref="paper",
    text="longest test string",
    xanchor="right",
    yanchor="bottom",
)
plot.update_xaxes(type="log")
plot.update_yaxes(
    tickvals=list(range(len(horizons))),
    ticktext=[name.replace("_", " ") for name in horizons],
    autorange="reversed",
    zeroline=False,
)
medians = {name: float(np.median(lengths)) for name, lengths in horizons.items()}
figure = Figure(
    name="horizons",
    title="How long each trained model stays right",
    figure=plot,
    caption="One dot per seed: the largest length up to which the model makes no error at all. "
    "Right of the dashed line, no string as long as those of the test set is wrong.",
    alt="Horizons by experiment; medians: "
    + ", ".join(f"{name.replace('_', ' ')} {median:,.0f}" for name, median in medians.items()),
)
for name, median in medians.items():
    print(f"{name:34} median horizon {median:8,.1f}")
# --8<-- [end:picture]

# --8<-- [start:report]
report = tsc.analyze("lower-magnitude", probes=["specialization", "cone"])
report.show()
print("report:", report.save("tsc-report/ch4"))
# --8<-- [end:report]
