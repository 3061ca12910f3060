"""Theorems about a model for the proof assistant Coq: its weights, the statement, and the proof.

The library behind them is the folder `formal/` of the repository; `docs/pages/theory/theorems.md`
says what a theorem is about and what it leaves outside.
"""

from tsc_interp.formal.theorem import Theorem as Theorem
from tsc_interp.formal.theorem import theorem as theorem
