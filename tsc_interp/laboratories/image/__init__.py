"""How does attention find the place in a picture that a sentence names?"""
