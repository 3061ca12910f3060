"""Classifiers that are written down rather than trained, and how far their margins allow."""
