"""Proofs that two programs compute the same: both are run on names in place of numbers, and the names compared.

Two results have one name only if the same operators made them, with the same parameters, of arguments with the same
names; so equal names are equal bits, on both sides of every ``where``, for NaN and infinities too. A loop that was
found again is run through, iteration by iteration; a program inside another is known by what it makes of inputs. What
else two programs may differ in is the list ``EXACT`` (``rewrites.py``). Nothing is shared with the passes. Not for:
what a pass does, or machine code.

An equation of an operator about which nothing else is to be known, like ``sin(x)`` or ``a @ b``, has as its name the
number that was given to (operator, parameters, result; names of the arguments). That is one look-up, and nearly every
equation is one: ``Runner.run``. Constants, moves of entries, loops and rewrites take the longer way: ``Runner._made``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.aval import Aval
from ..core.tables import OPS
from ..program.ir import Program, live_steps, programs_in
from ..program.variable import Step, Variable, aval_of_atom
from .moves import MOVES, in_long, joined, moved
from .names import FOLDED, SMALL, Names, Value
from .reroll import ROLLED
from .rewrites import RULES, is_one

__all__ = ["DifferentProgram", "Runner", "are_one", "check_same", "has_effect"]

#: an abstract value; where that is its name alone, the name
Known: TypeAlias = int | Value

#: operators that may be something else than (operator; names) though no argument is a constant
_PECULIAR = (MOVES | RULES.keys()) - {"divide", "matmul", "multiply", "negative", "scale"}


_INT = frozenset({int})


class DifferentProgram(Exception):
    """A pass has made a program that could not be shown to compute the same."""


class _Plan(NamedTuple):
    """The equations of a program that are needed.

    Each comes with the number of its operator, parameters and results; whether its name is made of that and the names
    of the arguments, unless one turns out to be a constant; and its arguments: variables, and ids of constants.
    """

    steps: list[tuple[int, bool, Sequence[Any], Step]]
    #: names of constants where equations of the short way read them
    constants: dict[Any, Known]


class Runner:
    """Runs programs on names."""

    def __init__(self) -> None:
        self.names = Names()
        #: name of a value's negative -> the value
        self.negated: dict[int, Value] = {}
        self._effects: list[int] = []
        self._plans: dict[int, _Plan] = {}
        self._meanings: dict[int, Any] = {}
        #: what moves of many entries make of what
        self._far: dict[tuple, Sequence[Value] | None] = {}
        #: operator, parameters and results -> their number, and whether that and the names of arguments tell all
        self._numbers: dict[tuple, tuple[int, bool]] = {}

    def meaning(self, program: Program) -> tuple:
        """Return a program's meaning, equal only where programs compute the same: avals of inputs, results, effects."""
        found = self._meanings.get(id(program))
        if found is None:
            before, self._effects = self._effects, []
            avals = tuple([_key_of(v.aval) for v in program.inputs])
            inputs = zip(avals, program.inputs, strict=True)
            out = self.run(program, [self.names.named(("input", i, a), v.aval) for i, (a, v) in enumerate(inputs)])
            values = [_as_value(x, o) for x, o in zip(out, program.outputs, strict=True)]
            results = tuple([(self.names.seen(v), *_key_of(v.aval)) for v in values])
            found = self._meanings[id(program)] = avals, results, tuple(self._effects)
            self._effects = before
        return found

    def run(self, program: Program, args: Sequence[Known]) -> list[Known]:
        """Return a program's results of abstract values."""
        plan, names = self._plans.get(id(program)) or self._plan(program), self.names
        table, known = names.table, dict(plan.constants)
        for v, given in zip(program.inputs, args, strict=True):
            given = given if v.aval.size else self._nothing(v.aval)
            known[v] = _short(given) if isinstance(given, Value) else given
        for number, is_plain, reads, step in plan.steps:
            if is_plain:
                key = (number, *[known[a] for a in reads])
                name = table.get(key)
                if name is None and _INT.issuperset(map(type, key)) and step.op.name != "negative":
                    name = names.number(key)
                if name is not None:
                    known[step.outs[0]] = name
                    continue
            made = self._made(step, [self._value(known, a) for a in step.args], number)
            for v, x in zip(step.outs, made, strict=True):
                if x.aval is not v.aval and x.aval != v.aval:
                    raise DifferentProgram(f"`{step.op.name}` makes {x.aval!r}, not {v.aval!r}")
                x = x if v.aval.size else self._nothing(v.aval)
                known[v] = _short(names.weak(x, v.aval.weak))
        return [known[o] if type(o) is Variable else names.constant(o) for o in program.outputs]

    def _nothing(self, aval: Aval) -> Value:
        """Return the value of whatever has no entries: there is nothing in it to differ."""
        return self.names.constant(np.zeros(aval.shape, aval.dtype))

    def _value(self, known: dict[Any, Known], a: Any) -> Value:
        """Return an atom of an equation as a value."""
        return _as_value(known[a], a) if type(a) is Variable else self.names.constant(a)

    def _plan(self, program: Program) -> _Plan:
        steps, constants = [], dict[Any, Known]()
        for step in live_steps(_inlined(program), program.outputs):
            op, args, params, outs = step
            found = None
            if len(outs) == 1 and not params:  # as `_number` does, a call and two lists less
                aval = outs[0].aval
                found = self._numbers.get((op, aval.shape, aval.dtype, aval.weak))
            number, is_plain = found or self._number(op, params, [v.aval for v in outs])
            given = [a for a in args if type(a) is not Variable]
            if given and is_plain:
                known = {id(a): self.names.constant(a) for a in given}
                is_plain = len(given) < len(args) and not _is_peculiar(op, known.values())
                constants.update({k: self.names.seen(c, True) for k, c in known.items()})
            reads = [a if type(a) is Variable else id(a) for a in args] if given else args
            steps.append((number, is_plain, reads, step))
        self.names.held.append(program)
        return self._plans.setdefault(id(program), _Plan(steps, constants))

    def _number(self, op: Any, params: dict | None, outs: Sequence[Aval]) -> tuple[int, bool]:
        key = (op, *([self._key(params)] if params else ()), *[x for v in outs for x in (v.shape, v.dtype, v.weak)])
        found = self._numbers.get(key)
        if found is None:
            is_plain = len(outs) == 1 and _is_simple(outs[0]) and op.name not in _PECULIAR
            is_plain = is_plain and op.kind != "control" and not has_effect(op, params or {})
            found = self._numbers[key] = self.names.number(key), is_plain
        return found

    def _made(self, step: Step, args: list[Value], number: int) -> Sequence[Value]:
        """Return an equation's results of abstract values."""
        op, _, params, outs = step
        names = self.names
        if op.name == "scan" and params["body"].name == ROLLED:
            return self._iterated(args, **params)
        if has_effect(op, params) or (op.kind == "control" and any([self.meaning(p)[2] for p in programs_in(params)])):
            effect = names.number(("effect", len(self._effects), number, *map(names.seen, args)))
            self._effects.append(effect)
            return self._results(effect, outs)
        args = in_long(names, op, args)
        if op.kind != "control" and all([v.known is not None for v in args]):
            if (known := _fold_constants(op, args, params, outs)) is not None:
                return known
        if op.name in RULES and (same := RULES[op.name](self, op, args, outs[0].aval)) is not None:
            return (same,)
        if _is_elementwise(op) and len(outs) == 1:
            return (self.elementwise(op, args, outs[0].aval, params),)
        if op.name in MOVES and (parts := self._moved(op, args, params, outs[0].aval, number)) is not None:
            return parts
        key = (number, *map(names.seen, args))
        return [names.named(key, outs[0].aval)] if len(outs) == 1 else self._results(names.number(key), outs)

    def _moved(self, op: Any, args: list[Value], params: dict, out: Aval, number: int) -> Sequence[Value] | None:
        """Return the values that a move makes: of many entries by a name of its own, so the same each time."""
        if out.size <= SMALL:
            return moved(self.names, op, args, params, out)
        key = (number, *map(self.names.seen, args))
        if key not in self._far:
            self._far[key] = moved(self.names, op, args, params, out)
        return self._far[key]

    def elementwise(self, op: Any, args: Sequence[Value], out: Aval, params: dict | None = None) -> Value:
        """Return an elementwise operator's result, the same for operands broadcast before or not."""
        number, _ = self._number(op, params, [out])
        return self.names.named((number, *[self.names.seen(v, True) for v in args]), out)

    def _results(self, number: int, outs: Sequence[Variable]) -> list[Value]:
        return [self.names.named(("part", number, k), v.aval) for k, v in enumerate(outs)]

    def _iterated(self, args, *, body, length, reverse, counts, linear) -> list[Value]:
        """Run a scan through, as its ``impl`` does."""
        names, cuts = self.names, np.cumsum(counts).tolist()
        fixed, carry, xs, more, rows = [args[a:b] for a, b in zip((0, *cuts), (*cuts, None), strict=True)]
        turns, weak = [names.rows(v) for v in (*xs, *rows)], [k for k, v in enumerate(body.inputs) if v.aval.weak]
        made: list[list[Known]] = []
        for i in reversed(range(length)) if reverse else range(length):
            now = [turn[i] for turn in turns]
            given = [*fixed, *carry, *now[: len(xs)], *more, *now[len(xs) :]]
            if any([isinstance(x, Value) and x.aval != v.aval for x, v in zip(given, body.inputs, strict=True)]):
                raise DifferentProgram("a loop's body is given something else than it takes")
            for k in weak:
                given[k] = names.weak(_as_value(given[k], body.inputs[k]), True)
            made.append(self.run(body, given))
            carry = made[-1][: len(carry)]
        first, last = body.outputs[: len(carry)], body.outputs[len(carry) :]
        if length and [aval_of_atom(o) for o in first] != [v.aval for v in body.inputs[len(fixed) :][: len(carry)]]:
            raise DifferentProgram("a loop's body returns another carry than it takes")
        stacks = []
        for k, o in enumerate(last, len(carry)):
            column = [_as_value(out[k], o) for out in (made[::-1] if reverse else made)]
            stacks.append(joined(names, OPS["stack"], column, {"axis": 0}, column[0].aval.dtype))
        carry = [_as_value(x, o) for x, o in zip(carry, first, strict=True)]
        return [names.weak(v, False) for v in (*carry, *stacks)]

    # ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────

    def _key(self, x: Any) -> Any:
        """Return a key of a parameter, equal only where parameters mean the same."""
        if type(x) in (int, str, type(None)):
            return x
        if type(x) is tuple:
            return tuple([self._key(v) for v in x])
        if isinstance(x, Program):
            return self.meaning(x)
        if isinstance(x, dict):
            return "dict", tuple([(k, self._key(x[k])) for k in sorted(x)])
        if type(x) is list:
            return "list", tuple([self._key(v) for v in x])
        if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            return "array", x.shape, x.dtype, x.tobytes()
        if isinstance(x, np.dtype):
            return x
        if isinstance(x, (bool, int, float, complex, np.generic)):
            return type(x), repr(x)
        self.names.held.append(x)
        return "object", id(x)


