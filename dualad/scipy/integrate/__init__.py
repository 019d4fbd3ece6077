"""``scipy.integrate`` with derivatives: samples, integrals of functions, initial and boundary value problems.

Called with plain arguments these are SciPy's functions. Not for: rules of operators that NumPy has (``ops/``).
"""

from __future__ import annotations

import scipy.integrate

from ..mirror import falls_back
from .boundary_value import solve_bvp
from .dae import solve_dae
from .initial_value import solve_ivp
from .integrals import dblquad, fixed_quad, nquad, quad, quad_vec, tplquad
from .lsoda import odeint
from .samples import cumulative_simpson, cumulative_trapezoid, romb, simpson, trapezoid

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "nquad", "odeint", "quad", "quad_vec",
    "romb", "simpson", "solve_bvp", "solve_dae", "solve_ivp", "tplquad", "trapezoid",
]  # fmt: skip

__getattr__, __dir__ = falls_back(scipy.integrate, globals())
