"""Discrete cosine and sine transforms of types 1 to 4 along one axis, by SciPy.

``norm`` is one of "backward", "ortho", "forward"; ``orthogonalize`` scales the ends so that the matrix of a transform
with norm "ortho" is orthogonal. The inverses are transforms themselves: type 2 and 3 are each other's.
Loaded with ``dualad.scipy.fft``, for SciPy is optional. Not for: SciPy's signatures (``dualad/scipy/fft.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.fft as sf

from ..core.aval import Array, Aval
from .factorization import floating
from .kinds import linear, unbroadcast
from .samples import anywhere, complex_plane

__all__ = ["INVERSE", "dct", "dst"]

#: the type of the transform that undoes one of a type
INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


# Up to scaling, with n the number of entries and 0 ≤ j, k < n,
#
#     dct 2:  M[k, j] = 2 cos(πk(2j+1)/2n)          dst 2:  M[k, j] = 2 sin(π(k+1)(2j+1)/2n),
#
# type 3 is the transpose with column 0 (dst: n−1) halved, type 4 is symmetric, and so is the dst of type 1; the dct of
# type 1 is a symmetric matrix with columns 0 and n−1 halved. Orthogonalized, type 1 is symmetric too, and 2 and 3 are
# transposes of each other.


def _ends(n: int, places: tuple[int, ...], value: float, ct, behind: int):
    """Return ones but for ``value`` at some places, along an axis with ``behind`` axes after it."""
    weights = np.ones(n, np.real(np.zeros((), ct.dtype)).dtype)
    weights[list(places)] = value
    return weights.reshape((n,) + (1,) * behind)


def _run(function: Callable, x, *, type, axis, norm, orthogonalize):
    if not x.size:
        return x.astype(floating(x.dtype))
    if x.dtype.kind == "c":  # SciPy forgets orthogonalize= there
        real, imaginary = [
            function(part, type, axis=axis, norm=norm, orthogonalize=orthogonalize) for part in (x.real, x.imag)
        ]
        return real + 1j * imaginary
    return function(x, type, axis=axis, norm=norm, orthogonalize=orthogonalize)


def _transform(name: str, function: Callable, first: tuple[int, ...], last: tuple[int, ...]):
    """Declare a transform: ``first`` are the places halved in type 1, ``last`` those halved in type 3."""

    def transpose(ct: Array, x: Array, *, type, axis: int, norm: str, orthogonalize) -> tuple:
        n, behind = x.shape[axis], len(x.shape) - axis - 1
        places = first if type == 1 else last
        plain = orthogonalize or type == 4 or not places
        if not plain and type in (1, 2):
            ct = ct * _ends(n, places, 2.0, ct, behind)
        back = op(ct, type=INVERSE[type], axis=axis, norm=norm, orthogonalize=orthogonalize)
        if not plain and type in (1, 3):
            back = back * _ends(n, places, 0.5, ct, behind)
        return (unbroadcast(back, x),)

    op = linear(
        name,
        impl=lambda x, **params: _run(function, x, **params),
        abstract_eval=lambda x, *, type, axis, norm, orthogonalize: Aval(x.shape, floating(x.dtype)),
        transpose=transpose,
        samples=[
            (make(*shape), {"type": type, "axis": axis, "norm": norm, "orthogonalize": orthogonalize})
            for type in (1, 2, 3, 4)
            for make, shape, axis, norm, orthogonalize in (
                (anywhere(), (4,), 0, "backward", False), (anywhere(), (2, 5), 1, "ortho", True),
                (anywhere(), (3, 2), 0, "forward", True), (complex_plane(), (3, 1), 0, "ortho", False),
            )
        ] + [((0, 3), {"type": 2, "axis": 1, "norm": "backward", "orthogonalize": False})],
        blocks="one",
    )  # fmt: skip
    return op


dct = _transform("dct", sf.dct, (0, -1), (0,))
dst = _transform("dst", sf.dst, (), (-1,))
