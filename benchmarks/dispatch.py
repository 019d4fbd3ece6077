"""Microseconds an operation on small arrays: the number to look at before and after each change to `dualad/core/`.

One chain of operations (sin, tanh, exp, products, sums, arithmetic with Python scalars) on a length-`n` vector is run
by plain NumPy, by dualad and by HIPS autograd, interleaved in one run; medians are printed, with the ratio of dualad to
each. It is a tool for whoever works on the engine; the table for readers is `python -m benchmarks`.

    python -m benchmarks.dispatch                 # n = 10, 100 operations
    python -m benchmarks.dispatch --by-op         # one kind of operation at a time
    python -m benchmarks.dispatch --profile jvp   # cProfile of dualad (or vjp, vmap, linearize)
"""

import argparse
import cProfile
import importlib
import pstats
import statistics
import sys
import time

import numpy as np

STEPS = {
    "sin": lambda np, x: np.sin(x),
    "x * scalar": lambda np, x: x * 1.01,
    "scalar + x": lambda np, x: 0.1 + x,
    "tanh": lambda np, x: np.tanh(x),
    "x * x": lambda np, x: x * x,
    "x - scalar": lambda np, x: x - 0.5,
    "exp": lambda np, x: np.exp(x),
    "x / scalar": lambda np, x: x / 2.0,
    "x + x": lambda np, x: x + x,
    "cos": lambda np, x: np.cos(x),
}


def chain(np, names, ops):
    """A function applying `ops` operations, taken in turn from `names`, written against the namespace `np`."""
    steps = [STEPS[name] for name in names]
    plan = [steps[i % len(steps)] for i in range(ops)]

    def run(x):
        for step in plan:
            x = step(np, x)
        return x

    return run


def contenders(names, ops, x, v):
    """Mapping ``(mode, library) -> zero-argument callable`` for the libraries that are installed."""
    primal = chain(np, names, ops)
    table = {("primal", "numpy"): lambda: primal(x)}
    try:
        da = importlib.import_module("dualad")
    except ImportError as error:
        print(f"dualad is left out: {error}", file=sys.stderr)
    else:
        table["jvp", "dualad"] = lambda: da.jvp(primal, (x,), (v,))[1]
        table["vjp", "dualad"] = lambda: da.vjp(primal, x)[1](v)[0]
        table["linearize", "dualad"] = lambda: da.linearize(primal, x)[0]
        xs = np.stack([x, x])
        table["vmap", "dualad"] = lambda: da.vmap(primal)(xs)
    try:
        autograd = importlib.import_module("autograd")
        anp = importlib.import_module("autograd.numpy")
    except ImportError as error:
        print(f"autograd is left out: {error}", file=sys.stderr)
    else:
        theirs = chain(anp, names, ops)
        table["jvp", "autograd"] = lambda: autograd.make_jvp(theirs)(x)(v)[1]
        table["vjp", "autograd"] = lambda: autograd.make_vjp(theirs)(x)[0](v)
    return table


def measure(table, rounds, seconds=0.01):
    """Seconds of each round; every round runs every contender for about `seconds`, in turns.

    It is this thread's processor time, which other work on the machine hardly changes: nothing here uses a second one.
    """
    repeats, samples = {}, {key: [] for key in table}
    for key, call in table.items():
        call()
        start = time.thread_time()
        call()
        repeats[key] = max(1, round(seconds / (time.thread_time() - start)))
    for _ in range(rounds):
        for key, call in table.items():
            start = time.thread_time()
            for _ in range(repeats[key]):
                call()
            samples[key].append((time.thread_time() - start) / repeats[key])
    return samples


def agree(table):
    """Stop when the contenders of one mode don't compute the same numbers."""
    for mode in ("jvp", "vjp"):
        if {(mode, "dualad"), (mode, "autograd")} <= table.keys():
            np.testing.assert_allclose(table[mode, "dualad"](), table[mode, "autograd"](), rtol=1e-9, atol=1e-300)


def report(title, samples, ops):
    print(title)
    for (mode, library), times in samples.items():
        line = f"  {mode:<10}{library:<10}{statistics.median(times) / ops * 1e6:8.2f} µs/op"
        for other, target in ((("primal", "numpy"), None), ((mode, "autograd"), {"jvp": 3, "vjp": 2}.get(mode))):
            if library == "dualad" and other in samples:
                ratio = statistics.median(b / a for a, b in zip(times, samples[other], strict=True))
                if target is None:
                    line += f"   {1 / ratio:6.1f}x NumPy's time"
                else:
                    line += f"   {ratio:5.2f}x faster than autograd (budget {target})"
        print(line)


def profile(call, repeats, sort):
    call()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(repeats):
        call()
    profiler.disable()
    pstats.Stats(profiler).sort_stats(sort).print_stats(25)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=10, help="length of the vector")
    parser.add_argument("--ops", type=int, default=100, help="operations in the chain")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--by-op", action="store_true", help="one kind of operation at a time")
    parser.add_argument("--profile", choices=["jvp", "vjp", "vmap", "linearize"], help="print cProfile's table instead")
    parser.add_argument("--sort", default="tottime", help="cProfile's sort key")
    args = parser.parse_args()
    x = np.linspace(0.1, 0.9, args.n)
    v = np.linspace(1.0, 2.0, args.n)
    if args.profile:
        profile(contenders(list(STEPS), args.ops, x, v)[args.profile, "dualad"], 200, args.sort)
        return
    groups = [[name] for name in STEPS if name not in ("exp", "x * x", "x + x")] if args.by_op else [list(STEPS)]
    for names in groups:
        table = contenders(names, args.ops, x, v)
        agree(table)
        title = f"{', '.join(names)}: n = {args.n}, {args.ops} operations, median of {args.rounds} interleaved rounds"
        report(title, measure(table, args.rounds), args.ops)


if __name__ == "__main__":
    main()
