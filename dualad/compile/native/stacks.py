"""Groups of equations on stacks of small matrices: factorizations, products and what lies between, in lanes.

Each lane of a vector is one matrix of the stack; eight at a time are worked on in scratch memory that stays in the
cache. Where a matrix is near to a singular one, or a result is not finite, NumPy is asked for the whole group: it
raises, or returns, what it would have. Not for: how entries are computed (``kernels.py``), decompositions whose signs
and order are a choice (eigenvectors, QR).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from ...ops.determinant import LOSS
from ...program.ir import Program
from ...program.variable import Step, Variable, aval_of_atom
from .code import WIDTH, Code, Lanes
from .engine import Engine, engine
from .equations import Equations, are_entries, is_simple
from .gather import Place, count_readers, gather
from .kernels import Kernel, Writer, find_cuts
from .operators import DOUBLE, LONG, Refused
from .table import VIEWS, Way, lowering_of
from .values import is_uniform
from .views import Index, broadcast_index, pieces, same_but_ones

__all__ = ["Stack", "find_stacks", "is_known"]

# A matrix is a vector of eight lanes per entry, row by row, in scratch memory. Factorizations note in ``bad`` the lanes
# whose pivots are too small, next to the largest entry, to be sure that LAPACK would not meet a zero there; whoever
# runs this asks NumPy then.

_DOUBLE, _LONG = np.dtype(float), np.dtype(np.int64)
#: a pivot is sure if it is larger than this, next to the largest entry
_SURE = 1e-10
#: columns that a product is computed for together
_TOGETHER = 5


class Dense:
    """Writes routines on matrices in scratch memory into the code of one function."""

    def __init__(self, code: Code, bad: str) -> None:
        self.code, self.bad = code, bad
        self.b, self.one, self.whole = Lanes(code, _DOUBLE, WIDTH), Lanes(code, _LONG, 1), Lanes(code, _LONG, WIDTH)

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _place(self, pointer: str, i: str, j: str, columns: int) -> str:
        k = self.one.add(self.one.do("mul", i, str(columns)) if columns != 1 else i, j)
        return self.code.value(f"getelementptr <8 x double>, ptr {pointer}, i64 {k}")

    def load(self, pointer: str, i: str, j: str = "0", columns: int = 1, b: Lanes | None = None) -> str:
        kind = (b or self.b).type
        return self.code.new(f"load {kind}, ptr {self._place(pointer, i, j, columns)}, align 64")

    def store(self, x: str, pointer: str, i: str, j: str = "0", columns: int = 1, b: Lanes | None = None) -> None:
        kind = (b or self.b).type
        self.code.effect(f"store {kind} {x}, ptr {self._place(pointer, i, j, columns)}, align 64")

    def suspect(self, mask: str) -> None:
        """Note lanes about which NumPy is to be asked."""
        kind = "<8 x i64>"
        before = self.code.new(f"load {kind}, ptr {self.bad}, align 64")
        wide = self.code.value(f"sext <8 x i1> {mask} to {kind}")
        self.code.effect(f"store {kind} {self.code.new(f'or {kind} {before}, {wide}')}, ptr {self.bad}, align 64")

    def finite(self, pointer: str, size: int) -> None:
        """Note the lanes in which an array has an entry that is not finite."""
        with self.code.fold("0", size, 1, [(self.b, self.b.constant(0.0))]) as turn:
            x = self.load(pointer, turn.counter)
            turn.next = [self.b.add(turn.carried[0], self.b.sub(x, x))]
        self.suspect(self.b.is_nan(turn.carried[0]))

    # ── products ─────────────────────────────────────────────────────────────────────────────────────────────────

    def product(self, x: str, y: str, out: str, sizes: tuple[int, int, int]) -> None:
        """Multiply: entries of a row are sums of products in order, without rounding in between."""
        rows, inner, columns = sizes
        code, b = self.code, self.b

        def part(i: str, first: str, count: int) -> None:
            places = [first if not u else self.one.add(first, str(u)) for u in range(count)]
            with code.fold("0", inner, 1, [(b, b.constant(-0.0))] * count) as turn:
                left = self.load(x, i, turn.counter, inner)
                turn.next = [
                    b.fma(left, self.load(y, turn.counter, p, columns), t)
                    for p, t in zip(places, turn.carried, strict=True)
                ]
            for p, t in zip(places, turn.carried, strict=True):
                self.store(b.add(t, 0.0), out, i, p, columns)

        count = min(_TOGETHER, columns)
        whole = columns - columns % count
        with code.each("0", rows) as i:
            with code.each("0", whole, count) as j:
                part(i, j, count)
            if columns % count:
                part(i, str(whole), columns % count)

    def _less_products(
        self, start: str, first: str, end: str | int, x: Callable[[str], str], y: Callable[[str], str]
    ) -> str:
        """Return a number less the products of entries, which are loaded by a number between two."""
        with self.code.fold(first, end, 1, [(self.b, start)]) as turn:
            turn.next = [self.b.fma(self.b.neg(x(turn.counter)), y(turn.counter), turn.carried[0])]
        return turn.carried[0]

    # ── A = P L U ────────────────────────────────────────────────────────────────────────────────────────────────

    def largest(self, a: str, size: int) -> str:
        with self.code.fold("0", size, 1, [(self.b, self.b.constant(0.0))]) as turn:
            x, (most,) = self.b.call("fabs", self.load(a, turn.counter)), turn.carried
            turn.next = [self.b.select(self.b.compare("ule", x, most), most, x)]
        return turn.carried[0]

    def factorize(self, a: str, n: int, pivots: str) -> None:
        """Replace a matrix by its factors, with the largest pivot of each column; note which rows were exchanged."""
        code, b, one = self.code, self.b, self.one
        least = b.mul(self.largest(a, n * n), _SURE)
        with code.each("0", n) as k:
            after = one.add(k, "1")
            here = self.whole.splat(k)
            first = b.call("fabs", self.load(a, k, k, n))
            with code.fold(after, n, 1, [(b, first), (self.whole, here)]) as turn:
                most, place = turn.carried
                x = b.call("fabs", self.load(a, turn.counter, k, n))
                more = b.compare("ogt", x, most)
                turn.next = [b.select(more, x, most), self.whole.select(more, self.whole.splat(turn.counter), place)]
            self.store(place, pivots, k, b=self.whole)
            self.suspect(b.invert(b.compare("ogt", most, least)))
            self._exchange(a, n, n, k, place)
            pivot = self.load(a, k, k, n)
            with code.each(after, n) as i:
                factor = b.div(self.load(a, i, k, n), pivot)
                self.store(factor, a, i, k, n)
                minus = b.neg(factor)
                with code.each(after, n) as j:
                    self.store(b.fma(minus, self.load(a, k, j, n), self.load(a, i, j, n)), a, i, j, n)

    def _exchange(self, a: str, rows: int, columns: int, k: str, place: str) -> None:
        """Exchange a row with another one of each lane."""
        code, b = self.code, self.b
        other = b.of(_LONG).compare("ne", place, self.whole.splat(k))
        with code.when(b.any(other)), code.each("0", columns) as j:
            mine = self.load(a, k, j, columns)
            with code.fold(self.one.add(k, "1"), rows, 1, [(b, mine)]) as turn:
                hit = self.whole.compare("eq", place, self.whole.splat(turn.counter))
                x = self.load(a, turn.counter, j, columns)
                self.store(b.select(hit, mine, x), a, turn.counter, j, columns)
                turn.next = [b.select(hit, x, turn.carried[0])]
            self.store(turn.carried[0], a, k, j, columns)

    def substitute(self, a: str, n: int, pivots: str, x: str, columns: int) -> None:
        """Replace right-hand sides by solutions, given the factors of a matrix."""
        code = self.code
        with code.each("0", n) as k:
            self._exchange(x, n, columns, k, self.load(pivots, k, b=self.whole))
        self._each(columns, lambda j: self._forward(a, n, x, columns, j, False))
        self._each(columns, lambda j: self._backward(a, n, x, columns, j))

    def triangular(self, a: str, n: int, x: str, columns: int, lower: bool, unit: bool) -> None:
        """Replace right-hand sides by solutions with a triangle."""
        if not unit:
            with self.code.each("0", n) as i:
                self.suspect(self.b.compare("oeq", self.load(a, i, i, n), 0.0))
        solve = self._forward if lower else self._backward
        self._each(columns, lambda j: solve(a, n, x, columns, j, not unit))

    def determinant(self, a: str, n: int, pivots: str, out: str) -> None:
        """Write the product of the pivots; zero it is by underflow alone."""
        b, whole = self.b, self.whole
        with self.code.fold("0", n, 1, [(b, b.constant(1.0))]) as turn:
            entry, place = self.load(a, turn.counter, turn.counter, n), self.load(pivots, turn.counter, b=whole)
            signed = b.select(whole.compare("eq", place, whole.splat(turn.counter)), entry, b.neg(entry))
            turn.next = [b.mul(turn.carried[0], signed)]
        self.store(turn.carried[0], out, "0")
        self.suspect(b.compare("oeq", turn.carried[0], 0.0))

    def cofactors(self, a: str, n: int, inverse: str, determinant: str, out: str) -> None:
        """Write det(A) A⁻ᵀ, and note the matrices for which that is not good enough."""
        self.suspect(self.b.invert(self.b.compare("olt", self.b.mul(self.norm(a, n), self.norm(inverse, n)), LOSS)))
        factor = self.load(determinant, "0")
        with self.code.each("0", n) as i, self.code.each("0", n) as j:
            self.store(self.b.mul(factor, self.load(inverse, j, i, n)), out, i, j, n)

    def norm(self, a: str, n: int) -> str:
        """Return the largest sum of a column's absolute values."""
        b, zero = self.b, self.b.constant(0.0)
        with self.code.fold("0", n, 1, [(b, zero)]) as column:
            with self.code.fold("0", n, 1, [(b, zero)]) as row:
                row.next = [b.add(row.carried[0], b.call("fabs", self.load(a, row.counter, column.counter, n)))]
            (total,), (most,) = row.carried, column.carried
            column.next = [b.select(b.compare("ule", total, most), most, total)]
        return column.carried[0]

    def _each(self, columns: int, write: Callable[[str], None]) -> None:
        if columns == 1:
            write("0")
            return
        with self.code.each("0", columns) as j:
            write(j)

    def _forward(self, a: str, n: int, x: str, columns: int, j: str, divided: bool, first: str = "0") -> None:
        """Solve with a lower triangle, whose diagonal is one unless it is ``divided`` by."""
        with self.code.each(first, n) as i:
            load_a, load_x = lambda k: self.load(a, i, k, n), lambda k: self.load(x, k, j, columns)
            left = self._less_products(self.load(x, i, j, columns), first, i, load_a, load_x)
            self.store(self.b.div(left, self.load(a, i, i, n)) if divided else left, x, i, j, columns)

    def _backward(self, a: str, n: int, x: str, columns: int, j: str, divided: bool = True) -> None:
        """Solve with an upper triangle."""
        with self.code.each("0", n) as up:
            i = self.one.sub(str(n - 1), up)
            start, after = self.load(x, i, j, columns), self.one.add(i, "1")
            load_a, load_x = lambda k: self.load(a, i, k, n), lambda k: self.load(x, k, j, columns)
            left = self._less_products(start, after, n, load_a, load_x)
            self.store(self.b.div(left, self.load(a, i, i, n)) if divided else left, x, i, j, columns)

    def identity(self, x: str, n: int) -> None:
        b = self.b
        with self.code.each("0", n) as i, self.code.each("0", n) as j:
            on = self.one.compare("eq", i, j)
            self.store(
                self.code.value(f"select i1 {on}, {b.type} {b.constant(1.0)}, {b.type} {b.constant(0.0)}"), x, i, j, n
            )

    def triangular_inverse(self, a: str, n: int, x: str) -> None:
        """Write the inverse of a lower triangle."""
        self.identity(x, n)
        self._each(n, lambda j: self._forward(a, n, x, n, j, True, j))

    # ── A = L Lᵀ ─────────────────────────────────────────────────────────────────────────────────────────────────

    def cholesky(self, a: str, n: int, out: str) -> None:
        """Write the factor of a matrix of which the lower triangle is read."""
        code, b = self.code, self.b
        with code.each("0", n) as j:
            with code.each("0", j) as i:
                self.store(b.constant(0.0), out, i, j, n)
            entry = self.load(a, j, j, n)
            with code.fold("0", j, 1, [(b, entry)]) as turn:
                x = self.load(out, j, turn.counter, n)
                turn.next = [b.fma(b.neg(x), x, turn.carried[0])]
            (left,) = turn.carried
            self.suspect(b.invert(b.compare("ogt", left, b.mul(b.call("fabs", entry), _SURE))))
            root = b.call("sqrt", left)
            self.store(root, out, j, j, n)
            with code.each(self.one.add(j, "1"), n) as i:
                mine, other = lambda k: self.load(out, i, k, n), lambda k: self.load(out, j, k, n)
                left = self._less_products(self.load(a, i, j, n), "0", j, mine, other)
                self.store(b.div(left, root), out, i, j, n)

    def copy(self, x: str, out: str, size: int) -> None:
        with self.code.each("0", size) as i:
            self.store(self.load(x, i), out, i)


