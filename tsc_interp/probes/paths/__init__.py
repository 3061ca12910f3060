"""Along which edges does the difference between two strings travel?"""
