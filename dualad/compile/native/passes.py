"""Groups of equations on large arrays that become loops of machine code, and how the loops are run.

A result of the group is written by a loop nest; so is an intermediate that is read more than once and at
other places than it is made at. Threads share the rows of the first axis. Not for: the loops (``kernels.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from ...core.tables import OPS
from ...program.ir import Program
from ...program.variable import Step, Variable, aval_of_atom
from ..threads import is_shared
from .bands import Bands, bands_of
from .bounds import Held
from .code import WIDTH
from .domains import Nest
from .engine import Engine, engine
from .equations import Call, Equations, are_entries, is_simple
from .gather import Place, gather
from .kernels import Kernel, in_memory_as, is_counted
from .maths import FUNCTIONS
from .narrow import Multiples, multiples_of, short_positions
from .operators import ENTRYWISE, Refused
from .positions import STATUS, entry_way, in_long, is_computed, places_of
from .products import Product, as_sum, is_product
from .reductions import Reduction, is_long, is_reduced, long_axes
from .regions import join_loops
from .rows import Rows, is_by_rows
from .scatters import Scatter, is_by_value
from .table import RUNNING, VIEWS, Way, lowering_of
from .values import is_uniform
from .views import same_but_ones

__all__ = ["Pass", "find_loops", "find_passes", "is_known"]

#: entries that a thread takes at a time
_BLOCK = 1 << 14
#: entries for which mathematics is written in place
_INLINED = 1 << 16
#: entries that are worth more than one thread
_SHARED = 1 << 15
#: moves that may leave entries out
_PARTS = frozenset({"index", "index_set"})
#: products that are worth being written as multiplications and a sum: fewer are written out (``lowering.py``)
_SUMMED = 1025
#: equations that are worth a loop, if none is by itself
_WORTH = 2
#: lines of text that are compiled in less time
_HURRY = 1500
#: a first axis is the vector from this many entries on, where the others have at most so few, and all so many
_BATCH, _FEW, _MOST = 64, 256, 3000
#: operators of a cycle that take as long as something takes to be stored
_DEAR = 10
#: parts of a joined array that are looked at; operations that are as much as to store an entry and to copy it
_JOINED, _STORED = 256, 4
#: what reads arrays that are in memory, and has a loop of its own
_WHOLE = (Way.PRODUCT, Way.ROWS)
#: arrays that are worth a loop
_LARGE = 128


def is_known(step: Step, least: int | None = None) -> bool:
    """Whether an equation can be a loop, or a part of one, on arrays of more than ``least`` entries."""
    op, args, params, outs = step
    if not is_simple(step):
        return False
    avals, out = [aval_of_atom(a) for a in args], outs[0].aval
    way = lowering_of(op).entry
    if not out.shape and way is not Way.TOTAL:
        return False
    if max([a.size for a in (*avals, out)]) <= (_LARGE if least is None else least):
        return False
    try:
        if is_computed(step):
            return is_by_value(step)
        if way is Way.TOTAL:
            return is_reduced(step)
        if way is Way.PRODUCT:
            return is_product(step)
        if way is Way.ROWS:
            return is_by_rows(step)
        return are_entries(way, op, args, params, avals, out)
    except (Refused, TypeError, ValueError, OverflowError):
        return False


class _Shared(NamedTuple):
    """The common traits of arrays that one loop nest writes; those that differ in any have loops of their own."""

    kind: str
    #: of the domain, and of other operands
    shapes: tuple[tuple[int, ...], ...]
    #: along which something is added up, those of one entry left out
    axes: tuple[int, ...] = ()
    out: tuple[int, ...] = ()
    dtype: str = ""
    mode: str = ""
    #: sums of products, which have no order of NumPy's
    free: bool = False
    #: the variable, where nothing else is written with it
    alone: int | None = None


class Pass(Equations):
    """Equations on large arrays with their loops."""

    #: its arrays have more entries than this; None for the usual number
    least: int | None = None

    def __init__(self, steps: list[Step], writes: list[Variable], free: set[Variable] | None = None) -> None:
        self.free = free or set()
        #: constants that are known by row and column
        self.bands: dict[int, Bands] = {}
        ways = [entry_way(s.op, s.args) for s in steps]
        self._sources = {id(s.args[0]) for s, way in zip(steps, ways, strict=True) if way is Way.GATHER}
        self._factors = {id(a) for s, way in zip(steps, ways, strict=True) if way in _WHOLE for a in s.args}
        #: whether an index may be out of bounds
        self._is_asked = any([way in (Way.GATHER, Way.SCATTER, Way.ROWS) for way in ways])
        lie = (Way.TOTAL, Way.SCATTER, *_WHOLE)
        self._as_they_lie = {
            id(a) for s, way in zip(steps, ways, strict=True) if way in lie or s.op.name == "reshape" for a in s.args
        }
        super().__init__(steps, writes)
        #: large constants that are in memory as something shorter
        self.narrow: dict[int, np.ndarray | Multiples] = {}
        if self.least is None:  # the bodies of loops hand their constants over as they are
            self._narrow_constants()
        for key, bands in self.bands.items():
            rows = {(key, k): on for k, on in bands.on.items() if isinstance(on, np.ndarray)}
            self.reads += rows.values()
            self._keys += rows

    def is_read(self, constant: Any) -> bool:
        if id(constant) in self._sources or id(constant) in self._factors:
            return True
        if id(constant) in self.bands:
            return False
        if id(constant) not in self._as_they_lie and (found := bands_of(constant)):
            self.bands[id(constant)] = found
            return False
        return not is_uniform(constant) and not is_counted(constant)

    def _narrow_constants(self) -> None:
        """Read large constants in fewer bytes, where only loops over entries read them."""
        lengths: dict[int, set[int]] = {}
        for op, args, params, _ in self.steps:
            if entry_way(op, args) is not Way.GATHER:
                continue
            where = places_of(op.name, args, params)
            for n, e in zip(where.shape, where.axes, strict=True):
                if type(e) is tuple and len(e) == 2:
                    lengths.setdefault(id(args[1 + e[1]]), set()).add(n)
        for i, (key, x) in enumerate(zip(self._keys, self.reads, strict=True)):
            if key in self._sources or key in self._factors or key in self._as_they_lie:
                continue
            found = short_positions(x, min(lengths[key])) if key in lengths else multiples_of(x)
            if found is not None:
                self.narrow[key] = found
                self.reads[i] = found if isinstance(found, np.ndarray) else found.counts
            if isinstance(found, np.ndarray):
                self.ranges[key] = Held(found.nbytes, int(found.min()), int(found.max()))

    # ── arrays in memory, and the order of writes ────────────────────────────────────────────────────────────────

    def _in_memory(self) -> list[Variable]:
        """The arrays in memory: results, and those that are read at other places more than once."""
        readers: dict[Variable, list[Step]] = {}
        for step in self.steps:
            for a in step.args:
                if type(a) is Variable and a in self.maker:
                    readers.setdefault(a, []).append(step)
        held = {*self.writes, *[s.out for s in self.steps if is_long(s)], *self._left_out()}
        held |= self._read_by_value(held)
        cheap = self._cheap()
        for v in reversed(self.maker):
            users = readers.get(v, [])
            for op, args, _params, (out,) in users:
                shapes = [aval_of_atom(a).shape for a in args]
                way = entry_way(op, args)
                moved = op.name == "reshape" and not same_but_ones(shapes[0], out.aval.shape)
                entries = way in (Way.ENTRYWISE, Way.GATHER)
                spread = op.name == "broadcast_to" or (entries and out.aval.shape != v.aval.shape)
                other = _is_elsewhere(op, args, v) and (moved or op.name != "reshape")
                stored = way not in VIEWS or v not in cheap
                if moved or (not self._shows(v) and other and stored and len(users) > 1):
                    held.add(v)
                if spread and (computed := self._before_moves(v)):
                    held.add(computed)
        for step in self.steps:
            if self._way(step.out) in _WHOLE:
                held.update([v for v in (*step.args, *step.outs) if type(v) is Variable and v in self.maker])
            if is_long(step) and not self._can_be_added_up(step, held):
                held.add(step.args[0])
        held |= self._joined(held)
        return [v for v in self.maker if v in held]

    def _read_by_value(self, held: set) -> set[Variable]:
        """The arrays that are read, or added to, at computed places."""
        found: list[Any] = []
        for op, args, _, outs in self.steps:
            way = entry_way(op, args)
            if way is Way.GATHER:
                found.append(in_memory_as(args[0], self.maker, held))
            elif way is Way.SCATTER:
                found += [*args, *outs]
        return {v for v in found if type(v) is Variable and v in self.maker}

    def _joined(self, held: set) -> set[Variable]:
        """The parts of joined arrays for which the same would be computed again and again."""
        found: set[Variable] = set()
        for v, (_, args, _, _) in self.maker.items():
            if self._way(v) is not Way.JOIN or not 2 < len(args) <= _JOINED:
                continue
            ends = held | found
            parts = {p for a in args if type(a) is Variable and (p := self._before_moves(a)) and p not in ends}
            again = sum([self._effort([p], ends) for p in parts]) - self._effort(parts, ends)
            if again > _STORED * len(parts):
                found |= parts
        return found

    def _effort(self, roots: Iterable[Variable], held: set) -> int:
        """Return the operations for an entry of each."""
        return sum([not self._shows(v) for v in self._behind(roots, held)])

    def _left_out(self) -> list[Variable]:
        """Gathers of which only a part is used: all of their positions have to be checked."""
        if not self._is_asked:
            return []
        roots = [a for s in self.steps if s.op.name in _PARTS and not is_computed(s) for a in s.args]
        return [v for v in self._behind(roots) if self._way(v) is Way.GATHER]

    def _behind(self, roots: Iterable, ends: Container = ()) -> Iterator[Variable]:
        """Yield what these are computed from in the group, themselves among it, each once; not beyond ``ends``."""
        pending, seen = list(roots), set[Variable]()
        while pending:
            v = pending.pop()
            if type(v) is Variable and v in self.maker and v not in seen and v not in ends:
                seen.add(v)
                yield v
                pending += self.maker[v].args

    def _way(self, v: Variable) -> Way | None:
        return entry_way(*self.maker[v][:2])

    def _shows(self, v: Variable) -> bool:
        """Whether an array is entries of others, moved."""
        return self._way(v) in VIEWS

    def _before_moves(self, v: Variable) -> Variable | None:
        """The computed array whose entries a view shows, if it is one."""
        while v in self.maker and self._shows(v):
            if self._way(v) is Way.JOIN or type(self.maker[v][1][0]) is not Variable:
                return None
            v = self.maker[v][1][0]
        return v if v in self.maker else None

    def _cheap(self) -> set[Variable]:
        """Arrays that are cheaper to recompute than to store: a few operations on much smaller ones."""
        work: dict[Variable, int] = {}
        size: dict[Variable, int] = {}
        for v, (op, args, _, _) in self.maker.items():
            quick = op.name in ENTRYWISE and ENTRYWISE[op.name].is_quick
            work[v] = 0 if self._shows(v) else 1 if quick else _DEAR
            size[v] = 0
            for a in args:
                if type(a) is Variable and a in self.maker:
                    work[v], size[v] = work[v] + work[a], max(size[v], size[a])
                elif type(a) is Variable or not (id(a) in self.bands or is_uniform(a)):
                    size[v] = max(size[v], aval_of_atom(a).size)
        return {v for v in self.maker if work[v] < _DEAR and 8 * size[v] <= v.aval.size}

    def _can_be_added_up(self, step: Step, held: set) -> bool:
        """Whether the summands can be computed there."""
        made = [a for a in step.args if type(a) is Variable and a in self.maker and a not in held]
        if not made:
            return True
        x, axis = made[0], step.params["axis"]
        # A single running sum is one thread's work: what takes longer than the sum is computed before, by all.
        alone = step.op.name in RUNNING and x.aval.size == x.aval.shape[axis] and x.aval.size >= _SHARED
        behind = self._behind(made, held)
        if any([self._way(v) is Way.JOIN or (alone and _is_worthy(self.maker[v].op)) for v in behind]):
            return False
        one_row = long_axes(x.aval, step.params) == (len(x.aval.shape) - 1,)
        return step.out.aval.size != 1 or one_row or self._is_flat(made, held)

    def _kernels(self, held: list[Variable]) -> list[Kernel]:
        inside = set(held)
        level: dict[Variable, int] = {}
        groups: dict[tuple[int, _Shared], tuple[Callable[[list[Variable]], Kernel], list[Variable]]] = {}
        for v in held:
            level[v] = self._level(v, v.aval.shape, inside, level)
            key, make = self._loop_of(v, inside)
            groups.setdefault((level[v], key), (make, []))[1].append(v)
        return [make(outs) for _, (make, outs) in sorted(groups.items(), key=lambda g: g[0][0])]

    def _loop_of(self, v: Variable, inside: set) -> tuple[_Shared, Callable[[list[Variable]], Kernel]]:
        """The key of the arrays that are written with this one, and the function that makes their loop."""
        op, args, params, _ = step = self.maker[v]
        steps = lambda outs: [self.maker[o] for o in outs]
        shapes, out = tuple([aval_of_atom(a).shape for a in args]), v.aval.shape
        if is_long(step):
            free, running = v in self.free, op.name in RUNNING
            whole = len(shapes[0]) > 1 and v.aval.size == 1 and not running
            is_flat = lambda outs: whole and self._is_flat([s.args[0] for s in steps(outs)], inside)
            axes = long_axes(args[0].aval, params)
            key = _Shared("reduction", shapes, axes, out, free=free, alone=id(v) if running else None)
            return key, lambda outs: Reduction(steps(outs), is_flat(outs), _BLOCK, free)
        if self._way(v) is Way.SCATTER:
            return _Shared("scatter", shapes, alone=id(v)), lambda outs: Scatter(step, _BLOCK)
        if self._way(v) is Way.PRODUCT:
            key = _Shared(op.name, shapes, (), out, v.aval.dtype.str, params.get("mode", ""))
            return key, lambda outs: Product(steps(outs), _BLOCK)
        if self._way(v) is Way.ROWS:
            return _Shared("rows", shapes, alone=id(v)), lambda outs: Rows(step, _BLOCK)
        return _Shared("nest", (out,)), lambda outs: Nest(outs, self._is_flat(outs, inside, outs), _BLOCK)

    def _level(self, v: Variable, shape: tuple[int, ...], inside: set, level: dict) -> int:
        """Return after how many others a kernel that writes this can run."""
        most, seen = 0, set()
        pending = self._below(v, True, shape)
        while pending:
            x, same = pending.pop()
            if (x, same) in seen:
                continue
            seen.add((x, same))
            if x in inside:
                same = same and not self._is_apart(x)
                most = max(most, level[x] + (not same))
                if not same:
                    continue
            pending += self._below(x, same, shape)
        return most

    def _is_apart(self, v: Variable) -> bool:
        """Whether an array is written by a loop of its own kind."""
        return is_long(self.maker[v]) or self._way(v) in (Way.SCATTER, *_WHOLE)

    def _below(self, v: Variable, here: bool, shape: tuple[int, ...]) -> list[tuple[Variable, bool]]:
        """The arrays that one is computed from, each with whether it is read at the same place."""
        op, args, _, _ = self.maker[v]
        same = [here and not _is_elsewhere(op, args, a) and aval_of_atom(a).shape == shape for a in args]
        return [(a, s) for a, s in zip(args, same, strict=True) if type(a) is Variable and a in self.maker]

    def _is_flat(self, roots: list[Variable], inside: set, outs: Sequence[Variable] = ()) -> bool:
        """Whether entries depend on those at the same place alone."""
        size, shape = roots[0].aval.size, roots[0].aval.shape
        for v in self._behind(roots, inside.difference(outs)):
            op, args, _, _ = self.maker[v]
            if self._way(v) is not Way.ENTRYWISE and op.name not in ("copy", "stop_gradient"):
                return False
            for a in args:
                aval = aval_of_atom(a)
                if id(a) in self.bands or (aval.size != 1 and (aval.size != size or aval.shape != shape)):
                    return False
        return True

    # ── code ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def compile(self, made: Engine) -> None:
        if self.in_lanes():
            try:
                self._finish(made, self.writes, [Nest(self.writes, False, _BLOCK, True)])
                return
            except (Refused, KeyError):
                pass
        held = self._in_memory()
        self._finish(made, held, self._kernels(held))

    def in_lanes(self) -> bool:
        """Whether everything has the same long first axis, and little besides."""
        products = [self._way(s.out) in _WHOLE for s in self.steps]
        if self._is_asked or any(products) or any([is_long(s) or not s.out.aval.shape for s in self.steps]):
            return False
        length = self.writes[0].aval.shape[0]
        if length < _BATCH or any([v.aval.shape[0] != length for v in self.writes]):
            return False
        per_lane = [v.aval.size // length if v.aval.shape[0] == length else v.aval.size for v in self.maker]
        short = all([v.aval.shape[-1] < WIDTH and len(v.aval.shape) > 1 for v in self.writes])
        return short and max(per_lane) <= _FEW and sum(per_lane) <= _MOST

    def _finish(self, made: Engine, held: list[Variable], kernels: list[Kernel]) -> None:
        self.about = f"{len(kernels)} loop{'s' * (len(kernels) > 1)} over {', '.join([str(k.shape) for k in kernels])}"
        held = [*held, *[v for k in kernels for v in k.partial]]
        number = {key: i for i, key in enumerate([*self._keys, *held, STATUS])}
        texts: list[str] = []
        each: list[tuple[Kernel, list[Call]]] = []
        try:
            for i, k in enumerate(kernels):
                k.maker, k.number, k.bands, k.narrow = self.maker, number, self.bands, self.narrow
                k.inline = math.prod(k.shape) >= _INLINED and not isinstance(k, Scatter)
                text, names = k.write(f"kernel{i}")
                texts.append(text)
                each.append((k, k.calls(names)))
        except KeyError as error:
            raise Refused(str(error)) from None
        regions, calls = join_loops(each)
        texts += regions
        heads = {line for t in texts for line in t.splitlines() if line.startswith("declare")}
        bodies = ["\n".join([x for x in t.splitlines() if not x.startswith("declare")]) for t in texts]
        self.text = "\n".join([*sorted(heads), *bodies])
        self._enter(made, held, calls, sum([k.work for k in kernels]))

    def _enter(self, made: Engine, held: list[Variable], calls: list[Call], work: int) -> None:
        """Compile the functions that have been written, with an entry."""
        level = 1 if work < _SHARED or self.text.count("\n") > _HURRY else 2
        if work >= _SHARED and any([is_shared(rows, step) for _, rows, step in calls]):
            self.link(made, calls, held, level)
            return
        self.link_as_one(made, calls, held, level, work >= _SHARED)


def find_passes(program: Program) -> Sequence[Step]:
    """Return a program's equations, with those on large arrays that are known here as equations of a ``Pass`` each."""
    return find_loops(program, Pass, lambda step: False)


