"""Lazy tensors: values that are computed when, and only if, somebody needs them.

For: ``checkpoint``, which runs a function again for the sake of its residuals and wants no more of it than they take.
A call that meets a Lazy tensor is noted, as in ``staged.py``; unlike there, its value can always be had, so Python
branches work. Not for: the choice between recomputing and keeping (``rules/checkpoint.py``).
"""

from __future__ import annotations

import warnings
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ..core.aval import Aval, aval_of
from ..core.dispatch import bind
from ..core.level import Level, escaped
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..errors import BranchError, NotRepeatableError
from ..memory.memory import snapshot
from ..ops.kinds import is_finite, known_value
from ..program.ir import Program

__all__ = ["FirstRun", "Lazy", "LazyLevel", "force", "force_all", "zero_question"]

_asking: ContextVar[bool] = ContextVar("dualad_asking", default=False)


@contextmanager
def zero_question() -> Iterator[None]:
    """Let numbers here be those of a question about zeros, which one run of a function may ask and another not."""
    token = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(token)


class _Node:
    """One call of an operator: the pending computation, or its list of results."""

    __slots__ = ("args", "avals", "op", "params", "results")

    def __init__(self, op, args: list, params: dict, avals: tuple[Aval, ...], results: Any = None) -> None:
        self.op, self.args, self.params, self.avals, self.results = op, args, params, avals, results


class _Ref(NamedTuple):
    """A result of a call. Kept apart from the tensor, whose box a write may fill with another one."""

    node: _Node
    index: int


class FirstRun:
    """The record of a function's first run, beside its values, for its second one to be the same.

    ``names`` are the operators whose results were kept, in order. ``raised`` says whether an operator failed (or may
    have), which the function may have caught. ``constants`` holds digests of the arrays and numbers that traced
    values met, by operator, shape and dtype; ``numbers`` are those numbers, and ``settings`` the parameters of each
    operator. All of these may come from the arguments that were no traced values, ``still``; and which way it went may
    depend on whether its arguments were ``known``.
    """

    __slots__ = ("constants", "known", "names", "numbers", "raised", "settings", "still")

    def __init__(self, raised: bool = False) -> None:
        self.constants: dict[tuple, set] = {}
        self.names: list[str] = []
        self.numbers: set[tuple] | None = set()
        self.settings: dict[str, set] = {}
        self.raised = raised
        self.still: list = []
        self.known = True

    def have_arguments(self, arguments: Sequence, moved: Sequence[int]) -> None:
        """Remember the arguments that were no traced values, and whether the numbers in all of them were known."""
        self.still = [x for i, x in enumerate(arguments) if i not in moved]
        self.known = all([known_value(x) is not None for x in arguments])

    def beside(self, other: FirstRun) -> FirstRun:
        """Return the part of this record that a run with the arguments of ``other`` has to repeat."""
        alike = len(other.still) == len(self.still) and all(map(_same, other.still, self.still))
        if alike and other.known == self.known:
            return self
        other.names, other.raised, other.numbers = self.names, self.raised, None
        if alike:
            other.constants = self.constants
        return other

    def note(self, name: str, constant: np.ndarray) -> None:
        """Remember an array that a traced value met."""
        key = name, constant.shape, constant.dtype
        self.constants.setdefault(key, set()).add(_digest(constant))

    def knows(self, name: str, constant: np.ndarray) -> bool:
        """Whether this may be an array that was met before."""
        met = self.constants.get((name, constant.shape, constant.dtype))
        return met is None or _digest(constant) in met


def _same(x: object, y: object) -> bool:
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        return False
    return x is y or (np.shape(x) == np.shape(y) and np.asarray(x).tobytes() == np.asarray(y).tobytes())


def _data_parameters(x: object) -> object:
    """Return the data among an operator's parameters; functions are new objects each time."""
    if isinstance(x, (tuple, list)):
        return tuple([_data_parameters(v) for v in x])
    if isinstance(x, dict):
        return tuple([(k, _data_parameters(v)) for k, v in x.items()])
    if isinstance(x, (bool, int, str, np.dtype)) or x is None:
        return x
    if isinstance(x, Program):
        return tuple(
            [(op.name, _data_parameters(args), _data_parameters(params)) for op, args, params, _ in x.recorded]
        )
    if isinstance(x, (np.ndarray, np.generic)):
        return x.shape, x.dtype, zlib.crc32(x.tobytes())
    return repr(x) if isinstance(x, (float, complex)) else type(x)


def _digest(x: np.ndarray) -> int:
    """A checksum of the bytes: a function that is run again computes bit by bit the same."""
    return zlib.crc32(np.ravel(x).view(np.uint8))


def _errors_wanted() -> bool:
    """Whether a floating-point warning is an error here."""
    modes = set(np.geterr().values())
    if modes <= {"ignore"}:
        return False
    return not modes <= {"ignore", "warn"} or any(f[0] == "error" for f in warnings.filters)


