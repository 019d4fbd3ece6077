"""Every NumPy name on tensors is what it is on arrays: value, dtype, shape and kind of error.

Each call runs on arrays of many shapes and dtypes, plainly and then under ``jvp`` (of a constant), ``vmap`` (of one
lane) and ``trace``. What NumPy refuses must be refused with an error of the same kind. Not for: derivatives.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import FUNCTIONS, UFUNCS
from dualad.errors import BranchError, DualadError, UnsupportedError
from dualad.surface.unsupported import public_name
from tests.oracles.numpy_calls import BINARY, CALLS, LINEAR_ALGEBRA, METHODS, UNARY

_M = np.array([[0.5, -1.25, 2.0], [0.75, 3.0, -0.5]])
_C = np.linspace(-1.0, 2.5, 24).reshape(2, 3, 4)

#: operands of every call
SHAPES = {
    "vector": _M[0],
    "matrix": _M,
    "cube": _C,
    "0-d": np.array(0.75),
    "empty": np.zeros((0, 3)),
}
#: operands of the first two calls
DTYPES = {
    "float32": _M.astype(np.float32),
    "float16": _M.astype(np.float16),
    "int64": np.array([[3, -1, 2], [2, 0, 5]]),
    "int8": np.array([[3, -1, 2], [2, 0, 5]], np.int8),
    "uint8": np.array([[3, 1, 2], [2, 0, 5]], np.uint8),
    "bool": np.array([[True, False, True], [False, False, True]]),
    "complex": _M + 1j * _M[::-1],
    "complex64": (_M + 1j * _M[::-1]).astype(np.complex64),
    "with NaN": np.where(_M == 2.0, np.nan, _M),
}
_SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]])
#: operands of linear algebra
MATRICES = {
    "square": _SQUARE,
    "stack": np.stack([_SQUARE, _SQUARE[::-1, ::-1]]),
    "tall": _M.T,
    "wide": _M,
    "one": _SQUARE[:1, :1],
    "none": np.zeros((0, 0)),
    "no matrices": np.zeros((0, 3, 3)),
    "vector": _M[0],
    "0-d": np.array(0.75),
    "float32": _SQUARE.astype(np.float32),
    "int64": np.array([[4, 1, 0], [1, 3, -1], [0, -1, 2]]),
    "bool": np.array([[True, False], [False, True]]),
    "complex": _SQUARE + 1j * (np.triu(_SQUARE, 1) - np.tril(_SQUARE, -1)),
    "complex64": _SQUARE.astype(np.complex64),
}


def _ufunc_calls() -> dict[str, tuple[str, ...]]:
    """Return the calls of every ufunc of NumPy's that is covered, and of the methods of the common ones."""
    calls = {}
    for f in [*UFUNCS, *FUNCTIONS]:
        if isinstance(f, np.ufunc) and getattr(np, f.__name__, None) is f and f.signature is None:
            calls[public_name(f)] = UNARY if f.nin == 1 else BINARY
    for name in ("add", "multiply", "maximum", "minimum", "logaddexp"):
        for method, arguments in METHODS.items():
            calls[f"np.{name}.{method}"] = arguments
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"):
        calls[f"np.{name}.reduce"] = METHODS["reduce"]
    return calls


def _outcome(f, x):
    """Return what a call gives: its result, or its error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f(x)
        except Exception as error:
            return error


def _under_jvp(f, x):
    return da.jvp(f, (x,), (np.zeros_like(x) if x.dtype.kind in "fc" else None,))[0]


def _under_vmap(f, x):
    return _unbatched(da.vmap(f)(x[None]))


def _unbatched(out):
    return type(out)(map(_unbatched, out)) if type(out) in (tuple, list) else _fields(out) or np.asarray(out)[0]


def _fields(out):
    return tuple(map(_unbatched, out)) if isinstance(out, tuple) else None


TRANSFORMS = {"jvp": _under_jvp, "vmap": _under_vmap, "trace": lambda f, x: da.trace(f, x)(x)}


def _difference(found, expected) -> str | None:
    """Say how an outcome differs from NumPy's, or return ``None``."""
    if isinstance(expected, Exception):
        if not isinstance(found, Exception):
            return f"gives {found!r}, NumPy raises {type(expected).__name__}: {expected}"
        kinds = [k for k in (TypeError, ValueError, IndexError) if isinstance(expected, k)] or [type(expected)]
        if any(accident in str(expected) for accident in ACCIDENTS):
            kinds = [TypeError, ValueError, IndexError]
        if isinstance(found, tuple(kinds)) or (
            isinstance(found, DualadError) and not isinstance(found, UnsupportedError)
        ):
            return None
        return f"raises {type(found).__name__}: {found}, NumPy {type(expected).__name__}: {expected}"
    if isinstance(found, (UnsupportedError, BranchError)) and ("shape" in str(found) or "values" in str(found)):
        return None  # a shape, or a choice, that depends on values, and is refused with words
    if isinstance(found, Exception):
        return f"raises {type(found).__name__}: {found}"
    if isinstance(expected, (tuple, list)):
        if not isinstance(found, (tuple, list)) or len(found) != len(expected):
            return f"gives {found!r}, NumPy {expected!r}"
        return next((d for d in map(_difference, found, expected) if d), None)
    if isinstance(expected, np.dtype):
        return None if found == expected else f"gives {found!r}, NumPy {expected!r}"
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"gives {found.dtype}{list(found.shape)}, NumPy {expected.dtype}{list(expected.shape)}"
    tolerance = {2: 1e-2, 4: 1e-5}.get(np.zeros((), expected.dtype).real.dtype.itemsize, 1e-12)
    if np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    return f"gives {found!r}, NumPy {expected!r}"


