"""Small arrays in registers: an array of fewer than eight entries is so many values, a larger one vectors of eight.

``gather`` makes an array of entries of others, wherever they are: every operator that only moves entries is one.
Entries behind the end of the last vector repeat its last one. Not for: what is computed with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...core.aval import Aval
from .code import WIDTH, Code, Lanes, element, literal
from .operators import BOOL

__all__ = [
    "Values",
    "at",
    "chunks",
    "gather",
    "in_chunks",
    "load",
    "load_lanes",
    "parts_of",
    "places",
    "store",
    "store_lanes",
    "stored",
    "take",
    "width_of",
]


class Values:
    """An array: the names of its parts, or a constant, or a place in memory."""

    __slots__ = ("aval", "constant", "parts", "pointer")

    def __init__(
        self, aval: Aval, parts: Sequence[str] | None = None, constant: np.ndarray | None = None, pointer: str = ""
    ) -> None:
        self.aval, self.constant, self.pointer = aval, constant, pointer
        self.parts = parts


def width_of(aval: Aval) -> int:
    return 1 if aval.size < WIDTH else WIDTH


def chunks(aval: Aval) -> int:
    """Return the number of parts of an array."""
    return -(-aval.size // width_of(aval))


def places(aval: Aval) -> np.ndarray:
    return np.arange(aval.size).reshape(aval.shape)


def in_chunks(positions: np.ndarray, width: int) -> np.ndarray:
    """Return positions as rows of so many, the last one repeated at the end."""
    flat = np.ravel(positions)
    short = -len(flat) % width
    if short:
        flat = np.concatenate([flat, np.full(short, flat[-1])])
    return flat.reshape(-1, width)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────


def at(code: Code, pointer: str, dtype: np.dtype, offset: int | str) -> str:
    """Return the address of an entry."""
    if offset == 0:
        return pointer
    return code.value(f"getelementptr {stored(dtype)}, ptr {pointer}, i64 {offset}")


def stored(dtype: np.dtype) -> str:
    return "i8" if dtype == BOOL else element(dtype)


def load_lanes(b: Lanes, address: str) -> str:
    kind = b.type if b.dtype != BOOL else b.type.replace("i1", "i8")
    align = 1 if b.dtype == BOOL else b.dtype.itemsize
    loaded = b.code.value(f"load {kind}, ptr {address}, align {align}")
    if b.dtype != BOOL:
        return loaded
    zero = "0" if b.width == 1 else "zeroinitializer"
    return b.code.value(f"icmp ne {kind} {loaded}, {zero}")


def store_lanes(b: Lanes, x: str, address: str) -> None:
    kind, align = b.type, b.dtype.itemsize
    if b.dtype == BOOL:
        kind, align = b.type.replace("i1", "i8"), 1
        x = b.code.value(f"zext {b.type} {x} to {kind}")
    b.code.effect(f"store {kind} {x}, ptr {address}, align {align}")


def load(code: Code, aval: Aval, pointer: str, i: int) -> str:
    """Return a part of an array in memory."""
    b = Lanes(code, aval.dtype, width_of(aval))
    n = aval.size
    if (i + 1) * b.width <= n:
        return load_lanes(b, at(code, pointer, aval.dtype, i * b.width))
    last = load_lanes(b, at(code, pointer, aval.dtype, n - WIDTH))  # the last eight, moved to the front
    first = WIDTH - n % WIDTH
    return b.shuffled(last, last, [min(first + i, WIDTH - 1) for i in range(WIDTH)])


def store(code: Code, value: Values, pointer: str) -> None:
    """Write an array to memory."""
    aval, parts = value.aval, parts_of(code, value)
    b = Lanes(code, aval.dtype, width_of(aval))
    n = aval.size
    for i, x in enumerate(parts[: n // b.width]):
        store_lanes(b, x, at(code, pointer, aval.dtype, i * b.width))
    if n % b.width:  # together with the end of the vector before
        over = n % WIDTH
        x = b.shuffled(parts[-2], parts[-1], [over + i for i in range(WIDTH)])
        store_lanes(b, x, at(code, pointer, aval.dtype, n - WIDTH))


def part_of(code: Code, value: Values, i: int) -> str:
    """Return the name of one part of an array."""
    if value.constant is None and value.parts is None:
        # Not kept: what is loaded inside a loop is not there behind it.
        return load(code, value.aval, value.pointer, i)
    return parts_of(code, value)[i]


def parts_of(code: Code, value: Values) -> Sequence[str]:
    """Return the names of an array's parts, loading or writing down what is not there yet."""
    if value.parts is not None:
        return value.parts
    if value.constant is None:
        return [load(code, value.aval, value.pointer, i) for i in range(chunks(value.aval))]
    width = width_of(value.aval)
    b = Lanes(code, value.aval.dtype, width)
    rows = in_chunks(value.constant, width).tolist()
    texts = [[literal(x, value.aval.dtype) for x in row] for row in rows]
    value.parts = [row[0] if width == 1 else b.joined(row) for row in texts]
    return value.parts