class LazyLevel(Level):
    """A level at which calls are noted; ``policy(name, params)`` says whether the results of an operator are kept.

    A run that repeats an earlier one has that one's record, ``first``, and its ``values``: the results of
    the operators in ``first.names``. Calls that the policy names then take these and compute nothing.

    What may fail is carried out at once, where it stands: the function may catch the error. The second run needs to do
    so only if something failed in the first.
    """

    __slots__ = ("_again", "_at_once", "_kept", "_met", "_replay", "_running", "first", "policy")

    def __init__(
        self, transform: str, policy: Callable | None = None, first: FirstRun | None = None, values: Iterable = ()
    ) -> None:
        super().__init__(transform)
        self.policy = policy
        self._kept: list[tuple[str, _Ref]] = []
        self._met: dict[tuple[str, int], weakref.ref] = {}
        self._again = first is not None
        self.first = first or FirstRun()
        self._replay = iter(list(zip(self.first.names, values, strict=True))) if self._again else None
        self._running, self._at_once = True, self.first.raised or not self._again

    def given(self, value) -> Lazy:
        """Return a value that is known as a lazy tensor."""
        aval = aval_of(value)
        node = _Node(None, [], {}, (Aval(aval.shape, aval.dtype),), [value])
        return Lazy(_Ref(node, 0), self)

    def note(self, op, args: list, params: dict) -> _Node:
        """Note a call, or answer it from the values kept."""
        given = [a.node.avals[a.index] if type(a) is _Ref else aval_of(a) for a in args]
        if self._running:
            self._compare(op.name, args, params)
        try:
            avals = op.abstract_eval(*given, **params)
            avals = tuple(avals) if op.multiple_results else (avals,)
        except BranchError:  # code of the user's in a checkpoint inside this one, which has to know its values
            avals = ()
        node = _Node(op, args, params, avals)
        if not avals:
            self._compute(node)
            node.avals = tuple([aval_of(x) for x in node.results])
        if self.policy is not None and self.policy(op.name, params):
            if self._replay is None:
                self._kept += [(op.name, _Ref(node, i)) for i in range(len(node.avals))]
            else:
                node.args, node.results = [], [self._next(op.name, a) for a in node.avals]
        if self._at_once and node.results is None and (op.raises or _errors_wanted()):
            self._compute(node)
        return node

    def _compute(self, node: _Node) -> None:
        """Carry out a call that may fail, and remember whether it did."""
        failed = True
        try:
            force([node])
            failed = any([known_value(x) is None for x in node.results])  # of a program only the future knows
        finally:
            self.first.raised = self.first.raised or failed

    def constant(self, op: Primitive, value: np.ndarray) -> np.ndarray:
        """Return an array that a traced value met, kept as it is; it has to be the same when it is met again."""
        key = op.name, id(value)
        if self._running and not ((met := self._met.get(key)) is not None and met() is value):
            self._met[key] = weakref.ref(value)  # looked at once in a run: it is between runs that it must not change
            self._see(op.name, value, "a constant array")
        return snapshot(value)

    def _compare(self, name: str, args: list, params: dict) -> None:
        """Remember the numbers and the parameters of a call, or see that they are those of the first run."""
        if self.first.numbers is None:
            return
        for a in args:
            if isinstance(a, (bool, int, float, complex, np.generic)):
                number = name, type(a), a
                if number not in self.first.numbers:
                    self._see(name, np.asarray(a), f"{a!r}, a number")
                    self.first.numbers.add(number)
        if params:
            met, found = self.first.settings.get(name), _data_parameters(params)
            if not self._again:
                self.first.settings.setdefault(name, set()).add(found)
                self._look_into(params)
            elif met is not None and found not in met and not _asking.get():
                raise self._not_repeated(f"`{name}` with other settings than in its first run")

    def _look_into(self, params: dict) -> None:
        """Remember the arrays in programs, of which a run that knows its numbers takes one and carries it out."""
        for x in params.values():
            for program in x if isinstance(x, tuple) else (x,):
                if isinstance(program, Program):
                    for op, args, inner, _ in program.recorded:
                        for a in args:
                            if type(a) is np.ndarray:
                                self.first.note(op.name, a)
                        self._look_into(inner)

    def _see(self, name: str, value: np.ndarray, what: str) -> None:
        if not self._again:
            self.first.note(name, value)
        elif not (self.first.knows(name, value) or _asking.get()):
            raise NotRepeatableError(
                f"{self.transform}: run again, the function met other numbers in {what} of shape {value.shape} and"
                f" dtype {value.dtype} ({name}) than in its first run.",
                "its value is that of the first run, and its derivative would be that of the second; an array, a list"
                " or a name that it reads from outside has been changed in between, or it draws random numbers",
                "pass what changes as an argument, which is kept as it was, or change a copy",
            )

    def _next(self, name: str, aval: Aval):
        kept, value = next(self._replay, (None, None))
        if kept != name or aval_of(value) != aval:
            first = f"`{kept}` {aval_of(value)!r}" if kept else "nothing"
            raise self._not_repeated(f"`{name}` {aval!r} where its first run computed {first}")
        return value

    def _not_repeated(self, what: str) -> NotRepeatableError:
        return NotRepeatableError(
            f"{self.transform}: run again, the function computed {what}.",
            "its value is that of the first run, and what was kept of that can't be put in its place",
            "checkpoint functions that do the same each time they are run: no random numbers, no counters that they"
            " read, no state that changes in between",
        )

    def end_of_function(self) -> None:
        """Say that the function has returned: later computations are its pullback's, and not kept."""
        self.policy, self._running, self._at_once = None, False, False
        if self._replay is not None and (left := next(self._replay, None)) is not None:
            raise self._not_repeated(f"nothing where its first run computed `{left[0]}` {aval_of(left[1])!r}")

    def kept(self) -> list:
        """Return the values of what the policy kept, whose names are remembered."""
        force([ref.node for _, ref in self._kept])
        self.first.names = [name for name, _ in self._kept]
        return [ref.node.results[ref.index] for _, ref in self._kept]


