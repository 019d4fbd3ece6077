"""Loops and branches in the source: the bodies of ``scan``, ``while_loop`` and ``switch`` written in place.

A number that a loop carries is a Python float where the block is written with numbers. Each function returns ``None``
where it does not know a program: then the operator is called as it is. Not for: equations (``source_block.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..control.subprograms import strong_aval
from ..core.aval import Aval, is_weak
from ..program.variable import Variable
from .source_entries import is_small
from .source_values import ARRAY, DOUBLE, ENTRIES, FLOAT_FORM, PYTHON, Value

__all__ = ["LOOPS"]


def _form_of(block: Any, aval: Aval) -> str:
    """Return how a value that changes in a loop is held."""
    if not block.writer.numbers or aval.dtype != DOUBLE:
        return ARRAY
    return FLOAT_FORM if not aval.shape else ENTRIES if is_small(aval) else ARRAY


def _variable(block: Any, aval: Aval) -> Value:
    """Return a value that a loop assigns anew: under one name, or under one for each entry."""
    form, name = _form_of(block, aval), block.writer.name
    if form == ENTRIES:
        return Value("", ENTRIES, aval, "", tuple([name() for _ in range(aval.size)]))
    return Value(name(), form, aval)


def _names(values: Sequence[Value]) -> str:
    return ", ".join([n for v in values for n in (v.entries or (v.text,))])


def _assign(block: Any, names: Sequence[Value], values: Sequence[Value]) -> None:
    """Write an assignment of values, in the forms that the names have."""
    if names:
        texts = [t for v, k in zip(values, names, strict=True) for t in _in_form(block, v, k.form)]
        block.write(f"{_names(names)} = {', '.join(texts)}")


def _in_form(block: Any, value: Value, form: str) -> Sequence[str]:
    if form == ENTRIES:
        return block.entries(value)
    return (block.as_float(value) if form == FLOAT_FORM else block.as_array(value),)


def _scan(block: Any, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    body, length, counts = params["body"], params["length"], params["counts"]
    nc, nk, nx, more = counts
    inputs = body.inputs
    if any([is_weak(v.aval) for v in inputs[nc : nc + nk]]):
        return None
    if any([is_weak(v.aval) and v.aval.dtype.kind not in "if" for v in inputs]):
        return None
    name, write = block.writer.name, block.write
    given = {}
    for i in (*range(nc), *range(nc + nk + nx, nc + nk + nx + more)):
        value = args[i]
        if is_weak(inputs[i].aval) and value.form != PYTHON:
            return None
        if _form_of(block, value.aval) == FLOAT_FORM and value.form == ARRAY and value.text.startswith(("x", "v")):
            value = Value(block.as_float(value), FLOAT_FORM, value.aval)
        elif block.writer.numbers and is_small(value.aval):
            block.entries(value)  # taken apart before the loop, once
        given[i] = value
    carries = [_variable(block, inputs[i].aval) for i in range(nc, nc + nk)]
    given.update(zip(range(nc, nc + nk), carries, strict=True))
    _assign(block, carries, args[nc : nc + nk])
    rows: list[tuple[str, str]] = []
    inner = block.inner()
    number, backwards = name(), "[::-1]" if params["reverse"] else ""
    for i in (*range(nc + nk, nc + nk + nx), *range(nc + nk + nx + more, len(args))):
        aval, text = inputs[i].aval, block.as_array(args[i])
        block.alone.discard(args[i].text)
        if not aval.shape and ((aval.dtype == DOUBLE and block.writer.numbers) or is_weak(aval)):
            row = name()
            rows.append((row, f"{text}.tolist(){backwards}"))
            given[i] = Value(row, PYTHON if is_weak(aval) else FLOAT_FORM, aval)
        elif block.writer.numbers and is_small(aval) and aval.dtype == DOUBLE:
            value = _variable(block, aval)
            flat = text if len(aval.shape) == 1 else f"{text}.reshape(({length}, {aval.size}))"
            rows.append((f"({_names([value])},)", f"{flat}.tolist(){backwards}"))
            given[i] = value
        else:
            given[i] = inner.new(f"{text}[{number}]", ARRAY, aval)
    stacks = []
    for o in outs[nk:]:
        stack, row = name(), Aval(o.aval.shape[1:], o.aval.dtype)
        as_list = _form_of(block, row) != ARRAY
        write(f"{stack} = []" if as_list else f"{stack} = empty({o.aval.shape!r}, {block.parameter(o.aval.dtype)})")
        stacks.append((stack, as_list, o.aval))
    count = f"range({length - 1}, -1, -1)" if params["reverse"] else f"range({length})"
    names, texts = [", ".join(parts) for parts in zip((number, count), *rows, strict=True)]
    write(f"for {names} in {f'zip({texts})' if rows else count}:")
    results = inner.program(body, [given[i] for i in range(len(inputs))])
    for (stack, as_list, _), y in zip(stacks, results[nk:], strict=True):
        if as_list:
            entries = ", ".join(_in_form(inner, y, _form_of(block, y.aval)))
            inner.write(f"{stack}.append({f'({entries},)' if y.aval.shape else entries})")
        else:
            inner.write(f"{stack}[{number}] = {inner.as_array(y)}")
    _assign(inner, carries, results[:nk])
    block.lines += inner.lines or [inner.indent + "pass"]
    finished = []
    for stack, as_list, aval in stacks:
        if as_list:
            joined = f"array({stack}{backwards}, dtype=float64)"
            joined += f".reshape({aval.shape!r})" if len(aval.shape) > 1 else ""
            finished.append(block.new(joined, ARRAY, aval, True))
        else:
            finished.append(Value(stack, ARRAY, aval, stack))
    return [*[_carry(c, v.aval) for c, v in zip(carries, outs, strict=False)], *finished]


def _carry(value: Value, aval: Aval) -> Value:
    return value._replace(aval=strong_aval(aval))


def _while_loop(block: Any, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    test, body, (a, b) = params["test"], params["body"], params["constants"]
    if any([is_weak(v.aval) for v in (*test.inputs, *body.inputs)]):
        return None
    avals = [v.aval for v in body.inputs[b:]]
    carries = [_variable(block, aval) for aval in avals]
    _assign(block, carries, args[a + b :])
    block.write("while True:")
    inner = block.inner()
    (going,) = inner.program(test, [*args[:a], *carries])
    inner.write(f"if not {inner.as_array(going) if going.form == ARRAY else going.text}: break")
    results = inner.program(body, [*args[a : a + b], *carries])
    _assign(inner, carries, results)
    block.lines += inner.lines
    return [_carry(c, v.aval) for c, v in zip(carries, outs, strict=True)]


def _switch(block: Any, args: list[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    branches, linear = params["branches"], params["linear"]
    if any([is_weak(v.aval) for b in branches for v in b.inputs]):
        return None
    which = block.new(f"min(max(int({args[linear].text}), 0), {len(branches) - 1})", PYTHON, args[linear].aval)
    values = [*args[:linear], *args[linear + 1 :]]
    results = [_variable(block, strong_aval(v.aval)) for v in outs]
    for i, branch in enumerate(branches):
        word = "if" if i == 0 else "elif"
        block.write(f"{word} {which.text} == {i}:" if i < len(branches) - 1 or i == 0 else "else:")
        inner = block.inner()
        out = inner.program(branch, values)
        texts = [
            _as_declared(block, v, t, r) for v, r in zip(out, results, strict=True) for t in _in_form(inner, v, r.form)
        ]
        inner.write(f"{_names(results)} = {', '.join(texts)}" if results else "pass")
        block.lines += inner.lines
    return results


def _as_declared(block: Any, value: Value, text: str, result: Value) -> str:
    if value.form == PYTHON and result.form == ARRAY:
        return f"array({text}, dtype={block.parameter(result.aval.dtype)})[()]"
    return text


#: operators that become loops and branches of the source
LOOPS: dict[str, Callable] = {"scan": _scan, "while_loop": _while_loop, "switch": _switch}
