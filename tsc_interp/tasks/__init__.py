"""Tasks: rules on letter counts, finite automata and transducers.

    Automaton, Regex            a task of your own, as a table or as a regular expression
    ContainsAll, AtLeast, Parity, Majority, MostFrequent, Maximum       on counts of letters
    Before, EndsWith, Brackets, SumSign, Palindrome                     on their order
    Addition, Copy, Reverse, Transducer                                 what a model writes
    Framed, FramedWriting       any of these, for inputs with fixed tokens (`tsc.Frame`)
    Listed                      what a plain function of tokens is kept as

All inputs of one length are the paths of a `Trellis` (`trellis_of`), sets of them `Regions`.
"""

from tsc_interp.tasks.automaton import Automaton
from tsc_interp.tasks.base import OwnTask, trellis_of
from tsc_interp.tasks.counts import (
    AtLeast,
    ContainsAll,
    Majority,
    Maximum,
    MostFrequent,
    Parity,
)
from tsc_interp.tasks.framed import Framed, FramedWriting
from tsc_interp.tasks.function import Listed
from tsc_interp.tasks.machine import Machine
from tsc_interp.tasks.order import Before, Brackets, EndsWith, Palindrome, SumSign
from tsc_interp.tasks.regex import Regex
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Transducer
from tsc_interp.tasks.trellis import Stage, Trellis
from tsc_interp.tasks.writing import Addition, Copy, Reverse

__all__ = [
    "Addition",
    "AtLeast",
    "Automaton",
    "Before",
    "Brackets",
    "ContainsAll",
    "Copy",
    "EndsWith",
    "Framed",
    "FramedWriting",
    "Listed",
    "Machine",
    "Majority",
    "Maximum",
    "MostFrequent",
    "OwnTask",
    "Palindrome",
    "Parity",
    "Regex",
    "Regions",
    "Reverse",
    "Stage",
    "SumSign",
    "Transducer",
    "Trellis",
    "trellis_of",
]