def find_loops(
    program: Program, kind: type[Pass], stays: Callable[[Step], bool], apart: Set[Variable] = frozenset()
) -> Sequence[Step]:
    """Return a program's equations, with those on large arrays that are known here as equations of a ``kind`` each.

    ``stays(step)`` is true of those that do not need to be among them; none that reads or makes an array ``apart`` is.
    """
    made = engine()
    if made is None:
        return program.steps
    steps: list[Step] = []
    free: set[Variable] = set()
    for step in [s for given in program.steps for s in in_long(given)]:
        if stays(step):
            steps.append(step)
            continue
        if step.op.name in ("split", "unstack") and aval_of_atom(step.args[0]).size > _LARGE:
            steps += _as_indices(step)
            continue
        summed = as_sum(step, _SUMMED, is_known)
        steps += summed
        if len(summed) > 1:
            free.update([s.out for s in summed if s.op.name == "sum"])
    kept = {s.outs for s in steps if not apart.isdisjoint(_variables((*s.args, *s.outs)))}
    large = {s.outs for s in steps if s.outs not in kept and is_known(s, kind.least) and not stays(s)}
    if not large:
        return program.steps
    program = Program(program.inputs, steps, program.outputs, program.name)
    small = _leading(program, large) - kept
    place = lambda step, group, depends: Place.HERE if step.outs in large or step.outs in small else Place.NOWHERE
    return gather(program, place, lambda steps, writes: _join(steps, writes, made, kind, free, small))


