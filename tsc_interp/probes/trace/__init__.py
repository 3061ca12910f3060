"""What happens to a string on its way to a logit?"""
