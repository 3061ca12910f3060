"""How many other letters does it take before a head loses the one it reads?"""
