"""Sound bounds on what a model of any depth says of a whole set of inputs."""
