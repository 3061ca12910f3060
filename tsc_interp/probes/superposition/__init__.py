"""Can a mixture of other letters imitate a letter the model looks for?"""
