"""Statistics of samples: moments, means of all kinds, deviations, entropies, correlation.

Written as SciPy's, with its parameters and defaults, in plain NumPy, so that derivatives of every order follow. NaN is
never left out: ``nan_policy`` other than ``"propagate"`` is refused on tensors. Not for: moments of distributions
(``distribution.py``), tests, fits and statistics of ranks, which are SciPy's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.special._ufuncs as sp
import scipy.stats

from ...core.tracer import Tracer
from ...errors import UnsupportedError
from ...surface.arguments import inexact_operand, operand
from ..mirror import mirrors
from .formulas import DISTRIBUTIONS

__all__ = [
    "circmean", "circstd", "circvar", "entropy", "gmean", "gstd", "hmean", "iqr", "kurtosis", "median_abs_deviation",
    "moment", "pearsonr", "pmean", "sem", "skew", "tmean", "trim_mean", "tsem", "tstd", "tvar", "variation", "zmap",
    "zscore",
]  # fmt: skip


def _sample(x: Any, axis: Any, nan_policy: str = "propagate") -> tuple[Any, Any]:
    """Return a sample in floating point and the axes along which it lies: all, where they are ``None``."""
    if nan_policy != "propagate":
        raise UnsupportedError(
            f"scipy.stats: nan_policy={nan_policy!r} was asked for on a tensor.",
            "omitting entries would change shapes from lane to lane",
            'leave nan_policy="propagate", and leave NaN out by np.where or np.nanmean yourself',
        )
    x = inexact_operand(x)
    return x, tuple(range(x.ndim)) if axis is None else axis


def _count(x, axis) -> int:
    return math.prod(x.shape[i] for i in (axis if isinstance(axis, tuple) else (axis,)))


def _squeeze_axes(out, axis, keepdims: bool):
    """Drop the axes of size one along which a statistic was computed."""
    return out if keepdims else np.squeeze(out, axis)


# ── moments ──────────────────────────────────────────────────────────────────────────────────────────────────────


@mirrors(scipy.stats.moment)
def moment(a, order=1, axis=0, nan_policy="propagate", *, center=None, keepdims=False):
    """Compute the moments of these orders about the mean, or about ``center``."""
    a, axis = _sample(a, axis, nan_policy)
    if np.ndim(order):
        return np.stack([moment(a, n, axis, center=center, keepdims=keepdims) for n in np.asarray(order).tolist()])
    if order != round(order):
        raise ValueError("All elements of `order` must be integral.")
    away = a - (np.mean(a, axis=axis, keepdims=True) if center is None else operand(center))
    out = np.mean(away ** int(order), axis=axis, keepdims=keepdims)
    return np.zeros_like(out) if order == 1 and center is None else out


def _standardized(a, axis, order: int):
    """Return the moment of this order over that power of the standard deviation; NaN of a constant sample."""
    mean = np.mean(a, axis=axis, keepdims=True)
    away = a - mean
    squares = np.mean(away**2, axis=axis, keepdims=True)
    constant = squares <= (np.finfo(a.dtype).eps * mean) ** 2
    safe = np.where(constant, np.ones((), a.dtype), squares)
    out = np.mean(away**order, axis=axis, keepdims=True) / safe ** (order / 2)
    return np.where(constant, np.full((), np.nan, a.dtype), out)


@mirrors(scipy.stats.skew)
def skew(a, axis=0, bias=True, nan_policy="propagate", *, keepdims=False):
    """Compute the skewness, m₃/m₂^(3/2)."""
    a, axis = _sample(a, axis, nan_policy)
    out, n = _standardized(a, axis, 3), _count(a, axis)
    if not bias and n > 2:
        out = out * (math.sqrt((n - 1.0) * n) / (n - 2.0))
    return _squeeze_axes(out, axis, keepdims)


@mirrors(scipy.stats.kurtosis)
def kurtosis(a, axis=0, fisher=True, bias=True, nan_policy="propagate", *, keepdims=False):
    """Compute the kurtosis, m₄/m₂² − 3."""
    a, axis = _sample(a, axis, nan_policy)
    out, n = _standardized(a, axis, 4), _count(a, axis)
    if not bias and n > 3:
        out = ((n**2 - 1.0) * out - 3 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    return _squeeze_axes(out - 3 if fisher else out, axis, keepdims)


@mirrors(scipy.stats.variation)
def variation(a, axis=0, nan_policy="propagate", ddof=0, *, keepdims=False):
    """Compute the standard deviation over the mean."""
    a, axis = _sample(a, axis, nan_policy)
    return np.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / np.mean(a, axis=axis, keepdims=keepdims)


@mirrors(scipy.stats.sem)
def sem(a, axis=0, ddof=1, nan_policy="propagate", *, keepdims=False):
    """Compute the standard error of the mean."""
    a, axis = _sample(a, axis, nan_policy)
    return np.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(_count(a, axis))


@mirrors(scipy.stats.zscore)
def zscore(a, axis=0, ddof=0, nan_policy="propagate"):
    """Compute how many standard deviations each entry lies from the mean."""
    return zmap(a, a, axis, ddof, nan_policy)


@mirrors(scipy.stats.zmap)
def zmap(scores, compare, axis=0, ddof=0, nan_policy="propagate"):
    """Compute how many standard deviations of ``compare`` each entry lies from its mean; NaN if that is constant."""
    scores, (compare, along) = _sample(scores, 0)[0], _sample(compare, axis, nan_policy)
    mean = np.mean(compare, axis=along, keepdims=True)
    deviation = np.std(compare, axis=along, ddof=ddof, keepdims=True)
    if axis is None:
        mean, deviation = np.squeeze(mean), np.squeeze(deviation)
    constant = deviation <= np.finfo(compare.dtype).eps * np.abs(mean)
    return (scores - mean) / np.where(constant, np.full((), np.nan, compare.dtype), deviation)


# ── means ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _average(x, axis, weights, keepdims: bool):
    if weights is None:
        return np.mean(x, axis=axis, keepdims=keepdims)
    weights, _ = _sample(weights, axis)
    out = np.sum(weights * x, axis=axis, keepdims=True) / np.sum(
        np.broadcast_to(weights, x.shape), axis=axis, keepdims=True
    )
    return _squeeze_axes(out, axis, keepdims)


def _means(a, axis, dtype, nan_policy):
    a, axis = _sample(a, axis, nan_policy)
    return (a if dtype is None else a.astype(dtype)), axis


@mirrors(scipy.stats.gmean)
def gmean(a, axis=0, dtype=None, weights=None, nan_policy="propagate", *, keepdims=False):
    """Compute the geometric mean."""
    a, axis = _means(a, axis, dtype, nan_policy)
    with np.errstate(divide="ignore"):
        return np.exp(_average(np.log(a), axis, weights, keepdims))


@mirrors(scipy.stats.hmean)
def hmean(a, axis=0, dtype=None, *, weights=None, nan_policy="propagate", keepdims=False):
    """Compute the harmonic mean, NaN where an entry is negative."""
    return pmean(a, -1, axis=axis, dtype=dtype, weights=weights, nan_policy=nan_policy, keepdims=keepdims)


@mirrors(scipy.stats.pmean)
def pmean(a, p, *, axis=0, dtype=None, weights=None, nan_policy="propagate", keepdims=False):
    """Compute the power mean, NaN where an entry is negative."""
    if not isinstance(p, Tracer) and p == 0:
        return gmean(a, axis, dtype, weights, nan_policy, keepdims=keepdims)
    a, axis = _means(a, axis, dtype, nan_policy)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = _average(a**p, axis, weights, keepdims) ** (1 / p)
    return np.where(np.any(a < 0, axis=axis, keepdims=keepdims), np.full((), np.nan, out.dtype), out)


@mirrors(scipy.stats.gstd)
def gstd(a, axis=0, ddof=1, *, keepdims=False, nan_policy="propagate"):
    """Compute the geometric standard deviation."""
    a, axis = _sample(a, axis, nan_policy)
    return np.exp(np.std(np.log(a), axis=axis, ddof=ddof, keepdims=keepdims))


@mirrors(scipy.stats.trim_mean)
def trim_mean(a, proportiontocut, axis=0, nan_policy="propagate", *, keepdims=False):
    """Compute the mean without this proportion of the entries at either end."""
    if axis is None:
        a, axis = np.ravel(operand(a)), 0
    a, axis = _sample(a, axis, nan_policy)
    n = _count(a, axis)
    cut = int(proportiontocut * n)
    if cut > n - cut:
        raise ValueError("Proportion too big.")
    kept = np.take(np.sort(a, axis=axis), np.arange(cut, n - cut), axis=axis)
    return np.mean(kept, axis=axis, keepdims=keepdims)


def _within(a, limits, inclusive):
    """Mark the entries inside the limits."""
    low, high = (None, None) if limits is None else limits
    kept = np.ones(a.shape, bool)
    if low is not None:
        kept = kept & (a >= low if inclusive[0] else a > low)
    if high is not None:
        kept = kept & (a <= high if inclusive[1] else a < high)
    return kept


@mirrors(scipy.stats.tmean)
def tmean(a, limits=None, inclusive=(True, True), axis=None, *, nan_policy="propagate", keepdims=False):
    """Compute the mean of the entries within limits."""
    a, axis = _sample(a, axis, nan_policy)
    return np.mean(a, axis=axis, keepdims=keepdims, where=_within(a, limits, inclusive))


@mirrors(scipy.stats.tvar)
def tvar(a, limits=None, inclusive=(True, True), axis=0, ddof=1, *, nan_policy="propagate", keepdims=False):
    """Compute the variance of the entries within limits."""
    a, axis = _sample(a, axis, nan_policy)
    return np.var(a, axis=axis, ddof=ddof, keepdims=keepdims, where=_within(a, limits, inclusive))


@mirrors(scipy.stats.tstd)
def tstd(a, limits=None, inclusive=(True, True), axis=0, ddof=1, *, nan_policy="propagate", keepdims=False):
    """Compute the standard deviation of the entries within limits."""
    return np.sqrt(tvar(a, limits, inclusive, axis, ddof, nan_policy=nan_policy, keepdims=keepdims))


@mirrors(scipy.stats.tsem)
def tsem(a, limits=None, inclusive=(True, True), axis=0, ddof=1, *, nan_policy="propagate", keepdims=False):
    """Compute the standard error of the mean of the entries within limits."""
    a, axis = _sample(a, axis, nan_policy)
    kept = np.sum(_within(a, limits, inclusive), axis=axis, keepdims=keepdims)
    return tstd(a, limits, inclusive, axis, ddof, keepdims=keepdims) / np.sqrt(kept)


# ── quantiles ────────────────────────────────────────────────────────────────────────────────────────────────────

_NORMAL_MAD, _NORMAL_IQR = 0.6744897501960817, 1.3489795003921634


@mirrors(scipy.stats.median_abs_deviation)
def median_abs_deviation(x, axis=0, center=np.median, scale=1.0, nan_policy="propagate", *, keepdims=False):
    """Compute the median of the distances from the median."""
    x, axis = _sample(x, axis, nan_policy)
    middle = np.expand_dims(center(x, axis=axis), axis)
    scale = _NORMAL_MAD if isinstance(scale, str) and scale.lower() == "normal" else scale
    return np.median(np.abs(x - middle), axis=axis, keepdims=keepdims) / scale


@mirrors(scipy.stats.iqr)
def iqr(x, axis=None, rng=(25, 75), scale=1.0, nan_policy="propagate", interpolation="linear", keepdims=False):
    """Compute the distance between two percentiles."""
    x, axis = _sample(x, axis, nan_policy)
    low, high = sorted(rng)
    scale = _NORMAL_IQR if isinstance(scale, str) and scale.lower() == "normal" else scale
    ends = [np.percentile(x, q, axis=axis, method=interpolation, keepdims=keepdims) for q in (low, high)]
    return (ends[1] - ends[0]) / scale


# ── entropy, directions, correlation ─────────────────────────────────────────────────────────────────────────────


@mirrors(scipy.stats.entropy)
def entropy(pk, qk=None, base=None, axis=0, *, nan_policy="propagate", keepdims=False):
    """Compute −Σ p log p, or Σ p log(p/q), of weights that are scaled to probabilities."""
    pk, axis = _sample(pk, axis, nan_policy)
    p = pk / np.sum(pk, axis=axis, keepdims=True)
    if qk is None:
        terms = sp.entr(p)
    else:
        qk, _ = _sample(qk, axis)
        terms = sp.rel_entr(p, qk / np.sum(qk, axis=axis, keepdims=True))
    out = np.sum(terms, axis=axis, keepdims=keepdims)
    return out if base is None else out / np.log(base)


def _direction(samples, high, low, axis, nan_policy):
    """Return the mean sine and cosine of the angles."""
    samples, axis = _sample(samples, axis, nan_policy)
    angle = (samples - low) * (2 * math.pi / (high - low))
    sine, cosine = [np.mean(part(angle), axis=axis, keepdims=True) for part in (np.sin, np.cos)]
    return axis, sine, cosine


@mirrors(scipy.stats.circmean)
def circmean(samples, high=2 * math.pi, low=0, axis=None, nan_policy="propagate", *, keepdims=False):
    """Compute the mean of angles."""
    axis, s, c = _direction(samples, high, low, axis, nan_policy)
    angle = np.arctan2(s, c)
    angle = np.where(angle < 0, angle + 2 * math.pi, angle)
    return _squeeze_axes(angle * ((high - low) / (2 * math.pi)) + low, axis, keepdims)


@mirrors(scipy.stats.circvar)
def circvar(samples, high=2 * math.pi, low=0, axis=None, nan_policy="propagate", *, keepdims=False):
    """Compute the variance of angles, 1 − R."""
    axis, s, c = _direction(samples, high, low, axis, nan_policy)
    return _squeeze_axes(1 - np.minimum(np.hypot(s, c), 1.0), axis, keepdims)


@mirrors(scipy.stats.circstd)
def circstd(samples, high=2 * math.pi, low=0, axis=None, nan_policy="propagate", *, normalize=False, keepdims=False):
    """Compute the standard deviation of angles, √(−2 log R)."""
    axis, s, c = _direction(samples, high, low, axis, nan_policy)
    out = np.sqrt(-2 * np.log(np.minimum(np.hypot(s, c), 1.0)))
    return _squeeze_axes(out if normalize else out * ((high - low) / (2 * math.pi)), axis, keepdims)


class PearsonRResult(NamedTuple):
    """The result of ``pearsonr`` for tensors: the first two attributes of SciPy's."""

    statistic: Any
    pvalue: Any


