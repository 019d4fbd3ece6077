"""``scipy.interpolate``: splines and tables, differentiable in the data and the points.

An interpolant is constructed and called as SciPy's. Not for: scattered data, smoothing splines, FITPACK.
"""

import scipy.interpolate

from ..mirror import falls_back
from .bsplines import BSpline, make_interp_spline
from .grids import RegularGridInterpolator, interp1d, interpn
from .piecewise import Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator, PPoly

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "RegularGridInterpolator", "interp1d", "interpn", "make_interp_spline",
]  # fmt: skip

__getattr__, __dir__ = falls_back(scipy.interpolate, globals())
