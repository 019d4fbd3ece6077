"""``dualad.numpy`` as an array API namespace: every name of the 2024.12 standard, its signature, and on tensors.

The list of the standard is written out here, each function with how it is called. Not for: the values of derivatives
(``tests/ops``), nor buffers (``tests/memory/test_buffer.py``).
"""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dualad as da
import dualad.numpy as xp
from dualad.errors import ArgumentError, RuleMissingError, UnsupportedError

X = np.array([[0.3, 0.7], [0.2, 0.9]])
SPD = np.array([[2.0, 0.3], [0.3, 1.0]])
INTS = np.array([[1, 2], [3, 1]])

CONSTANTS = ["e", "inf", "nan", "newaxis", "pi"]
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
CREATION = {
    "arange": lambda: xp.arange(0, 5, 2, dtype=xp.float32, device=None),
    "asarray": lambda: xp.asarray([1.0, 2.0], dtype=xp.float32, device=None, copy=True),
    "empty": lambda: xp.empty((2, 3), dtype=xp.float64, device="cpu"),
    "empty_like": lambda: xp.empty_like(X, dtype=xp.float32, device=None),
    "eye": lambda: xp.eye(2, 3, k=1, dtype=xp.int64, device=None),
    "from_dlpack": lambda: xp.from_dlpack(X, device=None, copy=None),
    "full": lambda: xp.full((2,), 3.0, dtype=xp.float64, device=None),
    "full_like": lambda: xp.full_like(X, 3.0, dtype=None, device=None),
    "linspace": lambda: xp.linspace(0, 1, 3, dtype=xp.float64, device=None, endpoint=False),
    "meshgrid": lambda: xp.meshgrid(X[0], X[1], indexing="ij"),
    "ones": lambda: xp.ones((2,), dtype=xp.float64, device=None),
    "ones_like": lambda: xp.ones_like(X, dtype=None, device=None),
    "tril": lambda: xp.tril(X, k=1),
    "triu": lambda: xp.triu(X, k=-1),
    "zeros": lambda: xp.zeros((2,), dtype=xp.float64, device=None),
    "zeros_like": lambda: xp.zeros_like(X, dtype=None, device=None),
}
UNARY = [
    "abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "conj", "cos", "cosh", "exp", "expm1", "floor", "imag",
    "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "negative", "positive", "real", "reciprocal",
    "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
BINARY = [
    "add", "atan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less",
    "less_equal", "logaddexp", "maximum", "minimum", "multiply", "not_equal", "pow", "remainder", "subtract",
]  # fmt: skip
ON_INTEGERS = {
    "bitwise_and": lambda x: xp.bitwise_and(x, 3),
    "bitwise_invert": lambda x: xp.bitwise_invert(x),
    "bitwise_left_shift": lambda x: xp.bitwise_left_shift(x, 1),
    "bitwise_or": lambda x: xp.bitwise_or(x, 3),
    "bitwise_right_shift": lambda x: xp.bitwise_right_shift(x, 1),
    "bitwise_xor": lambda x: xp.bitwise_xor(x, 3),
    "logical_and": lambda x: xp.logical_and(x > 1, x < 3),
    "logical_not": lambda x: xp.logical_not(x > 1),
    "logical_or": lambda x: xp.logical_or(x > 1, x < 3),
    "logical_xor": lambda x: xp.logical_xor(x > 1, x < 3),
}
OTHER = {
    "acosh": lambda x: xp.acosh(x + 2),
    "all": lambda x: xp.all(x > 0, axis=-1, keepdims=True),
    "any": lambda x: xp.any(x > 0, axis=0, keepdims=False),
    "argmax": lambda x: xp.argmax(x, axis=0, keepdims=True),
    "argmin": lambda x: xp.argmin(x, axis=None),
    "argsort": lambda x: xp.argsort(x, axis=0, descending=True, stable=True),
    "astype": lambda x: xp.astype(x, xp.float32, copy=True, device=None),
    "broadcast_arrays": lambda x: xp.broadcast_arrays(x, x[0]),
    "broadcast_to": lambda x: xp.broadcast_to(x, (3, 2, 2)),
    "can_cast": lambda x: xp.can_cast(x.dtype, xp.float64),
    "clip": lambda x: xp.clip(x, min=0.25, max=0.8),
    "concat": lambda x: xp.concat([x, x], axis=1),
    "count_nonzero": lambda x: xp.count_nonzero(x, axis=0, keepdims=True),
    "cumulative_prod": lambda x: xp.cumulative_prod(x, axis=0, include_initial=True),
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=1, dtype=xp.float64, include_initial=True),
    "diff": lambda x: xp.diff(x, axis=0, n=1, prepend=x[:1] * 2),
    "expand_dims": lambda x: xp.expand_dims(x, axis=1),
    "finfo": lambda x: xp.finfo(x).bits,
    "flip": lambda x: xp.flip(x, axis=1),
    "iinfo": lambda x: xp.iinfo(xp.astype(x, xp.int32)).bits,
    "isdtype": lambda x: xp.isdtype(x.dtype, ("real floating", xp.float64)),
    "matmul": lambda x: xp.matmul(x, x),
    "matrix_transpose": lambda x: xp.matrix_transpose(x),
    "max": lambda x: xp.max(x, axis=0, keepdims=True),
    "mean": lambda x: xp.mean(x, axis=(0, 1), keepdims=True),
    "min": lambda x: xp.min(x, axis=0, keepdims=True),
    "moveaxis": lambda x: xp.moveaxis(x, 0, 1),
    "permute_dims": lambda x: xp.permute_dims(x, (1, 0)),
    "prod": lambda x: xp.prod(x, axis=0, dtype=xp.float64, keepdims=True),
    "repeat": lambda x: xp.repeat(x, 2, axis=0),
    "reshape": lambda x: xp.reshape(x, (4,), copy=True),
    "result_type": lambda x: xp.result_type(x, xp.float32, 1.0),
    "roll": lambda x: xp.roll(x, 1, axis=0),
    "searchsorted": lambda x: xp.searchsorted(np.array([0.0, 0.5, 1.0]), x, side="right"),
    "sort": lambda x: xp.sort(x, axis=0, descending=True, stable=True),
    "squeeze": lambda x: xp.squeeze(x[:1], axis=0),
    "stack": lambda x: xp.stack([x, x], axis=1),
    "std": lambda x: xp.std(x, axis=0, correction=1, keepdims=True),
    "sum": lambda x: xp.sum(x, axis=0, dtype=xp.float64, keepdims=True),
    "take": lambda x: xp.take(x, np.array([1, 0]), axis=1),
    "take_along_axis": lambda x: xp.take_along_axis(x, np.array([[1], [0]]), axis=-1),
    "tensordot": lambda x: xp.tensordot(x, x, axes=1),
    "tile": lambda x: xp.tile(x, (1, 2)),
    "unstack": lambda x: xp.unstack(x, axis=1),
    "var": lambda x: xp.var(x, axis=0, correction=1.0, keepdims=True),
    "vecdot": lambda x: xp.vecdot(x, x, axis=-1),
    "where": lambda x: xp.where(x > 0.5, x, 0.0),
}
LINALG = {
    "cholesky": lambda x: xp.linalg.cholesky(SPD * x[0, 0], upper=True),
    "cross": lambda x: xp.linalg.cross(xp.concat([x[0], x[0, :1]]), np.array([1.0, 2.0, 3.0]), axis=-1),
    "det": lambda x: xp.linalg.det(x),
    "diagonal": lambda x: xp.linalg.diagonal(x, offset=1),
    "eigh": lambda x: xp.linalg.eigh(SPD * x[0, 0])[0],
    "eigvalsh": lambda x: xp.linalg.eigvalsh(SPD * x[0, 0]),
    "inv": lambda x: xp.linalg.inv(x),
    "matmul": lambda x: xp.linalg.matmul(x, x),
    "matrix_norm": lambda x: xp.linalg.matrix_norm(x, keepdims=True, ord="fro"),
    "matrix_power": lambda x: xp.linalg.matrix_power(x, 3),
    "matrix_rank": lambda x: xp.linalg.matrix_rank(x, rtol=1e-9),
    "matrix_transpose": lambda x: xp.linalg.matrix_transpose(x),
    "outer": lambda x: xp.linalg.outer(x[0], x[1]),
    "pinv": lambda x: xp.linalg.pinv(x, rtol=1e-9),
    "qr": lambda x: xp.linalg.qr(x, mode="reduced"),
    "slogdet": lambda x: xp.linalg.slogdet(x)[1],
    "solve": lambda x: xp.linalg.solve(x, x[0]),
    "svd": lambda x: xp.linalg.svd(x, full_matrices=False)[1],
    "svdvals": lambda x: xp.linalg.svdvals(x),
    "tensordot": lambda x: xp.linalg.tensordot(x, x, axes=((1,), (0,))),
    "trace": lambda x: xp.linalg.trace(x, offset=0, dtype=xp.float64),
    "vecdot": lambda x: xp.linalg.vecdot(x, x, axis=-1),
    "vector_norm": lambda x: xp.linalg.vector_norm(x, axis=0, keepdims=True, ord=2),
}
FFT = {
    name: (lambda x, name=name: getattr(xp.fft, name)(x, norm="ortho"))
    for name in [
        "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft",
    ]
} | {
    "fftfreq": lambda x: xp.fft.fftfreq(4, d=0.5, dtype=xp.float32, device=None),
    "rfftfreq": lambda x: xp.fft.rfftfreq(4, d=0.5, dtype=xp.float32, device=None),
    "fftshift": lambda x: xp.fft.fftshift(x, axes=0),
    "ifftshift": lambda x: xp.fft.ifftshift(x, axes=(0,)),
}  # fmt: skip
#: their shapes depend on values, or they step from float to float: refused, or answered, but never wrong
BY_VALUE = {
    "nextafter": lambda x: xp.nextafter(x, 1.0),
    "nonzero": lambda x: xp.nonzero(x),
    "unique_all": lambda x: xp.unique_all(x),
    "unique_counts": lambda x: xp.unique_counts(x),
    "unique_inverse": lambda x: xp.unique_inverse(x),
    "unique_values": lambda x: xp.unique_values(x),
}

