"""Loops and branches as loops and branches of machine code: ``scan``, ``while_loop`` and ``switch``.

What is carried is in registers, rows are read from and written to memory. Not for: equations (``lowering.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...control.subprograms import strong_aval
from ...core.aval import Aval, aval_of, is_weak
from ...program.ir import Program
from ...program.variable import Step, Variable, aval_of_atom
from .carries import Changed, written_in_place
from .code import Lanes
from .indices import copied, in_memory, is_table
from .lowering import SMALL, check
from .operators import LONG, TYPES, Refused, convert
from .positions import is_computed
from .table import Way, lowering_of
from .values import Values, at, chunks, parts_of, store, width_of

__all__ = ["LOOPS", "check_loop", "weight_of_loop"]

#: turns of a loop after which it is asked whether the user wants to stop
_PATIENCE = 1 << 16
#: a loop of so many turns may be left without being asked
_LONG = 1 << 18


# ── which are known ──────────────────────────────────────────────────────────────────────────────────────────────


def _bodies(name: str, params: dict) -> list:
    if name == "scan":
        return [params["body"]]
    return [params["test"], params["body"]] if name == "while_loop" else list(params["branches"])


def check_loop(op: Any, args: Sequence[Any], params: dict, outs: Sequence[Variable]) -> None:
    """Raise ``Refused`` for a loop or a branch that is not known here."""
    name = op.name
    anywhere, changes = _in_memory_already(op, args, params), set()
    if name == "scan":
        nc, nk, nx, more = params["counts"]
        rows = {*range(nc + nk, nc + nk + nx), *range(nc + nk + nx + more, len(args))}
        large = list(outs[nk:])
        for i, nodes in carried_in_memory(params).items():
            anywhere.add(nc + i)
            large.append(outs[i])
            changes |= nodes
            if aval_of_atom(args[nc + i]) != outs[i].aval or is_weak(aval_of_atom(args[nc + i])):
                raise Refused("a carry of another type")
        if not params["length"]:
            raise Refused("a loop without turns")
        if any([is_weak(v.aval) for v in params["body"].inputs[nc : nc + nk]]):
            raise Refused("a weak carry")
    else:
        rows, large = set(), []
    for i, a in enumerate(args):
        aval = a.aval if type(a) is Variable else None
        if aval is None and (i in rows or i in anywhere) and isinstance(a, np.ndarray) and a.size > SMALL:
            aval = aval_of(a)
        if aval is None:
            _constant(a)
        elif aval.dtype not in TYPES or not aval.size or (aval.size > SMALL and i not in rows | anywhere):
            raise Refused(name)
    for v in outs:
        if v.aval.dtype not in TYPES or not v.aval.size or is_weak(v.aval):
            raise Refused(name)
        if v.aval.size > SMALL and v not in large:
            raise Refused(name)
    for program in _bodies(name, params):
        for step in program.steps:
            if lowering_of(step.op).registers is Way.LOOP:
                check_loop(*step)
            elif step.out not in changes:
                check(*step)
        for o in program.outputs:
            aval = o.aval if type(o) is Variable else None
            if aval is None:
                _constant(o)
            elif (aval.size > SMALL and o not in changes) or not aval.size:
                raise Refused(name)


def carried_in_memory(params: dict) -> dict[int, set[Variable]]:
    """The carries of a scan that are in memory, with their changes."""
    body, (nc, nk, _, _) = params["body"], params["counts"]
    return written_in_place(body, body.inputs[nc : nc + nk], body.outputs[:nk], SMALL)


def _in_memory_already(op: Any, args: Sequence[Any], params: dict) -> set[int]:
    """Return the arguments that a loop reads by indices alone, which may be of any length."""
    name, found = op.name, set()
    for i, a in enumerate(args):
        if aval_of_atom(a).size <= SMALL:
            continue
        if name == "scan":
            inside = [(params["body"], i)] if i < params["counts"][0] else []
        elif name == "while_loop":
            first, second = params["constants"]
            inside = [(params["test"], i)] if i < first else [(params["body"], i - first)] if i < first + second else []
        else:
            k = params["linear"]
            inside = [(b, i - (i > k)) for b in params["branches"]] if i != k else []
        if inside and all([is_table(program, program.inputs[j]) for program, j in inside]):
            found.add(i)
    return found


def _constant(a: Any) -> None:
    x = np.asarray(a)
    if x.dtype not in TYPES or not x.size or x.size > SMALL:
        raise Refused("a constant")


def weight_of_loop(op: Any, params: dict, weigh: Callable[[Sequence[Step]], int]) -> int:
    """Return about how many instructions a loop or a branch becomes."""
    return 20 + sum([weigh(p.steps) for p in _bodies(op.name, params)])


# ── what is written ──────────────────────────────────────────────────────────────────────────────────────────────


def _parts(lowering: Any, values: Sequence[Values], avals: Sequence[Aval]) -> list[tuple[str, str]]:
    """Return the parts of values as those of other types: the type of each part, and its name."""
    return [
        (Lanes(lowering.code, aval.dtype, width_of(aval)).type, x)
        for v, aval in zip(values, avals, strict=True)
        for x in in_form(lowering, v, aval)
    ]


def _whole(names: Sequence[str], avals: Sequence[Aval]) -> list[Values]:
    """Return values by the names of their parts."""
    left = iter(names)
    return [Values(aval, [next(left) for _ in range(chunks(aval))]) for aval in avals]


def in_form(lowering: Any, value: Values, aval: Aval) -> Sequence[str]:
    """Return the parts of a value as one of another type; only Python's numbers change it."""
    if value.aval.shape != aval.shape:
        raise Refused("a result of another shape")
    if value.aval.dtype == aval.dtype:
        return parts_of(lowering.code, value)
    if value.constant is not None:
        return parts_of(lowering.code, Values(aval, constant=value.constant.astype(aval.dtype)))
    if not is_weak(value.aval):
        raise Refused("a result of another type")
    b = Lanes(lowering.code, value.aval.dtype, width_of(aval))
    return [convert(b, x, aval.dtype) for x in parts_of(lowering.code, value)]


