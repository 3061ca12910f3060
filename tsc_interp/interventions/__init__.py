"""Interventions as data: what is changed, how, and what that makes of the model."""
