"""A Rosenbrock method for stiff problems as a program: linear systems with the exact Jacobian, and no iteration.

    M y' = f(t, y):   (M − γh ∂f/∂y) uᵢ = γ (h f(t + cᵢ h, y + Σⱼ aᵢⱼ uⱼ) + M Σⱼ eᵢⱼ uⱼ + dᵢ h² ∂f/∂t)
                      y⁺ = y + Σ aₛⱼ uⱼ + uₛ,   ε = uₛ

Hairer, Wanner, *Solving Ordinary Differential Equations II* (1996), IV.7 and VI.3; all stages share one matrix, and M
may be singular. A method that has the exact Jacobian commutes with linearization: the tangent of its step is its step
for the variational equation, whose matrices are

    [M 0; Ṁ M] (y, ẏ)' = (f, ∂f/∂y ẏ + ∂f/∂θ θ̇),   [J 0; ∂(Jẏ + ∂f/∂θ θ̇)/∂y  J].

So the systems of that are those of the equation itself, lane by lane, and one factorization is enough for all orders.
Not for: the control of the step size (``runge_kutta.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...control.loops import map as map_rows
from ...jvp import jvp
from ...vmap import vmap
from .functions import over_lanes
from .runge_kutta import Method, State, norm, weighted
from .tables import Rodas5P

__all__ = ["RODAS5P", "RightHandSide"]

#: products of numbers in a product of matrices that machine code has without a loop
_WRITTEN_OUT = 4096


class RightHandSide:
    """f(t, y) of a vector of n numbers, with the linear systems of implicit methods.

    ``base`` is the right-hand side of which this is the variational equation, and ``mass(v)``, if given, M v.
    """

    __slots__ = ("_matrix", "base", "f", "mass", "n")

    def __init__(
        self, f: Callable, n: int, base: RightHandSide | None = None, mass: Callable | None = None
    ) -> None:  # fmt: skip
        self.f, self.n, self.base, self.mass = f, n, base, mass
        self._matrix = np.eye(n) if base is None else None
        if mass is not None and base is None:
            self._matrix = vmap(mass, out_axes=1, randomness="same")(np.eye(n))

    def __call__(self, t: Any, y: Any) -> Any:
        """Return f(t, y)."""
        return self.f(t, y)

    def along(self, t: Any, y: Any, v: Any) -> Any:
        """Return ∂f/∂y v."""
        return jvp(lambda y: self.f(t, y), (y,), (v,))[1]

    def times_mass(self, v: Any) -> Any:
        """Return M v."""
        return v if self.mass is None else self.mass(v)

    def slope(self, t: Any, y: Any, g: Any) -> Any:
        """Return y', or with a mass matrix its mean over a step of size ``g`` of the implicit Euler method."""
        if self.mass is None:
            return self.f(t, y)
        value, drift = jvp(lambda t: self.f(t, y), (t,), (np.ones(()),))
        return self.solver(t, y, g)(value + g * drift)

    @property
    def root(self) -> RightHandSide:
        """The right-hand side of the equation itself."""
        return self if self.base is None else self.base.root

    @property
    def levels(self) -> tuple[RightHandSide, ...]:
        """The equation itself, its variational equation, the one of that, up to this one."""
        return (self,) if self.base is None else (*self.base.levels, self)

    def jacobian(self, t: Any, y: Any) -> Any:
        """Return ∂f/∂y of the equation itself."""
        f = self.root
        return vmap(lambda e: f.along(t, y[: f.n], e), out_axes=1, randomness="same")(np.eye(f.n))

    def blocks(self, matrix: Any, v: Any) -> Any:
        """Return the product of a matrix with each block of n numbers, in a loop where that is long."""
        if np.shape(v) == np.shape(matrix)[:1]:
            return matrix @ v
        rows = np.reshape(v, (-1, self.root.n))
        short = np.size(v) * self.root.n <= _WRITTEN_OUT
        return np.reshape(rows @ matrix.T if short else map_rows(lambda row: matrix @ row, rows), (-1,))

    def solver(self, t: Any, y: Any, g: Any) -> Callable:
        """Return the function r ↦ (M − g ∂f/∂y)⁻¹ r."""
        if self.base is None:
            jacobian = self.jacobian(t, y)
            if self.mass is not None:  # M may be singular: a step of size zero, which changes nothing, takes another
                g = np.where(g == 0, 1.0, g)
            inverse = np.linalg.inv(self._matrix - g * jacobian)
            return lambda r: inverse @ r
        n = self.base.n
        solve = self.base.solver(t, y[:n], g)

        def by_blocks(r: Any) -> Any:
            first = solve(r[:n])
            padded = np.concatenate([first, np.zeros(self.n - n)])
            shift = g * self.along(t, y, padded)[n:]
            if self.mass is not None:
                shift = shift - self.mass(padded)[n:]
            rest = over_lanes(solve, np.reshape(r[n:] + shift, (-1, n)))
            return np.concatenate([first, np.reshape(rest, (-1,))])

        return by_blocks


def _rosenbrock(table: Any, q: int) -> Method:
    def step(f: RightHandSide, t: Any, y: Any, h: Any, end: Any, slope: Any) -> tuple[Any, tuple]:
        g, k = table.gamma * h, list[Any]()
        solve = f.solver(t, y, g)
        drift = h * jvp(lambda t: f(t, y), (t,), (np.ones(()),))[1]
        for a, e, c, d in zip(table.A, table.E, table.C, table.D, strict=True):
            at = f(t + c * h, y + weighted(a, k)) if k else slope
            force = g * (at + d * drift if d else at)
            k.append(solve(force + table.gamma * f.times_mass(weighted(e, k)) if k else force))
        y = y + weighted(table.A[-1], k) + k[-1]
        return y, (*k, f(end, y))

    def dense(f: Callable, s: State) -> Callable:
        p0, p1, p2 = [weighted(row, s.k) for row in table.P]
        return lambda x: (1 - x) * s.y_old + x * (s.y + (1 - x) * (p0 + x * (p1 + x * p2)))

    stages = len(table.C)
    return Method(stages + 1, q, step, lambda k, h, scale: norm(k[stages - 1] / scale), dense, stages, 1)


RODAS5P = _rosenbrock(Rodas5P, 4)
