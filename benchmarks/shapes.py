"""``python -m benchmarks.shapes``: derivatives in shape parameters against Arb, or mpmath, at random points everywhere.

One row for each function and parameter: points, the relative error in the median, of one point in a thousand, and the
largest, how many derivatives are not finite, how many are off by more than 1e-9; at how many more points SciPy's value
is wrong by more than 1e-9, or not finite, which are left out of the others; and the time of value and derivative beside
that of the function. With ``--worst`` the points behind them. The oracle differentiates definitions that share nothing
with the rules (``shape_families.py``) at 256 bits and more: the precision is doubled until Arb's balls say that 60 bits
of a difference are right, or as many of mpmath's agree with those before. Points whose derivative is below 1e-290 or
above 1e290 are left out, and logarithms of numbers below 1e-308.

With ``--keep`` the oracle's answers stay in a folder, a file for 2,000 points each, and the next run goes on from them:
``--minutes`` says how long the oracle may take for a family's further points in this run.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import mpmath as mp
import numpy as np
import scipy

import dualad as da

from .shape_families import FAMILIES, Arb, Family, Inverse, Mpmath, Undecided, flint

__all__ = ["Measured", "measure", "truths"]

_STEP_BITS = 128


# ── truths ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _derivatives(kit, define, point: list, places) -> tuple[tuple, dict]:
    """Return the values at a point and, by the place of an argument, their derivatives in it."""
    values = define(kit, *point)
    slopes = {}
    for i in places:
        step = abs(point[i]) * kit.number(2.0**-_STEP_BITS)
        moved = define(kit, *point[:i], point[i] + step, *point[i + 1 :])
        slopes[i] = [(high - low) / step for high, low in zip(moved, values, strict=True)]
    return values, slopes


def _root(kit, define, place: int, index: int, point: list, start) -> list:
    """Return the point with an argument put in the place of a value that gives it, by Newton's method."""
    wanted, at = point[place], [*point[:place], start, *point[place + 1 :]]
    for _ in range(8):
        values, slopes = _derivatives(kit, define, at, [place])
        step = (values[index] - wanted) / slopes[place][index]
        at[place] = kit.number(at[place] - step) if kit is Mpmath else (at[place] - step).mid()
        if abs(float(step)) <= 1e-30 * abs(float(at[place])):
            return at
    raise Undecided


def _exactly(kit, find, most_bits: int) -> list[float]:
    """Return numbers as floats; ``find()`` is called at twice the precision until all have enough bits, or are NaN."""
    bits, out, before = kit.start, None, None
    while bits <= most_bits and (out is None or np.isnan(out).any()):
        with kit.at(bits):
            try:
                found = find()
            except (ZeroDivisionError, mp.libmp.NoConvergence, OverflowError) as error:
                raise Undecided from error
            known = out or [np.nan] * len(found)
            last = before or [None] * len(found)
            out = [
                float(v) if np.isnan(o) and kit.right(v, b) else o
                for o, v, b in zip(known, found, last, strict=True)
            ]  # fmt: skip
        bits, before = 2 * bits, found
    return out


def truths(kit, family: Family | Inverse, arguments: tuple, guesses=None) -> tuple[np.ndarray, np.ndarray]:
    """Return values and, for each shape, their derivatives at these points, NaN where the oracle has none."""
    inverse = isinstance(family, Inverse)
    source = FAMILIES[family.family] if inverse else family
    places, rows = family.shapes, []
    for n, point in enumerate(zip(*arguments, strict=True)):

        def find(point=point, n=n):
            at = [kit.number(float(p)) for p in point]
            if not inverse:
                values, slopes = _derivatives(kit, source.define, at, places)
                return [*values, *[s for i in places for s in slopes[i]]]
            place, index = family.place, family.value
            at = _root(kit, source.define, place, index, at, kit.number(float(guesses[n])))
            slopes = _derivatives(kit, source.define, at, [*places, place])[1]
            moved = [-slopes[i][index] / slopes[place][index] for i in places]
            return [at[place], *moved] if family.rest is None else [
                at[place], 1 - at[place], *[s for m in moved for s in (m, -m)]
            ]  # fmt: skip

        try:
            rows.append(_exactly(kit, find, source.most_bits))
        except (Undecided, ValueError):
            rows.append(None)
    width = next((len(r) for r in rows if r), 1 + len(places)) // (1 + len(places))
    table = np.array([r or [np.nan] * (width * (1 + len(places))) for r in rows])
    table = table.reshape(len(rows), 1 + len(places), width).transpose(1, 2, 0)
    return table[0], table[1:]


