"""``scipy.interpolate``: splines and tables, differentiable in the data and the points.

An interpolant is constructed and called as SciPy's. Not for: scattered data, smoothing splines, FITPACK.
"""

import scipy.interpolate

from ..mirror import falls_back, refuses_objects
from .bsplines import BSpline, make_interp_spline
from .grids import RegularGridInterpolator, interp1d, interpn
from .piecewise import Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator, PPoly

__all__ = [
    "Akima1DInterpolator", "BSpline", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "RegularGridInterpolator", "interp1d", "interpn", "make_interp_spline",
]  # fmt: skip

_FITPACK = "it fits and evaluates its splines in compiled code (FITPACK)"
_SPLINE = "CubicSpline or make_interp_spline of dualad.scipy.interpolate, which pass through the data"
_TRIANGLES = "it looks up triangles in compiled code (Qhull)"
_GRID = "RegularGridInterpolator of dualad.scipy.interpolate, if the data lie on a grid"

for _name, _why, _instead in (
    ("CloughTocher2DInterpolator", _TRIANGLES, _GRID),
    ("InterpolatedUnivariateSpline", _FITPACK, _SPLINE),
    ("LSQUnivariateSpline", _FITPACK, _SPLINE),
    ("LinearNDInterpolator", _TRIANGLES, _GRID),
    ("NearestNDInterpolator", "it looks up neighbours in compiled code, and its derivative is zero", _GRID),
    (
        "RBFInterpolator",
        "it solves for its weights, and sums kernels, in compiled code",
        "write the kernel in NumPy; np.linalg.solve(kernel(y, y), d) are weights, kernel(x, y) @ weights the values",
    ),
    ("RectBivariateSpline", _FITPACK, _GRID),
    ("SmoothBivariateSpline", _FITPACK, _GRID),
    ("UnivariateSpline", _FITPACK, _SPLINE),
):
    globals()[_name] = refuses_objects(getattr(scipy.interpolate, _name), _why, _instead)

__getattr__, __dir__ = falls_back(scipy.interpolate, globals())
