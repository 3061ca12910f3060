"""The trusted base: the code that you have to trust when `check` accepts a certificate."""
