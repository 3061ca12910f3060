"""Probes of other packages, by entry point.

    [project.entry-points."tsc_interp.probes"]
    longest-run = "tsc_longest_run:longest_run"

An installed package names a `Probe` this way, as `@probe` makes it. What cannot be loaded is listed
with the reason and keeps nobody else from loading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from tsc_interp.errors import TscError, shorten
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.probe import Probe
from tsc_interp.results.base import ProbeResult

GROUP = "tsc_interp.probes"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Broken:
    """A probe that is installed and cannot be asked."""

    name: str
    package: str
    reason: str

    def sentence(self) -> str:
        return f"{self.name} of {self.package} cannot be loaded: {self.reason}"


@dataclass(frozen=True)
class Plugins:
    probes: tuple[Probe, ...]
    packages: tuple[str, ...]
    """Where each comes from, `name version`."""
    broken: tuple[Broken, ...]


def load_plugins(taken_names: Collection[str]) -> Plugins:
    """Every probe of the group whose name is not taken, in the order of their names."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    times = Counter(entry.name for entry in entries)
    probes, packages, broken = [], [], []
    for entry in entries:
        known = entry.dist
        package = entry.value.split(":")[0] if known is None else f"{known.name} {known.version}"
        try:
            if entry.name in taken_names:
                raise TscError("a probe of tsc-interp has this name already")
            if times[entry.name] > 1:
                raise TscError("another package has a probe of this name; uninstall one of them")
            probes.append(_load(entry))
            packages.append(package)
        except Exception as error:  # whatever somebody else's code does
            broken.append(Broken(entry.name, package, one_line(error)))
    return Plugins(tuple(probes), tuple(packages), tuple(broken))


def one_line(error: BaseException) -> str:
    """An error of ours in its own words, any other with its kind."""
    first = (str(error).strip().splitlines() or [""])[0][:200]
    return first if isinstance(error, TscError) else f"{type(error).__name__}: {first}".rstrip(": ")


def _load(entry: EntryPoint) -> Probe:
    probe = entry.load()
    if not isinstance(probe, Probe):
        raise TscError(
            f"{entry.value} is {shorten(probe)}, expected a tsc_interp.probes.probe.Probe"
        )
    if probe.name != entry.name or not _NAME.fullmatch(probe.name):
        raise TscError(
            f"its Probe is called {probe.name!r} and its entry point {entry.name!r}: one name, "
            "of small letters, digits and hyphens, is needed"
        )
    if probe.function is None:
        raise TscError("its Probe has no function; @probe makes one of a function")
    if others := set(probe.accepts) - set(Inputs.OPTIONS):
        raise TscError(
            f"its Probe accepts {', '.join(sorted(others))}; a probe may accept "
            f"{', '.join(Inputs.OPTIONS)}"
        )
    result = probe.result_type
    if not (isinstance(result, type) and issubclass(result, ProbeResult)):
        raise TscError(f"{getattr(result, '__name__', result)} is no ProbeResult")
    if result.probe != probe.name:
        raise TscError(f"{result.__name__}.probe is {result.probe!r}, expected {probe.name!r}")
    return probe
