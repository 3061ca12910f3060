"""What every analysis returns: findings, tables, labelled arrays."""
