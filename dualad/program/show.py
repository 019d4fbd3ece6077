"""Printing a program.

The text looks like Python: a header with the inputs, an equation a line, the results, then the values of the
constants, as far as they are short::

    program f(a: f64[3]):
        b: f64[3] = multiply(a, k0)
        c: f64[] = sum(b, axis=(0,))
        return c
    where:
        k0: f64[3] = [1.0, 2.0, 3.0]

Python scalars, which are weak, are printed where they stand. Programs that are parameters of an equation (bodies of
loops, branches) are printed after the program, by name. Of long programs the middle may be left out, which says so.
Not for: pictures of programs (``picture.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..core.aval import Aval
from .variable import Variable

__all__ = ["Names", "Shown", "describe_constant", "named_equations", "show"]

#: arrays up to this many entries are printed, longer ones are only described
_SHORT = 16


class Shown(NamedTuple):
    """One equation as it is printed: the names of its results, its operator, arguments and parameters."""

    outs: tuple[str, ...]
    op: str
    args: tuple[str, ...]
    params: tuple[str, ...]


def show(program, limit: int | None = None) -> str:
    """Return the text of a program; with a limit, that of its first equations, and of those of its inner programs."""
    names = Names()
    names.of_program(program)
    lines = []
    for p, name in names.programs:  # grows while it is gone through
        lines += _lines(p, name, names, limit)
    if names.constants:
        some = names.constants if limit is None else names.constants[:limit]
        lines.append("where:")
        lines += [f"    {name}: {describe_constant(value)}" for name, value in some]
        if len(some) < len(names.constants):
            lines.append(f"    ... {len(names.constants) - len(some):,} more")
    return "\n".join(lines)


def named_equations(program, names: Names) -> Iterator[Shown]:
    """Yield the equations of one program with their names, in the order that gives each the name it has in the text."""
    names.variables = {}
    for v in program.inputs:
        names.of(v)
    for op, args, params, outs in program.recorded:
        right = tuple([names.of(a) for a in args])
        more = tuple([f"{k}={_literal(v, names)}" for k, v in params.items()])
        yield Shown(tuple([names.of(v) for v in outs]), op.name, right, more)


def _lines(program, name: str, names: Names, limit: int | None) -> list[str]:
    count = len(program.recorded)
    first, last = (count, 0) if limit is None or count <= limit else (limit - limit // 4, limit // 4)
    lines = []
    for i, (e, step) in enumerate(zip(named_equations(program, names), program.steps, strict=True)):
        if first <= i < count - last:
            if i == first:
                lines.append(f"    ... {count - first - last:,} more equations")
            continue
        left = ", ".join(f"{n}: {v.aval!r}" for n, v in zip(e.outs, step.outs, strict=True))
        lines.append(f"    {left} = {e.op}({', '.join((*e.args, *e.params))})")
    head = ", ".join(f"{names.of(v)}: {v.aval!r}" for v in program.inputs)
    ends = ", ".join(names.of(o) for o in program.outputs)
    return [f"program {name}({head}):", *lines, f"    return {ends}"]


class Names:
    """Names for variables, constants and programs.

    Variables are a, b, ..., z, a1, ... in order of appearance in their program, constants k0, k1, ... in all of them
    together; programs have names of their own, made unique.
    """

    def __init__(self) -> None:
        self.variables: dict[Variable, str] = {}
        self.constants: list[tuple[str, object]] = []
        self.programs: list[tuple] = []
        self._known: dict[int, str] = {}

    def of_program(self, program) -> str:
        """Return the name of a program, which is printed in its turn."""
        name = self._known.get(id(program))
        if name is None:
            taken, wanted = {n for _, n in self.programs}, _identifier(program.name)
            name, number = wanted, 1
            while name in taken:
                number += 1
                name = f"{wanted}_{number}"
            self._known[id(program)] = name
            self.programs.append((program, name))
        return name

    def of(self, x) -> str:
        """Return the name of a variable or a constant; numbers are their own."""
        if type(x) is Variable:
            number, letter = divmod(len(self.variables), len(_LETTERS))
            return self.variables.setdefault(x, f"{_LETTERS[letter]}{number or ''}")
        if type(x) in (bool, int, float, complex):
            return repr(x)
        name = self._known.get(id(x))
        if name is None:
            name = self._known[id(x)] = f"k{len(self.constants)}"
            self.constants.append((name, x))
        return name


_LETTERS = "abcdefghijlmnopqrstuvwxyz"  # k is for constants


def describe_constant(value) -> str:
    """Return the type of a constant, and its value while it is short."""
    if not hasattr(value, "dtype"):
        return f"object  # {type(value).__name__}"
    aval = Aval(getattr(value, "shape", ()), value.dtype)
    if not isinstance(value, (np.ndarray, np.generic)):
        return f"{aval!r}  # {type(value).__name__}"
    short = value.size <= _SHORT and value.dtype.kind in "biufc"
    return f"{aval!r} = {value.tolist()!r}" if short else f"{aval!r}"


def _literal(value, names: Names) -> str:
    if isinstance(value, np.dtype):
        return f"dtype({value.str!r})"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_literal(v, names) for v in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(k, names)}: {_literal(v, names)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice{_literal((value.start, value.stop, value.step), names)}"
    if value is Ellipsis:
        return "Ellipsis"
    if isinstance(value, np.generic):
        return repr(value.item())
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    if hasattr(value, "steps"):
        return names.of_program(value)
    return f"opaque({type(value).__name__!r})"


def _identifier(name: str) -> str:
    kept = "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_")
    return kept if kept and not kept[0].isdigit() else f"f_{kept}"
