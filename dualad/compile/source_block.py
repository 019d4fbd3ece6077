"""The equations of a program as lines of NumPy source: calls of what operators are in NumPy, signs, indices, loops.

The bodies of ``scan``, ``while_loop`` and ``switch`` are written in place. Not for: functions (``numpy_source.py``).
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..control.subprograms import strong_aval
from ..core.aval import Aval, aval_of, is_weak
from ..ops.indexing import _native
from ..program.ir import Program, last_uses
from ..program.variable import Variable, aval_of_atom
from .fourier import transform
from .native.equations import Equations
from .native.table import Source, Way, lowering_of
from .simplify import is_pure
from .threads import shared_out

__all__ = ["Block", "Value", "as_scalar", "identifier"]

# NumPy's loops over stacks let other threads run, and what they make of a matrix does not depend on the others.

#: matrices of a stack, and of the part of it that a thread takes at a time; entries of such a part of small matrices
_LEAST, _STEP, _ENTRIES = 64, 16, 2048


def is_shared(op: Any, args: Sequence[Aval], outs: Sequence[Aval]) -> bool:
    """Whether an operator does for each matrix of a stack what it does for one."""
    if op.blocks not in ("matrices", "stack") or len(args) != 1 or len(args[0].shape) < 3:
        return False
    size = args[0].shape[0]
    return size >= _LEAST and all([v.shape[:1] == (size,) for v in outs])


def in_shares(impl: Callable, outs: Sequence[Aval]) -> Callable:
    """Return a function that calls ``impl`` for parts of a stack; what it returns is memory of its own."""

    def call(x: Any, **params: Any) -> Any:
        step = max(_STEP, _ENTRIES // max(1, math.prod(x.shape[1:])))
        made = [np.empty(v.shape, v.dtype) for v in outs]

        def part(low: int, high: int) -> None:
            for first in range(low, high, step):
                found = impl(x[first : first + step], **params)
                for whole, some in zip(made, found if isinstance(found, tuple) else (found,), strict=True):
                    whole[first : first + step] = some

        shared_out(part, len(x), step)
        return tuple(made) if len(made) > 1 else made[0]

    return call


#: lanes of solvers that are run at once, at most
_LANES = 64


def by_lanes(block: Block, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    """Write a loop over lanes of one operator that can be prepared for many; None for other loops."""
    body, length, (nc, nk, nx, _) = params["body"], params["length"], params["counts"]
    if nk or not length or len(body.steps) != 1 or not (step := body.steps[0]).op.prepared:
        return None
    op, given, own, results = step
    if list(results) != list(body.outputs):
        return None
    rows = set(body.inputs[nc : nc + nx])
    mapped = tuple([type(a) is Variable and a in rows for a in given])
    lanes = min(_LANES, 1 << max(0, (length // 8).bit_length() - 1))
    run = op.prepared([aval_of_atom(a) for a in given], own, mapped=mapped, lanes=lanes)
    if run is None:
        return None

    def call(*values: Any) -> Any:
        made = np.empty(outs[0].aval.shape, outs[0].aval.dtype)
        failed: list[bool] = []

        def part(low: int, high: int) -> None:
            for first in range(low, high, lanes):
                if failed:  # in another thread, perhaps by an interrupt
                    return
                some = slice(min(first, length - lanes), min(first, length - lanes) + lanes)
                try:  # some lanes are computed twice
                    made[some] = run(*[x[some] if m else x for x, m in zip(values, mapped, strict=True)])
                except BaseException:
                    failed.append(True)
                    raise

        shared_out(part, length, lanes)
        return made

    block.writer.calls["native"] += 1
    known = dict(zip(body.inputs, args, strict=True))
    texts = [(known[a] if type(a) is Variable else block.constant(a)).text for a in given]
    (name,) = block.call(block.writer.bind(identifier(f"lanes_of_{op.name}"), call), texts, 1, False)
    return [Value(name, outs[0].aval, False, name)]


#: loops deeper than this are calls: Python nests twenty blocks at most
_DEEPEST = 6
#: arrays from this many bytes on are released when nothing reads them any more
_LARGE = 1 << 15


class Value(NamedTuple):
    """A value in the source: its text, whether that is a Python number, and whose its memory is.

    ``fresh`` names the new array that it is, or is a view of; memory without a name may be somebody else's.
    """

    text: str
    aval: Aval
    is_python: bool = False
    fresh: str = ""


class Block:
    """Lines at one indentation."""

    def __init__(self, writer: Any, indent: str = "    ", depth: int = 0) -> None:
        self.writer, self.indent, self.depth = writer, indent, depth
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def inner(self) -> Block:
        return Block(self.writer, self.indent + "    ", self.depth + 1)

    def program(self, program: Program, inputs: Sequence[Value]) -> list[Value]:
        """Write a program's equations; return its results."""
        env: dict[Variable, Value] = dict(zip(program.inputs, inputs, strict=True))
        given_in = set(program.inputs)
        given = lambda atoms: [env[a] if type(a) is Variable else self.constant(a) for a in atoms]
        for (op, args, params, outs), dead in zip(
            program.steps, last_uses(program.steps, program.outputs), strict=True
        ):
            write = self.group if isinstance(op, Equations) else self.equation
            env.update(zip(outs, write(op, given(args), params, outs), strict=True))
            large = [env[v].text for v in dead if v not in given_in and v.aval.size * v.aval.dtype.itemsize >= _LARGE]
            if large:
                self.write(f"del {', '.join(large)}")
        return given(program.outputs)

    def constant(self, x: Any) -> Value:
        if type(x) not in (bool, int, float, complex):
            return Value(self.writer.bind("k", x), aval_of(x))
        if type(x) is float and not math.isfinite(x):
            text = self.writer.bind("nan" if x != x else "inf" if x > 0 else "minus_inf", x)
        else:
            text = f"({x!r})" if repr(x).startswith("-") else repr(x)
        return Value(text, aval_of(x), True)

    def new(self, text: str, aval: Aval, fresh: bool = False) -> Value:
        name = self.writer.name()
        self.write(f"{name} = {text}")
        return Value(name, aval, False, name if fresh else "")

    def returned(self, value: Value, taken: set[str]) -> str:
        """Return the text of a result: memory of its own, which no other has ``taken``, numbers as NumPy's."""
        if value.is_python:
            return value.text
        if not value.aval.shape:
            return f"{self.writer.bind('as_scalar', as_scalar)}({value.text})"
        if not value.fresh or value.fresh in taken:
            return f"{value.text}.copy()"
        taken.add(value.fresh)
        return value.text

    # ── equations ────────────────────────────────────────────────────────────────────────────────────────────────

    def group(self, group: Equations, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value]:
        """Write the call of equations that are machine code."""
        self.writer.calls["native"] += 1
        self.writer.groups.append(group)
        function = self.writer.bind("native", group.run)
        self.writer.entries[function] = lambda entry: entry(group)
        names = self.call(function, [a.text for a in args], len(outs), True)
        return [Value(n, v.aval, False, n) for n, v in zip(names, outs, strict=True)]

    def equation(self, op: Any, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value]:
        if op.name == "scan" and (results := by_lanes(self, args, params, outs)) is not None:
            return results
        if lowering_of(op).registers is Way.LOOP and self.depth < _DEEPEST:
            results = _LOOPS[op.name](self, args, params, outs)
            if results is not None:
                self.writer.calls["loop"] += 1
                return results
        if op.prepared and (run := op.prepared([a.aval for a in args], params)):
            self.writer.calls["native"] += 1
            names = self.call(self.writer.bind(identifier(op.name), run), [a.text for a in args], 1, False)
            return [Value(names[0], outs[0].aval, False, names[0])]
        pure = is_pure(op, params)
        self.writer.calls["library" if pure else "callback"] += 1
        if (text := _expression(op, args, params, outs)) is not None:
            return [self.new(text, outs[0].aval, op.name != "index")]
        quicker = transform(op, args[0].aval) if args else None
        shared = is_shared(op, [a.aval for a in args], [v.aval for v in outs])
        impl = in_shares(op.impl, [v.aval for v in outs]) if shared else quicker or op.impl
        texts = [*[a.text for a in args], *[f"{k}={self.parameter(v)}" for k, v in params.items()]]
        names = self.call(self.writer.bind(identifier(op.name), impl), texts, len(outs), op.multiple_results)
        is_ufunc = type(op.impl) is np.ufunc
        if not is_ufunc and (not pure or all([a.is_python for a in args])):  # which may return Python's numbers
            for n in [n for n, v in zip(names, outs, strict=True) if not v.aval.shape]:
                self.write(f"{n} = {self.writer.bind('as_scalar', as_scalar)}({n})")
        source = lowering_of(op).source
        if source is Source.VIEW:
            return [Value(names[0], outs[0].aval, False, args[0].fresh)]
        fresh = is_ufunc or shared or source is Source.NEW or (source is Source.PRODUCT and len(args) > 1)
        return [Value(n, v.aval, False, n if fresh else "") for n, v in zip(names, outs, strict=True)]

    def call(self, function: str, texts: Sequence[str], results: int, several: bool) -> list[str]:
        """Write a call; return the names of its results, of which there may be ``several``."""
        names = [self.writer.name() for _ in range(results)]
        targets = f"{', '.join(names)}{',' if several and results == 1 else ''} = " if names else ""
        self.write(f"{targets}{function}({', '.join(texts)})")
        return names

    def parameter(self, x: Any) -> str:
        plain = lambda v: v is None or type(v) in (bool, int, str)
        return repr(x) if plain(x) or (type(x) is tuple and all([plain(v) for v in x])) else self.writer.bind("p", x)


