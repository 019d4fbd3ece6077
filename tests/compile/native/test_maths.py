"""The kernels against mpmath: units in the last place at random points, and NumPy's values at special ones.

Not for: operators (test_operators.py).
"""

from __future__ import annotations

import ctypes

import mpmath
import numpy as np
import pytest
import scipy.special

from dualad.compile.native.engine import engine, why_not
from dualad.compile.native.maths import FAR, KERNELS, KERNELS_OF_TWO, arity

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

#: where random points are drawn from; besides these, numbers of every magnitude
RANGES = {
    "exp": [(-745.0, 709.7), (-1.0, 1.0)],
    "expm1": [(-40.0, 709.7), (-1.0, 1.0)],
    "tanh": [(-20.0, 20.0), (-1.0, 1.0)],
    "log": [(1e-320, 1e-307), (0.5, 2.0), (0.99, 1.01)],
    "log1p": [(-1.0, 1.0), (-0.999999, -0.9), (0.0, 1e9)],
    "sin": [(-FAR, FAR), (-4.0, 4.0), (FAR, 1e12)],
    "cos": [(-FAR, FAR), (-4.0, 4.0), (FAR, 1e12)],
    "erf": [(-6.2, 6.2), (-1.0, 1.0), (1.0, 6.0)],
    "logistic": [(-745.0, 745.0), (-40.0, 40.0), (-1.0, 1.0)],
    "expit": [(-745.0, 745.0), (-40.0, 40.0), (-1.0, 1.0)],
    "psi": [(-1.0, -0.7), (-0.3, 0.0), (0.0, 1.0), (1.0, 2.0), (1.4616, 1.4617), (2.0, 4.0), (4.0, 4.5), (4.0, 1e4)],
}


def _logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def _digamma(x):
    """SciPy's, but for the number beside −1, of which it gives the half."""
    return [float(mpmath.digamma(v)) if -1 < v < -0.9 else scipy.special.psi(v) for v in x]


#: the true values of those that mpmath has no name for, and the functions of SciPy of those that have another there
TRUE = {"logistic": _logistic, "expit": _logistic, "psi": mpmath.digamma}
SCIPYS = {"logistic": scipy.special.expit, "psi": _digamma}
SPECIAL = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, -1e-310, 2.3e-308, 1e-300, 1e300, -1e300,
    np.finfo(float).max, np.finfo(float).min, 1.0, -1.0, 709.78, 709.79, -745.1, -745.2, -708.5, 710.0, FAR, FAR + 1,
    1e22, -1e22, 1 - 1e-16, -1 + 1e-16, 0.5, -0.5, 20.0, -20.0, 40.0, -40.0, 60.0, 6.1, -6.1, 36.7, -2.0,
]  # fmt: skip


def compiled(name: str, width: int):
    """Return a kernel as a function of arrays, which are filled up to a multiple of eight entries."""
    vector = "double" if width == 1 else f"<{width} x double>"
    count = arity(name)
    second = f"  %s = getelementptr double, ptr %x, i64 %j\n  %w = load {vector}, ptr %s, align 8" * (count - 1)
    given = [f"{vector} %v", f"{vector} %w"][:count]
    text = f"""
declare {vector} @m_{name}_{width}({", ".join([vector] * count)})
define void @go(ptr %x, ptr %y, i64 %n) {{
start:
  br label %turn
turn:
  %i = phi i64 [0, %start], [%next, %turn]
  %p = getelementptr double, ptr %x, i64 %i
  %q = getelementptr double, ptr %y, i64 %i
  %v = load {vector}, ptr %p, align 8
  %j = add i64 %i, %n
{second}
  %r = call {vector} @m_{name}_{width}({", ".join(given)})
  store {vector} %r, ptr %q, align 8
  %next = add i64 %i, {width}
  %c = icmp slt i64 %next, %n
  br i1 %c, label %turn, label %end
end:
  ret void
}}"""
    made = engine()
    assert made is not None
    linked = made.compile(text, ["go"], {}, 1)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(linked.addresses["go"])

    def call(*operands):
        padded = [np.concatenate([x, np.zeros(-len(x) % 8)]) for x in operands]
        x, y = np.concatenate(padded), np.empty_like(padded[0])
        function(x.ctypes.data, y.ctypes.data, len(y))
        return y

    call.kept = linked  # type: ignore[attr-defined]
    return call


