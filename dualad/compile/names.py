"""Names in place of numbers: abstract values, known by how they were computed.

Two values have one name only if they are the same bits. An array has one name (its entry ``p`` is called after that and
``p``) or a name for each entry; a constant is itself, and is known by its bits. Moves move names. Not for: what
equations make of names, or comparing programs (``validate.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.tables import OPS

__all__ = ["FOLDED", "Names", "SMALL", "Value"]

#: entries up to which joins and writes are known entry by entry, and those of larger ones, in all (8 bytes each)
SMALL, _MANY = 1 << 16, 1 << 23
#: entries of the largest constant that is computed here (no less than the passes compute), or known by its entries
FOLDED = 1 << 12
_A, _B, _C, _TOP = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, (1 << 64) - 1
#: the last two bits of a name: of a constant's entry (or all of it is zero), of an array's entry, of a counted key
_CONSTANT, _ENTRY, _STEP = 3, 2, 4


class Value:
    """An abstract value: a constant (``known``), names of its entries (``cells``), its ``rows``, or one name.

    A part of a large array with one name is a ``view`` of as many bytes as that has entries; nobody reads them.
    """

    __slots__ = ("aval", "base", "cells", "known", "name", "rows", "seen", "view")

    def __init__(self, aval: Aval, name: int | None = None, known: Any = None) -> None:
        self.aval, self.name, self.known = aval, name, known
        self.cells: np.ndarray | None = None
        self.base: _Base | None = None
        self.view: np.ndarray | None = None
        self.rows: list[Value] | None = None
        #: its name where it is read, whether it was broadcast before or not
        self.seen: int | None = None


class _Base:
    """An array with one name."""

    __slots__ = ("address", "aval", "cells", "memory", "name")

    def __init__(self, name: int, aval: Aval) -> None:
        self.name, self.aval = name, aval
        self.cells: np.ndarray | None = None
        self.memory: np.ndarray | None = None
        self.address = 0

    def bytes(self) -> np.ndarray:
        if self.memory is None:
            self.memory = np.empty(self.aval.shape, np.uint8)
            self.address = _address(self.memory)
        return self.memory

    def positions(self, view: np.ndarray) -> np.ndarray:
        """Return where the entries of a view lie."""
        out = np.array(_address(view) - self.address if view.size else 0)
        for axis, (n, step) in enumerate(zip(view.shape, view.strides, strict=True)):
            out = out + (np.arange(n) * step).reshape((n,) + (1,) * (view.ndim - axis - 1))
        return np.broadcast_to(out, view.shape)


class Names:
    """The names that were given so far."""

    def __init__(self) -> None:
        #: counted keys: for whom each was counted, and its name
        self.table: dict[Any, int] = {}
        self._constants: dict[int, Value] = {}
        self._bases: dict[int, _Base] = {}
        #: name of an array's first entry -> the array
        self._first: dict[int, _Base] = {}
        #: name of an entry of a constant -> its bits
        self._bits: dict[int, bytes] = {0: bytes(16)}
        #: objects known by their ids or addresses must stay where they are
        self.held: list[Any] = []
        self._left = _MANY

    def number(self, key: Any) -> int:
        """Return the name of what a key stands for; its aval is part of the key."""
        found = self.table.get(key)
        if found is None:
            found = self.table[key] = _STEP * (len(self.table) + 1)
        return found

    def affords(self, count: int) -> bool:
        """Whether entries can be named one by one: any few, and many as long as they are not too many in all."""
        if count > SMALL:
            self._left -= count
        return count <= SMALL or self._left >= 0

    def named(self, key: Any, aval: Aval) -> Value:
        """Return the value that a key stands for; of arrays without entries there is but one."""
        return Value(aval, self.name(Value(aval)) if 0 in aval.shape else self.number(key))

    def name(self, v: Value) -> int:
        """Return the name of a whole value, which says its shape and dtype."""
        if v.name is None:
            v.name = self._find_name(v)
        return v.name

    def seen(self, v: Value, broadcast: bool = False) -> int:
        """Return the name of an argument; with ``broadcast``, as if it had not been broadcast."""
        if v.aval.weak:
            return -self.name(v)
        if not broadcast or not v.aval.shape:
            return self.name(v)
        if v.seen is None:
            v.seen = self.name(self._narrow(v))
        return v.seen

    def _find_name(self, v: Value) -> int:
        aval = v.aval
        if 0 in aval.shape:
            return self.number(("empty", aval.shape, aval.dtype))
        if v.known is not None:
            x = np.asarray(v.known)
            if x.size > SMALL:
                self.held.append(x)
                x = _without_repeats(x)
            where = x.tobytes() if x.size <= SMALL else (_address(x), x.strides)
            return self.number(("constant", aval.shape, aval.dtype, x.shape, where))
        if v.view is not None:
            base, place = v.base, _address(v.view) - v.base.address  # type: ignore[union-attr]
            if aval.shape == base.aval.shape and v.view.strides == base.bytes().strides and not place:  # type: ignore[union-attr]
                return base.name  # type: ignore[union-attr]
            if v.view.size > SMALL:
                return self.number(("view", base.name, place, aval.shape, v.view.strides))  # type: ignore[union-attr]
        if self._only_rows(v):
            return self.number(("rows", aval.dtype, *[self.name(row) for row in v.rows or ()]))
        cells = self.cells(v)
        if not cells.shape:
            return int(cells)
        base = self._first.get(int(cells[(0,) * cells.ndim]))
        if base is not None and base.aval == aval and np.array_equal(cells, self._expanded(base)):
            return base.name
        bits = (_without_repeats(cells) if cells.size > SMALL else cells).tobytes()
        return self.number(("cells", aval.shape, aval.dtype, bits if len(bits) < 512 else hash(bits)))

    def _only_rows(self, v: Value) -> bool:
        """Whether the entries of what has rows are too many to be named one by one."""
        return v.rows is not None and v.cells is None and not self.affords(v.aval.size)

    def cells(self, v: Value) -> np.ndarray:
        """Return the names of a value's entries."""
        if v.cells is None:
            if v.known is not None:
                v.cells = self._of_constant(np.asarray(v.known))
            elif v.view is not None:
                self._note(v.base)  # type: ignore[arg-type]
                v.cells = _entries(v.base.name, v.base.positions(v.view))  # type: ignore[union-attr]
            elif v.rows is not None:
                v.cells = np.stack([self.cells(row) for row in v.rows])
            elif not v.aval.shape:
                v.cells = np.array(v.name, np.uint64)
            else:
                v.cells = self._expanded(self.base(v))
        return v.cells

    def base(self, v: Value) -> _Base:
        found = self._bases.get(v.name)  # type: ignore[arg-type]
        if found is None:
            found = self._bases[v.name] = _Base(v.name, v.aval)  # type: ignore[arg-type, index]
        return found

    def _expanded(self, base: _Base) -> np.ndarray:
        if base.cells is None:
            self._note(base)
            base.cells = _entries(base.name, np.arange(base.aval.size)).reshape(base.aval.shape)
        return base.cells

    def _note(self, base: _Base) -> None:
        """Note that an array may be put together again of its entries."""
        self._first.setdefault(_entry(base.name, 0), base)

    # ── constants ────────────────────────────────────────────────────────────────────────────────────────────────

    def constant(self, a: Any) -> Value:
        """Return the abstract value of a program's constant."""
        found = self._constants.get(id(a))
        if found is None:
            self.held.append(a)
            if isinstance(a, (np.ndarray, np.generic, bool, int, float, complex)):
                x = np.asarray(a)
                if x.dtype.kind in "biufc" and x.dtype.char not in "gG":
                    weak = type(a) in (bool, int, float, complex)
                    found = Value(Aval(x.shape, x.dtype, weak), None, a)
            if found is None:
                aval = Aval(np.shape(a), getattr(a, "dtype", np.dtype(object)))
                found = self.named(("object", id(a)), aval)
            self._constants[id(a)] = found
        return found

    def _of_constant(self, x: np.ndarray) -> np.ndarray:
        """Return names of known entries: that of a zero, all of whose bits are, is zero."""
        flat, n = np.ascontiguousarray(x).reshape(-1), x.dtype.itemsize
        words = flat.view(np.uint64).reshape(-1, 2) if n == 16 else flat.view(f"u{n}").astype(np.uint64)[:, None]
        names = _entries(1, words[:, 0])
        for k in range(1, words.shape[1]):
            names = _entries(1, names ^ _entries(1 + _STEP * k, words[:, k]))
        names = np.where((words == 0).all(1), np.uint64(0), names | np.uint64(_CONSTANT))
        if x.size <= FOLDED:
            wide = np.zeros((len(words), 2), np.uint64)
            wide[:, : words.shape[1]] = words
            self._bits.update(zip(names.tolist(), [row.tobytes() for row in wide], strict=True))
        return names.reshape(x.shape)

    def of_cells(self, cells: np.ndarray, aval: Aval) -> Value:
        """Return a value whose entries have these names: a constant, if they are all constants'."""
        if cells.size and cells.size <= FOLDED and (first := int(cells[(0,) * cells.ndim])) in self._bits:
            bits = [self._bits.get(n) for n in cells.reshape(-1).tolist()] if cells.shape else [self._bits[first]]
            if None not in bits and aval.dtype.kind in "biufc":
                known: Any = np.array([np.frombuffer(b, aval.dtype, 1)[0] for b in bits], aval.dtype)  # type: ignore[arg-type]
                known = known.reshape(cells.shape)
                return Value(Aval(cells.shape, aval.dtype), None, known if known.shape else known[()])
        found = Value(Aval(cells.shape, aval.dtype), None if cells.shape else int(cells))
        found.cells = cells
        return found

    # ── moves ────────────────────────────────────────────────────────────────────────────────────────────────────

    def taken(self, op: Any, v: Value, params: dict, arrays: Sequence[np.ndarray] = ()) -> list[Value]:
        """Return the parts that an operator that moves entries takes out of an array."""
        aval = v.aval
        if (
            v.rows is not None
            and op.name == "index"
            and not arrays
            and (part := self._of_rows(v, **params)) is not None
        ):
            return [part]
        if v.known is not None:
            found = op.impl(np.asarray(v.known), *arrays, **params)
            found = found if isinstance(found, tuple) else (found,)
            return [Value(Aval(np.shape(x), aval.dtype), None, x) for x in found]
        whole = aval.size > FOLDED and v.cells is None and (v.rows is None or self._only_rows(v))
        if whole and v.name is None:  # it has rows, and their names are its name
            self.name(v)
        base = v.base if v.view is not None else self.base(v) if whole else None
        if base is None:
            found = op.impl(self.cells(v), *arrays, **params)
            return [self.of_cells(np.asarray(x), aval) for x in (found if isinstance(found, tuple) else (found,))]
        memory = base.bytes()
        view = memory if v.view is None else v.view
        if arrays:
            self._note(base)
            return [self.of_cells(_entries(base.name, op.impl(base.positions(view), *arrays, **params)), aval)]
        parts = _views(op, view, params)
        if not all([np.may_share_memory(x, memory) for x in parts if x.size]):
            return [self.of_cells(np.asarray(op.impl(self.cells(v), **params)), aval)]
        found = []
        for x in parts:
            part = Value(Aval(x.shape, aval.dtype))
            part.base, part.view = base, x
            found.append(part)
        return found

    def cast(self, v: Value, dtype: np.dtype) -> Value:
        if v.aval.dtype == dtype:
            return v
        if v.known is not None:
            return Value(Aval(v.aval.shape, dtype), None, np.asarray(v.known).astype(dtype)[()])
        return self.named(("astype", dtype, self.name(v)), Aval(v.aval.shape, dtype))

    def weak(self, v: Value, weak: bool) -> Value:
        """Return a number as Python's, or as NumPy's."""
        if v.aval.weak == weak:
            return v
        known = v.known
        if known is not None:
            known = np.asarray(known).item() if weak else np.asarray(known)[()]
        found = Value(Aval(v.aval.shape, v.aval.dtype, weak), v.name, known)
        found.cells, found.base, found.view, found.rows = v.cells, v.base, v.view, v.rows
        return found

    def rows(self, v: Value) -> list[Value]:
        """Return the rows of an array."""
        if v.rows is None and v.known is None and v.view is None and len(v.aval.shape) == 1:
            aval = Aval((), v.aval.dtype)
            cells = self.cells(v).tolist()
            return [self.of_cells(np.array(n, np.uint64), aval) if n in self._bits else Value(aval, n) for n in cells]
        return v.rows or [self.taken(OPS["index"], v, {"template": (i,)})[0] for i in range(v.aval.shape[0])]

    def stacked(self, rows: list[Value]) -> Value:
        """Return the array that has these rows, which are not all constants."""
        found = Value(Aval((len(rows), *rows[0].aval.shape), rows[0].aval.dtype))
        found.rows = [self.weak(row, False) for row in rows]
        return found

    def _of_rows(self, v: Value, template: tuple) -> Value | None:
        first, rest = (template[0], template[1:]) if template else (None, ())
        if type(first) is int:
            row = v.rows[first]  # type: ignore[index]
            return self.taken(OPS["index"], row, {"template": rest})[0] if rest else row
        rows = v.rows[slice(*first)] if type(first) is tuple and not rest else []  # type: ignore[index]
        return self.stacked(rows) if any([row.known is None for row in rows]) else None

    def _narrow(self, v: Value) -> Value:
        """Return a value without the axes along which it was broadcast, and without axes of one entry in front."""
        shape = v.aval.shape
        x = v.known if v.known is not None else v.cells if v.cells is not None else v.view
        if x is None and shape[0] != 1:
            return v
        if x is not None:
            known = v.known is not None and x.size <= FOLDED
            once = [
                n > 1 and (step == 0 or (known and _is_repeated(x, axis)))
                for axis, (n, step) in enumerate(zip(shape, x.strides, strict=True))
            ]
            if any(once):
                full = tuple([(0, 1 if one else n, 1) for n, one in zip(shape, once, strict=True)])
                v = self.taken(OPS["index"], v, {"template": full})[0]
        front = next((i for i, n in enumerate(v.aval.shape) if n != 1), len(shape))
        return self.taken(OPS["index"], v, {"template": (0,) * front})[0] if front else v


