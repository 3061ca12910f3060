"""How did the model become what it is, epoch by epoch?"""
