"""Equations on small arrays as straight-line code: the values are in registers, and moves cost next to nothing.

Sums are added in NumPy's order, so they have NumPy's bits. Not for: which equations come here (``groups.py``), loops
and branches (``loops.py``), elementwise operators themselves (``operators.py``).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval, aval_of, is_weak
from ...ops.elementary import derivative_of_sinc
from ...ops.indexing import INDEXED
from ...program.ir import Program
from ...program.variable import Step, Variable, aval_of_atom
from ...transforms.trace import trace
from .carries import Changed, change, read_changed
from .code import WIDTH, Code, Lanes
from .factors import MOST, factors_of, products_of
from .indices import added_up, check_index, check_known_index, copied, read, weight_of_index, written_to
from .operators import BOOL, DOUBLE, TYPES, Refused, computed_in, have_room, of_operands, operand_type, short_total
from .positions import is_computed
from .sorting import has_rows, sorted_rows
from .systems import has_system, solved, weight_of_system
from .table import RUNNING, Way, lowering_of
from .totals import ACCUMULATORS
from .values import LONG, Values, at, chunks, gather, in_chunks, join_entries, parts_of, places, take, width_of

__all__ = ["Registers", "SMALL", "check", "count_moved", "trailing", "weight"]

#: the most entries of an array in registers
SMALL = 1024
#: entries, and orders of derivatives, of functions that are written out in other operators
_SPELLED, _ORDERS = 128, 4
_DEFINED = re.compile(r"^define (?:internal )?\S+ @(\w+)\(", re.MULTILINE)
_NAMED = re.compile(r"@(\w+)")


def count_moved(name: str, args: Sequence) -> int:
    """The number of leading arguments that a move takes entries from."""
    return 2 if name == "index_set" else len(args) if name in ("concatenate", "stack") else 1


def check(op: Any, args: Sequence[Any], params: dict, outs: Sequence[Variable]) -> None:
    """Raise ``Refused`` for an equation that ``Registers`` does not know."""
    name, avals = op.name, [aval_of_atom(a) for a in args]
    results = [v.aval for v in outs]
    step = Step(op, args, params, tuple(outs))
    if is_indexed(step):
        check_index(step, SMALL)
        return
    every = (*avals, *results)
    known = all([a.dtype in TYPES and 0 < a.size <= SMALL and a.dtype.isnative for a in every]) and have_room(args)
    if not known or any([is_weak(a) for a in results]) or not _has_code(op, args, params, avals, results[0]):
        raise Refused(name)


def _has_code(op: Any, args: Sequence[Any], params: dict, avals: Sequence[Aval], out: Aval) -> bool:
    """Whether an operator is known on these arguments; it may raise ``Refused``, too."""
    name, way = op.name, lowering_of(op).registers
    if way is Way.MOVE:
        moved = count_moved(name, args)
        if any([type(a) is Variable for a in args[moved:]]):
            return False
        if len(args) > moved:
            check_known_index(op, args, params, out)
        return all([a.dtype == out.dtype and not is_weak(a) for a in avals[:moved]])
    if way is Way.ENTRYWISE:
        computed_in(name, avals, params, out)
        return True
    if name in ("argmax", "argmin"):
        return avals[0].dtype != BOOL and not is_weak(avals[0])
    if way is Way.TOTAL:
        counts = name == "sum" and out.dtype.kind == "i" and avals[0].dtype.kind in "bi"
        if (
            (out.dtype != avals[0].dtype and not counts)
            or is_weak(avals[0])
            or (out.dtype == BOOL) != (name in ("all", "any"))
        ):
            return False
        if name == "recurrence" and any([(a.shape, a.dtype) != (out.shape, out.dtype) or is_weak(a) for a in avals]):
            return False
        return name == "cumsum" or params.get("axis") is not None
    if way is Way.PRODUCT:
        if any([a.dtype != out.dtype or a.dtype.kind != "f" or not a.shape for a in avals]):
            return False
        return products_of(name, avals, params) <= MOST
    if way is Way.SPELLED:
        return out.dtype == DOUBLE and out.size <= _SPELLED and params["order"] <= _ORDERS
    if way is Way.ROWS:
        return has_rows(name, avals, params, out)
    return way is Way.FACTOR and has_system(name, avals, params, out)


def is_indexed(step: Step) -> bool:
    """Whether an equation has an index that is computed, or reads from a long array."""
    op, args = step[:2]
    computed = is_computed(step) and any([type(a) is Variable for a in args[INDEXED[op.name] :]])
    return computed or (op.name == "index" and aval_of_atom(args[0]).size > SMALL)


def weight(op: Any, args: Sequence[Any], params: dict, outs: Sequence[Variable]) -> int:
    """Return about how many instructions an equation becomes."""
    most = max([chunks(v.aval) for v in outs], default=1)
    if op.name in INDEXED and is_indexed(step := Step(op, args, {}, tuple(outs))):
        return weight_of_index(step)
    way = lowering_of(op).registers
    if way is Way.TOTAL:
        return aval_of_atom(args[0]).size // (1 if op.name in (*RUNNING, "argmax", "argmin") else 4) + 8 * most
    if way is Way.PRODUCT:
        return 4 * products_of(op.name, [aval_of_atom(a) for a in args], params) // width_of(outs[0].aval)
    if way is Way.SPELLED:
        return 80 * most
    if way is Way.ROWS:
        return 60 + 4 * most
    return weight_of_system(op.name, outs[0].aval) if way is Way.FACTOR else 2 * most


class Registers:
    """Writes equations into the code of one function."""

    def __init__(self, code: Code, loops: Mapping[str, Callable]) -> None:
        self.code, self.loops = code, loops
        #: bytes of memory for what loops write and others read
        self.scratch = 0
        #: where in it an address is
        self.rooms: dict[str, int] = {}
        #: whether it calls Python, and so has to hold the interpreter's lock
        self.needs_python = False
        #: variables that an equation or a result reads
        self.read_later: set[Variable] = set()
        #: variables that are changes of a carry in memory
        self.changes: set[Variable] = set()
        #: large constants, in memory
        self.constants: dict[int, Values] = {}
        #: functions that it calls
        self.functions: list[str] = []

    def room(self, aval: Aval) -> str:
        """Return the address of memory for an array."""
        offset = -(-self.scratch // 64) * 64
        self.scratch = offset + -(-aval.size * aval.dtype.itemsize // 64) * 64
        pointer = self.code.value(f"getelementptr i8, ptr %scratch, i64 {offset}")
        self.rooms[pointer] = offset
        return pointer

    def take_over(self, text: str) -> dict[str, str]:
        """Take the functions of another module into this one; return their names here."""
        prefix = f"n{len(self.functions)}_"
        names = {name: prefix + name for name in _DEFINED.findall(text)}
        text = _NAMED.sub(lambda found: f"@{names.get(found[1], found[1])}", text)
        self.functions.append(text.replace("define void", "define internal void"))
        return names

    def program(self, program: Program, inputs: Sequence[Values], targets: dict[Any, str] | None = None) -> list:
        """Write a program's equations; return its results.

        ``targets`` says of results of loops, and of loop nests, to which memory they are written.
        """
        env: dict[Any, Values] = dict(zip(program.inputs, inputs, strict=True))
        self.read_later.update([o for o in program.outputs if type(o) is Variable])
        self.steps(program.steps, env, targets or {})
        return [self.read(o, env) for o in program.outputs]

    def steps(self, steps: Sequence[Step], env: dict, targets: dict[Any, str]) -> None:
        self.read_later.update([a for step in steps for a in step.args if type(a) is Variable])
        for step in steps:
            op, args, params, outs = step
            given = [self.read(a, env) for a in args]
            if outs and outs[0] in self.changes:
                results = [change(self, step, given)]
            elif op.name == "index" and isinstance(given[0], Changed):
                results = [(read_changed if given[0].is_changed else read)(self, step, given)]
            elif op.name in INDEXED and is_indexed(step):
                results = [read(self, step, given) if op.name == "index" else written_to(self, step, given)]
            elif op.kind == "native":
                results = op.write(self, given, targets)
            elif op.name in self.loops:
                results = self.loops[op.name](self, given, params, outs, targets)
            else:
                results = self.equation(op, given, params, outs)
            env.update(zip(outs, results, strict=True))

    def read(self, a: Any, env: dict) -> Values:
        if type(a) is Variable:
            return env[a]
        if id(a) in self.constants:  # a large one is read like an argument
            return self.constants[id(a)]
        aval = aval_of(a)
        if aval.dtype not in TYPES:
            raise Refused(f"a constant of {aval.dtype}")
        return Values(aval, constant=np.asarray(a))

    def equation(self, op: Any, args: list[Values], params: dict, outs: Sequence[Variable]) -> list[Values]:
        name, way = op.name, lowering_of(op).registers
        if way is Way.MOVE:
            return self.moved(op, args, params, outs)
        out = outs[0].aval
        if way is Way.ENTRYWISE:
            return [self.elementwise(name, args, params, out)]
        if way is Way.PRODUCT:
            return [self.product(name, args, params, out)]
        if way is Way.FACTOR:
            return solved(self, name, args, params, [v.aval for v in outs])
        if way is Way.SPELLED:
            return self.program(_spelled(out.shape, params["order"]), args)
        if way is Way.ROWS:
            return [sorted_rows(self, name, args, params, out)]
        if name in RUNNING:
            return [self.running(name, args, params, out)]
        if name in ("argmax", "argmin"):
            return [self.position(name, args[0], params["axis"], out)]
        return [self.reduction(name, args[0], params, out)]

    # ── elementwise ──────────────────────────────────────────────────────────────────────────────────────────────

    def elementwise(self, name: str, args: Sequence[Values], params: dict, out: Aval) -> Values:
        dtype = computed_in(name, [a.aval for a in args], params, out)
        width, exponent = width_of(out), None
        if name == "power" and args[1].constant is not None and args[1].aval.size == 1:
            exponent = float(args[1].constant.flat[0])
        columns = []
        for i, a in enumerate(args):
            wanted = operand_type(name, i, dtype)
            if a.constant is not None and a.aval.dtype != wanted:
                a = Values(Aval(a.aval.shape, wanted), constant=a.constant.astype(wanted))
            if out.size == 1 or ((a.aval.shape == out.shape or a.aval.size == out.size) and a.constant is None):
                parts = list(parts_of(self.code, a))
            else:
                rows = in_chunks(np.broadcast_to(places(a.aval), out.shape), width)
                parts = [take(self.code, a, row, width) for row in rows]
            columns.append([(x, width, a.aval.dtype) for x in parts])
        write = lambda *row: of_operands(self.code, name, row, dtype, out.dtype, exponent)[0]
        return Values(out, [write(*row) for row in zip(*columns, strict=True)])

    # ── moves ────────────────────────────────────────────────────────────────────────────────────────────────────

    def moved(self, op: Any, args: list[Values], params: dict, outs: Sequence[Variable]) -> list[Values]:
        moved = count_moved(op.name, args)
        if op.name == "index_add" and len(args) > moved:
            return [added_up(self.code, args[0], [a.constant for a in args[1:]], params["template"], outs[0].aval)]
        if op.name == "concatenate" and not params["axis"] and any([x.pointer and x.aval.size >= LONG for x in args]):
            out, first = Values(outs[0].aval, pointer=self.room(outs[0].aval)), 0
            for x in args:
                copied(self.code, x, at(self.code, out.pointer, x.aval.dtype, first))
                first += x.aval.size
            return [out]
        numbers, count = [], 1
        for a in args[:moved]:
            numbers.append(places(a.aval) + count)
            count += a.aval.size
        moves = op.impl(*numbers, *[a.constant for a in args[moved:]], **params)
        moves = moves if op.multiple_results else (moves,)
        return [gather(self.code, args[:moved], np.asarray(x) - 1, v.aval) for x, v in zip(moves, outs, strict=True)]

    # ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────

    def reduction(self, name: str, x: Values, params: dict, out: Aval) -> Values:
        axis = tuple(params["axis"])
        if name in ("all", "any") and out.size == 1 and x.aval.size >= WIDTH:  # in no order, so by vectors
            b, parts = Lanes(self.code, BOOL, WIDTH), parts_of(self.code, x)
            if name == "any":
                return Values(out, [b.any(functools.reduce(b.either, parts))])
            return Values(out, [Lanes(self.code, BOOL, 1).invert(b.any(b.invert(functools.reduce(b.both, parts))))])
        if x.aval.dtype != out.dtype:  # truth values are counted
            x = self.elementwise("astype", [x], {"dtype": out.dtype}, Aval(x.aval.shape, out.dtype))
        where = places(x.aval)
        others = [i for i in range(where.ndim) if i not in axis]
        rows = where.transpose(*others, *sorted(axis)).reshape(out.size, -1)
        inner = trailing(axis, x.aval.shape)
        if name == "sum" and inner >= WIDTH:
            return join_entries(self.code, out, [self._in_rows(x, row.reshape(-1, inner)) for row in rows])
        b = Lanes(self.code, out.dtype, width_of(out))
        parts = []
        for row in in_chunks(places(out), b.width):
            entry = lambda k, row=row: take(self.code, x, rows[row, k], b.width)
            parts.append(short_total(b, name, entry, rows.shape[1], inner))
        return Values(out, parts)

    def position(self, name: str, x: Values, axis: int, out: Aval) -> Values:
        """Return the places of extrema along an axis: an entry after the other is better or not."""
        rows = np.moveaxis(places(x.aval), axis, -1).reshape(out.size, -1)
        total, b, parts = ACCUMULATORS[name](x.aval.dtype), Lanes(self.code, x.aval.dtype, width_of(out)), []
        for row in in_chunks(places(out), b.width):
            entries = [take(self.code, x, rows[row, k], b.width) for k in range(rows.shape[1])]
            found: tuple[str, ...] = entries[0], b.of(out.dtype).constant(0)
            for k, entry in enumerate(entries[1:], 1):
                found = total.step(b, found, entry, b.of(out.dtype).constant(k))
            parts.append(found[1])
        return Values(out, parts)

    def _in_rows(self, x: Values, rows: np.ndarray) -> str:
        """Return the sum of the sums of rows that are contiguous, each in the order in which NumPy adds one."""
        b = Lanes(self.code, x.aval.dtype, 1)
        total = self._halve(x, rows[0])
        for row in rows[1:]:
            total = b.add(total, self._halve(x, row))
        return b.add(total, 0)

    def _halve(self, x: Values, row: np.ndarray) -> str:
        n = len(row)
        b, wide = Lanes(self.code, x.aval.dtype, 1), Lanes(self.code, x.aval.dtype, WIDTH)
        if n > 128:
            half = n // 2 - n // 2 % 8
            return b.add(self._halve(x, row[:half]), self._halve(x, row[half:]))
        if n < WIDTH:
            total, rest = take(self.code, x, row[:1], 1), row[1:]
        else:
            whole = n - n % WIDTH
            lanes = take(self.code, x, row[:WIDTH], WIDTH)
            for k in range(WIDTH, whole, WIDTH):
                lanes = wide.add(lanes, take(self.code, x, row[k : k + WIDTH], WIDTH))
            total, rest = wide.across(lanes), row[whole:]
        for p in rest:
            total = b.add(total, take(self.code, x, np.array([p]), 1))
        return total

    def running(self, name: str, args: Sequence[Values], params: dict, out: Aval) -> Values:
        """Take one entry after the other in, along an axis."""
        x, reverse = args[-1], params.get("reverse")
        where = np.moveaxis(places(x.aval), params["axis"], -1)
        b = Lanes(self.code, out.dtype, 1)
        read = lambda value, p: take(self.code, value, np.array([p]), 1)
        entries: list[str] = [""] * out.size
        for row in (where[..., ::-1] if reverse else where).reshape(-1, where.shape[-1]):
            total = entries[row[0]] = read(x, row[0])
            for before, p in itertools.pairwise(row):
                if name == "recurrence":
                    total = b.mul(read(args[0], before if reverse else p), total)
                total = (b.mul if name == "cumprod" else b.add)(total, read(x, p))
                entries[p] = total
        return join_entries(self.code, out, entries)

    def product(self, name: str, args: list[Values], params: dict, out: Aval) -> Values:
        """Multiply arrays: for each entry the products are added in order, each without rounding in between."""
        where = factors_of(name, [x.aval for x in args], params)
        b, strong = Lanes(self.code, out.dtype, width_of(out)), name == "einsum_strong"
        if len(where) == 1 and where[0].shape[-1] == 1:
            return gather(self.code, args, where[0], out)
        parts: list[str] = [b.constant(0.0)] * chunks(out) if strong or len(where) == 1 else []
        for k in range(where[0].shape[-1]):
            rows = zip(*[in_chunks(places[:, k], b.width) for places in where], strict=True)
            for i, row in enumerate(rows):
                x, y, *_ = [*[take(self.code, a, p, b.width) for a, p in zip(args, row, strict=True)], ""]
                if not y:
                    parts[i] = b.add(parts[i], x)
                elif strong:  # zeros of the second array are no part of the sum
                    parts[i] = b.select(b.compare("oeq", y, 0.0), parts[i], b.fma(x, y, parts[i]))
                elif k:
                    parts[i] = b.fma(x, y, parts[i])
                else:
                    parts.append(b.mul(x, y))
        return Values(out, parts)


@functools.cache
def _spelled(shape: tuple[int, ...], order: int) -> Program:
    """Return a program for a derivative of ``sinc``."""
    return trace(lambda x: derivative_of_sinc(x, order), np.ones(shape))


def trailing(axis: Sequence[int], shape: tuple[int, ...]) -> int:
    """The length of a reduction's contiguous runs: NumPy adds those first."""
    count = 1
    for i in range(len(shape) - 1, -1, -1):
        if i not in axis:
            break
        count *= shape[i]
    return count
