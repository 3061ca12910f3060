"""Benchmarks, and the plain implementation they compare with. `python -m benchmarks` runs them."""
