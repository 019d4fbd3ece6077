"""``scipy.integrate`` with derivatives: samples, integrals of functions, initial value problems.

Called with plain arguments these are SciPy's functions. Not for: rules of operators that NumPy has (``ops/``).
"""

from __future__ import annotations

import scipy.integrate

from ..mirror import falls_back, refuses
from .initial_value import solve_ivp
from .integrals import dblquad, fixed_quad, nquad, quad, quad_vec, tplquad
from .lsoda import odeint
from .samples import cumulative_simpson, cumulative_trapezoid, romb, simpson, trapezoid

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "nquad", "odeint", "quad", "quad_vec",
    "romb", "simpson", "solve_bvp", "solve_ivp", "tplquad", "trapezoid",
]  # fmt: skip

solve_bvp = refuses(
    scipy.integrate.solve_bvp,
    "scipy.integrate.solve_bvp",
    "the equations that its answer satisfies are those of its own mesh",
    "write the collocation equations and solve them by dualad.custom_root, or shoot: find the initial state with which"
    " dualad.scipy.integrate.solve_ivp meets the other boundary, by dualad.scipy.optimize.root",
)

__getattr__, __dir__ = falls_back(scipy.integrate, globals())
