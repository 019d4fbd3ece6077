"""A user's file that uses the public transforms with annotations, for type checkers: nothing here is run by a test.

`make types` reads it with ``mypy --strict`` and with pyright: what users write must pass, and the types that come out
are those that are asserted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import dualad as da
from dualad.testing import CheckReport, check_function

Array = npt.NDArray[np.float64]


def energy(x: Array, stiffness: float = 1.0) -> np.float64:
    return np.float64(0.5 * stiffness * np.sum(x * x))


def rates(x: Array) -> Array:
    return np.sin(x) * x


def with_count(x: Array) -> tuple[np.float64, int]:
    return energy(x), x.size


point: Array = np.array([1.0, 2.0])
tangent: Array = np.array([1.0, 0.0])

# Values and tangents have the type that the function returns.
value, moved = da.jvp(rates, (point,), (tangent,))
assert_type(value, Array)
assert_type(moved, Array)
assert_type(da.jvp(with_count, (point,), (tangent,), has_aux=True), tuple[np.float64, np.float64, int])

out, pull = da.vjp(rates, point)
assert_type(out, Array)
(cotangent,) = pull(np.ones(2))
print(pull.program)
assert_type(da.vjp(with_count, point, has_aux=True)[2], int)

out, lin = da.linearize(rates, point)
assert_type(out, Array)
print(lin(tangent), lin.program)

# A derivative takes what its function takes: names, defaults, types. What it returns has the argument's structure.
slope = da.grad(energy)
gradient: Array = slope(point, stiffness=2.0)
both: tuple[Array, float] = da.grad(energy, argnums=(0, 1))(point, 3.0)
assert_type(da.value_and_grad(energy)(point), tuple[np.float64, Any])
(energy_value, size), _ = da.value_and_grad(with_count, has_aux=True)(point)
assert_type(size, int)
matrix: Array = da.jacfwd(rates)(point)
matrix = da.jacrev(rates)(point)
matrix = da.hessian(energy)(point, stiffness=2.0)
assert_type(da.value_and_jacfwd(rates)(point)[0], Array)
assert_type(da.value_and_hessian(energy)(point)[0], np.float64)
product: Array = da.hvp(energy, point, tangent)
diagonal: Array = da.hessian_diag(energy)(point)
trace_of_hessian: float = da.laplacian(energy)(point)

# Mapped over an axis, arguments and results are arrays, whatever they were declared as.
batched: Array = da.vmap(energy, in_axes=(0, None))(np.ones((3, 2)), 2.0)
per_lane: Array = da.vmap(da.grad(energy))(np.ones((3, 2)))

# What comes back as it went in keeps its type.
assert_type(da.stop_gradient(point), Array)
assert_type(da.lift(rates)(point), Array)
assert_type(da.checkpoint(rates)(point), Array)
print(da.trace(energy, point, 2.0))


# Functions with rules of their own are still those functions.
@da.custom_jvp
def softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


@softplus.defjvp
def softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    return softplus(x), t / (1 + np.exp(-x))


@da.custom_vjp
def clipped(x: Array) -> Array:
    return x * 1.0


def forward(x: Array) -> tuple[Array, None]:
    return clipped(x), None


def backward(residuals: None, ct: Array) -> tuple[Array]:
    return (np.clip(ct, -1.0, 1.0),)


clipped.defvjp(forward, backward)
assert_type(softplus(point), Array)
assert_type(clipped(point), Array)

# Duals of one's own, control flow, checks.
with da.dual_level():
    dual = da.make_dual(point, tangent)
    print(da.unpack_dual(np.sin(dual) * dual).tangent)
total = da.fori_loop(0, 3, lambda i, s: s + i, 0.0)
last, ys = da.scan(lambda carry, x: (carry + x, carry), 0.0, point)
root = da.while_loop(lambda s: s < 10.0, lambda s: s * 2.0, 1.0)
chosen = da.cond(True, rates, rates, point)
with da.debug(nan=True):
    slope(point)
report: CheckReport = check_function(rates, (point,), oracles=["differences"])


def newton(f: Callable[[Array], Array], x: Array) -> Array:
    """A generic function of the user's own."""
    step: Array = np.linalg.solve(da.jacfwd(f)(x), f(x))
    return x - step
