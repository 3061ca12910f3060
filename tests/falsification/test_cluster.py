"""An enumeration on a real Dask cluster, one of whose two workers is killed in the middle."""

from __future__ import annotations

import os
import signal

import pytest

import tsc_interp as tsc
from tests.falsification.models import random_model
from tests.sizes import THOROUGH
from tsc_interp.falsification import enumerating

distributed = pytest.importorskip("distributed")
FRAME = tsc.Frame(before=[6], places=6, letters=range(5), after=[5], read=-1)


@pytest.mark.skipif(not THOROUGH, reason="starts a cluster: TSC_THOROUGH=1")
def test_an_enumeration_survives_a_killed_worker(monkeypatch):
    monkeypatch.setattr(enumerating, "_CHUNK", 512)
    asked = {"label": lambda rows: rows[:, 2], "frame": FRAME, "exhaustive": True}
    here = tsc.falsify(random_model(3), **asked)
    assert here.enumerated.inputs == FRAME.count()
    killed = []

    def kill(doing):
        if not killed and doing.startswith("enumerated"):
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        there = tsc.falsify(random_model(3), **asked, client=client, progress=kill, seconds=300)
    assert killed
    assert there == here
