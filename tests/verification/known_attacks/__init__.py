"""Every false claim that was once accepted: each must be refused, or its sentence be true."""
