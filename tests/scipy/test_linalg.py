"""`dualad.scipy.linalg`: values as SciPy's, derivatives to third order, batches, programs, refusals.

Not for: the operators beneath, which `tests/ops/test_every_op.py` covers.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.linalg as sl

import dualad as da
import dualad.scipy.linalg as ours
from dualad.errors import DtypeError, UnsupportedError
from tests.oracles import differences
from tests.oracles.arrays import close, generator, leaves, random_like
from tests.oracles.calls import check_call
from tests.oracles.jax_side import jax, jnp
from tests.oracles.mirrored import agrees

rng = generator("scipy.linalg")
A = rng.normal(size=(3, 3)) + 2.5 * np.eye(3)
S = A @ A.T / 3 + np.eye(3)
H = S + 0.2j * (A - A.T)
Z = A + 0.3j * rng.normal(size=(3, 3))
B = rng.normal(size=(3, 2))
V = rng.normal(size=3)
TALL, WIDE = rng.normal(size=(4, 2)), rng.normal(size=(2, 4))
STACK = rng.normal(size=(2, 3, 3)) + 2.5 * np.eye(3)


def projectors(w, v):
    """What eigenvectors determine, whatever their signs."""
    return w, np.sum(v[..., 0] * np.conj(v[..., 0])), np.abs(v[..., 1]) ** 2


CALLS = {
    "solve": (ours.solve, A, B),
    "solve a vector": (ours.solve, A, V),
    "solve complex": (ours.solve, Z, V),
    "solve pos": (lambda a, b: ours.solve(a, b, assume_a="pos"), S, B),
    "solve sym lower": (lambda a, b: ours.solve(a, b, lower=True, assume_a="sym"), A + A.T, B),
    "solve complex sym": (lambda a, b: ours.solve(a, b, assume_a="sym"), Z + Z.T, V),
    "solve her": (lambda a, b: ours.solve(a, b, assume_a="her"), H, V),
    "solve upper": (lambda a, b: ours.solve(a, b, assume_a="upper triangular"), np.triu(A), B),
    "solve tridiagonal": (lambda a, b: ours.solve(a, b, assume_a="tridiagonal"), np.tril(np.triu(A, -1), 1), V),
    "solve diagonal": (lambda a, b: ours.solve(a, b, assume_a="diagonal"), np.diag(V), B),
    "solve transposed": (lambda a, b: ours.solve(a, b, transposed=True), A, B),
    "solve lower transposed": (
        lambda a, b: ours.solve(a, b, assume_a="lower triangular", transposed=True), np.tril(A), V,
    ),
    "solve_triangular": (ours.solve_triangular, A, B),
    "solve_triangular lower trans": (lambda a, b: ours.solve_triangular(a, b, trans=1, lower=True), A, V),
    "solve_triangular C": (lambda a, b: ours.solve_triangular(a, b, trans="C", unit_diagonal=True), Z, B),
    "cho_factor": (lambda a, b: ours.cho_solve(ours.cho_factor(a), b), S, B),
    "cho_factor lower": (lambda a, b: ours.cho_solve(ours.cho_factor(a, lower=True), b), H, V),
    "cholesky": (ours.cholesky, S),
    "cholesky lower": (lambda a: ours.cholesky(a, lower=True), H),
    "lu": (lambda a: ours.lu(a)[1:], A),
    "lu of a tall matrix": (lambda a: ours.lu(a, permute_l=True), TALL),
    "lu of a wide matrix": (lambda a: ours.lu(a, p_indices=True)[1:], WIDE),
    "lu of complex matrices": (lambda a: ours.lu(a)[1:], Z),
    "lu_solve": (lambda a, b: ours.lu_solve(ours.lu_factor(a), b), A, B),
    "lu_solve trans": (lambda a, b: ours.lu_solve(ours.lu_factor(a), b, trans=1), A, V),
    "lu_solve adjoint": (lambda a, b: ours.lu_solve(ours.lu_factor(a), b, trans=2), Z, V),
    "inv": (ours.inv, Z),
    "inv pos": (lambda a: ours.inv(a, assume_a="pos"), S),
    "inv lower": (lambda a: ours.inv(a, assume_a="lower triangular"), np.tril(A)),
    "det": (ours.det, A),
    "expm": (ours.expm, 0.4 * A),
    "expm stack": (ours.expm, 0.3 * STACK),
    "expm_frechet": (ours.expm_frechet, 0.4 * A, B @ B.T),
    "logm": (ours.logm, S),
    "logm complex": (ours.logm, Z),
    "sqrtm": (ours.sqrtm, S),
    "sqrtm complex": (ours.sqrtm, Z),
    "cosm": (ours.cosm, 0.4 * A),
    "sinm complex": (ours.sinm, 0.4 * Z),
    "tanm": (ours.tanm, 0.2 * A),
    "coshm": (ours.coshm, 0.4 * A),
    "sinhm": (ours.sinhm, 0.4 * A),
    "tanhm": (ours.tanhm, 0.4 * A),
    "fractional_matrix_power": (lambda a: ours.fractional_matrix_power(a, 0.3), S),
    "polar": (ours.polar, A),
    "polar left": (lambda a: ours.polar(a, side="left"), TALL),
    "polar of a wide matrix": (ours.polar, WIDE),
    "polar complex": (ours.polar, Z),
    "solve_sylvester": (ours.solve_sylvester, S, A[:2, :2] + 3 * np.eye(2), B),
    "solve_continuous_lyapunov": (ours.solve_continuous_lyapunov, S, A),
    "solve_discrete_lyapunov": (ours.solve_discrete_lyapunov, 0.2 * A, S),
    "solve_discrete_lyapunov bilinear": (lambda a, q: ours.solve_discrete_lyapunov(a, q, "bilinear"), 0.2 * Z, H),
    "block_diag": (ours.block_diag, A, V, TALL),
    "toeplitz": (ours.toeplitz, V),
    "toeplitz complex": (ours.toeplitz, Z[0]),
    "toeplitz r": (ours.toeplitz, V, TALL[:, 0]),
    "hankel": (ours.hankel, V),
    "hankel r": (ours.hankel, V, TALL[:, 1]),
    "circulant": (ours.circulant, V),
    "circulant stack": (ours.circulant, A),
    "companion": (ours.companion, V),
    "convolution_matrix": (lambda a: ours.convolution_matrix(a, 5), V),
    "convolution_matrix same": (lambda a: ours.convolution_matrix(a, 2, "same"), V),
    "convolution_matrix valid": (lambda a: ours.convolution_matrix(a, 5, "valid"), V),
    "leslie": (ours.leslie, V, V[:2]),
    "fiedler": (ours.fiedler, V),
    "khatri_rao": (ours.khatri_rao, TALL, B[:, :2]),
    "kron": (ours.kron, A, B),
    "eigh": (lambda a: projectors(*ours.eigh(a)), S),
    "eigh upper complex": (lambda a: projectors(*ours.eigh(a, lower=False)), H),
    "eigh generalized": (lambda a, b: projectors(*ours.eigh(a, b)), A + A.T, S),
    "eigh generalized complex": (lambda a, b: projectors(*ours.eigh(a, b)), H + Z + Z.conj().T, H),
    "eigh type 2": (lambda a, b: projectors(*ours.eigh(a, b, type=2)), A + A.T, S),
    "eigh type 3": (lambda a, b: projectors(*ours.eigh(a, b, type=3)), A + A.T, S),
    "eigh subset": (lambda a, b: ours.eigh(a, b, eigvals_only=True, subset_by_index=[1, 2]), A + A.T, S),
    "eigvalsh": (ours.eigvalsh, A + A.T, S),
    "eigvals": (lambda a: ours.eigvals(a) ** 2, np.diag([1.0, 3.0, 6.0]) + 0.2 * A),
    "svd": (lambda a: ours.svd(a, full_matrices=False)[1], TALL),
    "svdvals": (ours.svdvals, Z),
    "qr": (lambda a: ours.qr(a, mode="economic"), TALL),
    "qr of a wide matrix": (ours.qr, WIDE),
    "qr r": (lambda a: ours.qr(a, mode="r"), TALL),
    "qr pivoting": (lambda a: ours.qr(a, mode="economic", pivoting=True)[:2], TALL),
    "norm": (ours.norm, A),
    "norm 1": (lambda a: ours.norm(a, 1), A),
    "pinv": (ours.pinv, TALL),
    "pinv atol": (lambda a: ours.pinv(a, atol=1e-3), TALL),
    "pinvh": (ours.pinvh, H),
    "lstsq": (lambda a, b: ours.lstsq(a, b)[:2], TALL, WIDE.T),
    "lstsq of a vector": (lambda a, b: ours.lstsq(a, b)[:2], TALL, TALL[:, 0] ** 2),
    "solve_toeplitz": (ours.solve_toeplitz, 3 + V, B),
    "matmul_toeplitz": (ours.matmul_toeplitz, V, B),
    "solve_circulant": (ours.solve_circulant, V + np.array([3, 0, 0]), V),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    f, *args = CALLS[name]
    # A tall, an orthogonal or a triangular matrix scaled by a constant is one; so every lane is in the domain.
    check_call(name, f, *args)


# ── against JAX, three orders of jvp and a gradient ──────────────────────────────────────────────────────────────

JAX = {
    "solve_triangular": (lambda m, a, b: m.solve_triangular(a, b, lower=True, trans=1), A, B),
    "cho_solve": (lambda m, a, b: m.cho_solve(m.cho_factor((a + a.T) / 2, lower=True), b), S, V),
    "lu": (lambda m, a: m.lu(a), A),
    "lu of a tall matrix": (lambda m, a: m.lu(a)[1:], TALL),
    "lu_solve": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), A, V),
    "expm": (lambda m, a: m.expm(a), 0.3 * A),
    # JAX's own method is a loop that it can't walk backwards.
    "polar": (lambda m, a: m.polar(a) if m is ours else m.polar(a, method="svd"), A),
    "toeplitz": (lambda m, c, r: m.toeplitz(c, r), V, V[::-1]),
    "block_diag": (lambda m, a, b: m.block_diag(a, b), A, B),
    "eigh": (lambda m, a: m.eigh((a + a.T) / 2, eigvals_only=True), S),
    "cholesky": (lambda m, a: m.cholesky((a + a.T) / 2), S),
    "det": (lambda m, a: m.det(a), A),
}


@pytest.mark.parametrize("name", JAX)
def test_like_jax(name: str) -> None:
    f, *args = JAX[name]
    directions = [[random_like(rng, a) for a in args] for _ in range(2 if name == "expm" else 3)]

    def nested(jvp, module):
        g, found = (lambda *xs: f(module, *xs)), []
        for t in directions:
            g = (lambda g, t: lambda *xs: jvp(g, xs, tuple(t))[1])(g, t)
            found.append(g)
        return found

    expected = jax.jit(lambda *xs: [g(*xs) for g in nested(jax.jvp, jax.scipy.linalg)])(*args)
    for order, (g, value) in enumerate(zip(nested(da.jvp, ours), expected, strict=True), 1):
        close(
            [np.asarray(x) for x in leaves(g(*args))],
            [np.asarray(x) for x in leaves(value)],
            f"{name}^{order}",
            rtol=1e-7,
        )

    def total(module, sin):
        return lambda *xs: sum(sin(x).sum() for x in leaves(f(module, *xs)))

    positions = tuple(range(len(args)))
    expected = jax.jit(jax.grad(total(jax.scipy.linalg, jnp.sin), positions))(*args)
    close(list(da.grad(total(ours, np.sin), positions)(*args)), [np.asarray(x) for x in expected], name, rtol=1e-8)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (ours.logm, S), (ours.sqrtm, S), (ours.sqrtm, Z), (ours.cosm, 0.3 * A),
        (lambda a: ours.eigh(a, S)[1] ** 2, A + A.T), (lambda t: ours.fractional_matrix_power(S, t), np.array(0.3)),
        (ours.signm, np.diag([1.0, -2.0, 3.0]) + 0.2 * A), (lambda a: ours.solve_discrete_lyapunov(a, S), 0.2 * A),
        (ours.pinvh, S), (lambda a: ours.lu_factor(a)[0], WIDE),
    ],
)  # fmt: skip
def test_third_order_by_differences(f, x) -> None:
    t = random_like(rng, x)
    order = [f]
    for _ in range(3):
        order.append((lambda g: lambda x: da.jvp(g, (x,), (t,))[1])(order[-1]))
    for n in range(3):
        differences.compare(order[n + 1](x), differences.along(order[n], (x,), (t,)), f"order {n + 1}")


def test_hessians_of_reverse_over_reverse_are_symmetric() -> None:
    h = da.jacrev(da.jacrev(lambda a: np.sum(np.sin(ours.expm(a)))))(0.3 * A)
    np.testing.assert_allclose(h, np.transpose(h, (2, 3, 0, 1)), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(h, da.hessian(lambda a: np.sum(np.sin(ours.expm(a))))(0.3 * A), rtol=1e-9, atol=1e-11)


# ── special points ───────────────────────────────────────────────────────────────────────────────────────────────


def test_defective_matrices_and_repeated_eigenvalues() -> None:
    jordan = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]])
    for f in (ours.expm, ours.logm, ours.sqrtm):
        for x in (jordan, 2 * np.eye(3)):
            t = random_like(rng, x)
            step = 1e-5
            # Differences leave the real axis, where these functions are analytic.
            expected = np.imag(f(x + 1j * step * t)) / step
            np.testing.assert_allclose(da.jvp(f, (x,), (t,))[1], expected, rtol=1e-7, atol=1e-9)


def test_polar_of_an_orthogonal_matrix() -> None:
    """All singular values coincide; around the unit matrix U is exp of the skew part, P of the symmetric part."""
    t = random_like(rng, A)
    _, (u, p) = da.jvp(ours.polar, (np.eye(3),), (t,))
    np.testing.assert_allclose(u, (t - t.T) / 2, atol=1e-12)
    np.testing.assert_allclose(p, (t + t.T) / 2, atol=1e-12)


def test_expm_at_zero_and_far_directions() -> None:
    t = random_like(rng, A)
    np.testing.assert_allclose(da.jvp(ours.expm, (np.zeros((3, 3)),), (t,))[1], t, rtol=1e-14)
    far = da.jvp(ours.expm, (0.3 * A,), (1e12 * t,))[1]
    np.testing.assert_allclose(far, 1e12 * da.jvp(ours.expm, (0.3 * A,), (t,))[1], rtol=1e-13)


def test_only_the_triangle_that_is_read_has_a_gradient() -> None:
    for lower in (False, True):
        g = da.grad(lambda a, lower=lower: ours.solve_triangular(a, V, lower=lower).sum())(A)
        assert np.all(np.triu(g, 1) == 0) if lower else np.all(np.tril(g, -1) == 0)
        g = da.grad(lambda a, lower=lower: ours.cholesky(a, lower=lower).sum())(S)
        assert np.all(np.triu(g, 1) == 0) if lower else np.all(np.tril(g, -1) == 0)
        assert np.any(g)


def test_a_program_of_a_real_matrix_whose_function_is_complex_says_so() -> None:
    rotated = np.array([[-1.0, 0.0], [0.0, 2.0]])
    for f in (ours.logm, ours.sqrtm):
        assert np.iscomplexobj(f(rotated))
        with pytest.raises(DtypeError, match=r"\+ 0j"):
            da.trace(f, np.eye(2))(rotated)
        value, _ = da.jvp(f, (rotated + 0j,), (np.eye(2) + 0j,))
        np.testing.assert_allclose(value, f(rotated))


def test_singular_sylvester_equation() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="common"):
        da.jvp(lambda q: ours.solve_sylvester(np.eye(2), -np.eye(2), q), (np.eye(2),), (np.eye(2),))


def test_permutation_matrices_of_lu() -> None:
    p, lower, upper = da.jvp(ours.lu, (STACK,), (STACK,))[0]
    np.testing.assert_array_equal(p, ours.lu(STACK)[0])
    np.testing.assert_allclose(p @ lower @ upper, STACK, rtol=1e-12)
    indices, *_ = da.vmap(lambda a: ours.lu(a, p_indices=True))(STACK)
    np.testing.assert_array_equal(indices, ours.lu(STACK, p_indices=True)[0])


def test_lu_with_two_levels_of_batches() -> None:
    a = rng.normal(size=(2, 3, 4, 4))
    b = rng.normal(size=(2, 3, 4))
    found = da.vmap(da.vmap(lambda a, b: ours.lu_solve(ours.lu_factor(a), b)))(a, b)
    np.testing.assert_allclose(found, np.linalg.solve(a, b[..., None])[..., 0], rtol=1e-10)


def test_generalized_eigenvectors_have_scipys_signs() -> None:
    for a, b in ((A + A.T, S), (Z + Z.conj().T, H)):
        value, _ = da.jvp(lambda a, b: ours.eigh(a, b), (a, b), (a, b))
        close(leaves(value), leaves(sl.eigh(a, b)), "eigh(a, b)")


# ── names, signatures, refusals ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", sorted(set(ours.__all__) - {"kron"}))
def test_parameters_are_scipys(name: str) -> None:
    mine = inspect.signature(getattr(ours, name)).parameters
    theirs = inspect.signature(getattr(sl, name)).parameters
    assert set(theirs) <= set(mine)
    positional = [n for n, p in theirs.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert list(mine)[: len(positional)] == positional


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (ours.null_space, "pinv"), (ours.orth, "pinv"), (ours.schur, "eigh"), (ours.matrix_balance, "outside"),
        (ours.hessenberg, "eigh"), (ours.ldl, "lu"), (lambda a: ours.qz(a, a), "eigvals"),
        (lambda a: ours.eig(a, left=True), "inv"), (lambda a: ours.qr(a, mode="raw"), "economic"),
        (lambda a: ours.eigh(a, subset_by_value=[0, 1]), "subset_by_index"), (lambda a: ours.funm(a, np.sin), "expm"),
        (lambda a: ours.solve_circulant(a[0], a[1], singular="lstsq"), "lstsq"),
    ],
)  # fmt: skip
def test_refusals_name_what_to_write(f, instead: str) -> None:
    with pytest.raises(UnsupportedError, match=instead):
        da.jvp(f, (A,), (A,))


@pytest.mark.parametrize("pivoting", [False, True])
def test_full_qr_and_svd(pivoting) -> None:
    """Q's further columns span what the first ones leave: the projector onto it is that of the pseudoinverse."""
    t = np.cos(np.arange(TALL.size)).reshape(TALL.shape)
    n = TALL.shape[1]

    def rest(q):
        return q[:, n:] @ q[:, n:].T

    wanted = da.jvp(lambda a: np.eye(len(a)) - a @ np.linalg.pinv(a), (TALL,), (t,))
    for f in (lambda a: rest(ours.qr(a, pivoting=pivoting)[0]), lambda a: rest(ours.svd(a)[0])):
        close(da.jvp(f, (TALL,), (t,)), wanted, "projector")
    (q, r, *_), (tq, tr, *_) = da.jvp(lambda a: ours.qr(a, pivoting=pivoting), (TALL,), (t,))
    close([q, r], list(sl.qr(TALL, pivoting=pivoting))[:2], "qr")
    order = sl.qr(TALL, pivoting=True)[2] if pivoting else np.arange(n)
    close(tq @ r + q @ tr, t[:, order], "product rule")


