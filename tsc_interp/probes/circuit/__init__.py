"""Which letter does each head read, and do heads repeat each other?"""
