"""Which activations make the difference between two strings?"""
