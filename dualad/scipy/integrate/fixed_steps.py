"""Methods whose steps have a size that the user chooses: Euler's, the classical Runge–Kutta method, symplectic ones.

A separable Hamiltonian H = T(p) + V(q) has the equations q' = ∇T(p), p' = −∇V(q), and y = (q, p). Verlet's step is

    p½ = p + h/2 f_p(q),   q⁺ = q + h f_q(p½),   p⁺ = p½ + h/2 f_p(q⁺):

each part is a shear, so that it keeps the symplectic form, and the energy stays near where it was for exponentially
long times (Hairer, Lubich, Wanner, *Geometric Numerical Integration*, 2006, IX.8). Steps of sizes γᵢh, symmetric and
Σγᵢ = 1, in which Σγᵢ³ and further sums vanish, are methods of higher orders (Yoshida, *Physics Letters A* 150, 1990).
The tangent of a step is the step of the variational equation, whose blocks are halved like y. A solution inside of a
step is that of a shorter step. Not for: who runs the loop (``native.py``), which takes these for methods without an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, ShapeError
from .rosenbrock import RightHandSide
from .runge_kutta import Method, State

__all__ = ["FIXED", "SYMPLECTIC", "with_steps"]


def _method(step: Callable, calls: int) -> Method:
    def whole(f: RightHandSide, t: Any, y: Any, h: Any, end: Any, slope: Any) -> tuple[Any, tuple]:
        y = step(f, t, y, h, slope)
        return y, (f(end, y),)

    def dense(f: RightHandSide, s: State) -> Callable:
        return lambda x: step(f, s.t_old, s.y_old, x * (s.t - s.t_old), f(s.t_old, s.y_old))

    # The error is 0; where the slope is not finite, it is none either.
    return Method(1, 1, whole, lambda k, h, scale: 0.0 * np.sum(k[0]), dense, calls)


def _euler(f: RightHandSide, t: Any, y: Any, h: Any, slope: Any) -> Any:
    return y + h * slope


def _rk4(f: RightHandSide, t: Any, y: Any, h: Any, slope: Any) -> Any:
    """Kutta, *Beitrag zur näherungsweisen Integration totaler Differentialgleichungen* (1901)."""
    second = f(t + h / 2, y + h / 2 * slope)
    third = f(t + h / 2, y + h / 2 * second)
    fourth = f(t + h, y + h * third)
    return y + h / 6 * (slope + 2 * (second + third) + fourth)


def _composition(half: Sequence[float]) -> Method:
    """Return the method of Verlet's steps of sizes γᵢh, of which the first half is given, with the middle one."""
    sizes = [*half, *reversed(half[:-1])]
    kicks = [(a + b) / 2 for a, b in zip([0.0, *sizes], [*sizes, 0.0], strict=True)]

    def step(f: RightHandSide, t: Any, y: Any, h: Any, slope: Any) -> Any:
        y = _moved(f, y, slope, kicks[0] * h, 1)
        for size, kick in zip(sizes, kicks[1:], strict=True):
            y = _moved(f, y, f(t, y), size * h, 0)
            t = t + size * h
            y = _moved(f, y, f(t, y), kick * h, 1)
        return y

    return _method(step, 2 * len(sizes) + 1)


def _moved(f: RightHandSide, y: Any, slope: Any, h: Any, part: int) -> Any:
    """Return y of which one part has moved along the slope: the positions (0), or the momenta (1), of each block."""
    base: RightHandSide | None = f
    while base.base is not None:
        base = base.base
    half = base.n // 2
    if base is f:
        q, p = y[:half], y[half:]
        return np.concatenate([q, p + h * slope[half:]] if part else [q + h * slope[:half], p])
    blocks, slopes = np.reshape(y, (-1, 2, half)), np.reshape(slope, (-1, 2, half))
    q, p = blocks[:, 0], blocks[:, 1]
    moved = [q, p + h * slopes[:, 1]] if part else [q + h * slopes[:, 0], p]
    return np.reshape(np.stack(moved, axis=1), (-1,))


_CUBE_ROOT = 2.0 ** (1 / 3)

SYMPLECTIC: dict[str, Method] = {
    # Störmer (1907), Verlet (1967): order 2.
    "Verlet": _composition([1.0]),
    # Forest and Ruth (1990), Yoshida (1990): order 4.
    "Yoshida4": _composition([1 / (2 - _CUBE_ROOT), -_CUBE_ROOT / (2 - _CUBE_ROOT)]),
    # Kahan and Li, *Composition constants for raising the orders of unconventional schemes*, Mathematics of Computation
    # 66 (1997): order 6 by nine steps, and order 8 by seventeen.
    "KahanLi6": _composition([
        0.39216144400731413928, 0.33259913678935943860, -0.70624617255763935981, 0.08221359629355080023,
        0.79854399093482996340,
    ]),
    "KahanLi8": _composition([
        0.13020248308889008088, 0.56116298177510838456, -0.38947496264484728641, 0.15884190655515560090,
        -0.39590389413323757734, 0.18453964097831570709, 0.25837438768632204729, 0.29501172360931029887,
        -0.60550853383003451170,
    ]),
}  # fmt: skip

#: the methods of fixed steps, by name
FIXED: dict[str, Method] = {"Euler": _method(_euler, 1), "RK4": _method(_rk4, 4), **SYMPLECTIC}


#: more steps than anybody takes
_ENDLESS = 2**62


def with_steps(settings: Any, y0: Any, options: dict) -> tuple[Any, dict]:
    """Return settings and options: with ``step=h`` steps are not larger, and as many as it takes."""
    where, method, step = settings.where, settings.method, options.get("step")
    if not isinstance(method, str) or method not in FIXED:
        if step is None:
            return settings, options
        raise ArgumentError(
            f"{where}: step={step!r} with method={method!r}.", "that method chooses its steps by their errors",
            f"pass max_step=, or a method of fixed steps: {', '.join(FIXED)}",
        )  # fmt: skip
    if not (isinstance(step, (int, float, np.number)) and step > 0):
        raise ArgumentError(
            f"{where}: method={method!r} with step={step!r}.", "its steps are of one size", "pass step=0.01"
        )
    if settings.sensitivity == "adjoint":
        raise ArgumentError(
            f"{where}: method={method!r} with sensitivity='adjoint'.",
            "the derivative of fixed steps is that of the steps, and needs no other equation",
            "leave sensitivity out",
        )
    if method in SYMPLECTIC and np.shape(y0)[0] % 2:
        raise ShapeError(
            f"{where}: method={method!r} with a state of {np.shape(y0)[0]} numbers.",
            "the state is (q, p): positions, and as many momenta or velocities",
            "pass np.concatenate([q, p]) as y0, and let the function return np.concatenate([dq, dp])",
        )
    sensitivity = "steps" if settings.sensitivity == "auto" else settings.sensitivity
    own = {**options, "step": float(step), "max_step": float(step)}
    return settings._replace(sensitivity=sensitivity, max_steps=_ENDLESS), own
