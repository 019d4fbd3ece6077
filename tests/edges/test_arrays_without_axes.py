"""Arrays without axes are written to in place, scalars are not: a tensor is what NumPy would have in its place.

Not for: views and writes of arrays with axes (``test_memory.py``).
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import dualad as da
import dualad.numpy as dnp
from dualad.errors import InPlaceError

POINT = np.array([0.5, 1.25])

#: name -> something without axes, made of an entry s of x
MADE = {
    "an entry": lambda s, x: s,
    "an entry, as a view": lambda s, x: x[0, ...],
    "array": lambda s, x: np.array(s, like=x),
    "asarray": lambda s, x: np.asarray(s, like=x),
    "asarray, cast": lambda s, x: np.asarray(s, complex, like=x).real,
    "asarray of an array": lambda s, x: np.asarray(np.zeros_like(s), like=x),
    "dualad.numpy.array": lambda s, x: dnp.array(s),
    "dualad.numpy.asarray": lambda s, x: dnp.asarray(s),
    "a buffer": lambda s, x: dnp.array(0.5),
    "copy": lambda s, x: np.copy(s),
    "copy of a scalar": lambda s, x: s.copy(),
    "copy of an array": lambda s, x: np.zeros_like(s).copy(),
    "deepcopy": lambda s, x: copy.deepcopy(np.zeros_like(s)),
    "cast of a scalar": lambda s, x: s.astype(np.float32),
    "cast of an array": lambda s, x: np.zeros_like(s).astype(np.float32),
    "where": lambda s, x: np.where(s > 0, s, 0.0),
    "select": lambda s, x: np.select([s > 0], [s]),
    "choose": lambda s, x: np.choose(0, [s, s]),
    "nan_to_num": lambda s, x: np.nan_to_num(s),
    "clip": lambda s, x: np.clip(s, 0, 1),
    "a real part": lambda s, x: np.array(s + 0j, like=x).real,
    "an imaginary part": lambda s, x: np.array(s + 0j, like=x).imag,
    "a real part of a scalar": lambda s, x: (s + 0j).real,
    "a sum": lambda s, x: np.sum(x),
    "sum of an array": lambda s, x: np.zeros_like(s) + 1.0,
}

UNDER = {
    "jvp": lambda f: lambda x: da.jvp(f, (x,), (x,))[0],
    "grad": lambda f: lambda x: da.value_and_grad(f)(x)[0],
    "vmap": lambda f: lambda x: da.vmap(f)(x[None])[0],
    "jit": lambda f: da.jit(f),
    "taylor": lambda f: lambda x: da.taylor(f, x, x, order=1)[0],
}


def augment(total, step):
    total += step
    total *= 2.0


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("under", UNDER)
def test_a_function_that_adds_to_its_argument_changes_arrays_alone(made, under):
    def f(x):
        out = MADE[made](x[0], x)
        other = out
        for step in x:
            augment(out, step)
        out += x[1]
        return out * 1.0 + 3.0 * other

    np.testing.assert_allclose(UNDER[under](f)(POINT.copy()), f(POINT.copy()), rtol=1e-6)


@pytest.mark.parametrize("under", UNDER)
@pytest.mark.parametrize("part", ["real", "imag"])
def test_writing_to_a_part_of_a_complex_number(under, part):
    def written(x):
        z = np.array(x[0] + 2j * x[1], like=x)
        setattr(z, part, x[1] * 3)
        getattr(z, part)[...] *= x[0]
        return np.abs(z) ** 2

    np.testing.assert_allclose(UNDER[under](written)(POINT), written(POINT))

    def refused(x):
        z = x[0] + 2j * x[1]
        setattr(z, part, x[1] * 3)
        return np.abs(z) ** 2

    for f in (refused, UNDER[under](refused)):
        with pytest.raises(AttributeError, match="not writable"):
            f(POINT)


def test_derivatives_of_what_was_written():
    def total(x):
        out = dnp.array(0.0)
        for v in x:
            augment(out, v**2)
        return out

    np.testing.assert_allclose(da.grad(total)(POINT), [8 * 0.5, 4 * 1.25])
    np.testing.assert_allclose(da.hessian(total)(POINT), np.diag([8.0, 4.0]))
    np.testing.assert_allclose(da.jit(da.vmap(da.grad(total)))(POINT[None]), [[8 * 0.5, 4 * 1.25]])


def test_an_array_without_axes_is_filled():
    def f(x):
        out = dnp.array(0.0)
        out.fill(2.0)
        return out * x

    assert da.jvp(f, (np.array(0.5),), (np.array(1.0),)) == (1.0, 2.0)
    np.testing.assert_array_equal(da.vmap(f)(np.array([1.0, 2.0])), [2.0, 4.0])


def test_a_scalar_is_not_filled():
    """NumPy writes into a copy of a scalar; a traced number may be one, so what it was meant for is asked."""

    def f(x):
        out = x.copy()
        out.fill(2.0)
        return out * x

    for run in (lambda: da.jvp(f, (0.5,), (1.0,)), lambda: da.vmap(f)(np.array([1.0, 2.0])), lambda: da.jit(f)(0.5)):
        with pytest.raises(TypeError, match="0-d result is a scalar"):
            run()
    with pytest.raises(InPlaceError):
        da.jvp(lambda x: x.copy().fill(1j), (np.ones(2),), (np.ones(2),))
