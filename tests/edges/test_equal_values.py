"""Functions of repeated eigenvalues and singular values that do not depend on the basis, at every order.

Oracles: powers of matrices, written as products. Not for: first derivatives of eigenvalues (``tests/ops``).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da

exact = da.at_equal_values
B = np.random.default_rng(0).normal(size=(3, 3))
Q = np.linalg.qr(B)[0]
POINTS = {"I": np.eye(3), "two of three": Q @ np.diag([2.0, 2.0, 5.0]) @ Q.T, "large": 1e5 * np.eye(3)}


def symmetric(f):
    return lambda a: f((a + a.T) / 2)


def by_vectors(g):
    def f(a):
        w, v = np.linalg.eigh(a)
        return np.sum((v * g(w)) @ v.T * B)

    return symmetric(f)


def polar(a):
    u, _, vh = np.linalg.svd(a)
    return np.sum((u @ vh) * B)


PAIRS = {
    "trace of a power": (
        symmetric(lambda a: np.sum(np.linalg.eigvalsh(a) ** 3)), symmetric(lambda a: np.trace(a @ a @ a))
    ),
    "power": (by_vectors(lambda w: w**3), symmetric(lambda a: np.sum((a @ a @ a) * B))),
    "inverse": (by_vectors(lambda w: 1 / w), symmetric(lambda a: np.sum(np.linalg.inv(a) * B))),
    "product of traces": (
        symmetric(lambda a: np.sum(np.linalg.eigh(a)[0]) * np.sum(np.linalg.eigvalsh(a) ** 2)),
        symmetric(lambda a: np.trace(a) * np.trace(a @ a)),
    ),
    "nuclear norm squared": (
        lambda a: np.sum(np.linalg.svd(a, compute_uv=False)) ** 2, lambda a: np.linalg.norm(a, "nuc") ** 2
    ),
    "singular values": (lambda a: np.sum(np.linalg.svd(a)[1] ** 4), lambda a: np.trace(a.T @ a @ a.T @ a)),
    "polar factor": (polar, lambda a: np.sum(a @ by_newton(a.T @ a) * B)),
    "general": (lambda a: np.real(np.sum(np.linalg.eigvals(a) ** 3)), lambda a: np.trace(a @ a @ a)),
}  # fmt: skip


def by_newton(a):
    """Return a⁻¹ᐟ² of a positive matrix, by the coupled iteration of Denman and Beavers."""
    y, z = a / np.trace(a), np.eye(3)
    for _ in range(60):
        y, z = 0.5 * (y + np.linalg.inv(z)), 0.5 * (z + np.linalg.inv(y))
    return z / np.sqrt(np.trace(a))


def close(got, expected, rtol):
    assert np.isfinite(got).all() and np.abs(got - expected).max() <= rtol * np.abs(expected).max()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("pair", PAIRS)
def test_first_and_second_derivatives(pair, point):
    f, reference = PAIRS[pair]
    a = POINTS[point]
    close(exact(da.grad(f))(a), da.grad(reference)(a), 1e-10)
    close(exact(da.hessian(f))(a), da.hessian(reference)(a), 1e-8)


def test_every_way_to_the_second_derivative():
    f, reference = PAIRS["trace of a power"]
    a = np.eye(3)
    expected = da.hessian(reference)(a)
    for second in (
        da.jacfwd(da.jacfwd(f)), da.jacrev(da.jacrev(f)), da.jacrev(da.grad(f)), da.hessian(da.checkpoint(f)),
        lambda a: da.value_and_hessian(f)(a)[1], lambda a: da.vmap(da.hessian(f))(np.stack([a, B]))[0],
    ):  # fmt: skip
        close(exact(second)(a), expected, 1e-9)
    along = np.einsum("ijkl,kl", expected, B)
    close(exact(da.hvp)(f, a, B), along, 1e-9)
    close(exact(da.jvp)(da.grad(f), (a,), (B,))[1], along, 1e-9)
    close(exact(da.vmap(da.hessian(f)))(np.stack([a, B @ B]))[1], da.hessian(reference)(B @ B), 1e-9)


def test_third_derivatives_complex_matrices_and_single_precision():
    f, reference = PAIRS["trace of a power"]
    close(exact(da.jacfwd(da.hessian(f)))(np.eye(3)), da.jacfwd(da.hessian(reference))(np.eye(3)), 1e-8)
    single = np.eye(3, dtype=np.float32)
    assert exact(da.hessian(f))(single).dtype == np.float32
    close(exact(da.hessian(f))(single), da.hessian(reference)(single), 1e-3)

    def hermitian(parts):
        h = parts[0] + 1j * parts[1]
        return h + np.conj(h.T)

    point = np.stack([np.eye(2), np.zeros((2, 2))])
    close(
        exact(da.hessian(lambda x: np.sum(np.linalg.eigvalsh(hermitian(x)) ** 3)))(point),
        da.hessian(lambda x: np.real(np.trace(hermitian(x) @ hermitian(x) @ hermitian(x))))(point),
        1e-9,
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.linalg.eigvalsh(a)[-1] ** 2, lambda a: np.sum(np.linalg.eigvalsh(a) * np.arange(3)),
        lambda a: np.linalg.eigh(a)[1][0, -1] ** 2, lambda a: np.sum(np.linalg.eigh(a)[1]),
        lambda a: np.max(np.linalg.eigvalsh(a)), lambda a: np.sum(np.linalg.svd(a)[0] * B),
        lambda a: np.ptp(np.linalg.eigvalsh(a)),
    ],
)  # fmt: skip
def test_what_depends_on_the_basis_has_no_numbers(f):
    second = exact(da.hessian(symmetric(f)))(Q @ np.diag([5.0, 5.0, 2.0]) @ Q.T)
    assert np.isnan(second).all()


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_sizes_do_not_matter(scale):
    """Neither for what has a limit, near values of zero too, nor for what has none."""
    largest = symmetric(lambda a: np.linalg.eigvalsh(a)[-1] ** 2)
    assert np.isnan(exact(da.hvp)(largest, scale * Q @ np.diag([5.0, 5.0, 2.0]) @ Q.T, B)).all()
    f, reference = PAIRS["singular values"]
    for values in ([2.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 2.0, 1e-5]):
        a = scale * Q @ np.diag(values) @ Q.T
        got, expected = exact(da.hvp)(f, a, B), da.hvp(reference, a, B)
        assert np.isfinite(got).all() and np.abs(got - expected).max() <= 1e-7 * max(np.abs(expected).max(), scale**2)


def test_not_a_number_for_other_reasons_stays():
    def f(a):
        return np.sum(np.linalg.eigvalsh(a) ** 2) + np.sum(np.sqrt(a - 5.0))

    with np.errstate(all="ignore"):
        assert np.isnan(exact(da.hessian(symmetric(f)))(np.eye(3))).any()


def _agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    w = rng.choice([0.5, 1.0, 2.0, -1.5, 3.0], size=n)
    w[:2] = w[0]
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    a = (q * w) @ q.T * 10.0 ** rng.integers(-3, 4)
    weights = rng.normal(size=(n, n))
    power = lambda a: np.linalg.matrix_power(a, p)

    def by_eigh(a):
        w, v = np.linalg.eigh(a)
        return np.sum(v @ np.diag(w**p) @ v.T * weights)

    pairs = [
        (lambda a: np.sum(np.linalg.eigvalsh(a) ** p), lambda a: np.trace(power(a))),
        (by_eigh, lambda a: np.sum(power(a) * weights)),
        (lambda a: np.sum(np.linalg.svd(a)[1] ** (2 * p)), lambda a: np.trace(power(a.T @ a))),
    ]
    f, reference = pairs[seed % 3]
    close(exact(da.hessian(symmetric(f)))(a), da.hessian(symmetric(reference))(a), 1e-7)


@pytest.mark.parametrize("seed", range(9))
def test_random_matrices(seed):
    _agrees(seed)


@pytest.mark.full
def test_many_random_matrices():
    for seed in range(9, 600):
        _agrees(seed)


def test_a_small_entry_without_a_limit_casts_doubt_on_large_ones():
    smooth, _ = PAIRS["trace of a power"]
    largest = symmetric(lambda a: np.linalg.eigvalsh(a)[-1] ** 2)
    a = Q @ np.diag([5.0, 5.0, 2.0]) @ Q.T
    pair = np.stack([a, a])
    assert np.isfinite(exact(da.hvp)(lambda p: 1e3 * smooth(p[0]) + smooth(p[1]), pair, np.stack([B, B]))).all()
    assert np.isnan(exact(da.hvp)(lambda p: 1e3 * smooth(p[0]) + largest(p[1]), pair, np.stack([B, B]))).any()
