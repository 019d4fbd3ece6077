"""Staged tensors: a variable of a program that is being written, at a level.

For: ``linearize`` and ``trace``. A call that meets a Staged tensor is not run but recorded, with the values of
everything else as constants: partial evaluation is dispatch. Not for: its transpose (``program/``).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..core.above import ABOVE
from ..core.aval import PROMOTING, Aval, aval_of, is_weak, promoted_numbers, python_dtype, result_dtype
from ..core.contexts import active, compiling, errors_raised, everywhere, in_use, writing
from ..core.level import Level, escaped
from ..core.tracer import NO_PARAMS, OPERATOR, Tracer
from ..memory.memory import layout, snapshot, snapshot_once, stand_in
from ..ops.arithmetic import add, divide, multiply, negative, subtract
from ..ops.contraction import einsum
from ..ops.indexing import INDEXED, index
from ..ops.shaping import astype, copy, flip, transpose
from ..program.ir import Program, live_steps
from ..program.variable import BoundedSteps, Variable, WatchedSteps

__all__ = ["Staged", "StagedLevel"]


#: kinds of operators, and others, that NumPy can be asked of which order their results have; and those that give
#: another order than C of operands in C order
_ASKED = frozenset({
    "barrier", "bilinear", "binary", "einsum", "join", "linear", "predicate", "quotient", "reduction", "refused",
    "scan", "sort", "sum", "unary", "vector_norm",
})  # fmt: skip
_MOVES = frozenset({copy, einsum, flip, index, transpose})
_DOUBLE = np.dtype(float)

#: operators of Python's numbers that may raise
_OF_NUMBERS = frozenset({
    "arccos", "arccosh", "arcsin", "arctanh", "cos", "cosh", "divide", "divmod", "exp", "exp2",
    "expm1", "floor_divide", "log", "log10", "log1p", "log2", "power", "remainder", "sin", "sinh", "sqrt", "tan",
})  # fmt: skip


class StagedLevel(Level):
    """A level at which a program is written.

    With ``owning``, arrays that somebody else could still write to are copied when they become constants of the
    program. Below a linearizing dual level there is no need: what arrives here has been copied or just computed.
    ``linear`` says that the program must be linear in its inputs.
    """

    __slots__ = (
        "_copies", "_looked_at", "_strides", "_token", "inputs", "linear", "numbers", "owning", "plain", "steps",
    )  # fmt: skip

    def __init__(self, transform: str, owning: bool = False, linear: bool = False) -> None:
        Level.__init__(self, transform)
        self.owning, self.linear = owning, linear
        #: whether every step so far is of an operator of which nothing is to be asked before it is transposed, on plain
        #: constants
        self.plain = True
        self.steps: list[tuple] = WatchedSteps() if in_use and active() is not None else []
        self.inputs: list[Variable] = []
        #: what has been computed from Python numbers alone, which promotes as they do; None where nobody asks
        self.numbers: set[Variable] | None = None
        #: of arrays that the program has read
        self._copies: dict[int, tuple[Any, Any]] = {}
        #: of variables that are not in C order, and how many steps have been looked at
        self._strides: dict[Variable, tuple[int, ...]] = {}
        self._looked_at = 0

    def __enter__(self):
        if self.owning:
            self._token = writing.set(self)
        return Level.__enter__(self)

    def __exit__(self, *exc_info) -> None:
        if self.owning:
            writing.reset(self._token)
        Level.__exit__(self, *exc_info)

    def strides(self, variable: Variable) -> tuple[int, ...] | None:
        """Return the strides that NumPy's array would have; ``None`` for C order, as of inputs unless they are told."""
        for op, atoms, params, outs in itertools.islice(self.steps, self._looked_at, None):
            if outs and (op.kind in _ASKED or op.name in _ASKED) and len(outs[0].aval.shape) > 1:
                if op in _MOVES or any([self._is_strided(a) for a in atoms]):
                    operands = [self._stand_in(a) for a in atoms]
                    with np.errstate(all="ignore"):  # NumPy is asked where the entries go, not what they are
                        out = op.impl(*operands, **params)
                    for v, a in zip(outs, out if op.multiple_results else [out], strict=True):
                        if a.ndim and not a.flags.c_contiguous:
                            self._strides[v] = a.strides
        self._looked_at = len(self.steps)
        return self._strides.get(variable)

    def taken_apart(self, size: int) -> None:
        """Bound the program from here on: each entry has equations of its own."""
        if type(self.steps) is list:
            self.steps = BoundedSteps(self.steps)
            self.steps.refuse(size)

    def lay_out(self, strides: dict[Variable, tuple[int, ...]]) -> None:
        """Note the strides of inputs that are not in C order."""
        self._strides.update(strides)

    def _is_strided(self, a) -> bool:
        if type(a) is Variable:
            return a in self._strides
        return isinstance(a, Tracer) or (type(a) is np.ndarray and not a.flags.c_contiguous)

    def _stand_in(self, a):
        if type(a) is Variable:
            return stand_in(a.aval.shape, a.aval.dtype, self._strides.get(a))
        return layout(a) if isinstance(a, Tracer) else a

    def new_input(self, aval: Aval) -> Staged:
        """Add an input to the program and return the tensor that stands for it."""
        variable = Variable(aval)
        self.inputs.append(variable)
        if self.owning and is_weak(aval) and self.numbers is None:
            self.numbers = set()
        return Staged(variable, self)

    def record(self, op, args, params):
        """Record an operator as the next step; arguments that aren't of this program become constants of it."""
        if not op.alone:
            self.plain = False
        taken = self.constant if self.owning else lambda a: a
        atoms = [a.variable if type(a) is Staged and a.level is self else taken(a) for a in args]
        out = op.abstract_eval(*[a.aval if type(a) is Variable else self.aval(a) for a in atoms], **params)
        return self.append(op, atoms, params, out)

    def append(self, op, atoms, params, out):
        """Add a step, and return the tensors that stand for its results, whose avals are ``out``."""
        if op.multiple_results:
            outs = tuple([Variable(aval) for aval in out])
            self.steps.append((op, atoms, params, outs))
            return tuple([Staged(v, self) for v in outs])
        variable = Variable(out if not is_weak(out) else Aval(out.shape, out.dtype))
        if self.numbers is not None:
            atoms, variable = self.promote(op, atoms, params, variable)
        self.steps.append((op, atoms, params, (variable,)))
        return Staged(variable, self)

    def promote(self, op, atoms, params, out: Variable):
        """Return the arguments and the result of an operator as NumPy's promotion of Python numbers has them.

        What Python computes of its numbers alone is a Python number, and does not widen a dtype. In a program it is
        NumPy's number; where that would make a difference, it is converted first.
        """
        numbers, name = self.numbers, op.name
        if numbers is None or name not in PROMOTING:
            return atoms, out
        avals = [self.aval(a) for a in atoms]
        found = [i for i, x in enumerate(atoms) if self.is_number(x)]
        if all([is_weak(a) or i in found for i, a in enumerate(avals)]):
            if params is OPERATOR:
                numbers.add(out)
            return atoms, out
        if not found:
            return atoms, out
        as_numbers = promoted_numbers(avals, found)
        if as_numbers is None:
            return atoms, out
        atoms, dtype = list(atoms), result_dtype(*as_numbers)
        for i in found:
            if type(atoms[i]) is not Variable:  # a constant stays one
                atoms[i] = atoms[i].process(astype, (atoms[i],), {"dtype": dtype})
                continue
            narrow = Variable(Aval((), dtype))
            self.steps.append((astype, (atoms[i],), {"dtype": dtype}, (narrow,)))
            atoms[i] = narrow
        return atoms, Variable(op.abstract_eval(*as_numbers, **params))

    def is_number(self, a) -> bool:
        """Whether an atom has been computed from Python numbers alone."""
        if type(a) is Variable:
            return self.numbers is not None and a in self.numbers
        return isinstance(a, Tracer) and a.is_python_number()

    def attempt(self, op, args):
        """Take a note of an operator that may raise, which is the next step, if this level cares."""

    def hold(self, a: np.ndarray):
        """Return the atom for an array that somebody else may write to later."""
        return a if not a.flags.writeable and a.base is None else snapshot_once(a, self._copies)

    def constant(self, a):
        """Return the atom for a value of another level, which somebody else may write to later."""
        if type(a) is np.ndarray:
            a = self.hold(a)
            return a.variable if type(a) is Staged else a
        if not isinstance(a, Tracer):
            return a
        if a.is_python_number():
            self.numbers = set() if self.numbers is None else self.numbers
            return a
        return snapshot(a)

    def aval(self, a) -> Aval:
        """Return the aval of an atom, and take a note if it is a constant that is a tensor."""
        if type(a) is Variable:
            return a.aval
        if isinstance(a, Tracer):
            self.plain = False
            if type(a) is Staged:  # of a Python number, it is weak
                return a.variable.aval
        return aval_of(a)

    def decide(self, variable: Variable, what: str):
        """Return the value of a variable, if this level follows values and may depend on them; else ``None``."""
        return None

    def finish(self, outputs, name: str, once: bool = False) -> Program:
        """Close the program: keep the equations its outputs depend on.

        One that is walked back ``once`` is left as it is: the walk passes over what nothing depends on.
        """
        atoms = [
            o.variable if type(o) is Staged and o.level is self
            else snapshot(o) if self.owning and (type(o) is np.ndarray or isinstance(o, Tracer))
            else o
            for o in outputs
        ]  # fmt: skip
        steps = self.steps if once and not in_use else live_steps(self.steps, atoms)
        program = Program(self.inputs, steps, atoms, name)
        program.plain = self.plain
        self.steps, self.inputs = [], []
        self._copies.clear()
        return program


