"""Operators: one declaration holds all that dualad knows of one operation.

For: the record itself, and the checks that a declaration must pass when it is made. Not for: rules (``ops/``),
kinds that fill in common rules (``ops/kinds.py``), or who runs them.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from ..base.frames import PACKAGE
from ..errors import DeclarationError
from .dispatch import bind
from .libraries import run_lazily
from .tables import OPS, UFUNCS, register

__all__ = ["Primitive"]

#: files whose functions make declarations for others; "<string>" is the code that `dataclass` writes
_MAKERS = (
    __file__,
    *[
        os.path.join(PACKAGE, *file.split("/"))
        for file in ("ops/kinds.py", "ops/special_kinds.py", "rules/calls.py", "control/control_ops.py")
    ],
    "<string>",
)


@dataclass(slots=True, eq=False)
class Primitive:
    """One operator: a primitive of the library.

    Parameters
    ----------
    name : str
        Its name in programs and tables; unique.
    impl : callable
        ``impl(*arrays, **params)``: NumPy on plain arrays.
    abstract_eval : callable
        ``abstract_eval(*avals, **params)``: the aval of the result (a tuple of avals if ``multiple_results``), raising
        with words.
    jvp : callable or None
        ``jvp(primals, tangents, **params)``: value and tangent; a tangent ``None`` is exactly zero, on both sides.
        ``None`` declares a result without derivative (a predicate, an index, a step function).
    linear_in : tuple of int, or callable
        Argument positions the operator is linear in. ``-1`` alone means every position (joins). Where they depend on
        the call, ``linear_in(count, params)``.
    joint : bool
        Linear in those positions together (``add``, ``concatenate``) rather than in each one separately
        (``multiply``, ``matmul``).
    transpose : callable or None
        ``transpose(ct, *args, **params)``: cotangents, one per argument, ``None`` for known arguments. An argument
        the operator is to be transposed in is given as its ``Aval``; a known one as its value.
    batch : callable or None
        ``batch(size, values, mapped, **params)``: the operator on values of which the mapped ones have one more
        leading axis, all results having one too. ``None`` falls back to a loop over lanes.
    moves : bool
        Whether every entry of a result is an entry of a linear argument, or zero: ``impl`` run on positions says which.
    collects : bool
        Whether every entry of its first argument is added to one entry of the result, and to no other: ``transpose``
        run on the result's positions says to which.
    samples : sequence or callable
        Sample arguments inside the domain, or a function that makes them; see ``ops/samples.py``.
    numpy : sequence of callables
        NumPy callables that mean exactly this operator.
    multiple_results : bool
        Whether the result is a tuple.
    strong_transpose : callable or None
        ``transpose`` beside a pole, of an operator that multiplies by what may be infinite or zero. It is told
        ``live`` and ``hot`` as well, of which ``factor_transpose`` in ``ops/kinds.py`` makes use.
    marked_transpose : callable or None
        ``strong_transpose`` of an operator that runs programs, which knows more: it is told a mask for each result in
        ``live``, ``hot``, and in ``wanted`` which arguments need one, and returns a ``Marked`` (``liveness.py``).
    pole : bool
        Whether it stands in programs where a factor may be infinite (``scale``).
    sparse_transpose : bool
        Of an operator with several results: whether ``transpose`` is given ``None`` for exactly zero cotangents.
    effect : bool
        Whether transposing it calls a function for what that function does besides returning (a hook): once per pull.
    kept : bool
        Whether an equation of it stays though nothing reads its result, in its turn: it is there for what it does.
    across : callable or None
        ``across(level, value, params)``, in place of ``batch``: of an operator that works across the lanes of a named
        axis.
    contracts : bool
        Whether it sums products over an axis: dear to compute, small to keep.
    given : tuple of str
        Which of its rules a user has given, of ``"jvp"``, ``"transpose"``, ``"batch"``, and ``"solve"`` (the solver
        that the rules rest on): debugging tests those, and ``explain`` names them.
    place_read : callable or None
        ``place_read(params)`` says whether a call reads a single place of its first argument by a known position;
        reverse mode gathers the cotangents of many such reads and writes them in one go.
    reruns : bool
        Whether its rule is to run the function of its parameter ``call`` again: tools look inside.
    raises : bool
        Whether it may fail because of the numbers it is given (a singular matrix, code of the user's): where calls are
        noted to be carried out later, it is carried out at once, so that the user's ``except`` catches it.
    sees_steps : bool
        Whether inside a body it is differentiated only where the steps are seen one by one.
    prepared : callable or None
        ``prepared(avals, params)`` returns what compiled programs call in place of ``impl`` with arguments like these;
        None where there is nothing quicker. With ``mapped`` and ``lanes`` it runs so many lanes of the mapped arguments
        at once, and lets other threads run meanwhile.
    blocks : str
        How it is run on a lazy array in blocks: ``""`` as on any other; where the library computes nothing of
        the kind lazily, ``"entries"`` block by block, ``"one"`` in one block only, ``"stack"`` so, but along
        the first axis of a stack of matrices block by block, ``"matrices"`` as a stack, and one matrix by the library.
    kind : str
        The kind it was made by, for tables.
    """

    name: str
    _: KW_ONLY
    impl: Callable
    abstract_eval: Callable
    jvp: Callable | None
    linear_in: tuple[int, ...] | Callable = ()
    joint: bool = False
    transpose: Callable | None = None
    batch: Callable | None = None
    moves: bool = False
    collects: bool = False
    samples: Sequence | Callable | None = None
    numpy: Sequence[Callable] = ()
    multiple_results: bool = False
    strong_transpose: Callable | None = None
    marked_transpose: Callable | None = None
    pole: bool = False
    sparse_transpose: bool = False
    effect: bool = False
    kept: bool = False
    across: Callable | None = None
    contracts: bool = False
    given: tuple[str, ...] = ()
    place_read: Callable[[dict], bool] | None = None
    reruns: bool = False
    raises: bool = False
    sees_steps: bool = False
    prepared: Callable | None = None
    blocks: str = ""
    kind: str = "op"
    place: str = field(init=False)
    #: whether reverse mode has nothing to look at but its transpose: one result, no places read, no bodies, no effects
    alone: bool = field(init=False)

    def __post_init__(self) -> None:
        name = self.name
        if name in OPS:
            raise DeclarationError(
                f"operator {name!r} is declared twice.",
                f"the first stands at {OPS[name].place}, and programs know operators by name",
                "give it a name of its own",
            )
        if self.linear_in and self.transpose is None:
            raise DeclarationError(
                f"operator {name!r} is declared linear in arguments {self.linear_in} but has no transpose.",
                "reverse mode walks every linear operator backwards",
                "give transpose=, or drop linear_in=",
            )
        if self.samples is None:
            raise DeclarationError(
                f"operator {name!r} is declared without samples.",
                "its samples are its tests",
                "give samples=, with the special points of its domain",
            )
        self.numpy, self.place = tuple(self.numpy), _find_declaration()
        if self.blocks:
            self.impl = _with_lazy_arrays(self, self.impl)
        rare = (self.multiple_results, self.place_read, self.effect, self.kept, self.marked_transpose)
        self.alone = not any(rare)
        for function in self.numpy:
            register(UFUNCS, function, self, "op")
        OPS[name] = self

    def __call__(self, *args, **params):
        return bind(self, args, params)

    def linear_positions(self, count: int, params: dict) -> Sequence[int]:
        """Return the positions a call with ``count`` arguments is linear in."""
        if callable(self.linear_in):
            return self.linear_in(count, params)
        return range(count) if self.linear_in == (-1,) else self.linear_in

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self):
        file = self.place.rpartition(":")[0]
        inside = file.removeprefix(PACKAGE).removesuffix(".py").replace(os.sep, ".")
        return _primitive_named, (self.name, self.impl.__module__ if inside == file else f"dualad.{inside}")


def _with_lazy_arrays(op: Primitive, impl: Callable) -> Callable:
    """The implementation of an operator that the libraries of lazy arrays do not have."""

    @functools.wraps(impl)
    def run(*args, **params):
        out = run_lazily(op, args, params, op.blocks)
        return impl(*args, **params) if out is NotImplemented else out

    return run


def _primitive_named(name: str, module: str) -> Primitive:
    if name not in OPS:  # where it is read nobody may have loaded what declares it
        importlib.import_module(module)
    return OPS[name]


def _find_declaration() -> str:
    """Return ``file:line`` of the declaration: the nearest frame that is neither in this file nor in a kind."""
    frame = sys._getframe()
    while frame.f_code.co_filename in _MAKERS and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
