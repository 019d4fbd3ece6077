"""On a Dask cluster: the same bits, partitions as shards, and workers that are killed on the way."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, WorkerLostError

distributed = pytest.importorskip("distributed", reason="a cluster: pip install dualad[scale]")
dask = pytest.importorskip("dask")
pytest.importorskip("dask.array")

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]

X = np.linspace(0.1, 1.0, 9)
DATA = np.random.default_rng(0).normal(size=(40, 3))
Y = DATA @ np.ones(3)


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


def curve(x):
    return np.sin(x) * x[0]


def test_the_bits_of_the_serial_run(client) -> None:
    local = lambda x: curve(x)
    pool = client.get_executor()
    for transform in (da.jacfwd, da.jacrev, da.jacobian, da.hessian):
        ours = transform(local, chunk_size=2, executor=pool)(X)
        assert ours.tobytes() == transform(local, chunk_size=2)(X).tobytes()
    rows = np.ones((9, 3)) * X[:, None]
    assert da.vmap(local, executor=client, chunk_size=2)(rows).tobytes() == da.vmap(local, chunk_size=2)(rows).tobytes()


def test_a_job_is_sent_once(client) -> None:
    table = np.random.default_rng(0).normal(size=500_000)
    f = lambda i: np.sum(table * i)
    i = np.arange(12.0)
    assert da.map(f, i, executor=client, chunk_size=1).tobytes() == da.map(f, i).tobytes()


def test_many_chunks_are_given_in_few_messages(client, monkeypatch) -> None:
    asked = []
    for name in ("map", "submit", "compute"):
        take = getattr(type(client), name)
        monkeypatch.setattr(
            type(client), name, lambda self, *a, take=take, name=name, **k: asked.append(name) or take(self, *a, **k)
        )
    x = np.arange(40.0)
    out = da.map(np.sin, x, executor=client.get_executor(), chunk_size=1)  # the window is 16
    assert out.tobytes() == np.sin(x).tobytes()
    assert asked.count("map") <= 5 and len(asked) <= 6
    asked.clear()
    rows = dask.array.from_array(DATA, chunks=(4, 3))
    total = da.value_and_grad(lambda w, X: np.sum(np.tanh(X @ w)), in_axes=(None, 0), executor=client)
    value, _ = total(np.ones(3), rows)
    np.testing.assert_allclose(value, np.sum(np.tanh(Y)), rtol=1e-13)
    assert asked == ["compute", "map"]


def test_a_pool_that_is_closed_takes_none(client) -> None:
    pool = client.get_executor()
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        da.map(np.sin, X, executor=pool)


def test_partitions_are_shards(client) -> None:
    array = dask.array

    def loss(w, X, y):
        return np.mean((np.tanh(X @ w) - y) ** 2)

    options = {"in_axes": (None, 0, 0), "reduce": "mean"}
    w = np.full(3, 0.1)
    lengths = (10, 18, 12)
    x, y = array.from_array(DATA, chunks=(lengths, 3)), array.from_array(Y, chunks=(lengths,))
    value, gradient = da.value_and_grad(loss, executor=client.get_executor(), **options)(w, x, y)
    whole = da.value_and_grad(loss)(w, DATA, Y)
    np.testing.assert_allclose(value, whole[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, whole[1], rtol=1e-12)
    with pytest.raises(ArgumentError, match="rechunk"):
        da.value_and_grad(loss, executor=client, **options)(w, x, y.rechunk(20))
    with pytest.raises(ArgumentError, match="not Dask's"):
        da.value_and_grad(loss, **options)(w, x, y)


def test_a_killed_worker_costs_time_and_nothing_else(client) -> None:
    def slow(x):
        time.sleep(0.1)
        return np.sin(x)

    def kill() -> None:
        time.sleep(0.5)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    x = np.arange(24.0)
    for executor in (client.get_executor(), da.resilient(client.get_executor)):
        thread = threading.Thread(target=kill)
        thread.start()
        out = da.map(slow, x, executor=executor, chunk_size=1)
        thread.join()
        assert out.tobytes() == np.sin(x).tobytes()


def test_a_chunk_that_kills_every_worker_is_named(client) -> None:
    def kills(x):
        if x == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    for executor in (client.get_executor(), da.resilient(client.get_executor)):
        with pytest.raises(WorkerLostError, match=r"in rows 5:6 of map\(kills\): the worker died every time"):
            da.map(kills, np.arange(8.0), executor=executor, chunk_size=1)
