"""Linear calls with a transpose of one's own. Not for: `linear_transpose` of NumPy code."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentTypeError, DtypeError, ShapeError, TreeError

A = np.array([[2.0, 1.0, 0.0], [0.5, 3.0, 1.0], [0.0, 1.0, 4.0]])
B = np.array([1.0, -2.0, 0.5])


def solve(a, b):
    return np.linalg.solve(a, b)


def solve_transposed(a, c):
    return np.linalg.solve(a.T, c)


DERIVATIVES = {
    "grad": (lambda h: da.grad(h, (0, 1)), A, B),
    "hessian": (lambda h: da.hessian(h, (0, 1)), A, B),
    "reverse_over_reverse": (lambda h: da.jacrev(da.grad(h, 1), (0, 1)), A, B),
    "third": (lambda h: da.jacfwd(da.hessian(h, 1)), A, B),
    "mapped_vectors": (lambda h: da.vmap(da.grad(h, (0, 1)), (None, 0)), A, np.stack([B, 2 * B])),
    "mapped_residuals": (lambda h: da.vmap(da.grad(h, (0, 1)), (0, None)), np.stack([A, 2 * A]), B),
    "of_mapped": (
        lambda h: da.grad(lambda a, b: np.sum(da.vmap(h, (None, 0))(a, b)), (0, 1)), A, np.stack([B, 2 * B]),
    ),
    "traced": (lambda h: lambda a, b: da.trace(da.grad(h, (0, 1)), a, b)(a, b), A, B),
}  # fmt: skip


@pytest.mark.parametrize("transposed", [solve_transposed, None])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_every_derivative(name: str, transposed) -> None:
    derive, a, b = DERIVATIVES[name]
    ours = derive(lambda a, b: np.sum(da.linear_call(solve, transposed, a, b) ** 3))(a, b)
    plain = derive(lambda a, b: np.sum(solve(a, b) ** 3))(a, b)
    for x, y in zip(da.tree.flatten(ours)[0], da.tree.flatten(plain)[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_neither_function_is_looked_into() -> None:
    """With an example of the result, both may insist on plain arrays; the transpose of the transpose is f."""
    log = []

    def opaque(name, matrix):
        def f(r, v):
            assert type(v["x"]) is np.ndarray
            log.append(name)
            return {"x": matrix @ v["x"]}

        return f

    f = lambda x: da.linear_call(opaque("f", A), opaque("transpose", A.T), None, {"x": x}, like={"x": B})["x"]
    np.testing.assert_allclose(da.jvp(f, (B,), (2 * B,))[1], A @ (2 * B))
    assert log == ["f", "f"]
    log.clear()
    _, pull = da.vjp(f, B)
    np.testing.assert_allclose(pull(B)[0], A.T @ B)
    assert log == ["f", "transpose"]
    twice = da.linear_transpose(lambda c: da.linear_transpose(f, B)(c)[0], B)
    log.clear()
    np.testing.assert_allclose(twice(B)[0], A @ B)
    assert log == ["f"]


def test_several_results_of_which_one_is_used() -> None:
    f = lambda r, v: (r * v, 2 * v)
    back = lambda r, c: r * c[0] + 2 * c[1]
    np.testing.assert_array_equal(da.grad(lambda v: np.sum(da.linear_call(f, back, B, v)[1]))(B), np.full(3, 2.0))


def test_refusals_name_the_function() -> None:
    def wrong(r, c):
        return c[:2]

    with pytest.raises(ShapeError, match=r"`wrong`, the transpose of `solve`.*\(2,\).*\(3,\)"):
        da.grad(lambda b: np.sum(da.linear_call(solve, wrong, A, b)))(B)
    with pytest.raises(TreeError, match="`<lambda>`"):
        da.grad(lambda b: np.sum(da.linear_call(solve, lambda r, c: (c, c), A, b)))(B)
    with pytest.raises(DtypeError, match="int64"):
        da.grad(lambda a: np.sum(da.linear_call(solve, None, a, np.arange(3))))(A)
    with pytest.raises(ArgumentTypeError, match="f_transpose is 3"):
        da.linear_call(solve, 3, A, B)
    np.testing.assert_array_equal(da.linear_call(lambda r, v: type(v), None, 1, [2.0]), list)
