"""Chunks on executors: what one worker costs, what two give, how far sleep tasks scale, map-reduce beside dask.delayed.

`python -m benchmarks.scale` prints the curve of the page "How far it scales", with CPU seconds beside wall time, and
the model beside it. Sleep tasks measure the driver alone: they need no core. Not for: what a chunk computes.
"""

import atexit
import functools
import math
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import dualad as da
from benchmarks.harness import Budget, Work

__all__ = ["works"]

SLEEP = 0.05


def pool(workers):
    made = ProcessPoolExecutor(workers)
    atexit.register(made.shutdown, wait=False, cancel_futures=True)
    list(made.map(abs, range(4 * workers)))  # so that all processes are there
    return made


def timed(call):
    def seconds():
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return seconds


def sleeper(seconds):
    time.sleep(seconds)
    return seconds


def simulate(theta, steps):
    y = theta
    for _ in range(steps):
        y = y + 0.01 * np.sin(y + np.roll(y, 1)) * theta
    return y


def jacobian(steps, **options):
    x = np.linspace(0.1, 1.0, 200)
    return lambda: da.jacfwd(lambda t: simulate(t, steps), **options)(x)


def one_worker(steps):
    """Serial against one process; 50 milliseconds are allowed, and taken off."""

    def build():
        call = timed(jacobian(steps, executor=pool(1), chunk_size=200))
        return lambda: call() - 0.05

    contenders = {"one worker, less 50 ms": build, "serial": lambda: timed(jacobian(steps, chunk_size=200))}
    budgets = (Budget("≤ 1.10× serial", "one worker, less 50 ms", "serial", at_most=1.10),)
    title = f"Jacobian of {steps} steps, 200 columns, one process worker"
    return Work("scale-one", title, contenders, budgets, self_timed=True)


def two_workers(steps):
    contenders = {
        "two workers": lambda: timed(jacobian(steps, executor=pool(2))),
        "serial": lambda: timed(jacobian(steps, chunk_size=100)),
    }
    budgets = (Budget("serial ≥ 1.7× as long, on two free cores", "serial", "two workers", at_least=1.7),)
    title = f"Jacobian of {steps} steps, 200 columns in two chunks, two process workers"
    return Work("scale-two", title, contenders, budgets, self_timed=True)


def sleepers(workers):
    count = 4 * workers
    run = lambda made: lambda: da.map(sleeper, np.full(count, SLEEP), executor=made, chunk_size=1)
    contenders = {"dualad": lambda: timed(run(pool(workers))), "ideal": lambda: lambda: 4 * SLEEP}
    budgets = (Budget(f"≥ 0.9 · {workers}", "ideal", "dualad", at_least=0.9),)
    return Work(f"scale-sleep-{workers}", f"{count} sleeps of 50 ms, {workers} workers", contenders, budgets,
                self_timed=True)  # fmt: skip


def reduced(rows):
    """A logistic loss over partitions, on two workers of a Dask cluster."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(rows, 50)), np.full(50, 0.1)
    y = np.sign(X @ rng.normal(size=50) + rng.normal(size=rows))
    parts = 20

    def loss(w, X, y):
        return np.mean(np.logaddexp(0.0, -y * (X @ w)))

    @functools.cache
    def client():
        from dask.array import from_array
        from dask.distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        connected = Client(cluster)
        atexit.register(lambda: (connected.close(), cluster.close()))
        size = math.ceil(rows / parts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the data is large
            data = from_array(X, chunks=(size, 50)).persist(), from_array(y, chunks=size).persist()
        return connected, data

    def ours():
        connected, data = client()
        both = da.value_and_grad(loss, in_axes=(None, 0, 0), reduce="mean", executor=connected.get_executor())
        return lambda: both(w, *data)

    def by_hand():
        from dask import delayed

        connected, data = client()

        def add(a, b):
            return a[0] + b[0], a[1] + b[1]

        def graph():
            each = delayed(da.value_and_grad(loss), pure=False)
            found = [each(w, a, b) for a, b in zip(*[np.ravel(x.to_delayed()) for x in data], strict=True)]
            while len(found) > 1:
                pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
                found = [delayed(add, pure=False)(*p) if len(p) == 2 else p[0] for p in pairs]
            value, gradient = connected.compute(found[0]).result()
            return value / parts, gradient / parts

        return graph

    budgets = (Budget("≤ 1.1× dask.delayed", "dualad", "dask.delayed", at_most=1.1),)
    title = f"logistic loss and gradient, {rows} rows × 50, 20 partitions, two Dask workers"
    return Work("scale-reduce", title, {"dualad": ours, "dask.delayed": by_hand}, budgets)


def works(quick):
    steps = 300 if quick else 3000
    return [
        one_worker(steps),
        two_workers(steps),
        *[sleepers(w) for w in ((2, 4) if quick else (2, 4, 8, 16))],
        reduced(40_000 if quick else 400_000),
    ]


# ── the curve ────────────────────────────────────────────────────────────────────────────────────────────────────


def predicted(lanes, workers, size, lane, dispatch, payload):
    """The model: rounds of chunks, each of which pays its dispatch; and the job on its way."""
    return math.ceil(lanes / (workers * size)) * (dispatch + size * lane) + payload


def curve():
    """Print how sleep tasks scale to 100 workers, beside the model, and what a chunk costs the driver."""
    warnings.simplefilter("ignore")
    print("sleep tasks, 4 for each worker; the model has 1 ms of dispatch and 5 ms of payload")
    for workers, seconds in ((1, 0.05), (2, 0.05), (4, 0.05), (8, 0.05), (16, 0.05), (16, 0.5), (32, 0.5), (100, 0.5)):
        made, count = pool(workers), 4 * workers
        walls, cpus = [], []
        for _ in range(3):
            cpu, wall = time.process_time(), time.perf_counter()
            da.map(sleeper, np.full(count, seconds), executor=made, chunk_size=1)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        made.shutdown()
        wall, cpu = sorted(walls)[1], sorted(cpus)[1]
        model = predicted(count, workers, 1, seconds, 0.001, 0.005)
        print(
            f"{workers:4} workers, {1000 * seconds:.0f} ms: {wall:.3f} s, model {model:.3f} s;"
            f" {count * seconds / wall:5.1f} of {workers} times as fast; {1000 * cpu / count:.2f} ms of CPU a chunk"
        )
    for chunks in (1, 2, 4, 8, 20):
        call, made = jacobian(3000, chunk_size=200 // chunks), pool(2)
        shared = jacobian(3000, chunk_size=200 // chunks, executor=made)
        rows = []
        for run in (call, shared):
            run()
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            rows.append((time.process_time() - cpu, time.perf_counter() - wall))
        made.shutdown()
        print(f"{chunks:3} chunks: here {rows[0][0]:.2f} s of CPU, {rows[0][1]:.2f} s; two workers {rows[1][1]:.2f} s,"
              f" of which {rows[1][0]:.2f} s of CPU at home")  # fmt: skip


if __name__ == "__main__":
    sys.exit(curve())
