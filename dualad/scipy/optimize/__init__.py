"""``scipy.optimize`` with derivatives of the answers, by the equations that they satisfy.

Not for: the steps of solvers.
"""

from __future__ import annotations

import scipy.optimize

from ..mirror import falls_back
from .constraints import Bounds, LinearConstraint
from .least_squares import curve_fit, least_squares, leastsq
from .linear import linear_sum_assignment, linprog, lsq_linear, milp, nnls
from .minimize import basinhopping, differential_evolution, dual_annealing, minimize, minimize_scalar, shgo
from .older import brent, brute, direct, fmin, fmin_bfgs, fmin_cg, fmin_ncg, fmin_powell, fminbound, golden
from .problem import SolutionWarning
from .roots import (
    anderson,
    broyden1,
    broyden2,
    diagbroyden,
    excitingmixing,
    fixed_point,
    fsolve,
    linearmixing,
    newton_krylov,
    root,
)
from .scalar import bisect, brenth, brentq, newton, ridder, root_scalar, toms748

__all__ = [
    "Bounds", "LinearConstraint", "SolutionWarning", "anderson", "basinhopping", "bisect", "brent", "brenth", "brentq",
    "broyden1", "broyden2", "brute", "curve_fit", "diagbroyden", "differential_evolution", "direct", "dual_annealing",
    "excitingmixing", "fixed_point", "fmin", "fmin_bfgs", "fmin_cg", "fmin_ncg", "fmin_powell", "fminbound", "fsolve",
    "golden", "least_squares", "leastsq", "linear_sum_assignment", "linearmixing", "linprog", "lsq_linear", "milp",
    "minimize", "minimize_scalar", "newton", "newton_krylov", "nnls", "ridder", "root", "root_scalar", "shgo",
    "toms748",
]  # fmt: skip

__getattr__, __dir__ = falls_back(scipy.optimize, globals())
