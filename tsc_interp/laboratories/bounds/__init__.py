"""What does a validation set say about a model, and what does it not?"""