#: a stack has so many matrices at least, and these so many rows and columns at most
_LEAST, _MOST = 16, 32
#: entries of one lane of an array
_ENTRIES = _MOST * _MOST
#: bytes of scratch memory
_ROOM = 1 << 20
#: lanes that a thread takes at a time, and entries that are worth more than one thread
_BLOCK, _SHARED = 32, 1 << 14


# ── which are known ──────────────────────────────────────────────────────────────────────────────────────────────


def is_known(step: Step) -> bool:
    """Whether an equation can be computed in lanes of matrices."""
    op, args, params, outs = step
    if not is_simple(step):
        return False
    avals, out = [aval_of_atom(a) for a in args], outs[0].aval
    if not out.shape or out.shape[0] < _LEAST or out.size > _ENTRIES * out.shape[0]:
        return False
    try:
        row = lowering_of(op)
        if _is_routine(op):
            return _are_matrices(op.name, avals, out)
        return are_entries(row.stack, op, args, params, avals, out) and (
            row.entry not in VIEWS or _stays(op.name, avals, params, out)
        )
    except (Refused, TypeError, ValueError, OverflowError):
        return False


def _is_routine(op: Any) -> bool:
    """Whether an operator is computed matrix by matrix, in scratch memory."""
    return lowering_of(op).stack in (Way.PRODUCT, Way.FACTOR)


