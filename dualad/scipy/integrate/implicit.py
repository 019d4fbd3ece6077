"""SciPy's implicit methods, Radau and BDF, as programs: its steps, with the exact Jacobian.

A step solves its equations by Newton's iteration with a matrix that is kept as long as the iteration converges. An
attempt is a turn of the loop: with the Jacobian and the inverse that are there, unless the last one has asked for
others. A variational equation has blocks of n numbers; its iteration takes the matrix of the first block for all of
them. Where the tangents' errors are not controlled, this is the derivative of the iteration itself, its matrix held.
Not for: methods without an iteration (``rosenbrock.py``), or who runs the loop (``native.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...control.control_flow import cond, while_loop
from .rosenbrock import RightHandSide
from .runge_kutta import NOT_FINITE, RUNNING, TOO_MANY, TOO_SMALL, Control, first_size, norm, spacing, weighted
from .tables import RadauIIA

__all__ = ["IMPLICIT_LOOPS"]

#: no step, or no error, was before: SciPy's None
_NONE = 0.0


def _newton(change: Callable, start: Any, scale: Any, most: int, control: Control, wanted: Any) -> tuple:
    """Iterate ``x += change(x)``; return x, whether it converged, in how many turns, and the rate of the last."""
    rtol = np.min(control.newton)
    tol = np.maximum(10 * np.finfo(float).eps / rtol, np.minimum(0.03, rtol**0.5))

    def turn(state: tuple) -> tuple:
        x, before, rate, count, _, _ = state
        dx, finite = change(x)
        size = norm(dx / scale)
        later = count > 0
        rate = np.where(later, size / np.where(later & (before > 0), before, 1.0), rate)
        left = np.where(rate < 1, rate / np.where(rate < 1, 1 - rate, 1.0), np.inf)
        hopeless = later & ((rate >= 1) | (rate ** (most - count - 1) * left * size > tol))
        stops = hopeless | ~finite
        done = ~stops & ((size == 0) | (later & (left * size < tol)))
        return np.where(stops, x, x + dx), size, rate, count + 1, done, stops | done

    going = lambda state: ~state[5] & (state[3] < most)
    begin = (start, 0.0, 0.0, np.int64(0), np.bool_(False), ~wanted)
    x, _, rate, count, done, _ = while_loop(going, turn, begin)
    return x, done, count, rate


def _by_levels(change: Callable, f: RightHandSide, start: Any, scale: Any, most: int, control: Control) -> tuple:
    """Iterate for the equation itself, and then for its tangents along the solution, by ``change(f, n, x)``.

    Tangents that come in while y still changes would not converge. Where their errors are not controlled they come in
    with y, and are the derivatives of its iterates.
    """
    levels = (f,) if f.base is None or not np.all(np.isfinite(control.atol)) else f.levels
    done, count, rate = np.bool_(True), np.int64(0), 0.0
    x = start[..., :0]
    for g in levels:
        x = np.concatenate([x, start[..., np.shape(x)[-1] : g.n]], axis=-1)
        step = functools.partial(change, g)
        x, converged, turns, last = _newton(step, x, np.broadcast_to(scale, (f.n,))[: g.n], most, control, done)
        done, count, rate = done & converged, np.maximum(count, turns), np.maximum(rate, last)
    return x, done, count, rate


def _matrices(renew: Any, known: Any, jacobian: Callable, kept: Any, invert: Callable, inverse: tuple) -> tuple:
    """Return the Jacobian and the inverse, new ones where they are asked for, and whether they are finite."""
    jac = cond(renew, jacobian, lambda: kept)
    finite = np.isfinite(np.sum(jac))
    inverse = cond(renew | ~known, lambda: invert(np.where(finite, jac, 0.0)), lambda: inverse)
    return jac, inverse, finite


def _counts(s: Any, calls: Any, renew: Any, inverted: Any, each: int) -> Any:
    """Return how many calls, Jacobians and inverses there have been."""
    return s.work + np.stack([calls, renew * np.int64(1), inverted * np.int64(each)])


def _attempt(s: Any, t1: Any, control: Control) -> tuple:
    """Return where an attempt ends, and its signed size; whether it is beyond t1, and whether it is too small, or NaN.

    The first one of a step begins with a size that is allowed. A failed trial has the size 1, and is not accepted.
    """
    d, least = np.sign(t1 - s.t), spacing(s.t, t1)
    size = np.where(s.fresh, np.maximum(np.minimum(s.h, control.max_step), least), s.h)
    t = s.t + d * size
    # Of a rest that is a rounding no iteration converges: it belongs to this step.
    beyond, fails = d * (t - t1) > -least, ~(size >= least)
    t = np.where(beyond, t1, t)
    return t, np.where(fails, 1.0, t - s.t), size, beyond, fails


def _status(fails: Any, finite: Any, size: Any, tried: Any, control: Control) -> Any:
    going = np.where(tried < control.max_steps, RUNNING, TOO_MANY)
    return np.where(~finite | (size != size), NOT_FINITE, np.where(fails, TOO_SMALL, going))


# ── Radau ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _RadauState(NamedTuple):
    """Where a run is: the last accepted step went from (t_old, y_old) to (t, y), with the increments ``z``."""

    t: Any
    y: Any
    h: Any
    slope: Any
    t_old: Any
    y_old: Any
    z: Any
    #: size and error of the step before, and the size with which this one began
    size_old: Any
    error_old: Any
    proposed: Any
    jacobian: Any
    inverse: tuple
    #: whether the inverse is one of this step's matrix; whether the Jacobian is to be renewed, and is that of y
    known: Any
    renew: Any
    current: Any
    #: whether this is the first attempt; whether one was rejected for its error
    fresh: Any
    rejected: Any
    work: Any
    tried: Any
    status: Any


class _Iterated:
    """A method whose state counts its own work."""

    def at(self, f: RightHandSide, s: Any, t: Any) -> Any:
        """Return the solution at a time in the last step, NaN beyond it, and where there was no step."""
        reached = (t == s.t) | (np.abs(t - s.t_old) < np.abs(s.t - s.t_old))
        return np.where(reached, self.along(f, self.piece(s))(t), np.nan)

    def work(self, s: Any) -> Any:
        """Return the calls of f, the Jacobians and the factorizations."""
        return s.work


class _Radau(_Iterated):
    """Radau IIA of order 5: Hairer and Wanner, *Solving Ordinary Differential Equations II* (1996), IV.8.

    In the eigenvectors of A the system of 3n equations is a real one and a complex one, (a + ib) 1 − hJ. With
    R = (a 1 − J)⁻¹ the real and imaginary parts of the inverse of that are P = (a 1 − J + b² R)⁻¹ and −b R P.
    """

    q, calls = 3, 3

    def begin(self, f: RightHandSide, t0: Any, t1: Any, y0: Any, control: Control) -> _RadauState:
        slope, n = f(t0, y0), f.root.n
        h, none, zero = first_size(self.q, f, t0, t1, y0, slope, control), np.float64(_NONE), np.zeros((n, n))
        no, yes, count = np.bool_(False), np.bool_(True), np.int64(0)
        return _RadauState(
            t0, y0, h, slope, t0, y0, np.zeros((3, *np.shape(y0))), none, none, h, zero, (zero, zero, zero),
            no, yes, yes, yes, no, np.zeros(3, np.int64), count, np.int64(RUNNING),
        )  # fmt: skip

    def advance(self, f: RightHandSide, s: _RadauState, t1: Any, control: Control) -> _RadauState:
        """Make an attempt at a step."""
        t, h, begun, _, fails = _attempt(s, t1, control)
        size, proposed = np.abs(h), np.where(s.fresh, s.h, s.proposed)
        size_old = np.where(s.fresh & (begun != s.h), _NONE, s.size_old)

        def invert(jac: Any) -> tuple:
            eye, a, b = np.eye(f.root.n), RadauIIA.PART / h, RadauIIA.IMAGINARY / h
            part = a * eye - jac
            inverse = np.linalg.inv(part)
            first = np.linalg.inv(part + b * b * inverse)
            return np.linalg.inv(RadauIIA.REAL / h * eye - jac), first, -b * (inverse @ first)

        inverted = s.renew | ~s.known
        jac, (real, first, second), finite = _matrices(
            s.renew, s.known, lambda: f.jacobian(s.t, s.y), s.jacobian, invert, s.inverse
        )
        current = s.current | s.renew
        # where the last polynomial is at the new stages
        step = s.t - s.t_old
        x = (step + h * np.array(RadauIIA.C)) / np.where(step == 0, 1.0, step)
        start = np.where(step == 0, 0.0, self._at(s.y_old, s.z, x) - s.y)
        ratios = RadauIIA.REAL / h, RadauIIA.PART / h, RadauIIA.IMAGINARY / h

        def change(f: RightHandSide, w: Any) -> tuple:
            z = _times(RadauIIA.T, w)
            slopes = [f(s.t + c * h, s.y[: f.n] + z[i]) for i, c in enumerate(RadauIIA.C)]
            forces = _times(RadauIIA.INVERSE, slopes)
            g, u, v = (
                forces[0] - ratios[0] * w[0],
                forces[1] - ratios[1] * w[1] + ratios[2] * w[2],
                forces[2] - ratios[1] * w[2] - ratios[2] * w[1],
            )
            dw = np.stack([
                f.blocks(real, g), f.blocks(first, u) - f.blocks(second, v), f.blocks(first, v) + f.blocks(second, u)
            ])  # fmt: skip
            return dw, np.isfinite(np.sum(forces[0] + forces[1] + forces[2]))

        scale = control.atol + np.abs(s.y) * control.rtol
        w, converged, count, rate = _by_levels(change, f, np.stack(_times(RadauIIA.INVERSE, start)), scale, 6, control)
        z = np.stack(_times(RadauIIA.T, w))
        y = s.y + z[2]
        drift = weighted(RadauIIA.E, z) / h
        scale = control.atol + np.maximum(np.abs(s.y), np.abs(y)) * control.rtol
        error = f.blocks(real, s.slope + drift)
        again = converged & s.rejected & (norm(error / scale) > 1)
        error = cond(again, lambda: f.blocks(real, f(s.t, s.y + error) + drift), lambda: error)
        wrong = norm(error / scale)
        good = converged & ~(wrong > 1) & ~fails & finite
        safety = 0.9 * 13 / (12 + count)
        old = (size_old > 0) & (wrong > 0)
        ratio = np.where(old, s.error_old / np.where(old, wrong, 1.0), 1.0)
        more = np.where(old, size / np.where(old, size_old, 1.0) * ratio**0.25, 1.0)
        factor = safety * np.minimum(1.0, more) * np.maximum(wrong, 1e-300) ** -0.25
        renews = (count > 2) & (rate > 1e-3)
        larger = np.minimum(10.0, factor)
        stays = ~renews & (larger < 1.2)
        slope = cond(good, lambda: f(t, y), lambda: s.slope)
        # The next trial: with a Jacobian of this place, with half the step, or with the step that the error allows.
        choose = lambda new, old: np.where(good, new, old)
        retried = np.where(converged, np.maximum(0.2, factor), np.where(current, 0.5, 1.0))
        tried, calls = s.tried + 1, 3 * count + again + good
        return _RadauState(
            choose(t, s.t), choose(y, s.y), size * choose(np.where(stays, 1.0, larger), retried), slope,
            choose(s.t, s.t_old), choose(s.y, s.y_old), choose(z, s.z), choose(proposed, size_old),
            choose(wrong, s.error_old), proposed, jac, (real, first, second), good & stays,
            choose(renews, ~converged & ~current), current & ~good, good, ~good & (s.rejected | converged),
            _counts(s, calls, s.renew, inverted, 2), tried, _status(fails, finite, begun, tried, control),
        )  # fmt: skip

    @staticmethod
    def _at(y_old: Any, z: Any, x: Any) -> Any:
        """Return the last step's polynomial, at parts of the step, shape (parts, n)."""
        x = np.reshape(x, (-1, 1))
        q = _times(RadauIIA.P, z)
        return y_old + x * (q[0] + x * (q[1] + x * q[2]))

    def piece(self, s: _RadauState) -> tuple:
        """Return the arguments of the last step's dense output."""
        return s.t_old, s.y, s.t, s.y_old, s.z

    def along(self, f: RightHandSide, piece: tuple) -> Callable:
        """Return the solution in a step as a function of time."""
        t_old, y, end, y_old, z = piece
        h = np.where(end == t_old, 1.0, end - t_old)
        return lambda t: np.where(t == end, y, self._at(y_old, z, (t - t_old) / h)[0])


