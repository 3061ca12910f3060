"""What is each part needed for?"""
