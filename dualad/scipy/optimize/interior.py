"""A primal–dual interior point method for small problems, as a program: one loop, without branches on values.

    minimize f(x) where l ≤ u ≤ h,  u = (x, s),  r(u) = c(x) − s = 0

The steps are Newton's for the barrier problem, regularized by σ as an augmented Lagrangian about the multipliers yₑ is:

    ∇f + yᵀ∇c − z = 0,    r + σ (yₑ − y) = 0,    (u − l) z = μ

Fiacco, McCormick, *Nonlinear Programming* (1968); Forsgren, Gill, *Primal–dual interior methods for nonconvex nonlinear
programming* (1998), and Gill, Robinson, *A primal–dual augmented Lagrangian* (2012), for the merit function; Wächter,
Biegler, *On the implementation of an interior-point filter line-search algorithm* (2006), for μ, scales and starts.
With σ > 0 neither dependent constraints nor infeasible ones leave a step undetermined, so that no phase of restoration
is needed. The active set that it ends with is polished by Newton's method. Not for: who runs it (``native.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...control.control_flow import while_loop
from ...control.loops import scan

__all__ = ["Answer", "INFEASIBLE", "NOT_FINITE", "Program", "SOLVED", "STUCK", "TOO_MANY", "UNBOUNDED", "search"]

#: how a search ended
SOLVED, TOO_MANY, INFEASIBLE, UNBOUNDED, STUCK, NOT_FINITE, _RUNNING = range(7)
#: a regularization of the Hessian is no larger
_MOST = 1e30
#: σ is no smaller: constraints are that much stiffer than the objective in a matrix that both are in
_LEAST = 1e-8
#: nearer to a limit, with a multiplier that is smaller, a variable may as well be free
_HARDLY = 3e-5


class Program(NamedTuple):
    """A nonlinear program: functions of x, limits of x and of c(x).

    ``curvature(x, factor, y)`` is the Hessian of factor · f + yᵀc, ``convex(x)``, if there is one, a positive
    semidefinite matrix to take where that is not definite.
    """

    objective: Callable
    held: Callable
    gradient: Callable
    jacobian: Callable
    curvature: Callable
    convex: Callable | None
    low: Any
    high: Any


class Answer(NamedTuple):
    """Where a search ended: x, and of its limits, then those of c, the multipliers and the sides that hold.

    The multipliers of c are those of f − λᵀc.
    """

    x: Any
    forces: Any
    sides: Any
    status: Any
    turns: Any


class _Point(NamedTuple):
    """Values at u = (x, s), in units of the search, and multipliers: y of r, z of the limits of u."""

    u: Any
    y: Any
    below: Any
    above: Any
    f: Any
    slope: Any
    r: Any
    rows: Any


class _State(NamedTuple):
    at: _Point
    mu: Any
    sigma: Any
    center: Any
    best: Any
    shift: Any
    least: Any
    turns: Any
    status: Any


def search(p: Program, x0: Any, tolerance: float, most: int) -> Answer:
    """Minimize from a start; the program has one constraint at least, which may be without limits."""
    s = _Search(p, x0)
    state = while_loop(lambda t: t.status == _RUNNING, lambda t: s.turn(t, tolerance, most), s.start())
    return s.polished(state, tolerance)


def _is_definite(A: Any) -> Any:
    """Whether all pivots of a symmetric matrix are positive."""

    def eliminate(carry: tuple, k: Any) -> tuple:
        A, smallest = carry
        row = A[k]
        pivot = np.where(np.isfinite(row[k]), row[k], -1.0)
        A = np.where(pivot > 0, A - row[:, None] * (row / np.where(pivot > 0, pivot, 1.0)), A)
        return (A, np.minimum(smallest, pivot)), None

    return scan(eliminate, (A, np.float64(np.inf)), np.arange(len(A)))[0][1] > 0


class _Search:
    """One program, in the units of its search: slopes at the start are at most 100."""

    def __init__(self, p: Program, x0: Any) -> None:
        self.p, self.n = p, len(x0)
        n = self.n
        x = np.clip(x0, p.low[:n], p.high[:n])
        self.unit = np.minimum(1.0, 100.0 / np.maximum(np.max(abs(p.gradient(x))), 1.0))
        self.units = np.minimum(1.0, 100.0 / np.maximum(np.max(abs(p.jacobian(x)), axis=1), 1.0))
        whole = np.concatenate([np.ones(n), self.units])
        self.fixed = p.low == p.high
        self.has_low, self.has_high = np.isfinite(p.low) & ~self.fixed, np.isfinite(p.high) & ~self.fixed
        self.low = np.where(np.isfinite(p.low), p.low, 0.0) * whole
        self.high = np.where(np.isfinite(p.high), p.high, 0.0) * whole
        self.free = np.where(self.fixed, 0.0, 1.0)
        room = np.where(self.has_low & self.has_high, 1e-2 * (self.high - self.low), np.inf)
        above = self.low + np.minimum(1e-2 * np.maximum(1.0, abs(self.low)), room)
        below = self.high - np.minimum(1e-2 * np.maximum(1.0, abs(self.high)), room)
        self.inner = np.where(self.has_low, above, -np.inf), np.where(self.has_high, below, np.inf)
        self.x0 = x0

    def evaluate(self, u: Any, y: Any, below: Any, above: Any) -> _Point:
        """Return the values at a point."""
        x, units = u[: self.n], self.units
        return _Point(
            u, y, below, above, self.unit * self.p.objective(x), self.unit * self.p.gradient(x),
            units * self.p.held(x) - u[self.n :], units[:, None] * self.p.jacobian(x),
        )  # fmt: skip

    def start(self) -> _State:
        """Return where the search begins: inside of the limits, with multipliers of one."""
        n, m = self.n, len(self.units)
        into = lambda u, part: np.where(self.fixed[part], self.low[part], np.clip(u, *[v[part] for v in self.inner]))
        x = into(self.x0, slice(None, n))
        s = into(self.units * self.p.held(x), slice(n, None))
        ones = [np.where(has, 1.0, 0.0) for has in (self.has_low, self.has_high)]
        at = self.evaluate(np.concatenate([x, s]), np.zeros(m), *ones)
        mu, zero = np.float64(0.1), np.float64(0.0)
        finite = np.isfinite(at.f) & np.isfinite(np.sum(at.r)) & np.isfinite(np.sum(at.slope))
        status = np.where(finite, _RUNNING, NOT_FINITE)
        return _State(at, mu, mu, np.zeros(m), self.error(at, mu), zero, zero, np.int64(0), status)

    # ── residuals, and the merit function ────────────────────────────────────────────────────────────────────────

    def gaps(self, u: Any) -> tuple[Any, Any]:
        """Return the distances to the limits, 1 where there is none."""
        return np.where(self.has_low, u - self.low, 1.0), np.where(self.has_high, self.high - u, 1.0)

    def errors(self, at: _Point, mu: Any) -> tuple[Any, Any, Any]:
        """Return the residuals of stationarity, of the constraints and of complementarity."""
        gap, other = self.gaps(at.u)
        dual = self.free * (np.concatenate([at.slope + at.y @ at.rows, -at.y]) - at.below + at.above)
        forces, k = np.sum(at.below) + np.sum(at.above), len(at.u)
        products = np.concatenate([np.where(self.has_low, gap * at.below - mu, 0.0),
                                   np.where(self.has_high, other * at.above - mu, 0.0)])  # fmt: skip
        return (
            np.max(abs(dual)) / (np.maximum(100.0, (forces + np.sum(abs(at.y))) / (3 * k)) / 100.0),
            np.max(abs(at.r)),
            np.max(abs(products)) / (np.maximum(100.0, forces / (2 * k)) / 100.0),
        )

    def error(self, at: _Point, mu: Any) -> Any:
        """Return the largest of the errors."""
        a, b, c = self.errors(at, mu)
        return np.maximum(np.maximum(a, b), c)

    def merit(self, at: _Point, s: _State) -> Any:
        """Return f − μ Σ log + yₑᵀr + (|r|² + |r + σ (yₑ − y)|²) / 2σ, infinite outside of the limits."""
        gap, other = self.gaps(at.u)
        nearest = np.minimum(np.min(gap), np.min(other))
        logs = np.sum(np.log(np.where(gap > 0, gap, 1.0))) + np.sum(np.log(np.where(other > 0, other, 1.0)))
        t = at.r + s.sigma * (s.center - at.y)
        value = at.f - s.mu * logs + s.center @ at.r + (at.r @ at.r + t @ t) / (2 * s.sigma)
        return np.where((nearest > 0) & np.isfinite(value), value, np.inf)

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────────

    def matrix(self, at: _Point, curvature: Any, weights: Any, diagonal: Any) -> Any:
        """Return the Hessian with all of the rows eliminated; fixed variables are apart."""
        free = self.free[: self.n]
        rows = at.rows * free
        return curvature * free[:, None] * free + np.diag(diagonal + 1 - free) + (rows.T * weights) @ rows

    def turn(self, s: _State, tolerance: float, most: int) -> _State:
        """Take one step, and update what it was taken for."""
        at, n = s.at, self.n
        gap, other = self.gaps(at.u)
        push = np.where(self.has_low, s.mu / gap, 0.0) - np.where(self.has_high, s.mu / other, 0.0)
        stiff = np.where(self.has_low, at.below / gap, 0.0) + np.where(self.has_high, at.above / other, 0.0)
        soft = np.where(self.fixed[n:], 0.0, 1.0 / np.maximum(stiff[n:], 1e-20))
        weights, rows = 1.0 / (soft + s.sigma), at.rows * self.free[:n]
        H = self.p.curvature(at.u[:n], self.unit, self.units * at.y)
        N = self.matrix(at, H, weights, stiff[:n])
        eye = np.eye(n)
        if self.p.convex is not None:
            instead = self.unit * self.p.convex(at.u[:n])
            other_N = self.matrix(at, instead, weights, stiff[:n])
            is_convex = _is_definite(N)
            N, H = np.where(is_convex, N, other_N), np.where(is_convex, H, instead)

        def grow(carry: tuple) -> tuple:
            shift = carry[0]
            more = shift * np.where(s.shift > 0, 8.0, 100.0)
            shift = np.where(shift == 0, np.where(s.shift > 0, np.maximum(s.shift / 3, 1e-20), 1e-4), more)
            return shift, _is_definite(N + shift * eye)

        shift, ok = while_loop(
            lambda carry: ~carry[1] & (carry[0] < _MOST), grow, (s.least, _is_definite(N + s.least * eye))
        )
        inverse = np.linalg.inv(np.where(ok, N + shift * eye, eye))
        H = H * self.free[:n] * self.free[:n, None] + np.diag(stiff[:n] + 1 - self.free[:n] + shift)
        to_x = -self.free[:n] * (at.slope + at.y @ rows - push[:n])
        to_y = soft * (at.y + push[n:]) - at.r - s.sigma * (s.center - at.y)
        dx, dy = _solved(inverse, H, rows, weights, to_x, to_y)
        du = np.concatenate([dx, np.where(self.fixed[n:], 0.0, soft * (dy + at.y + push[n:]))])
        moves = [
            np.where(self.has_low, (s.mu - at.below * du) / gap - at.below, 0.0),
            np.where(self.has_high, (s.mu + at.above * du) / other - at.above, 0.0),
        ]
        keep = np.maximum(0.99, 1 - s.mu)
        down, up = np.where(self.has_low, du, 0.0), np.where(self.has_high, -du, 0.0)
        longest = np.minimum(_longest(gap, down, keep), _longest(other, up, keep))
        dual = np.minimum(_longest(at.below, moves[0], keep), _longest(at.above, moves[1], keep))
        next_y = s.center + at.r / s.sigma
        w = 2 * next_y - at.y
        slope = (at.slope + w @ rows) @ dx - push @ du - w @ du[n:] - s.sigma * (next_y - at.y) @ dy
        before = self.merit(at, s)

        def halve(carry: tuple) -> tuple:
            t = carry[0] / 2
            new = self.evaluate(at.u + t * du, at.y + t * dy, at.below + dual * moves[0], at.above + dual * moves[1])
            value = self.merit(new, s)
            down = value <= before + 1e-4 * t * slope + 1e-13 * (abs(before) + 1e-3)
            return t, down | (np.isfinite(value) & (self.error(new, s.mu) <= 0.5 * s.best)), new

        t, accepted, new = while_loop(
            lambda carry: ~carry[1] & (carry[0] > 1e-14), halve, (2 * longest, np.bool_(False), at)
        )
        accepted = accepted & ok
        new = _Point(*[np.where(accepted, a, b) for a, b in zip(new, at, strict=True)])
        gap, other = self.gaps(new.u)
        into = lambda z, gap, has: np.where(has, np.clip(z, s.mu / (1e10 * gap), 1e10 * s.mu / gap), 0.0)
        new = new._replace(below=into(new.below, gap, self.has_low), above=into(new.above, other, self.has_high))
        grown = np.maximum(10 * shift, 1e-3)
        least = np.where(t < 0.1, grown, np.where(t > 0.5, np.where(s.least < 1e-6, 0.0, s.least / 10), s.least))
        return self.updated(s, new, shift, least, accepted | (shift < _MOST), tolerance, most)

    def updated(
        self, s: _State, at: _Point, shift: Any, least: Any, going: Any, tolerance: float, most: int
    ) -> _State:  # fmt: skip
        """Return the state at a new point: μ, σ and yₑ of the next step, and whether that is taken."""
        stationary, violation, products = self.errors(at, s.mu)
        error = np.maximum(np.maximum(stationary, violation), products)
        regularized = np.max(abs(at.r + s.sigma * (s.center - at.y)))
        solved = np.maximum(np.maximum(stationary, regularized), products) <= np.maximum(10 * s.mu, tolerance)
        center = np.where(solved | (error <= 0.9 * s.best), np.clip(at.y, -1e10, 1e10), s.center)
        lower = np.maximum(tolerance / 11, np.minimum(0.2 * s.mu, s.mu * np.sqrt(s.mu)))
        mu = np.where(error <= 10 * s.mu, lower, s.mu)
        sigma = np.where(solved & (violation > 10 * s.mu), np.maximum(s.sigma / 5, _LEAST / 100), s.sigma)
        sigma = np.where(mu < s.mu, np.minimum(sigma, np.maximum(mu, _LEAST)), sigma)
        best = np.where(mu < s.mu, self.error(at, mu), np.minimum(s.best, error))
        status = np.where(s.turns + 1 < most, _RUNNING, np.where(violation > 1e-6, INFEASIBLE, TOO_MANY))
        status = np.where(going, status, STUCK)
        status = np.where((np.max(abs(at.u[: self.n])) > 1e15) | (at.f < -1e20), UNBOUNDED, status)
        status = np.where(self.error(at, 0.0) <= tolerance, SOLVED, status)
        return _State(at, mu, sigma, center, best, shift, least, s.turns + 1, status)

    # ── the active set ───────────────────────────────────────────────────────────────────────────────────────────

    def polished(self, s: _State, tolerance: float) -> Answer:
        """Return the answer after three of Newton's steps with its active set, if they improve it."""
        at, n, p = s.at, self.n, self.p
        gap, other = self.gaps(at.u)
        hardly = lambda gap, z: np.maximum(gap, z) < _HARDLY
        is_low = self.fixed | (self.has_low & ((at.below >= gap) | hardly(gap, at.below)))
        is_high = self.has_high & ~is_low & ((at.above >= other) | hardly(other, at.above))
        sides = np.where(is_low, -1, np.where(is_high, 1, 0))
        limit, free = np.where(is_low, self.low, self.high), np.where(sides == 0, 1.0, 0.0)
        here, held = free[:n], 1 - free[n:]
        weights, zero = held / _LEAST, np.zeros(len(at.u))

        def step(carry: tuple, _: Any) -> tuple:
            x, y = carry
            q = self.evaluate(np.concatenate([x, limit[n:]]), y, zero, zero)
            rows = q.rows * here * held[:, None]
            H = p.curvature(x, self.unit, self.units * y) * here[:, None] * here + np.diag(1 - here)
            N = H + (rows.T * weights) @ rows
            ok = _is_definite(N)
            inverse = np.linalg.inv(np.where(ok, N, np.eye(n)))
            dx, dy = _solved(inverse, H, rows, weights, -here * (q.slope + y @ q.rows), -held * q.r)
            return (np.where(ok, x + dx, x), np.where(ok, y + dy, y)), ok

        began = np.where(here > 0, at.u[:n], limit[:n]), at.y * held
        (x, y), oks = scan(step, began, np.arange(3))
        at_rest = self.evaluate(np.concatenate([x, np.zeros(len(held))]), y, zero, zero)
        u = np.concatenate([x, at_rest.r])
        forces = np.concatenate([at_rest.slope + y @ at_rest.rows, -y])
        below, above = np.where(self.has_low, self.low - u, 0.0), np.where(self.has_high, u - self.high, 0.0)
        outside = np.max(np.maximum(below, above))
        off = np.max(np.where(sides == 0, abs(forces), np.where(self.fixed, 0.0, np.maximum(sides * forces, 0.0))))
        violation = np.max(np.where(sides == 0, 0.0, abs(u - limit)))
        small = np.maximum(tolerance, 1e-12 * np.max(abs(forces)))
        better = oks[0] & oks[1] & oks[2] & (np.maximum(np.maximum(outside, violation), off) <= small)
        better = better & (s.status == SOLVED) & (np.max(abs(x - at.u[:n])) <= 1e-3 * (1 + np.max(abs(x))))
        forces = np.where(better, forces, at.below - at.above) * np.concatenate([np.ones(n), self.units]) / self.unit
        return Answer(np.where(better, x, at.u[:n]), forces, sides, s.status, s.turns)


def _solved(inverse: Any, H: Any, rows: Any, weights: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Solve H x + Aᵀy = b, w (A x − c) = y by the inverse of H + AᵀwA, with a step of refinement."""

    def once(b: Any, c: Any) -> tuple[Any, Any]:
        x = inverse @ (b + (weights * c) @ rows)
        return x, weights * (rows @ x - c)

    x, y = once(b, c)
    gaps = np.where(weights > 0, y / np.where(weights > 0, weights, 1.0), 0.0)
    dx, dy = once(b - H @ x - y @ rows, np.where(weights > 0, c - rows @ x + gaps, 0.0))
    return x + dx, y + dy


def _longest(gap: Any, change: Any, keep: Any) -> Any:
    """Return how far a change may go, 1 at most, to keep a share of positive values."""
    return np.min(np.where(change < 0, keep * gap / np.where(change < 0, -change, 1.0), 1.0), initial=1.0)
