"""Arrays that NumPy itself builds of tensors: object arrays, in arithmetic, packed back, or refused with words.

``np.array([x[0], 1.0])`` never reaches dualad; the first table of the design's section on NumPy says what happens to
what it returns. Not for: lists given to NumPy's functions, nor ``dualad.numpy.array``.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentTypeError, ConversionError, PerformanceNote, PlainBufferError

POINT = np.array([0.7, 1.3])
A = np.array([[1.0, 2.0], [3.0, 4.0]])

WORKS = {
    "returned": lambda x: np.array([x[0], x[1]]),
    "returned nested": lambda x: np.array([[x[0], 1.0], [2.0, x[1]]]),
    "asarray": lambda x: np.asarray(x),
    "asarray of rows": lambda x: np.asarray([x, x]),
    "plus a number": lambda x: np.array([x[0], 1.0]) + 1.0,
    "times an array": lambda x: np.array([x[0], 1.0]) * np.array([2.0, 3.0]),
    "times its like": lambda x: np.array([x[0], x[1]]) * np.array([x[1], 2.0]),
    "power": lambda x: np.array([x[0], 2.0]) ** 2,
    "negative": lambda x: -np.array([x[0], 1.0]),
    "matrix @": lambda x: A @ np.array([x[0], 1.0]),
    "@ matrix": lambda x: np.array([[x[0], 1.0], [0.0, x[1]]]) @ A,
    "@ its like": lambda x: np.array([[x[0], 1.0], [0.0, x[1]]]) @ np.array([x[1], 3.0]),
    "dot": lambda x: np.dot(np.array([x[0], 1.0]), np.array([1.0, 2.0])),
    "exp": lambda x: np.exp(np.array([x[0], x[1]])),
    "arctan2": lambda x: np.arctan2(np.array([x[0], x[1]]), np.array([1.0, 2.0])),
    "hypot": lambda x: np.hypot(np.array([x[0], x[1]]), np.array([x[1], x[0]])),
    "abs": lambda x: np.abs(np.array([x[0], -1.0])),
    "sum": lambda x: np.sum(np.array([x[0], 1.0])),
    ".sum()": lambda x: np.array([x[0], 1.0]).sum(),
    "prod": lambda x: np.prod(np.array([x[0], 2.0, x[1]])),
    "norm": lambda x: np.linalg.norm(np.array([x[0], 1.0])),
    "stack with a tensor": lambda x: np.stack([np.array([x[0], 1.0]), x]),
    "concatenate with a tensor": lambda x: np.concatenate([np.array([x[0], 1.0]), x]),
    "left of a tensor": lambda x: np.array([x[0], 1.0]) * x,
    "right of a tensor": lambda x: x - np.array([x[0], 1.0]),
    "a ufunc with a tensor": lambda x: np.maximum(np.array([x[0], 1.0]), x * 1.1),
    "zeros like it": lambda x: np.zeros_like(np.array([x[0], 1.0])) + x,
    "where": lambda x: np.where(np.array([x[0], 1.0]) > 0.8, x, 0.0),
    "a mask of it": lambda x: (np.array([x[0], 1.0]) > 0.8) * x,
    "cumsum": lambda x: np.cumsum(np.array([x[0], 1.0, x[1]])),
    "outer": lambda x: np.outer(np.array([x[0], 1.0]), np.array([1.0, x[1]])),
    "cross": lambda x: np.cross(np.array([x[0], 1.0, x[1]]), np.array([1.0, 2.0, 3.0])),
    "einsum": lambda x: np.einsum("i,i->", np.array([x[0], 1.0]), np.array([1.0, 2.0])),
    "transpose": lambda x: np.array([[x[0], 1.0], [0.0, x[1]]]).T,
    "reshape": lambda x: np.array([x[0], 1.0, 2.0, x[1]]).reshape(2, 2),
    "slice": lambda x: np.array([x[0], 1.0, 2.0, x[1]])[1:],
    "diag": lambda x: np.diag(np.array([x[0], 1.0])),
    "r_": lambda x: np.r_[x[0], 1.0, x],
    "c_": lambda x: np.c_[x, np.ones(2)],
    "vectorize": lambda x: np.vectorize(lambda t: t * t)(x),
    "clip": lambda x: np.clip(np.array([x[0], x[1]]), 0.0, 1.0),
    "sort": lambda x: np.sort(np.array([x[1], x[0]])),
    "as an order": lambda x: x[np.argsort(np.array([x[1], x[0]]))],
    "real": lambda x: np.array([x[0], 1.0]).real,
    "a ufunc of a list": lambda x: np.sqrt([x[0], x[1]]),
    "sum of a list": lambda x: np.sum([x[0], x[1]]),
}


def changed(x):
    a = np.array([x[0], 1.0])
    a[1] = x[1] * 2.0
    a[0] += x[1]
    return a


def added_into(x):
    a = np.array([x[0], 1.0])
    a += x
    a *= 3.0
    return a


WORKS |= {"item assignment": changed, "augmented": added_into}


@pytest.fixture(params=WORKS, ids=str)
def program(request):
    return WORKS[request.param]


@pytest.fixture(autouse=True)
def without_notes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceNote)
        yield


def test_derivatives(program):
    step = 1e-6
    expected = np.stack([(program(POINT + step * e) - program(POINT - step * e)) / (2 * step) for e in np.eye(2)], -1)
    value, _ = da.jvp(program, (POINT,), (POINT,))
    assert np.asarray(value).dtype == np.asarray(program(POINT)).dtype
    np.testing.assert_allclose(value, program(POINT), rtol=1e-14)
    np.testing.assert_allclose(da.jacfwd(program)(POINT), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(da.jacrev(program)(POINT), expected, rtol=1e-6, atol=1e-8)


def test_lanes_and_nesting(program):
    X = np.stack([POINT, POINT + 0.5])
    np.testing.assert_allclose(da.vmap(program)(X), np.stack([program(x) for x in X]), rtol=1e-14)
    f = lambda x: np.sum(program(x) ** 2)
    np.testing.assert_allclose(da.vmap(da.grad(f))(X), np.stack([da.grad(f)(x) for x in X]), rtol=1e-12)
    np.testing.assert_allclose(da.hessian(f)(POINT), da.jacfwd(da.jacfwd(f))(POINT), rtol=1e-10, atol=1e-12)


@pytest.mark.plain
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.exp(np.array([x[0], 1.0])),
        lambda x: np.sin(np.array([1, x[0]])),
        lambda x: np.deg2rad(np.array([x[0], 1.0])),
        lambda x: np.isfinite(np.array([x[0], x[1]])) * x,
        lambda x: np.linalg.inv(np.array([[x[0], 1.0], [0.0, x[1]]])),
        lambda x: np.interp(np.array([x[0]]), [0.0, 1.0], [2.0, 5.0]),
    ],
)
@pytest.mark.parametrize("transform", [da.jacfwd, da.jacrev, da.vmap])
def test_what_numpy_cannot_compute_is_taught(transform, f):
    with pytest.raises(ConversionError, match=r"array of Python objects") as caught:
        transform(f)(np.stack([POINT, POINT]) if transform is da.vmap else POINT)
    assert "test_arguments_objects.py" in str(caught.value)
    assert "np.stack" in caught.value.instead


@pytest.mark.plain
def test_it_is_said_once_however_deep_the_transforms_are_nested():
    for transform in (da.grad, da.jacfwd, da.hessian, lambda f: da.jacrev(da.hessian(f))):
        with pytest.raises(PlainBufferError) as caught:
            transform(lambda x: np.mean([x[0], x[1] ** 2]))(POINT)
        assert str(caught.value).count("array of Python objects") == 1


@pytest.mark.plain
@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: np.asarray(x, float), PlainBufferError),
        (lambda x: np.array([x[0], 1.0], dtype=float), (PlainBufferError, ConversionError)),
        (lambda x: np.array([x[0], 1.0]).astype(float), ConversionError),
        (lambda x: np.array([x[0] * 1j, 1.0]), ConversionError),
        (lambda x: np.mean(np.array([x[0], 1.0])), PlainBufferError),
    ],
)
def test_conversions_that_would_drop_the_derivative_are_refused(f, error):
    for transform in (da.jacfwd, da.jacrev):
        with pytest.raises(error, match="Instead"):
            transform(f)(POINT)


@pytest.mark.plain
def test_the_line_of_a_refusal_inside_numpy_is_the_users():
    with pytest.raises(PlainBufferError, match=r"At: .*test_arguments_objects\.py.*np\.mean"):
        da.jacrev(lambda x: np.mean(np.array([x[0], 1.0])))(POINT)


def test_rows_of_different_shapes_are_refused():
    def f(x):
        a = np.empty(2, object)
        a[0], a[1] = x, x[0]
        return a + x

    with pytest.raises(ArgumentTypeError, match=r"shape \(2,\)"):
        da.jacfwd(f)(POINT)


@pytest.mark.plain
def test_a_note_names_the_faster_way():
    with pytest.warns(PerformanceNote, match=r"np\.stack"):
        da.grad(lambda x: np.sum(np.array([x[0], 1.0]) * x))(POINT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.grad(lambda x: np.sum(np.array([x[0], 1.0], like=x) * x))(POINT)
        da.grad(lambda x: np.sum(da.numpy.array([x[0], 1.0]) * x))(POINT)
        da.grad(lambda x: np.sum(np.exp(da.numpy.array([x[0], 1.0]))))(POINT)


@pytest.mark.plain
def test_only_failures_of_compiled_code_are_about_objects() -> None:
    def held(x):
        pair = SimpleNamespace(of=np.array([x, 1.0]))
        return np.exp(pair.of)

    def raises(x):
        pair = np.array([x, 1.0])
        raise TypeError(f"loop of ufunc: {pair.dtype} has no callable exp method")

    def parses(x):
        pair = np.array([x, 1.0])
        return int("object") + pair

    def asks(x):
        pair = np.array([x, 1.0])
        return pair * np.finfo(pair.dtype).eps

    def mistaken(x):
        return x * np.finfo(np.object_).eps

    for f, kind in (
        (held, ConversionError), (raises, TypeError), (parses, ValueError), (asks, ConversionError),
        (mistaken, ValueError),
    ):  # fmt: skip
        with pytest.raises(kind) as info:
            da.jvp(f, (0.3,), (1.0,))
        assert type(info.value) is kind
