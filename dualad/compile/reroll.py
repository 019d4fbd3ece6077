"""Unrolled Python loops as loops again: repeated bodies of a long program become ``scan`` equations.

A trace writes a Python loop of a thousand steps down as thousands of equations, which cost seconds to write as source
and compile. What changes from step to step is carried; what an earlier loop made one after the other is stacked by that
loop and read by rows, backwards by the reverse pass. The same operators run on the same numbers in the same order. Not
for: finding the bodies (``repeats.py``), what a ``scan`` becomes (``source_block.py``).
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..control.scan import scan
from ..control.subprograms import strong_aval, zeros
from ..core.aval import Aval, aval_of
from ..ops.indexing import ARRAY, index, index_add, index_set
from ..ops.joining import concatenate, stack
from ..ops.shaping import transpose
from ..program.ir import Program, live_steps, map_programs, programs_in
from ..program.variable import Step, Variable, aval_of_atom
from .repeats import Numbered, Repeat, find_repeats

__all__ = ["ROLLED", "reroll", "rolled_loops"]

#: a shorter program stays as it is
_LONG = 500
#: the name of a body that was found
ROLLED = "rolled"
#: times that the rest is looked through again
_PASSES = 3


def reroll(program: Program, is_right: Callable[[Program, Callable[[], Program]], bool] | None = None) -> Program:
    """Return a program that computes the same, its repeated bodies (and those of its parts) written as loops.

    With ``is_right(program, make)``, which says whether what ``make()`` returns is the same, only loops that are.
    """
    for _ in range(_PASSES):
        if len(program.steps) <= _LONG:
            break
        code = Numbered(program)
        repeats = find_repeats(code)
        if is_right is not None:
            repeats = [r for r in repeats if is_right(program, _Roller(code, [r]).result)]
        if not repeats:
            break
        program = _Roller(code, repeats).result()
    inside = functools.partial(reroll, is_right=is_right)
    steps = [
        s.rewritten(s.op, s.args, map_programs(s.params, inside), s.outs) if s.op.kind == "control" else s
        for s in program.steps
    ]
    return Program(program.inputs, steps, program.outputs, program.name)


def rolled_loops(program: Program) -> list[tuple[int, Program]]:
    """Return the loops that were found again in a program: how often each is run, and its body."""
    found = []
    for op, _, params, _ in program.steps:
        for part in programs_in(params) if op.kind == "control" else ():
            if op is scan and part.name == ROLLED:
                found.append((params["length"], part))
            found += rolled_loops(part)
    return found


class _Loop:
    """A repeat on the way to its ``scan``: which of its values are read from outside, and where they are then."""

    def __init__(self, repeat: Repeat) -> None:
        self.repeat = repeat
        #: whether its last iteration comes first in all that it reads and stacks
        self.reverse = False
        #: number of a value in the body -> the last iteration's, the stack of all iterations'
        self.last: dict[int, Variable | None] = {}
        self.stacks: dict[int, Any] = {}

    def wants(self, j: int, k: int) -> None:
        """Note that iteration ``k``'s value ``j`` is read from outside."""
        (self.last if k == self.repeat.iterations - 1 else self.stacks).setdefault(j, None)

    def row(self, k: int) -> int:
        """Return where the rows of iteration ``k`` are."""
        return self.repeat.iterations - 1 - k if self.reverse else k


