"""Can letters that should give a no add up to a yes, and from what length?"""