def _expression(op: Any, args: list[Value], params: dict, outs: Sequence[Variable]) -> str | None:
    """Return an equation as an operator or an index of NumPy's; None where Python's would be another."""
    texts, row = [a.text for a in args], lowering_of(op)
    if len(args) == 2 and row.sign and not params and any([not a.is_python for a in args]):
        # Of numbers, those of NumPy's that are floats have the bits of its arrays.
        if outs[0].aval.shape or (row.entry is Way.ENTRYWISE and all([_is_float(a) for a in args])):
            return f"{texts[0]} {row.sign} {texts[1]}"
    if len(args) == 1 and row.sign and outs[0].aval.shape:
        return f"{row.sign}{texts[0]}"
    if op.name == "index" and len(args) == 1 and args[0].aval.shape:
        entries = _native(params["template"], ())
        return f"{texts[0]}[{', '.join([_entry(e) for e in entries]) or '()'}]"
    return None


def _is_float(a: Value) -> bool:
    return a.aval.dtype.kind == "f" or (a.is_python and a.aval.dtype.kind == "i")


def _entry(e: Any) -> str:
    if type(e) is not slice:
        return repr(e)
    first, last = ["" if i is None else i for i in (e.start, e.stop)]
    return f"{first}:{last}" + (f":{e.step}" if e.step not in (1, None) else "")


