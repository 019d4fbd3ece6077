"""Functions of users' as the integrators call them: closed over what they read, written down once, compiled.

For: ``closed`` (the traced values that a function reads from its closure become arguments), ``prepared`` (a function
of plain arrays that is called thousands of times, traced once if it has no branches) and the questions that decide
between SciPy's function and ours. Not for: what is integrated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import optree

from ...batched import Batched
from ...control.subprograms import output_avals, runner, stage
from ...core.above import ABOVE
from ...core.arguments import replaced
from ...core.aval import Aval, aval_of
from ...core.boundary import running
from ...core.tracer import Tracer, tracer_in
from ...dual import Dual
from ...errors import ArgumentTypeError, CapturedTensorError, OutputError, ShapeError, UnsupportedError
from ...ops.kinds import known
from ...surface.arguments import operand
from ...tree import flatten
from ..closures import reads, with_values

__all__ = [
    "Closed", "Closing", "Parameters", "closed", "depends", "entries", "has_lanes", "in_a_transform",
    "number", "numbers", "plain_of", "prepared", "reads_tensors", "refuse_captured", "refuse_full_output", "watched",
]  # fmt: skip


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────


def has_lanes(*values: Any) -> bool:
    """Say whether a value is different from lane to lane of a ``vmap``."""
    for x in values:
        while isinstance(x, Tracer):
            if type(x) is Batched:
                return True
            x = x.inner if type(x) is Dual else None
    return False


def plain_of(x: Any) -> Any:
    """Return the plain number beneath a value, or ``None`` where it has lanes or is not known yet."""
    return None if has_lanes(x) else known(x)


def numbers(values: Iterable) -> list | None:
    """Return the plain numbers beneath values, or ``None`` where one has none."""
    found = [plain_of(x) for x in values]
    return None if any([x is None for x in found]) else found


def in_a_transform() -> bool:
    """Say whether a function of the user's runs inside a transform, so that its closures may hold tensors."""
    return running.get()


def reads_tensors(function: Any, *args: Any) -> bool:
    """Say whether a function returns a tensor for plain arguments: it reads one from its closure.

    An error is left to the integrator, which will meet it as well.
    """
    if not callable(function):
        return False
    try:
        return tracer_in(function(*args)) is not None
    except Exception:
        return False


def depends(given: Any, calls: Callable[[], Iterable[tuple]]) -> bool:
    """Say whether a problem depends on something traced: given so, or read in a call of a function at its start."""
    if tracer_in(given) is not None:
        return True
    if not in_a_transform():
        return False
    try:
        first = calls()
    except Exception:
        return False  # SciPy says what is wrong
    return any([bool(reads(call[0])) or reads_tensors(*call) for call in first])


def refuse_captured(out: Any, where: str, name: str) -> Any:
    """Return what a function returned for plain arguments, if it is plain."""
    if tracer_in(out) is None:
        return out
    raise CapturedTensorError(
        f"{where}: `{name}` returned a tensor for plain arguments.",
        "it reads a traced value through a closure, and could not be written down to find out which (it branches on"
        " values, or calls code that is not NumPy)",
        f"pass the value as an argument: {where}({name}, ..., args=(value,))",
    )


def refuse_full_output(where: str) -> None:
    """Refuse to say in SciPy's dictionary what happened, where there is no run, or one for each lane."""
    raise UnsupportedError(
        f"{where}: full_output was asked for under vmap or in a program.",
        "its dictionary is about one run, and there is none here, or several",
        "leave full_output out",
    )


def watched(function: Any, where: str) -> Any:
    """Return a function that SciPy may call: inside a transform, one that notices tensors among its results."""
    if not in_a_transform() or not callable(function):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    return lambda *args: refuse_captured(function(*args), where, name)


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────


def number(out: Any, where: str, name: str) -> Any:
    """Return what an integrand or an event returned: one number."""
    out = operand(out)
    if np.size(out) != 1:
        raise ShapeError(
            f"{where}: `{name}` returned shape {np.shape(out)}.",
            "it returns one number",
            "return a scalar; scipy.integrate.quad_vec integrates functions that return arrays",
        )
    return out if np.shape(out) == () else np.reshape(out, ())


def entries(out: Any, n: int, where: str, name: str) -> Any:
    """Return what a right-hand side returned: a vector of ``n``."""
    out = operand(out)
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


class Closed:
    """A function of flat arguments that reads nothing else: ``function(*arguments, *captured)``.

    ``out`` is what it returns, where it is a program that was written down and branches on nothing, otherwise ``None``.
    """

    __slots__ = ("captured", "function", "out")

    def __init__(self, function: Callable, captured: Sequence[Tracer], out: Aval | None) -> None:
        self.function, self.captured, self.out = function, list(captured), out


