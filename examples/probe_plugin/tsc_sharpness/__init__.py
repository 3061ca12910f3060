"""How sharply does each head look? A probe for tsc-interp, in a package of its own."""

from tsc_interp.probes.probe import Probe

PROBE = Probe(
    name="sharpness",
    title="How sharply heads look",
    question="How much of its weight does each head give to the one token it looks at most?",
    result="SharpnessResult",
    folder="tsc_sharpness",
    any_model=True,
    accepts=("query", "attention_mask"),
)
