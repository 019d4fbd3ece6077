"""Propagation of uncertainty against formulae, a direct J C Jᵀ, sampling, and itself under every transform."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, DtypeError, OutputError, ShapeError, TreeError

rng = np.random.default_rng(5)
ROOT = rng.normal(size=(4, 4))
COV = ROOT @ ROOT.T / 50
X = np.array([1.0, 2.0, 0.5, 1.5])


def f(x):
    return np.stack([x[0] * x[1], np.sin(x[2]) / x[3], np.sum(np.exp(x) * x[0])])


def expected(g, x, cov):
    jacobian = da.jacrev(g)(x)
    return jacobian @ cov @ jacobian.T


@pytest.mark.parametrize(
    ("g", "variance"),
    [  # the formulae of every laboratory course
        (lambda m: m["a"] + m["b"], lambda a, b, s, t: s**2 + t**2),
        (lambda m: m["a"] * m["b"], lambda a, b, s, t: (b * s) ** 2 + (a * t) ** 2),
        (lambda m: m["a"] / m["b"], lambda a, b, s, t: (a / b) ** 2 * ((s / a) ** 2 + (t / b) ** 2)),
        (lambda m: m["a"] ** 3, lambda a, b, s, t: (3 * a**2 * s) ** 2),
        (lambda m: m["a"] ** m["b"], lambda a, b, s, t: a ** (2 * b) * ((b * s / a) ** 2 + (np.log(a) * t) ** 2)),
        (lambda m: np.log(m["a"]), lambda a, b, s, t: (s / a) ** 2),
        (lambda m: np.hypot(m["a"], m["b"]), lambda a, b, s, t: ((a * s) ** 2 + (b * t) ** 2) / (a * a + b * b)),
    ],
)
def test_formulae(g, variance) -> None:
    a, b, s, t = 2.0, 3.0, 0.1, 0.2
    out = da.propagate(g, {"a": a, "b": b}, std={"a": s, "b": t})
    assert float(out.mean) == float(g({"a": a, "b": b}))
    np.testing.assert_allclose(out.cov, variance(a, b, s, t), rtol=1e-14)
    np.testing.assert_allclose(out.std, np.sqrt(variance(a, b, s, t)), rtol=1e-14)


def test_correlations_cancel_and_add() -> None:
    """x - x has no uncertainty, whatever that of x is; of two variables it depends on their correlation."""
    assert float(da.propagate(lambda x: x - x, 3.0, std=0.5).std) == 0.0
    minus = lambda m: m["a"] - m["b"]
    for r, variance in ((0.0, 0.25), (1.0, 0.01), (-1.0, 0.49)):
        out = da.propagate(minus, {"a": 5.0, "b": 1.0}, std={"a": 0.3, "b": 0.4}, corr=[[1.0, r], [r, 1.0]])
        np.testing.assert_allclose(out.cov, variance, rtol=1e-13)


def test_covariance_of_a_vector() -> None:
    out = da.propagate(f, X, COV)
    np.testing.assert_array_equal(out.mean, f(X))
    np.testing.assert_allclose(out.cov, expected(f, X, COV), rtol=1e-12)
    np.testing.assert_allclose(out.std, np.sqrt(np.diagonal(out.cov)), rtol=1e-12)
    assert da.propagate(f, X, COV, full=False).cov is None
    for chunk_size in (1, 3):
        np.testing.assert_allclose(da.propagate(f, X, COV, chunk_size=chunk_size).cov, out.cov, rtol=1e-12)


def test_against_samples() -> None:
    small = COV / 400
    samples = np.random.default_rng(0).multivariate_normal(X, small, size=40_000)
    found = np.cov(np.stack([f(x) for x in samples[:20_000]]), rowvar=False)
    out = da.propagate(f, X, small)
    np.testing.assert_allclose(out.cov, found, rtol=0.06, atol=0.02 * np.abs(found).max())


def test_second_order_mean_against_samples_and_formula() -> None:
    out = da.propagate(np.exp, 1.0, std=0.3, second_order=True)
    np.testing.assert_allclose(out.mean, np.e * (1 + 0.3**2 / 2), rtol=1e-14)
    quadratic = lambda x: x @ (ROOT @ x)
    np.testing.assert_allclose(
        da.propagate(quadratic, X, COV, second_order=True).mean, quadratic(X) + np.trace(ROOT @ COV), rtol=1e-12
    )
    both = {"a": 2.0, "b": np.array([1.0, 3.0])}
    sigma = {"a": 0.1, "b": np.array([0.2, 0.3])}
    product = lambda m: m["a"] * np.prod(m["b"])
    corr = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]])
    exact = 6.0 + 0.5 * 0.1 * 0.2 * 3 + 0.2 * 0.2 * 0.3 * 2
    for shares in (False, True):
        out = da.propagate(product, both, std=sigma, corr=corr, second_order=True, contributions=shares)
        np.testing.assert_allclose(out.mean, exact, rtol=1e-13)


def test_trees_in_and_out() -> None:
    def g(m):
        return {"area": m["r"] ** 2 * np.pi, "sides": (m["v"] * m["r"], np.sum(m["v"]))}

    mean = {"r": 2.0, "v": np.array([1.0, 3.0]), "unit": "cm"}
    cov = COV[:3, :3]
    out = da.propagate(g, mean, cov, contributions=True)
    flat = lambda x: np.concatenate([[x[0] ** 2 * np.pi], x[1:] * x[0], [np.sum(x[1:])]])
    whole = expected(flat, np.array([2.0, 1.0, 3.0]), cov)
    np.testing.assert_allclose(out.cov["area"]["area"], whole[0, 0], rtol=1e-12)
    np.testing.assert_allclose(out.cov["area"]["sides"][0], whole[0, 1:3], rtol=1e-12)
    np.testing.assert_allclose(out.cov["sides"][0]["sides"][0], whole[1:3, 1:3], rtol=1e-12)
    np.testing.assert_allclose(out.cov["sides"][1]["area"], whole[3, 0], rtol=1e-12)
    assert out.std["sides"][0].shape == (2,) and out.contributions["sides"][0]["v"].shape == (2, 2)
    assert out.contributions["area"]["unit"] is None


def test_contributions_add_up_to_the_variance() -> None:
    independent = da.propagate(f, X, std=np.sqrt(np.diagonal(COV)), contributions=True)
    jacobian = da.jacfwd(f)(X)
    np.testing.assert_allclose(independent.contributions, jacobian**2 * np.diagonal(COV), rtol=1e-12)
    for options in ({"cov": COV}, {"std": np.full(4, 0.2), "corr": np.eye(4) * 0.5 + 0.5}):
        out = da.propagate(f, X, **options, contributions=True)
        np.testing.assert_allclose(out.contributions.sum(axis=1), out.std**2, rtol=1e-12)
        np.testing.assert_allclose(out.cov, da.propagate(f, X, **options).cov, rtol=1e-11)


def test_a_singular_covariance_takes_as_many_tangents_as_its_rank() -> None:
    lanes = []

    def watched(x):
        lanes.append(x)
        return f(x)

    low = np.outer(X, X) / 100
    with da.profile() as p:
        out = da.propagate(watched, X, low)
    assert len(lanes) == 1, "the function runs once"
    assert {e.lanes for e in p.events if e.phase == "batched"} == {1}
    np.testing.assert_allclose(out.cov, expected(f, X, low), rtol=1e-11, atol=1e-14)
    np.testing.assert_array_equal(da.propagate(f, X, np.zeros((4, 4))).cov, np.zeros((3, 3)))


def test_dtypes_are_kept() -> None:
    out = da.propagate(f, X.astype(np.float32), COV.astype(np.float32), second_order=True, contributions=True)
    assert {leaf.dtype for leaf in out} == {np.dtype(np.float32)}
    np.testing.assert_allclose(out.cov, da.propagate(f, X, COV).cov, rtol=1e-4)


def test_under_vmap() -> None:
    points = np.stack([X, X + 0.1, 2 * X])
    covs = np.stack([COV, 2 * COV, np.diag(np.diagonal(COV))])
    together = da.vmap(lambda x: da.propagate(f, x, COV))(points)
    both = da.vmap(lambda x, c: da.propagate(f, x, c, second_order=True))(points, covs)
    deviations = da.vmap(lambda x, s: da.propagate(f, x, std=s).cov)(points, points / 10)
    for i in range(3):
        np.testing.assert_allclose(together.cov[i], da.propagate(f, points[i], COV).cov, rtol=1e-11)
        alone = da.propagate(f, points[i], covs[i], second_order=True)
        np.testing.assert_allclose(both.cov[i], alone.cov, rtol=1e-11)
        np.testing.assert_allclose(both.mean[i], alone.mean, rtol=1e-11)
        np.testing.assert_allclose(deviations[i], da.propagate(f, points[i], std=points[i] / 10).cov, rtol=1e-11)


def test_derivatives() -> None:
    """The variance's derivative in the mean, in the covariance and in the deviations, against central differences."""
    variance = lambda x: da.propagate(f, x, COV).cov[2, 2]
    direction, h = rng.normal(size=4), 1e-5
    slope = (variance(X + h * direction) - variance(X - h * direction)) / (2 * h)
    np.testing.assert_allclose(da.grad(variance)(X) @ direction, slope, rtol=1e-7)
    np.testing.assert_allclose(da.jvp(variance, (X,), (direction,))[1], slope, rtol=1e-7)
    row = da.jacfwd(f)(X)[2]
    np.testing.assert_allclose(da.grad(lambda c: da.propagate(f, X, c).cov[2, 2])(COV), np.outer(row, row), rtol=1e-12)
    sigma = np.full(4, 0.1)
    by_deviation = da.grad(lambda s: da.propagate(f, X, std=s).std[2])(sigma)
    np.testing.assert_allclose(by_deviation, row**2 * sigma / np.sqrt(np.sum((row * sigma) ** 2)), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ArgumentError, "neither"),
        ({"cov": np.eye(4), "std": X}, ArgumentError, "both"),
        ({"cov": np.eye(4), "corr": np.eye(4)}, ArgumentError, "cov and corr"),
        ({"cov": np.eye(3)}, ShapeError, "a row and a column"),
        ({"cov": X}, ShapeError, "std="),
        ({"cov": [[1.0, 2.0], [3.0]]}, ShapeError, "cov is a list of rows that are not of one length"),
        ({"std": X, "corr": [[1.0, 2.0], [3.0]]}, ShapeError, "corr is a list"),
        ({"cov": np.triu(np.ones((4, 4)))}, ArgumentError, "not symmetric"),
        ({"cov": np.diag([1.0, 1.0, 1.0, -1e-3])}, ArgumentError, "negative eigenvalue"),
        ({"cov": np.diag([1.0, 1.0, np.nan, 1.0])}, ArgumentError, "not finite"),
        ({"cov": np.eye(4) * 1j}, DtypeError, "real"),
        ({"std": -X}, ArgumentError, "negative"),
        ({"std": np.ones(3)}, ShapeError, "broadcast"),
        ({"std": {"a": X}}, TreeError, "std"),
        ({"std": X, "corr": np.eye(4) * 2}, ArgumentError, "diagonal"),
        ({"std": X, "corr": np.eye(4) * 4 - 3}, ArgumentError, "negative eigenvalue"),
    ],
)
def test_refusals(options, error, words) -> None:
    with pytest.raises(error, match=words):
        da.propagate(f, X, **options)


def test_numbers_in_an_object_array_are_numbers() -> None:
    found, wanted = da.propagate(f, X.astype(object), COV), da.propagate(f, X, COV)
    assert found.mean.dtype == found.cov.dtype == float
    np.testing.assert_array_equal(found.cov, wanted.cov)


def test_refusals_of_what_is_not_real() -> None:
    with pytest.raises(DtypeError, match="real and imaginary"):
        da.propagate(f, X + 0j, COV)
    with pytest.raises(DtypeError):
        da.propagate(lambda x: x, 3, std=1.0)
    with pytest.raises(OutputError, match="floats"):
        da.propagate(lambda x: np.sign(x).astype(int), X, COV)