def as_scalar(x: Any) -> Any:
    """Return a result without axes as NumPy's scalar; computed from Python numbers alone it may be one of them."""
    return np.asarray(x)[()]


def identifier(name: str) -> str:
    kept = "".join([c if c.isalnum() else "_" for c in name]).strip("_") or "program"
    kept = f"f_{kept}" if kept[0].isdigit() else kept
    return f"np_{kept}" if kept in _TAKEN else kept


_TAKEN = frozenset({*keyword.kwlist, "array", "empty", "int", "max", "min", "range", "zip"})


# ── loops and branches ───────────────────────────────────────────────────────────────────────────────────────────
#
# Each function returns None where it does not know a program: then the operator is called as it is.


def _name_variables(block: Block, variables: Sequence[Variable]) -> list[Value]:
    """Return a name for each value that is assigned more than once."""
    return [Value(block.writer.name(), strong_aval(v.aval)) for v in variables]


def _assign(block: Block, names: Sequence[Value], values: Sequence[Value]) -> None:
    """Write an assignment of values; Python's numbers become NumPy's, of the dtype that is declared."""
    texts = [
        f"array({v.text}, dtype={block.parameter(n.aval.dtype)})[()]" if v.is_python else v.text
        for n, v in zip(names, values, strict=True)
    ]
    if names:
        block.write(f"{', '.join([n.text for n in names])} = {', '.join(texts)}")


