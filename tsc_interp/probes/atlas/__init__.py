"""Which strings does the model get wrong, over all lengths at once?"""
