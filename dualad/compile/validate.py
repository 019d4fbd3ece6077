"""Proofs that two programs compute the same: both are run on names in place of numbers, and the names compared.

Two results have one name only if the same operators made them, with the same parameters, of arguments with the same
names; so equal names are equal bits, on both sides of every ``where``, for NaN and infinities too. A loop that was
found again is run through, iteration by iteration; a program inside another is known by what it makes of inputs. What
else two programs may differ in is the list ``EXACT``. Nothing is shared with the passes. Not for: what a pass
does, or machine code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.aval import Aval
from ..core.tables import OPS
from ..program.ir import Program, live_steps
from ..program.variable import Step, Variable
from .names import FOLDED, SMALL, Names, Value
from .reroll import ROLLED
from .trust import attempt, fall_back

__all__ = ["DifferentProgram", "EXACT", "are_one", "check_same", "has_effect", "proven"]

#: what programs may differ in, and why it is exact
EXACT = {
    "equal equations are one": "the same operator of the same names, if it does nothing but return",
    "equations change places": "those with effects keep their order",
    "equations that nothing reads are left out": "also those with effects, and those that might raise",
    "a constant for what an operator makes of constants": "the operator's own code has made it",
    "x for a move of all of x": "copy, positive, stop_gradient, astype, reshape, index, transpose, ...",
    "other moves of the same entries to the same places": "names are moved by the operators' own code",
    "x for x * 1, 1 * x, x / 1": "bit for bit, where the dtype stays; not for complex numbers",
    "x for -(-x)": "bit for bit, where the dtype stays",
    "square(x), square(x) * x, square(square(x)) for x**2, x**3, x**4": "real x; at least as near to the truth as pow",
    "t * d for scale(t, d)": "where t is known and nowhere 0, or d is known and finite",
    "b for eye @ b, a for a @ eye": "the zeros of a basis are strong",
    "real(x), conjugate(x) for x": "real x",
    "x == 0 for vanishes(x)": "nobody differentiates it any more",
    "value for filled(like, value)": "a buffer of one number takes no memory",
    "f(a, b) for f(broadcast(a), b)": "elementwise f; the shape of the result stays",
    "an index of int64 for one of shorter integers": "the same positions",
    "the equations of a program for its call": "its results are arrays, not Python numbers",
    "iterations for a loop that was found again": "run through here",
}

_MOVES = frozenset({
    "broadcast_to", "concatenate", "filled", "flip", "index", "index_add", "index_set", "reshape", "shift", "split",
    "stack", "transpose", "unstack",
})  # fmt: skip
#: elementwise operators that may be more than their names where no argument is one
_PECULIAR = frozenset({"conjugate", "negative", "positive", "power", "scale"})
_SAME = frozenset({"checkpoint_name", "copy", "positive", "stop_gradient"})
_INDEXED = frozenset({"index", "index_add", "index_set"})
_LONG, _SHORTER = np.dtype(np.int64), frozenset(map(np.dtype, ("i1", "i2", "i4", "u1", "u2", "u4")))
_JOINS = frozenset({"concatenate", "stack"})


class DifferentProgram(Exception):
    """A pass has made a program that could not be shown to compute the same."""


class _Plan(NamedTuple):
    """The equations of a program that are needed.

    Each comes with the number of its operator, parameters and results, and with its arguments: variables and ids of
    constants. Where the number is positive, the name of the result is made of that and the names of the arguments,
    unless one turns out to be a constant.
    """

    steps: list[tuple[int, list[Any], Step]]
    #: names of constants where elementwise operators read them; None where that may come to something else
    constants: dict[int, int | None]
    outputs: list[Any]
    #: what the equations and the program read
    read: set[Any]


class Runner:
    """Runs programs on names."""

    def __init__(self) -> None:
        self.names = Names()
        self.negated: dict[int, Value] = {}
        self._effects: list[int] = []
        self._plans: dict[tuple, _Plan] = {}
        self._meanings: dict[int, Any] = {}
        #: operator, parameters and results -> their number; a negative one if that does not tell all
        self._numbers: dict[tuple, int] = {}

    def meaning(self, program: Program) -> tuple:
        """Return what two programs share only if they compute the same: avals of inputs, results, and effects."""
        found = self._meanings.get(id(program))
        if found is None:
            before, self._effects = self._effects, []
            avals = tuple([_key_of(v.aval) for v in program.inputs])
            inputs = zip(avals, program.inputs, strict=True)
            out = self.run(program, [self.names.named(("input", i, a), v.aval) for i, (a, v) in enumerate(inputs)])
            results = tuple([(self.names.seen(v), *_key_of(v.aval)) for v in out])
            found = self._meanings[id(program)] = avals, results, tuple(self._effects)
            self._effects = before
        return found

    def run(self, program: Program, args: Sequence[Value], read: tuple[bool, ...] | None = None) -> list:
        """Return what a program makes of values; ``None`` for results that are not read."""
        plan, names = self._plans.get((id(program), read)) or self._plan(program, read), self.names
        table, values = names.table, dict(zip(program.inputs, args, strict=True))
        seen: dict[Any, int | None] = {**plan.constants, **{v: _known_as(x) for v, x in values.items()}}

        def value(a: Any) -> Value:
            if type(a) is not Variable:
                return names.constant(a)
            return values.get(a) or values.setdefault(a, Value(a.aval, seen[a]))

        for number, reads, step in plan.steps:
            if number > 0:
                key = (number, *[seen[a] for a in reads])
                if None in key:
                    for a in reads:
                        if seen[a] is None and type(a) is Variable and values[a].known is None:
                            seen[a] = names.seen(values[a], True)
                    key = (number, *[seen[a] for a in reads])
                if None not in key:
                    seen[step.out] = table.get(key) or names.number(key)
                    continue
            made = self._step(step, [value(a) for a in step.args], number, plan.read)
            for v, x in zip(step.outs, made, strict=True):
                if x is not None:
                    if x.aval is not v.aval and x.aval != v.aval:
                        raise DifferentProgram(f"`{step.op.name}` makes {x.aval!r}, not {v.aval!r}")
                    values[v] = x = names.weak(x, v.aval.weak)
                    seen[v] = _known_as(x)
        return [None if o is None else value(o) for o in plan.outputs]

    def _plan(self, program: Program, read: tuple[bool, ...] | None) -> _Plan:
        flags = read or (True,) * len(program.outputs)
        outputs = [o if r else None for o, r in zip(program.outputs, flags, strict=True)]
        live, constants, steps = live_steps(program.steps, outputs), dict[int, int | None](), []
        for step in live:
            number = self._number(step.op, step.params, [v.aval for v in step.outs])
            known = [a for a in step.args if type(a) is not Variable]
            if number > 0 and known:
                number = number if len(known) < len(step.args) else -number
                for a in known:
                    if id(a) not in constants:
                        c = self.names.constant(a)
                        constants[id(a)] = None if _is_one(c) else self.names.seen(c, True)
            steps.append((number, [a if type(a) is Variable else id(a) for a in step.args], step))
        lists = [outputs, *([step.args for step in live] if any([step.op.name == "call" for step in live]) else ())]
        found = {a for atoms in lists for a in atoms if type(a) is Variable}
        self.names.held.append(program)
        return self._plans.setdefault((id(program), read), _Plan(steps, constants, outputs, found))

    def _number(self, op: Any, params: dict | None, outs: Sequence[Aval]) -> int:
        key = (op, *([self._key(params)] if params else ()), *[x for v in outs for x in (v.shape, v.dtype, v.weak)])
        found = self._numbers.get(key)
        if found is None:
            tells_all = not params and len(outs) == 1 and _is_simple(outs[0]) and op.name not in _PECULIAR
            tells_all = tells_all and _is_elementwise(op) and not has_effect(op, {})
            found = self._numbers[key] = self.names.number(key) * (1 if tells_all else -1)
        return found

    def _step(self, step: Step, args: list[Value], number: int, read: set) -> Sequence[Value | None]:
        """Return what an equation makes of values."""
        op, _, params, outs = step
        names, name = self.names, op.name
        if name == "call":
            found = self.run(params["program"], args, tuple([v in read for v in outs]))
            return [None if v is None else names.weak(v, False) for v in found]
        if name == "scan" and params["body"].name == ROLLED:
            return self._iterated(args, **params)
        if has_effect(op, params) or (op.kind == "control" and any([self.meaning(p)[2] for p in _programs(params)])):
            effect = names.number(("effect", len(self._effects), number, *map(names.seen, args)))
            self._effects.append(effect)
            return self._results(effect, outs)
        if name == "vanishes":
            op, args = OPS["equal"], [*args, names.constant(0)]
        if name in _INDEXED:
            first = 1 + (name == "index_set")
            args = [*args[:first], *[names.cast(v, _LONG) if v.aval.dtype in _SHORTER else v for v in args[first:]]]
        if op.kind != "control" and all([v.known is not None for v in args]):
            if (known := _fold_constants(op, args, params, outs)) is not None:
                return known
        if name in _SAME:
            return (args[0],)
        if len(outs) == 1:
            if name in _RULES and (same := _RULES[name](self, op, args, outs[0].aval)) is not None:
                return (same,)
            if _is_elementwise(op):
                return (self.elementwise(op, args, outs[0].aval, params),)
        if name in _MOVES and (moved := self._moved(op, args, params, outs[0].aval)) is not None:
            return moved
        return self._results(names.number(("result", number, *map(names.seen, args))), outs)

    def elementwise(self, op: Any, args: Sequence[Value], out: Aval, params: Any = None) -> Value:
        """Return what an elementwise operator makes of values, whether they were broadcast before or not."""
        number = abs(self._number(op, params, [out]))
        return self.names.named((number, *[self.names.seen(v, True) for v in args]), out)

    def _results(self, number: int, outs: Sequence[Variable]) -> list[Value]:
        return [self.names.named(("part", number, k), v.aval) for k, v in enumerate(outs)]

    def _iterated(self, args, *, body, length, reverse, counts, linear) -> list[Value]:
        """Run a scan through, as its ``impl`` does."""
        names, cuts = self.names, np.cumsum(counts).tolist()
        fixed, carry, xs, more, rows = [args[a:b] for a, b in zip((0, *cuts), (*cuts, None), strict=True)]
        turns = [names.rows(v) for v in (*xs, *rows)]
        made: list[list[Value]] = [[] for _ in body.outputs[len(carry) :]]
        weak = [k for k, v in enumerate(body.inputs) if v.aval.weak]
        for i in reversed(range(length)) if reverse else range(length):
            now = [turn[i] for turn in turns]
            given = [*fixed, *carry, *now[: len(xs)], *more, *now[len(xs) :]]
            if [v.aval for v in given] != [v.aval for v in body.inputs]:
                raise DifferentProgram("a loop's body is given something else than it takes")
            for k in weak:
                given[k] = names.weak(given[k], True)
            out = self.run(body, given)
            carry = out[: len(carry)]
            for stack, y in zip(made, out[len(carry) :], strict=True):
                stack.append(y)
        stacks = [self._joined(OPS["stack"], s[::-1] if reverse else s, {"axis": 0}, s[0].aval.dtype) for s in made]
        return [names.weak(v, False) for v in (*carry, *stacks)]

    # ── moves ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _moved(self, op: Any, args: list[Value], params: dict, out: Aval) -> Sequence[Value] | None:
        """Return what a move makes of values; ``None`` where it is not known, or too large to say, what goes where."""
        x, name, names = args[0], op.name, self.names
        if name == "filled":
            return names.taken(OPS["broadcast_to"], names.cast(args[1], out.dtype), {"shape": params["shape"]})
        if name in _JOINS:
            return (self._joined(op, args, params, out.dtype),) if out.size <= SMALL else None
        if name not in _INDEXED:
            return names.taken(op, x, params)
        first = 2 if name == "index_set" else 1
        if any([v.known is None for v in args[first:]]):
            return None
        arrays = [np.asarray(v.known) for v in args[first:]]
        if arrays and name == "index_add":  # -0.0 becomes 0.0, and the order of what is added counts
            return None
        if arrays and all([not a.shape for a in arrays]):
            template = _concrete_template(params["template"], arrays, x.aval.shape)
            if template is None:
                return None
            params, arrays = {"template": template}, []
        if name == "index":
            return names.taken(op, x, params, arrays) if out.size <= SMALL or not arrays else None
        if out.size > SMALL:
            return None
        given = [names.cells(v) for v in ((x,) if name == "index_add" else (x, names.cast(args[1], x.aval.dtype)))]
        return (names.of_cells(np.asarray(op.impl(*given, *arrays, **params)), x.aval),)

    def _joined(self, op: Any, args: Sequence[Value], params: dict, dtype: np.dtype) -> Value:
        """Return what a join makes of values, which it casts."""
        args = [self.names.cast(v, dtype) for v in args]
        if op.name == "stack" and params["axis"] == 0 and any([v.known is None for v in args]):
            return self.names.stacked(args)
        cells = np.asarray(op.impl(*map(self.names.cells, args), **params))
        return self.names.of_cells(cells, Aval(cells.shape, dtype))

    # ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────

    def _key(self, x: Any) -> Any:
        """Return what two parameters share only if they mean the same."""
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


# ── rewrites that are exact ──────────────────────────────────────────────────────────────────────────────────────
#
# Each returns the value that an equation stands for by a line of ``EXACT``, or ``None``.


def _product(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    a, b = args
    for one, other in ((b, a), (a, b)) if op.name == "multiply" else ((b, a),):
        if out.dtype.kind in "fiu" and other.aval.dtype == out.dtype and _is_one(one):
            return _spread(run, other, out)
    return None


def _scaled(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    t, d = [v.known for v in args]
    if (d is not None and np.all(np.isfinite(d))) or (t is not None and np.all(np.not_equal(t, 0))):
        return _product(run, OPS["multiply"], args, out) or run.elementwise(OPS["multiply"], args, out)
    return None


def _power(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    x, n = args
    if out.dtype.kind != "f" or x.aval != out or n.aval.shape or n.known is None or n.known not in (2, 3, 4):
        return None
    squared = run.elementwise(OPS["square"], [x], Aval(out.shape, out.dtype))
    if n.known == 3:
        return run.elementwise(OPS["multiply"], [squared, x], out)
    return squared if n.known == 2 else run.elementwise(OPS["square"], [squared], out)


def _negative(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    (x,) = args
    before = run.negated.get(run.names.seen(x))
    if before is not None and before.aval == out == x.aval:
        return before
    made = run.elementwise(op, args, out)
    run.negated[run.names.seen(made)] = x
    return made


def _matrix_product(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    for one, other in (args, args[::-1]):
        x = one.known
        if type(x) is np.ndarray and out.dtype.kind == "f" and other.aval == out and x.ndim == out.ndim == 2:
            if x.shape[0] == x.shape[1] and np.array_equal(x, np.eye(len(x))):
                return other
    return None


def _cast(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return run.names.cast(args[0], out.dtype)


def _real(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return args[0] if args[0].aval.dtype.kind != "c" and args[0].aval == out else None


_RULES: dict[str, Callable[..., Value | None]] = {
    "astype": _cast, "conjugate": _real, "divide": _product, "matmul": _matrix_product, "multiply": _product,
    "negative": _negative, "power": _power, "real": _real, "scale": _scaled,
}  # fmt: skip


# ── small parts ──────────────────────────────────────────────────────────────────────────────────────────────────


def _key_of(aval: Aval) -> tuple:
    return aval.shape, aval.dtype, aval.weak


def _known_as(v: Value) -> int | None:
    """Return the name under which elementwise operators read a value, if it has been asked for."""
    return v.seen if v.known is None else None


def _is_simple(aval: Aval) -> bool:
    """Whether what an operator makes has one name, whoever reads it."""
    return not aval.weak and (not aval.shape or (aval.shape[0] != 1 and 0 not in aval.shape))


def _is_elementwise(op: Any) -> bool:
    return op.name in ("scale", "where") or (type(op.impl) is np.ufunc and op.impl.signature is None)


def has_effect(op: Any, params: dict) -> bool:
    """Whether an operator may do more than return."""
    return bool(op.effect) or op.kind in ("custom", "implicit", "collective") or "call" in params


def _programs(params: dict) -> list[Program]:
    parts = [v if isinstance(v, tuple) else (v,) for v in params.values()]
    return [p for part in parts for p in part if isinstance(p, Program)]


def _is_one(v: Value) -> bool:
    if v.known is None or v.aval.dtype.kind not in "iuf":
        return False
    return bool(v.known == 1) if not v.aval.shape else v.aval.size > 0 and bool(np.all(v.known == 1))


def _spread(run: Runner, v: Value, out: Aval) -> Value:
    if v.aval.shape != out.shape:
        v = run.names.taken(OPS["broadcast_to"], v, {"shape": out.shape})[0]
    return run.names.weak(v, out.weak)


def _concrete_template(template: tuple, arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> tuple | None:
    """Return the template of an index by arrays of one number each with these numbers in it."""
    numbers, axis, found = iter(arrays), 0, []
    for e in template:
        if e in ("true", "false"):
            return None
        if e == "array":
            e = int(next(numbers))
            e += shape[axis] if e < 0 else 0
            if not 0 <= e < shape[axis]:
                return None
        found.append(e)
        axis += e is not None
    return tuple(found)


def _fold_constants(op: Any, args: Sequence[Value], params: dict, outs: Sequence[Variable]) -> list[Value] | None:
    """Return what an operator makes of constants."""
    aval = outs[0].aval
    if op.multiple_results or op.name == "filled" or (aval.size > FOLDED and op.name not in _MOVES):
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


def proven(
    program: Program,
    passes: Mapping[str, Callable[[Program], Program]],
    in_part: Mapping[str, Callable[[Program, Callable[[Program, Callable[[], Program]], bool]], Program]] = {},
) -> Program:
    """Return what passes make of a program, each of what the one before has made, as far as it is shown to be right.

    Where that fails, ``in_part[name](program, is_right)`` is what a pass makes of the parts that are.
    """
    stages = [(program, "")]
    for name, make in passes.items():
        stages.append((attempt(name, functools.partial(make, stages[-1][0]), stages[-1][0]), name))
    runner = Runner()

    def is_right(before: Program, make: Callable[[], Program]) -> bool:
        try:
            check_same(before, make(), runner)
        except Exception:  # a proof that fails is none
            return False
        return True

    while stages[-1][0] is not program:
        found, name = stages.pop()
        try:
            check_same(program, found, runner)
        except Exception as error:
            fall_back(f"{name} (of the program `{program.name}`)", error)
            if name in in_part:
                before = stages[-1][0]
                stages.append(
                    (attempt(name, functools.partial(in_part[name], before, is_right), before), f"{name} in part")
                )
        else:
            return found
    return program