ON_TENSORS = (
    {name: (lambda x, name=name: getattr(xp, name)(x)) for name in UNARY}
    | {name: (lambda x, name=name: getattr(xp, name)(x, 0.5)) for name in BINARY}
    | OTHER
    | {f"linalg.{name}": f for name, f in LINALG.items()}
    | {f"fft.{name}": f for name, f in FFT.items()}
)


def leaves(out) -> list:
    return [np.asarray(v) for v in (out if isinstance(out, (tuple, list)) else [out])]


def close(found, expected) -> None:
    found, expected = leaves(found), leaves(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=1e-6 if e.dtype.itemsize <= 4 else 1e-10)


@pytest.mark.parametrize("name", CONSTANTS + DTYPES)
def test_constants_and_dtypes(name):
    assert getattr(xp, name) == getattr(np, name) or name == "nan"
    if name in DTYPES:
        assert np.dtype(getattr(xp, name)) == np.dtype(name)
        assert np.zeros(1, getattr(xp, name)).dtype == getattr(xp, name)


@pytest.mark.parametrize("name", CREATION)
def test_creation_outside_is_numpy(name):
    made = leaves(CREATION[name]())
    assert all(type(m) is np.ndarray for m in made)
    twin = leaves(CREATION[name]())
    assert [m.dtype for m in made] == [t.dtype for t in twin]


