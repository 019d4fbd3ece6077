"""Checking programs: well-formed, and linear where they must be.

For: ``check`` (structure: every variable assigned once before use, avals as the operators' shape rules say) and
``check_linear``. Not for: numbers.
"""

from __future__ import annotations

import numpy as np

from ..core.aval import aval_of, is_inexact
from ..errors import BranchError, NotLinearError, ProgramError
from .ir import Program, programs_in
from .variable import Variable

__all__ = ["check", "check_linear"]


_ONCE = "every variable is assigned once: by the program's caller, or by one equation"
_PRINTED = "print(program) shows it; dualad.trace and dualad.linearize write programs that hold together"


def check(program: Program) -> None:
    """Raise ``ProgramError`` unless the program is well-formed."""
    known = set(program.inputs)
    if len(known) != len(program.inputs):
        raise ProgramError(
            f"the program `{program.name}` has the same variable twice among its inputs.", _ONCE, _PRINTED
        )
    for i, equation in enumerate(program.equations):
        for part in programs_in(equation.params):
            check(part)
        for a in equation.args:
            if isinstance(a, Variable) and a not in known:
                raise ProgramError(
                    f"equation {i} ({equation.op.name}) reads a variable of {a.aval!r} that nothing before it assigns.",
                    "equations run in order, and each reads inputs or results of earlier ones",
                    _PRINTED,
                )
        avals = [a.aval if isinstance(a, Variable) else aval_of(a) for a in equation.args]
        expected = equation.op.abstract_eval(*avals, **equation.params)
        expected = expected if equation.op.multiple_results else (expected,)
        found = tuple(v.aval for v in equation.outs)
        if tuple(expected) != found:
            raise ProgramError(
                f"equation {i} ({equation.op.name}) should give {expected}, but is declared {found}.",
                "shape and dtype of a result follow from the operator and its arguments",
                _PRINTED,
            )
        for v in equation.outs:
            if v in known:
                raise ProgramError(
                    f"equation {i} ({equation.op.name}) assigns a variable of {v.aval!r} a second time.",
                    _ONCE,
                    _PRINTED,
                )
            known.add(v)
    for o in program.outputs:
        if isinstance(o, Variable) and o not in known:
            raise ProgramError(
                f"the program `{program.name}` returns a variable of {o.aval!r} that nothing assigns.",
                "a result is an input, a constant, or what an equation gives",
                _PRINTED,
            )


def check_linear(program: Program) -> None:
    """Raise ``NotLinearError`` unless the outputs are linear in the inputs.

    By induction over the equations: an operator applied to linear values is linear if it is linear in exactly those
    positions; where it is linear in several positions together (a sum, a join), a constant among them makes it
    affine unless it is zero.
    """
    for equation in program.equations:
        op, args = equation.op, equation.args
        inside = [i for i, a in enumerate(args) if isinstance(a, Variable)]
        linear_in = op.linear_positions(len(args), equation.params)
        outside = [i for i in inside if i not in linear_in]
        if outside or (len(inside) > 1 and not op.joint):
            raise NotLinearError(
                f"the function applies `{op.name}` to {_positions(inside)} that depend on its arguments.",
                f"`{op.name}` is not linear in {'these positions' if len(inside) > 1 else 'that position'}"
                + (" together (it is linear in each alone)" if not outside else ""),
                "pass a linear function, or linearize this one at a point first: dualad.linearize(f, *primals)[1]",
            )
        if inside and any(not is_inexact(v.aval.dtype) for v in equation.outs):
            raise NotLinearError(
                f"the function turns a value that depends on its arguments into dtype {equation.outs[0].aval.dtype}"
                f" (`{op.name}`).",
                "rounding to integers or booleans is not linear",
                "keep the value floating-point",
            )
        if op.joint:
            for i in linear_in:
                if not isinstance(args[i], Variable) and not _is_zero(args[i]):
                    raise NotLinearError(
                        f"the function is affine, not linear: `{op.name}` adds the constant {_short(args[i])}.",
                        "f(0) = 0 for a linear function; the constant has no transpose and would be dropped silently",
                        "leave the constant out: lambda v: f(v) - f(zeros)",
                    )
    for o in program.outputs:
        if not isinstance(o, Variable) and not _is_zero(o):
            raise NotLinearError(
                f"the function returns the constant {_short(o)}, which does not depend on its arguments.",
                "f(0) = 0 for a linear function",
                "leave the constant out",
            )


def _is_zero(x) -> bool:
    try:
        return not np.any(x)
    except BranchError:  # a value that an outer trace does not know: it may be anything
        return False


def _positions(inside: list[int]) -> str:
    return f"argument {inside[0]}" if len(inside) == 1 else f"arguments {' and '.join(map(str, inside))}"


def _short(x) -> str:
    text = repr(x)
    return text if len(text) < 60 else f"of shape {np.shape(x)}"
