"""``python -m benchmarks.shapes``: derivatives in shape parameters against mpmath, at random points everywhere.

One row for each function and parameter: points, median and largest relative error, how many are not finite, and how
many are above 1e-9; with ``--worst`` the points behind them. mpmath differentiates by central differences at sixty
digits and more, from definitions that share nothing with the rules. Points whose derivative is below 1e-290 or above
1e290 are left out. The table in ``docs/reference/shape-parameters.md`` is made of these rows; 50,000 points take hours.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import scipy.special as sp

import dualad as da
import dualad.scipy.stats as stats

__all__ = ["ROWS", "Row", "measure"]

_STEP = mp.mpf(10) ** -22


@dataclass(frozen=True)
class Row:
    """A function, the same of mpmath's numbers, where its points are drawn, and the places of its parameters."""

    ours: Callable
    theirs: Callable
    points: Callable
    shapes: tuple[int, ...]
    digits: int = 60


# ── definitions ──────────────────────────────────────────────────────────────────────────────────────────────────


def _gamma(a, x):
    if x > a + 8:  # from the end that is nearer; the other's derivative has the other sign
        return -mp.gammainc(a, x, mp.inf, regularized=True)
    return _gamma_below(a, x)


def _gamma_below(a, x):
    return mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * mp.hyp1f1(1, a + 1, x)


def _beta(a, b, x, y=None):
    y = 1 - x if y is None else y
    if x * (a + b) > a:
        return -_beta_below(b, a, y, x)
    return _beta_below(a, b, x, y)


def _beta_below(a, b, x, y):
    scale = mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b)
    return mp.exp(a * mp.log(x) + b * mp.log(y) + scale) * mp.hyp2f1(a + b, 1, a + 1, x)


def _f(n, m, x):
    total = n * x + m
    return _beta(n / 2, m / 2, n * x / total, m / total)


def _student(df, t):
    square = t * t
    return mp.sign(t) * _beta(mp.mpf(1) / 2, df / 2, square / (df + square), df / (df + square)) / 2


def _owen(h, a):
    return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), mp.linspace(0, a, 5)) / (2 * mp.pi)


def _noncentral(x, df, nc):
    """Sum P(½ df + k, ½ x) over Poisson's weights, from the largest term out to both sides."""
    half, peak, total = nc / 2, int(nc / 2), mp.mpf(0)
    for ks in (range(peak, -1, -1), range(peak + 1, peak + 100000)):
        for k in ks:
            term = mp.exp(k * mp.log(half) - half - mp.loggamma(k + 1)) * _gamma_below(df / 2 + k, x / 2)
            total += term
            if term < total * mp.eps / 1000:
                break
    return total


# ── points ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _spread(rng, low, high, count):
    return 10 ** rng.uniform(low, high, count)


def _gamma_points(rng, n):
    a = _spread(rng, -8, 3, n)
    near = np.abs(a + 8 * np.sqrt(a + 0.1) * rng.normal(size=n))
    return a, np.choose(rng.integers(0, 3, n), [near, a * _spread(rng, -1, 1, n), _spread(rng, -30, 2, n)])


def _beta_points(rng, n):
    a, b = _spread(rng, -6, 3, n), _spread(rng, -6, 3, n)
    x = np.where(rng.random(n) < 0.5, rng.beta(a, b), _spread(rng, -30, 0, n))
    return a, b, np.clip(x, 1e-300, 1 - 2**-52)


def _bessel_points(rng, n):
    v, x = _spread(rng, -6, 2.5, n), _spread(rng, -5, 2.5, n)
    beside = v * np.abs(1 + rng.choice([1e-3, 0.3, 3.0], n) * rng.normal(size=n) * v ** (-2 / 3))
    return v * rng.choice([-1.0, 1.0], n), np.where(rng.random(n) < 0.25, beside, x)


def _signed(rng, low, high, n):
    return rng.choice([-1.0, 1.0], n) * _spread(rng, low, high, n)


def _hyp2f1_points(rng, n):
    z = np.where(rng.random(n) < 0.5, 1 - _spread(rng, -6, 0, n), -_spread(rng, -3, 4, n))
    return *(_spread(rng, -2, 1.3, n) for _ in range(3)), z


def _noncentral_points(rng, n):
    df, nc = _spread(rng, -1, 2.5, n), _spread(rng, -2, 2.5, n)
    return np.abs(df + nc + 4 * np.sqrt(2 * df + 4 * nc) * rng.normal(size=n)), df, nc