@pytest.mark.parametrize("name", CREATION)
def test_creation_under_transforms(name):
    def f(x):
        made = CREATION[name]()
        return [x * m for m in (made if isinstance(made, (list, tuple)) else [made])]

    with np.errstate(all="ignore"):
        for found, plain in zip(da.jvp(f, (2.0,), (1.0,))[1], leaves(CREATION[name]()), strict=True):
            assert found.shape == plain.shape
        for found, plain in zip(da.vmap(f)(np.ones(3)), leaves(CREATION[name]()), strict=True):
            assert found.shape == (3, *plain.shape)


@pytest.mark.parametrize("name", ON_TENSORS)
def test_functions_on_arrays_and_tensors(name):
    f = ON_TENSORS[name]
    plain = f(X)
    assert not any(isinstance(v, da.Dual) for v in leaves(plain))
    static = name in ("finfo", "iinfo", "isdtype", "can_cast", "result_type")
    if static:
        seen = []
        da.jvp(lambda x: (seen.append(f(x)), x)[1], (X,), (X,))
        da.vmap(lambda x: (seen.append(f(x)), x)[1])(np.stack([X, X]))
        assert seen == [plain, plain]
        return
    values, tangents = da.jvp(lambda x: tuple(leaves_of(f(x))), (X,), (np.ones_like(X),))
    close(values, plain)
    step = 1e-6
    for t, up, down in zip(tangents, leaves(f(X + step)), leaves(f(X - step)), strict=True):
        if t.dtype != da.float0 and t.dtype.itemsize >= 8:
            np.testing.assert_allclose(t, (up - down) / (2 * step), rtol=1e-4, atol=1e-6)
    lanes = da.vmap(lambda x: tuple(leaves_of(f(x))))(np.stack([X, X + 0.05]))
    for lane, x in enumerate([X, X + 0.05]):
        close([v[lane] for v in lanes], f(x))


