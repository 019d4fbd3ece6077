"""Distributions of vectors: normal, Dirichlet, multinomial.

Not for: distributions of numbers (``formulas.py``).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special._ufuncs as sp
import scipy.stats as st

from ...jvp import stop_gradient
from ...ops.triangular import triangular_solve
from ..mirror import known_value
from .distribution import Mirror, double

__all__ = ["dirichlet", "multinomial", "multivariate_normal"]


class _Multivariate(Mirror):
    """A distribution of vectors: SciPy's, but for the methods given."""

    def __init__(self, name: str, **methods: Callable) -> None:
        self._own, self._methods = methods, frozenset(methods) - {"cov", "entropy", "mean", "var"}
        self._stand_for(getattr(st, name), name, frozenset(methods))

    def _run(self, name: str, args: tuple, kwargs: dict) -> Any:
        bound = inspect.signature(self._own[name]).bind(*args, **kwargs)
        bound.apply_defaults()
        return self._own[name](**bound.arguments)


# ── normal ───────────────────────────────────────────────────────────────────────────────────────────────────────
#
# With Σ = L Lᵀ: −½ |L⁻¹(x − μ)|² − Σ log Lᵢᵢ − ½ n log 2π. Where Σ may be singular, Σ⁺ stands for Σ⁻¹ and, for the
# determinant, the product of the eigenvalues that are not zero, det(Σ + 1 − Σ Σ⁺). Their derivatives are along
# perturbations that keep the rank, of every order; the density is on the affine space that Σ spans, and zero off it.


def _normal_parameters(mean, cov):
    """Return a vector, a matrix and their size, of all that SciPy takes for them."""
    if isinstance(cov, st.Covariance):
        cov = cov.covariance
    mean = None if mean is None else double(mean)
    cov = double(1.0 if cov is None else cov)
    if mean is None:
        dim = 1 if np.ndim(cov) < 2 else cov.shape[0]
        mean = np.zeros(dim)
    mean = mean.reshape((-1,)) if np.ndim(mean) == 0 else mean
    if np.ndim(mean) != 1:
        raise ValueError(f"Array 'mean' must be a vector of length {np.size(mean)}.")
    dim = mean.shape[0]
    if np.ndim(cov) == 0:
        cov = cov * np.eye(dim)
    elif np.ndim(cov) == 1:
        cov = cov.reshape((1, 1)) if dim == 1 else np.diag(cov)
    if cov.shape != (dim, dim):
        raise ValueError(f"Dimension mismatch: array 'cov' is of shape {cov.shape}, but 'mean' has length {dim}.")
    return mean, cov, dim


def _pseudo_inverse(cov):
    """Return Σ⁺, the projector onto what Σ does not reach, SciPy's cutoff of eigenvalues and the rank."""
    relative = 1e6 * float(np.finfo(np.float64).eps)
    inverse = np.linalg.pinv(cov, relative, hermitian=True)
    off = np.eye(cov.shape[-1]) - cov @ inverse
    cutoff = relative * np.max(np.linalg.svdvals(stop_gradient(cov)), axis=-1, initial=0)
    return inverse, off, cutoff, cov.shape[-1] - np.round(stop_gradient(np.trace(off)))


def _normal_entropy(mean=None, cov=1, allow_singular=True):
    _, cov, _ = _normal_parameters(mean, cov)
    _, off, _, rank = _pseudo_inverse(cov)
    return 0.5 * (rank * (math.log(2 * math.pi) + 1) + np.linalg.slogdet(cov + off)[1])


def _normal_logpdf(x, mean=None, cov=1, allow_singular=False):
    mean, cov, dim = _normal_parameters(mean, cov)
    x = double(x)
    x = x.reshape((1,)) if np.ndim(x) == 0 else x
    if np.ndim(x) == 1:
        x = x.reshape((-1, 1) if dim == 1 else (1, -1))
    deviation = x - mean
    if allow_singular:
        inverse, off, cutoff, rank = _pseudo_inverse(cov)
        square = np.einsum("...i,ij,...j->...", deviation, inverse, deviation)
        out = -0.5 * (square + rank * math.log(2 * math.pi) + np.linalg.slogdet(cov + off)[1])
        residual = np.linalg.norm(stop_gradient(deviation) @ stop_gradient(off), axis=-1)
        return np.squeeze(np.where(residual <= cutoff, out, -math.inf))
    root = np.linalg.cholesky(cov)
    rows = deviation.reshape((-1, dim))
    whitened = triangular_solve(root, rows.T, lower=True, unit=False)
    out = -0.5 * (whitened * whitened).sum(0) - np.log(np.diagonal(root)).sum() - 0.5 * dim * math.log(2 * math.pi)
    return np.squeeze(out.reshape(deviation.shape[:-1]))


