"""Can a mixture of other letters be mistaken for one the model looks for?"""
