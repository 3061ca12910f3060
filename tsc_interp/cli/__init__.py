"""The command line: one file per command, nothing heavy imported until a command runs."""

import sys

try:
    from tsc_interp.cli.app import main
except KeyboardInterrupt:  # Ctrl-C in the first moments: `main` is not there yet to explain it
    sys.stderr.write("tsc-interp: interrupted; nothing was written\n")
    raise SystemExit(130) from None

__all__ = ["main"]
