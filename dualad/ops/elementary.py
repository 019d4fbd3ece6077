"""Elementary functions: exponentials, logarithms, roots, trigonometric and hyperbolic functions and their inverses.

Not for: functions of ``scipy.special`` (``special.py``) or powers with a variable exponent (``arithmetic.py``).
"""

from __future__ import annotations

import numpy as np

from .kinds import unary
from .samples import anywhere, positive

__all__ = ["cos", "exp", "log", "sin", "sqrt", "tanh"]

exp = unary("exp", np.exp, derivative=lambda x, out: out, samples=anywhere(), complex_too=True)
log = unary("log", np.log, derivative=lambda x, out: 1 / x, samples=positive(), complex_too=True, singular=True)
sqrt = unary("sqrt", np.sqrt, derivative=lambda x, out: 0.5 / out, samples=positive(), complex_too=True, singular=True)
sin = unary("sin", np.sin, derivative=lambda x, out: np.cos(x), samples=anywhere(), complex_too=True)
cos = unary("cos", np.cos, derivative=lambda x, out: -np.sin(x), samples=anywhere(), complex_too=True)
tanh = unary("tanh", np.tanh, derivative=lambda x, out: 1 - out * out, samples=anywhere(), complex_too=True)
