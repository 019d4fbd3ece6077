"""The adjoint equation as machine code: solved backwards through the steps of the forward run, one after the other.

    λ' = −(∂f/∂y)ᵀ λ,   λ jumps by the cotangent of y(tₖ) at tₖ;   cotangent of y₀: λ(t₀), of θ: ∫ (∂f/∂θ)ᵀ λ dt

The dense output is smooth inside of a step, so a way back ends where a step does, or where λ jumps. What a step's dense
output takes is recorded in blocks, of which as many are held as ``keep_steps`` says; of those before, the state is
kept, and they are recorded again. Not for: functions and methods that have no machine code (``adjoint.py``), or the
derivative of the steps (``steps.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...control.control_flow import while_loop
from ...control.linear_solve import cast
from ...control.loops import scan
from ...errors import ConvergenceError
from .adjoint import scales
from .implicit import IMPLICIT_LOOPS
from .native import LARGEST_MATRIX, LOOPS, compiled, is_machine_code, message_of, stopped_early
from .path import steps_at_once
from .problem import Problem
from .recorded import problem_steps
from .runge_kutta import RUNNING, Control

__all__ = ["is_compiled", "walk_back_compiled"]

#: steps that are walked back at once
_AT_ONCE = 128


def is_compiled(problem: Problem, cotangents: Any, t0: Any, times: Any, y0: Any, parameters: Sequence) -> bool:
    """Whether the adjoint of a problem is machine code: of a stiff one that is small and no variational equation."""
    implicit = problem.settings.name in (*IMPLICIT_LOOPS, "Rodas5P")
    if np.asarray(cotangents).dtype != np.dtype(float) or (implicit and (problem.base or problem.n >= LARGEST_MATRIX)):
        return False
    return is_machine_code(problem, t0, times, y0, parameters)


class _Adjoint:
    """The slopes of λ and of the integrals, as the steps of a method take them: the matrix of the latter is zero."""

    mass = base = None

    def __init__(self, slopes: Callable, jacobian: Callable, lanes: int, n: int, width: int) -> None:
        self._slopes, self._jacobian, self.lanes, self.n, self.width = slopes, jacobian, lanes, lanes * width, width
        self._of_y = n

    def __call__(self, t: Any, z: Any) -> Any:
        lam = np.reshape(z, (self.lanes, self.width))[:, : self._of_y]
        return np.reshape(np.concatenate(self._slopes(t, lam), 1), (-1,))

    slope = lambda self, t, y, g: self(t, y)

    @property
    def root(self) -> Any:
        """An integrand in the shape of the matrix: λ, and one integral for all of them."""
        return _Square(self._of_y + 1)

    def jacobian(self, t: Any, z: Any) -> Any:
        """Return −(∂f/∂y)ᵀ, and a zero behind it."""
        n = self._of_y
        wide = np.concatenate([-self._jacobian(t).T, np.zeros((n, 1))], 1)
        return np.concatenate([wide, np.zeros((1, n + 1))])

    def blocks(self, matrix: Any, v: Any) -> Any:
        """Return the product of a matrix with λ, and of its last entry with the integrals."""
        n, rows = self._of_y, np.reshape(v, (self.lanes, self.width))
        return np.reshape(np.concatenate([rows[:, :n] @ matrix[:n, :n].T, matrix[n, n] * rows[:, n:]], 1), (-1,))


class _Square:
    def __init__(self, n: int) -> None:
        self.n = n


def walk_back_compiled(
    problem: Problem, cotangents: np.ndarray, t0: Any, times: np.ndarray, y0: np.ndarray, parameters: Sequence,
    moving: tuple[bool, ...],
) -> list[np.ndarray]:  # fmt: skip
    """Pull cotangents of y at the times, shape (lanes, times, n), back to y0 and to the moving parameters."""
    s, t0, lanes, n = problem.settings, float(t0), len(cotangents), problem.n
    theta = tuple([np.asarray(p, order="C") for p in parameters])
    moved = [p for p, m in zip(theta, moving, strict=True) if m]
    live = np.flatnonzero(cotangents.any((0, 2)))
    z = np.zeros((lanes, n + sum([p.size for p in moved])))
    end = float(times[live][np.argmax(abs(times[live] - t0))]) if len(live) else t0
    if end != t0:
        code, control = problem_steps(problem, y0, theta), s.control
        hold = max(1, (s.keep_steps or steps_at_once(y0)) // _AT_ONCE)
        largest, starts, held = np.abs(y0), [], list[list]()
        state = code.start(t0, end, y0, theta, control)
        while state.status == RUNNING and state.t != end:
            starts.append(state)
            state, (_, y, _, pieces) = code.steps(state, end, theta, control)
            largest, held = np.maximum(largest, np.max(np.abs(y), 0)), [*held, pieces][-hold:]
        if state.t != end:
            raise stopped_early(s.where, "the solver", state.t, message_of(state.status, control))
        scale, atol = scales(problem, largest, moved, cotangents)
        size = abs(float(end - held[-1][0][-1]))
        for start in reversed(starts):
            pieces = held.pop() if held else code.steps(start, end, theta, control)[1][3]
            rows = _rows(pieces, float(start.t), times[live], np.moveaxis(cotangents[:, live] / scale, 1, 0))
            for first in range(0, len(rows[0]), _AT_ONCE):
                part = [_padded(x[first : first + _AT_ONCE]) for x in rows]
                z, size = _walk(problem, part, z, size, np.tile(atol, lanes), theta, moving)
        z = z * scale
    for k in live[times[live] == t0]:
        z[:, :n] += cotangents[:, k]
    of_y, *parts = np.split(z, np.cumsum([n, *[p.size for p in moved]])[:-1], axis=1)
    return [of_y, *[cast(x.reshape(lanes, *p.shape), p.dtype) for x, p in zip(parts, moved, strict=True)]]


def _rows(pieces: Sequence, begin: float, times: np.ndarray, cotangents: np.ndarray) -> list[np.ndarray]:
    """Return the ways back through a block: from, to, the jump before, and the dense output of the step."""
    ends = pieces[2]
    kept = ends != np.append(begin, ends[:-1])
    forward = 1.0 if ends[-1] >= begin else -1.0
    ends, pieces = forward * ends[kept], [x[kept] for x in pieces]
    jumping = (forward * times > forward * begin) & (forward * times <= ends[-1])
    cuts = np.unique(np.concatenate([ends, forward * times[jumping]]))
    jumps = np.zeros((len(cuts), *cotangents.shape[1:]))
    np.add.at(jumps, np.searchsorted(cuts, forward * times[jumping]), cotangents[jumping])
    inside = np.searchsorted(ends, cuts)
    to = np.concatenate([[forward * begin], cuts[:-1]])
    return [x[::-1] for x in (forward * cuts, forward * to, jumps, *[x[inside] for x in pieces])]


def _padded(rows: np.ndarray) -> np.ndarray:
    """Return rows with others behind them, all zeros: from 0 to 0, without a jump."""
    more = np.zeros((_AT_ONCE - len(rows), *rows.shape[1:]), rows.dtype)
    return np.ascontiguousarray(np.concatenate([rows, more]) if len(more) else rows)


def _walk(
    problem: Problem, rows: list, z: np.ndarray, size: float, atol: np.ndarray, theta: tuple, moving: tuple[bool, ...]
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Return λ with the integrals after the ways back, and the size of the next step."""
    s, shape, count = problem.settings, z.shape, len(rows)
    # From the end of each step a method of one step begins, and Radau's Newton iteration takes a matrix in blocks.
    forward, method = LOOPS[s.name], LOOPS["Radau" if s.name in ("BDF", "Rodas5P") else s.name]
    pull = problem.pulled(moving)

    def walk(*values: Any) -> list:
        rows, (z, size, atol, *theta) = values[:count], values[count:]
        f = problem.right_side(theta)

        def turn(carry: tuple, row: tuple) -> tuple:
            z, size, status, stuck = carry
            start, stop, jump, *piece = row
            z = np.concatenate([z[:, : problem.n] + jump, z[:, problem.n :]], 1)
            along = forward.along(f, tuple(piece))
            slopes = lambda t, lam: pull(t, along(t), *theta, lam)
            g = _Adjoint(slopes, lambda t: f.jacobian(t, along(t)), shape[0], problem.n, shape[1])
            control = Control(s.rtol, atol, s.max_step, size, s.max_steps, s.rtol)
            going = lambda now: (now.status == RUNNING) & (now.t != stop)
            first = method.begin(g, start, stop, np.reshape(z, (-1,)), control)
            first = first._replace(status=status)
            last = while_loop(going, lambda now: method.advance(g, now, stop, control), first)
            # A last step that was cut short says less about the size than the planned one.
            larger = np.where(last.tried <= 1, np.maximum(last.h, size), last.h)
            stuck = np.where((status == RUNNING) & (last.status != RUNNING), last.t, stuck)
            return (np.reshape(last.y, shape), np.where(start == stop, size, larger), last.status, stuck), None

        carry, _ = scan(turn, (z, size, np.int64(RUNNING), np.float64(0.0)), rows)
        return list(carry)

    given = [*rows, z, np.float64(size), atol, *theta]
    z, size, status, stuck = compiled(problem, ("adjoint", moving), walk, given)
    if status != RUNNING:
        raise ConvergenceError(
            f"{s.where}: the adjoint equation could not be solved beyond t = {stuck}: {message_of(status, s.control)}",
            "it runs backwards along the solution, and may be stiff where the forward one is not",
            "take a method for stiff problems (Radau, BDF), or sensitivity='forward'",
        )
    return z, float(size)