def leaves_of(out) -> list:
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("name", ON_INTEGERS)
def test_functions_on_integers(name):
    f = ON_INTEGERS[name]
    close(da.jvp(lambda x: f(INTS), (1.0,), (1.0,))[0], f(INTS))
    close(da.vmap(f)(np.stack([INTS, INTS + 1]))[1], f(INTS + 1))


@pytest.mark.parametrize("name", BY_VALUE)
def test_functions_by_value(name):
    f = BY_VALUE[name]
    assert leaves(f(X))[0].size
    refused = (RuleMissingError, UnsupportedError)
    try:
        value = da.jvp(lambda x: tuple(leaves_of(f(x))), (X,), (X,))[0]
    except refused:
        with pytest.raises(refused, match="Instead"):
            da.jvp(lambda x: tuple(leaves_of(f(x))), (X,), (X,))
    else:
        close(value, f(X))


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_descending_order_is_stable(name):
    x = np.array([1.0, 3.0, 1.0, 3.0, 2.0])
    order = np.array([1, 3, 4, 0, 2])
    expected = order if name == "argsort" else x[order]
    assert getattr(xp, name)(x, descending=True, stable=True).tolist() == expected.tolist()
    out = da.vmap(lambda v: getattr(xp, name)(v, descending=True, stable=True))(np.stack([x, -x]))
    assert out[0].tolist() == expected.tolist()


def test_info():
    info = xp.__array_namespace_info__()
    assert set(info.capabilities()) >= {"boolean indexing", "data-dependent shapes"}
    assert info.default_dtypes()["real floating"] == xp.float64
    assert xp.__array_api_version__ == "2024.12"


def test_namespace_of_a_tensor():
    seen = []

    def f(x):
        seen.append(x.__array_namespace__())
        seen.append(x.__array_namespace__(api_version="2024.12"))
        seen.append(xp.zeros(2).__array_namespace__())
        with pytest.raises(ArgumentError, match="1999"):
            x.__array_namespace__(api_version="1999.01")
        return x

    da.grad(f)(1.0)
    da.vmap(f)(np.ones(2))
    assert all(s is xp for s in seen)


_COMPAT = ["array_api_compat", "scipy._external.array_api_compat", "scipy._lib.array_api_compat",
           "sklearn.externals.array_api_compat"]  # fmt: skip


@pytest.mark.parametrize("name", _COMPAT)
def test_a_tensor_answers_as_the_plain_arrays_beside_it(name):
    compat = pytest.importorskip(name)
    plain, x, seen = np.array([0.5, 2.0]), np.array([1.0, 3.0]), []
    numpys = compat.array_namespace(plain)

    def f(x):
        for others in ([plain], [plain, 1.0], [np.float64(2)], [plain, None, plain]):
            assert compat.array_namespace(x, *others) is numpys
            assert compat.array_namespace(*others, x, x[0]) is numpys
        assert compat.array_namespace(x, plain, use_compat=False) is np
        for others in ([], [x], [2.0], [None, 1]):
            assert compat.array_namespace(x, *others) is xp
        seen.append(x)
        ns = compat.array_namespace(x, plain)
        return ns.sum(ns.matmul(ns.stack([x, plain]), ns.concat([x[:1], plain[1:]])) ** 2)

    by_hand = lambda x: (x[0] ** 2 + 2 * x[1]) ** 2 + (0.5 * x[0] + 4.0) ** 2
    gradient = [4 * 7.0 * 1.0 + 4.5, 2 * 7.0 * 2.0]
    assert np.allclose(da.vmap(f)(np.stack([x, x])), by_hand(x))
    np.testing.assert_allclose(da.grad(f)(x), gradient)
    assert len(seen) >= 2


def test_arrays_are_copied_as_array_api_compat_asks():
    x = np.array([1.0, 2.0])
    for mode in np._CopyMode:
        assert np.array_equal(xp.array(x, copy=mode), x)
        assert da.grad(lambda y, m=mode: np.sum(xp.array(y, copy=m) ** 2))(x).tolist() == [2.0, 4.0]
        assert (xp.array(x, copy=mode) is x) == (mode is not np._CopyMode.ALWAYS)


def test_names_are_numpys():
    assert set(np.__all__) <= set(dir(xp))
    assert xp.sin is np.sin
    assert xp.sum([1, 2]) == 3
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = xp.no_such_name


