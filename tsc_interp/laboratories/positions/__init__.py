"""What do positions cost, and what do they make possible?"""
