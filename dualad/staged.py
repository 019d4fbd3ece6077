"""Staged tensors: a variable of a program that is being written, at a level.

For: ``linearize`` and ``trace``. A call that meets a Staged tensor is not run but recorded, with the values of
everything else as constants: partial evaluation is dispatch. Not for: what is done with the program afterwards.
"""

from __future__ import annotations

import numpy as np

from .core.aval import Aval, aval_of
from .core.level import Level, escaped
from .core.tracer import NO_PARAMS, Tensor
from .core.watch import WatchedSteps, active
from .ops.arithmetic import multiply
from .program.ir import Program, live_steps
from .program.variable import Variable

__all__ = ["Staged", "StagedLevel"]


class StagedLevel(Level):
    """A level at which a program is written.

    With ``owning``, arrays that somebody else could still write to are copied when they become constants of the
    program. Below a linearizing dual level there is no need: what arrives here has been copied or just computed.
    ``linear`` says that the program must be linear in its inputs.
    """

    __slots__ = ("inputs", "linear", "owning", "steps")

    def __init__(self, transform: str, owning: bool = False, linear: bool = False) -> None:
        super().__init__(transform)
        self.owning, self.linear = owning, linear
        self.steps: list[tuple] = WatchedSteps() if active() is not None else []
        self.inputs: list[Variable] = []

    def new_input(self, aval: Aval) -> Staged:
        """Add an input to the program and return the tensor that stands for it."""
        variable = Variable(aval)
        self.inputs.append(variable)
        return Staged(variable, self)

    def finish(self, outputs, name: str) -> Program:
        """Close the program: keep the equations its outputs depend on."""
        atoms = [o.variable if type(o) is Staged and o.level is self else o for o in outputs]
        program = Program(self.inputs, live_steps(self.steps, atoms), atoms, name)
        self.steps, self.inputs = [], []
        return program


class Staged(Tensor):
    """A value that is not known yet: a variable of the program of its level."""

    __slots__ = ()

    def __init__(self, variable: Variable, level: StagedLevel) -> None:
        self.variable = variable
        self.level = level

    def process(self, op, args, params):
        """Record an operator as the next step of the program."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`")
        if level.owning:
            args = [_owned(a) if type(a) is np.ndarray else a for a in args]
        # An array has a shape and a dtype of its own and serves as its aval; only a Python scalar needs a weak one.
        # One argument or two are spelled out: recording is the larger part of reverse mode's overhead.
        n = len(args)
        if n == 1:
            x = args[0].variable
            atoms = (x,)
            out = op.shape(x.aval, **params)
        elif n == 2:
            x, y = args
            if type(x) is Staged and x.level is level:
                x = x.variable
                left = x.aval
            else:
                left = x if type(x) is np.ndarray else aval_of(x)
            if type(y) is Staged and y.level is level:
                y = y.variable
                right = y.aval
            else:
                right = y if type(y) is np.ndarray else aval_of(y)
            atoms = (x, y)
            out = op.shape(left, right, **params)
        else:
            atoms = [a.variable if type(a) is Staged and a.level is level else a for a in args]
            out = op.shape(*[a.aval if type(a) is Variable else aval_of(a) for a in atoms], **params)
        if op.multiple:
            outs = tuple([Variable(aval) for aval in out])
            level.steps.append((op, atoms, params, outs))
            return tuple([Staged(v, level) for v in outs])
        variable = Variable(out)
        level.steps.append((op, atoms, params, (variable,)))
        return Staged(variable, level)

    def __mul__(self, other):
        # Nearly everything that is recorded is a tangent times a derivative of its own shape and dtype: spelled out,
        # this one case is a third of the time of reverse mode.
        if type(other) is np.ndarray:
            level, variable = self.level, self.variable
            aval = variable.aval
            if level.open and other.dtype is aval.dtype and other.shape == aval.shape and not level.owning:
                product = Variable(aval)
                level.steps.append((multiply, (variable, other), NO_PARAMS, (product,)))
                return Staged(product, level)
        return Tensor.__mul__(self, other)

    @property
    def aval(self) -> Aval:
        """What is known of the value."""
        return self.variable.aval

    @property
    def shape(self):
        """The shape the value will have."""
        return self.variable.aval.shape

    @property
    def dtype(self):
        """The dtype the value will have."""
        return self.variable.aval.dtype

    def __repr__(self) -> str:
        return f"Staged({self.aval!r}, level={self.level.number} of {self.level.transform})"


def _owned(a: np.ndarray) -> np.ndarray:
    """Return ``a``, or a read-only copy of it if somebody could write to it."""
    if not a.flags.writeable and a.base is None:
        return a
    copy = a.copy()
    copy.setflags(write=False)
    return copy