def _chosen(which, x, values, slopes):
    """Return the value and the derivatives of a member (see ``Family``); x is the last argument."""
    with np.errstate(all="ignore"):
        if isinstance(which, int):
            return values[which], slopes[:, which]
        if which[0] == "log":
            index = which[1]
            value = np.where(values[index] > 0.5, np.log1p(-values[1 - index]), np.log(values[index]))
            return value, slopes[:, index] / values[index]
        sign, turn = which[0] * 1j, np.exp(which[1] * 1j * x)
        return turn * (values[0] + sign * values[1]), turn * (slopes[:, 0] + sign * slopes[:, 1])


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────────


class Measured(NamedTuple):
    """A function's derivative in one argument: errors and points where SciPy is right; where it is wrong, how many."""

    name: str
    place: int
    errors: np.ndarray  # relative; NaN where the derivative is not finite
    points: np.ndarray
    misses: np.ndarray  # points and errors where SciPy's value is wrong
    undecided: int
    times: float  # of value and derivative, beside the function's


_PART = 2000  # points whose answers are one file


def _points(family, count: int, seed: int, part: int):
    rng = np.random.default_rng([seed, part] if part else seed)
    if isinstance(family, Family):
        return np.stack(np.broadcast_arrays(*family.points(rng, count))), None
    source = FAMILIES[family.family]
    points = np.array(source.points(rng, count))
    rising = next(m for m, which in source.members.values() if which == family.value)
    guesses = points[family.place].copy()
    points[family.place] = rising(*points)
    fine = (points[family.place] > 1e-300) & (points[family.place] < 1)
    return points[:, fine], guesses[fine]