def _check_size(op, left: Any, right: Any, params: dict) -> None:
    """Raise NumPy's error for a Python integer without room in the other operand's dtype, also of a dead result."""
    x, number = (left, right) if type(right) is int else (right, left)
    if (x.dtype.kind in "iub" or number.bit_length() > 1023) and not is_weak(x):
        none = np.empty(0, x.dtype)
        try:
            op.impl(*((none, right) if x is left else (left, none)), **params)
        except OverflowError:
            raise
        except Exception:  # of other operators, for which entries are needed
            return


class Staged(Tracer):
    """A value that is not known yet: a variable of the program of its level."""

    __slots__ = ()

    def __init__(self, variable: Variable, level: StagedLevel) -> None:
        self.variable = variable
        self.level = level

    def process(self, op, args, params):
        """Record an operator as the next step of the program."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`", self)
        if level.owning and (noted := compiling.get()) is not None:
            noted |= errors_raised()
            if op.raises or op.name in INDEXED or op.name in _OF_NUMBERS:
                level.attempt(op, args)
        # An array has a shape and a dtype of its own and serves as its aval; only a Python scalar needs a weak one.
        # One argument or two are spelled out: recording is the larger part of reverse mode's overhead.
        n = len(args)
        if n < 3 and not op.alone:
            level.plain = False
        if n == 1:
            x = args[0].variable
            atoms = (x,)
            out = op.abstract_eval(x.aval, **params)
        elif n == 2:
            x, y = args
            if type(x) is Staged and x.level is level:
                x = x.variable
                left = x.aval
            else:
                x = level.constant(x) if level.owning and type(x) is not float else x
                left = x if type(x) is np.ndarray else level.aval(x)
                if type(x) is int and not 0 <= x < 128:
                    _check_size(op, x, y.variable.aval, params)
            if type(y) is Staged and y.level is level:
                y = y.variable
                right = y.aval
            else:
                y = level.constant(y) if level.owning and type(y) is not float else y
                right = y if type(y) is np.ndarray else level.aval(y)
                if type(y) is int and not 0 <= y < 128:
                    _check_size(op, left, y, params)
            atoms = (x, y)
            out = op.abstract_eval(left, right, **params)
        else:
            return level.record(op, args, params)
        if op.multiple_results or level.numbers is not None:
            return level.append(op, atoms, params, out)
        variable = Variable(out)
        level.steps.append((op, atoms, params, (variable,)))
        return Staged(variable, level)

    # Nearly everything that is recorded is a tangent times a derivative of its own shape and dtype, or a sum of two
    # tangents: these few cases are spelled out, and are a third of the time of reverse mode.

    def __mul__(self, other):
        variable, level = self.variable, self.level
        aval = variable.aval
        if type(other) is np.ndarray and other.dtype is aval.dtype and other.shape == aval.shape:
            # As in `_scale`, two calls less: this is what reverse mode records most.
            if level.open and not (level.owning or everywhere or aval.weak) and aval.dtype.kind in "fc":
                out = Variable(aval)
                level.steps.append((multiply, (variable, other), NO_PARAMS, (out,)))
                return Staged(out, level)
        out = self._scale(multiply, other)
        return Tracer.__mul__(self, other) if out is None else out

    def __truediv__(self, other):
        out = self._scale(divide, other)
        return Tracer.__truediv__(self, other) if out is None else out

    def __add__(self, other):
        out = self._beside(add, other)
        return Tracer.__add__(self, other) if out is None else out

    def __sub__(self, other):
        out = self._beside(subtract, other)
        return Tracer.__sub__(self, other) if out is None else out

    def __neg__(self):
        out = self._step(negative, (self.variable,)) if self.dtype.kind in "fc" else None
        return Tracer.__neg__(self) if out is None else out

    def _scale(self, op, constant):
        """Record ``op(self, constant)`` if the result has the shape and the dtype of this tensor."""
        variable, level, kind = self.variable, self.level, type(constant)
        aval = variable.aval
        if kind is np.ndarray or (kind is Staged and constant.level.number < level.number):
            if constant.dtype is not aval.dtype or constant.shape != aval.shape or level.owning:
                return None
            if kind is Staged:
                level.plain = False
        elif kind is np.float64:  # as in a loop over scalars
            if aval.dtype is not _DOUBLE or level.owning:
                return None
        elif kind is not float:
            return None
        return self._step(op, (variable, constant)) if aval.dtype.kind in "fc" else None

    def _beside(self, op, other):
        """Record ``op(self, other)`` for another variable of the same program, shape and dtype."""
        level = self.level
        if type(other) is not Staged or other.level is not level:
            return None
        x, y = self.variable, other.variable
        aval, theirs = x.aval, y.aval
        if theirs is not aval and (theirs.dtype is not aval.dtype or theirs.shape != aval.shape):
            return None
        return self._step(op, (x, y)) if aval.dtype.kind in "fc" else None

    def _step(self, op, atoms):
        """Record an operator whose result has this tensor's aval; not of a Python scalar, too late, or watched."""
        aval, level = self.variable.aval, self.level
        if aval.weak or not level.open or everywhere or (level.numbers and self.variable in level.numbers):
            return None
        out = Variable(aval)
        level.steps.append((op, atoms, NO_PARAMS, (out,)))
        return Staged(out, level)

    @property
    def aval(self) -> Aval:
        """The abstract value: shape, dtype, weakness."""
        return self.variable.aval

    @property
    def shape(self):
        """The shape the value will have."""
        return self.variable.aval.shape

    @property
    def dtype(self):
        """The dtype the value will have."""
        return self.variable.aval.dtype

    def python_number(self):
        """Return the scalar as what has been computed from Python numbers alone."""
        if self.is_python_number():
            return self
        return self.process(astype, (self,), {"dtype": python_dtype(self.dtype)}).marked_number()

    def marked_number(self) -> Staged:
        """Return the tensor, of which nobody else has the variable, noted as a Python number."""
        level = self.level
        level.numbers = set() if level.numbers is None else level.numbers
        level.numbers.add(self.variable)
        return self

    def is_python_number(self) -> bool:
        """Whether it is a Python number given to the program, or was computed from such alone."""
        return self.variable.aval.weak or self.level.is_number(self.variable)

    def numpy_number(self):
        """Return a number in double precision that widens dtypes."""
        if not self.is_python_number():
            return self
        return self.process(astype, (self,), {"dtype": self.dtype})

    def concretize(self, what: str):
        """Return the value the program was written along, at a level that follows values."""
        return self.level.decide(self.variable, what) if self.level.open else None

    def __bool__(self):
        if self.level.objects and self.dtype.kind != "b":
            ABOVE.truth(self)
        known = self.concretize("the truth value of a traced scalar (if, while, and, or, assert)")
        return super().__bool__() if known is None else bool(known)

    def __int__(self):
        known = self.concretize("int() of a traced scalar")
        return super().__int__() if known is None else int(known)

    def __index__(self):
        known = self.concretize("a traced integer used as an index or a count") if self.dtype.kind in "iub" else None
        return super().__index__() if known is None else int(known)

    def _strides(self):
        return self.level.strides(self.variable)

    def _text(self) -> str:
        return f"Staged({self.aval!r}"