def _entries(name: int, positions: np.ndarray) -> np.ndarray:
    """Return the names of entries at positions of an array."""
    if positions.size == 1:
        return np.full(positions.shape, _entry(name, int(positions.reshape(-1)[0])), np.uint64)
    z = positions.astype(np.uint64) * np.uint64(_A) + np.uint64((name * _C + _B) & _TOP)
    z = (z ^ (z >> np.uint64(31))) * np.uint64(_B)
    z = (z ^ (z >> np.uint64(29))) * np.uint64(_C)
    return (z ^ (z >> np.uint64(32))) & np.uint64(_TOP - _CONSTANT) | np.uint64(_ENTRY)


def _entry(name: int, position: int) -> int:
    """Return the same of one position, in Python's integers: the commonest array has one entry."""
    z = (position * _A + name * _C + _B) & _TOP
    z = ((z ^ (z >> 31)) * _B) & _TOP
    z = ((z ^ (z >> 29)) * _C) & _TOP
    return (z ^ (z >> 32)) & (_TOP - _CONSTANT) | _ENTRY


def _address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def _views(op: Any, view: np.ndarray, params: dict) -> list[np.ndarray]:
    """Return the parts that an operator takes out of an array, as views where that can be."""
    found = op.impl(view, **params)
    if isinstance(found, tuple):
        return list(found) if found and found[0].shape else [x.reshape(()) for x in view.reshape(-1, 1)]
    if not found.shape and op.name == "index":  # a number of its own; its place is that of a part of one entry
        return [view[tuple([slice(e, e + 1) for e in params["template"]])].reshape(())]
    return [found]


def _without_repeats(x: np.ndarray) -> np.ndarray:
    """Return an array without the axes along which its memory is repeated."""
    return x[tuple([slice(0, 1) if not step else slice(None) for step in x.strides])]


def _is_repeated(x: np.ndarray, axis: int) -> bool:
    rows = np.moveaxis(np.ascontiguousarray(x), axis, 0)
    return rows[1:].tobytes() == np.broadcast_to(rows[:1], rows[1:].shape).tobytes()
