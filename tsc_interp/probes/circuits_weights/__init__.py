"""What do the weights of each head say, before any input?"""