@mirrors(scipy.stats.pearsonr)
def pearsonr(x, y, *, alternative="two-sided", method=None, axis=0):
    """Compute the correlation of two samples and its p-value, by the beta distribution."""
    if method is not None:
        raise UnsupportedError(
            "scipy.stats.pearsonr: method was given for tensors.",
            "it draws or permutes samples",
            "leave it out: the p-value is then that of normal samples, a formula",
        )
    x, along = _sample(x, axis)
    y, _ = _sample(y, axis)
    n = _count(x, along)
    if n != _count(y, along):
        raise ValueError("`x` and `y` must have the same length along `axis`.")
    x, y = (a - np.mean(a, axis=along, keepdims=True) for a in (x, y))
    r = np.sum(x * y, axis=along) / np.sqrt(np.sum(x * x, axis=along) * np.sum(y * y, axis=along))
    r = np.clip(r, -1.0, 1.0)
    if n == 2:
        return PearsonRResult(np.round(r), np.ones_like(r))
    half = n / 2 - 1
    tail = {"two-sided": -np.abs(r), "less": r, "greater": -r}
    if alternative not in tail:
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    p = DISTRIBUTIONS["beta"].cdf(tail[alternative], half, half, loc=-1, scale=2)
    return PearsonRResult(r, 2 * p if alternative == "two-sided" else p)