def _times(matrix: Sequence, rows: Any) -> list:
    """Return combinations of rows."""
    return [weighted(row, rows) for row in matrix]


# ── BDF ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_HIGHEST = 5
_ROWS = _HIGHEST + 3
_KAPPA = np.array([0, -0.1850, -1 / 9, -0.0823, -0.0415, 0])
_GAMMA = np.append(0.0, np.cumsum(1 / np.arange(1, _HIGHEST + 1)))
_WEIGHTS, _ALPHA = [np.append(x, [0.0, 0.0]) for x in (_GAMMA, (1 - _KAPPA) * _GAMMA)]
_CONSTANTS = np.append(_KAPPA * _GAMMA + 1 / np.arange(1, _HIGHEST + 2), [0.0, 0.0])
_PLACES = np.arange(_ROWS)
_UNIT, _UPPER = np.eye(_ROWS), np.triu(np.ones((_ROWS, _ROWS), bool))


def _rescaling(factor: Any) -> Any:
    """Return the matrix R of Shampine and Reichelt, of the highest order, for steps that are longer by a factor."""
    i = _PLACES[1 : _HIGHEST + 1]
    rows = (i[:, None] - 1 - factor * i) / i[:, None]
    beside = np.concatenate([np.ones((1, _HIGHEST)), np.cumprod(rows, axis=0)])
    return np.concatenate([_UNIT[: _HIGHEST + 1, :1], beside], axis=1)


