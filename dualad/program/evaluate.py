"""Running a program, forwards; under any transform, since every equation goes through dispatch.

For: ``evaluate``. Each value is dropped after its last use. Not for: running one backwards
(``vjp_via_transpose.py``).
"""

from __future__ import annotations

from ..core.dispatch import apply
from .ir import Program, Variable

__all__ = ["evaluate"]


def evaluate(program: Program, arguments) -> list:
    """Run ``program`` on ``arguments`` (one per input) and return its outputs."""
    env = dict(zip(program.inputs, arguments, strict=True))
    last_use = _last_uses(program)
    for i, equation in enumerate(program.equations):
        args = [env[a] if type(a) is Variable else a for a in equation.args]
        out = apply(equation.op, args, equation.params)
        if equation.op.multiple:
            env.update(zip(equation.outs, out, strict=True))
        else:
            env[equation.outs[0]] = out
        for v in last_use[i]:
            del env[v]
    return [env[a] if type(a) is Variable else a for a in program.outputs]


def _last_uses(program: Program) -> list[list[Variable]]:
    """Return, for each equation, the variables that nothing reads after it."""
    kept = {a for a in program.outputs if type(a) is Variable}
    uses: list[list[Variable]] = [[] for _ in program.equations]
    for i in range(len(program.equations) - 1, -1, -1):
        equation = program.equations[i]
        for v in (*equation.args, *equation.outs):
            if type(v) is Variable and v not in kept:
                kept.add(v)
                uses[i].append(v)
    return uses
