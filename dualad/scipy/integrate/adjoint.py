"""The adjoint equation of an initial value problem, solved backwards along the dense output of the forward run.

    λ' = −(∂f/∂y)ᵀ λ,   λ jumps by the cotangent of y(tₖ) at tₖ;   cotangent of y₀: λ(t₀), of θ: ∫ (∂f/∂θ)ᵀ λ dt

SciPy's loop solves it: for functions and methods that have no machine code. Not for: those that have
(``compiled_adjoint.py``), or operators (``trajectories.py``); here all arrays are plain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...control.linear_solve import cast
from ...errors import ConvergenceError
from .path import Path
from .problem import IMPLICIT, Problem, method_name, scipys_solver

__all__ = ["scales", "walk_back"]

#: the methods of SciPy's that are of the kind of ours: the slopes of λ are read off a path, and no program
_OF_KIND = {"Tsit5": "RK45", "Vern7": "DOP853", "Rodas5P": "Radau"}


def walk_back(
    problem: Problem, cotangents: np.ndarray, t0: Any, times: np.ndarray, y0: np.ndarray, parameters: Sequence,
    moving: tuple[bool, ...],
) -> list[np.ndarray]:  # fmt: skip
    """Pull cotangents of y at the times, shape (lanes, times, n), back to y0 and to the moving parameters.

    The results have the shapes (lanes, n) and (lanes, *shape of each moving parameter).
    """
    lanes, n = len(cotangents), problem.n
    theta = [np.asarray(p) for p, m in zip(parameters, moving, strict=True) if m]
    count = sum([p.size for p in theta])
    live = [k for k in range(len(times)) if np.any(cotangents[:, k])]
    t0 = float(t0)
    end = max([float(times[k]) for k in live], key=lambda t: abs(t - t0), default=t0)
    dtype = np.result_type(cotangents, y0, float)
    z = np.zeros((lanes, n + count), dtype)
    if live and end != t0:
        path = problem.path(t0, end, y0, parameters)
        scale, atol = scales(problem, path.largest, theta, cotangents)
        pull = problem.pulling(moving, t0, y0, parameters, cotangents[:, 0].astype(dtype))
        walk = _Walk(problem, path, pull, parameters, lanes, count, np.tile(atol, lanes))
        order = sorted(live, key=lambda k: -abs(times[k] - t0))
        stops = [*[float(times[k]) for k in order[1:]], t0]
        for k, stop in zip(order, stops, strict=True):
            z[:, :n] += cotangents[:, k] / scale
            z = walk.to(float(times[k]), stop, z)
        z = z * scale
    else:
        for k in live:
            z[:, :n] += cotangents[:, k]
    of_y, *parts = np.split(z, np.cumsum([n, *[p.size for p in theta]])[:-1], axis=1)
    of_theta = [cast(x.reshape(lanes, *p.shape), p.dtype) for x, p in zip(parts, theta, strict=True)]
    return [cast(of_y, y0.dtype), *of_theta]


def scales(problem: Problem, largest: np.ndarray, theta: Sequence, cotangents: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the size of the cotangents and the absolute tolerances of λ and of the integrals.

    λᵢ yᵢ and θ̄ⱼ θⱼ are numbers without a unit: their error is measured against the largest product of a cotangent
    and a value.
    """
    s = problem.settings
    y = np.where(largest > 0, largest, np.max(largest, initial=0.0) or 1.0)
    scale = float(np.max(abs(cotangents) * y)) or 1.0
    relative = min(s.rtol, max(float(np.min(np.broadcast_to(s.atol, y.shape) / y)), 1e-14))
    sizes = [np.where(abs(p) > 0, abs(p), np.max(abs(p), initial=0.0) or 1.0).reshape(-1) for p in theta]
    return scale, relative / np.concatenate([y, *sizes])


class _Walk:
    """The steps back."""

    def __init__(self, problem: Problem, path: Path, pull: Callable, parameters, lanes, count, atol) -> None:
        self.problem, self.path, self.pull, self.parameters = problem, path, pull, tuple(parameters)
        self.lanes, self.count, self.atol = lanes, count, atol
        self.shape = (lanes, problem.n + count)
        method = problem.settings.method
        method = _OF_KIND.get(method, method)
        self.make = scipys_solver(method, problem.settings.max_steps)
        self.implicit = method_name(method) in IMPLICIT
        self.first: float | None = None

    def slopes(self, t: float, z: np.ndarray) -> np.ndarray:
        lam = z.reshape(self.shape)[:, : self.problem.n]
        out = self.pull(t, self.path(t), *self.parameters, lam)
        return out[0].reshape(-1) if len(out) == 1 else np.concatenate(out, 1).reshape(-1)

    def jacobian(self, t: float, z: np.ndarray) -> Any:
        """Return the matrix of this linear equation, lane by lane; of a large one without the rows of the integrals.

        Those add up what λ is, so a Newton iteration finds them in its second step.
        """
        n, width, dtype = self.problem.n, self.shape[1], z.dtype
        y = self.path(t)
        if self.problem.takes_sparse(z.size):
            own = sp.csc_array(-self.problem.jacobian(y, self.parameters)(t, y).T)
            return sp.kron(sp.identity(self.lanes), sp.block_diag([own, sp.csc_array((width - n,) * 2)]), format="csc")
        block = np.zeros((width, width), dtype)
        for first in range(0, n, self.lanes):  # the rows of as many units as there are lanes at a time
            units = np.eye(self.lanes, n, first, dtype)
            out = self.pull(t, y, *self.parameters, units)
            rows = np.concatenate(out, 1) if len(out) > 1 else out[0]
            block[:, first : min(first + self.lanes, n)] = rows.T[:, : n - first]
        return np.kron(np.eye(self.lanes), block)

    def to(self, start: float, stop: float, z: np.ndarray) -> np.ndarray:
        """Return the state at ``stop``."""
        for piece in self.path.pieces(start, stop):
            if piece[0] != piece[1]:
                self.path(0.5 * sum(piece))  # its steps are taken now: LSODA can't run inside of LSODA
                z = self._through(*piece, z)
        return z

    def _through(self, start: float, stop: float, z: np.ndarray) -> np.ndarray:
        s = self.problem.settings
        options = {"jac": self.jacobian} if self.implicit else {}
        if self.first is not None and not self.implicit:
            options["first_step"] = min(self.first, abs(stop - start))
        solver = self.make(
            self.slopes, start, z.reshape(-1), stop, rtol=s.rtol, atol=self.atol, max_step=s.max_step, **options
        )
        message = None
        while solver.status == "running":
            message = solver.step()
            if solver.status == "running":
                self.first = solver.step_size
        if solver.status == "failed":
            raise ConvergenceError(
                f"{s.where}: the adjoint equation could not be solved beyond t = {solver.t}: {message}",
                "it runs backwards along the solution, and may be stiff where the forward one is not",
                "take a method for stiff problems (Radau, BDF), or sensitivity='forward'",
            )
        return solver.y.reshape(self.shape)