_ONCE = _rescaling(1.0)


def _row(table: Any, i: Any) -> Any:
    """Return a row of a table of eight: a sum, which takes no index that could be out of bounds."""
    return np.where(i == _PLACES, 1.0, 0.0) @ table


def _combine(matrix: Any, rows: Any) -> Any:
    """Return a product of matrices as a sum over rows, which is part of a loop at any length of theirs."""
    terms = [matrix[:, k, None] * rows[k] for k in range(len(matrix))]
    return sum(terms[1:], terms[0])


class _BDFState(NamedTuple):
    """Where a run is; ``differences`` are those of y backwards, of which as many count as the order is."""

    t: Any
    y: Any
    h: Any
    t_old: Any
    differences: Any
    order: Any
    #: steps of this size
    equal: Any
    jacobian: Any
    inverse: Any
    known: Any
    renew: Any
    current: Any
    fresh: Any
    work: Any
    tried: Any
    status: Any


class _BDF(_Iterated):
    """Backward differences of orders 1 to 5, with the corrections of NDF: Shampine and Reichelt (1997)."""

    q, calls = 1, 4

    def begin(self, f: RightHandSide, t0: Any, t1: Any, y0: Any, control: Control) -> _BDFState:
        slope, n = f(t0, y0), f.root.n
        h, no, yes = first_size(self.q, f, t0, t1, y0, slope, control), np.bool_(False), np.bool_(True)
        rows = [y0, slope * h * np.sign(t1 - t0), *[np.zeros_like(y0) for _ in range(_ROWS - 2)]]
        return _BDFState(
            t0, y0, h, t0, np.stack(rows), np.int64(1), np.int64(0), f.jacobian(t0, y0), np.zeros((n, n)),
            no, no, no, yes, np.array([0, 1, 0]), np.int64(0), np.int64(RUNNING),
        )  # fmt: skip

    @staticmethod
    def _changed(differences: Any, order: Any, factor: Any) -> Any:
        """Return the differences for steps that are longer by a factor."""
        inside, unit = _PLACES[: _HIGHEST + 1] <= order, _UNIT[: _HIGHEST + 1, : _HIGHEST + 1]
        taken = np.where(inside[:, None] & inside, _rescaling(factor) @ _ONCE, unit)
        return np.concatenate([_combine(taken.T, differences[: _HIGHEST + 1]), differences[_HIGHEST + 1 :]])

    def advance(self, f: RightHandSide, s: _BDFState, t1: Any, control: Control) -> _BDFState:
        """Make an attempt at a step."""
        (t, h, begun, beyond, fails), q = _attempt(s, t1, control), s.order
        # A step of another size than was planned has other differences.
        other = beyond | (begun != s.h)
        differences = cond(other, lambda: self._changed(s.differences, q, np.abs(h) / s.h), lambda: s.differences * 1.0)
        equal = np.where(other, 0, s.equal)
        size, alpha, inside = np.abs(h), _row(_ALPHA, q), q >= _PLACES
        predicted = np.where(inside, 1.0, 0.0) @ differences
        psi = (np.where(inside, _WEIGHTS, 0.0) @ differences) / alpha
        scale, c = control.atol + control.rtol * np.abs(predicted), h / alpha
        known = s.known & ~beyond
        jac, inverse, finite = _matrices(
            s.renew, known, lambda: f.jacobian(t, predicted), s.jacobian,
            lambda jac: np.linalg.inv(np.eye(f.root.n) - c * jac), s.inverse,
        )  # fmt: skip
        current = s.current | s.renew

        def change(f: RightHandSide, total: Any) -> tuple:
            slope = f(t, predicted[: f.n] + total)
            return f.blocks(inverse, c * slope - psi[: f.n] - total), np.isfinite(np.sum(slope))

        total, converged, count, _ = _by_levels(change, f, np.zeros_like(s.y), scale, 4, control)
        y, safety = predicted + total, 0.9 * 9 / (8 + count)
        scale, constant = control.atol + control.rtol * np.abs(y), lambda order: _row(_CONSTANTS, order)
        wrong = norm(constant(q) * total / scale)
        good = converged & ~(wrong > 1) & ~fails & finite
        power = lambda error, order: np.maximum(error, 1e-300) ** (-1 / order)
        least_factor = np.maximum(0.2, safety * power(wrong, q + 1.0))
        retried = np.where(converged, least_factor, np.where(current, 0.5, 1.0))
        equal = np.where(good, equal + 1, np.where(retried == 1.0, equal, 0))

        def accepted() -> tuple:
            shift = np.where(inside[:, None] & inside & _UPPER, 1.0, 0.0)
            shift = shift - np.where((q + 2 == _PLACES)[:, None] & (q + 1 == _PLACES), 1.0, 0.0)
            moved = _combine(shift, differences) + np.where(q + 2 >= _PLACES, 1.0, 0.0)[:, None] * total
            below = np.where(q > 1, norm(constant(q - 1) * _row(moved, q) / scale), np.inf)
            above = np.where(q < _HIGHEST, norm(constant(q + 1) * _row(moved, q + 2) / scale), np.inf)
            factors = power(below, q * 1.0), power(wrong, q + 1.0), power(above, q + 2.0)
            best = np.maximum(np.maximum(*factors[:2]), factors[2])
            changes = equal >= q + 1
            order = q + np.where(factors[0] >= best, -1, np.where(factors[1] >= best, 0, 1))
            factor = np.minimum(10.0, safety * best)
            return cond(
                changes, lambda: (self._changed(moved, order, factor), order, factor, np.int64(0)),
                lambda: (moved, q, np.float64(1.0), equal),
            )  # fmt: skip

        def rejected() -> tuple:
            again = cond(
                retried == 1.0, lambda: differences * 1.0, lambda: self._changed(differences, q, retried)
            )  # fmt: skip
            return again, q, retried, equal

        moved, order, factor, equal = cond(good, accepted, rejected)
        choose, tried = (lambda new, old: np.where(good, new, old)), s.tried + 1
        # An inverse outlives a step that its error rejects, and one that does not change the size.
        keeps = np.where(good, equal > 0, converged)
        return _BDFState(
            choose(t, s.t), choose(y, s.y), size * factor, choose(s.t, s.t_old), moved, order, equal, jac, inverse,
            keeps, ~good & ~converged & ~current, current & ~good, good,
            _counts(s, count, s.renew, s.renew | ~known, 1), tried, _status(fails, finite, begun, tried, control),
        )  # fmt: skip

    def piece(self, s: _BDFState) -> tuple:
        """Return the arguments of the last step's dense output."""
        return s.t_old, s.y, s.t, s.h, s.order, s.differences[: _HIGHEST + 1]

    def along(self, f: RightHandSide, piece: tuple) -> Callable:
        """Return the solution in a step as a function of time."""
        t_old, y, end, size, order, differences = piece
        h, places = size * np.sign(end - t_old), np.arange(_HIGHEST)
        steps = np.where(h == 0, 1.0, h) * (1.0 + places)

        def at(t: Any) -> Any:
            weights = np.where(places < order, np.cumprod((t - end + h * places) / steps), 0.0)
            return np.where(t == end, y, differences[0] + weights @ differences[1:])

        return at


IMPLICIT_LOOPS: dict[str, Any] = {"Radau": _Radau(), "BDF": _BDF()}
