"""How much noise on a key does it take to change answers?"""
