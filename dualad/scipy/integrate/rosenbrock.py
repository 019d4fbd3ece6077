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

from ...jvp import jvp
from ...vmap import vmap
from .functions import over_lanes
from .runge_kutta import Method, State, norm, weighted

__all__ = ["RODAS5P", "RightHandSide"]


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

    def solver(self, t: Any, y: Any, g: Any) -> Callable:
        """Return the function r ↦ (M − g ∂f/∂y)⁻¹ r."""
        if self.base is None:
            jacobian = vmap(lambda e: self.along(t, y, e), out_axes=1, randomness="same")(np.eye(self.n))
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


class _Rodas5P:
    """Steinebach, *Construction of Rosenbrock–Wanner method Rodas5P* (BIT Numerical Mathematics 63, 2023)."""

    gamma = 0.21193756319429014
    C = (0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0)
    D = (
        0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0.0, 0.0,
        0.0,
    )  # fmt: skip
    #: the last three stages begin where the sixth does, and add up those before
    A: tuple[tuple[float, ...], ...] = (
        (),
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946),
    )
    A = (*A, (*A[5], 1.0), (*A[5], 1.0, 1.0))
    E = (
        (),
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
        (
            30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623,
            -28.087943162872662,
        ),
        (
            37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002,
            -54.66780262877968, -9.48861652309627,
        ),
    )  # fmt: skip
    #: y(x) = (1 − x) y + x (y⁺ + (1 − x) (p₀ + x (p₁ + x p₂))),  pᵢ = Σⱼ Pᵢⱼ uⱼ
    P = (
        (
            25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204, 0.524948541321073,
            1.1241088310450404, 0.4272876194431874, -0.17202221070155493,
        ),
        (
            -9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796, 20.176138334709044,
            15.98066361424651, -6.789040303419874, -6.710236069923372,
        ),
        (
            11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643, -52.072871366152654,
            -59.78993625266729, -0.15582684282751913, 4.883087185713722,
        ),
    )  # fmt: skip


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

    def dense(f: Callable, s: State, x: Any) -> Any:
        p0, p1, p2 = [weighted(row, s.k) for row in table.P]
        return (1 - x) * s.y_old + x * (s.y + (1 - x) * (p0 + x * (p1 + x * p2)))

    stages = len(table.C)
    return Method(stages + 1, q, step, lambda k, h, scale: norm(k[stages - 1] / scale), dense, stages)


RODAS5P = _rosenbrock(_Rodas5P, 4)