def closed(function: Callable, examples: Sequence, name: str, where: str) -> Closed:
    """Write a function of flat arguments (it returns one value) down, or take it as it is where that can't be done."""
    try:
        body = stage(lambda *xs: [function(*xs)], [_strong(x) for x in examples], name, where)
    except (ShapeError, OutputError):
        raise
    except Exception:
        return Closed(function, [], None)
    run = runner(body.program)
    return Closed(lambda *xs: run(*xs)[0], body.captured, output_avals(body.program)[0])


def prepared(function: Callable, examples: Sequence, name: str, where: str) -> Callable:
    """Return a function of plain arrays (it returns a list) as fast code; as it is where it can't be written down."""
    try:
        body = stage(function, [_strong(x) for x in examples], name, where)
        if body.captured:
            return function
        code = runner(body.program, plain=True)
    except Exception:
        return function
    calls = 0

    def run(*arrays):
        nonlocal calls, code
        calls += 1
        if calls == _COMPILED:
            code = ABOVE.compiled(body.program)
        out = code(*arrays)
        for x in out:
            if np.isnan(x).any():  # written without seeing numbers: beside a pole the function itself is asked
                return function(*arrays)
        return out

    return run


def _strong(x: Any) -> Aval:
    a = aval_of(x)
    return Aval(a.shape, a.dtype)


class Parameters:
    """What functions depend on: the traced leaves of ``args``, then the traced values that their closures hold.

    ``values`` are the operands of an operator; every function made by ``close`` takes all of them behind its own
    arguments.
    """

    def __init__(self, args: Any, where: str) -> None:
        if not isinstance(args, tuple):
            raise ArgumentTypeError(
                f"{where}: args={type(args).__name__}.",
                "the extra arguments of the function are a tuple",
                "write args=(value,), with a comma",
            )
        self.where = where
        leaves, self._tree = flatten(args)
        self._leaves = [operand(x) if tracer_in(x) is not None else x for x in leaves]
        self._places = [i for i, x in enumerate(self._leaves) if isinstance(x, Tracer)]
        self.values: list = [self._leaves[i] for i in self._places]

    def fill(self, values: Sequence) -> tuple:
        """Return ``args`` with these values for the traced leaves."""
        return optree.tree_unflatten(self._tree, replaced(self._leaves, self._places, values[: len(self._places)]))

    def close(self, function: Callable, examples: Sequence, finish: Callable) -> Closing:
        """Close a function of the user's, ``function(*examples, *args)``, whose result ``finish`` makes plain."""
        name, k, own = getattr(function, "__name__", type(function).__name__), len(examples), len(self._places)

        def flat(*xs):
            return finish(function(*xs[:k], *self.fill(xs[k:])), name)

        made = closed(flat, [*examples, *self.values[:own]], name, self.where)
        opened = None
        held = reads(function)
        if held and made.out is None:  # it branches on values: what is found in its closure is put in from outside
            places = {id(x): i for i, x in enumerate(held)}
            opened = lambda values: with_values(function, lambda x: values[places[id(x)]])
            calls = lambda *xs: finish(opened(xs[k + own :])(*xs[:k], *self.fill(xs[k : k + own])), name)
            made = Closed(calls, held, None)
        return Closing(self, function, finish, name, k, made, opened, bool(held))


class Closing:
    """A closed function: ``of_all`` for derivatives, ``plain`` for numbers."""

    def __init__(
        self, parameters: Parameters, function, finish, name: str, k: int, made: Closed, opened: Callable | None,
        reading: bool,
    ) -> None:  # fmt: skip
        self.name, self.captures, self.out = name, bool(made.captured) or reading, made.out
        self._opened = opened
        self._function, self._finish, self._parameters, self._k, self._made = function, finish, parameters, k, made
        self._own = len(parameters._places)
        held = {id(x): i for i, x in enumerate(parameters.values)}
        self._captured = []
        for x in made.captured:
            if id(x) not in held:
                held[id(x)] = len(parameters.values)
                parameters.values.append(x)
            self._captured.append(held[id(x)])

    def of_all(self, *xs: Any) -> Any:
        """Call it with all parameters, plain or traced."""
        k = self._k
        return self._made.function(*xs[: k + self._own], *[xs[k + i] for i in self._captured])

    def plain(self, values: Sequence) -> Callable:
        """Return a function of plain arguments for plain parameters: the user's own wherever that can be called."""
        if self.captures:
            mine = [values[i] for i in self._captured]
            if self._opened is not None:
                return self._watched(self._opened(mine), self._parameters.fill(values))
            return lambda *xs: self._made.function(*xs, *values[: self._own], *mine)
        args, function = self._parameters.fill(values), self._function
        if self.out is not None:
            return lambda *xs: function(*xs, *args)
        return self._watched(function, args)

    def _watched(self, function: Callable, args: tuple) -> Callable:
        where, name = self._parameters.where, self.name
        return lambda *xs: refuse_captured(function(*xs, *args), where, name)