class _Roller:
    """Writes a program anew, with its repeats as loops."""

    def __init__(self, code: Numbered, repeats: list[Repeat]) -> None:
        self.code = code
        self.steps: list[Step] = []
        self.loops = [_Loop(r) for r in repeats]
        self.starts = [r.first for r in repeats]
        #: number of a value -> what stands for it
        self.atoms: dict[int, Any] = {}
        #: number of a value outside of loops that is a row of another: (number of that one, position)
        self.row_of: dict[int, tuple[int, int]] = {}
        self._find_reads()

    def result(self) -> Program:
        program, position = self.code.program, 0
        for loop in self.loops:
            self._straight(position, loop.repeat.start)
            _Body(self, loop).write()
            position = loop.repeat.stop
        self._straight(position, len(program.steps))
        outputs = [self.atom(self.code.ref(o)) for o in program.outputs]
        return Program(program.inputs, live_steps(self.steps, outputs), outputs, program.name)

    # ── who reads what ───────────────────────────────────────────────────────────────────────────────────────────

    def _find_reads(self) -> None:
        code, position = self.code, 0
        read: set[int] = {code.ref(o) for o in code.program.outputs}
        for loop in self.loops:
            r = loop.repeat
            self._straight_reads(position, r.start, read)
            for column, age in enumerate(r.ages.tolist()):
                if age:
                    read.update(r.refs[: age if age > 0 else None, column].tolist())
            position = r.stop
        self._straight_reads(position, len(code.program.steps), read)
        for ref in read:
            if (owner := self._owner(ref)) is not None:
                loop, j, k = owner
                loop.wants(j, k)

    def _straight_reads(self, start: int, stop: int, read: set[int]) -> None:
        code = self.code
        read.update(code.refs[code.first_ref[start] : code.first_ref[stop]].tolist())
        for i in range(start, stop):
            op, args, params, outs = code.program.steps[i]
            if op.name == "unstack" and params["axis"] == 0:
                source = code.ref(args[0])
                self.row_of.update({int(code.first_value[i]) + k: (source, k) for k in range(len(outs))})
            elif i in code.places and op is index and len(args) == 1 and len(params["template"]) == 1:
                if code.places[i]:
                    self.row_of[int(code.first_value[i])] = code.ref(args[0]), code.places[i][0]

    def _owner(self, ref: int) -> tuple[_Loop, int, int] | None:
        """Return the loop that makes a value, its number in the body, and the iteration."""
        i = bisect.bisect_right(self.starts, ref) - 1
        if ref < 0 or i < 0:
            return None
        loop = self.loops[i]
        k, j = divmod(ref - loop.repeat.first, loop.repeat.made)
        return (loop, j, k) if k < loop.repeat.iterations else None

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, op: Any, args: Sequence, params: dict) -> Variable:
        """Add an equation with one result."""
        out = Variable(strong_aval(op.abstract_eval(*[aval_of_atom(a) for a in args], **params)))
        self.steps.append(Step(op, list(args), params, (out,)))
        return out

    def atom(self, ref: int) -> Any:
        """Return the atom of a value or a constant outside of loops."""
        if ref < 0:
            return self.code.constants[-1 - ref]
        known = self.atoms.get(ref)
        if known is None:
            owner = self._owner(ref)
            if owner is None:
                return self.code.values[ref]
            loop, j, k = owner
            if k == loop.repeat.iterations - 1 and loop.last.get(j) is not None:
                known = loop.last[j]
            else:
                known = self.write(index, [loop.stacks[j]], {"template": (loop.row(k),)})
            self.atoms[ref] = known
        return known

    def _straight(self, start: int, stop: int) -> None:
        code = self.code
        for i in range(start, stop):
            step = code.program.steps[i]
            op, args, params, outs = step
            refs = code.refs[code.first_ref[i] : code.first_ref[i + 1]].tolist()
            if op is stack and params["axis"] == 0 and len(args) > 1 and not outs[0].aval.weak:
                if sum([self._place(r) is not None for r in refs]) > len(refs) // 2:
                    rows = self.rows(refs)
                    if rows.aval == outs[0].aval:
                        self.atoms[int(code.first_value[i])] = rows
                        continue
            self.steps.append(step.rewritten(op, [self.atom(r) for r in refs], params, outs))

    # ── values of many iterations ────────────────────────────────────────────────────────────────────────────────

    def _place(self, ref: int) -> tuple[Any, int] | None:
        """Return the array that a value is a row of, under a name, and which."""
        if ref in self.row_of:
            return self.row_of[ref]
        owner = self._owner(ref)
        if owner is None or owner[0].stacks.get(owner[1]) is None:
            return None
        loop, j, k = owner
        return (loop, j), loop.row(k)

    def is_backwards(self, refs: np.ndarray) -> bool:
        """Whether values are rows of an array, the last one first (or before what comes from elsewhere)."""
        places = [self._place(int(r)) for r in refs[len(refs) // 2 :][:2]]
        (source, k), (other, after) = [(None, 0) if p is None else p for p in places]
        return source is not None and source == other and after == k - 1

    def rows(self, refs: Sequence[int]) -> Any:
        """Return an array whose rows are values."""
        pieces: list[tuple[Any, list[int]]] = []
        for ref in refs:
            place = self._place(ref)
            source, k = (None, ref) if place is None else place
            if pieces and pieces[-1][0] == source:
                seen = pieces[-1][1]
                if source is None or k - seen[-1] == (seen[1] - seen[0] if len(seen) > 1 else k - seen[-1] or 1):
                    seen.append(k)
                    continue
            pieces.append((source, [k]))
        parts = []
        for source, seen in pieces:
            if source is None:
                parts.append(self.write(stack, [self.atom(r) for r in seen], {"axis": 0}))
            else:
                array = self.atom(source) if type(source) is int else source[0].stacks[source[1]]
                parts.append(self.slice(array, seen))
        return parts[0] if len(parts) == 1 else self.write(concatenate, parts, {"axis": 0})

    def slice(self, array: Any, numbers: list[int], before: int = 0) -> Any:
        """Return the rows of an array with these numbers, which come in even steps, along an axis."""
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
        stop = numbers[-1] + (1 if step > 0 else -1)
        shape = aval_of_atom(array).shape
        if step == 1 and len(numbers) == shape[before]:
            return array
        full = [(0, n, 1) for n in shape[:before]]
        return self.write(index, [array], {"template": (*full, (numbers[0], None if stop < 0 else stop, step))})

    def gathered(self, source: int, template: tuple, where: int, numbers: list[int]) -> Any:
        """Return, row by row, what an index would read at places that differ in one whole number of its template."""
        before = sum([e is not None for e in template[:where]])
        array = self.atom(source)
        steps = set(np.diff(numbers).tolist())
        if len(steps) == 1 and steps != {0}:
            array = self.slice(array, numbers, before)
        else:
            full = [(0, n, 1) for n in aval_of_atom(array).shape[:before]]
            array = self.write(index, [array, np.array(numbers)], {"template": (*full, "array")})
        if before:
            axes = [i for i in range(len(aval_of_atom(array).shape)) if i != before]
            array = self.write(transpose, [array], {"axes": (before, *axes)})
        return array


class _Body:
    """One loop: the program of an iteration, and the ``scan`` that runs it."""

    def __init__(self, roller: _Roller, loop: _Loop) -> None:
        self.roller, self.loop, self.code = roller, loop, roller.code
        #: (variable of the body, argument of the scan)
        self.fixed: dict[int, tuple[Variable, Any]] = {}
        self.xs: dict[Any, tuple[Variable, Any]] = {}
        #: (number of a value, its first values) -> variables of the body, one for each iteration back
        self.chains: dict[tuple, list[Variable]] = {}
        #: number of a value of the body -> its atom
        self.made: dict[int, Any] = {}

    def write(self) -> None:
        code, loop, repeat = self.code, self.loop, self.loop.repeat
        moving = repeat.refs[:, (repeat.ages < 0) & (repeat.refs[0] != repeat.refs[-1])]
        loop.reverse = any([self.roller.is_backwards(refs) for refs in moving.T])
        steps: list[tuple] = []
        column = 0
        for j in range(repeat.period):
            step = code.program.steps[repeat.start + j]
            op, args, params, outs = step
            number = int(code.first_value[repeat.start + j]) - repeat.first
            where = repeat.places.get(j)
            if where and len(where) == 1 and op is index and self._is_fixed(column):
                self._read(j, number, column, params["template"], step, steps)
            else:
                given = [self._argument(column + q) for q in range(len(args))]
                if where:
                    if op is index_add:  # by an index array it would add to zeros, and -0.0 becomes 0.0
                        op, given, params = index_set, [zeros(outs[0].aval), *given], {"template": params["template"]}
                    given += [self._numbers(where[axis]) for axis in sorted(where)]
                    params = {
                        **params,
                        "template": tuple([ARRAY if i in where else e for i, e in enumerate(params["template"])]),
                    }
                results = tuple([Variable(v.aval) for v in outs])
                steps.append(step.rewritten(op, given, params, results))
                self.made.update(zip(range(number, number + len(outs)), results, strict=True))
            column += len(args)
        carries, starts, new = self._carries()
        ys = []
        for j in sorted(loop.stacks):
            known = next((a for v, a in self.xs.values() if v is self.made[j] and not v.aval.weak), None)
            if known is None:
                ys.append(j)
            else:  # it is read row by row as it is
                loop.stacks[j] = known
        fixed, xs = list(self.fixed.values()), list(self.xs.values())
        body = Program(
            [*[v for v, _ in fixed], *carries, *[v for v, _ in xs]],
            steps,
            [*new, *[self.made[j] for j in ys]],
            ROLLED,
        )
        params = {
            "body": body,
            "length": repeat.iterations,
            "reverse": loop.reverse,
            "linear": False,
            "counts": (len(fixed), len(carries), len(xs), 0),
        }
        args = [*[a for _, a in fixed], *starts, *[a for _, a in xs]]
        if not body.outputs:  # nothing reads what it makes
            return
        outs = tuple([Variable(a) for a in scan.abstract_eval(*[aval_of_atom(a) for a in args], **params)])
        self.roller.steps.append(Step(scan, args, params, outs))
        for j in loop.last:
            loop.last[j] = outs[next(i for i, a in enumerate(new) if a is self.made[j])]
        loop.stacks.update(zip(ys, outs[len(new) :], strict=True))

    def _argument(self, column: int) -> Any:
        """Return the body's atom for an argument."""
        repeat, code = self.loop.repeat, self.code
        refs, age = repeat.refs[:, column], int(repeat.ages[column])
        ref = int(refs[-1])
        if age >= 0:
            number = (ref - repeat.first) % repeat.made
            if not age:
                return self.made[number]
            key = number, tuple(refs[:age].tolist())
            chain = self.chains.get(key)
            if chain is None:
                aval = strong_aval(code.values[ref].aval)
                chain = self.chains[key] = [Variable(aval) for _ in range(age)]
            return chain[-1]
        if (refs == ref).all():
            if ref < 0:
                return code.constants[-1 - ref]
            if ref not in self.fixed:
                self.fixed[ref] = Variable(code.values[ref].aval), self.roller.atom(ref)
            return self.fixed[ref][0]
        rows = refs.tobytes()
        if rows not in self.xs:
            if ref < 0:
                values = [code.constants[-1 - r] for r in self._ordered(refs.tolist())]
                self.xs[rows] = Variable(aval_of(values[0])), _stack_constants(values)
            else:
                self.xs[rows] = Variable(code.values[ref].aval), self.roller.rows(self._ordered(refs.tolist()))
        return self.xs[rows][0]

    def _read(self, j: int, number: int, column: int, template: tuple, step: Step, steps: list) -> None:
        """Read an invariant array at a place that differs: a row of it, and what the index does besides."""
        ((where, places),) = self.loop.repeat.places[j].items()
        source = int(self.loop.repeat.refs[0, column])
        key = source, template[:where], where, tuple(places)
        if key not in self.xs:
            array = self.roller.gathered(source, template, where, self._ordered(places))
            aval = aval_of_atom(array)
            self.xs[key] = Variable(Aval(aval.shape[1:], aval.dtype)), array
        row = self.xs[key][0]
        rest = (*template[:where], *template[where + 1 :])
        if rest and rest != tuple([(0, n, 1) for n in row.aval.shape[: len(rest)]]):
            out = Variable(step.out.aval)
            steps.append(step.rewritten(index, [row], {"template": rest}, (out,)))
            row = out
        self.made[number] = row

    def _is_fixed(self, column: int) -> bool:
        refs = self.loop.repeat.refs[:, column]
        return bool(self.loop.repeat.ages[column] < 0 and (refs == refs[0]).all())

    def _numbers(self, numbers: list[int]) -> Variable:
        """Return whole numbers, one for each iteration, as what an index reads."""
        key = "numbers", tuple(numbers)
        if key not in self.xs:
            self.xs[key] = Variable(Aval((), np.dtype(np.int64))), np.array(self._ordered(numbers), dtype=np.int64)
        return self.xs[key][0]

    def _ordered(self, iterations: list) -> list:
        """Return a list with an entry per iteration in the order of an array's rows."""
        return iterations[::-1] if self.loop.reverse else iterations

    def _carries(self) -> tuple[list[Variable], list, list]:
        """Return the carries: variables of the body, their first values, and their next ones."""
        atom = self.roller.atom
        carries, starts, new = [], [], []
        for (number, firsts), chain in self.chains.items():
            # The chain holds the values of one, two, ... iterations before; argument q of the first iterations reads
            # the oldest, the next oldest, ...
            carries += chain
            starts += [atom(r) for r in reversed(firsts)]
            new += [self.made[number], *chain[:-1]]
        there = {id(a) for a in new}
        for j in list(self.loop.last):
            if j in self.loop.stacks and id(self.made[j]) not in there:
                del self.loop.last[j]  # it is the last row of the stack
            elif id(self.made[j]) not in there:  # only its last value is read
                aval = strong_aval(self.made[j].aval)
                carries.append(Variable(aval))
                starts.append(zeros(aval))
                new.append(self.made[j])
                there.add(id(self.made[j]))
        return carries, starts, new


def _stack_constants(values: list) -> np.ndarray:
    """Return constants as the rows of an array."""
    if type(values[0]) in (int, float):
        return np.array(values, dtype=type(values[0]))
    return np.stack(values)
