"""axes=, axis= and keepdims= of matrix products: NumPy's values, derivatives by differences, lanes by a loop."""

import numpy as np
import pytest

import dualad as da
from tests.oracles.calls import check_call

RNG = np.random.default_rng(8)
A, B = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 2, 5))
V, W = RNG.normal(size=(4, 3)), RNG.normal(size=(4,))

CALLS = {
    "matmul": (lambda a, b: np.matmul(a, b, axes=[(1, 2), (2, 0), (0, 1)]), A, RNG.normal(size=(5, 2, 4))),
    "matmul, result": (lambda a, b: np.matmul(a, b, axes=[(2, 0), (1, 2), (-1, 0)]), A, RNG.normal(size=(3, 2, 5))),
    "matmul, vector": (lambda a, v: np.matmul(a, v, axes=[(0, 2), (0,), (0,)]), A, W),
    "vecdot": (lambda a, b: np.vecdot(a, b, axis=0), V, W[:, None]),
    "vecdot, kept": (lambda a, b: np.vecdot(a, b, axis=0, keepdims=True), V, V * 2),
    "vecdot, axes": (lambda a, b: np.vecdot(a, b, axes=[0, -1]), V, W),
    "vecdot, axes kept": (lambda a, b: np.vecdot(a, b, axes=[0, 1, 0], keepdims=True), V, V.T),
    "matvec": (lambda a, b: np.matvec(a, b, axes=[(0, 2), 0, -1]), A, W),
    "vecmat": (lambda a, b: np.vecmat(a, b, axes=[0, (2, 1), 0]), W, A),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CALLS if hasattr(np, n.partition(",")[0])])
def test_calls(name):
    check_call(name, *CALLS[name])


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: np.matmul(a, b, axes=[(0, 1), (0, 1)]),
        lambda a, b: np.matmul(a, b, axes=((0, 1), (0, 1), (0, 1))),
        lambda a, b: np.matmul(a, b, axis=0),
        lambda a, b: np.matmul(a, b, keepdims=True),
        lambda a, b: np.vecdot(a, b, axis=0, axes=[0, 0]),
        lambda a, b: np.vecdot(a, b, axis=7),
    ],
)
def test_bad_calls_raise_as_numpys(call):
    with pytest.raises((TypeError, ValueError)) as expected:
        call(V, V)
    with pytest.raises(expected.type):
        da.jvp(call, (V, V), (V, V))
