"""Thousands to millions of models: grids and seeds, packed into ensembles, trained and verified.

definition   what is wanted, from a TOML file or in Python, and the number of each model's row
packing      the models still missing, as tasks: one task is one ensemble
work         one task: train, test, verify, write the weights and the rows
running      all tasks, on this machine's cores or on a Dask cluster
directory    what is on disk: `Sweep`, its table and its models
"""

from tsc_interp.sweeps.definition import Definition, load_definition
from tsc_interp.sweeps.directory import Sweep
from tsc_interp.sweeps.running import sweep

__all__ = ["Definition", "Sweep", "load_definition", "sweep"]
