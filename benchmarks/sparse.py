"""Sparse Jacobians and Hessians: finding the pattern, the first matrix from nothing, and values in CSR form.

asdex computes on JAX: its function is compiled once, and its result brought into CSR form each time, as SciPy's solvers
want it. CasADi's graphs are built once. Not for: dense Jacobians (`large.py`).
"""

import importlib
import resource
import sys
import time

import numpy as np

import dualad as da
from benchmarks.harness import Budget, Work

__all__ = ["works"]


def burgers(xp, n):
    h, nu = 1.0 / (n + 1), 0.01

    def f(u):
        edge = np.zeros(1)
        right, left = xp.concatenate((u[1:], edge)), xp.concatenate((edge, u[:-1]))
        return nu / h**2 * (right - 2.0 * u + left) - u * (right - left) * (0.5 / h)

    x = h * np.arange(1, n + 1)
    return f, np.sin(np.pi * x) + 0.3 * np.sin(3 * np.pi * x)


def brusselator(xp, side):
    alpha = 0.1 * (side - 1) ** 2

    def laplacian(u):
        return xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1) - 4 * u

    def f(y):
        w = y.reshape((2, side, side))
        u, v = w[0], w[1]
        u2v = u * u * v
        return xp.stack((1.0 + u2v - 4.4 * u + alpha * laplacian(u), 3.4 * u - u2v + alpha * laplacian(v))).reshape(-1)

    return f, np.random.default_rng(0).uniform(0.5, 2.0, 2 * side * side)


def rosenbrock(xp, n):
    def f(x):
        return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    return f, np.random.default_rng(0).normal(size=n)


def springs(xp, side):
    index = np.arange(side * side).reshape(side, side)
    ends = ((index[:, :-1], index[:, 1:]), (index[:-1], index[1:]), (index[:-1, :-1], index[1:, 1:]))
    a, b = (np.concatenate([pair[k].ravel() for pair in ends]) for k in (0, 1))
    rest = np.stack(np.meshgrid(np.arange(side) * 1.0, np.arange(side) * 1.0), -1).reshape(-1, 2)
    length = np.sqrt(((rest[a] - rest[b]) ** 2).sum(1))

    def f(x):
        p = x.reshape((-1, 2))
        d = p[a] - p[b]
        return xp.sum(0.5 * (xp.sqrt(xp.sum(d * d, axis=1)) - length) ** 2)

    return f, (rest + 0.1 * np.random.default_rng(0).normal(size=rest.shape)).ravel()


def bundle(xp, cameras, points, observations):
    rng = np.random.default_rng(0)
    i = rng.integers(0, cameras, observations)
    j = np.concatenate([np.arange(points), rng.integers(0, points, observations - points)])

    def f(x):
        c = x[: 9 * cameras].reshape((cameras, 9))[i]
        q = x[9 * cameras :].reshape((points, 3))[j]
        w = c[:, :3]
        angle = xp.sqrt(xp.sum(w * w, axis=1, keepdims=True) + 1e-12)
        k = w / angle
        cross = xp.stack(
            (k[:, 1] * q[:, 2] - k[:, 2] * q[:, 1], k[:, 2] * q[:, 0] - k[:, 0] * q[:, 2],
             k[:, 0] * q[:, 1] - k[:, 1] * q[:, 0]), axis=1,
        )  # fmt: skip
        along = xp.sum(k * q, axis=1, keepdims=True)
        p = q * xp.cos(angle) + cross * xp.sin(angle) + k * along * (1 - xp.cos(angle)) + c[:, 3:6]
        p = -p[:, :2] / p[:, 2:3]
        r = xp.sum(p * p, axis=1, keepdims=True)
        return (c[:, 6:7] * (1 + c[:, 7:8] * r + c[:, 8:9] * r * r) * p).reshape(-1)

    poses = [0.1 * rng.normal(size=(cameras, 3)), rng.normal(size=(cameras, 2)), np.full((cameras, 1), -5.0)]
    lenses = [np.full((cameras, 1), 500.0), np.full((cameras, 2), 1e-3)]
    return f, np.concatenate([np.concatenate([*poses, *lenses], 1).ravel(), rng.normal(size=3 * points)])


def arrow(xp, n):
    return lambda x: xp.sum((x[0] * x[1:]) ** 2 + x[1:] ** 4) + x[0] ** 2, np.random.default_rng(0).normal(size=n)


