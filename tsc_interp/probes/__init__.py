"""One question per folder: `run` takes a hooked model and strings, and returns a frozen result."""
