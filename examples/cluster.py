"""An ensemble of simulations and a fit to partitioned data on a Dask cluster, one worker of which is killed on the way.

Predators and prey are simulated for 48 sets of rates, each with the derivatives of where it ends by its rates:
`da.vmap(da.jacfwd(end))`, shared out by `executor=`. Then a logistic loss and its gradient are computed where the
partitions of the data lie, and added up. A cluster of two processes stands for a real one: only its address differs.

Look at the ensemble, which lost a worker and is bit for bit what one process computes; at the gradient, which is that
of the whole data; and, on a terminal, at the bar, of which the dashboard at the printed address shows more.
"""

import os
import signal
import threading
import time

import numpy as np

import dualad as da

START, STEP = np.array([1.0, 0.5]), 0.02
RATES = np.array([1.1, 0.4, 0.1, 0.4])


def end(rates, steps=300):
    """Where predators and prey are after 6 units of time: Runge and Kutta's steps of the Lotka-Volterra equations."""

    def change(y):
        return np.stack([(rates[0] - rates[1] * y[1]) * y[0], (rates[2] * y[0] - rates[3]) * y[1]])

    y = START
    for _ in range(steps):
        k1 = change(y)
        k2 = change(y + STEP / 2 * k1)
        k3 = change(y + STEP / 2 * k2)
        y = y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + change(y + STEP * k3))
    return y


def loss(weights, features, labels):
    """The mean logistic loss of some rows."""
    return np.mean(np.logaddexp(0.0, -labels * (features @ weights)))


def main():
    from dask.array import from_array
    from dask.distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    ensemble = RATES * rng.uniform(0.9, 1.1, (48, 4))
    features, weights = rng.normal(size=(20_000, 10)), np.full(10, 0.1)
    labels = np.sign(features @ np.arange(10.0) + rng.normal(size=20_000))

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        print(f"dashboard: {client.dashboard_link}")
        pids = list(client.run(os.getpid).values())
        threading.Timer(0.5, lambda: os.kill(pids[0], signal.SIGKILL)).start()
        began, pool = time.perf_counter(), client.get_executor()
        ends = da.vmap(da.jacfwd(end), executor=pool, chunk_size=4, progress=True)(ensemble)
        print(f"48 simulations with their derivatives, one worker killed: {time.perf_counter() - began:.1f} s")

        data = from_array(features, chunks=(5_000, 10)), from_array(labels, chunks=5_000)
        both = da.value_and_grad(loss, in_axes=(None, 0, 0), reduce="mean", executor=pool)
        value, gradient = both(weights, *data)

    same = np.array_equal(ends, da.vmap(da.jacfwd(end), chunk_size=4)(ensemble))
    print(f"d(prey)/d(birth rate) from {ends[:, 0, 0].min():.3f} to {ends[:, 0, 0].max():.3f}")
    print(f"bit for bit what one process computes: {same}")
    print(f"loss {value:.6f}, gradient of length {np.linalg.norm(gradient):.6f}, from four partitions")
    whole = da.value_and_grad(loss)(weights, features, labels)
    return {"ends": ends, "same": same, "value": value, "gradient": gradient, "whole": whole}


__dualad__ = {
    "end": [(RATES, 4)],
    "loss": [(np.full(2, 0.1), np.array([[0.3, -1.0], [0.5, 0.2]]), np.array([1.0, -1.0]))],
}

if __name__ == "__main__":
    main()