def collocation(xp, n):
    """A banded residual, two free parameters (dense columns), an integral constraint (a dense row)."""

    def f(z):
        u, a, b = z[:n], z[n], z[n + 1]
        left, right = xp.concatenate((np.zeros(1), u[:-1])), xp.concatenate((u[1:], np.zeros(1)))
        return xp.concatenate((left - 2 * u + right + a * xp.sin(u) + b, (xp.sum(u**2) - 1 + a).reshape(1)))

    return f, np.random.default_rng(0).normal(size=n + 2)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────


def dualad_values(make, size, second):
    f, x = make(np, *size)
    derivative = (da.sparse_hessian if second else da.sparse_jacobian)(f)
    derivative(x)
    return lambda: derivative(x).data


def compiled_values(make, size, second):
    f, x = make(np, *size)
    compiled = da.jit((da.sparse_hessian if second else da.sparse_jacobian)(f))
    return lambda: compiled(x).data


def asdex_values(make, size, second):
    asdex, jax = importlib.import_module("asdex"), importlib.import_module("jax")
    ss = importlib.import_module("scipy.sparse")
    jax.config.update("jax_enable_x64", True)
    f, x = make(importlib.import_module("jax.numpy"), *size)
    compiled = jax.jit((asdex.hessian if second else asdex.jacobian)(f, x))
    indices = np.asarray(compiled(x).indices)

    def values():
        found = compiled(x)
        matrix = ss.csr_array((np.asarray(found.data), (indices[:, 0], indices[:, 1])), shape=found.shape)
        matrix.sort_indices()
        return matrix.data

    return values


