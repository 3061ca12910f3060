"""When does pre-training on corrupted strings help?"""
