"""``scipy.integrate`` with derivatives: samples, integrals of functions, initial value problems.

Called with plain arguments these are SciPy's functions. Not for: rules of operators that NumPy has (``ops/``).
"""

from __future__ import annotations

import scipy.integrate

from ..mirror import falls_back
from .initial_value import solve_ivp
from .lsoda import odeint
from .samples import cumulative_simpson, cumulative_trapezoid, romb, simpson, trapezoid

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "odeint", "romb", "simpson", "solve_ivp", "trapezoid"]

__getattr__, __dir__ = falls_back(scipy.integrate, globals())