ROWS: dict[str, Row] = {
    "gammainc": Row(sp.gammainc, _gamma, _gamma_points, (0,), 90),
    "betainc": Row(sp.betainc, _beta, _beta_points, (0, 1), 90),
    "fdtr": Row(
        sp.fdtr, _f, lambda r, n: (_spread(r, -2, 3, n), _spread(r, -2, 3, n), _spread(r, -3, 3, n)), (0, 1), 90
    ),
    "stdtr": Row(sp.stdtr, _student, lambda r, n: (_spread(r, -2, 4, n), _signed(r, -3, 2, n)), (0,), 90),
    "jv": Row(sp.jv, mp.besselj, _bessel_points, (0,)),
    "yv": Row(sp.yv, mp.bessely, _bessel_points, (0,)),
    "iv": Row(sp.iv, mp.besseli, _bessel_points, (0,)),
    "kv": Row(sp.kv, mp.besselk, _bessel_points, (0,)),
    "struve": Row(
        sp.struve,
        mp.struveh,
        lambda r, n: (np.where(r.random(n) < 0.7, _spread(r, -5, 2, n), r.uniform(-8, 0, n)), _spread(r, -3, 2.5, n)),
        (0,),
    ),
    "modstruve": Row(
        sp.modstruve,
        mp.struvel,
        lambda r, n: (np.where(r.random(n) < 0.7, _spread(r, -5, 2, n), r.uniform(-8, 0, n)), _spread(r, -3, 2, n)),
        (0,),
    ),
    "hyp0f1": Row(sp.hyp0f1, mp.hyp0f1, lambda r, n: (_spread(r, -3, 2, n), _signed(r, -4, 3, n)), (0,)),
    "hyp1f1": Row(
        sp.hyp1f1, mp.hyp1f1, lambda r, n: (_spread(r, -3, 2, n), _spread(r, -3, 2, n), _signed(r, -4, 2, n)), (0, 1)
    ),
    "hyp2f1": Row(sp.hyp2f1, mp.hyp2f1, _hyp2f1_points, (0, 1, 2)),
    "hyperu": Row(
        sp.hyperu, mp.hyperu, lambda r, n: (_spread(r, -2, 1.7, n), r.uniform(-30, 30, n), _spread(r, -4, 2, n)), (0, 1)
    ),
    "zeta": Row(sp.zeta, mp.zeta, lambda r, n: (1 + _spread(r, -4, 1.5, n), _spread(r, -3, 2, n)), (0, 1)),
    "owens_t": Row(sp.owens_t, _owen, lambda r, n: (_signed(r, -3, 1, n), _signed(r, -3, 1, n)), (0, 1)),
    "ellipkinc": Row(
        sp.ellipkinc, mp.ellipf, lambda r, n: (r.uniform(-1.57, 1.57, n), 1 - _spread(r, -12, 8, n)), (1,)
    ),
    "ellipeinc": Row(
        sp.ellipeinc, mp.ellipe, lambda r, n: (r.uniform(-1.57, 1.57, n), 1 - _spread(r, -12, 8, n)), (1,)
    ),
    "ncx2": Row(stats.ncx2.cdf, _noncentral, _noncentral_points, (1, 2)),
}


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────────


def _truth(row: Row, point: tuple, i: int):
    with mp.workdps(row.digits):
        h = _STEP * abs(mp.mpf(point[i]))
        low, high = (row.theirs(*[mp.mpf(p) + s * h * (k == i) for k, p in enumerate(point)]) for s in (-1, 1))
        return (high - low) / (2 * h)


def measure(row: Row, i: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the relative errors of the derivative in the parameter at a place, NaN where it is not finite; and points.

    Points that mpmath can't do, or where the function is not a real number, are left out.
    """
    points = np.broadcast_arrays(*row.points(np.random.default_rng(seed), count))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = da.jvp(lambda p: row.ours(*points[:i], p, *points[i + 1 :]), (points[i],), (np.ones(count),))[1]
    errors, shown = [], []
    for point, value in zip(zip(*points, strict=True), found, strict=True):
        try:
            truth = _truth(row, tuple(map(float, point)), i)
        except (ValueError, ZeroDivisionError, mp.libmp.NoConvergence):
            continue
        if mp.im(truth) == 0 and 1e-290 < abs(truth) < 1e290:
            errors.append(float(abs(mp.mpf(float(value)) - truth) / abs(truth)) if np.isfinite(value) else np.nan)
            shown.append(point)
    return np.array(errors), np.array(shown, float)


def main(argv: list[str] | None = None) -> int:
    """Print a row for each function and parameter; return 1 if an error is above 1e-9 or a derivative is not finite."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument("--points", type=int, default=200, metavar="N", help="points for each function and parameter")
    parser.add_argument("--only", action="append", choices=ROWS, help="only this function (repeatable)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="print the N worst points of each row")
    args = parser.parse_args(argv)
    print("| function | in argument | points | median | largest | not finite | above 1e-9 |")
    print("|---|---|---|---|---|---|---|")
    failed = False
    for name in args.only or ROWS:
        for i in ROWS[name].shapes:
            errors, points = measure(ROWS[name], i, args.points, args.seed)
            lost, wrong = np.sum(np.isnan(errors)), np.sum(errors > 1e-9)
            failed |= bool(lost or wrong)
            median, largest = np.nanmedian(errors), np.nanmax(errors)
            print(f"| `{name}` | {i} | {len(errors)} | {median:.0e} | {largest:.0e} | {lost} | {wrong} |", flush=True)
            for at in np.argsort(-np.nan_to_num(errors, nan=np.inf))[: args.worst]:
                print(f"    {errors[at]:.1e} at {tuple(points[at].tolist())}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
