"""NumPy's names on lazy arrays: the numbers of NumPy's arrays, or a refusal with words, and never a compute.

Not for: the everyday functions and the operators, which ``test_other_arrays.py`` has.
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import DualadError

from .test_other_arrays import _Dask, _leaves

X = np.array([1.3, 2.2, 3.1, 4.7, 5.5, 6.4])
NAMES = {
    "np.average w": lambda x: np.average(x, weights=x),
    "ptp": lambda x: np.ptp(x),
    "roll": lambda x: np.roll(x, 2),
    "tile": lambda x: np.tile(x, 2),
    "repeat": lambda x: np.repeat(x, 2),
    "pad": lambda x: np.pad(x, 1),
    "gradient": lambda x: np.gradient(x),
    "trapezoid": lambda x: np.trapezoid(x),
    "interp": lambda x: np.interp(x, np.arange(6.0), np.arange(6.0)),
    "cov": lambda x: np.cov(np.outer(x, x)),
    "corrcoef": lambda x: np.corrcoef(x.reshape(2, 3)),
    "kron": lambda x: np.kron(x, x),
    "cross": lambda x: np.cross(x[:3], x[3:]),
    "diag": lambda x: np.diag(x),
    "trace": lambda x: np.trace(np.outer(x, x)),
    "tril": lambda x: np.tril(np.outer(x, x)),
    "vander": lambda x: np.vander(x, 3),
    "polyval": lambda x: np.polyval(x[:3], x),
    "convolve": lambda x: np.convolve(x, np.ones(2)),
    "unwrap": lambda x: np.unwrap(x),
    "nan_to_num": lambda x: np.nan_to_num(x),
    "nansum": lambda x: np.nansum(x),
    "nanmean": lambda x: np.nanmean(x),
    "nanmax": lambda x: np.nanmax(x),
    "median": lambda x: np.median(x),
    "meshgrid": lambda x: np.meshgrid(x, x)[0],
    "block": lambda x: np.block([x, x]),
    "flip": lambda x: np.flip(x),
    "rot90": lambda x: np.rot90(np.outer(x, x)),
    "tensordot": lambda x: np.tensordot(np.outer(x, x), x, 1),
    "vdot": lambda x: np.vdot(x, x),
    "inner": lambda x: np.inner(x, x),
    "swapaxes": lambda x: np.swapaxes(np.outer(x, x), 0, 1),
    "broadcast": lambda x: np.broadcast_to(x, (2, 6)),
    "squeeze": lambda x: np.squeeze(x[None]),
    "insert": lambda x: np.insert(x, 1, 0.0),
    "delete": lambda x: np.delete(x, 1),
    "append": lambda x: np.append(x, x),
    "linspace": lambda x: np.linspace(x[0], x[1], 4),
    "logspace": lambda x: np.logspace(x[0], x[1], 4),
    "geomspace": lambda x: np.geomspace(x[0], x[1], 4),
    "take": lambda x: np.take(x, [1, 2]),
    "choose": lambda x: np.choose(np.array([0, 1, 0, 1, 0, 1]), [x, 2 * x]),
    "select": lambda x: np.select([x > 2, x > 1], [x, 2 * x]),
    "piecewise": lambda x: np.piecewise(x, [x > 2], [lambda y: y, lambda y: 2 * y]),
    "histogram": lambda x: np.histogram(x, weights=x)[0],
    "digitize": lambda x: x * np.digitize(x, np.arange(6.0)),
    "unique": lambda x: np.unique(x),
    "allclose": lambda x: x * np.allclose(x, x),
    "heaviside": lambda x: x * np.heaviside(x, 0.5),
    "fmax": lambda x: np.fmax(x, 2.0),
    "mod": lambda x: x % 2,
    "divmod": lambda x: np.divmod(x, 2.0)[1],
    "float_power": lambda x: np.float_power(x, 2),
    "iter": lambda x: sum(v * v for v in x),
    "std ddof": lambda x: np.std(x, ddof=1),
    "sum where": lambda x: np.sum(x, where=x > 1),
    "max initial": lambda x: np.max(x, initial=0.0),
    "apply_along": lambda x: np.apply_along_axis(np.sum, 0, np.outer(x, x)),
    "matrix_power": lambda x: np.linalg.matrix_power(np.outer(x, x), 2),
    "norm 1": lambda x: np.linalg.norm(x, 1),
    "norm inf": lambda x: np.linalg.norm(x, np.inf),
    "multi_dot": lambda x: np.linalg.multi_dot([np.outer(x, x)] * 3),
    "array_split": lambda x: np.array_split(x, 2)[0],
    "where1": lambda x: x[np.where(x > 1)],
    "nonzero": lambda x: x[np.nonzero(x > 1)],
    "extract": lambda x: np.extract(x > 1, x),
    "compress": lambda x: np.compress([True] * 6, x),
}
WAYS = {
    "jvp": lambda f, x: da.jvp(f, (x,), (0.5 * x,)),
    "grad": lambda f, x: da.grad(lambda x: np.sum(f(x)))(x),
    "jacfwd": lambda f, x: da.jacfwd(f)(x),
    "vmap": lambda f, x: da.vmap(f)(_rows(x)),
}


def _rows(x):
    rows = np.stack([x, 2.0 * x])
    return rows.rechunk((1, -1)) if hasattr(rows, "rechunk") else rows


@pytest.fixture(scope="module")
def dask():
    return _Dask()


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_right_or_refused(name, way, dask):
    f, run = NAMES[name], WAYS[way]
    refusal = None
    try:
        found = dask.run(lambda: run(f, dask.make(X)))
    except DualadError as error:
        refusal = error
    if refusal is not None:
        assert "compute" in refusal.instead or "np.where" in refusal.instead
        return
    for got, want in zip(_leaves(found), _leaves(run(f, X)), strict=True):
        got = dask.get(got)
        assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
        np.testing.assert_allclose(got, want)