multivariate_normal = _Multivariate(
    "multivariate_normal",
    entropy=_normal_entropy,
    logpdf=_normal_logpdf,
    pdf=lambda x, mean=None, cov=1, allow_singular=False: np.exp(_normal_logpdf(x, mean, cov, allow_singular)),
)


# ── Dirichlet ────────────────────────────────────────────────────────────────────────────────────────────────────


def _dirichlet_logpdf(x, alpha):
    x, (alpha, total) = double(x), _concentrations(alpha)
    if x.shape[0] + 1 == alpha.shape[0]:
        x = np.concatenate([x, 1.0 - x.sum(0, keepdims=True)])
    elif x.shape[0] != alpha.shape[0]:
        raise ValueError(
            "Vector 'x' must have either the same number of entries as, or one entry fewer than, parameter vector 'a',"
            f" but alpha.shape = {alpha.shape} and x.shape = {x.shape}."
        )
    x_known, alpha_known = known_value(x), known_value(alpha)
    if x_known is not None and alpha_known is not None:
        st.dirichlet.logpdf(x_known, alpha_known)  # raises where SciPy does: off the simplex, α ≤ 0
    columns = alpha.reshape((-1,) + (1,) * (np.ndim(x) - 1))
    norm = sp.gammaln(alpha).sum() - sp.gammaln(total)
    return np.squeeze(sp.xlogy(columns - 1, x).sum(0) - norm)


def _concentrations(alpha):
    alpha = double(alpha)
    if np.ndim(alpha) != 1:
        raise ValueError(f"Parameter vector 'a' must be one dimensional, but a.shape = {np.shape(alpha)}.")
    return alpha, alpha.sum()


def _dirichlet_mean(alpha):
    alpha, total = _concentrations(alpha)
    return np.squeeze(alpha / total)


def _dirichlet_var(alpha):
    alpha, total = _concentrations(alpha)
    return np.squeeze(alpha * (total - alpha) / (total * total * (total + 1)))


def _dirichlet_cov(alpha):
    alpha, total = _concentrations(alpha)
    mean = alpha / total
    return (np.diag(mean) - np.outer(mean, mean)) / (total + 1)


def _dirichlet_entropy(alpha):
    alpha, total = _concentrations(alpha)
    norm = sp.gammaln(alpha).sum() - sp.gammaln(total)
    return norm + (total - alpha.shape[0]) * sp.psi(total) - ((alpha - 1) * sp.psi(alpha)).sum()


dirichlet = _Multivariate(
    "dirichlet",
    cov=_dirichlet_cov,
    entropy=_dirichlet_entropy,
    logpdf=_dirichlet_logpdf,
    mean=_dirichlet_mean,
    pdf=lambda x, alpha: np.exp(_dirichlet_logpdf(x, alpha)),
    var=_dirichlet_var,
)


# ── multinomial ──────────────────────────────────────────────────────────────────────────────────────────────────
#
# Probabilities that do not sum to one give NaN, where SciPy (until 1.17) replaced the last of them with a warning.


def _multinomial_logpmf(x, n, p):
    x, (n, p, bad) = double(x), _trials(n, p)
    outside = np.any((x < 0) | (np.floor(x) != x), axis=-1) | (x.sum(-1) != n)
    inside = np.expand_dims(np.logical_not(outside | bad), -1)
    out = sp.gammaln(np.where(bad, 1.0, n) + 1) + (
        sp.xlogy(np.where(inside, x, 1.0), np.where(inside, p, 0.5)) - sp.gammaln(np.where(inside, x, 1.0) + 1)
    ).sum(-1)
    return np.where(bad, math.nan, np.where(outside, -math.inf, out))


def _trials(n, p):
    """Return the parameters, and where they are none."""
    n, p = double(n), double(p)
    return n, p, np.any((p < 0) | (p > 1), axis=-1) | (n < 0) | (np.abs(1 - p.sum(-1)) > 1e-6)


def _multinomial_mean(n, p):
    n, p, bad = _trials(n, p)
    return np.expand_dims(np.where(bad, math.nan, n), -1) * p


def _multinomial_cov(n, p):
    n, p, bad = _trials(n, p)
    spread = np.eye(p.shape[-1]) * p[..., None, :] - p[..., :, None] * p[..., None, :]
    return np.expand_dims(np.where(bad, math.nan, n), (-1, -2)) * spread


multinomial = _Multivariate(
    "multinomial",
    cov=_multinomial_cov,
    logpmf=_multinomial_logpmf,
    mean=_multinomial_mean,
    pmf=lambda x, n, p: np.exp(_multinomial_logpmf(x, n, p)),
)