def _are_matrices(name: str, avals: Sequence[Aval], out: Aval) -> bool:
    matrices = avals if name == "det" else (*avals, out)
    if any([a.dtype != DOUBLE or len(a.shape) not in (2, 3) or max(a.shape[-2:]) > _MOST for a in matrices]):
        return False
    stack = out.shape[0]
    if len(out.shape) != (1 if name == "det" else 3) or any([len(a.shape) == 3 and a.shape[0] != stack for a in avals]):
        return False
    return name == "matmul" or (len(avals[0].shape) == 3 and (name != "cofactors" or len(avals) == 1))


def _stays(name: str, avals: Sequence[Aval], params: dict, out: Aval) -> bool:
    """Whether a move leaves the first axis as it is."""
    stack, shapes = out.shape[0], [a.shape for a in avals]
    if name == "broadcast_to":
        return len(shapes[0]) < len(out.shape) or shapes[0][0] in (1, stack)
    if any([s[:1] != (stack,) for s in shapes]) or (name == "reshape" and not same_but_ones(shapes[0], out.shape)):
        return False
    home = tuple([(i, 1, 0) for i in range(len(out.shape))])
    places = [place for _, place in pieces(name, shapes, params, out.shape, home) if place is not None]
    return all([index[:1] == home[:1] for _, index in places])


