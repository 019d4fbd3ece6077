"""Check and time posteriors of a clone of posteriordb.

    python -m benchmarks.posteriordb CLONE [NAMES ...] [--stan HTTPSTAN] [--jax] [--level=-O3]

For each posterior whose name contains one of NAMES: the gradient by ``jit(value_and_grad)`` against Stan's (compiled,
where an installed ``httpstan`` is given), the reference draws and differences; then its processor time, and JAX's and
Stan's as ratios to it, taken by turns.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import dualad as da

from . import checks
from .database import models, posteriors, with_jax
from .stan import Stan, build

__all__ = ["main", "row"]


def _times(contenders, at, rounds=5, seconds=0.05):
    """Return the median processor time of a call of each, over rounds by turns."""
    counts, taken = {}, {name: [] for name in contenders}
    for name, f in contenders.items():
        start = time.process_time()
        f(at)
        counts[name] = max(1, int(seconds / max(time.process_time() - start, 1e-7)))
    for _ in range(rounds):
        for name, f in contenders.items():
            start = time.process_time()
            for _ in range(counts[name]):
                f(at)
            taken[name].append((time.process_time() - start) / counts[name])
    return {name: float(np.median(t)) for name, t in taken.items()}


def _jax(model, data):
    import jax

    compiled = jax.jit(jax.value_and_grad(model.of(data)))
    return lambda at: jax.block_until_ready(compiled(at))


def row(posterior, ours, theirs=None, stan=None, seconds=60.0):
    """Return what is known of a posterior: verdict, errors and times, by column.

    ``ours`` and ``theirs`` are the models by name, in NumPy and in JAX; ``stan`` makes a library of a Stan model.
    """
    out = {"posterior": posterior.name}
    if not posterior.data_path.exists():
        return {**out, "verdict": "no data in the clone"}
    model, data = ours[posterior.model], posterior.data()
    log_density, size = model.of(data), model.parameters(data).size
    out["n"] = size
    gradient = da.jit(da.value_and_grad(log_density))
    contenders = {"dualad": gradient}
    wrong = []
    try:
        with checks.limited(seconds):
            start = time.perf_counter()
            at = checks.points(gradient, model.center(data))
            out["first call"] = time.perf_counter() - start
        with checks.limited(seconds):
            out["differences"] = checks.differences_agree(log_density, gradient, at)
            values = [checks.relative(gradient(x)[0], log_density(x)) for x in at]
            bound = 1e-7 if model.accuracy <= 1e-8 else 1e-5  # of the values of adaptive solvers
            wrong += ["differences"] * (not out["differences"] <= bound) + ["value"] * (not max(values) <= 1e-10)
        if stan is not None:
            contenders["Stan"] = reference = Stan(stan(posterior.stan_path), posterior.data_path)
            out["Stan's"] = checks.stan_agrees(gradient, reference, at)
            wrong += ["Stan"] * (not out["Stan's"] <= model.accuracy)
        draws = posterior.draws()
        if draws is not None:
            with checks.limited(seconds):
                out["draws"] = checks.stein_agrees(gradient, free_draws(model, data, draws))
                wrong += ["draws"] * (not out["draws"] <= 5.0)
    except Exception as error:
        return {**out, "verdict": f"refused: {type(error).__name__}: {str(error).splitlines()[0][:90]}"}
    out["verdict"] = "wrong by " + ", ".join(wrong) if wrong else "right"
    if theirs is not None:
        try:
            with checks.limited(seconds):
                contenders["JAX"] = jax_gradient = _jax(theirs[posterior.model], data)
                out["JAX's"] = max(checks.relative(jax_gradient(x)[1], gradient(x)[1]) for x in at)
        except Exception as error:
            contenders.pop("JAX", None)
            out["no JAX"] = type(error).__name__
    times = _times(contenders, at[0])
    out |= {"time": times.pop("dualad")}
    return out | {f"{name} ratio": t / out["time"] for name, t in times.items()}


def free_draws(model, data, draws):
    """Return the free numbers of published draws of constrained parameters, a draw a row."""
    parameters = model.parameters(data)
    rows = []
    for k in range(len(next(iter(draws.values())))):
        values = model.from_draws(data, {name: column[k] for name, column in draws.items()})
        rows.append(parameters.unconstrain({name: values[name.rstrip("_")] for name in parameters.constraints}))
    return np.array(rows)


def _line(found):
    def number(name, text):
        return format(found[name], text) if name in found else "–"

    time = f"{1e6 * found['time']:.1f}" if "time" in found else "–"
    cells = [found["posterior"], str(found.get("n", "–")), found["verdict"], number("Stan's", ".0e")]
    cells += [number("draws", ".1f"), number("differences", ".0e"), number("first call", ".2f"), time]
    return "| " + " | ".join([*cells, number("Stan ratio", ".2f"), number("JAX ratio", ".2f")]) + " |"


def main(argv=None):
    """Print the table of the posteriors, counts of verdicts, and geometric means of ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posteriordb", description=__doc__.splitlines()[0])
    parser.add_argument("clone")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stan", metavar="HTTPSTAN", help="folder of an installed httpstan: compile Stan's models")
    parser.add_argument("--level", default="-O3", help="optimisation of Stan's models (-O3; -O0 compiles quickly)")
    parser.add_argument("--built", default=Path(tempfile.gettempdir()) / "posteriordb-stan", help="folder of libraries")
    parser.add_argument("--jax", action="store_true", help="time JAX on the same text")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    ours, theirs = models(), with_jax() if options.jax else None

    def library(source):
        return build(source, options.stan, options.built, options.level)

    print("| posterior | n | verdict | Stan's | draws | differences | first call, s | time, µs | Stan | JAX |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for posterior in posteriors(options.clone, options.names):
        rows.append(row(posterior, ours, theirs, library if options.stan else None))
        print(_line(rows[-1]), flush=True)
    verdicts = [found["verdict"] for found in rows]
    print(f"\n{verdicts.count('right')} of {len(rows)} right")
    for name in ("Stan ratio", "JAX ratio"):
        ratios = [found[name] for found in rows if name in found]
        if ratios:
            print(f"{name}: geometric mean {np.exp(np.mean(np.log(ratios))):.2f} of {len(ratios)}")


if __name__ == "__main__":
    main()
