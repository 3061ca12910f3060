"""Order-sensitive models: every string of a length, decided by branch and bound."""
