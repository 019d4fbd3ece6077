"""``scipy.spatial.distance``: distances between vectors, between all pairs of them, and their two layouts.

Where two points coincide a Euclidean distance has the derivative zero, the subgradient of least norm, as every norm
does. Each metric is NumPy over the last axis. Not for: metrics of booleans, which have no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.spatial.distance as sd
import scipy.special._ufuncs as sp

from ...core.tracer import Tracer
from ...errors import UnsupportedError
from ...surface.arguments import array_operand, operand
from ..mirror import falls_back, mirrors

__all__ = [
    "braycurtis", "canberra", "cdist", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "jensenshannon",
    "mahalanobis", "minkowski", "pdist", "seuclidean", "sqeuclidean", "squareform",
]  # fmt: skip


def _vectors(*arrays) -> list:
    """Return arguments in double precision, as SciPy computes."""
    return [x if x.dtype == np.float64 else x.astype(np.float64) for x in map(array_operand, arrays)]


def _weights(w):
    if w is None:
        return 1.0
    (w,) = _vectors(w)
    if not isinstance(w, Tracer) and np.any(w < 0):
        raise ValueError("Input weights should be all non-negative")
    return w


def _root(square):
    """Return the root of a squared distance, with the derivative zero at zero."""
    zero = square == 0
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, square)))


# ── metrics along the last axis: u and v broadcast ───────────────────────────────────────────────────────────────


def _sqeuclidean(u, v, w=None):
    return np.sum(_weights(w) * (u - v) ** 2, axis=-1)


def _euclidean(u, v, w=None):
    return np.linalg.norm(np.sqrt(_weights(w)) * (u - v), axis=-1)


def _cityblock(u, v, w=None):
    return np.sum(_weights(w) * np.abs(u - v), axis=-1)


def _chebyshev(u, v, w=None):
    gap = np.abs(u - v)
    return np.max(gap if w is None else np.where(_weights(w) > 0, gap, 0.0), axis=-1)


def _minkowski(u, v, p=2, w=None):
    if isinstance(p, Tracer):
        raise UnsupportedError(
            f"scipy.spatial.distance.minkowski: p is a {type(p).__name__}.",
            "the rule depends on the value of p",
            "give p as a number",
        )
    if p <= 0:
        raise ValueError("p must be greater than 0")
    if math.isinf(p):
        return _chebyshev(u, v, w)
    return np.linalg.norm(_weights(w) ** (1 / p) * (u - v), ord=p, axis=-1)


def _seuclidean(u, v, V):
    (variance,) = _vectors(V)
    return np.linalg.norm((u - v) / np.sqrt(variance), axis=-1)


def _mahalanobis(u, v, VI):
    (inverse,) = _vectors(VI)
    gap = u - v
    return _root(np.einsum("...i,ij,...j->...", gap, inverse, gap))


def _cosine(u, v, w=None):
    w = _weights(w)
    return 1 - np.sum(w * u * v, axis=-1) / np.sqrt(np.sum(w * u * u, axis=-1) * np.sum(w * v * v, axis=-1))


def _correlation(u, v, w=None):
    weights = np.broadcast_to(_weights(w), np.shape(u)[-1:])
    weights = weights / np.sum(weights)
    u, v = [x - np.expand_dims(np.sum(weights * x, axis=-1), -1) for x in (u, v)]
    return _cosine(u, v, weights)


def _canberra(u, v, w=None):
    above, below = np.abs(u - v), np.abs(u) + np.abs(v)
    zero = below == 0
    return np.sum(_weights(w) * np.where(zero, 0.0, above / np.where(zero, 1.0, below)), axis=-1)


def _braycurtis(u, v, w=None):
    w = _weights(w)
    return np.sum(w * np.abs(u - v), axis=-1) / np.sum(w * np.abs(u + v), axis=-1)


def _jensenshannon(u, v, base=None, axis=0, keepdims=False):
    u, v = [x / np.sum(x, axis=axis, keepdims=True) for x in (u, v)]
    middle = 0.5 * (u + v)
    total = np.sum(sp.rel_entr(u, middle) + sp.rel_entr(v, middle), axis=axis, keepdims=keepdims)
    return _root((total if base is None else total / math.log(base)) / 2)


# ── between two vectors ──────────────────────────────────────────────────────────────────────────────────────────


def _of_two(original: Callable, metric: Callable) -> Callable:
    def distance(u, v, *args, **kwargs):
        u, v = _vectors(u, v)
        for x in (u, v):
            if np.ndim(x) != 1:
                raise ValueError("Input vector should be 1-D.")
        return metric(u, v, *args, **kwargs)

    return mirrors(original, words=f"Compute the {original.__name__} distance of two vectors.")(distance)


braycurtis = _of_two(sd.braycurtis, _braycurtis)
canberra = _of_two(sd.canberra, _canberra)
chebyshev = _of_two(sd.chebyshev, _chebyshev)
cityblock = _of_two(sd.cityblock, _cityblock)
correlation = _of_two(
    sd.correlation, lambda u, v, w=None, centered=True: (_correlation if centered else _cosine)(u, v, w)
)
cosine = _of_two(sd.cosine, _cosine)
euclidean = _of_two(sd.euclidean, _euclidean)
mahalanobis = _of_two(sd.mahalanobis, _mahalanobis)
minkowski = _of_two(sd.minkowski, _minkowski)
seuclidean = _of_two(sd.seuclidean, _seuclidean)
sqeuclidean = _of_two(sd.sqeuclidean, _sqeuclidean)


@mirrors(sd.jensenshannon)
def jensenshannon(p, q, base=None, *, axis=0, keepdims=False):
    """Compute the Jensen–Shannon distance of probability vectors."""
    p, q = _vectors(p, q)
    return _jensenshannon(p, q, base, axis, keepdims)


# ── between all pairs ────────────────────────────────────────────────────────────────────────────────────────────

_METRICS = {
    "braycurtis": _braycurtis, "canberra": _canberra, "chebyshev": _chebyshev, "cityblock": _cityblock,
    "correlation": _correlation, "cosine": _cosine, "euclidean": _euclidean, "mahalanobis": _mahalanobis,
    "minkowski": _minkowski, "seuclidean": _seuclidean, "sqeuclidean": _sqeuclidean,
    "jensenshannon": lambda u, v: _jensenshannon(u, v, axis=-1),
}  # fmt: skip
_ALIASES = {
    "cityblock": ("cblock", "cb", "c", "manhattan"), "chebyshev": ("chebychev", "cheby", "cheb", "ch"),
    "correlation": ("co",), "cosine": ("cos",), "euclidean": ("euclid", "eu", "e"), "jensenshannon": ("js",),
    "mahalanobis": ("mahal", "mah"), "minkowski": ("mi", "m", "pnorm"), "seuclidean": ("se", "s"),
    "sqeuclidean": ("sqe", "sqeuclid"),
}  # fmt: skip
_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases)} | {
    name: name for name in _METRICS
}


def _metric(metric, where: str, points: Callable, options: dict) -> Callable:
    """Return a function of two stacks of vectors; ``points()`` are all of them, of which defaults are made."""
    if callable(metric):
        name = _NAMES.get(getattr(metric, "__name__", ""))
        if name is None or not getattr(metric, "__module__", "").endswith("spatial.distance"):
            raise UnsupportedError(
                f"scipy.spatial.distance.{where} was given a function as metric, and tensors.",
                "it calls the function pair by pair on plain vectors",
                "map the function: dualad.vmap(lambda a: dualad.vmap(lambda b: metric(a, b))(XB))(XA)",
            )
    else:
        name = _NAMES.get(str(metric).lower().removeprefix("test_"))
        if name is None:
            raise UnsupportedError(
                f"scipy.spatial.distance.{where} with metric={metric!r} was called on tensors.",
                "it is a metric of booleans, which have no derivative, or none of SciPy's",
                f"use one of {', '.join(sorted(_METRICS))}",
            )
    if name == "seuclidean" and options.get("V") is None:
        options["V"] = np.var(points(), axis=0, ddof=1)
    if name == "mahalanobis" and options.get("VI") is None:
        options["VI"] = np.linalg.inv(np.cov(points().T)).T
    return lambda u, v: _METRICS[name](u, v, **options)


@mirrors(sd.cdist)
def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):
    """Compute the distances between the rows of two matrices."""
    _no_out("cdist", out)
    a, b = _vectors(XA, XB)
    if np.ndim(a) != 2 or np.ndim(b) != 2:
        raise ValueError(f"{'XA' if np.ndim(a) != 2 else 'XB'} must be a 2-dimensional array.")
    if a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    return _metric(metric, "cdist", lambda: np.concatenate([a, b]), kwargs)(a[:, None, :], b[None, :, :])


@mirrors(sd.pdist)
def pdist(X, metric="euclidean", *, out=None, **kwargs):
    """Compute the distances between all pairs of rows of a matrix."""
    _no_out("pdist", out)
    (x,) = _vectors(X)
    if np.ndim(x) != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    first, second = np.triu_indices(x.shape[0], 1)
    return _metric(metric, "pdist", lambda: x, kwargs)(x[first], x[second])


def _no_out(name: str, out) -> None:
    if out is not None:
        raise UnsupportedError(
            f"scipy.spatial.distance.{name}(out=) was called on tensors.",
            "a plain array can hold neither a tangent nor a batch axis",
            "use the result",
        )


@mirrors(sd.squareform)
def squareform(X, force="no", checks=True):
    """Turn a vector of distances into a symmetric matrix, and back; that it is symmetric is not checked on tensors."""
    x = operand(X)
    if force.lower() == "tomatrix" and np.ndim(x) != 1:
        raise ValueError("Forcing 'tomatrix' but input X is not a distance vector.")
    if force.lower() == "tovector" and np.ndim(x) != 2:
        raise ValueError("Forcing 'tovector' but input X is not a distance matrix.")
    if np.ndim(x) == 1:
        n = math.isqrt(2 * x.shape[0]) + 1 if x.shape[0] else 1
        if n * (n - 1) != 2 * x.shape[0]:
            raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2 for some n >= 2.")
        number = np.zeros((n, n), np.intp)
        number[np.triu_indices(n, 1)] = np.arange(x.shape[0])
        off = np.logical_not(np.eye(n, dtype=bool))
        if not x.shape[0]:
            return np.zeros((1, 1), x.dtype)
        return np.where(off, np.take(x, number + number.T), np.zeros((), x.dtype))
    if np.ndim(x) != 2:
        raise ValueError(f"The first argument must be one or two dimensional array. A {np.ndim(x)}-dimensional array"
            " is not permitted")  # fmt: skip
    if x.shape[0] != x.shape[1]:
        raise ValueError("The matrix argument must be square.")
    return x[np.triu_indices(x.shape[0], 1)]


__getattr__, __dir__ = falls_back(sd, globals())
