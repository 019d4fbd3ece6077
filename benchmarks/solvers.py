"""The table of compiled solvers: each row beside its peer, with the budget that it is given.

``python -m benchmarks.solvers [NAME ...]`` prints it as Markdown: ours, the peer's and their ratio, by turns and at
other arguments in each call; errors, against a tight solution, where tolerances mean different things; first calls.
Not for: tolerances other than these (``stiff.py`` draws them), or eager derivatives (``trajectories.py``).
"""

import functools
import importlib
import itertools
import os
import sys

import numpy as np

import dualad as da
from benchmarks import stiff, trajectories
from benchmarks.harness import Budget, Work, run_work
from benchmarks.report import duration, load, ratio

__all__ = ["rows", "works"]

THREADS = os.cpu_count()
#: of Rodas5P and of Kvaerno5, whose errors are far below its tolerance: with these ours are no larger
TOLERANCES = 1e-9, 1e-6


def library(name):
    """Return a module; JAX's with numbers of 64 bits."""
    if name != "jax":
        return importlib.import_module(name)
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def solve_ivp(*args, **options):
    return importlib.import_module("dualad.scipy.integrate").solve_ivp(*args, **options)


def elsewhere(make, p):
    """Return a contender that is called at other arguments each time."""

    def build():
        call, turns = make(), itertools.count()
        return lambda: np.asarray(call(p * (1 + 1e-9 * (next(turns) % 1000))))

    return build


def row(name, title, p, peers, ours, aims, agreement=1e-3):
    """Return a row: ``ours`` and the ``peers`` return functions of p, and ``aims`` says which ratio is due to whom."""
    contenders = {"dualad": elsewhere(ours, p)} | {who: elsewhere(make, p) for who, make in peers.items()}
    budgets = tuple(Budget(f"≤ {aim:g} × {who}", "dualad", who, at_most=aim) for who, aim in aims.items())
    return Work(name, title, contenders, budgets, agreement=agreement)


# ── problems ─────────────────────────────────────────────────────────────────────────────────────────────────────


def predators():
    _, f, y0, p, end = trajectories.PROBLEMS["predators"]
    y0, p, tight = np.array(y0), np.array(p), {"rtol": 1e-8, "atol": 1e-8}
    last = lambda p: solve_ivp(lambda t, y: f(np, t, y, p), (0.0, end), y0, "DOP853", **tight).y[:, -1]

    def by_jax():
        jnp, odeint = library("jax").numpy, library("jax.experimental.ode").odeint
        return lambda p: odeint(lambda y, t, p: f(jnp, t, y, p), jnp.array(y0), jnp.array([0.0, end]), p, **tight)[-1]

    def by_diffrax():
        diffrax, jnp = library("diffrax"), library("jax").numpy
        return lambda p: diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, p: f(jnp, t, y, p)), diffrax.Dopri8(), 0.0, end, None, jnp.array(y0), args=p,
            stepsize_controller=diffrax.PIDController(**tight), max_steps=4096,
        ).ys[0]  # fmt: skip

    peers, aims = {"JAX odeint": by_jax, "diffrax": by_diffrax}, {"JAX odeint": 0.1, "diffrax": 0.03}
    compiled = {who: lambda make=make: library("jax").jit(make()) for who, make in peers.items()}
    slopes = {who: lambda make=make: by_grad(make()) for who, make in peers.items()}
    by_grad = lambda call: library("jax").jit(library("jax").grad(lambda p: call(p)[0]))
    yield row("predators-value", "Lotka–Volterra, 1e-8", p, compiled, lambda: da.jit(last), aims)
    yield row(
        "predators-gradient", "… gradient in 4 rates", p, slopes, lambda: da.jit(da.grad(lambda p: last(p)[0])), aims
    )

    lanes = np.linspace(0.9, 1.1, 10_000)[:, None] * p

    def one_by_one():
        alone = da.jit(last)
        return lambda all_p: np.array([alone(p) for p in all_p])

    yield row(
        "predators-lanes", "… 10⁴ lanes", lanes, {"the same one by one": one_by_one}, lambda: da.jit(da.vmap(last)),
        {"the same one by one": 1.2 / THREADS},
    )  # fmt: skip


