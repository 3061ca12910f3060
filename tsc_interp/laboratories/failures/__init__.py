"""Are failures predictable from the problem, and are wrong answers roughly right?"""
