"""How large is everything at initialisation, and what did training make of it?"""