def worst(name: str, x, y) -> float:
    """Return the largest error in units in the last place of the true value."""
    most = 0.0
    with mpmath.workprec(140):
        for a, b in zip(x.tolist(), y.tolist(), strict=False):
            if np.isfinite(a) and np.isfinite(b):
                true = (TRUE.get(name) or getattr(mpmath, name))(mpmath.mpf(a))
                unit = float(np.spacing(abs(float(true))))
                most = max(most, float(abs(mpmath.mpf(b) - true)) / unit)
    return most


def points(name: str, count: int):
    rng = np.random.default_rng(7)
    for low, high in RANGES[name]:
        yield rng.uniform(low, high, count)
    signs = 1.0 if name in ("log", "psi") else rng.choice([-1.0, 1.0], count)
    yield signs * 10.0 ** rng.uniform(-300, 2 if name != "log1p" else -0.5, count)


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("count", [64, pytest.param(6000, marks=pytest.mark.full)])
def test_within_four_units(name: str, count: int) -> None:
    kernel = compiled(name, 8)
    assert max(worst(name, x, kernel(x)) for x in points(name, count)) <= 4.0


@pytest.mark.parametrize("name", list(KERNELS))
def test_special_values_are_numpys(name: str) -> None:
    x = np.array(SPECIAL)
    with np.errstate(all="ignore"):
        expected = SCIPYS.get(name) or getattr(np, name, None) or getattr(scipy.special, name)
        expected = expected(x)
    found = compiled(name, 8)(x)[: len(x)]
    np.testing.assert_allclose(found, expected, rtol=9e-16, atol=5e-324)
    zero = np.asarray(expected) == 0
    assert np.array_equal(np.signbit(found)[zero], np.signbit(expected)[zero])


#: the true values of functions of two numbers, and the parts whose size the rounding is measured by
OF_TWO = {
    "logaddexp": lambda x, y: (max(x, y), mpmath.log1p(mpmath.exp(-abs(x - y)))),
    "xlogy": lambda x, y: (x * mpmath.log(y) if x else 0, 0),
    "xlog1py": lambda x, y: (x * mpmath.log1p(y) if x else 0, 0),
}


@pytest.mark.parametrize("name", list(KERNELS_OF_TWO))
def test_functions_of_two_are_within_four_units(name: str) -> None:
    rng = np.random.default_rng(5)
    kernel = compiled(name, 8)
    for scale in (1e-3, 1.0, 30.0, 1e6):
        x, y = rng.normal(size=(2, 64)) * scale
        y = y if name == "logaddexp" else np.abs(y) if name == "xlogy" else np.maximum(y, -0.9)
        with mpmath.workprec(140):
            for a, b, found in zip(x.tolist(), y.tolist(), kernel(x, y).tolist(), strict=True):
                parts = OF_TWO[name](mpmath.mpf(a), mpmath.mpf(b))
                unit = float(np.spacing(max(abs(float(p)) for p in parts)))
                assert abs(mpmath.mpf(found) - sum(parts)) <= 4 * unit, (a, b)


@pytest.mark.parametrize("name", list(KERNELS_OF_TWO))
def test_special_values_of_functions_of_two_are_numpys(name: str) -> None:
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = (getattr(np, name, None) or getattr(scipy.special, name))(x, y)
    vectors, alone = compiled(name, 8)(x, y)[: len(x)], compiled(name, 1)(x, y)[: len(x)]
    assert np.array_equal(vectors, alone, equal_nan=True)
    np.testing.assert_allclose(vectors, expected, rtol=9e-16, atol=5e-324)


@pytest.mark.parametrize("name", list(KERNELS))
def test_a_lane_depends_on_nothing_else(name: str) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([np.array(SPECIAL), rng.normal(size=16)])
    x = np.concatenate([x, np.ones(-len(x) % 8)])
    vectors, alone = compiled(name, 8), compiled(name, 1)
    assert np.array_equal(vectors(x), alone(x), equal_nan=True)
    turned = np.roll(x, 3)
    assert np.array_equal(np.roll(vectors(turned), -3), vectors(x), equal_nan=True)


def test_a_wrong_coefficient_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from dualad.compile.native import engine as module
    from dualad.compile.native import maths

    monkeypatch.setattr(maths, "_SIN", [*maths._SIN[:3], maths._SIN[3] * (1 + 1e-7), *maths._SIN[4:]])
    made = module.Engine()
    monkeypatch.setattr(module, "_made", lambda: (made, ""))
    kernel = compiled("sin", 8)
    assert max(worst("sin", x, kernel(x)) for x in points("sin", 300)) > 4.0
