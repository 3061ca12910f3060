"""The command line: one file per command, nothing heavy imported until a command runs."""

from tsc_interp.cli.app import main

__all__ = ["main"]
