"""How many threads small tensors deserve: one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Handing a small operation to several threads takes longer than doing it.

    On a machine with other work, much longer: every operation then waits for the slowest thread.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
