"""Ipopt as its library's C interface has it, for problems of machine code: no Python runs at an evaluation.

The library is the one that cyipopt is linked to; what it calls is a ``Filler`` of ``entry.c`` for each function. Not
for: the functions, or the search and its result (``ipopt.py``).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.above import ABOVE

__all__ = ["InC", "library_of"]

#: a solver's functions, in the order of the pointers that its callbacks are given
_NAMES = ("objective", "gradient", "constraints", "jacobian", "hessian")
_ADDRESS, _INT, _NUMBER, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_char_p
#: functions of the library: what they return, and their arguments
_INTERFACE: dict[str, tuple] = {
    "CreateIpoptProblem": (
        _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _INT, _INT, *[_ADDRESS] * 5,
    ),
    "FreeIpoptProblem": (None, _ADDRESS),
    "AddIpoptStrOption": (ctypes.c_bool, _ADDRESS, _TEXT, _TEXT),
    "AddIpoptNumOption": (ctypes.c_bool, _ADDRESS, _TEXT, _NUMBER),
    "AddIpoptIntOption": (ctypes.c_bool, _ADDRESS, _TEXT, _INT),
    "SetIntermediateCallback": (ctypes.c_bool, _ADDRESS, _ADDRESS),
    "IpoptSolve": (_INT, *[_ADDRESS] * 8),
}  # fmt: skip


@functools.cache
def _library(file: str) -> Any:
    """Return the functions of the library that an extension is linked to; None where it doesn't show them."""
    if ABOVE.extension() is None:
        return None
    try:
        found = ctypes.PyDLL(file)  # the callbacks are Python's, whose lock is kept
        for name, (result, *arguments) in _INTERFACE.items():
            f = getattr(found, name)
            f.restype, f.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return found


def library_of(package: Any) -> Any:
    """Return the library behind cyipopt; None where it is not to be had, or its class of problems is another one."""
    try:
        wrapper = importlib.import_module("ipopt_wrapper")
    except ImportError:
        return None
    is_theirs = package.Problem is getattr(wrapper, "Problem", None)
    return _library(wrapper.__file__) if is_theirs and wrapper.__file__ else None


class InC:
    """What cyipopt's ``Problem`` is: options, and a search.

    ``back`` has the solver's functions and structures under its names; ``codes`` has those that need no Python, as
    ``unguarded`` returns them, each with arguments, of which the first are the solver's.
    """

    def __init__(
        self, library: Any, back: Any, codes: dict[str, tuple[Callable, Sequence]], n: int, m: int, lb: np.ndarray,
        ub: np.ndarray, cl: Any = (), cu: Any = (),
    ) -> None:  # fmt: skip
        self._library, self._back, self._sizes = library, back, (n, m)
        entries = {
            name: tuple([np.ascontiguousarray(side, np.intc) for side in getattr(back, f"{name}structure")()])
            for name in _NAMES[3:] if hasattr(back, f"{name}structure")
        }  # fmt: skip
        sizes = {"objective": 1, "gradient": n} | ({"constraints": m} if m else {})
        sizes |= {name: len(rows) for name, (rows, _) in entries.items()}
        extension = ABOVE.extension()
        #: what the callbacks call
        self.fillers: dict[str, Any] = {}
        for name, size in sizes.items():
            f, at = codes.get(name, (None, ()))
            is_same = f is not None and type(f) is not extension.Front
            same = np.ascontiguousarray(f(*at), np.float64) if is_same else None
            moving, own = 3 if name == "hessian" else 1, entries.get(name)
            self.fillers[name] = extension.Filler(getattr(back, name), f, tuple(at), moving, size, same, own)
        limits = [np.ascontiguousarray(a, float) for a in (lb, ub, cl, cu)]
        low, high, least, most = [a.ctypes.data for a in limits]
        counts = [sizes.get(name, 0) for name in _NAMES[3:]]
        *functions, intermediate = extension.CALLBACKS
        self._problem = library.CreateIpoptProblem(n, low, high, m, least, most, *counts, 0, *functions)
        if not self._problem:
            raise RuntimeError(f"Ipopt takes no problem of {n} variables and {m} constraints")
        library.SetIntermediateCallback(self._problem, intermediate)

    def __del__(self) -> None:
        if problem := getattr(self, "_problem", None):
            self._library.FreeIpoptProblem(problem)

    def add_option(self, name: str, value: str | float) -> None:
        """Set an option."""
        kind = {str: "Str", float: "Num", int: "Int"}.get(type(value))
        if kind is None:
            raise TypeError("Invalid option type")
        given = value.encode() if isinstance(value, str) else value
        if not getattr(self._library, f"AddIpopt{kind}Option")(self._problem, name.encode(), given):
            raise TypeError("Error while assigning an option")

    def solve(self, x0: np.ndarray, lagrange: Any = (), zl: Any = (), zu: Any = ()) -> tuple[np.ndarray, dict]:
        """Return the point where the search ends, and what cyipopt's ``solve`` says of it."""
        n, m = self._sizes
        given = {"x": (x0, n), "g": ((), m), "obj_val": ((), 1), "mult_g": (lagrange, m), "mult_x_L": (zl, n)}
        found = {name: np.zeros(size) for name, (_, size) in [*given.items(), ("mult_x_U", (zu, n))]}
        for name, (start, _) in [*given.items(), ("mult_x_U", (zu, n))]:
            if len(start):
                found[name][:] = start
        user = (ctypes.py_object * 6)(*[self.fillers.get(name) for name in _NAMES], self._back)
        status = self._library.IpoptSolve(
            self._problem, *[a.ctypes.data for a in found.values()], ctypes.addressof(user)
        )
        for name, f in self.fillers.items():
            self._back.counts[name] += f.calls
        said = importlib.import_module("ipopt_wrapper").STATUS_MESSAGES.get(status, b"Unknown status")
        return found["x"], {**found, "obj_val": found["obj_val"].item(), "status": status, "status_msg": said}
