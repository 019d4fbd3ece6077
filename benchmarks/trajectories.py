"""Gradients of solutions of ODEs, by the adjoint and by forward sensitivities, beside JAX, diffrax and torchdiffeq.

All solve at a tolerance of 1e-8; what torchdiffeq integrates backwards is less accurate, so they are compared at 3e-4.
dualad's and torchdiffeq's times hold all that a call does; JAX's and diffrax's hold no compilation (3 to 15 s a row).
Not for: implicit derivatives of other solvers.
"""

import importlib
import itertools

import numpy as np

import dualad as da
from benchmarks.harness import Budget, Work

__all__ = ["works"]

TOLERANCE = 1e-8
#: how often the walk back through the first problem asks for slopes
SLOPES = 338


def lotka_volterra(xp, t, y, p):
    return xp.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])


def diffusion(xp, t, y, p):
    join = xp.cat if hasattr(xp, "cat") else xp.concatenate
    left, right = join([y[:1], y[:-1]]), join([y[1:], y[-1:]])
    return 2 * p * (left - 2 * y + right) + xp.sin(y)


PROBLEMS = {
    "predators": ("Lotka and Volterra's 2 species, 4 rates", lotka_volterra, [10.0, 5.0], [1.1, 0.4, 0.1, 0.4], 10.0),
    "diffusion": (
        "40 cells with 40 coefficients", diffusion, np.sin(np.linspace(0, 3, 40)), np.linspace(0.5, 1.5, 40), 1.0
    ),
}  # fmt: skip


def solved(f, y0, p, end, sensitivity):
    """Return the sum of the last state, by dualad."""
    solve_ivp = importlib.import_module("dualad.scipy.integrate").solve_ivp
    sol = solve_ivp(
        lambda t, y, p: f(np, t, y, p), (0.0, end), y0, "DOP853", t_eval=[end], args=(p,), rtol=TOLERANCE,
        atol=TOLERANCE, sensitivity=sensitivity,
    )  # fmt: skip
    return np.sum(sol.y)


def by_dualad(f, y0, p, end, sensitivity):
    return lambda: da.grad(lambda p: solved(f, y0, p, end, sensitivity))(p)


def by_jit(f, y0, p, end, sensitivity):
    """The compiled gradient, at another point in each call."""
    gradient, calls = da.jit(da.grad(lambda p: solved(f, y0, p, end, sensitivity))), itertools.count()
    return lambda: gradient(p * (1 + 1e-9 * (next(calls) % 1000)))


def primal(f, y0, p, end):
    integrate = importlib.import_module("scipy.integrate")
    options = {"rtol": TOLERANCE, "atol": TOLERANCE, "method": "DOP853"}
    return lambda: integrate.solve_ivp(lambda t, y: f(np, t, y, p), (0.0, end), y0, **options).y[:, -1]


def by_jax(f, y0, p, end):
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    odeint = importlib.import_module("jax.experimental.ode").odeint
    jnp = jax.numpy
    total = lambda p: jnp.sum(
        odeint(lambda y, t: f(jnp, t, y, p), jnp.asarray(y0), jnp.array([0.0, end]), rtol=TOLERANCE, atol=TOLERANCE)[-1]
    )
    gradient = jax.jit(jax.grad(total))
    return lambda: np.asarray(gradient(p))


def by_diffrax(f, y0, p, end):
    diffrax, jax = importlib.import_module("diffrax"), importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def total(p):
        return jnp.sum(
            diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, y, p: f(jnp, t, y, p)), diffrax.Dopri8(), 0.0, end, None, jnp.asarray(y0),
                args=p, stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE), max_steps=4096,
            ).ys[0]
        )  # fmt: skip

    gradient = jax.jit(jax.grad(total))
    return lambda: np.asarray(gradient(jnp.asarray(p)))


def by_torchdiffeq(f, y0, p, end):
    torch, torchdiffeq = importlib.import_module("torch"), importlib.import_module("torchdiffeq")

    class Right(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.tensor(p))

        def forward(self, t, y):
            return f(torch, t, y, self.p)

    def gradient():
        right = Right()
        out = torchdiffeq.odeint_adjoint(
            right, torch.tensor(y0), torch.tensor([0.0, end], dtype=torch.float64), rtol=TOLERANCE, atol=TOLERANCE,
            method="dopri8",
        )  # fmt: skip
        out[-1].sum().backward()
        return right.p.grad.numpy()

    return gradient


def works(quick=False):
    """The rows: each problem by both sensitivities."""
    for name, (title, f, y0, p, end) in PROBLEMS.items():
        at = (f, np.asarray(y0), np.asarray(p), end)
        peers = {
            "NumPy primal": lambda at=at: primal(*at),
            "JAX jit": lambda at=at: by_jax(*at),
            "diffrax": lambda at=at: by_diffrax(*at),
            "torchdiffeq": lambda at=at: by_torchdiffeq(*at),
        }
        for sensitivity in ("adjoint", "forward"):
            contenders = {"dualad": lambda at=at, s=sensitivity: by_dualad(*at, s)} | peers
            budgets = [Budget("≤ 0.25× torchdiffeq", "dualad", "torchdiffeq", at_most=0.25)]
            if (sensitivity, name) == ("adjoint", "predators"):
                says = f"≤ 0.3 ms a right-hand side, {SLOPES} of them"
                budgets.append(Budget(says, "dualad", None, at_most=3e-4 * SLOPES))
            yield Work(
                f"ode-{name}-{sensitivity}", f"gradient of an ODE's end, {title}, {sensitivity}", contenders,
                tuple(budgets), agreement=3e-4,
            )  # fmt: skip
        if name == "predators":
            budgets = (
                Budget("≤ 0.5× JAX jit", "dualad", "JAX jit", at_most=0.5),
                Budget("≤ 0.05× diffrax", "dualad", "diffrax", at_most=0.05),
            )
            yield Work(
                f"ode-{name}-compiled", f"gradient of an ODE's end under jit, {title}",
                {"dualad": lambda at=at: by_jit(*at, "forward")} | peers, budgets, agreement=3e-4,
            )  # fmt: skip