def _as_indices(step: Step) -> list[Step]:
    """Return for each part that an array is split into the equation that takes it."""
    op, (x, *_), params, outs = step
    full, starts = [(0, n, 1) for n in aval_of_atom(x).shape], [0, *np.cumsum(params.get("sizes", ())).tolist()]
    steps = []
    for i, v in enumerate(outs):
        template: list[Any] = [*full]
        template[params["axis"]] = i if op.name == "unstack" else (starts[i], starts[i + 1], 1)
        steps.append(Step(OPS["index"], [x], {"template": tuple(template)}, (v,)))
    return steps


def _leading(program: Program, large: set[tuple]) -> set[tuple]:
    """Return equations on smaller arrays, by their results, of which only those on large ones make use."""
    some: set[tuple] = set()
    behind: set[Variable] = set()
    for step in program.steps:
        few = lowering_of(step.op).entry not in (Way.TOTAL, *_WHOLE)
        if few and is_known(step, 0) and behind.isdisjoint(_variables(step.args)):
            some.add(step.outs)
        elif step.outs not in large:
            behind.update(step.outs)
    some -= large
    elsewhere = {*_variables(program.outputs)}
    for step in reversed(program.steps):
        if step.outs not in large and not (step.outs in some and elsewhere.isdisjoint(step.outs)):
            some.discard(step.outs)
            elsewhere.update(_variables(step.args))
    return some