def _answers(kit, family: Family | Inverse, count: int, seed: int, minutes: float, keep: str):
    """Return points, values and derivatives in the shapes, from the files ``keep`` and then from the oracle."""
    parts, began = [], time.process_time()
    for part in range(-(-count // _PART)):
        arguments, guesses = _points(family, min(count - part * _PART, _PART), seed, part)
        file = Path(f"{keep} {part}.npz")
        kept = np.load(file) if keep and file.exists() else None
        if kept is None or not np.array_equal(kept["arguments"], arguments):
            if part and time.process_time() - began > 60 * minutes:
                break
            values, slopes = truths(kit, family, arguments, guesses)
            kept = {"arguments": arguments, "values": values, "slopes": slopes}
            if keep:
                np.savez(file, **kept)
        parts.append([kept["arguments"], kept["values"], kept["slopes"]])
    return [np.concatenate(a, axis=-1) for a in zip(*parts, strict=True)]


def _times(function, arguments, place: int) -> float:
    """Return the CPU time of value and derivative at 10,000 points beside the function's: the least of three turns."""
    few = [np.ascontiguousarray(a[:10_000]) for a in arguments]
    held = lambda p: function(*few[:place], p, *few[place + 1 :])
    took = np.empty((2, 3))
    for turn in range(3):
        for row, of in enumerate((held, lambda p: da.jvp(held, (p,), (np.ones(len(p)),)))):
            began = time.process_time()
            of(few[place])
            took[row, turn] = time.process_time() - began
    return took[1].min() / took[0].min()


def measure(kit, family: Family | Inverse, count: int, seed: int = 0, minutes: float = math.inf, keep: str = ""):
    """Yield what is measured of a family's members, for each and each shape."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        arguments, values, slopes = _answers(kit, family, count, seed, minutes, keep)
        inverse = isinstance(family, Inverse)
        members = {n: (m, 0) for n, m in family.members.items()} if inverse else family.members
        for name, (ours, which) in members.items():
            value, derivatives = _chosen(which, arguments[-1], values, slopes)
            for place, truth in zip(family.shapes, derivatives, strict=True):
                held = lambda p, place=place, f=ours: f(*arguments[:place], p, *arguments[place + 1 :])
                out, found = da.jvp(held, (arguments[place],), (np.ones(len(truth)),))
                scale = np.maximum(np.abs(value), 0.0 if inverse else np.abs(truth * arguments[place]))
                logarithm = name.split(".")[-1].startswith("log")
                scale = np.minimum(scale, 1.0) if logarithm else scale
                right = np.abs(out - value) <= (1e-10 if inverse else 1e-9) * scale  # a quantile's error is passed on
                if inverse and family.rest:
                    right &= np.abs(family.rest(*arguments) - values[1]) <= 1e-10 * values[1]
                shown = np.isfinite(truth) & (np.abs(truth) > 1e-290) & (np.abs(truth) < 1e290) & np.isfinite(value)
                shown &= (value > -708) | (not logarithm)  # of a number with all its digits
                errors = np.where(np.isfinite(found), np.abs(found - truth) / np.abs(truth), np.nan)
                at, missed = shown & right, shown & ~right
                table = np.stack(arguments, axis=-1)
                yield Measured(
                    name, place, errors[at], table[at], np.column_stack([table, errors])[missed],
                    int(np.sum(~np.isfinite(truth))), _times(ours, arguments, place),
                )  # fmt: skip


_HEAD = (
    "| function | in argument | points | median | 99.9 % | largest | not finite | above 1e-9 | SciPy wrong | time |\n"
    + "|---" * 10
    + "|"
)

_PAGE = """# Measured derivatives in shape parameters

Written by `python -m benchmarks.shapes --points {points} --page docs/reference/shape-accuracy.md`; the oracle is
{oracle}, with NumPy {numpy} and SciPy {scipy}. A row is a function, differentiated in the argument of that number, in
the order of the definition in `benchmarks/shape_families.py`, where its points are drawn, too. Errors are relative.
*Not finite* and *above 1e-9* count points where SciPy's value is right; where that is wrong by more than 1e-9 (1e-10
for a quantile, and for 1 minus it of a beta distribution), or not finite, a point counts in that column alone. Points
whose derivative is below 1e-290 or above 1e290 are left out, and logarithms of numbers below 1e-308, which have lost
digits. *Time* is that of value and derivative at 10,000 points, beside that of the function. [](shape-parameters.md)
says what is above 1e-9, and why.

"""


def _row(m: Measured) -> str:
    lost, wrong = np.sum(np.isnan(m.errors)), np.sum(m.errors > 1e-9)
    finite = m.errors[~np.isnan(m.errors)]
    errors = " | ".join(f"{e:.0e}" for e in np.quantile(finite, [0.5, 0.999, 1.0])) if len(finite) else "– | – | –"
    numbers = f"{len(m.errors):,} | {errors} | {lost} | {wrong} | {len(m.misses)} | {m.times:.1f}"
    return f"| `{m.name}` | {m.place} | {numbers} |"


def main(argv: list[str] | None = None) -> int:
    """Print a row for each function and parameter; return 1 if an error is above 1e-9 or a derivative is not finite."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument(
        "--points",
        type=int,
        default=200,
        metavar="N",
        help="points for each function and parameter",
    )
    parser.add_argument("--only", action="append", choices=FAMILIES, help="only this family (repeatable)")
    parser.add_argument("--oracle", choices=["arb", "mpmath"], default="arb" if flint else "mpmath")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="print the N worst points of each row")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help="of the oracle, for each family")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the oracle's answers there, and use them")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table as a page of the documentation")
    args = parser.parse_args(argv)
    kit = Arb if args.oracle == "arb" else Mpmath
    print(f"Oracle: {kit.name}; {args.points} points.\n\n{_HEAD}", flush=True)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    rows, failed = [], False
    for name in args.only or FAMILIES:
        began = time.process_time()
        keep = str(args.keep / f"{name} {args.seed}") if args.keep else ""
        for m in measure(kit, FAMILIES[name], args.points, args.seed, args.minutes, keep):
            failed |= not np.all(m.errors <= 1e-9)
            rows.append(_row(m))
            print(rows[-1], flush=True)
            for at in np.argsort(-np.nan_to_num(m.errors, nan=np.inf))[: args.worst]:
                print(f"    {m.errors[at]:.1e} at {tuple(m.points[at].tolist())}", flush=True)
        print(f"{name}: {time.process_time() - began:.1f} s, {m.undecided} points undecided", file=sys.stderr)
    if args.page:
        versions = {"numpy": np.__version__, "scipy": scipy.__version__}
        head = _PAGE.format(points=args.points, oracle=kit.name, **versions)
        args.page.write_text(head + "\n".join([_HEAD, *rows]) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
