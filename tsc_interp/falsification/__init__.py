"""The simplest input a model gets wrong: search, shrinking, and an exact second opinion."""