def _scan(block: Block, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    body, length, (nc, nk, nx, more) = params["body"], params["length"], params["counts"]
    inputs = body.inputs
    weak = [is_weak(v.aval) for v in inputs]
    whole = [*range(nc), *range(nc + nk + nx, nc + nk + nx + more)]
    if any(weak[nc : nc + nk]) or any([w and v.aval.dtype.kind not in "if" for v, w in zip(inputs, weak, strict=True)]):
        return None
    if any([weak[i] and not args[i].is_python for i in whole]):
        return None
    given = {i: args[i] for i in whole}
    carries = _name_variables(block, inputs[nc : nc + nk])
    given.update(enumerate(carries, nc))
    _assign(block, carries, args[nc : nc + nk])
    inner, number = block.inner(), block.writer.name()
    backwards = "[::-1]" if params["reverse"] else ""
    names, texts = [number], [f"range({length}){backwards}"]
    for i in [i for i in range(len(args)) if i not in given]:
        given[i] = Value(block.writer.name(), inputs[i].aval, weak[i])
        names.append(given[i].text)
        texts.append(f"{args[i].text}{'.tolist()' if weak[i] else ''}{backwards}")
    stacks = []
    for o in outs[nk:]:
        stacks.append(block.new(f"empty({o.aval.shape!r}, {block.parameter(o.aval.dtype)})", o.aval, True))
    each = f"zip({', '.join(texts)})" if len(texts) > 1 else texts[0]
    block.write(f"for {', '.join(names)} in {each}:")
    results = inner.program(body, [given[i] for i in range(len(inputs))])
    for stack, y in zip(stacks, results[nk:], strict=True):
        inner.write(f"{stack.text}[{number}] = {y.text}")
    _assign(inner, carries, results[:nk])
    block.lines += inner.lines or [inner.indent + "pass"]
    return [*carries, *stacks]


def _while_loop(block: Block, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    test, body, (a, b) = params["test"], params["body"], params["constants"]
    if any([is_weak(v.aval) for v in (*test.inputs, *body.inputs)]):
        return None
    carries = _name_variables(block, body.inputs[b:])
    _assign(block, carries, args[a + b :])
    block.write("while True:")
    inner = block.inner()
    (going,) = inner.program(test, [*args[:a], *carries])
    inner.write(f"if not {going.text}: break")
    _assign(inner, carries, inner.program(body, [*args[a : a + b], *carries]))
    block.lines += inner.lines
    return carries


def _switch(block: Block, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    branches, linear = params["branches"], params["linear"]
    if any([is_weak(v.aval) for b in branches for v in b.inputs]):
        return None
    which = block.new(f"min(max(int({args[linear].text}), 0), {len(branches) - 1})", args[linear].aval).text
    values, results = [*args[:linear], *args[linear + 1 :]], _name_variables(block, outs)
    for i, branch in enumerate(branches):
        block.write(f"{'elif' if i else 'if'} {which} == {i}:" if i < len(branches) - 1 or i == 0 else "else:")
        inner = block.inner()
        _assign(inner, results, inner.program(branch, values))
        block.lines += inner.lines or [inner.indent + "pass"]
    return results


#: operators that become loops and branches of the source
_LOOPS: dict[str, Callable] = {"scan": _scan, "while_loop": _while_loop, "switch": _switch}
