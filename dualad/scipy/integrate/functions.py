"""Functions of users' as the integrators call them: what they depend on and return, and the same compiled.

For: ``prepared`` (a function of plain arrays that is called thousands of times, traced once if it has no branches), the
questions that decide between SciPy's function and ours, and checks of returned values. Not for: the integrand,
or the traced values that functions read (``closures.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...batched import Batched
from ...boundary.boundary import running
from ...control.linear_solve import cast
from ...control.subprograms import runner, stage
from ...core.above import ABOVE
from ...core.aval import Aval, aval_of
from ...core.tracer import Tracer, tracer_in
from ...dual import Dual
from ...errors import DtypeError, ShapeError, UnsupportedError
from ...ops.kinds import known_value
from ...rules.closures import reads
from ...surface.arguments import operand
from ...vmap import vmap
from ..closures import refuse_captured

__all__ = [
    "compile_callback", "depends", "entries", "has_lanes", "number", "numbers", "over_lanes", "plain_of",
    "reads_tensors", "refuse_full_output", "watch_results",
]  # fmt: skip


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────


def has_lanes(*values: Any) -> bool:
    """Whether a value differs between the lanes of a ``vmap``."""
    for x in values:
        while isinstance(x, Tracer):
            if type(x) is Batched:
                return True
            x = x.inner if type(x) is Dual else None
    return False


def plain_of(x: Any) -> Any:
    """Return the plain number beneath a value, or ``None`` where it has lanes or is not known yet."""
    return None if has_lanes(x) else known_value(x)


def numbers(values: Iterable) -> list | None:
    """Return the plain numbers beneath values, or ``None`` where one has none."""
    found = [plain_of(x) for x in values]
    return None if any([x is None for x in found]) else found


def reads_tensors(function: Any, *args: Any) -> bool:
    """Whether a function returns a tensor for plain arguments: it reads one from its closure.

    An error is left to the integrator, which will meet it as well.
    """
    if not callable(function):
        return False
    try:
        return tracer_in(function(*args)) is not None
    except Exception:
        return False


def depends(given: Any, calls: Callable[[], Iterable[tuple]]) -> bool:
    """Whether a problem depends on a tensor, given as an argument or read by a function that is called once to see."""
    if tracer_in(given) is not None:
        return True
    if not running.get():  # outside of transforms closures hold no tensors
        return False
    try:
        first = calls()
    except Exception:
        return False  # SciPy's own error is better
    return any([bool(reads(call[0])) or reads_tensors(*call) for call in first])


def refuse_full_output(where: str) -> None:
    """Refuse to say in SciPy's dictionary what happened, where there is no run, or one for each lane."""
    raise UnsupportedError(
        f"{where}: full_output was asked for under vmap or in a program.",
        "its dictionary is about one run, and there is none here, or several",
        "leave full_output out",
    )


def watch_results(function: Any, where: str) -> Any:
    """Return a function that SciPy may call: inside a transform, one that notices tensors among its results."""
    if not running.get() or not callable(function):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    return lambda *args: refuse_captured(function(*args), where, name)


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────


def number(out: Any, where: str, name: str) -> Any:
    """Return the number that an integrand or an event returned, checked."""
    out = operand(out)
    if np.size(out) != 1:
        raise ShapeError(
            f"{where}: `{name}` returned shape {np.shape(out)}.",
            "it returns one number",
            "return a scalar; scipy.integrate.quad_vec integrates functions that return arrays",
        )
    return out if np.shape(out) == () else np.reshape(out, ())


def entries(out: Any, n: int, where: str, name: str, real: bool = False) -> Any:
    """Return the vector of ``n`` numbers that a right-hand side returned, checked, as floating numbers."""
    out = operand(out)
    dtype = aval_of(out).dtype
    if dtype.kind in "biu" or (real and dtype.kind == "f"):
        out = cast(out, np.dtype(float))
    if dtype.kind == "c" and real:
        raise DtypeError(
            f"{where}: `{name}` returned complex numbers for a state of real ones.",
            "the state would become complex as well, and its imaginary part would be lost",
            "pass a complex y0, y0.astype(complex), or write the state as its real and imaginary parts",
        )
    if np.shape(out) == (n,):
        return out
    if np.size(out) == n or (n == 1 and np.shape(out) == ()):
        return np.reshape(out, (n,))
    raise ShapeError(
        f"{where}: `{name}` returned shape {np.shape(out)} for a state of {n} numbers.",
        "it returns the derivative of every entry of y",
        f"return an array of shape ({n},), or a list of {n} numbers",
    )


#: a function is compiled when it has been called so often: that costs as much as some hundred calls
_COMPILED = 60


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────


def compile_callback(function: Callable, examples: Sequence, name: str, where: str) -> Callable:
    """Return a function of plain arrays (it returns a list) as fast code; as it is where it can't be written down."""
    try:
        body = stage(function, [Aval(a.shape, a.dtype) for a in map(aval_of, examples)], name, where)
        if body.captured:
            return function
        by_step = runner(body.program, plain=True)
    except Exception:
        return function
    calls, code = 0, None

    def run(*arrays):
        nonlocal calls, code
        calls += 1
        if calls == _COMPILED:
            code = ABOVE.compiled(body.program)
        out = by_step(*arrays) if code is None else code.run(*arrays)
        for x in out:
            if np.isnan(x).any():  # written without seeing numbers: beside a pole the function itself is asked
                return function(*arrays)
        return out

    return run


def over_lanes(function: Callable, *values: Any) -> Any:
    """Map a function over leading axes; it is called as it is, which is faster code, where they have one entry."""
    if len(values[0]) > 1:
        return vmap(function, randomness="same")(*values)
    out = function(*[v[0] for v in values])
    return tuple([x[None] for x in out]) if isinstance(out, tuple) else out[None]
