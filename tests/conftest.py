"""What every test shares: seeds that do not move, no windows, Hypothesis without a clock.

Not for oracles (JAX is configured where it is loaded) nor for shapes and strategies.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import dualad as da
from dualad.base.later import load_everything
from dualad.compile import trust

SEED = 20240229

os.environ.setdefault("MPLBACKEND", "Agg")
# Whoever works on the package wants its frames; test_tracebacks.py sees what users see.
os.environ.setdefault("DUALAD_FULL_TRACEBACK", "1")

# Tests read the whole table of operators.
load_everything()

# What fails inside the compiler fails the test, where users get a slower program.
trust.STRICT = True

# The same examples on every machine and every run; a deadline would make a busy machine a failing one.
settings.register_profile("dualad", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
# `pytest --hypothesis-profile=full`: thousands of other examples each time, for an evening rather than a gate.
settings.register_profile(
    "full", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("dualad")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run what an evening has time for: whole matrices, generators at full size"
    )


@pytest.hookimpl(tryfirst=True)  # before pytest reads the keyword
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked ``full`` out, unless they were asked for; ``-k hypot`` is the operator, not Hypothesis."""
    if config.option.keyword == "hypot":
        config.option.keyword = "hypot and not hypothesis"
    if config.getoption("--full"):
        return
    late = [item for item in items if item.get_closest_marker("full")]
    if late:
        config.hook.pytest_deselected(items=late)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_collection_finish() -> None:
    """Spare every later collection of garbage the tests themselves: a second each in a run of all of them."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    return f"dualad: seed {SEED}, numpy {np.__version__}"


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled code in a directory of this run's, not in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _same_seed() -> None:
    """Fix the global generators, which the code under test may use; tests themselves ask for `rng`."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002


@pytest.fixture(autouse=True)
def _plain(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have no function lifted by itself in tests marked ``plain``: they are about what is refused without."""
    with da.plain() if request.node.get_closest_marker("plain") else contextlib.nullcontext():
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)
