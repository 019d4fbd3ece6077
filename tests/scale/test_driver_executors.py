"""Kinds of executors: loky's, with which joblib works, is a pool of processes like Python's own."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import dualad as da
from dualad.errors import WorkerLostError
from dualad.scale.driver import identify_executor

loky = pytest.importorskip("loky", reason="pip install loky")

pytestmark = pytest.mark.full

X = np.linspace(0.1, 1.0, 9)


def curve(x):
    return np.sin(x) * x[0]


def test_the_bits_of_the_serial_run() -> None:
    rows = np.ones((9, 3)) * X[:, None]
    with loky.ProcessPoolExecutor(2) as pool:
        assert (identify_executor(pool).kind, identify_executor(pool).workers) == ("processes", 2)
        for transform in (da.jacfwd, da.jacrev, da.jacobian, da.hessian):
            ours = transform(curve, chunk_size=5, executor=pool)(X)
            assert ours.tobytes() == transform(curve, chunk_size=5)(X).tobytes()
        ours = da.vmap(lambda x: curve(x), executor=pool, chunk_size=2)(rows)
        assert ours.tobytes() == da.vmap(curve, chunk_size=2)(rows).tobytes()


@pytest.mark.parametrize("factory", [lambda: loky.ProcessPoolExecutor(2), lambda: loky.get_reusable_executor(2)])
def test_workers_that_are_killed(factory, tmp_path) -> None:
    def deadly(x):
        if x == 5:
            try:
                os.close(os.open(tmp_path / "mark", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return np.sin(x)
            os.kill(os.getpid(), signal.SIGKILL)
        return np.sin(x)

    x = np.arange(12.0)
    with pytest.raises(WorkerLostError, match="resilient"):
        da.map(deadly, x, executor=factory(), chunk_size=1)
    os.unlink(tmp_path / "mark")
    with da.resilient(factory) as pool:
        assert da.map(deadly, x, executor=pool, chunk_size=1).tobytes() == np.sin(x).tobytes()
        assert pool.rebuilt == 1
