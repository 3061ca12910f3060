"""Which strings a classifier gets wrong, decided for every string and every length.

Three questions, each one function of a `Checkpoint` or a `HookedClassifier`:

    horizon(model)   up to which length is there no error at all, and what is the first one?

Needs numpy, scipy and python-flint; torch only where a counterexample is replayed.
"""

from tsc_interp.verification.horizon import Counterexample, Horizon, horizon

__all__ = ["Counterexample", "Horizon", "horizon"]
