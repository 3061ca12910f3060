"""The trusted base: what has to be believed for `check` to be believed."""