def stiff_problems():
    f, span, y0, p, _ = stiff.PROBLEMS["robertson"]
    tight = {"rtol": 1e-8, "atol": 1e-8}
    last = lambda p: solve_ivp(f, span, y0, "Rodas5P", args=(p,), **tight).y[:, -1]
    # numbalsoda publishes 25 µs where SciPy's odeint takes 489.
    many = {"tfirst": True, "mxstep": 10_000, **tight}
    odeint = lambda: lambda p: library("scipy.integrate").odeint(f, y0, span, (p,), **many)[-1]
    ours = {"value": lambda: da.jit(last), "gradient": lambda: da.jit(da.grad(lambda p: last(p)[0]))}
    yield row("kinetics-value", "Robertson, 1e-8", p, {"odeint": odeint}, ours["value"], {"odeint": 2 * 25 / 489})
    yield row(
        "kinetics-gradient", "… gradient", p, {"our value": ours["value"]}, ours["gradient"], {"our value": 4}, 1e9
    )
    for name, (f, span, y0, p, size) in stiff.PROBLEMS.items():
        at = lambda by, tol, f=f, span=span, y0=y0, size=size: by(f, span, y0, {"rtol": tol, "atol": tol * size})
        for k, what in enumerate(("value", "gradient")):
            ours = lambda k=k, at=at: at(stiff.by_dualad("Rodas5P"), TOLERANCES[0])[k]
            theirs = lambda k=k, at=at: at(stiff.by_diffrax, TOLERANCES[1])[k]
            # Kvaerno5's gradient of van der Pol's oscillator is off by half at 1e-6: 0.00092 for 0.0017848.
            title, agreement = (name, 0.05) if k == 0 else ("… gradient", 1.0)
            yield row(f"{name}-{what}", title, p, {"diffrax": theirs}, ours, {"diffrax": 0.1}, agreement)
    for name, (f, span, y0, p, size, mass) in stiff.DAES.items():
        options = {"rtol": 1e-6, "atol": 1e-6 * size, "mass": mass}
        make = lambda by, at=(f, span, y0), options=options: lambda: by(*at, dict(options))[0]
        yield row(
            f"{name}-dae", f"{name} as a DAE, 1e-6", p, {"SUNDIALS IDA": make(stiff.by_ida)},
            make(stiff.by_dualad("Rodas5P")), {"SUNDIALS IDA": 1}, 0.05,
        )  # fmt: skip


def brusselator(xp, side, t, y, p):
    """Lefever and Nicolis (1971), on a periodic square of side 1."""
    u, v = y.reshape((2, side, side))
    move = lambda w, n, axis: xp.concatenate((w[n:], w[:n]) if axis == 0 else (w[:, n:], w[:, :n]), axis)
    spread = lambda w: sum(move(w, n, axis) for n in (1, -1) for axis in (0, 1)) - 4 * w
    flow, twice = p[2] * side**2, u * u * v
    both = [p[0] + twice - (p[1] + 1) * u + flow * spread(u), p[1] * u - twice + flow * spread(v)]
    return xp.stack(both).reshape(-1)


def brusselators():
    p, options = np.array([1.0, 3.4, 0.1]), {"rtol": 1e-5, "atol": 1e-7}
    for side, end in ((5, 11.5), (32, 1.0)):
        x = (np.arange(side) + 0.5) / side
        y0 = np.stack([22 * (x * (1 - x)) ** 1.5 + 0 * x[:, None], 27 * (x * (1 - x))[:, None] ** 1.5 + 0 * x])
        y0, right = y0.reshape(-1), functools.partial(brusselator, np, side)

        def ours(right=right, end=end, y0=y0):
            last = lambda p: solve_ivp(right, (0.0, end), y0, "BDF", args=(p,), jac="dualad", **options).y[0, -1]
            return da.jit(da.grad(last))

        def by_diffrax(side=side, end=end, y0=y0):
            jax, diffrax = library("jax"), library("diffrax")
            last = lambda p: diffrax.diffeqsolve(
                diffrax.ODETerm(functools.partial(brusselator, jax.numpy, side)), diffrax.Kvaerno5(), 0.0, end, None,
                jax.numpy.array(y0), args=p, stepsize_controller=diffrax.PIDController(**options),
            ).ys[0][0]  # fmt: skip
            return jax.jit(jax.grad(last))

        title = f"Brusselator {side} × {side}, 1e-5, gradient"
        yield row(f"brusselator-{side}", title, p, {"diffrax": by_diffrax}, ours, {"diffrax": 0.1}, 0.05)


