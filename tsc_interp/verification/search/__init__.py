"""Branch and bound over count vectors: the first error, and proofs that there is none."""
