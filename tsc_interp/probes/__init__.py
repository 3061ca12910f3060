"""One question per file: each takes a hooked model and strings, and returns a frozen result."""
