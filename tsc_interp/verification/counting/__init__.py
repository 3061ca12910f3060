"""How many strings up to a length are right, wrong and undecided."""
