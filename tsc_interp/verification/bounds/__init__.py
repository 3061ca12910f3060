"""Exact evaluation and sound bounds of a model over sets of count vectors."""
