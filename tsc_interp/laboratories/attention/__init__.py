"""What can one head do by construction, and what takes two?"""
