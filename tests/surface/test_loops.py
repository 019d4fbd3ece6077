"""Object arrays of tensors compute what arrays of numbers compute, or refuse: values and dtypes, over NumPy's names.

``np.asarray(x)`` of a tensor, and lists of tensors, are arrays of Python objects for NumPy, whose loops call the
entries' operators. Each case is an expression of such an array under a transform, against plain NumPy: another number
or dtype is an error, and so is an error that says nothing. The gate runs every eleventh, ``--full`` all.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError, DualadError

pytestmark = pytest.mark.plain  # what is refused here runs lifted otherwise

_UNARY = (
    "abs", "negative", "sqrt", "sin", "exp", "floor", "ceil", "trunc", "rint", "square", "sign", "conjugate", "cbrt",
    "isfinite", "logical_not", "reciprocal", "fabs", "log1p", "signbit", "isnan", "tanh", "log2", "degrees", "round",
    "sum", "prod", "mean", "max", "min", "any", "all", "var", "std", "count_nonzero", "ptp", "argmax", "argmin",
    "median", "cumsum", "cumprod", "sort", "argsort", "flip", "diff", "unique", "nonzero", "nansum", "nanmax", "trace",
    "real", "imag", "zeros_like", "ones_like", "transpose", "histogram", "gradient", "linalg.norm", "unwrap",
)  # fmt: skip
_BINARY = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum", "fmin",
    "fmax", "less", "greater", "equal", "not_equal", "arctan2", "hypot", "copysign", "logical_and", "logical_or",
    "logical_xor", "logaddexp", "fmod", "divmod", "gcd", "bitwise_and", "outer", "dot",
)  # fmt: skip
_METHODS = (
    "a.sum()", "a.prod()", "a.mean()", "a.max()", "a.min()", "a.any()", "a.all()", "a.std()", "a.argmax()", "a.sort()",
    "a.cumsum()", "a.argsort()", "a.round()", "a.conj()", "a.clip(0.0, 1.0)", "a.clip(0, 1)", "a.copy()", "a.dot(2)",
    "a.astype(int)", "a.astype(bool)", "a.nonzero()", "a.real", "a.imag", "a.T", "np.clip(a, 0.0, 1.0)",
    "(a * 1j).imag", "(1j * a).real", "np.abs(a + 1j)", "np.exp(1j * a)", "np.full_like(a, 2)", "a[::-1]",
    "np.where(a > 0, a, 0.0)", "np.searchsorted(a, 0.5)", "np.linspace(a, 1, 3)", "sorted(a.ravel())[0]",
)  # fmt: skip
_OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<", ">", "==", "!=", "<=", ">=", "&", "|", "<<")
_OPERANDS = ("a {} b", "b {} a", "a {} 2", "2 {} a", "a {} a", "a {} 0.5", "a {} -1")

_EXPRESSIONS = [
    *[f"np.{name}(a)" for name in _UNARY],
    *[f"np.{name}{given}" for name in _BINARY for given in ("(a, b)", "(a, 2.0)", "(2, a)", "(b, a)", "(a, a)")],
    *_METHODS,
    *[given.format(o) for o in _OPERATORS for given in _OPERANDS],
]
#: a loop that never asks an entry: what is left of it is said in ``explanation/limits.md``
_UNSEEN = {f"np.logical_{o}({first}, a)" for o in ("and", "or") for first in ("2", "b")}

_VALUES = {
    "float64": np.array([0.7, -1.3, 2.0]),
    "NaN, ties": np.array([np.nan, -1.3, -1.3, 0.0, 1.0]),
    "int64": np.array([3, 0, -2]),
    "int8": np.array([3, 100, -2], np.int8),
    "bool": np.array([True, False, True]),
    "float32": np.array([0.1, 3, -2], np.float32),
    "complex128": np.array([0.5 - 2j, 3.0, 1j]),
}
_MADE = {
    "asarray": "np.asarray(x)",
    "array": "np.array(x)",
    "a list": "np.array([x[0], x[1], x[2]])",
    "ascontiguousarray": "np.ascontiguousarray(x)",
    "of an entry": "np.asarray(x[1])",
    "asanyarray of lists": "np.asanyarray([[x[0], x[1]], [x[2], x[0]]])",
}
_CASES = [
    (values, made, e)
    for values, made, e in itertools.product(_VALUES, _MADE, _EXPRESSIONS)
    if e not in _UNSEEN and not (e == "np.unwrap(a)" and made == "of an entry")
]


def _program(made: str, expression: str):
    space: dict = {"np": np}
    text = f"def f(x):\n    a = {_MADE[made]}\n    b = np.arange(1.0, np.size(a) + 1).reshape(np.shape(a))\n"
    exec(f"{text}    return {expression}\n", space)
    return space["f"]


def _leaves(out):
    return [np.asarray(y) for y in da.tree.flatten(out)[0]]


def _under(transform: str, f, x):
    if transform == "vmap":
        return [y[0] for y in _leaves(da.vmap(f)(np.stack([x, x])))]
    if transform == "jvp":
        return _leaves(da.jvp(f, (x,), (np.ones_like(x),))[0])
    return _leaves(da.jit(f)(x))


def _check(values: str, made: str, expression: str, transform: str) -> str:
    x, f = _VALUES[values], _program(made, expression)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = _leaves(f(x.copy()))
        except Exception:
            expected = None
        try:
            found = _under(transform, f, x)
        except DualadError:
            return "refused"
        except ValueError as error:  # what int() says of NaN, where NumPy's cast makes some number of it
            if expected is None or "NaN" in str(error):
                return "refused"
            raise
        except Exception:
            if expected is None:
                return "refused"
            raise
    assert expected is not None, f"{expression} is refused by NumPy, and {found} here"
    assert [(y.shape, y.dtype) for y in found] == [(y.shape, y.dtype) for y in expected], expression
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-6 if z.dtype == np.float32 else 1e-12, atol=1e-13)
    return "same"


@pytest.mark.parametrize("transform", ["vmap", "jvp", "jit"])
@pytest.mark.parametrize("values", _VALUES)
def test_the_same_as_numbers_or_refused(values, transform, request):
    if transform == "jvp" and values in ("int64", "int8", "bool"):
        pytest.skip("integers have no tangents")
    cases = [case for case in _CASES if case[0] == values]
    if not request.config.getoption("--full"):
        cases = cases[len(values) + len(transform) :: 11]
    done = []
    for case in cases:
        try:
            done.append(_check(*case, transform))
        except Exception as error:
            raise AssertionError(f"{case} under {transform}: {type(error).__name__}: {error}") from error
    assert "refused" in done
    assert "same" in done or values not in ("float64", "NaN, ties")


def test_there_are_thousands():
    assert len(_CASES) * 3 > 10_000


@pytest.mark.parametrize("x", [np.array([3, 3]), np.float32([3, 3]), np.array([True, False]), np.array([1j, 2])])
def test_only_float64_becomes_objects(x):
    with pytest.raises(ConversionError, match="dtype"):
        da.vmap(lambda y: np.reciprocal(np.asarray(y)))(x)


def test_what_is_refused_says_which_loop_asked():
    x = np.array([np.nan, 1.0])
    for f in (np.max, np.sort, lambda a: np.maximum(a, 0.0), lambda a: np.logical_and(a, a)):
        with pytest.raises(ConversionError, match=r"array of Python objects") as caught:
            da.jvp(lambda y, f=f: f(np.asarray(y)), (x,), (x,))
        assert "lift" in caught.value.instead


def test_ties_are_refused_where_a_derivative_hangs_on_them():
    x = np.array([1.0, 1.0])
    assert da.vmap(lambda y: np.max([y[0], y[1]]))(np.stack([x, x])).tolist() == [1.0, 1.0]
    with pytest.raises(ConversionError, match="equal entries"):
        da.grad(lambda y: np.max([y[0], y[1]]))(x)


def test_numbers_of_python_are_refused_where_their_type_would_be_left():
    with pytest.raises(ConversionError, match=r"complex"):
        da.jvp(lambda x: np.array([x, -2.0]) ** 0.5, (2.0,), (1.0,))
    with pytest.raises(ConversionError, match=r"integer of Python's"):
        da.jvp(lambda x: np.max([x, 3]), (2.0,), (1.0,))


def test_scalars_are_not_touched_by_object_arrays_elsewhere():
    def f(x):
        a = np.asarray(x)
        return max(x[0], x[1]), min(x[1], x[0]), x * 1j, bool(x[0] >= x[0]), a.sum()

    x = np.array([1.0, 1.0])
    top, least, turned, truth, total = da.jvp(f, (x,), (x,))[0]
    assert (top, least, truth, total) == (1.0, 1.0, True, 2.0)
    np.testing.assert_array_equal(turned, x * 1j)


def test_no_tensor_holds_objects():
    with pytest.raises(DualadError, match="dtype object"):
        da.vmap(lambda x: x.astype(object))(np.ones((2, 3)))