def casadi_values(make, size, second):
    casadi = importlib.import_module("casadi")
    if make not in (burgers, rosenbrock):
        raise ModuleNotFoundError("the function is not written for CasADi's vectors")
    n = size[0]
    x = casadi.SX.sym("x", n)
    if second:
        y = casadi.sum1(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
        matrix = casadi.hessian(y, x)[0]
    else:
        h = 1.0 / (n + 1)
        right, left = casadi.vertcat(x[1:], 0), casadi.vertcat(0, x[:-1])
        matrix = casadi.jacobian(0.01 / h**2 * (right - 2.0 * x + left) - x * (right - left) * (0.5 / h), x)
    call = casadi.Function("matrix", [x], [matrix.T])  # CasADi's columns are our rows
    point = make(np, *size)[1]
    return lambda: np.asarray(call(point).nonzeros())


def values(name, title, make, size, second=False, budget=1.0, compiled=0.3):
    contenders = {
        "dualad": lambda: dualad_values(make, size, second),
        "dualad, jit": lambda: compiled_values(make, size, second),
        "asdex": lambda: asdex_values(make, size, second),
        "CasADi": lambda: casadi_values(make, size, second),
    }
    budgets = (
        Budget(f"≤ {budget:g}× asdex in CSR form", "dualad", "asdex", at_most=budget),
        Budget(f"compiled ≤ {compiled:g}× asdex in CSR form", "dualad, jit", "asdex", at_most=compiled),
        Budget("compiled ≤ 0.3× CasADi", "dualad, jit", "CasADi", at_most=0.3),
    )
    return Work(f"sparse-{name}", title, contenders, budgets, agreement=1e-7)


# ── from nothing ─────────────────────────────────────────────────────────────────────────────────────────────────


def seconds(call):
    """Return a function that makes the call and returns how long it took."""

    def timed():
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return timed


def from_nothing(name, title, make, size, second, limit):
    f, x = make(np, *size)
    make_derivative = da.sparse_hessian if second else da.sparse_jacobian
    make_derivative(lambda v: np.sum(v**2) if second else v * 2)(np.ones(3))  # SciPy is loaded
    budgets = (Budget(f"≤ {1000 * limit:g} ms", "dualad", None, at_most=limit),)
    contenders = {"dualad": lambda: seconds(lambda: make_derivative(f)(x))}
    return Work(f"sparse-first-{name}", title, contenders, budgets, self_timed=True)


def detection(name, title, make, size, second, limit=0.6):
    def build():
        f, x = make(np, *size)
        find = da.hessian_sparsity if second else da.jacobian_sparsity
        return seconds(lambda: find(f, x))

    budgets = (Budget(f"≤ {limit:g} s", "dualad", None, at_most=limit),)
    return Work(f"sparse-detect-{name}", title, {"dualad": build}, budgets, self_timed=True)


def coloured(name, title, make, size, second, limit=0.3):
    def build():
        f, x = make(np, *size)
        S = (da.hessian_sparsity if second else da.jacobian_sparsity)(f, x)
        return seconds(lambda: da.color(S, "symmetric" if second else "auto"))

    budgets = (Budget(f"≤ {limit:g} s", "dualad", None, at_most=limit),)
    return Work(f"sparse-color-{name}", title, {"dualad": build}, budgets, self_timed=True)


def checked(name, title, make, size, limit):
    """The check against an evaluation without it, both by products."""

    def build(check):
        f, x = make(np, *size)
        jac = da.sparse_jacobian(f, mode="forward", check=check)
        jac(x)
        return lambda: jac(x).data

    contenders = {"dualad": lambda: build("raise"), "without the check": lambda: build("never")}
    budgets = (Budget(f"≤ {limit}× without it", "dualad", "without the check", at_most=limit),)
    return Work(f"sparse-check-{name}", title, contenders, budgets)


def works(quick):
    n, side, mesh = (10_000, 71, 30) if quick else (100_000, 224, 71)
    million, large = (100_000, 224) if quick else (1_000_000, 707)
    scene = (10, 500, 2000) if quick else (50, 5000, 20_000)
    return [
        values("burgers", f"Jacobian of Burgers' equation, n = {n}, to CSR", burgers, (n,), compiled=0.1),
        values("brusselator", f"Jacobian of the 2-D Brusselator, n = {2 * side**2}, to CSR", brusselator, (side,)),
        values("rosenbrock", f"Hessian of Rosenbrock's function, n = {n}, to CSR", rosenbrock, (n,), True),
        values("springs", f"Hessian of a mesh of springs, n = {2 * mesh**2}, to CSR", springs, (mesh,), True),
        values("bundle", f"Jacobian of bundle adjustment, {2 * scene[2]} residuals, to CSR", bundle, scene),
        from_nothing("burgers", f"the first Jacobian of Burgers' equation, n = {n}", burgers, (n,), False, 0.06),
        from_nothing("arrow", f"the first Hessian of an arrow, n = {n}", arrow, (n,), True, 0.15),
        from_nothing("collocation", f"the first Jacobian of a collocation, n = {n}", collocation, (n,), False, 0.15),
        detection("burgers", f"pattern of Burgers' equation, n = {million}", burgers, (million,), False),
        detection("brusselator", f"pattern of the Brusselator, n = {2 * large**2}", brusselator, (large,), False),
        detection("rosenbrock", f"pattern of Rosenbrock's Hessian, n = {million}", rosenbrock, (million,), True),
        coloured("burgers", f"colouring of Burgers' equation, n = {million}", burgers, (million,), False),
        coloured("brusselator", f"colouring of the Brusselator, n = {2 * large**2}", brusselator, (large,), False),
        checked("burgers", f"Burgers' equation, checked (3 colours), n = {n}", burgers, (n,), 1.5),
        checked("brusselator", f"the Brusselator, checked (12 colours), n = {2 * side**2}", brusselator, (side,), 1.15),
    ]


def growth():
    """Print how detection, colouring and evaluation grow from 10³ to 10⁶ unknowns, and peak memory."""
    found = {}
    for make, second, sizes in ((burgers, False, [(10**k,) for k in (3, 4, 5, 6)]),
                                (rosenbrock, True, [(10**k,) for k in (3, 4, 5, 6)]),
                                (brusselator, False, [(22,), (71,), (224,), (707,)])):  # fmt: skip
        for size in sizes:
            f, x = make(np, *size)
            find = da.hessian_sparsity if second else da.jacobian_sparsity
            derivative = (da.sparse_hessian if second else da.sparse_jacobian)(f)
            steps = {"pattern": lambda find=find, f=f, x=x: find(f, x)}
            S = find(f, x)
            steps["colouring"] = lambda S=S, second=second: da.color(S, "symmetric" if second else "auto")
            derivative(x)
            steps["values"] = lambda derivative=derivative, x=x: derivative(x)
            for what, call in steps.items():
                found.setdefault((make.__name__, what), []).append((x.size, min(seconds(call)() for _ in range(3))))
    for (name, what), rows in found.items():
        sizes, times = np.log([r[0] for r in rows]), np.log([r[1] for r in rows])
        slope = np.polyfit(sizes[1:], times[1:], 1)[0]
        text = ", ".join(f"{n}: {1000 * t:.3g} ms" for n, t in rows)
        print(f"{name:<12} {what:<10} exponent {slope:.2f} from 10⁴ on   {text}")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")


if __name__ == "__main__":
    sys.exit(growth())
