"""Python numbers as primals, through every operator and ufunc, beside every kind of number: right, or a taught error.

Not for: arrays (``tests/surface``), or what NumPy itself refuses.
"""

from __future__ import annotations

import decimal
import fractions
import operator
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError, DualadError

PRIMALS = [0.5, 0.0, 1j, 1 + 1j, 2]
OTHERS = [
    2,
    0.5,
    1j,
    1 + 1j,
    True,
    np.float32(2),
    np.complex64(1j),
    np.float64(3),
    np.array([1.0, 2.0]),
    np.array([1j, 2]),
]
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.floordiv, operator.mod,
    operator.lt, operator.le, operator.ge, operator.gt,
]  # fmt: skip
UFUNCS = [u for u in vars(np).values() if isinstance(u, np.ufunc) and u.nin <= 2 and u.nout == 1]


def tangent(x):
    return None if isinstance(x, (bool, int)) else type(x)(1)


def attempts(f, x):
    """Yield what each transform gives of a function that NumPy computes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            want = f(x)
        except Exception:  # NumPy's own refusal
            return
        t = tangent(x)
        runs = [lambda: da.jvp(f, (x,), (t,)), lambda: (da.trace(f, x)(x), None)]
        if t is not None:
            runs += [
                lambda: da.jvp(lambda y: da.jvp(f, (y,), (t,))[0], (x,), (t,)),
                lambda: (da.linearize(f, x)[0], None),
            ]
            runs.append(lambda: (da.vjp(f, x)[0], None))
        for run in runs:
            try:
                yield want, *run()
            except DualadError:
                continue


def check(f, x):
    for want, value, t in attempts(f, x):
        assert np.shape(value) == np.shape(want)
        want, value = np.asarray(want), np.asarray(value)
        if value.dtype.kind == want.dtype.kind:  # (-3) ** 0.5 is complex in Python and NaN in NumPy
            np.testing.assert_allclose(value, want, rtol=1e-6, equal_nan=True)
        assert t is None or np.shape(t) == np.shape(want)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_operators(op):
    for x in PRIMALS:
        for other in OTHERS:
            check(lambda x: op(x, other), x)
            check(lambda x: op(other, x), x)
        check(lambda x: op(x, x), x)


@pytest.mark.parametrize("u", UFUNCS, ids=lambda u: u.__name__)
def test_ufuncs(u):
    if not (u in (np.bitwise_and, np.bitwise_or) or "shift" in u.__name__):
        for x in PRIMALS:
            if u.nin == 1:
                check(u, x)
                continue
            for other in (2, 0.5, 1j, np.float32(2)):
                check(lambda x: u(x, other), x)
                check(lambda x: u(other, x), x)


def test_a_float_times_a_complex_literal():
    assert da.jvp(lambda x: (1 + 1j) * x, (0.0,), (1.0,)) == (0j, 1 + 1j)
    value, second = da.jvp(lambda y: da.jvp(lambda x: 1j * x * x, (y,), (1.0,))[1], (3.0,), (1.0,))
    assert (value, second) == (6j, 2j)
    assert da.jvp(lambda x: np.maximum(x * 1j, 2), (0.5,), (1.0,)) == (2 + 0j, 0j)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.array_equal(x, 2.0) * x,
        lambda x: np.tile(x, 2),
        lambda x: np.linalg.tensorsolve(2, x),
        lambda x: np.nanpercentile(2, x),
        lambda x: np.clip(x, 0, 1),
    ],
)
def test_functions(f):
    check(f, 0.5)


def test_beside_others_in_a_list_a_python_number_is_a_float64():
    x = np.float32(0.5)
    for f in (lambda x: np.stack([x, 1.0]), lambda x: da.numpy.array([x, 1.0]), lambda x: np.array([x, 1.0])):
        value, t = da.jvp(f, (x,), (np.float32(1),))
        assert value.dtype == t.dtype == f(x).dtype == np.float64
    with da.plain(), pytest.raises(ConversionError, match="float32"):
        da.jvp(lambda x: np.array([x, 1.0]), (x,), (np.float32(1),))


@pytest.mark.parametrize("name", sorted({t.__name__ for t in np.sctypeDict.values()} & set(dir(da.numpy))))
def test_a_scalar_type_equals_its_dtype_from_both_sides(name):
    ours, plain = getattr(da.numpy, name), getattr(np, name)
    for other in (np.dtype(plain), plain, np.float64, np.dtype("float32"), float, "float64", None, da.numpy.float64):
        assert (ours == other, other == ours) == (plain == other, other == plain)
        assert (ours != other, other != ours) == (plain != other, other != plain)
    x = np.ones(2, np.dtype(plain)) if np.dtype(plain).kind in "fc" else None
    if x is not None:
        da.jvp(lambda x: x * (1 if ours == x.dtype and x.dtype == ours else pytest.fail("unequal")), (x,), (x,))


class Vector:
    """A class of a user's, with operators of its own."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vector(self.x * k, self.y * k)

    __rmul__ = __mul__

    def __abs__(self):
        return np.hypot(self.x, self.y)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: abs(Vector(x[0], x[1]) + x[0] * Vector(x[2], 1.0)), lambda x: abs(x[1] * Vector(2.0, 3.0)),
        lambda x: x[0] * fractions.Fraction(1, 3) + fractions.Fraction(2) / x[1],
        lambda x: x * fractions.Fraction(1, 3),
        lambda x: fractions.Fraction(1, 2) - x,
    ],
)  # fmt: skip
def test_a_users_own_operators_are_asked(f):
    x, h = np.array([0.5, 1.5, 2.0]), 1e-6
    weights = np.arange(1.0, 4.0)
    g = lambda x: np.sum(weights[: np.size(f(x))] * f(x))
    slope = [(g(x + h * e) - g(x - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(da.grad(g)(x), np.array(slope, float), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(da.vmap(da.grad(g))(np.stack([x, x]))[1], np.array(slope, float), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(da.jit(da.grad(g))(x), np.array(slope, float), rtol=1e-7, atol=1e-9)


def test_a_decimal_is_no_partner():
    for x in (1.5, np.float64(1.5)):
        with pytest.raises(TypeError, match="Decimal"):
            da.grad(lambda x: x * decimal.Decimal("1.5"))(x)
