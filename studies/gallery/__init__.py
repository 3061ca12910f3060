"""Study: the simplest wrong inputs of public TransformerLens models of one to three layers."""
