"""Products of matrices and convolutions of moderate size: each entry a sum in order, in registers until it is whole.

Sums of products are added without rounding in between, as BLAS does. An entry is computed by the same operations
whatever the number of threads. A matrix times a vector is read once, as fast as memory gives it, and a loop that does
so can do more meanwhile. Not for: large products of matrices, which are BLAS's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.aval import Aval, is_weak
from ...core.tables import OPS
from ...program.variable import Step, Variable, aval_of_atom
from .code import WIDTH, Code, Lanes
from .kernels import Kernel, clamp
from .operators import LONG
from .reductions import SHORT
from .values import at, load_lanes, store_lanes

__all__ = ["Product", "as_sum", "is_product"]

_MATRICES: dict[tuple[int, ...], str] = {(2, 1): "ij,j->i", (1, 2): "i,ij->j", (1, 1): "i,i->"}


def _subscripts(op: Any, args: Sequence, params: dict) -> str:
    """Return the labels of a product of two arrays; nothing if they are not known here."""
    if op.name == "matmul":
        return _MATRICES.get(tuple([len(aval_of_atom(a).shape) for a in args]), "")
    if op.name in ("einsum", "einsum_strong") and len(args) == 2:
        return params["subscripts"]
    return ""


def as_sum(step: Step, least: int, is_known: Callable[[Step], bool]) -> list[Step]:
    """Return equations that multiply entry by entry and add up, in place of one; or that one.

    It is worth it from ``least`` products on; ``is_known`` says whether an equation can be part of a loop.
    """
    op, args, params, (out, *_) = step
    subscripts = _subscripts(op, args, params)
    if "->" not in subscripts or "." in subscripts or len(step.outs) != 1:
        return [step]
    given, result = subscripts.split("->")
    labels = given.split(",")
    avals = [aval_of_atom(a) for a in args]
    if any([len(set(x)) != len(x) for x in (*labels, result)]) or any(
        [a.dtype != out.aval.dtype or is_weak(a) for a in avals]
    ):
        return [step]
    # All labels, in the order in which they lie in memory.
    whole = next((x for x in (*labels, result) if set(x) >= set("".join(labels))), "")
    sizes = {c: n for x, a in zip(labels, avals, strict=True) for c, n in zip(x, a.shape, strict=True)}
    plain = all([a.shape == tuple([sizes[c] for c in x]) for x, a in zip(labels, avals, strict=True)])
    summed = [c for c in sizes if c not in result]
    if not whole and 1 < math.prod([sizes[c] for c in summed]) <= SHORT:  # sums that are added up where they are read
        whole = result + "".join(summed)
    if not whole or not plain or math.prod(sizes.values()) < least:
        return [step]
    steps: list[Step] = []

    def write(name: str, given: list, kept: dict, shape: tuple[int, ...]) -> Variable:
        made = Variable(Aval(shape, out.aval.dtype))
        steps.append(Step(OPS[name], given, kept, (made,)))
        return made

    spread = []
    for a, x in zip(args, labels, strict=True):
        order = [x.index(c) for c in whole if c in x]
        if order != list(range(len(x))):
            a = write("transpose", [a], {"axes": tuple(order)}, tuple([sizes[x[k]] for k in order]))
        shape = tuple([sizes[c] if c in x else 1 for c in whole])
        spread.append(write("reshape", [a], {"shape": shape}, shape) if len(x) < len(whole) else a)
    everything = tuple([sizes[c] for c in whole])
    if op.name == "einsum_strong":
        product = write("scale", spread[::-1], {}, everything)
    else:
        product = write("multiply", spread, {}, everything)
    axes = tuple([i for i, c in enumerate(whole) if c not in result])
    if axes:
        left = "".join([c for c in whole if c in result])
        product = write("sum", [product], {"axis": axes, "keepdims": False}, tuple([sizes[c] for c in left]))
        whole = left
    if whole != result:
        product = write("transpose", [product], {"axes": tuple([whole.index(c) for c in result])}, out.aval.shape)
    steps[-1] = steps[-1]._replace(outs=(out,))
    return steps if all([is_known(s) for s in steps if s.op.name not in ("reshape", "transpose")]) else [step]


#: products of numbers in one product of matrices: fewer are written out (``lowering.py``), more are BLAS's
_FEWEST, _MOST = 4097, 1 << 22
#: rows, and vectors of columns, of results computed together
_ROWS, _VECTORS = 4, 2
#: entries of the shorter sequence of a convolution
_TAPS = 1024
#: totals of a convolution that are in registers
_TOTALS = 8


def is_product(step: Step) -> bool:
    """Whether an equation is a loop of this kind."""
    op, args, params, (out,) = step
    avals = [aval_of_atom(a) for a in args]
    if any([a.dtype != out.aval.dtype for a in avals]) or out.aval.dtype.kind != "f":
        return False
    if op.name == "convolve":
        if not all([a.shape[:-1] in ((), out.aval.shape[:-1]) for a in avals]):
            return False
        n, taps = [a.shape[-1] for a in avals]
        return set(params) == {"mode"} and taps <= min(n, _TAPS) and out.aval.size >= 2 * WIDTH
    if params or any([len(a.shape) != 2 for a in avals]) or out.aval.shape[1] < WIDTH:
        return False
    count = out.aval.size * avals[0].shape[1]
    return (count >= _FEWEST or max([a.size for a in avals]) > 1024) and count <= _MOST


class Product(Kernel):
    """Results of products of the same sizes."""

    def __init__(self, steps: Sequence[Step], block: int) -> None:
        self.steps = list(steps)
        super().__init__([s.out for s in steps], False)
        self.each = [aval_of_atom(a).shape for a in steps[0].args]
        is_convolution = self.steps[0].op.name == "convolve"
        work = self.each[1][-1] if is_convolution else math.prod(self.each[0][1:])
        self._work = math.prod(self.shape) * work // 64 * len(self.steps)
        self.rows = math.prod(self.shape[:-1]) if is_convolution and len(self.shape) > 1 else self.shape[0]
        self.step = max(1, 4 * block * self.rows // (math.prod(self.shape) * work))
        self.step = -(-self.step // 64) * 64 if len(self.shape) == 1 else -(-self.step // _ROWS) * _ROWS

    @property
    def work(self) -> int:
        """A product and a sum in registers are a small part of what an entry in memory takes."""
        return self._work

    def write(self, name: str) -> tuple[str, list[str]]:
        code = Code()
        write = _convolution if self.steps[0].op.name == "convolve" else _matrices
        write(code, self, self.buffers(code))
        return code.over_rows(name), [name]


# ── matrices ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _matrices(code: Code, kernel: Product, buffers: dict[Any, str]) -> None:
    (rows, inner), columns = kernel.each[0], kernel.each[1][1]
    one, dtype = Lanes(code, LONG, 1), kernel.outs[0].aval.dtype
    b, single = Lanes(code, dtype, WIDTH), Lanes(code, dtype, 1)
    from_, to = clamp(code, 0, rows)

    vectors = min(_VECTORS, -(-columns // WIDTH))

    def tile(x: str, y: str, out: str, i: str, height: int, j: str) -> None:
        lines = [one.add(i, str(u)) if u else i for u in range(height)]
        places = [one.at_most(one.add(j, str(v * WIDTH)) if v else j, str(columns - WIDTH)) for v in range(vectors)]
        with code.fold("0", inner, 1, [(b, b.constant(-0.0))] * (height * vectors)) as turn:
            below = one.do("mul", turn.counter, str(columns))
            right = [load_lanes(b, at(code, y, dtype, one.add(below, p))) for p in places]
            new, left = [], iter(turn.carried)
            for line in lines:
                place = one.add(one.do("mul", line, str(inner)), turn.counter)
                factor = load_lanes(single, at(code, x, dtype, place))
                new += [b.fma(b.splat(factor), r, next(left)) for r in right]
            turn.next = new
        totals = iter(turn.carried)
        for line in lines:
            for p in places:
                place = one.add(one.do("mul", line, str(columns)), p)
                store_lanes(b, b.add(next(totals), 0.0), at(code, out, dtype, place))

    for _, (x, y), _, (v,) in kernel.steps:
        left, right = [buffers[a if type(a) is Variable else id(a)] for a in (x, y)]
        names: tuple[str, str, str] = left, right, buffers[v]
        with code.each("0", columns, vectors * WIDTH) as j:
            with code.each(from_, one.sub(to, str(_ROWS - 1)), _ROWS) as i:
                tile(*names, i, _ROWS, j)
            with code.each(i, to) as i:
                tile(*names, i, 1, j)


# ── convolutions ─────────────────────────────────────────────────────────────────────────────────────────────────


def _convolution(code: Code, kernel: Product, buffers: dict[Any, str]) -> None:
    n, taps = [shape[-1] for shape in kernel.each]
    mode, size = kernel.steps[0].params["mode"], kernel.shape[-1]
    shift = {"full": 0, "same": (taps - 1) // 2, "valid": taps - 1}[mode]
    one, dtype = Lanes(code, LONG, 1), kernel.outs[0].aval.dtype
    b, single = Lanes(code, dtype, WIDTH), Lanes(code, dtype, 1)
    low, high = max(0, taps - 1 - shift), min(size, n - shift)  # where all taps have a partner
    if high - low < WIDTH:
        low = high = size
    vectors = max(1, min(_TOTALS // len(kernel.steps), -(-(high - low) // WIDTH)))
    each = [[buffers[a if type(a) is Variable else id(a)] for a in (*s.args, s.out)] for s in kernel.steps]

    def total(w: Lanes, places: Sequence[str], first: str, end: str) -> list[list[str]]:
        count = len(each)
        with code.fold(first, end, 1, [(w, w.constant(-0.0))] * (count * len(places))) as turn:
            left, new = iter(turn.carried), []
            for p in places:
                behind = one.sub(one.add(p, str(shift)), turn.counter)
                for x, y, _ in each:
                    factor = w.splat(load_lanes(single, at(code, y, dtype, turn.counter)))
                    new.append(w.fma(factor, load_lanes(w, at(code, x, dtype, behind)), next(left)))
            turn.next = new
        return [turn.carried[u * count : (u + 1) * count] for u in range(len(places))]

    def put(w: Lanes, places: Sequence[str], sums: list[list[str]]) -> None:
        for p, row in zip(places, sums, strict=True):
            for (_, _, out), x in zip(each, row, strict=True):
                store_lanes(w, w.add(x, 0.0), at(code, out, dtype, p))

    def inside(i: str) -> None:
        places = [one.at_most(one.add(i, str(u * WIDTH)) if u else i, str(high - WIDTH)) for u in range(vectors)]
        put(b, places, total(b, places, "0", str(taps)))

    def border(i: str) -> None:
        place = one.add(i, str(shift))
        first = one.call("smax", "0", one.sub(place, str(n - 1)))
        end = one.call("smin", str(taps), one.add(place, "1"))
        put(single, [i], total(single, [i], first, end))

    def write(limits: Callable[[int, int], tuple[str, str]]) -> None:
        for start, stop, by, part in (
            (0, low, 1, border),
            (low, high, vectors * WIDTH, inside),
            (high, size, 1, border),
        ):
            if stop > start:
                with code.each(*limits(start, stop), by) as i:
                    part(i)

    if len(kernel.shape) == 1:
        write(lambda start, stop: clamp(code, start, stop))
        return
    shapes, pointers = [*kernel.each, kernel.shape], each
    with code.each(*clamp(code, 0, kernel.rows)) as lane:  # each of a stack's sequences with its own, or the only one
        moves = [one.mul(lane, str(s[-1])) if len(s) > 1 else 0 for s in shapes]
        each = [[at(code, p, dtype, by) for p, by in zip(row, moves, strict=True)] for row in pointers]
        write(lambda start, stop: (str(start), str(stop)))
