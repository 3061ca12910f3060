"""Who does the tasks: processes of this machine, or the workers of a Dask cluster.

Both give `concurrent.futures` futures, so a sweep is run in the same way on either. Retries,
spilling and what happens when a worker dies on a cluster are Dask's; here a process that dies takes
the pool with it (that is how the standard library has it), and a new pool goes on.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from tsc_interp.errors import TscError, UsageError, needed, shorten
from tsc_interp.processes import cores
from tsc_interp.training.sharing import end_with_parent

if TYPE_CHECKING:
    from distributed import Client

_RETRIES = 2
"""How often Dask tries a task again, on whichever worker; a worker's death does not count."""
_PATIENCE = 60.0
"""Seconds to wait for a scheduler that went away, and for the first worker."""
_ASK_AGAIN = 5.0
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


class Lost(Exception):
    """Workers, or the scheduler, went away with what was handed out; the reason, in words."""


class Pool(Protocol):
    """Something that does tasks, open."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]: ...

    def kill(self) -> None:
        """Stop at once what can be stopped."""


class Workers(Protocol):
    @property
    def count(self) -> int:
        """How many tasks can be at work at a time."""

    in_flight: int
    """How many more are handed out for each of them, so that none waits for its next one."""

    def opened(self) -> Any:
        """A context that holds a `Pool`."""

    def recover(self) -> None:
        """After a loss: wait until there are workers again, or say that there are none."""


def is_loss(error: BaseException) -> str | None:
    """In words, if the error says that a task was lost rather than that it failed."""
    if isinstance(error, BrokenProcessPool):
        return "a worker process ended abruptly (out of memory, or killed)"
    if isinstance(error, CancelledError):
        return "the scheduler went away, or dropped the tasks"
    return None


# -- this machine --------------------------------------------------------------------------------


class Processes:
    """Fresh processes, one thread each; they leave Ctrl-C to the process that started them.

    Without a count, one for every core this process may use.
    """

    in_flight = 0

    def __init__(self, count: int | None = None) -> None:
        self.count = count or cores()

    @contextmanager
    def opened(self) -> Iterator[Pool]:
        with _environment(dict.fromkeys(_ONE_THREAD, "1")):
            pool = _ProcessPool(self.count)
            try:
                yield pool
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def recover(self) -> None:
        """A new pool is all it takes."""


class _ProcessPool(ProcessPoolExecutor):
    def __init__(self, count: int) -> None:
        self._others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        super().__init__(count, context, initializer=_begin_worker)

    def kill(self) -> None:
        for child in set(multiprocessing.active_children()) - self._others:
            child.terminate()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    """For processes that are started meanwhile: libraries read these when they are loaded."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -- a cluster -----------------------------------------------------------------------------------


class Cluster:
    """The workers that a Dask client's scheduler has."""

    in_flight = 1

    def __init__(self, client: Client) -> None:
        self._client, self._count, self._asked = client, 1, -math.inf

    @property
    def count(self) -> int:
        """Asked of the scheduler now and then: workers come and go."""
        if monotonic() - self._asked > _ASK_AGAIN:
            with suppress(OSError):  # it is away; its tasks will be lost, and that is seen
                self._count = max(1, int(sum(self._client.nthreads().values())))
            self._asked = monotonic()
        return self._count

    @contextmanager
    def opened(self) -> Iterator[Pool]:
        pool = _ClusterPool(self._client)
        try:
            yield pool
        finally:
            pool.kill()

    def recover(self) -> None:
        _wait_for_workers(self._client)
        self._asked = -math.inf


class _ClusterPool:
    """Dask's futures as standard ones, told how tasks ended; what they return is not fetched.

    Dask's own executor fetches it, and waits for ever when the scheduler dies meanwhile.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._futures = client, WeakSet[Any]()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        remote = self._client.submit(function, *arguments, retries=_RETRIES, pure=False)
        self._futures.add(remote)

        def tell(ended: Any) -> None:
            if ended.status == "finished":
                future.set_result(None)
            elif ended.status == "error":
                future.set_exception(ended.exception())
            else:
                future.set_exception(CancelledError())

        # The future must live as long as anybody waits: Dask drops tasks that nobody holds.
        future.asked = remote  # type: ignore[attr-defined]
        remote.add_done_callback(tell)
        return future

    def kill(self) -> None:
        with suppress(Exception):  # a client that is closed, or a scheduler that is not there
            self._client.cancel(list(self._futures))


def cluster(client: Any) -> Cluster:
    """The workers behind a client, of which there must be one at least."""
    if not hasattr(client, "submit") or not hasattr(client, "nthreads"):
        raise UsageError(f"client is a dask.distributed.Client, got {shorten(client)}")
    _wait_for_workers(client)
    return Cluster(client)


@contextmanager
def connected(address: str | None) -> Iterator[Client | None]:
    """A client of the scheduler at an address, closed in the end; none where there is none."""
    if address is None:
        yield None
        return
    client = _connect(address)
    try:
        yield client
    finally:
        client.close()


def _connect(address: str) -> Client:
    distributed = needed("distributed", "a cluster", "'tsc-interp[cluster]'")
    try:
        # Dask itself would try for as long as it will wait for a scheduler that goes away later.
        parts = urlsplit(address)
        socket.create_connection((parts.hostname or "", parts.port or 8786), timeout=5).close()
        client: Client = distributed.Client(address, timeout=_PATIENCE)
        return client
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {shorten(address)} ({type(error).__name__}); start one "
            "with 'dask scheduler', and workers with 'dask worker ADDRESS --nworkers -1'"
        ) from None


def _wait_for_workers(client: Any) -> None:
    """Until the scheduler answers and has a worker."""
    ends = monotonic() + _PATIENCE
    while monotonic() < ends and client.status in ("running", "connecting"):
        try:
            if client.status == "running" and client.nthreads():
                return
        except (OSError, ValueError, RuntimeError):
            pass  # it went away while it was asked
        sleep(0.2)
    raise ClusterGone(
        f"the cluster has had no scheduler and worker for {_PATIENCE:.0f} s; finished ensembles "
        "are kept, and the same command goes on from there"
    )


class ClusterGone(TscError):
    """No scheduler, or none of its workers, is there any more."""
