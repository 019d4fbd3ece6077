"""Lazy arrays (Dask's): a data-parallel gradient, and ``python -m benchmarks.lazy``, the sizes of the graphs.

The same loss over a table of rows in partitions: a gradient per partition and a tree of sums, by hand and by
``value_and_grad``, and one graph of lazy arrays, operation by operation. Not for: executors and clusters.
"""

import importlib

import numpy as np

import dualad as da
from benchmarks.harness import Budget, Work

__all__ = ["works"]

PARTITIONS = 10


def loss(w, rows, signs):
    """The logistic loss, summed."""
    return np.sum(np.logaddexp(0.0, -signs * (rows @ w)))


def by_hand(w, rows, signs):
    """Value and gradient of `loss`."""
    margin = signs * (rows @ w)
    return np.append(np.sum(np.logaddexp(0.0, -margin)), -(signs / (1.0 + np.exp(margin))) @ rows)


def by_dualad(w, rows, signs):
    return np.append(*da.value_and_grad(loss)(w, rows, signs))


def total(parts):
    return sum(parts)


def mapped(function, w, rows, signs):
    """One call per partition, and the sum of what they return."""
    delayed = importlib.import_module("dask").delayed
    parts = zip(np.array_split(rows, PARTITIONS), np.array_split(signs, PARTITIONS), strict=True)
    parts = [delayed((r, s)) for r, s in parts]
    graph = delayed(total)([delayed(function)(w, part[0], part[1]) for part in parts])
    return lambda: graph.compute(scheduler="threads", num_workers=2)


def lazily(w, rows, signs):
    dask = importlib.import_module("dask")
    array = importlib.import_module("dask.array")
    size = -(-len(rows) // PARTITIONS)
    table, column = array.from_array(rows, chunks=(size, -1)), array.from_array(signs, chunks=size)
    value, gradient = da.value_and_grad(loss)(array.from_array(w), table, column)
    return lambda: np.append(*dask.compute(value, gradient, scheduler="threads", num_workers=2))


def works(quick):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000 if quick else 400_000, 50))
    w, signs = rng.normal(size=50) / 10, np.where(rng.normal(size=len(rows)) > 0, 1.0, -1.0)
    yield Work(
        "lazy",
        f"value and gradient of a logistic loss, {len(rows)} rows of 50 in {PARTITIONS} partitions, two threads",
        {
            "hand-written": lambda: mapped(by_hand, w, rows, signs),
            "dualad, by partitions": lambda: mapped(by_dualad, w, rows, signs),
            "dualad, lazy arrays": lambda: lazily(w, rows, signs),
            "dualad, NumPy's arrays": lambda: lambda: by_dualad(w, rows, signs),
        },
        budgets=(Budget("by partitions ≤ 1.1 × hand-written", "dualad, by partitions", "hand-written", at_most=1.1),),
    )


FUNCTIONS = {
    "elementwise": lambda x: np.sin(x) * np.exp(-x) + x**3,
    "sums": lambda x: np.log(np.sum(np.exp(x))) + np.mean(x * x),
    "branches": lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x * x),
    "slices": lambda x: x[1:] * x[:-1] - x[2],
    "running sum": lambda x: np.cumsum(x) * x,
    "normalized": lambda x: (x - np.mean(x)) / np.std(x),
}


def main():
    """Print how many tasks the graphs of derivatives have, beside the function's own."""
    array = importlib.import_module("dask.array")

    def tasks(*arrays):
        return len(set().union(*[set(a.__dask_graph__().keys()) for a in arrays]))

    print(f"{'tasks of graphs, 8 blocks':<28}{'function':>9}{'jvp':>14}{'value_and_grad':>18}")
    for name, f in FUNCTIONS.items():
        x = array.ones(8_000, chunks=1_000)
        own, squares = tasks(f(x)), tasks(np.sum(f(x) ** 2))
        forward = tasks(*da.jvp(f, (x,), (x,)))
        reverse = tasks(*da.value_and_grad(lambda x, f=f: np.sum(f(x) ** 2))(x))
        print(f"{name:<28}{own:>9}{forward:>7} {forward / own:>4.1f} ×{reverse:>11} {reverse / squares:>4.1f} ×")


if __name__ == "__main__":
    main()