def _ready(lowering: Any, value: Values) -> Values:
    """Load a value before a loop that reads it at each turn."""
    if value.constant is None and value.parts is None and chunks(value.aval) <= 8:
        return Values(value.aval, parts_of(lowering.code, value))
    return value


def _place_read(lowering: Any, value: Values, body: Program, v: Variable) -> Values:
    """A loop's invariant: also in memory if it is read by indices, and there alone if it is long."""
    if value.aval.dtype == v.aval.dtype and value.aval.shape == v.aval.shape and value.aval.shape:
        asked = any([step.op.name == "index" and step.args[0] is v and is_computed(step) for step in body.steps])
        if value.aval.size > SMALL or (asked and is_table(body, v)):
            return Values(v.aval, pointer=in_memory(lowering, value))
        if asked:
            parts = in_form(lowering, _ready(lowering, value), v.aval)
            return Values(v.aval, parts, pointer=in_memory(lowering, value))
    return Values(v.aval, in_form(lowering, _ready(lowering, value), v.aval))


def _scan(lowering: Any, args: list, params: dict, outs: Sequence[Variable], targets: dict) -> list[Values]:
    code, body, length = lowering.code, params["body"], params["length"]
    nc, nk, nx, more = params["counts"]
    inputs = [v.aval for v in body.inputs]
    given: dict[int, Values] = {}
    for i in (*range(nc), *range(nc + nk + nx, nc + nk + nx + more)):
        given[i] = _place_read(lowering, args[i], body, body.inputs[i])
    rows = {i: in_memory(lowering, args[i]) for i in range(nc + nk, len(args)) if i not in given}
    stacks = [targets.get(v) or (lowering.room(v.aval) if v in lowering.read_later else "") for v in outs[nk:]]
    head = code.label()
    held: dict[int, Changed] = {}
    for i, nodes in carried_in_memory(params).items():
        held[i] = Changed(code, inputs[nc + i], targets.get(outs[i]) or lowering.room(inputs[nc + i]))
        copied(code, args[nc + i], held[i].pointer)
        lowering.changes |= nodes
    loose = [i for i in range(nk) if i not in held]
    avals = [inputs[nc + i] for i in loose]
    # What it takes is written before the loop.
    starts = _parts(lowering, [_ready(lowering, args[nc + i]) for i in loose], avals)
    (counter, *names), close = code.head(head, [("i64", "0"), *starts])
    carried = _whole(names, avals)
    with code.scope():
        if length > _LONG:
            _handle_signals(lowering, counter)
        turn = code.value(f"sub i64 {length - 1}, {counter}") if params["reverse"] else counter
        given |= {nc + i: c for i, c in zip(loose, carried, strict=True)}
        given |= {nc + i: c for i, c in held.items()}
        for i, pointer in rows.items():
            given[i] = Values(inputs[i], pointer=_row(code, pointer, inputs[i], args[i].aval.dtype, turn))
        results = lowering.program(body, [given[i] for i in range(len(inputs))])
        for pointer, v, y in zip(stacks, outs[nk:], results[nk:], strict=True):
            if not pointer:  # nobody asks for it
                continue
            aval = Aval(v.aval.shape[1:], v.aval.dtype)
            y = Values(aval, in_form(lowering, y, aval))
            store(code, y, _row(code, pointer, aval, aval.dtype, turn))
        final: dict[int, Values] = {}
        for i, c in zip(loose, carried, strict=True):
            final[i] = Values(strong_aval(c.aval), in_form(lowering, results[i], c.aval))
        for i, start in held.items():
            results[i].write(counter)
            final[i] = Values(strong_aval(start.aval), pointer=start.pointer)
        after = code.new(f"add i64 {counter}, 1")
        close([after, *[x for i in loose for x in parts_of(code, final[i])]])
        end = code.label()
        code.branch(code.new(f"icmp slt i64 {after}, {length}"), head, end)
        code.begin(end)
    return [
        *[final[i] for i in range(nk)],
        *[Values(v.aval, pointer=p) for p, v in zip(stacks, outs[nk:], strict=True)],
    ]


