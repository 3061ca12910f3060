"""Which edges of the model answer every string as the whole model does?"""
