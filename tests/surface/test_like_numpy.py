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
from dualad.surface.unsupported import spelled
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
            calls[spelled(f)] = UNARY if f.nin == 1 else BINARY
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
ACCIDENTS = ("tuple index out of range", "missing 1 required", "has no len", "object is not iterable")


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
    differences = _differences(row, transform, DIFFERENT)
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


#: calls that differ on purpose, or in a corner -> why
DIFFERENT: dict[tuple[str, str], str] = {
    **dict.fromkeys(
        [
            ("np.apply_over_axes", "np.sum, x, [0]"),
            ("np.choose", "[0, 5, 0], [x, x]"),
            ("np.correlate", "x, [1, 2]"),
            ("np.correlate", "x, [1.0, 2.0], mode='full'"),
            ("np.correlate", "x, x, 'same'"),
            ("np.cov", "x, rowvar=False"),
            ("np.ediff1d", "x, to_end=3"),
            ("np.fft.fftshift", "x"),
            ("np.fft.ifftshift", "x"),
            ("np.fft.irfftn", "x"),
            ("np.fft.irfftn", "x, norm='ortho'"),
            ("np.fft.rfftn", "x"),
            ("np.fft.rfftn", "x, norm='ortho'"),
            ("np.gradient", "x"),
            ("np.gradient", "x, 2.0"),
            ("np.histogram", "x, 0"),
            ("np.linalg.tensorinv", "x, 1"),
            ("np.median", "x, axis=()"),
            ("np.nan_to_num", "x, False, [1, 2, 3]"),
            ("np.nanmedian", "x"),
            ("np.nanmedian", "x, axis=0"),
            ("np.pad", "x, -1"),
            ("np.pad", "x, 1, 'mean'"),
            ("np.partition", "np.sort(x), 1, axis=0"),
            ("np.partition", "x, 7"),
            ("np.polyder", "x"),
            ("np.polyder", "x, 0"),
            ("np.polyder", "x, 2"),
            ("np.polyfit", "[0, 1, 2], x, 1"),
            ("np.polyint", "x"),
            ("np.polyint", "x, 2"),
            ("np.polyint", "x, k=3"),
            ("np.polyval", "x, 0.5"),
            ("np.polyval", "x, [1, 2]"),
            ("np.repeat", "x, -1"),
            ("np.take", "x, -7, mode='wrap'"),
            ("np.tensordot", "x, x, -1"),
        ],
        "a corner (no entries, a number where a vector is meant) in which NumPy refuses or answers by accident",
    ),
    **dict.fromkeys(
        [
            ("np.average", "x, 0, x * x + 1"),
            ("np.average", "x, weights=x * x + 1"),
            ("np.nonzero", "x"),
            ("np.unique_values", "x"),
            ("np.unstack", "x"),
        ],
        "what NumPy answers depends on values, or on a shape without entries, that a batch or a program does not know",
    ),
    **dict.fromkeys(
        [
            ("np.clip", "x, 0, 1, dtype=np.float32"),
            ("np.pad", "x, 1, 'no'"),
        ],
        "refused with words",
    ),
    **dict.fromkeys(
        [
            ("np.lib.scimath.log", "x - 5"),
            ("np.lib.scimath.power", "x - 4, 0.5"),
            ("np.lib.scimath.power", "x - 4, 2"),
            ("np.lib.scimath.sqrt", "x"),
        ],
        "NumPy's dtype of float16 and of mixed powers is wider by accident of its table",
    ),
    **dict.fromkeys(
        [
            ("np.linalg.eigvals", "x"),
        ],
        "NumPy's dtype depends on the values; ours is always complex, as a program's must be",
    ),
    **dict.fromkeys(
        [
            ("np.mean", "x, axis=0, where=np.zeros((), bool)"),
            ("np.nanstd", "x, -1"),
            ("np.nanstd", "x, 0, None, None, 1.5"),
            ("np.nanstd", "x, axis=-1, keepdims=True"),
            ("np.nanstd", "x, axis=0"),
            ("np.nanstd", "x, axis=0, where=np.zeros((), bool)"),
            ("np.nanvar", "x, -1"),
            ("np.nanvar", "x, 0, None, None, 1.5"),
            ("np.nanvar", "x, axis=-1, keepdims=True"),
            ("np.nanvar", "x, axis=0"),
            ("np.nanvar", "x, axis=0, where=np.zeros((), bool)"),
            ("np.std", "x, axis=0, where=np.zeros((), bool)"),
            ("np.take", "x, -1, axis=0"),
            ("np.take", "x, 0.5"),
            ("np.take", "x, [], axis=0"),
            ("np.var", "x, axis=0, where=np.zeros((), bool)"),
        ],
        "NumPy lets a number have one axis here, and takes floats or empty axes as it happens; the error differs",
    ),
    **dict.fromkeys(
        [
            ("np.nanpercentile", "x, 0.3, method='none'"),
            ("np.nanpercentile", "x, [0.5], axis=-1, keepdims=True"),
            ("np.nanquantile", "x, 0.3, method='none'"),
            ("np.nanquantile", "x, 1, axis=0"),
            ("np.nanquantile", "x, [0.5], axis=-1, keepdims=True"),
            ("np.quantile", "x, 1, axis=0"),
        ],
        "NumPy keeps integers where q is an integer, and answers before looking where nothing is to be seen",
    ),
    **dict.fromkeys(
        [
            ("np.nextafter", "1.5, x"),
            ("np.nextafter", "x, 2"),
            ("np.nextafter", "x, True"),
            ("np.nextafter", "x, [1, 2, 3]"),
            ("np.nextafter", "x, np.float32(2)"),
            ("np.nextafter", "x, np.int64(2)"),
            ("np.nextafter", "x, np.zeros((7, 5))"),
            ("np.nextafter", "x, x"),
            ("np.nextafter", "x, x, dtype=np.float64"),
            ("np.spacing", "x"),
            ("np.spacing", "x, dtype=np.float32"),
            ("np.spacing", "x, where=True"),
        ],
        "its derivative is not defined, and a tangent is refused",
    ),
}


@pytest.mark.parametrize("call", DIFFERENT, ids=lambda call: f"{call[0]}({call[1]})")
def test_what_is_said_to_differ_does(call):
    row = (call[0], (call[1],), {**SHAPES, **DTYPES, **MATRICES}, {})
    assert any(_differences(row, transform, DIFFERENT.keys() - {call}) for transform in TRANSFORMS)