def test_plain_arrays_are_scipys_business() -> None:
    for name in ("null_space", "schur", "hessenberg", "matrix_balance"):
        close(leaves(getattr(ours, name)(A)), leaves(getattr(sl, name)(A)), name)
    assert ours.dft(3).shape == (3, 3)
    assert ours.LinAlgError is np.linalg.LinAlgError
    with pytest.raises(AttributeError):
        _ = ours.no_such_name


def test_lists_that_hold_tensors() -> None:
    def f(x):
        return ours.det([[x[0], x[1]], [1.0, x[2]]]), ours.block_diag([x[0], 2.0], x)

    (d, m), (td, tm) = da.jvp(f, (V,), (np.ones(3),))
    assert d == pytest.approx(V[0] * V[2] - V[1])
    assert td == pytest.approx(V[0] + V[2] - 1)
    np.testing.assert_array_equal(tm, [[1, 0, 0, 0, 0], [0, 0, 1, 1, 1]])
    np.testing.assert_array_equal(m, sl.block_diag([V[0], 2.0], V))


def test_single_precision_stays() -> None:
    a, s, v = (x.astype(np.float32) for x in (A, S, V))
    for f in (ours.expm, ours.sqrtm, ours.logm, ours.cosm, ours.polar, ours.lu, ours.cholesky, ours.toeplitz, ours.inv):
        value, tangent = da.jvp(f, (s,), (a,))
        assert {x.dtype for x in leaves(value)} == {np.dtype(np.float32)}, f
        assert {x.dtype for x in leaves(tangent) if x.dtype.kind == "f"} == {np.dtype(np.float32)}, f
    assert da.jvp(ours.solve_triangular, (a, v), (a, v))[1].dtype == np.float32


