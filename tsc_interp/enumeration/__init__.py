"""Single inputs of a model of any depth, decided one by one, in float64 or balls."""
