"""How small can a classifier be that is right up to a length, or at every length?"""
