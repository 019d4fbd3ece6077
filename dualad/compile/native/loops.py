"""Loops and branches as loops and branches of machine code: ``scan``, ``while_loop`` and ``switch``.

The carry is in registers, rows are read from and written to memory. Not for: equations (``lowering.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...control.subprograms import strong_aval
from ...core.aval import Aval, is_weak
from ...program.ir import Program
from ...program.variable import Step, Variable, aval_of_atom
from .carries import Changed, written_in_place
from .code import Lanes
from .indices import copied, in_memory, is_table
from .lowering import SMALL, check
from .nests import HELD, held_in, with_nests
from .operators import LONG, TYPES, Refused, convert
from .positions import is_computed
from .table import Way, lowering_of
from .values import Values, at, chunks, parts_of, store, width_of

__all__ = ["LOOPS", "bodies", "carried_in_memory", "changes_of", "check_loop", "weight_of_loop"]

#: turns of a loop after which it is asked whether the user wants to stop
_PATIENCE = 1 << 16
#: iterations up to which a loop may run without looking for interrupts
_LONG = 1 << 18


# ── which are known ──────────────────────────────────────────────────────────────────────────────────────────────


def bodies(name: str, params: dict) -> list[Program]:
    """Return the programs of a loop or a branch."""
    if name == "scan":
        return [params["body"]]
    return [params["test"], params["body"]] if name == "while_loop" else list(params["branches"])


def check_loop(op: Any, args: Sequence[Any], params: dict, outs: Sequence[Variable]) -> None:
    """Raise ``Refused`` for a loop or a branch that is not known here."""
    name = op.name
    if name == "scan":
        nc, nk, _, _ = params["counts"]
        if not params["length"]:
            raise Refused("a loop without turns")
        if any([is_weak(v.aval) for v in params["body"].inputs[nc : nc + nk]]):
            raise Refused("a weak carry")
        held = carried_in_memory(params)
        for i, v in enumerate(outs[:nk]):
            aval = aval_of_atom(args[nc + i])
            if (i in held or v.aval.size > HELD) and (aval != v.aval or is_weak(aval)):
                raise Refused("a carry of another type")
    else:
        held = {}
    for a in args:
        if type(a) is not Variable:
            _check_constant(a)
        elif a.aval.dtype not in TYPES or not a.aval.size:
            raise Refused(f"an argument that is a {a.aval!r}")
    for v in outs:
        if v.aval.dtype not in TYPES or not v.aval.size or is_weak(v.aval):
            raise Refused(f"a result that is a {v.aval!r}")
    changes = changes_of(held)
    for program in bodies(name, params):
        for step in with_nests(program, changes).steps:
            if lowering_of(step.op).registers is Way.LOOP:
                check_loop(*step)
            elif step.out not in changes and step.op.kind != "native":
                check(*step)
        for o in program.outputs:
            if type(o) is not Variable:
                _check_constant(o)
            elif not o.aval.size:
                raise Refused("an empty result")


def changes_of(held: dict[int, set[Variable]]) -> set[Variable]:
    """Return the changes of all carries in memory."""
    return set[Variable]().union(*held.values())


def carried_in_memory(params: dict) -> dict[int, set[Variable]]:
    """The carries of a scan that are in memory, with their changes."""
    body, (nc, nk, _, _) = params["body"], params["counts"]
    return written_in_place(body, body.inputs[nc : nc + nk], body.outputs[:nk], SMALL)


def _check_constant(a: Any) -> None:
    """Raise ``Refused`` for a constant that is not known."""
    x = np.asarray(a)
    if x.dtype not in TYPES or not x.dtype.isnative or not x.size:
        raise Refused(f"a constant of {x.dtype}")


def weight_of_loop(op: Any, params: dict, weigh: Callable[[Sequence[Step]], int]) -> int:
    """Return about how many instructions a loop or a branch becomes."""
    changes = changes_of(carried_in_memory(params) if op.name == "scan" else {})
    return 20 + sum([weigh(with_nests(p, changes).steps) for p in bodies(op.name, params)])


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────────────────


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


class _Wide:
    """Large carries of a loop: two places of memory for each, of which a turn reads the one and writes the other."""

    def __init__(self, lowering: Any, starts: dict[int, Values], avals: dict[int, Aval]) -> None:
        self.lowering, self.avals = lowering, avals
        self.rooms = {i: lowering.room(Aval((2, *a.shape), a.dtype)) for i, a in avals.items()}
        for i, value in starts.items():
            copied(lowering.code, value, self.rooms[i])

    def _at(self, i: int, turn: str, other: bool) -> str:
        one, aval = Lanes(self.lowering.code, LONG, 1), self.avals[i]
        offset = one.mul(one.do("and", turn, "1"), str(aval.size))
        offset = one.sub(str(aval.size), offset) if other else offset
        return at(self.lowering.code, self.rooms[i], aval.dtype, offset)

    def values(self, turn: str) -> dict[int, Values]:
        """Return the carry at the beginning of an iteration."""
        return {i: Values(a, pointer=self._at(i, turn, False)) for i, a in self.avals.items()}

    def targets(self, turn: str, results: Sequence[Any]) -> dict[Variable, str]:
        """Return where results are written that are carried into the next turn."""
        return {results[i]: self._at(i, turn, True) for i in self.avals if type(results[i]) is Variable}

    def keep(self, turn: str, results: Sequence[Values]) -> None:
        """Write the carry of the next iteration, where that has not been done."""
        for i in self.avals:
            copy_to(self.lowering, results[i], self._at(i, turn, True))


def copy_to(lowering: Any, value: Values, pointer: str) -> None:
    """Write a value to memory, if it is not there."""
    if value.pointer != pointer or value.parts is not None:
        copied(lowering.code, value, pointer)


def _scan(lowering: Any, args: list, params: dict, outs: Sequence[Variable], targets: dict) -> list[Values]:
    code, length = lowering.code, params["length"]
    nc, nk, nx, more = params["counts"]
    changed = carried_in_memory(params)
    body = with_nests(params["body"], changes_of(changed))
    inputs = [v.aval for v in body.inputs]
    given: dict[int, Values] = {}
    for i in (*range(nc), *range(nc + nk + nx, nc + nk + nx + more)):
        given[i] = _place_read(lowering, args[i], body, body.inputs[i])
    rows = {i: in_memory(lowering, args[i]) for i in range(nc + nk, len(args)) if i not in given}
    stacks = [targets.get(v) or (lowering.room(v.aval) if v in lowering.read_later else "") for v in outs[nk:]]
    head = code.label()
    held: dict[int, Changed] = {}
    for i, nodes in changed.items():
        held[i] = Changed(code, inputs[nc + i], targets.get(outs[i]) or lowering.room(inputs[nc + i]))
        copied(code, args[nc + i], held[i].pointer)
        lowering.changes |= nodes
    most = held_in(body)
    large = [i for i in range(nk) if i not in held and inputs[nc + i].size > most]
    wide = _Wide(lowering, {i: args[nc + i] for i in large}, {i: inputs[nc + i] for i in large})
    loose = [i for i in range(nk) if i not in held and i not in large]
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
        given |= {nc + i: c for i, c in (*held.items(), *wide.values(counter).items())}
        for i, pointer in rows.items():
            given[i] = Values(inputs[i], pointer=_row(code, pointer, inputs[i], args[i].aval.dtype, turn))
        kept = [
            (Aval(v.aval.shape[1:], v.aval.dtype), pointer, k)
            for k, (pointer, v) in enumerate(zip(stacks, outs[nk:], strict=True), nk)
            if pointer  # nobody asks for the others
        ]
        places = [(k, aval, _row(code, pointer, aval, aval.dtype, turn)) for aval, pointer, k in kept]
        there = {body.outputs[k]: p for k, a, p in places if a.size > most and type(body.outputs[k]) is Variable}
        there |= wide.targets(counter, body.outputs)
        results = lowering.program(body, [given[i] for i in range(len(inputs))], there)
        for k, aval, place in places:
            if aval.size > most:
                copy_to(lowering, results[k], place)
            else:
                store(code, Values(aval, in_form(lowering, results[k], aval)), place)
        wide.keep(counter, results)
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
    final |= wide.values(str(length))
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
        had = code.call("PyGILState_Ensure")
        state = code.call("PyEval_SaveThread")  # whoever waits for the interpreter has it for a moment
        code.call("PyEval_RestoreThread", state)
        bad = code.new(f"icmp ne i32 {code.call('PyErr_CheckSignals')}, 0")
        code.call("PyGILState_Release", had)
        with code.when(bad):
            code.effect("ret i32 1")
    lowering.needs_python = True


def _while_loop(lowering: Any, args: list, params: dict, outs: Sequence[Variable], targets: dict) -> list[Values]:
    code, (a, b) = lowering.code, params["constants"]
    test, body = with_nests(params["test"], set()), with_nests(params["body"], set())
    avals = [v.aval for v in body.inputs[b:]]
    if any([is_weak(v.aval) for v in (*test.inputs, *body.inputs)]):
        raise Refused("a weak carry")
    fixed = [_ready(lowering, x) for x in args[: a + b]]
    most = min(held_in(test), held_in(body))
    large = [i for i, v in enumerate(avals) if v.size > most]
    wide = _Wide(lowering, {i: args[a + b + i] for i in large}, {i: avals[i] for i in large})
    loose = [i for i in range(len(avals)) if i not in large]
    small = [avals[i] for i in loose]
    starts = _parts(lowering, [_ready(lowering, args[a + b + i]) for i in loose], small)
    head, inside, end = code.label(), code.label(), code.label()
    (counter, *names), close = code.head(head, [("i64", "0"), *starts])
    now = dict(zip(loose, _whole(names, small), strict=True))
    with code.scope():
        _handle_signals(lowering, counter)
        now |= wide.values(counter)
        carried = [now[i] for i in range(len(avals))]
        (going,) = lowering.program(test, [*fixed[:a], *carried])
        (truth,) = parts_of(code, going)
        if going.aval.shape not in ((), (1,)) or going.aval.dtype.kind != "b":
            raise Refused("a test that is no truth value")
        code.branch(truth, inside, end)
        code.begin(inside)
        with code.scope():
            there = wide.targets(counter, body.outputs)
            results = lowering.program(body, [*fixed[a:], *carried], there)
            wide.keep(counter, results)
            new = [x for _, x in _parts(lowering, [results[i] for i in loose], small)]
        close([code.new(f"add i64 {counter}, 1"), *new])
        code.jump(head)
        code.begin(end)
    now |= wide.values(counter)
    return [Values(strong_aval(now[i].aval), now[i].parts, pointer=now[i].pointer) for i in range(len(avals))]


def _switch(lowering: Any, args: list, params: dict, outs: Sequence[Variable], targets: dict) -> list[Values]:
    code, linear = lowering.code, params["linear"]
    branches = [with_nests(b, set()) for b in params["branches"]]
    if any([is_weak(v.aval) for b in branches for v in b.inputs]):
        raise Refused("a weak input")
    which = args[linear]
    if which.aval.size != 1 or which.aval.dtype.kind == "f":
        raise Refused("a branch that is no whole number")
    (x,) = parts_of(code, which)
    x = convert(Lanes(code, which.aval.dtype, 1), x, LONG)
    values = [_ready(lowering, v) for v in (*args[:linear], *args[linear + 1 :])]
    labels, end = [code.label() for _ in branches], code.label()
    most = min([held_in(b) for b in branches])
    rooms = {k: targets.get(v) or lowering.room(v.aval) for k, v in enumerate(outs) if v.aval.size > most}
    # Below the first is the first, beyond the last the last.
    low = code.value(f"icmp slt i64 {x}, 0")
    number = code.value(f"select i1 {low}, i64 0, i64 {x}")
    cases = " ".join([f"i64 {i}, label %{name}" for i, name in enumerate(labels[:-1])])
    code.effect(f"switch i64 {number}, label %{labels[-1]} [{cases}]")
    arrived: list[str] = []
    found: list[list[tuple[str, str]]] = []
    loose = [k for k in range(len(outs)) if k not in rooms]
    avals = [strong_aval(outs[k].aval) for k in loose]
    for name, branch in zip(labels, branches, strict=True):
        with code.scope():
            code.begin(name)
            there = {branch.outputs[k]: p for k, p in rooms.items() if type(branch.outputs[k]) is Variable}
            results = lowering.program(branch, values, there)
            for k, pointer in rooms.items():
                copy_to(lowering, results[k], pointer)
            found.append(_parts(lowering, [results[k] for k in loose], avals))
            arrived.append(code.block)
            code.jump(end)
    code.begin(end)
    names = []
    for parts in zip(*found, strict=True):
        ways = [f"[{x}, %{block}]" for (_, x), block in zip(parts, arrived, strict=True)]
        names.append(code.new(f"phi {parts[0][0]} {', '.join(ways)}"))
    made = dict(zip(loose, _whole(names, avals), strict=True))
    return [made.get(k) or Values(strong_aval(v.aval), pointer=rooms[k]) for k, v in enumerate(outs)]


#: operators that become loops and branches
LOOPS: dict[str, Callable] = {"scan": _scan, "while_loop": _while_loop, "switch": _switch}
