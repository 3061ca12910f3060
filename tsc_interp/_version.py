"""The version, in one place: the build reads it, and so does `tsc-interp --version`."""

__version__ = "0.1.0"