def _row(code: Any, pointer: str, aval: Aval, dtype: np.dtype, turn: str) -> str:
    if dtype != aval.dtype:
        raise Refused("a row of another type")
    offset = turn if aval.size == 1 else code.value(f"mul i64 {turn}, {aval.size}")
    return at(code, pointer, dtype, offset)


def _handle_signals(lowering: Any, counter: str) -> None:
    """Let Python handle signals now and then; an exception ends the function."""
    code = lowering.code
    low = code.new(f"and i64 {counter}, {_PATIENCE - 1}")
    with code.when(code.new(f"icmp eq i64 {low}, {_PATIENCE - 1}")):
        state = code.call("PyEval_SaveThread")  # whoever waits for the interpreter has it for a moment
        code.call("PyEval_RestoreThread", state)
        with code.when(code.new(f"icmp ne i32 {code.call('PyErr_CheckSignals')}, 0")):
            code.effect("ret i32 1")
    lowering.needs_python = True


def _while_loop(lowering: Any, args: list, params: dict, outs: Sequence[Variable], targets: dict) -> list[Values]:
    code, test, body, (a, b) = lowering.code, params["test"], params["body"], params["constants"]
    avals = [v.aval for v in body.inputs[b:]]
    if any([is_weak(v.aval) for v in (*test.inputs, *body.inputs)]):
        raise Refused("a weak carry")
    fixed = [_ready(lowering, x) for x in args[: a + b]]
    starts = _parts(lowering, [_ready(lowering, x) for x in args[a + b :]], avals)
    head, inside, end = code.label(), code.label(), code.label()
    (counter, *names), close = code.head(head, [("i64", "0"), *starts])
    carried = _whole(names, avals)
    with code.scope():
        _handle_signals(lowering, counter)
        (going,) = lowering.program(test, [*fixed[:a], *carried])
        (truth,) = parts_of(code, going)
        if going.aval.shape not in ((), (1,)) or going.aval.dtype.kind != "b":
            raise Refused("a test that is no truth value")
        code.branch(truth, inside, end)
        code.begin(inside)
        with code.scope():
            results = lowering.program(body, [*fixed[a:], *carried])
            new = [x for _, x in _parts(lowering, results, avals)]
        close([code.new(f"add i64 {counter}, 1"), *new])
        code.jump(head)
        code.begin(end)
    return [Values(strong_aval(c.aval), c.parts) for c in carried]


def _switch(lowering: Any, args: list, params: dict, outs: Sequence[Variable], targets: dict) -> list[Values]:
    code, branches, linear = lowering.code, params["branches"], params["linear"]
    if any([is_weak(v.aval) for b in branches for v in b.inputs]):
        raise Refused("a weak input")
    which = args[linear]
    if which.aval.size != 1 or which.aval.dtype.kind == "f":
        raise Refused("a branch that is no whole number")
    (x,) = parts_of(code, which)
    x = convert(Lanes(code, which.aval.dtype, 1), x, LONG)
    values = [_ready(lowering, v) for v in (*args[:linear], *args[linear + 1 :])]
    labels, end = [code.label() for _ in branches], code.label()
    # Below the first is the first, beyond the last the last.
    low = code.value(f"icmp slt i64 {x}, 0")
    number = code.value(f"select i1 {low}, i64 0, i64 {x}")
    cases = " ".join([f"i64 {i}, label %{name}" for i, name in enumerate(labels[:-1])])
    code.effect(f"switch i64 {number}, label %{labels[-1]} [{cases}]")
    arrived: list[str] = []
    found: list[list[tuple[str, str]]] = []
    avals = [strong_aval(v.aval) for v in outs]
    for name, branch in zip(labels, branches, strict=True):
        with code.scope():
            code.begin(name)
            found.append(_parts(lowering, lowering.program(branch, values), avals))
            arrived.append(code.block)
            code.jump(end)
    code.begin(end)
    names = []
    for parts in zip(*found, strict=True):
        ways = [f"[{x}, %{block}]" for (_, x), block in zip(parts, arrived, strict=True)]
        names.append(code.new(f"phi {parts[0][0]} {', '.join(ways)}"))
    return _whole(names, avals)


#: operators that become loops and branches
LOOPS: dict[str, Callable] = {"scan": _scan, "while_loop": _while_loop, "switch": _switch}