class Lazy(Tracer):
    """A value that may not have been computed yet."""

    __slots__ = ()

    def __init__(self, ref: _Ref, level: LazyLevel) -> None:
        self.variable = ref
        self.level = level

    def process(self, op, args, params):
        """Note a call."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`", self)
        atoms = [
            a.variable
            if type(a) is Lazy and a.level is level
            else level.constant(op, a)
            if type(a) is np.ndarray
            else snapshot(a)
            if isinstance(a, Tracer)
            else a
            for a in args
        ]
        node = level.note(op, atoms, params)
        if op.multiple_results:
            return tuple([Lazy(_Ref(node, i), level) for i in range(len(node.avals))])
        return Lazy(_Ref(node, 0), level)

    def value(self):
        """Return the value, computing it if need be."""
        node, index = self.variable
        force([node])
        return node.results[index]

    def known(self):
        """Return the numbers beneath, computing them if need be."""
        return known_value(self.value())

    def is_finite(self) -> bool | None:
        """Whether all numbers are finite, if they have been computed."""
        node, index = self.variable
        return None if node.results is None else is_finite(node.results[index])

    @property
    def aval(self) -> Aval:
        """The abstract value: shape, dtype, weakness."""
        return self.variable.node.avals[self.variable.index]

    @property
    def shape(self):
        """The shape of the value."""
        return self.aval.shape

    @property
    def dtype(self):
        """The dtype of the value."""
        return self.aval.dtype

    # Whoever needs a plain value gets it: this tensor is not differentiated or batched, it is only late.

    def __bool__(self):
        return bool(self.value())

    def __int__(self):
        return int(self.value())

    def __float__(self):
        return float(self.value())

    def __complex__(self):
        return complex(self.value())

    def __index__(self):
        return self.value().__index__()

    def __array__(self, dtype=None, copy=None):
        value = self.value()
        return value.__array__(dtype) if isinstance(value, Tracer) else np.asarray(value, dtype)

    def item(self, *args):
        """Return the value as a Python number."""
        return self.value().item(*args)

    def tolist(self):
        """Return the value as lists of Python numbers."""
        return self.value().tolist()

    def concretize(self, what: str):
        """Return the plain value, or what the tensor that is the value agrees on."""
        value = self.value()
        return value.concretize(what) if isinstance(value, Tracer) else value

    def _text(self) -> str:
        results = self.variable.node.results
        known = "not computed yet" if results is None else repr(results[self.variable.index])
        return f"Lazy({self.aval!r}, {known}"


def force_all(xs: Iterable) -> list:
    """Return values in place of lazy tensors, computing what they need, each call once."""
    xs = list(xs)
    force([x.variable.node for x in xs if type(x) is Lazy])
    return [x.value() if type(x) is Lazy else x for x in xs]


def force(nodes: list[_Node]) -> None:
    """Compute calls and what they depend on: a loop with a stack of its own, for programs of any depth."""
    stack = [n for n in reversed(nodes) if n.results is None]
    if not stack:
        return
    with zero_question():  # a checkpoint around this one has not met these numbers itself
        while stack:
            node = stack[-1]
            if node.results is not None:
                stack.pop()
                continue
            missing = [a.node for a in node.args if type(a) is _Ref and a.node.results is None]
            if missing:
                stack += missing
                continue
            args = [a.node.results[a.index] if type(a) is _Ref else a for a in node.args]
            out = bind(node.op, args, node.params)
            # The arguments are let go: what nobody else needs is freed.
            node.results, node.args = list(out) if node.op.multiple_results else [out], []
            stack.pop()
