"""Study: general verifiers of neural networks on the same questions."""
