"""Small problems solved by a program of ours: what ``jit``, and ``solver="native"``, run in place of SciPy's loop.

A problem is one function of its start and its inputs, compiled to machine code for one of them, or for lanes of them,
each of which ends by itself. Not for: the method (``interior.py``), or derivatives of the answer (``stationary.py``).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.frames import user_level
from ...control.control_flow import is_traced
from ...control.loops import scan
from ...control.subprograms import stage
from ...core.above import ABOVE
from ...core.aval import Aval
from ...errors import ArgumentError, PerformanceNote
from .interior import INFEASIBLE, NOT_FINITE, SOLVED, STUCK, TOO_MANY, UNBOUNDED, Answer, Program, search
from .problem import SolverCall, convergence_error

__all__ = ["Machine", "counts_of", "is_wanted", "searched"]

#: more unknowns are left to SciPy: the matrices of more are not factorized in machine code
_MOST = 20
#: and more constraints
_MOST_HELD = 64
#: how small the conditions of an answer are, relative to slopes of about one
_TOLERANCE = 1e-9
_TURNS = 300
_SAID = {
    SOLVED: "the optimality conditions hold",
    TOO_MANY: "it has not converged within {turns} steps",
    INFEASIBLE: "the constraints do not hold where they hold best nearby",
    UNBOUNDED: "the objective decreases without bound",
    STUCK: "no step decreases the objective",
    NOT_FINITE: "the function is not a finite number at the start",
}


def is_wanted(call: SolverCall, solver: str, possible: bool, held: int = 0) -> bool:
    """Whether a problem is solved by a program: its size and method allow it, and it is asked for or in a program."""
    if solver not in ("auto", "native"):
        raise ArgumentError(
            f"{call.where}: solver={solver!r}.", 'it is "auto" or "native"', 'leave it out, or pass solver="native"'
        )
    small = possible and 0 < call.start.size <= _MOST and held <= _MOST_HELD and call.start.dtype == np.dtype(float)
    if solver == "native" and not small:
        raise ArgumentError(
            f'{call.where}: solver="native" for {call.start.size} unknowns with {held} constraints.',
            f"the compiled loop is for methods that use derivatives, no callback, and up to {_MOST} real unknowns with"
            f" {_MOST_HELD} constraints",
            "leave solver out: SciPy's loop takes any method and size",
        )
    return small and (solver == "native" or is_traced([call.start, *call.inputs.arrays]))


def searched(p: Program, x0: Any, options: dict | None) -> Answer:
    """Minimize in a program, in as many steps as SciPy's option says."""
    return search(p, x0, _TOLERANCE, int((options or {}).get("maxiter", _TURNS)))


def counts_of(answer: Answer) -> Any:
    """Return the whole numbers of a result, in the order of ``problem.COUNTS``."""
    one = np.int64(1)
    done = np.where(answer.status == SOLVED, 1, 0)
    return np.stack([done * one, answer.status * one, -one, -one, -one, answer.turns * one])


def _one_after_another(function: Callable, size: int, mapped: Sequence[bool], *values: Any) -> list:
    """Return a function's results in lanes, of which each has a loop of its own; empty ones are no part of that."""
    empty: dict[int, Any] = {}

    def one(_: Any, rows: Sequence) -> tuple:
        lane = iter(rows)
        out = function(*[next(lane) if m else v for v, m in zip(values, mapped, strict=True)])
        empty.update({i: np.zeros((size, *x.shape), x.dtype) for i, x in enumerate(out) if not x.size})
        return None, [x for x in out if x.size]

    whole = list(scan(one, None, [v for v, m in zip(values, mapped, strict=True) if m])[1])
    for i, x in sorted(empty.items()):
        whole.insert(i, x)
    return whole


class Machine:
    """A function of a start and inputs, whose last result is ``counts_of`` an answer, as machine code.

    ``instead`` is run where there is none; ``require`` makes an error of an answer that has not converged.
    """

    def __init__(self, where: str, function: Callable, instead: Callable, require: bool) -> None:
        self.where, self._function, self._instead, self._require = where, function, instead, require
        self._codes: dict[tuple, Any] = {}

    def run(self, start: list, inputs: list) -> list:
        """Return the results for one start."""
        out = self._called(1, (True, *[False] * (len(start) + len(inputs) - 1)), [start[0][None], *start[1:], *inputs])
        return self._instead(start, inputs) if out is None else [x[0] for x in out]

    def run_lanes(self, size: int, mapped: Sequence[bool], values: Sequence) -> list:
        """Return the results of lanes, side by side."""
        out = self._called(size, tuple(mapped), values)
        if out is not None:
            return out
        lanes = [[v[i] if m else v for v, m in zip(values, mapped, strict=True)] for i in range(size)]
        return [np.stack(parts) for parts in zip(*[self._instead(v[:1], v[1:]) for v in lanes], strict=True)]

    def _called(self, size: int, mapped: tuple[bool, ...], values: Sequence) -> list | None:
        arrays = [np.asarray(v, order="C") for v in values]
        key = mapped, *[(a.shape, a.dtype) for a in arrays]
        if key not in self._codes:
            self._codes[key] = self._compiled(size, mapped, arrays)
        if self._codes[key] is None:
            return None
        out = list(self._codes[key](*arrays))
        ended = out[-1]
        if self._require and len(failed := np.flatnonzero(ended[:, 0] == 0)):
            status, turns = ended[failed[0], 1], ended[failed[0], -1]
            which = f"{len(failed)} of {size} lanes, the first of them {failed[0]}: " if size > 1 else ""
            raise convergence_error(
                self.where, which + _SAID[int(status)].format(turns=turns),
                "start nearer; require_success=False takes what was found, and `success` says of each whether to",
            )  # fmt: skip
        return out

    def _compiled(self, size: int, mapped: Sequence[bool], arrays: Sequence) -> Callable | None:
        function = functools.partial(_one_after_another, self._function, size, mapped)
        why = "it calls what has none"
        try:
            body = stage(function, [Aval(a.shape, a.dtype) for a in arrays], "search", self.where)
            code = None if body.captured else ABOVE.machine_code(body.program)
        except Exception as error:
            code, why = None, str(error).partition("\n")[0]
        if code is None and _is_there_any():  # without llvmlite all is SciPy's
            warnings.warn(
                f"{self.where}: the problem has no machine code, so SciPy's loop calls the function: {why}\n  In plain"
                " NumPy, without branches on values, it is part of the compiled loop, a hundred times faster",
                PerformanceNote,
                stacklevel=user_level(),
            )
        return None if code is None else code.run


def _is_there_any() -> bool:
    """Whether anything has machine code here."""
    loop = lambda x: _one_after_another(lambda row: [row + row], 2, (True,), x)
    twice = stage(loop, [Aval((2, 2), np.dtype(float))], "twice", "")
    return ABOVE.machine_code(twice.program) is not None
