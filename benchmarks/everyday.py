"""Sixty functions as people write them, compiled by dualad and by JAX: value, gradient, Hessian, batched gradient.

    python -m benchmarks.everyday [--sizes 1 12 1000] [--what value grad ...] [--part 1/3] [--only NAME ...]

Every result is compared with JAX's before anything is timed; what disagrees is printed and makes the exit status 1.
Calls and first calls are ratios to JAX's `jit`; a first call is timed with nothing on the disk, and again with what
that one has left there. The functions were written before the compiler was tried on them. Not here: the rows of the
table.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import numpy as np

__all__ = ["FUNCTIONS", "Timed", "compare", "main"]

#: name -> f(np, x): a number of a vector with entries between 0.2 and 1.2
FUNCTIONS = {
    "sum of squares": lambda np, x: np.sum(x**2),
    "norm": lambda np, x: np.sqrt(np.sum(x * x) + 1e-3),
    "mean": lambda np, x: np.mean(x * np.exp(-x)),
    "variance": lambda np, x: np.mean((x - np.mean(x)) ** 2),
    "standard deviation": lambda np, x: np.sqrt(np.mean((x - np.mean(x)) ** 2) + 0.1),
    "logsumexp": lambda np, x: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x),
    "softmax entropy": lambda np, x: -np.sum(_softmax(np, x) * np.log(_softmax(np, x))),
    "softplus": lambda np, x: np.sum(np.log1p(np.exp(x))),
    "logistic loss": lambda np, x: np.mean(np.log1p(np.exp(-x * np.sign(x - 0.7)))),
    "huber": lambda np, x: np.sum(np.where(np.abs(x - 0.5) < 0.3, (x - 0.5) ** 2, 0.6 * np.abs(x - 0.5) - 0.09)),
    "rosenbrock": lambda np, x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) + x[0],
    "rastrigin": lambda np, x: 10 * x.shape[0] + np.sum(x**2 - 10 * np.cos(2 * math.pi * x)),
    "ackley": lambda np, x: -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(6.28 * x))),
    "griewank": lambda np, x: 1 + np.sum(x**2) / 4000 - np.exp(np.sum(np.log(np.cos(x / 2)))),
    "styblinski": lambda np, x: np.sum(x**4 - 16 * x**2 + 5 * x) / 2,
    "levy": lambda np, x: np.sum((x - 1) ** 2 * (1 + 10 * np.sin(math.pi * x + 1) ** 2)),
    "polynomial": lambda np, x: np.sum(((0.3 * x - 1.2) * x + 0.7) * x - 2.0),
    "rational": lambda np, x: np.sum((1 + x) / (2 + x * x)),
    "gaussian": lambda np, x: np.sum(np.exp(-0.5 * ((x - 0.3) / 0.2) ** 2)),
    "cauchy likelihood": lambda np, x: np.sum(np.log1p(((x - 0.4) / 0.3) ** 2)),
    "poisson likelihood": lambda np, x: np.sum(np.exp(x) - 3.0 * x),
    "gamma-like": lambda np, x: np.sum(2.5 * np.log(x) - 1.7 * x),
    "beta-like": lambda np, x: np.sum(np.log(x / 2) + 3 * np.log1p(-x / 2)),
    "kl": lambda np, x: np.sum(x * np.log(x / np.mean(x))),
    "cross entropy": lambda np, x: -np.sum(x * np.log(_softmax(np, 2 * x))),
    "cosine": lambda np, x: np.sum(x * x[::-1]) / np.sum(x * x),
    "tanh layer": lambda np, x: np.sum(np.tanh(np.sin(x) * 2 + 0.1)),
    "swish": lambda np, x: np.sum(x / (1 + np.exp(-x))),
    "gelu": lambda np, x: np.sum(0.5 * x * (1 + np.tanh(0.797885 * (x + 0.044715 * x**3)))),
    "leaky relu": lambda np, x: np.sum(np.where(x > 0.5, x, 0.01 * x) ** 2),
    "clip": lambda np, x: np.sum(np.clip(x, 0.3, 0.9) ** 2 * x),
    "extremes": lambda np, x: np.max(x) * np.sum(x) - np.min(x),
    "total variation": lambda np, x: np.sum(np.sqrt((x[1:] - x[:-1]) ** 2 + 0.01)) + x[0],
    "second differences": lambda np, x: np.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2) + np.sum(x),
    "trapezoid": lambda np, x: np.sum(0.5 * (np.sin(x[1:]) + np.sin(x[:-1]))) + x[-1],
    "running sum": lambda np, x: np.sum(np.cumsum(x) ** 2) / x.shape[0],
    "product": lambda np, x: np.exp(np.sum(np.log(x)) / x.shape[0]),
    "harmonic mean": lambda np, x: x.shape[0] / np.sum(1 / x),
    "quadratic form": lambda np, x: np.sum(x * (2 * x - 0.5 * np.roll(x, 1))),
    "outer": lambda np, x: np.sum(x[:, None] * x[None, :8] ** 2) / x.shape[0],
    "pair distances": lambda np, x: np.sum(np.sqrt((x[:, None] - x[None, :6]) ** 2 + 0.1)) / x.shape[0],
    "lennard-jones": lambda np, x: np.sum((0.9 / (x + 0.6)) ** 12 - (0.9 / (x + 0.6)) ** 6),
    "morse": lambda np, x: np.sum((1 - np.exp(-1.5 * (x - 0.7))) ** 2),
    "pendulum": lambda np, x: np.sum(0.5 * x**2 - 9.81 * np.cos(x)),
    "double well": lambda np, x: np.sum((x * x - 0.5) ** 2),
    "van der waals": lambda np, x: np.sum(1.2 / (x + 2.0) - 0.4 / (x + 1.0) ** 2),
    "arrhenius": lambda np, x: np.sum(1e3 * np.exp(-2.0 / x)),
    "hill": lambda np, x: np.sum(x**3 / (0.5 + x**3)),
    "michaelis": lambda np, x: np.sum(1.7 * x / (0.4 + x)),
    "planck": lambda np, x: np.sum(x**3 / np.expm1(x)),
    "haversine": lambda np, x: np.sum(np.arcsin(np.sqrt(np.sin(x / 2) ** 2 * 0.8 + 0.1))),
    "angle": lambda np, x: np.sum(np.arctan2(np.sin(x), 2 + np.cos(x))),
    "spiral": lambda np, x: np.sum(x * np.cos(5 * x) + x * np.sin(5 * x)),
    "damped wave": lambda np, x: np.sum(np.exp(-x) * np.sin(8 * x)),
    "catenary": lambda np, x: np.sum(np.cosh(x) - np.sinh(x / 2)),
    "power law": lambda np, x: np.sum(2.0 * x**-1.5 + x**0.7),
    "compound interest": lambda np, x: np.sum((1 + x / 12) ** 12 - np.exp(x)),
    "newton step": lambda np, x: np.sum(x - (x**3 - 0.5) / (3 * x**2)),
    "three sweeps": lambda np, x: np.sum(_sweeps(np, x)),
    "euler steps": lambda np, x: np.sum(_euler(np, x)),
}


def _softmax(np, x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def _sweeps(np, x):
    for _ in range(3):
        x = np.sin(x) + 0.1 * np.roll(x, 1)
    return x


def _euler(np, x):
    v = 0 * x
    for _ in range(10):
        x, v = x + 0.05 * v, v - 0.05 * np.sin(x)
    return x * x + v


WHATS = ("value", "grad", "hessian", "vmap of grad")


def derivatives(lib, np, f):
    """The four things that are asked of a function, as ``library`` spells them."""
    g = lambda x: f(np, x)
    return {"value": g, "grad": lib.grad(g), "hessian": lib.hessian(g), "vmap of grad": lib.vmap(lib.grad(g))}


class Timed(NamedTuple):
    """Seconds of one program, by dualad and by JAX: a call, the first one, and ours with the code on the disk."""

    name: str
    what: str
    size: int
    ours: float
    theirs: float
    first: float
    from_disk: float
    first_theirs: float


def compare(names, sizes, whats=WHATS, timed=True, report=print):
    """Compare and time; return what was timed, and what disagrees."""
    import jax
    import jax.numpy

    import dualad

    jax.config.update("jax_enable_x64", True)
    dualad.jit(np.sin)(np.ones(3))  # LLVM is loaded
    found, wrong = [], []
    for name in names:
        ours, theirs = derivatives(dualad, np, FUNCTIONS[name]), derivatives(jax, jax.numpy, FUNCTIONS[name])
        for what in whats:
            for n in sizes:
                if what == "hessian" and n > 100:
                    continue
                x = np.linspace(0.2, 1.2, n) if n > 1 else np.array([0.6])
                if what == "vmap of grad":
                    x = np.stack([x, 0.9 * x, 0.8 * x + 0.1])
                y = jax.numpy.asarray(x)
                fast, compiled = dualad.jit(ours[what]), jax.jit(theirs[what])
                other = lambda y, compiled=compiled: compiled(y).block_until_ready()
                (result, first), (expected, first_theirs) = _once(fast, x), _once(other, y)
                _, from_disk = _once(dualad.jit(ours[what]), x)
                expected = np.asarray(expected)
                scale = np.max(np.abs(expected), initial=0.0) + 1e-3
                if np.shape(result) != expected.shape or not np.all(np.abs(result - expected) <= 1e-9 * scale):
                    wrong.append((name, what, n))
                    report(f"WRONG {name}, {what}, n = {n}: {result} where JAX has {expected}")
                elif timed:
                    times = _time(fast, x), _time(other, y)
                    found.append(Timed(name, what, n, *times, first, from_disk, first_theirs))
    return found, wrong


def _once(call, x):
    start = time.perf_counter()
    result = call(x)
    return result, time.perf_counter() - start


def _time(call, x):
    call(x)
    start = time.perf_counter()
    call(x)
    count = max(1, int(1e-3 / (time.perf_counter() - start + 1e-7)))
    best = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count):
            call(x)
        best.append((time.perf_counter() - start) / count)
    return min(best)


def _middle(numbers):
    return math.exp(statistics.fmean(map(math.log, numbers)))


def summary(found, sizes, whats):
    """Yield the geometric means of the ratios to JAX, by size and by what is asked for."""
    for n in sizes:
        for what in (None, *whats):
            rows = [t for t in found if t.size == n and what in (None, t.what)]
            if not rows:
                continue
            calls = [t.ours / t.theirs for t in rows]
            first, disk = [t.first / t.first_theirs for t in rows], [t.from_disk / t.first_theirs for t in rows]
            yield (
                f"n = {n}, {what or 'all'}: {len(rows)} programs, {_middle(calls):.2f} x JAX jit"
                f" ({min(calls):.2f} to {max(calls):.2f}); first call {_middle(first):.2f},"
                f" from the disk {_middle(disk):.2f}"
                f" ({1e3 * _middle([t.first for t in rows]):.1f}, {1e3 * _middle([t.from_disk for t in rows]):.1f},"
                f" JAX {1e3 * _middle([t.first_theirs for t in rows]):.0f} ms)"
            )


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.everyday", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 12, 1000])
    parser.add_argument("--what", nargs="+", default=list(WHATS), choices=WHATS)
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th function, from the I-th")
    parser.add_argument("--only", nargs="+", default=list(FUNCTIONS))
    args = parser.parse_args(argv)
    part, parts = map(int, args.part.split("/"))
    with tempfile.TemporaryDirectory() as directory:
        os.environ["DUALAD_CACHE"] = directory
        found, wrong = compare(args.only[part - 1 :: parts], args.sizes, args.what)
    for line in summary(found, args.sizes, args.what):
        print(line)
    for t in sorted(found, key=lambda t: t.theirs / t.ours)[:8]:
        print(f"  slowest: {t.name}, {t.what}, n = {t.size}: {1e6 * t.ours:.2f} µs, JAX {1e6 * t.theirs:.2f} µs")
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
