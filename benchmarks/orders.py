"""Derivatives of high order: series against nested jvp and JAX's `jet`, sums of second derivatives, an orbit.

Every contender of a series computes the coefficient of the highest order. Not for: first and second derivatives of
ordinary size (`models.py`, `large.py`).
"""

import math

import numpy as np

import dualad as da
from benchmarks.harness import Budget, Work

__all__ = ["works"]


def perceptron(xp, inputs):
    rng = np.random.default_rng(0)
    first, last = rng.normal(size=(inputs, 64)) / 4, rng.normal(size=64) / 8
    inner = [rng.normal(size=(64, 64)) / 8 for _ in range(3)]

    def f(x):
        h = xp.tanh(x @ first)
        for w in inner:
            h = xp.tanh(h @ w)
        return h @ last

    return f, rng.normal(size=(200, inputs)), rng.normal(size=(200, inputs))


def formula(xp, _):
    return (lambda x: xp.sin(xp.exp(-x) * x) / (1 + x * x)), np.array(0.7), np.array(1.0)


def nested(f, order):
    for _ in range(order):
        f = (lambda inner: lambda t: da.jvp(inner, (t,), (1.0,))[1])(f)
    return f


def series(name, title, make, order, budgets, nest=False, inputs=16):
    def ours():
        f, x, v = make(np, inputs)
        return lambda: np.asarray(da.taylor(f, x, v, order=order)[order])

    def primal():
        f, x, _ = make(np, inputs)
        return lambda: f(x)

    def jax_jit():
        import jax
        import jax.numpy as jnp
        from jax.experimental.jet import jet

        jax.config.update("jax_enable_x64", True)
        f, x, v = make(jnp, inputs)
        terms = [v, *[np.zeros_like(v)] * (order - 1)]
        call = jax.jit(lambda x, terms: jet(f, (x,), (terms,), factorial_scaled=False)[1][-1])
        return lambda: np.asarray(jax.block_until_ready(call(x, terms)))

    def by_nesting():
        f, x, v = make(np, inputs)
        along = nested(lambda t: f(x + t * v), order)
        return lambda: np.asarray(along(0.0)) / math.factorial(order)

    contenders = {"dualad": ours, "JAX jit": jax_jit}
    if nest:
        contenders["nested jvp"] = by_nesting
    else:
        contenders["NumPy primal"] = primal
    return Work(f"orders-{name}", title, contenders, budgets, agreement=1e-7)


def laplacian():
    def ours(method):
        f, x, _ = perceptron(np, 16)
        call = da.vmap(da.laplacian(f, method=method))
        return lambda: call(x)

    def primal():
        f, x, _ = perceptron(np, 16)
        return lambda: f(x)

    def jax_jit():
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        f, x, _ = perceptron(jnp, 16)
        call = jax.jit(jax.vmap(lambda z: jnp.trace(jax.hessian(f)(z))))
        return lambda: np.asarray(jax.block_until_ready(call(x)))

    def by_folx():
        import folx
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        f, x, _ = perceptron(jnp, 16)
        call = jax.jit(jax.vmap(lambda z: folx.forward_laplacian(f)(z).laplacian))
        return lambda: np.asarray(jax.block_until_ready(call(x)))

    contenders = {
        "dualad": lambda: ours("taylor"), "method=hessian": lambda: ours("hessian"), "JAX jit": jax_jit,
        "folx": by_folx, "NumPy primal": primal,
    }  # fmt: skip
    budgets = (
        Budget("≤ 0.5 × method=hessian", "dualad", "method=hessian", at_most=0.5),
        Budget("≤ 30 × the primal", "dualad", "NumPy primal", at_most=30),
    )
    return Work("orders-laplacian", "Laplacian of a perceptron 16-64-64-64-64-1 at 200 points", contenders, budgets)


def orbit():
    start = np.array([0.5, 0.0, 0.0, math.sqrt(3.0)])

    def kepler(t, z):
        q, p = z[:2], z[2:]
        r2 = q[0] * q[0] + q[1] * q[1]
        return np.concatenate([p, -q / (r2 * np.sqrt(r2))])

    def ours():
        return lambda: da.taylor_ivp(kepler, (0.0, 2 * math.pi), start, rtol=1e-15).y[:, -1]

    def dop853():
        from scipy.integrate import solve_ivp

        span = (0.0, 2 * math.pi)
        return lambda: solve_ivp(kepler, span, start, method="DOP853", rtol=1e-13, atol=1e-15).y[:, -1]

    def by_heyoka():
        import heyoka

        x, y, u, v = heyoka.make_vars("x", "y", "u", "v")
        cube = (x * x + y * y) ** -1.5
        steps = heyoka.taylor_adaptive([(x, u), (y, v), (u, -x * cube), (v, -y * cube)], start, tol=1e-15)

        def run():
            steps.time, steps.state[:] = 0.0, start
            steps.propagate_until(2 * math.pi)
            return steps.state.copy()

        return run

    budgets = (Budget("≤ 3 × DOP853 at rtol 1e-13", "dualad", "SciPy DOP853", at_most=3),)
    contenders = {"dualad": ours, "SciPy DOP853": dop853, "heyoka": by_heyoka}
    return Work("orders-orbit", "one Kepler orbit, e = 0.5, to 1e-13", contenders, budgets, agreement=1e-10)


def works(quick):
    """Return the rows; they are small enough for quick runs too."""
    ratio = lambda order, bound: (
        Budget(f"≤ {bound} × the primal", "dualad", "NumPy primal", at_most=bound),
        Budget("≤ 1.2 × JAX jit", "dualad", "JAX jit", at_most=1.2),
    )  # fmt: skip
    return [
        series("perceptron-4", "series of order 4 of the perceptron", perceptron, 4, ratio(4, 7)),
        series("perceptron-10", "series of order 10 of the perceptron", perceptron, 10, ratio(10, 12)),
        series(
            "scalar-16", "series of order 16 of sin(e⁻ˣ x)/(1 + x²)", formula, 16,
            (Budget("≤ 3 ms", "dualad", None, at_most=3e-3),),
        ),
        series(
            "eighth", "8th derivative of sin(e⁻ˣ x)/(1 + x²)", formula, 8,
            (Budget("≥ 10 × quicker than nesting", "nested jvp", "dualad", at_least=10),), nest=True,
        ),
        laplacian(),
        orbit(),
    ]  # fmt: skip
