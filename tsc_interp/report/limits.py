"""What a report leaves out of a large model: questions that would take minutes, each with a reason.

Costs grow with the number of heads in all layers (each is drawn, most are searched), with depth
(exact bounds through a layer are slow) and with the number of parameters. The limits keep every
question below some ten seconds on one core; a probe that is named is asked of any model.
"""

from __future__ import annotations

from dataclasses import dataclass

from tsc_interp.config import ClassifierConfig

_ANY = 10**12


@dataclass(frozen=True)
class Limit:
    heads: int = _ANY
    """In all layers together."""
    layers: int = _ANY
    parameters: int = _ANY

    def exceeded(self, config: ClassifierConfig, parameters: int) -> str | None:
        """The first limit that a model is beyond, in words."""
        for name, size, most in (
            ("heads", config.n_layers * config.n_heads, self.heads),
            ("layers", config.n_layers, self.layers),
            ("parameters", parameters, self.parameters),
        ):
            if size > most:
                return f"this model has {size:,} {name}, and this is asked of up to {most:,}"
        return None


EXACT = Limit(heads=64, layers=4)
"""For the horizon of the verdict too."""

LIMITS = {
    "trace": Limit(heads=256),
    "superposition": Limit(heads=256),
    "cone": Limit(heads=64, parameters=250_000),
    "margin": Limit(heads=64, parameters=250_000),
    "specialization": Limit(heads=128),
    "atlas": EXACT,
    "init-norm": Limit(heads=256, layers=16),
    "dynamics": EXACT,
}


def left_out(probe: str, config: ClassifierConfig, parameters: int) -> str | None:
    """Why a probe is not asked unless it is named; None if it is."""
    found = LIMITS.get(probe, Limit()).exceeded(config, parameters)
    return found and f"{found}, to save time; --probe {probe} asks it all the same"
