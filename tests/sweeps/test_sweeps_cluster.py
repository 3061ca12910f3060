"""Sweeps on a real Dask cluster: worker processes over TCP, killed and starved in the middle."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import tsc_interp as tsc
from tests.sweeps.test_sweeps import TOML, Counting, Here, quick
from tsc_interp.cli import main
from tsc_interp.errors import TscError, UsageError
from tsc_interp.files import TEMPORARY
from tsc_interp.sweeps import running
from tsc_interp.sweeps.executors import connected

distributed = pytest.importorskip("distributed")

# What is asked of the models does not matter to a cluster.
OFF = {"verify": "off", "ensemble": 2}
HASHES = ["row", "weight_hash"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The same sweep in this process, and its rows."""
    place = tmp_path_factory.mktemp("expected") / "quick"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Processes", lambda count: Here())
        return tsc.sweep(quick(), place, verify="off").table(columns=HASHES)


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            protocol="tcp://",
            host="127.0.0.1",
            # Without an address Dask takes port 8787, and warns if somebody has it.
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def leftovers(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.name.startswith(TEMPORARY)]


@pytest.mark.slow
def test_workers_that_run_out_of_disk_fail_their_ensembles_and_nothing_else(
    client, tmp_path, expected
):
    """A file may have 1,000 bytes there: every write of a shard is refused by the system."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, most))
    watcher = Counting()
    try:
        with pytest.raises(TscError, match="File too large"):
            tsc.sweep(quick(), tmp_path / "a", client=client, watcher=watcher, **OFF)
    finally:
        client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
    assert not watcher.names
    assert not leftovers(tmp_path)
    found = tsc.sweep(quick(), tmp_path / "a", client=client, **OFF)
    assert found.table(columns=HASHES).equals(expected)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_loses_nothing(client, tmp_path, expected):
    pids = list(client.run(os.getpid).values())

    class Killing(Counting):
        def finished(self, task):
            if not self.names:
                os.kill(pids[0], signal.SIGKILL)
            super().finished(task)

    watcher = Killing()
    found = tsc.sweep(quick(), tmp_path / "b", client=client, watcher=watcher, **OFF)
    assert found.table(columns=HASHES).equals(expected)
    assert len(watcher.names) == len(set(watcher.names)) == watcher.plans[0].tasks == 6
    assert not any("could not be made" in text for text in watcher.told)
    assert pids[0] not in client.run(os.getpid).values()


class Processes:
    """A scheduler and a worker of its own, as a person would start them."""

    def __init__(self, place: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self._place = f"tcp://127.0.0.1:{self.port}", place
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        common = ["--host", "127.0.0.1", "--no-dashboard"]
        self._run("scheduler", "--port", str(self.port), *common)
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
                break
            time.sleep(0.1)
        self._run("worker", self.address, *common, "--no-nanny", "--nthreads", "1",
                  "--memory-limit", "0", "--local-directory", str(self._place))  # fmt: skip

    def _run(self, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "dask", *arguments]
        log = (self._place / f"{len(self.started)}.log").open("wb")
        with log:
            self.started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def kill(self, *which: int) -> None:
        for index in which or range(len(self.started)):
            self.started[index].kill()
            self.started[index].wait()


@pytest.fixture
def processes(tmp_path):
    place = tmp_path / "dask"
    place.mkdir()
    found = Processes(place)
    try:
        yield found
    finally:
        found.kill()


@pytest.mark.slow
def test_a_scheduler_killed_and_started_again_is_gone_on_with(processes, tmp_path, expected):
    """The client reconnects, and what is missing is handed out again."""

    class Killing(Counting):
        def finished(self, task):
            super().finished(task)
            if len(self.names) == 1:  # with one worker, at most two of the others are under way
                processes.kill(0, 1)
                processes.start()

    processes.start()
    watcher = Killing()
    with connected(processes.address) as client:
        options = {"verify": "off", "ensemble": 1, "watcher": watcher}
        found = tsc.sweep(quick(), tmp_path / "c", client=client, **options)
    assert any("the scheduler went away" in text for text in watcher.told)
    assert found.table(columns=HASHES).equals(expected)
    assert len(set(watcher.names)) == 10
    assert not leftovers(tmp_path)


def test_what_is_no_cluster_is_refused(tmp_path):
    file = tmp_path / "quick.toml"
    file.write_text(TOML)
    assert main(["sweep", str(file), "--scheduler", "tcp://127.0.0.1:1", "-o", "x"]) == 2
    with pytest.raises(UsageError, match=r"dask\.distributed\.Client"):
        tsc.sweep(quick(), tmp_path / "x", client="tcp://127.0.0.1:1")  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()
