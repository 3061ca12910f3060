"""tsc-interp: why a small transformer sequence classifier is right or wrong, exactly."""

from tsc_interp._version import __version__

__all__ = ["__version__"]
