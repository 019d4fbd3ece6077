"""Functions of published packages, each as a function of one vector of floats; nothing of a package is changed.

Every one of them must be right as it is. `direct` names the error of those that `plain` keeps from being lifted. Not
for: how they are checked (test_packages.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dualad.errors import ConversionError, DualadError, PlainBufferError

__all__ = ["CALLS", "Call"]


class Call(NamedTuple):
    """One function: `arguments` makes its positional arguments of a vector, `result` picks of what it returns."""

    module: str
    name: str
    x: list[float]
    arguments: Callable = lambda x: tuple(x)
    result: Callable = lambda out: out
    direct: type[DualadError] | None = None
    """What is raised where nothing is lifted; None where nothing is, and the answers are right."""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def function(self, lift: Callable = lambda f: f) -> Callable:
        """Return the function of one vector, running the package's own function or what `lift` makes of it."""
        f = importlib.import_module(self.module)
        for part in self.name.split("."):
            f = getattr(f, part)
        f = lift(f)

        def run(x):
            return self.result(f(*self.arguments(x)))

        return run


def whole(x):
    return (x,)


def halves(n):
    return lambda x: (x[:n], x[n:])


def on_grid(x):
    return np.linspace(-1.0, 2.0, 4), *x


UNIT = [0.8, 0.36, -0.4, 0.2630589287593181]
F = np.array([[1.0, 0.1], [0.0, 1.0]])
P = np.array([[2.0, 0.3], [0.3, 1.0]])
H = np.array([[1.0, 0.0]])


CALLS = [
    Call("filterpy.kalman", "predict", [1.0, 0.5], lambda x: (x, P, F, 0.1 * P)),
    Call("filterpy.kalman", "update", [1.0, 0.5], lambda x: (x, P, 1.3, np.array([[0.5]]), H)),
    Call("filterpy.kalman", "unscented_transform", [1.0, 0.5, 2.0, 0.1, 0.4, 1.5],
         lambda x: (x.reshape(3, 2), np.array([0.5, 0.25, 0.25]), np.array([0.5, 0.25, 0.25]))),
    Call("filterpy.common", "Q_discrete_white_noise", [0.3, 2.0], lambda x: (2, x[0], x[1])),
    Call("filterpy.stats", "mahalanobis", [1.0, 0.5, 0.2, 0.9], lambda x: (x[:2], x[2:], P), direct=ConversionError),
    Call("filterpy.stats", "gaussian", [0.3, 0.1, 1.5]),
    Call("ahrs.common.orientation", "q_prod", [*UNIT, 0.5, -0.5, 0.1, 0.7], halves(4), direct=ConversionError),
    Call("ahrs.common.orientation", "q2R", UNIT, whole),
    Call("ahrs.common.orientation", "acc2q", [0.3, -0.5, 9.0], whole),
    Call("ahrs.common.frames", "geodetic2ecef", [48.0, 11.0, 500.0], direct=ConversionError),
    Call("pymap3d", "geodetic2ecef", [48.0, 11.0, 500.0]),
    Call("pymap3d", "ecef2geodetic", [4.2e6, 8.2e5, 4.7e6], lambda x: (x[:1], x[1:2], x[2:]), direct=ConversionError),
    Call("pymap3d.ecef", "ecef2geodetic", [4.2e6, 8.2e5, 4.7e6]),
    Call("pymap3d", "enu2aer", [120.0, -70.0, 30.0]),
    Call("pymap3d.vincenty", "vdist", [48.0, 11.0, 49.0, 12.5]),
    Call("pymap3d.latitude", "geodetic2isometric", [48.0]),
    Call("pyquaternion", "Quaternion", [0.1, 0.7, -0.3, 0.5],
         lambda x: tuple(x), lambda q: q.rotation_matrix, direct=ConversionError),
    Call("pyquaternion.quaternion", "Quaternion", [0.1, 0.7, -0.3, 0.5],
         lambda x: tuple(x), lambda q: type(q).exp(q).elements, direct=ConversionError),
    Call("navpy", "angle2dcm", [0.3, -0.2, 0.5], direct=PlainBufferError),
    Call("navpy", "angle2quat", [0.3, -0.2, 0.5], direct=PlainBufferError),
    Call("navpy", "lla2ecef", [48.0, 11.0, 500.0]),
    Call("navpy", "qmult", [0.8, 0.36, -0.4, 0.26, 0.5, -0.5, 0.1, 0.7],
         lambda x: (x[0], x[1:4], x[4], x[5:])),
    Call("transforms3d.quaternions", "quat2mat", UNIT, whole),
    Call("transforms3d.quaternions", "qmult", [*UNIT, 0.5, -0.5, 0.1, 0.7], halves(4)),
    Call("transforms3d.quaternions", "qexp", [0.1, 0.7, -0.3, 0.5], whole),
    Call("transforms3d.quaternions", "rotate_vector", [1.0, 2.0, 3.0, *UNIT], halves(3), direct=PlainBufferError),
    Call("transforms3d.euler", "euler2mat", [0.3, -0.2, 0.5], direct=ConversionError),
    Call("transforms3d.axangles", "axangle2mat", [1.0, 2.0, 3.0, 0.4], lambda x: (x[:3], x[3]), direct=ConversionError),
    Call("transforms3d.affines", "compose", [1.0, 2.0, 3.0, 1.5, 0.5, 2.0],
         lambda x: (x[:3], np.eye(3), x[3:]), direct=PlainBufferError),
    Call("transforms3d.shears", "striu2mat", [0.1, 0.2, 0.3], whole, direct=PlainBufferError),
    Call("geographiclib.geomath", "Math.norm", [3.0, 4.0], direct=ConversionError),
    Call("geographiclib.geodesic", "Geodesic.WGS84.Inverse", [48.0, 11.0, 49.0, 12.5], lambda x: tuple(x),
         lambda out: out["s12"], direct=ConversionError),
    Call("fluids.friction", "Clamond", [1e5, 1e-3], direct=ConversionError),
    Call("fluids.friction", "Colebrook", [1e5, 1e-3], direct=ConversionError),
    Call("fluids.drag", "Cheng", [200.0], direct=ConversionError),
    Call("fluids.compressible", "isentropic_work_compression", [300.0, 1.4, 1.2],
         lambda x: (x[0], x[1], 1.0, 1e5, 1e5 * x[2], None, 0.8)),
    Call("utm", "from_latlon", [48.0, 11.0], lambda x: tuple(x), lambda out: out[:2]),
    Call("utm", "to_latlon", [5.0e5, 5.3e6], lambda x: (x[0], x[1], 32, "U")),
    Call("lmfit.lineshapes", "voigt", [1.3, 0.2, 0.7, 0.5], on_grid),
    Call("lmfit.lineshapes", "pearson4", [1.3, 0.2, 0.7, 1.5, 0.3], on_grid),
    Call("lmfit.lineshapes", "breit_wigner", [1.3, 0.2, 0.7, 1.1], on_grid),
    Call("lmfit.lineshapes", "skewed_gaussian", [1.3, 0.2, 0.7, 0.4], on_grid),
]  # fmt: skip
