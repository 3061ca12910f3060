"""Experiments from the other sources, one per folder: `run` takes options, returns a result."""
