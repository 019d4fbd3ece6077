"""``scipy.optimize`` with derivatives of the answers, by the equations that they satisfy.

Not for: the steps of solvers.
"""

from __future__ import annotations

import scipy.optimize

from ..mirror import falls_back
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
    "SolutionWarning", "anderson", "bisect", "brenth", "brentq", "broyden1", "broyden2", "diagbroyden",
    "excitingmixing", "fixed_point", "fsolve", "linearmixing", "newton", "newton_krylov", "ridder", "root",
    "root_scalar", "toms748",
]  # fmt: skip

__getattr__, __dir__ = falls_back(scipy.optimize, globals())