# ── code ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Domain(Kernel):
    """The entries of one array, of which a vector is the same entry of eight lanes."""

    def __init__(self, shape: tuple[int, ...], maker: dict[Variable, Step]) -> None:
        super().__init__([Variable(Aval(shape, DOUBLE))], False)
        self.outs, self.maker = [], maker


class _Lanewise(Writer):
    """Computes entries; those of arrays in scratch memory are vectors there."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.axis, self.moving = 0, {0}

    def load(self, pointer: str, shape: tuple[int, ...], dtype: np.dtype, index: Index) -> tuple[str, int]:
        if not pointer.startswith("%room"):
            return super().load(pointer, shape, dtype, index)
        if index[0] != (0, 1, 0):
            raise Refused("lanes of other lanes")
        at, _ = self.address(pointer, shape[1:], dtype, index[1:], "<8 x double>")
        return self.code.new(f"load <8 x double>, ptr {at}, align 64"), WIDTH


class Stack(Equations):
    """Equations on stacks of small matrices, which are computed in lanes."""

    def __init__(self, steps: list[Step], writes: list[Variable]) -> None:
        super().__init__(steps, writes)
        self.size = writes[0].aval.shape[0]
        self.about = f"lanes, {self.size} of them"

    def is_read(self, constant: Any) -> bool:
        return not is_uniform(constant)

    def compile(self, made: Engine) -> None:
        code = self.code = Code()
        count = len(self._keys) + len(self.writes)
        self.buffers: dict[Any, str] = {key: code.pointer_in("%arrays", i) for i, key in enumerate(self._keys)}
        targets = {v: code.pointer_in("%arrays", len(self._keys) + i) for i, v in enumerate(self.writes)}
        status = code.pointer_in("%arrays", count)
        # How many bytes these are is known at the end.
        memory = code.call("PyMem_RawMalloc", "%bytes")
        with code.when(code.new(f"icmp eq ptr {memory}, null")):
            code.effect(f"store i64 1, ptr {status}")
            code.effect("ret void")
        number = code.new(f"ptrtoint ptr {memory} to i64")
        aligned = code.new(f"and i64 {code.new(f'add i64 {number}, 63')}, -64")
        code.effect(f"%scratch = inttoptr i64 {aligned} to ptr")
        self.rooms: list[str] = []
        self.room_bytes, head = 0, len(code.lines)
        self.dense = Dense(code, self.room(1))
        self.dense.store("zeroinitializer", self.dense.bad, "0")
        self.factors: dict[Any, tuple[str, str]] = {}
        with code.each("%from", "%to", WIDTH) as turn:
            self._block(turn, targets)
        bad = Lanes(code, np.dtype(np.int64), WIDTH)
        found = code.new(f"load <8 x i64>, ptr {self.dense.bad}, align 64")
        with code.when(bad.any(bad.compare("ne", found, 0))):
            code.effect(f"store i64 1, ptr {status}")
        code.call("PyMem_RawFree", memory)
        if self.room_bytes > _ROOM:
            raise Refused("too much scratch memory")
        code.lines[head:head] = self.rooms
        self.text = code.over_rows("stack").replace("%bytes", str(self.room_bytes + 64))
        calls = [("stack", self.size, _BLOCK)]
        if self.size * sum([math.prod(v.aval.shape[1:]) for v in self.maker]) < _SHARED:
            self.link_as_one(made, calls, self.writes, 2)
        else:
            self.link(made, calls, self.writes, 2)

    def room(self, vectors: int) -> str:
        """Return the address of scratch memory for vectors."""
        name = f"%room{len(self.rooms)}"
        self.rooms.append(f"  {name} = getelementptr i8, ptr %scratch, i64 {self.room_bytes}")
        self.room_bytes += 64 * vectors
        return name

    def _block(self, turn: str, targets: dict[Variable, str]) -> None:
        self.lane = Lanes(self.code, LONG, 1).at_most(turn, str(self.size - WIDTH))
        users = count_readers([step.args for step in self.steps])
        for op, args, params, (v,) in self.steps:
            if _is_routine(op):
                self.buffers[v] = self._routine(op.name, args, params, v.aval)
            elif lowering_of(op).entry not in VIEWS and v.aval.dtype == DOUBLE and users.get(v, 0) + (v in targets) > 1:
                self.matrix(v, v.aval.shape)
        for v, pointer in targets.items():
            self._entries(v, v.aval.shape, lambda w, x, index, v=v, p=pointer: w.write(p, v, x, index))

    def matrix(self, a: Any, shape: tuple[int, ...]) -> str:
        """Return the place of an array in scratch memory."""
        key = a if type(a) is Variable else id(a)
        place = self.buffers.get(key, "")
        if place.startswith("%room"):
            return place
        if aval_of_atom(a).dtype != DOUBLE:
            raise Refused("another type in scratch memory")
        place = self.room(math.prod(shape[1:]))
        b = Lanes(self.code, DOUBLE, WIDTH)

        def put(writer: Writer, x: tuple[str, int], index: Index) -> None:
            at, _ = writer.address(place, shape[1:], DOUBLE, index[1:], "<8 x double>")
            wide = b.splat(x[0]) if x[1] < WIDTH else x[0]
            self.code.effect(f"store <8 x double> {wide}, ptr {at}, align 64")

        self._entries(a, shape, put)
        if aval_of_atom(a).shape == shape:
            self.buffers[key] = place
        return place

    def _entries(self, a: Any, shape: tuple[int, ...], put: Callable) -> None:
        """Compute an array entry by entry, in loops over all axes but that of the lanes."""
        code, domain = self.code, _Domain(shape, self.maker)
        own = broadcast_index(aval_of_atom(a).shape, domain.index)
        cuts = find_cuts(domain, self.buffers, [(a, own)])
        if len(cuts[0]) > 1:
            raise Refused("lanes that come from here and there")
        for parts in itertools.product(*cuts):
            box = dict(enumerate(parts))

            def nest(axis: int, counters: list[str], box=box) -> None:
                if axis == len(shape):
                    writer = _Lanewise(code, domain, self.buffers, box, counters)
                    put(writer, writer.entry(a, own), domain.index)
                    return
                low, high = box[axis]
                if high - low == 1:
                    nest(axis + 1, [*counters, str(low)])
                else:
                    with code.each(str(low), high) as turn:
                        nest(axis + 1, [*counters, turn])

            with code.scope():
                nest(1, [self.lane])

    def _routine(self, name: str, args: Sequence[Any], params: dict, out: Aval) -> str:
        dense, n, size, stack = self.dense, aval_of_atom(args[0]).shape[-1], math.prod(out.shape[1:]), out.shape[:1]
        if name == "matmul":
            shapes = [aval_of_atom(a).shape[-2:] for a in args]
            x, y = [self.matrix(a, (*stack, *s)) for a, s in zip(args, shapes, strict=True)]
            to = self.room(size)
            dense.product(x, y, to, (shapes[0][0], shapes[0][1], shapes[1][1]))
            return to
        if name == "cholesky":
            x, to = self.matrix(args[0], out.shape), self.room(size)
            dense.cholesky(x, n, to)
        elif name == "inv" and args[0] in self.maker and self.maker[args[0]][0].name == "cholesky":
            x, to = self.matrix(args[0], out.shape), self.room(size)
            dense.triangular_inverse(x, n, to)
        elif name == "triangular_solve":
            x, to = self.matrix(args[0], (*stack, n, n)), self.room(size)
            dense.copy(self.matrix(args[1], out.shape), to, size)
            dense.triangular(x, n, to, out.shape[-1], params["lower"], params["unit"])
        else:
            factors, pivots = self._factors(args[0], n)
            to = self.room(size)
            if name == "det":
                dense.determinant(factors, n, pivots, to)
            elif name == "solve":
                dense.copy(self.matrix(args[1], out.shape), to, size)
                dense.substitute(factors, n, pivots, to, out.shape[-1])
            else:
                dense.identity(inverse := self.room(size) if name == "cofactors" else to, n)
                dense.substitute(factors, n, pivots, inverse, n)
            if name == "cofactors":
                determinant = self.room(1)
                dense.determinant(factors, n, pivots, determinant)
                dense.cofactors(self.matrix(args[0], out.shape), n, inverse, determinant, to)
        dense.finite(to, size)
        return to

    def _factors(self, a: Any, n: int) -> tuple[str, str]:
        """Return the factors of a matrix, which is factorized once."""
        key = a if type(a) is Variable else id(a)
        if key not in self.factors:
            x, factors, pivots = self.matrix(a, aval_of_atom(a).shape), self.room(n * n), self.room(n)
            self.dense.copy(x, factors, n * n)
            self.dense.factorize(factors, n, pivots)
            self.factors[key] = factors, pivots
        return self.factors[key]


def find_stacks(program: Program) -> Sequence[Step]:
    """Return a program's equations, with those on stacks of small matrices as equations of a ``Stack`` each."""
    made = engine()
    if made is None or not any([_is_worth_it(step) and is_known(step) for step in program.steps]):
        return program.steps

    def place(step: Step, group: list[Step], depends: bool) -> Place:
        if not is_known(step):
            return Place.NOWHERE
        if not group or group[0].out.aval.shape[0] == step.out.aval.shape[0]:
            return Place.HERE
        return Place.NEXT if depends else Place.NOWHERE

    return gather(program, place, lambda steps, writes: _join(steps, writes, made))


def _is_worth_it(step: Step) -> bool:
    """Whether an equation is a reason for lanes: what lies between others is not."""
    op, args = step[:2]
    way = lowering_of(op).stack
    return way is Way.FACTOR or (way is Way.PRODUCT and all([len(aval_of_atom(a).shape) == 3 for a in args]))


def _join(steps: list[Step], writes: list[Variable], made: Engine) -> list[Step]:
    """Return equations as one, if that is worth it and can be done."""
    if not writes or not any([_is_worth_it(step) for step in steps]):
        return steps
    group = Stack(steps, writes)
    return group.as_one(made)