# ── Riccati's equations ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (3, 2)])
def test_riccati(name: str, n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    f, g = getattr(ours, name), getattr(sl, name)
    a, b = rng.normal(size=(n, n)), rng.normal(size=(n, m))
    q, r = [(lambda x: x @ x.T + np.eye(k))(rng.normal(size=(k, k))) for k in (n, m)]
    e, s = np.eye(n) + 0.1 * rng.normal(size=(n, n)), 0.1 * rng.normal(size=(n, m))
    even = lambda x: 0.5 * (x + x.T)  # SciPy refuses weights that are not symmetric
    whole = lambda f: lambda a, b, q, r: f(a, b, even(q), even(r))
    agrees(whole(f), whole(g), a, b, q, r, order=2, near=1e-4, rtol=1e-8)
    general = lambda f: lambda a, b, e, s: f(a, b, q, r, e, s, balanced=False)  # with which SciPy 1.17 forgets e
    agrees(general(f), general(g), a, b, e, s, near=1e-4, rtol=1e-8)
    agrees(lambda a: f(a, b, q, r, s=s), lambda a: g(a, b, q, r, s=s), a, order=3, near=1e-4, rtol=1e-8)


def test_riccati_of_complex_matrices() -> None:
    rng = np.random.default_rng(5)
    a, b = [rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((3, 3), (3, 2))]
    change = rng.normal(size=(3, 3))
    for name in ("solve_continuous_are", "solve_discrete_are"):
        f = lambda t: getattr(ours, name)(a + t * change, b, np.eye(3), np.eye(2))
        g = lambda t: getattr(sl, name)(a + t * change, b, np.eye(3), np.eye(2))
        value, slope = da.jvp(f, (0j,), (1 + 0j,))
        np.testing.assert_allclose(value, g(0.0), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(slope, (g(1e-6) - g(-1e-6)) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64])
def test_small_triangular_systems(dtype) -> None:
    """Three hundred of up to five rows: SciPy's values, dtypes and refusals, of traced and of stacked systems."""
    rng = generator("triangular", dtype.__name__)
    for case in range(300):
        n, k, lower, unit = case % 6, int(rng.integers(0, 4)), bool(rng.integers(2)), bool(rng.integers(2))
        a = np.round(4 * rng.normal(size=(2, n, n)) + (2j if dtype is np.complex128 else 0), 1)
        a = (a + np.where(a.real < 0, -1, 1) * np.eye(n)).astype(dtype)
        b = rng.normal(size=(2, n, k)).astype(dtype if case % 2 else np.float64)
        singular = case % 17 == 0 and n and k and not unit
        a[:, n // 2 : n // 2 + 1] = 0 if singular else a[:, n // 2 : n // 2 + 1]
        solve = lambda a, b, lib=ours, lower=lower, unit=unit: lib.solve_triangular(
            a, b, lower=lower, unit_diagonal=unit
        )
        if singular:
            with pytest.raises(np.linalg.LinAlgError, match="singular"):
                da.vmap(solve)(a, b)
            continue
        expected = np.array([solve(*pair, lib=sl) for pair in zip(a, b, strict=True)])
        rtol = 1e-3 if dtype is np.float32 else 1e-9
        found = [da.vmap(solve)(a, b)]
        if b.dtype.kind != "i":
            found.append(np.array([da.jvp(lambda b, a=a, solve=solve: solve(a[0], b), (b[0],), (b[0],))[1]]))
        for each in found:
            np.testing.assert_allclose(each, expected[: len(each)], rtol=rtol, atol=rtol)
            assert each.dtype == expected.dtype