# ── small parts ──────────────────────────────────────────────────────────────────────────────────────────────────


def _key_of(aval: Aval) -> tuple:
    return aval.shape, aval.dtype, aval.weak


def _is_simple(aval: Aval) -> bool:
    """Whether what has one name has it for all who read it, whether they look through broadcasting or not."""
    return not aval.weak and (not aval.shape or (aval.shape[0] != 1 and 0 not in aval.shape))


def _short(v: Value) -> Known:
    """Return the name of a value, if nothing else is known of it."""
    has_parts = v.aval.shape and (v.cells is not None or v.view is not None or v.rows is not None)
    return v if v.name is None or v.known is not None or has_parts or not _is_simple(v.aval) else v.name


def _as_value(x: Known, v: Variable) -> Value:
    return x if isinstance(x, Value) else Value(v.aval, x)


def _is_peculiar(op: Any, constants: Iterable[Value]) -> bool:
    """Whether an operator may be something else than (operator; names) beside constants."""
    return not _is_elementwise(op) or op.name == "scale" or (op.name in RULES and any(map(is_one, constants)))


def _inlined(program: Program) -> list[Step]:
    """Return a program's equations, with those of the programs that it calls in place of the calls."""
    steps: list[Step] = []
    for step in program.steps:
        if step.op.name != "call":
            steps.append(step)
            continue
        part = step.params["program"]
        inside: dict[Variable, Any] = dict(zip(part.inputs, step.args, strict=True))
        for op, args, params, outs in _inlined(part):
            fresh = tuple([Variable(v.aval) for v in outs])
            steps.append(Step(op, [inside[a] if type(a) is Variable else a for a in args], params, fresh))
            inside.update(zip(outs, fresh, strict=True))
        for v, o in zip(step.outs, part.outputs, strict=True):
            given = inside[o] if type(o) is Variable else o
            steps.append(Step(OPS["astype"], [given], {"dtype": v.aval.dtype}, (v,)))
    return steps


