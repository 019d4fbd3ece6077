"""Small arrays in registers: an array of fewer than eight entries is scalars, a larger one vectors of eight.

``gather`` makes an array of entries of others, wherever they are: every operator that only moves entries is one.
Entries behind the end of the last vector repeat its last one. Not for: operations on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.aval import Aval
from .code import WIDTH, Code, Lanes, element, literal
from .operators import BOOL

__all__ = [
    "LONG", "Values", "at", "chunks", "gather", "in_chunks", "is_uniform", "join_entries", "load", "load_lanes",
    "parts_of", "places", "storage_type", "store", "store_lanes", "take", "width_of",
]  # fmt: skip


#: entries from which on a part of an array in memory stays there, and is copied in a loop
LONG = 64


def is_uniform(x: Any) -> bool:
    """Whether a constant is one number everywhere."""
    if not isinstance(x, np.ndarray) or x.size == 1 or not any(x.strides):
        return True
    return x.size <= 4096 and x.tobytes() == x.size * x.reshape(-1)[:1].tobytes()


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
    """Return positions as rows of equal length, the last one repeated at the end."""
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
    return code.value(f"getelementptr {storage_type(dtype)}, ptr {pointer}, i64 {offset}")


def storage_type(dtype: np.dtype) -> str:
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
        # Not kept: loads inside a loop are not in force behind it.
        return load(code, value.aval, value.pointer, i)
    return parts_of(code, value)[i]


def parts_of(code: Code, value: Values) -> Sequence[str]:
    """Return the names of an array's parts, loading or writing down missing ones."""
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


def join_entries(code: Code, aval: Aval, entries: Sequence[str]) -> Values:
    """Return an array of entries that are known one by one."""
    b = Lanes(code, aval.dtype, width_of(aval))
    return Values(aval, [b.joined([entries[i] for i in row]) for row in in_chunks(places(aval), b.width)])


# ── moving entries ───────────────────────────────────────────────────────────────────────────────────────────────


def take(code: Code, value: Values, row: np.ndarray, dtype_width: int) -> str:
    """Return a part whose lanes are entries of an array, by their positions."""
    return _part(code, [value], row.tolist(), dtype_width, value.aval.dtype, {})


def gather(code: Code, sources: Sequence[Values], positions: np.ndarray, aval: Aval) -> Values:
    """Return an array of entries of others, numbered through; -1 is a zero."""
    width, flat = width_of(aval), positions.reshape(-1)
    if not aval.size:
        return Values(aval, [])
    x = sources[0]
    if len(sources) == 1 and aval.size >= LONG and x.parts is None and x.constant is None:
        if flat[0] >= 0 and (np.diff(flat) == 1).all():  # a part of memory is one, too
            return Values(aval, pointer=at(code, x.pointer, aval.dtype, int(flat[0])))
    known: dict[tuple[int, int], str] = {}
    rows = in_chunks(positions, width).tolist()
    return Values(aval, [_part(code, sources, row, width, aval.dtype, known) for row in rows])


def _part(
    code: Code,
    sources: Sequence[Values],
    row: list[int],
    width: int,
    dtype: np.dtype,
    known: dict[tuple[int, int], str],
) -> str:
    b = Lanes(code, dtype, width)
    first = row[0]
    if len(sources) == 1 and width == WIDTH and first >= 0 and first % WIDTH == 0 and sources[0].constant is None:
        last = sources[0].aval.size - 1
        if last >= WIDTH - 1 and row == [min(first + i, last) for i in range(WIDTH)]:
            return part_of(code, sources[0], first // WIDTH)
    # Of each lane: a text, or the vector and the lane in it.
    lanes = _entries(code, sources, row, dtype, known)
    if width == 1:
        return _scalar(b, lanes[0])
    if all([x == lanes[0] for x in lanes]):
        return b.splat(_scalar(b.of(dtype), lanes[0]) if isinstance(lanes[0], tuple) else lanes[0])
    vectors: dict[str, dict[int, int]] = {}
    texts: dict[int, str] = {}
    for i, x in enumerate(lanes):
        if isinstance(x, tuple):
            vectors.setdefault(x[0], {})[i] = x[1]
        else:
            texts[i] = x
    if not vectors:
        return b.joined(list(texts.values()))
    out = _merge_lanes(b, list(vectors.items()))
    if texts and not any([x.startswith("%") for x in texts.values()]):
        zero = literal(0, dtype)
        other = f"<{', '.join([f'{b.lane} {texts.get(i, zero)}' for i in range(WIDTH)])}>"
        return b.shuffled(out, other, [WIDTH + i if i in texts else i for i in range(WIDTH)])
    for i, x in texts.items():
        out = code.value(f"insertelement {b.type} {out}, {b.lane} {x}, i64 {i}")
    return out


def _merge_lanes(b: Lanes, vectors: list[tuple[str, dict[int, int]]]) -> str:
    """Return a vector whose lanes are lanes of others, joined two by two: that is less to compile than one by one."""
    if len(vectors) == 1:
        name, places = vectors[0]
        return b.shuffled(name, name, [places.get(i) for i in range(WIDTH)])
    while len(vectors) > 1:
        pairs = [
            (b.shuffled(x, y, [WIDTH + j[i] if i in j else k.get(i) for i in range(WIDTH)]), {i: i for i in (*k, *j)})
            for (x, k), (y, j) in zip(vectors[::2], vectors[1::2], strict=False)
        ]
        vectors = pairs + vectors[len(vectors) // 2 * 2 :]
    return vectors[0][0]


def _entries(
    code: Code, sources: Sequence[Values], row: list[int], dtype: np.dtype, known: dict[tuple[int, int], str]
) -> list[str | tuple[str, int]]:
    found: list[str | tuple[str, int]] = []
    sizes = [value.aval.size for value in sources]
    for position in row:
        if position < 0:
            found.append(literal(0, dtype))
            continue
        k = 0
        while position >= sizes[k]:
            position -= sizes[k]
            k += 1
        value = sources[k]
        if value.constant is not None:
            found.append(literal(value.constant.flat[position], dtype))
            continue
        at, lane = divmod(position, WIDTH) if sizes[k] >= WIDTH else (position, None)
        name = known.get((k, at))
        if name is None:
            name = known[k, at] = part_of(code, value, at)
        found.append(name if lane is None else (name, lane))
    return found


def _scalar(b: Lanes, lane: str | tuple[str, int]) -> str:
    if isinstance(lane, str):
        return lane
    return Lanes(b.code, b.dtype, WIDTH).at(*lane)