# ── moving entries ───────────────────────────────────────────────────────────────────────────────────────────────


def take(code: Code, value: Values, row: np.ndarray, dtype_width: int) -> str:
    """Return a part whose lanes are entries of an array, by their positions."""
    return _part(code, [value], row, dtype_width, value.aval.dtype)


def gather(code: Code, sources: Sequence[Values], positions: np.ndarray, aval: Aval) -> Values:
    """Return an array of entries of others, numbered through; -1 is a zero."""
    width = width_of(aval)
    if not aval.size:
        return Values(aval, [])
    parts = [_part(code, sources, row, width, aval.dtype) for row in in_chunks(positions, width)]
    return Values(aval, parts)


def _part(code: Code, sources: Sequence[Values], row: np.ndarray, width: int, dtype: np.dtype) -> str:
    b = Lanes(code, dtype, width)
    if len(sources) == 1 and width == WIDTH and sources[0].aval.size >= WIDTH:
        first = int(row[0])
        size = sources[0].aval.size
        if first >= 0 and first % WIDTH == 0 and sources[0].constant is None:
            wanted = np.minimum(np.arange(first, first + WIDTH), size - 1)
            if np.array_equal(row, wanted):
                return part_of(code, sources[0], first // WIDTH)
    # Of each lane: a text, or the vector and the lane in it.
    lanes = [_entry(code, sources, int(p), dtype) for p in row]
    if width == 1:
        return _scalar(b, lanes[0])
    if all([x == lanes[0] for x in lanes]):
        return b.splat(_scalar(b.of(dtype), lanes[0]) if isinstance(lanes[0], tuple) else lanes[0])
    vectors: dict[str, None] = {x[0]: None for x in lanes if isinstance(x, tuple)}
    texts = {i: x for i, x in enumerate(lanes) if not isinstance(x, tuple)}
    if not vectors:
        return b.joined([str(x) for x in lanes])
    names = list(vectors)
    out, where = names[0], [x[1] if isinstance(x, tuple) and x[0] == names[0] else None for x in lanes]
    rest: list = [*names[1:]] or [None]
    for name in rest:
        chosen = []
        for i, x in enumerate(lanes):
            if name is not None and isinstance(x, tuple) and x[0] == name:
                chosen.append(WIDTH + x[1])
            else:
                held = where[i]
                chosen.append(held if held is not None else 0)
        out = b.shuffled(out, out if name is None else name, chosen)
        for i, x in enumerate(lanes):
            if where[i] is not None or (name is not None and isinstance(x, tuple) and x[0] == name):
                where[i] = i
    if texts and not any([x.startswith("%") for x in texts.values()]):
        zero = literal(0, dtype)
        other = f"<{', '.join([f'{b.lane} {texts.get(i, zero)}' for i in range(WIDTH)])}>"
        return b.shuffled(out, other, [WIDTH + i if i in texts else i for i in range(WIDTH)])
    for i, x in texts.items():
        out = code.value(f"insertelement {b.type} {out}, {b.lane} {x}, i64 {i}")
    return out


def _entry(code: Code, sources: Sequence[Values], position: int, dtype: np.dtype) -> str | tuple[str, int]:
    if position < 0:
        return literal(0, dtype)
    for value in sources:
        size = math.prod(value.aval.shape)
        if position < size:
            if value.constant is not None:
                return literal(value.constant.flat[position], dtype)
            if size < WIDTH:
                return part_of(code, value, position)
            return part_of(code, value, position // WIDTH), position % WIDTH
        position -= size
    raise IndexError(position)


def _scalar(b: Lanes, lane: str | tuple[str, int]) -> str:
    if isinstance(lane, str):
        return lane
    return Lanes(b.code, b.dtype, WIDTH).at(*lane)
