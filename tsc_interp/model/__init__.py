"""The classifier: inputs, initial weights, the forward pass, and the hooked module around it."""