#: words of errors that NumPy raises by accident rather than by looking: only that it raises is asked for
ACCIDENTS = (
    "tuple index out of range",
    "missing 1 required",
    "has no len",
    "object is not iterable",
    "list index out of",
)


def _exists(name: str) -> bool:
    place = np
    for part in name.split(".")[1:]:
        place = getattr(place, part, None)
    return place is not None


def _calls():
    for name, arguments in {**CALLS, **_ufunc_calls()}.items():
        yield name, arguments, SHAPES, DTYPES
    for name, arguments in LINEAR_ALGEBRA.items():
        yield name, arguments, MATRICES, {}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in _calls() if _exists(row[0])])
def test_as_numpy(row, transform):
    differences = _differences(row, transform, DIFFERENT.keys() | EARLY)
    assert not differences, "\n".join(differences)


def _differences(row, transform: str, known) -> list[str]:
    """Return how the calls of a row differ from NumPy's, apart from those known to."""
    name, arguments, everywhere, at_first = row
    differences = []
    for i, text in enumerate(arguments):
        f = eval(f"lambda x: {name}({text})", {"np": np})
        for which, x in {**everywhere, **(at_first if i < 2 else {})}.items():
            expected = _outcome(f, x)
            found = _outcome(lambda v, f=f: TRANSFORMS[transform](f, v), x)
            difference = _difference(found, expected)
            if difference is not None and (name, text) not in known:
                differences.append(f"{name}({text}) of {which}: {difference}")
    return differences


def _for_each(reason: str, *calls: tuple[str, str]) -> dict[tuple[str, str], str]:
    return dict.fromkeys(calls, reason)


_SHARED = (
    "x, x",
    "x, 2",
    "1.5, x",
    "x, [1, 2, 3]",
    "x, np.float32(2)",
    "x, np.zeros((7, 5))",
    "x, np.int64(2)",
    "x, True",
)

#: calls that differ on purpose -> why
DIFFERENT: dict[tuple[str, str], str] = {
    **_for_each(
        "of a number, which has nothing to shift, NumPy raises an error of its own code",
        ("np.fft.fftshift", "x"),
        ("np.fft.ifftshift", "x"),
    ),
    **_for_each(
        "of no entries (or a number) NumPy cannot infer the shape of an intermediate; the result is clear",
        ("np.linalg.tensorinv", "x, 1"),
    ),
    **_for_each(
        "a number of repetitions, axes or places that is none, and an unknown method, are refused even where NumPy does"
        " not come to look",
        ("np.repeat", "x, -1"),
        ("np.take", "x, 0.5"),
        ("np.nanpercentile", "x, 0.3, method='none'"),
        ("np.nanquantile", "x, 0.3, method='none'"),
    ),
    **_for_each(
        "whether the weights sum to zero is not known under vmap or in a program: the result is NaN there",
        ("np.average", "x, 0, x * x + 1"),
        ("np.average", "x, weights=x * x + 1"),
    ),
    **_for_each(
        "its derivative is not defined, and a tangent is refused",
        *[("np.nextafter", text) for text in (*_SHARED, "x, x, dtype=np.float64")],
        *[("np.spacing", text) for text in ("x", "x, dtype=np.float32", "x, where=True")],
    ),
}
if np.any(np.diff(np.unique_values(DTYPES["int64"])) < 0):
    DIFFERENT["np.unique_values", "x"] = "the order is not specified: later releases have none, ours are ascending"


if np.linalg.eigvals(np.eye(1)).dtype.kind == "f":
    DIFFERENT["np.linalg.eigvals", "x"] = (
        "the dtype depends on the values in releases before 2.5; ours is always complex"
    )


def _raises(f) -> bool:
    try:
        f()
    except ValueError:
        return True
    return False