def test_scipys_array_api_functions():
    scipy = pytest.importorskip("scipy")
    if np.lib.NumpyVersion(scipy.__version__) < "1.15.0":
        pytest.skip("scipy.special.logsumexp takes any array API from SciPy 1.15 on")
    code = """
    import numpy as np
    import dualad as da
    from scipy.integrate import trapezoid
    from scipy.special import log_softmax, logsumexp, softmax

    x = np.array([0.3, -1.2, 2.0])
    assert np.allclose(da.grad(logsumexp)(x), softmax(x))
    assert np.allclose(da.jacrev(softmax)(x), np.diag(softmax(x)) - np.outer(softmax(x), softmax(x)))
    assert np.allclose(da.jacfwd(log_softmax)(x), np.eye(3) - softmax(x))
    assert np.allclose(da.grad(lambda y: trapezoid(y, dx=0.5))(x), [0.25, 0.5, 0.25])
    X = np.stack([x, 2 * x])
    assert np.allclose(da.vmap(da.grad(logsumexp))(X), softmax(X, axis=1))
    assert np.allclose(da.hessian(logsumexp)(x), da.jacrev(softmax)(x))
    print("fine")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "fine", done.stderr


def _signature(function):
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


@pytest.mark.parametrize("part", ["", "linalg", "fft"])
def test_every_function_of_the_standard_has_its_parameters(part):
    """Against the signatures of array_api_strict, which has exactly the standard's."""
    strict = pytest.importorskip("array_api_strict")
    theirs, ours = (getattr(m, part) if part else m for m in (strict, xp))
    checked = 0
    for name in theirs.__all__:
        wanted = _signature(getattr(theirs, name))
        if (
            wanted is None
            or name.startswith("_")
            or "array_api_strict" in name
            or name in ("Device", "ArrayAPIStrictFlags")
        ):
            continue
        found = _signature(getattr(ours, name))
        if found is None or any(p.kind is p.VAR_KEYWORD for p in found.values()):
            continue  # ufuncs say (*args, **kwargs)
        named = [n for n, p in wanted.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        assert not [n for n in named if n not in found], f"{name} lacks {named}"
        checked += 1
    assert checked > (60 if not part else 10)


def _one_lane(f):
    def call(*arrays):
        out = da.vmap(f)(*[a[None] for a in arrays])
        return np.asarray(out)[0]

    return call


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint16", "bool", "complex64"])
def test_dtypes_are_the_standards(dtype):
    """What array_api_strict accepts has the same dtype on tensors, Python numbers and other dtypes beside it too."""
    strict = pytest.importorskip("array_api_strict")
    x = np.array([[0.3, 2.7, 1.2], [3.9, 1.5, 0.4]]).astype(dtype)
    calls = [
        lambda m, a: m.sum(a, axis=0),
        lambda m, a: m.prod(a),
        lambda m, a: m.cumulative_sum(a, axis=0, include_initial=True),
        lambda m, a: m.cumulative_prod(a, axis=1),
        lambda m, a: m.mean(a, keepdims=True),
        lambda m, a: m.var(a, axis=0, correction=1.0),
        lambda m, a: m.sort(a, axis=0, descending=True),
        lambda m, a: m.argsort(a, descending=True),
        lambda m, a: m.clip(a, min=0, max=1),
        lambda m, a: m.where(a == a, a, 0),
        lambda m, a: m.matmul(a, m.matrix_transpose(a)),
        lambda m, a: m.linalg.vector_norm(a),
        lambda m, a: m.linalg.trace(a),
        lambda m, a: m.fft.fft(a),
        lambda m, a: m.fft.irfft(a),
        lambda m, a: a + 1,
        lambda m, a: 2.0 * a,
        lambda m, a: a**2,
        lambda m, a: a & a,
        lambda m, a: a / m.asarray([1.0, 2.0, 3.0], dtype=m.float64),
        lambda m, a: m.divide(a, a),
        lambda m, a: m.round(a),
        lambda m, a: m.floor(a),
    ]
    agreed = 0
    for f in calls:
        try:
            expected = np.asarray(f(strict, strict.asarray(x))._array)
        except (TypeError, ValueError, IndexError):
            continue
        found = _one_lane(lambda a, f=f: f(xp, a))(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        agreed += 1
    assert agreed >= (1 if dtype == "bool" else 5)


@pytest.mark.parametrize("name", ["ascontiguousarray", "asfortranarray"])
def test_converters_are_pickled_by_name(name):
    assert pickle.loads(pickle.dumps(getattr(xp, name))) is getattr(xp, name)
