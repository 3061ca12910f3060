"""Fixtures every test file shares. Sizes differ pairwise, so that a swapped axis cannot pass."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import shutil
import tempfile
import warnings

import pytest

# Two test processes share two cores; more threads than that only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests draw their own data, once for all processes of a session, instead of trusting whatever is in
# somebody's cache. The first process makes the folder; the others inherit its name.
if "TSC_CACHE" not in os.environ:
    os.environ["TSC_CACHE"] = tempfile.mkdtemp(prefix="tsc-tests-")
    atexit.register(shutil.rmtree, os.environ["TSC_CACHE"], ignore_errors=True)

with warnings.catch_warnings():
    # TransformerLens and what it imports warn on import; that is theirs to mend.
    warnings.simplefilter("ignore")
    import transformer_lens  # noqa: F401

from hypothesis import settings
from jaxtyping import config as shapes
from jaxtyping import install_import_hook

from tests.sizes import THOROUGH
from tsc_interp.config import ClassifierConfig

# Shape annotations of the model are checked at every call in the tests of these rooms, and in all
# tests with TSC_THOROUGH=1: checking them takes a fifth of the time of a forward pass.
CHECK_SHAPES = ("model", "training")
with install_import_hook(
    ["tsc_interp.model.inputs", "tsc_interp.model.forward"], "beartype.beartype"
):
    from tsc_interp.model.hooked import HookedClassifier, load

settings.register_profile("tsc", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("tsc")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser on a busy machine may miss a frame: its tests, no others, get two more tries."""
    if importlib.util.find_spec("pytest_rerunfailures"):
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_runtest_setup(item: pytest.Item) -> None:
    shapes.update("jaxtyping_disable", not THOROUGH and item.path.parent.name not in CHECK_SHAPES)


def pytest_collection_finish() -> None:
    """What was imported stays: no garbage collection looks at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """xdist tells its workers a width; a test that wants one sets it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def odd_config() -> ClassifierConfig:
    """Five letters, width 7, three heads of size 2, an MLP of 11: no two sizes alike."""
    return ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11)


@pytest.fixture
def odd_model(odd_config: ClassifierConfig) -> HookedClassifier:
    return HookedClassifier(odd_config, seed=3)


@pytest.fixture(scope="session")
def walkthrough() -> HookedClassifier:
    return load("walkthrough")