def neural_ode():
    """The gradient of diffrax's own benchmark, ``small_neural_ode.py``: 64 states of 4 numbers to t = 100."""
    rng, tight = np.random.default_rng(0), {"rtol": 1e-6, "atol": 1e-6}
    start, shapes = rng.normal(size=(64, 4)), ((32, 4), (32,), (4, 32), (4,))
    p = np.concatenate([rng.uniform(-0.5, 0.5, 160), rng.uniform(-1, 1, 132) / np.sqrt(32)])

    def layers(p):
        cuts = np.cumsum([0, *[int(np.prod(shape)) for shape in shapes]])
        return [p[a:b].reshape(shape) for a, b, shape in zip(cuts, cuts[1:], shapes, strict=False)]

    def ours():
        def total(p):
            inner, shift, outer, last = layers(p)

            def f(t, y):
                hidden = np.logaddexp(y.reshape(64, 4) @ inner.T + shift, 0)
                return np.tanh(hidden @ outer.T + last).reshape(-1)

            y = solve_ivp(f, (0.0, 100.0), start.reshape(-1), sensitivity="adjoint", **tight).y
            return np.sum(y[:, -1])

        return da.jit(da.grad(total))

    def by_diffrax():
        jax, diffrax = library("jax"), library("diffrax")

        def f(t, y, p):
            inner, shift, outer, last = layers(p)
            return jax.numpy.tanh(jax.nn.softplus(y @ inner.T + shift) @ outer.T + last)

        total = lambda p: diffrax.diffeqsolve(
            diffrax.ODETerm(f), diffrax.Dopri5(), 0.0, 100.0, None, jax.numpy.array(start), args=p,
            stepsize_controller=diffrax.PIDController(**tight), adjoint=diffrax.BacksolveAdjoint(),
        ).ys[0].sum()  # fmt: skip
        return jax.jit(jax.grad(total))

    yield row(
        "neural", "neural ODE (64 × 4, width 32), gradient", p, {"diffrax": by_diffrax}, ours, {"diffrax": 0.5}, 0.05
    )


def works():
    """Yield the rows."""
    for room in (predators, stiff_problems, brusselators, neural_ode):
        yield from room()


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────


def errors(name):
    """Return our error and diffrax's, against a tight solution of a stiff problem, in words."""
    f, span, y0, p, size = stiff.PROBLEMS[name]
    tight = {"rtol": 1e-12, "atol": 1e-12 * size}
    exact = library("scipy.integrate").solve_ivp(f, span, y0, "Radau", args=(p,), **tight).y[:, -1]
    found = []
    for by, tol in zip((stiff.by_dualad("Rodas5P"), stiff.by_diffrax), TOLERANCES, strict=True):
        y = np.asarray(by(f, span, y0, {"rtol": tol, "atol": tol * size})[0](p))
        found.append(np.max(abs(y - exact) / (abs(exact) + size)))
    return "; errors {:.0e} and {:.0e}".format(*found)


def rows(names):
    """Yield the lines of the table: of all rows, or of those whose names begin like one of these."""
    yield "| work | ours | peer | ratio | aim | first call: ours · peer's |"
    yield "|---|---|---|---|---|---|"
    for work in works():
        if names and not any(work.name.startswith(n) for n in names):
            continue
        rounds, seconds = (1, 0.01) if work.name.startswith("brusselator-32") else (5, 0.2)
        try:
            measured, left = run_work(work, rounds, seconds)
        except Exception as error:
            if "maximum number of solver steps" not in str(error):
                raise
            measured, left = run_work(work, rounds, seconds, frozenset({"diffrax"}))
            left["diffrax"] = "does not reach the end"
        ours = measured["dualad"]
        for budget in work.budgets:
            if budget.under in left:
                yield (
                    f"| {work.title} | {duration(ours.median)} | {budget.under}: {left[budget.under]} | – |"
                    f" {ratio(budget.at_most)} | {duration(ours.first)} · – |"
                )
                continue
            peer, (found, good) = measured[budget.under], budget.judge(measured)
            problem = work.name.removesuffix("-value")
            more = errors(problem) if "diffrax" in measured and problem in stiff.PROBLEMS else ""
            yield (
                f"| {work.title}{more} | {duration(ours.median)} | {budget.under} {duration(peer.median)} |"
                f" {ratio(found)} | {ratio(budget.at_most)}, {'met' if good else '**missed**'} |"
                f" {duration(ours.first)} · {duration(peer.first)} |"
            )


if __name__ == "__main__":
    print(load())
    da.jit(lambda y: y * 2.0)(np.ones(2))  # the first program loads LLVM
    for line in rows(sys.argv[1:]):
        print(line, flush=True)