#: what later releases of NumPy answer as we do, and the one at hand does not
EARLY: set[tuple[str, str]] = set()
if _raises(lambda: np.median(np.zeros((0, 3)), axis=())):
    EARLY |= {("np.median", "x, axis=()")}
if np.linalg.cond(np.eye(1, dtype=complex), 1).dtype.kind == "c":
    EARLY |= {("np.linalg.cond", "x, 1"), ("np.linalg.cond", "x, 'fro'")}
if _raises(lambda: np.linalg.norm(np.zeros((0, 0)), 2)):
    EARLY |= {("np.linalg.norm", "x, 2"), ("np.linalg.norm", "x, np.inf"), ("np.linalg.matrix_norm", "x, ord=1")}
    EARLY |= {("np.linalg.vector_norm", "x, ord=np.inf, keepdims=True")}
if (np.ones(1, np.complex64) ** np.array(2)).dtype == np.complex64:  # a 0-d array taken for a Python number
    EARLY |= {("np.lib.scimath.power", "x - 4, 2"), ("np.lib.scimath.power", "x - 4, 0.5")}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    if not _raises(lambda: np.nonzero(np.array(1))):
        EARLY |= {("np.nonzero", "x")}
if np.percentile([0.0, 1.0], np.float32(30)) != np.float32(0.3):  # a percentage divided in double precision
    EARLY |= {("np.percentile", "x, np.float32(0.5)"), ("np.nanpercentile", "x, np.float32(0.5)")}


@pytest.mark.parametrize("call", DIFFERENT, ids=lambda call: f"{call[0]}({call[1]})")
def test_what_is_said_to_differ_does(call):
    row = (call[0], (call[1],), {**SHAPES, **DTYPES, **MATRICES}, {})
    assert any(_differences(row, transform, DIFFERENT.keys() - {call}) for transform in TRANSFORMS)


def test_a_mean_of_integers_is_cut_off() -> None:
    x = np.array([1.0, 2.5, 3.5])
    found, expected = da.jit(lambda x: np.mean(x, dtype=int))(x), np.mean(x, dtype=int)
    assert found.dtype == expected.dtype and found == expected
    with pytest.raises(da.errors.UnsupportedError):
        da.jit(lambda x: np.var(x, dtype=np.float32))(x * 1j)


@pytest.mark.parametrize("function", [np.var, np.std, np.nanvar, np.nanstd])
@pytest.mark.parametrize("shape", [(), (1,), (3, 1)])
def test_entries_deviate_in_their_own_precision(function, shape) -> None:
    x = np.full(shape, 0.69)  # the mean, in single precision, is another number
    call = lambda x: function(x, axis=x.ndim - 1 if x.ndim else None, dtype=np.float32)
    found, expected = da.jit(call)(x), call(x)
    assert found.dtype == expected.dtype and np.all(expected > 0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_float_power_of_stretched_arrays_lies_as_numpys() -> None:
    def f(x):
        y = np.float_power(x, np.broadcast_to(x, (2, 3)))
        y.T.reshape(-1)[-1:] = 0.5
        return y

    x = np.array([1.0, 2.5, 3.5])
    np.testing.assert_allclose(da.jit(f)(x), f(x))


def test_settings_move_results_of_plain_arrays() -> None:
    x = np.array([0.1, 2.5, 5.9, 0.2, 3.0])
    for f, setting in (
        (lambda period: np.sum(np.unwrap(x, period=period) ** 2), 3.0),
        (lambda limit: np.sum(np.unwrap(x, period=4.0, discont=limit) ** 2), 3.0),
        (lambda y: np.sum(np.column_stack([x, x * y]) ** 3), 0.7),
        (lambda y: np.sum(np.tensordot(x, x * y, 1) ** 2), 0.7),
        (lambda y: np.sum(np.meshgrid(x.reshape(-1, 1), (x * y).reshape(1, -1))[1] ** 2), 0.7),
        (lambda y: np.sum(np.histogram2d(x, x, 2, weights=x * y)[0] ** 2), 0.7),
    ):
        slope = (f(setting + 1e-6) - f(setting - 1e-6)) / 2e-6
        for transform in (da.grad, lambda f: da.jit(da.grad(f))):
            np.testing.assert_allclose(transform(f)(setting), slope, rtol=1e-6, atol=1e-6)


def test_arguments_keep_their_shapes() -> None:
    def f(x):
        column, row = x.reshape(-1, 1), x.reshape(1, -1)
        for call in (
            np.meshgrid,
            lambda a, b: np.tensordot(a, b, 1),
            lambda a, b: np.column_stack([a.T, b]),
            np.atleast_3d,
        ):
            call(column, row)
            assert column.shape == (3, 1) and row.shape == (1, 3)
        return x

    da.jvp(f, (np.arange(3.0),), (np.ones(3),))