def _variables(atoms: Sequence) -> list[Variable]:
    return [a for a in atoms if type(a) is Variable]


def _join(
    steps: list[Step], writes: list[Variable], made: Engine, kind: type[Pass], free: set[Variable], small: set[tuple]
) -> list[Step]:
    """Return equations as one, if that is worth it and can be done."""
    first, rest, late = list[Step](), list[Step](), set[Variable]()
    for s in steps:  # results of the others can't go before them
        if s.outs in small and late.isdisjoint(_variables(s.args)):
            first.append(s)
        else:
            rest.append(s)
            late.update(s.outs)
    if first:
        own = [v for v in writes if v in late]
        if not own:
            return steps
        if kind(rest, own, free).in_lanes():  # where each lane would compute them again
            return [*first, *_join(rest, own, made, kind, free, set())]
    work = [s for s in steps if entry_way(s.op, s.args) not in VIEWS]
    if kind is Pass and len(work) < _WORTH and not any([_is_worthy(s.op) for s in work]):
        return steps
    if not writes:
        return steps
    group = kind(steps, writes, free)
    found = group.as_one(made)
    return steps if found is group.steps else found


def _is_elsewhere(op: Any, args: Sequence[Any], v: Any) -> bool:
    """Whether an operator reads entries of an argument at other places than those of its result."""
    way = entry_way(op, args)
    return args[0] is v if way is Way.GATHER else way is not Way.ENTRYWISE


def _is_worthy(op: Any) -> bool:
    """Whether an equation is worth a loop by itself: mathematics, a product, an order, or no call of NumPy's."""
    return op.name in FUNCTIONS or op.name == "recurrence" or lowering_of(op).entry in _WHOLE