def _is_elementwise(op: Any) -> bool:
    return op.name in ("scale", "where") or (type(op.impl) is np.ufunc and op.impl.signature is None)


def has_effect(op: Any, params: dict) -> bool:
    """Whether an operator may do more than return."""
    return bool(op.effect) or op.kind in ("custom", "implicit", "collective") or "call" in params


def _fold_constants(op: Any, args: Sequence[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    """Return the results of an operator on constants."""
    aval = outs[0].aval
    if op.multiple_results or (aval.size > FOLDED and op.name not in MOVES):
        return None
    try:
        x = op.impl(*[v.known for v in args], **params)
    except (ArithmeticError, TypeError, ValueError, IndexError):  # raised where it belongs: when the program runs
        return None
    if np.shape(x) != aval.shape or np.asarray(x).dtype != aval.dtype or aval.dtype.kind not in "biufc":
        return None
    return [Value(Aval(aval.shape, aval.dtype), None, x)]


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def are_one(a: Step, b: Step) -> bool:
    """Whether two equations are the same, with the same variables."""
    if a is b:
        return True
    atoms = [[*map(id, step.args), None, *map(id, step.outs)] for step in (a, b)]
    return a.op is b.op and a.params is b.params and atoms[0] == atoms[1]


def check_same(before: Program, after: Program, runner: Runner | None = None) -> None:
    """Raise ``DifferentProgram`` unless two programs are shown to compute the same."""
    atoms = [[*map(id, program.inputs), None, *map(id, program.outputs)] for program in (before, after)]
    if atoms[0] == atoms[1] and len(before.steps) == len(after.steps):
        if all(map(are_one, before.steps, after.steps)):
            return
    runner = runner or Runner()
    with np.errstate(all="ignore"):
        a, b = runner.meaning(before), runner.meaning(after)
    if a != b:
        wrong = [str(i) for i, (x, y) in enumerate(zip(a[1], b[1], strict=False)) if x != y]
        what = f"results {', '.join(wrong[:5])}" if wrong else "inputs" if a[0] != b[0] else "effects"
        raise DifferentProgram(f"the {what} could not be shown to be the same")
