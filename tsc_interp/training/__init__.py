"""Training: many seeds in one loop, every epoch kept, killed runs resumed."""
