"""Linear algebra at its special points: zero vectors, ties, singular matrices, coinciding eigenvalues, triangles read.

Not for: ordinary points, which `test_every_op.py` visits for every operator.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dualad as da
from dualad.errors import InPlaceError, SingularMatrixError, UnsupportedError
from dualad.ops.equal_values import EqualValuesWarning

NORMS = [2, 1, 3, 4, 1.5, np.inf]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def leibniz(a):
    """Return the determinant as the sum over permutations: a polynomial, with no rule of linear algebra in it."""
    n = a.shape[-1]
    total = 0.0
    for p in itertools.permutations(range(n)):
        sign = np.linalg.det(np.eye(n)[list(p)])
        term = sign
        for i in range(n):
            term = term * a[i, p[i]]
        total = total + term
    return total


def differences(f, x, t, h=1e-5):
    return (f(x + h * t) - f(x - h * t)) / (2 * h)


# ── norms ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ord", NORMS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_norm_of_zeros_has_zero_derivatives(ord, dtype) -> None:
    zero = np.zeros(3, dtype)

    def norm(x):
        return np.linalg.norm(x, ord)

    assert not da.grad(norm)(zero).any()
    assert not da.jvp(norm, (zero,), (np.ones(3, dtype),))[1].any()
    second = da.jvp(lambda x: da.jvp(norm, (x,), (np.ones(3, dtype),))[1], (zero,), (np.ones(3, dtype),))[1]
    assert second == 0
    assert not da.jvp(da.grad(norm), (zero,), (np.ones(3, dtype),))[1].any()


@pytest.mark.parametrize("ord", ["fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf])
def test_norm_of_a_zero_matrix_has_zero_gradient(ord) -> None:
    assert not da.grad(lambda x: np.linalg.norm(x, ord))(np.zeros((3, 2))).any()


def test_hessian_of_the_norm_at_zero_is_zero_at_the_third_order_too() -> None:
    zero, t = np.zeros(2), np.ones(2)
    f = np.linalg.norm
    for _ in range(3):
        f = (lambda g: lambda x: da.jvp(g, (x,), (t,))[1])(f)
        assert f(zero) == 0


def test_norm_beside_another_branch() -> None:
    x = np.zeros(2)
    assert not da.grad(lambda x: np.where(True, np.sum(x * x), np.linalg.norm(x)))(x).any()
    assert np.array_equal(da.grad(lambda x: np.linalg.norm(x) + np.sum(x))(x), [1.0, 1.0])


def test_entries_that_are_zero() -> None:
    x = np.array([1.0, 0.0, -2.0])
    assert np.array_equal(da.grad(lambda x: np.linalg.norm(x, 1))(x), [1.0, 0.0, -1.0])
    assert da.grad(lambda x: np.linalg.norm(x, 3))(x)[1] == 0
    # Σ x⁴ has the fourth derivative 24 at an entry that is zero, and N = (1 + x⁴)^(1/4) a quarter of it.
    f = lambda s: np.linalg.norm(np.stack([np.ones(()), s]), 4)
    for _ in range(4):
        f = (lambda g: lambda s: da.jvp(g, (s,), (1.0,))[1])(f)
    assert np.isclose(f(0.0), 6.0)


def test_ties_are_split_evenly() -> None:
    x = np.array([1.0, -1.0, 0.0])
    assert np.array_equal(da.grad(lambda x: np.linalg.norm(x, np.inf))(x), [0.5, -0.5, 0.0])
    # all singular values of 1 are equal: the average of their derivatives does not depend on the vectors chosen
    assert np.allclose(da.grad(lambda a: np.linalg.norm(a, 2))(np.eye(3)), np.eye(3) / 3)
    assert np.allclose(da.grad(lambda a: np.linalg.norm(a, 1))(np.eye(2)), np.eye(2) / 2)


def test_nuclear_norm_of_a_deficient_matrix_has_the_subgradient_of_minimal_norm(rng) -> None:
    u, v = np.linalg.qr(rng.normal(size=(3, 3)))[0], np.linalg.qr(rng.normal(size=(3, 3)))[0]
    a = u @ np.diag([3.0, 1.0, 0.0]) @ v.T
    assert np.allclose(da.grad(lambda a: np.linalg.norm(a, "nuc"))(a), u[:, :2] @ v[:, :2].T)


# ── determinants of singular matrices ────────────────────────────────────────────────────────────────────────────

SINGULAR = {
    "zero": np.zeros((3, 3)),
    "rank one": np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 3.0]),
    "rank two": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
    "permuted diagonal": np.diag([2.0, 0.0, 1.0])[[2, 0, 1]],
    "nearly singular": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0 + 1e-7]]),
    "4×4 of rank two": np.diag([2.0, 1.0, 0.0, 0.0]) @ np.tri(4),
    "4×4 badly scaled": np.diag([1e4, 1.0, 1e-4, 1e-5]) @ (np.tri(4) + np.tri(4).T),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_determinant_of_a_singular_matrix(name) -> None:
    a = SINGULAR[name]
    n = len(a)
    f, g = np.linalg.det, leibniz
    assert np.allclose(da.grad(f)(a), da.grad(g)(a), rtol=1e-9, atol=1e-9)
    assert np.allclose(da.jacrev(f)(a), da.jacfwd(f)(a), rtol=1e-9, atol=1e-9)
    assert np.allclose(da.hessian(f)(a), da.hessian(g)(a), rtol=1e-8, atol=1e-8)
    t = np.cos(np.arange(n * n)).reshape(n, n)
    for order in range(1, n + 2):
        f, g = [(lambda h: lambda x: da.jvp(h, (x,), (t,))[1])(h) for h in (f, g)]
        assert np.isclose(f(a), g(a), rtol=1e-6, atol=1e-8), f"order {order}"


def test_second_derivative_of_the_determinant_at_the_zero_matrix_is_finite() -> None:
    assert not da.hessian(np.linalg.det)(np.zeros((3, 3))).any()
    two = da.hessian(np.linalg.det)(np.zeros((2, 2))).reshape(4, 4)
    assert np.allclose(two, np.fliplr(np.diag([1.0, -1.0, -1.0, 1.0])))


def test_singular_and_regular_matrices_in_one_batch(rng) -> None:
    stack = np.stack([np.eye(3), np.zeros((3, 3)), rng.normal(size=(3, 3))])
    gradients = da.vmap(da.grad(np.linalg.det))(stack)
    assert np.allclose(gradients, [da.grad(leibniz)(a) for a in stack])


# ── which triangle is read ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_reads_one_triangle_and_so_does_its_derivative(rng, upper) -> None:
    a = np.eye(3) * 4 + rng.normal(size=(3, 3)) * 0.3  # not symmetric: the other triangle is ignored
    c = rng.normal(size=(3, 3))

    def f(a):
        return np.sum(c * np.linalg.cholesky(a, upper=upper))

    gradient = da.grad(f)(a)
    unread = np.tril(gradient, -1) if upper else np.triu(gradient, 1)
    assert not unread.any()
    t = rng.normal(size=(3, 3))
    assert np.isclose(np.sum(gradient * t), differences(f, a, t))
    symmetrised = da.grad(lambda a: f((a + a.T) / 2))(a @ a.T)
    assert np.allclose(symmetrised, symmetrised.T)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_reads_one_triangle_and_so_does_its_derivative(rng, uplo) -> None:
    a, t = rng.normal(size=(4, 4)) + np.diag([0.0, 4, 8, 12]), rng.normal(size=(4, 4))
    gradient = da.grad(lambda a: np.linalg.eigvalsh(a, uplo)[1])(a)
    assert not (np.triu(gradient, 1) if uplo == "L" else np.tril(gradient, -1)).any()
    assert np.isclose(np.sum(gradient * t), differences(lambda a: np.linalg.eigvalsh(a, uplo)[1], a, t))


# ── eigenvalues and singular values ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [6, 9])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("largest", [True, False])
def test_eigenpairs_of_symmetric_matrices(rng, n, k, largest) -> None:
    a = rng.normal(size=(2, n, n))
    a = a + np.swapaxes(a, -1, -2)
    part = slice(n - k, n) if largest else slice(0, k)

    def f(a):
        w, v = np.linalg.eigh((a + np.swapaxes(a, -1, -2)) / 2)
        # v² does not depend on the signs of the eigenvectors
        return np.sum(w[..., part]) + np.sum(np.arange(n)[:, None] * v[..., part] ** 2)

    gradient = da.grad(f)(a)
    assert np.allclose(gradient, np.swapaxes(gradient, -1, -2))
    t = rng.normal(size=a.shape)
    assert np.isclose(np.sum(gradient * t), differences(f, a, t), rtol=1e-5)
    assert np.allclose(da.jvp(da.grad(f), (a,), (t,))[1], differences(da.grad(f), a, t), rtol=1e-4, atol=1e-4)


def test_coinciding_eigenvalues_have_derivatives_and_their_vectors_none() -> None:
    t = np.array([[1.0, 0.5], [0.5, 2.0]])
    assert np.allclose(da.grad(lambda a: np.sum(np.linalg.eigvalsh(a)))(np.eye(2)), np.eye(2))
    with pytest.warns(EqualValuesWarning):
        tw, tv = da.jvp(np.linalg.eigh, (np.eye(2),), (t,))[1]
    assert np.array_equal(tw, [1.0, 2.0])
    assert np.isnan(tv).all()
    # a perturbation that does not couple them moves neither vector
    with pytest.warns(EqualValuesWarning):
        assert not da.jvp(np.linalg.eigh, (np.eye(2),), (np.diag([1.0, 2.0]),))[1][1].any()


def test_singular_values_at_zero_have_the_subgradient_zero() -> None:
    _, t = da.jvp(np.linalg.svdvals, (np.diag([2.0, 0.0]),), (np.ones((2, 2)),))
    assert np.allclose(t, [1.0, 0.0])


def test_eigenvalues_are_complex_whatever_their_values() -> None:
    a = np.diag([1.0, 2.0])
    value, tangent = da.jvp(np.linalg.eigvals, (a,), (np.eye(2),))
    assert value.dtype == tangent.dtype == np.complex128
    assert np.allclose(tangent, 1.0)
    result, _ = da.jvp(np.linalg.eig, (a,), (np.eye(2),))
    assert type(result) is type(np.linalg.eig(a))


def test_what_has_no_rule_is_refused_with_the_rewrite() -> None:
    with pytest.raises(UnsupportedError, match=r"mode='reduced'"):
        da.jvp(lambda a: np.linalg.qr(a, "raw"), (np.ones((3, 2)),), (np.ones((3, 2)),))


# ── complete bases: their further columns are any basis of the space that is left ────────────────────────────────


def _left_over(name: str):
    """Return the projector onto what the columns of a leave, by the further columns of a factorization of a."""

    def projector(a):
        q = np.linalg.svd(a)[0] if name == "svd" else np.linalg.qr(a, "complete")[0]
        rest = q[..., a.shape[-1] :]
        return rest @ np.conj(np.swapaxes(rest, -1, -2))

    return projector


@pytest.mark.parametrize("name", ["svd", "qr"])
@pytest.mark.parametrize("imaginary", [0, 1])
def test_what_does_not_depend_on_the_choice_of_a_complete_basis(name, imaginary, rng) -> None:
    a, *ts = [rng.normal(size=(5, 2)) + imaginary * 1j * rng.normal(size=(5, 2)) for _ in range(4)]
    ours, other = _left_over(name), lambda a: np.eye(5) - a @ np.linalg.pinv(a)
    for t in ts:  # values, then derivatives to the third order
        assert np.allclose(ours(a), other(a), atol=1e-11)
        ours, other = (lambda a, f=f, t=t: da.jvp(f, (a,), (t,))[1] for f in (ours, other))
    assert np.allclose(ours(a), other(a), atol=1e-10)
    stack = np.stack([a, a + ts[0]])
    assert np.allclose(da.vmap(ours)(stack)[1], other(stack[1]), atol=1e-9)


@pytest.mark.parametrize("shape", [(5, 2), (2, 5), (4, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
def test_tangents_of_complete_factors_multiply_out_and_turn_within_no_space(shape, dtype, rng) -> None:
    a, t = (
        [(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype) for _ in range(2)]
        if (np.dtype(dtype).kind == "c")
        else [rng.normal(size=shape).astype(dtype) for _ in range(2)]
    )
    tolerance = 1e-4 if dtype == np.float32 else 1e-12

    def adjoint(m):
        return np.conj(m.T)

    def close(x, y):
        return np.allclose(x, y, atol=tolerance)

    (u, s, vh), (tu, ts, tvh) = da.jvp(np.linalg.svd, (a,), (t,))
    assert u.dtype == tu.dtype == vh.dtype == tvh.dtype == dtype
    sigma, tsigma = np.zeros(shape), np.zeros(shape)
    np.fill_diagonal(sigma, s)
    np.fill_diagonal(tsigma, ts)
    assert close(tu @ sigma @ vh + u @ tsigma @ vh + u @ sigma @ tvh, t)
    k = min(shape)
    for q, tq in ((u, tu), (adjoint(vh), adjoint(tvh))):
        assert close(adjoint(q) @ tq, -adjoint(tq) @ q)
        assert close(adjoint(q[:, k:]) @ tq[:, k:], 0)  # the least motion
    (q, r), (tq, tr) = da.jvp(lambda a: np.linalg.qr(a, mode="complete"), (a,), (t,))
    assert np.array_equal(r, np.linalg.qr(a, "complete")[1])
    assert close(tq @ r + q @ tr, t)
    assert close(adjoint(q) @ tq, -adjoint(tq) @ q)
    assert close(adjoint(q[:, k:]) @ tq[:, k:], 0)


def test_singular_values_of_the_default_svd(rng) -> None:
    a = rng.normal(size=(4, 2))

    def f(a):
        return np.sum(np.linalg.svd(a)[1] ** 3)

    def g(a):
        return np.sum(np.linalg.svdvals(a) ** 3)

    assert np.allclose(da.grad(f)(a), da.grad(g)(a))
    assert np.allclose(da.hessian(f)(a), da.hessian(g)(a))


# ── the logarithm of a determinant that is zero ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("derivative", [da.grad, da.jacfwd, da.hessian])
def test_slogdet_of_a_singular_matrix_says_what_to_write(derivative) -> None:
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(SingularMatrixError, match=r"np\.linalg\.det") as caught:
        derivative(lambda a: np.linalg.slogdet(a)[1])(a)
    assert isinstance(caught.value, np.linalg.LinAlgError)


@pytest.mark.parametrize("function", [np.linalg.eigh, np.linalg.eig, np.linalg.svd, np.linalg.qr, np.linalg.slogdet])
def test_named_tuples_stay_named_tuples(function) -> None:
    a = np.diag([1.0, 2.0])
    kind = type(function(a))
    value, tangent = da.jvp(function, (a,), (np.eye(2),))
    assert type(value) is type(tangent) is type(da.vmap(function)(a[None])) is kind


# ── pseudoinverse and least squares of deficient rank ────────────────────────────────────────────────────────────


def test_pinv_of_a_singular_matrix_along_its_rank(rng) -> None:
    b, c, tb = rng.normal(size=(4, 2)), rng.normal(size=(2, 3)), rng.normal(size=(4, 2))

    def f(b):
        return np.linalg.pinv(b @ c)

    assert np.allclose(da.jvp(f, (b,), (tb,))[1], differences(f, b, tb), atol=1e-6)

    def g(b):
        return da.jvp(f, (b,), (tb,))[1]

    assert np.allclose(da.jvp(g, (b,), (tb,))[1], differences(g, b, tb), atol=1e-5)


def test_lstsq_of_a_deficient_matrix(rng) -> None:
    b, c, tb, y = rng.normal(size=(5, 2)), rng.normal(size=(2, 3)), rng.normal(size=(5, 2)), rng.normal(size=5)

    def f(b):
        return np.linalg.lstsq(b @ c, y)

    value, tangent = da.jvp(f, (b,), (tb,))
    expected = f(b)
    assert np.allclose(value[0], expected[0])
    assert value[2] == expected[2] == 2
    assert np.allclose(value[3], expected[3])
    assert np.allclose(tangent[0], differences(lambda b: f(b)[0], b, tb), atol=1e-6)


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_matrix_times_a_vector_of_stride_zero(rng) -> None:
    a = rng.normal(size=(4, 3))

    def f(x):
        return np.sum((a @ np.broadcast_to(x, (3,))) ** 2)

    x = np.array([0.7])
    gradient = da.grad(f)(x)
    assert gradient.shape == (1,)
    assert np.allclose(gradient, 2 * 0.7 * np.sum(a.sum(1) ** 2))
    assert np.allclose(da.hessian(f)(x), [[2 * np.sum(a.sum(1) ** 2)]])


def test_a_product_of_empty_matrices() -> None:
    x, y = np.zeros((2, 0)), np.zeros((0, 3))
    value, pull = da.vjp(np.matmul, x, y)
    assert value.shape == (2, 3)
    assert [c.shape for c in pull(np.ones((2, 3)))] == [(2, 0), (0, 3)]


def test_a_repeated_index_puts_the_cotangent_on_the_diagonal() -> None:
    a = np.arange(9.0).reshape(3, 3)
    assert np.array_equal(da.grad(lambda a: np.einsum("ii", a))(a), np.eye(3))
    (ct,) = da.vjp(lambda a: np.einsum("ii->i", a), a)[1](np.array([1.0, 2.0, 3.0]))
    assert np.array_equal(ct, np.diag([1.0, 2.0, 3.0]))
    # beside the diagonal the cotangent is zero even if it is infinite on it
    (ct,) = da.vjp(lambda a: np.einsum("ii->i", a), a)[1](np.array([np.inf, 0.0, 0.0]))
    assert ct[0, 0] == np.inf and not ct.ravel()[1:].any()


def test_the_same_operand_twice() -> None:
    x = np.array([1.0, 2.0])
    assert np.array_equal(da.grad(lambda x: np.einsum("i,i", x, x))(x), 2 * x)
    assert np.array_equal(da.hessian(lambda x: x @ x)(x), 2 * np.eye(2))


@pytest.mark.parametrize(
    "arguments",
    [
        ("...i->i", np.ones((2, 3))),
        ("ij->ijk", np.ones((2, 3))),
        ("ij->ii", np.ones((2, 3))),
        ("ij", np.ones(2)),
        ("i", np.ones((2, 3))),
        ("i,j->ij", np.ones(2)),
        ("i", np.ones(2), np.ones(2)),
        ("i.", np.ones(2)),
        ("i1", np.ones((2, 2))),
        ("i,i->i", np.ones(2), np.ones(3)),
        (np.ones(2), [60]),
    ],
)
def test_what_numpy_refuses_in_einsum_is_refused(arguments) -> None:
    with pytest.raises(ValueError):
        np.einsum(*arguments)
    tangents = [np.ones_like(a) if isinstance(a, np.ndarray) else None for a in arguments]
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]

    def f(*xs):
        xs = iter(xs)
        return np.einsum(*[next(xs) if isinstance(a, np.ndarray) else a for a in arguments])

    with pytest.raises(ValueError):
        da.jvp(f, arrays, [t for t in tangents if t is not None])


def test_shapes_that_do_not_match_are_refused_when_traced() -> None:
    with pytest.raises(ValueError, match="core dimension"):
        da.trace(np.matmul, np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="enough dimensions"):
        da.trace(np.matmul, np.ones((2, 3)), np.ones(()))
    with pytest.raises(np.linalg.LinAlgError):
        da.trace(np.linalg.inv, np.ones((2, 3)))


def test_results_are_not_written_into_plain_arrays() -> None:
    with pytest.raises(InPlaceError):
        da.jvp(da.plain(lambda x: np.dot(x, x, out=np.zeros(()))), (np.ones(2),), (np.ones(2),))


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3)])
def test_nuclear_norm_where_singular_values_coincide(shape, rng) -> None:
    """Three derivatives against a polynomial through nearby values: the norm is smooth while no value is zero."""
    a, t = np.eye(*shape), 0.1 * rng.normal(size=shape)
    f = lambda s: np.linalg.norm(a + s * t, "nuc")
    derivatives = [f]
    for _ in range(3):
        derivatives.append(da.grad(derivatives[-1]))
    steps = np.linspace(-0.5, 0.5, 21)
    fitted = np.polynomial.Polynomial.fit(steps, [f(s) for s in steps], 14)
    for order in (1, 2, 3):
        assert derivatives[order](0.0) == pytest.approx(fitted.deriv(order)(0.0), rel=1e-5, abs=1e-9)
    # H t as the hessian has it, and a batch of the same.
    h = da.hvp(lambda x: np.linalg.norm(x, "nuc"), a, t)
    assert np.sum(h * t) == pytest.approx(derivatives[2](0.0))
    assert np.allclose(da.vmap(lambda x: da.hvp(lambda y: np.linalg.norm(y, "nuc"), x, t))(np.stack([a, a])), h)


def test_nuclear_norm_of_singular_matrices() -> None:
    norm = lambda x: np.linalg.norm(x, "nuc")
    assert np.allclose(da.grad(norm)(np.diag([2.0, 0.0])), np.diag([1.0, 0.0]))
    assert not da.grad(norm)(np.zeros((2, 3))).any()
    assert not da.hessian(norm)(np.zeros((2, 2))).any()
    assert da.grad(norm)(np.zeros((0, 2))).shape == (0, 2)


def test_eigenvalues_of_empty_matrices() -> None:
    value, tangent = da.jvp(np.linalg.eigvals, (np.zeros((0, 0)),), (np.zeros((0, 0)),))
    assert value.shape == tangent.shape == (0,)
    assert da.hessian(lambda a: np.sum(np.real(np.linalg.eigvals(a))))(np.zeros((0, 0))).shape == (0, 0, 0, 0)
