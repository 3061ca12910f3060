"""Study: one-layer models of our own on tasks of order, every string decided."""
