"""Whether each access to memory of generated code is in bounds: proven from its text, or the text is refused.

For: the functions that groups of equations become. It reads the text that LLVM gets, and the caller's facts
of the memory that it hands over; nothing of what wrote the text. Whole numbers are followed as sums of unknowns
(``ranges.py``): counters by the conditions of their loops, computed positions by the comparisons that they have passed,
arguments by all calls. Each access of each object is then in it for the least and for the greatest offset. Not for:
whether an access is to the right entry; the entries, which are C.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .flow import Function, functions_of, globals_of, size_of
from .foreign import CALLED
from .ranges import Facts, Given, Sum, number
from .words import TAME, Words

__all__ = ["Entry", "OutOfBounds", "check"]

#: memory functions: what each takes that is an address, with the number of the argument that says how many bytes
_BLOCKS = {"llvm.memset.p0.i64": ((0,), 2), "llvm.memcpy.p0.p0.i64": ((0, 1), 2), "llvm.memmove.p0.p0.i64": ((0, 1), 2)}
#: functions of CPython that take an address and only read there
_HARMLESS = frozenset({"PyMem_RawFree", "PyEval_RestoreThread"})

_ADDRESS = re.compile(r"getelementptr (?:inbounds )?(.+), ptr (\S+), i64 (\S+)$")


_SHORT = re.compile(r"load (?:i32|<8 x i32>), ptr ([^,]+)")


class OutOfBounds(Exception):
    """An access that is not proven to be in bounds."""


class Held(NamedTuple):
    """A constant table of int32, all between two numbers; its size in bytes."""

    size: int
    least: int
    most: int


class Entry(NamedTuple):
    """A function that is called from outside, and with what.

    Each address is that of so many bytes, or of a table of addresses, each of so many bytes (None: of nothing). With
    ``rows`` it takes two numbers besides, from which row to which it goes: 0 ≤ from ≤ to ≤ rows.
    """

    name: str
    memory: tuple[int | tuple[int | Held | None, ...], ...]
    rows: int | None = None


class _Memory:
    """Bytes, or a table of addresses."""

    def __init__(
        self, size: int | Held, slots: dict[int, Any] | None = None, numbers: Sequence[int] = (), name: str = ""
    ) -> None:
        self.held = size if isinstance(size, Held) else None
        self.size: int = size.size if isinstance(size, Held) else size
        self.slots, self.numbers = slots, numbers
        #: the bounds asked for, also where there were none
        self.name = name


class _Place(NamedTuple):
    """An address: so many bytes behind the first one of some memory."""

    memory: _Memory
    offset: Sum


class _Site(NamedTuple):
    """A call: what it passes, and what holds there."""

    where: Facts
    arguments: list[Any]
    given: Given | None = None

    def least(self, factors: Sequence[tuple[int, int]], goal: int | None = None) -> int | None:
        return self.where.least(_combine(self.arguments, factors), self.given, goal)


def check(text: str, entries: Sequence[Entry]) -> int:
    """Return how many accesses a module has, once each is known to be in bounds; raise ``OutOfBounds`` else.

    ``entries`` are the functions that are called from outside.
    """
    try:
        return _check(text, entries)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise OutOfBounds(f"a text that can't be read: {type(error).__name__}: {error}") from error


def _check(text: str, entries: Sequence[Entry]) -> int:
    functions = functions_of(text)
    constants = {name: _Memory(size, numbers=numbers) for name, (size, numbers) in globals_of(text).items()}
    sites: dict[str, list[_Site]] = {}
    for entry in entries:
        sites.setdefault(entry.name, []).append(_from_outside(entry))
    callers = {name: {c[0] for c in f.calls if c[0] in functions} for name, f in functions.items()}
    left, count = dict(functions), 0
    while left:
        ready = [n for n in left if not any([n in callers[other] for other in left if other != n])]
        if not ready:
            raise OutOfBounds(f"functions that call each other: {', '.join(left)}")
        for name in ready:
            function = left.pop(name)
            if name in sites:  # else nobody calls it
                count += _check_function(function, sites, functions, constants)
    return count


def _from_outside(entry: Entry) -> _Site:
    facts, arguments = Facts(), list[Any]()
    for memory in entry.memory:
        if isinstance(memory, tuple):
            slots = {8 * i: None if n is None else _Place(_Memory(n), number(0)) for i, n in enumerate(memory)}
            arguments.append(_Place(_Memory(8 * len(memory), slots), number(0)))
        else:
            arguments.append(_Place(_Memory(memory), number(0)))
    if entry.rows is not None:
        first, end = facts.unknown(tame=True), facts.unknown(tame=True)
        for fact in (first, end.plus(first, -1), number(entry.rows).plus(end, -1)):
            facts.learn(fact)
        arguments += [first, end]
    return _Site(facts, arguments)


def _check_function(function: Function, sites: dict, functions: dict, constants: dict) -> int:
    """Check one function for all of its calls; note those that it makes of others."""
    name = function.name
    known, arguments = _known_at(sites[name], _mutable_arguments(function)), _arguments(function, sites[name])
    while True:  # what holds for the calls from elsewhere, and for its own as long as it holds
        analysis = _Analysis(function, constants, arguments, _without_implied(known))
        own = list(analysis.calls(functions))
        again = [site for called, site in own if called == name]
        holding = [k for k in known if all([_holds(site, k) for site in again])]
        if len(holding) == len(known):
            break
        known = holding
    for site in again:
        for given, place in zip(site.arguments, arguments, strict=True):
            if place is not None and not _fits(given, place):
                raise analysis.fail("it calls itself with less memory")
    for called, site in own:
        if called != name:
            sites.setdefault(called, []).append(site)
    return analysis.accesses()


class _Known(NamedTuple):
    """Of the arguments of a function: the sum of some, by number and factor, is at least so much."""

    factors: tuple[tuple[int, int], ...]
    least: int


def _combine(arguments: Sequence[Any], factors: Sequence[tuple[int, int]]) -> Sum:
    total = number(0)
    for i, factor in factors:
        total = total.plus(arguments[i], factor)
    return total


def _mutable_arguments(function: Function) -> list[bool]:
    """Say of each argument whether a call of the function by itself may change it."""
    own = [given for called, given, _, _ in function.calls if called == function.name]
    return [
        not own or any([g[i].split(" ")[-1] != name for g in own]) for i, (_, name) in enumerate(function.parameters)
    ]


def _known_at(sites: Sequence[_Site], moving: Sequence[bool]) -> list[_Known]:
    """Return bounds that hold at all these calls: of each number, of sums of two and of differences."""
    numbers = [i for i in range(len(moving)) if all([isinstance(s.arguments[i], Sum) for s in sites])]
    forms = [((i, f),) for i in numbers for f in (1, -1)]
    pairs = itertools.combinations([i for i in numbers if moving[i]], 2)
    forms += [((i, f), (j, g)) for i, j in pairs for f in (1, -1) for g in (1, -1)]  # type: ignore[misc]
    found = []
    for factors in forms:
        least = [s.least(factors) for s in sites]
        if None not in least:
            lowest = min(least)  # type: ignore[type-var]
            found += [_Known(factors, n) for n in sorted({lowest, 0}) if n <= lowest]  # type: ignore[arg-type, operator, type-var]
    return found


def _without_implied(known: Sequence[_Known]) -> list[_Known]:
    """Return the facts that don't follow from the others."""
    best: dict[tuple, int] = {}
    for factors, least in known:
        best[factors] = max(least, best.get(factors, least))
    alone = lambda factors: [best.get((f,), -math.inf) for f in factors]
    return [_Known(f, n) for f, n in best.items() if len(f) == 1 or n > sum(alone(f))]


def _holds(site: _Site, known: _Known) -> bool:
    least = site.least(known.factors, known.least)
    return least is not None and least >= known.least


def _fits(given: Any, place: _Place) -> bool:
    """Whether an address stands for as much memory as a parameter is taken for."""
    if not isinstance(given, _Place) or given.offset.terms:
        return False
    if given.memory is place.memory:
        return given.offset == place.offset
    if given.memory.slots is not None or place.memory.slots is not None:
        return False
    return given.offset.plain >= 0 and given.memory.size - given.offset.plain >= place.memory.size


def _arguments(function: Function, sites: Sequence[_Site]) -> list[_Place | None]:
    """Return the places that a function's arguments point to, and None for numbers."""
    found: list[_Place | None] = []
    for i, (kind, _) in enumerate(function.parameters):
        given = [s.arguments[i] for s in sites]
        if kind == "i64":
            found.append(None)
        elif kind != "ptr" or not all([isinstance(p, _Place) and not p.offset.terms for p in given]):
            raise OutOfBounds(f"{function.name}: an argument that is not followed")
        elif any([p.memory.held for p in given]):
            raise OutOfBounds(f"{function.name}: what is held is handed over by itself")
        elif any([p.memory.slots is not None for p in given]):
            if any([not _same_table(p, given[0]) for p in given]):
                raise OutOfBounds(f"{function.name}: different tables")
            found.append(given[0])
        else:
            least = min([p.memory.size - p.offset.plain if p.offset.plain >= 0 else 0 for p in given])
            found.append(_Place(_Memory(least), number(0)))
    return found


def _same_table(a: _Place, b: _Place) -> bool:
    if a.offset != b.offset or a.memory.slots is None or b.memory.slots is None or a.memory.size != b.memory.size:
        return False
    size = lambda p: p and (p.memory.size, p.memory.held)
    sizes = [{k: size(p) for k, p in m.slots.items()} for m in (a.memory, b.memory)]  # type: ignore[union-attr]
    return sizes[0] == sizes[1]


class _Analysis(Words):
    """One function, with what its parameters stand for."""

    def __init__(
        self,
        function: Function,
        constants: dict[str, _Memory],
        arguments: Sequence[_Place | None],
        known: Sequence[_Known],
    ) -> None:
        super().__init__(function)
        self.constants = constants
        self._places: dict[str, _Place] = {}
        #: tables of addresses that this function makes
        self._tables: list[_Memory] = []
        #: of memory whose addresses were taken as numbers
        self._numbers: list[tuple[Sum, _Place]] = []
        #: numbers that were loaded from constants
        self._loaded: list[tuple[_Memory, Sum, Sum]] = []
        for (_, name), place in zip(function.parameters, arguments, strict=True):
            self.parameters[name] = place or self.unknown()
        given = list(self.parameters.values())
        for factors, least in known:
            self.learn(_combine(given, factors).plus(number(-least)))
        for x in given:
            if isinstance(x, Sum) and all([self.is_at_least(x.times(f), -TAME) for f in (1, -1)]):
                self.tame.add(x.terms[0][0])

    def fail(self, why: str) -> OutOfBounds:
        return OutOfBounds(f"{self.function.name}: {why}")

    # ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────

    def place(self, name: str) -> _Place:
        """Return the place that an operand points to."""
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = self._placed(name)
        return found

    def _placed(self, name: str) -> _Place:
        if name in self.constants:
            return _Place(self.constants[name], number(0))
        if isinstance(place := self.parameters.get(name), _Place):
            return place
        text = self.function.text(name)
        if address := _ADDRESS.match(text):
            base, by = self.place(address[2]), self.value(address[3])
            if rooms := self.function.rooms.get(address[2]):
                return self._room(base, by, rooms)
            return _Place(base.memory, base.offset.plus(by, size_of(address[1])))
        if text.startswith("load ptr, ptr "):
            table = self.place(text[14:].split(",")[0])
            slots = table.memory.slots or {}
            place = None if table.offset.terms else slots.get(table.offset.plain)
            if place is None:
                raise self.fail(f"{name} is an address that nobody has put there")
            return place
        if text.startswith("alloca "):
            memory = _Memory(size_of(text[7:]), self._stored_in(name) if "x ptr]" in text else None)
            self._tables += [memory] * (memory.slots is not None)
            return _Place(memory, number(0))
        if text.startswith("call ptr @PyMem_RawMalloc(i64 "):
            return _Place(_Memory(int(text[30:-1]), name=name), number(0))
        if text.startswith("inttoptr i64 "):
            return self._from_number(self.value(text[13:].split(" ")[0]))
        raise self.fail(f"{name} is an address that is not followed: {text[:80]}")

    def _from_number(self, x: Sum) -> _Place:
        for base, place in self._numbers:
            offset = x.plus(base, -1)
            if self.is_at_least(offset, 0) and self.least(offset.times(-1)) is not None:
                return _Place(place.memory, place.offset.plus(offset))
        raise self.fail("an address from a number")

    def _room(self, base: _Place, by: Sum, rooms: Sequence[int]) -> _Place:
        """Return a part of scratch memory, which ends where the next one begins."""
        least = self.least(base.offset.times(-1))
        if by.terms or least is None or base.memory.slots is not None or not self.is_at_least(base.offset, 0):
            raise self.fail("a part of scratch memory")
        whole = base.memory.size + least
        end = next((r for r in rooms if r > by.plain), whole)
        if not 0 <= by.plain <= min(end, whole):
            raise self.fail("a part of scratch memory that is not in it")
        key = f"room {by.plain} of {id(base.memory)}"
        room = _Memory(min(end, whole) - by.plain, name=base.memory.name)
        return self._places.setdefault(key, _Place(room, number(0)))

    def _stored_in(self, table: str) -> dict[int, _Place]:
        """Return the addresses that are put into a table: each slot by one store, all in one block."""
        slots, last, blocks = dict[int, _Place](), 0, set[str]()
        for stored, address, block, line in self.function.stored:
            found = _ADDRESS.match(self.function.text(address))
            if address != table and not (found and found[2] == table):
                continue
            slot = 0 if address == table else 8 * int(found[3]) if found else -1
            blocks.add(block)
            if slot in slots or len(blocks) > 1:
                raise self.fail("a table that is changed")
            slots[slot] = self._from_here(self.place(stored), block)
            last = max(last, line)
        for _, arguments, block, line in self.function.calls:
            if f"ptr {table}" in arguments and (
                line < last or not all([self.function.is_above(b, block) for b in blocks])
            ):
                raise self.fail("a table that is handed over before it is whole")
        return slots

    def _from_here(self, place: _Place, block: str) -> _Place:
        """Return a moving address as one of memory of its own: the extent behind it wherever it is."""
        if not place.offset.terms:
            return place
        given = self.holding(block)
        above = self.least(place.offset.times(-1), given)
        whole = place.memory.slots or place.memory.name or place.memory.held
        if not self.is_at_least(place.offset, 0, given) or above is None or whole:
            raise self.fail("an address in a table that may be anywhere")
        return _Place(_Memory(max(0, place.memory.size + above)), number(0))

    # ── accesses and calls ───────────────────────────────────────────────────────────────────────────────────────

    def accesses(self) -> int:
        """Check all loads and stores; return how many there are."""
        together: dict[tuple[int, tuple, str], list] = {}
        for kind, name, block, text in self.function.accesses:
            memory, offset = self.place(name)
            if memory.held and not text.startswith("load"):
                raise self.fail(f"`{text}` writes to what is held")
            if memory.slots is not None:
                own = text.startswith("load") or memory in self._tables
                if kind != "ptr" or offset.terms or offset.plain not in memory.slots or not own:
                    raise self.fail(f"a table of addresses is no place for `{text}`")
            end = offset.plain + size_of(kind)
            found = together.setdefault((id(memory), offset.terms, block), [offset.plain, end, memory, text])
            found[0], found[1] = min(found[0], offset.plain), max(found[1], end)
        for (_, terms, block), (first, end, memory, text) in together.items():
            self._inside(Sum(terms, 0), first, end, memory, block, text)
        return len(self.function.accesses) + sum([self._block(*call) for call in self.function.calls])

    def _inside(self, moving: Sum, first: int, end: int, memory: _Memory, block: str, text: str) -> None:
        room = memory.size - end
        if memory.name and not self.function.is_behind(block, f"icmp eq ptr {memory.name}, null"):
            raise self.fail(f"`{text}` may be where there is no memory")
        if moving.terms:
            given = self.holding(block)
            below, above = self.least(moving, given, -first), self.least(moving.times(-1), given, -room)
        else:
            below = above = 0
        if below is None or below + first < 0:
            raise self.fail(f"`{text}` may be {'anywhere' if below is None else below + first} before its memory")
        if above is None or room + above < 0:
            behind = "anywhere" if above is None else f"{-room - above} bytes"
            raise self.fail(f"`{text}` may be {behind} behind its memory of {memory.size} bytes")

    def _block(self, name: str, arguments: Sequence[str], block: str, line: int) -> int:
        """Check a call that writes or copies many bytes; return how many addresses it has."""
        if name not in _BLOCKS:
            return 0
        addresses, count = _BLOCKS[name]
        size = self.value(arguments[count].split(" ")[-1])
        if not self.is_behind(size, block):
            raise self.fail(f"{name} of a negative number of bytes")
        for k in addresses:
            memory, offset = self.place(arguments[k].split(" ")[-1])
            if memory.slots is not None or memory.held:
                raise self.fail(f"{name} of addresses or of what is held")
            self._inside(offset, 0, 0, memory, block, name)
            self._inside(offset.plus(size), 0, 0, memory, block, name)
        return len(addresses)

    def calls(self, functions: dict[str, Function]) -> Iterator[tuple[str, _Site]]:
        """Yield the calls of functions of this module; others must not be given addresses."""
        for name, arguments, block, _ in self.function.calls:
            kinds = [a.split(" ")[0] for a in arguments]
            if name in functions:
                given: list[Any] = []
                for kind, a in zip(kinds, arguments, strict=True):
                    x = a.split(" ")[-1]
                    given.append(self.place(x) if kind == "ptr" else self.value(x))
                yield name, _Site(self, given, self.holding(block))
            elif name in CALLED:
                self._foreign(name, [a.split(" ")[-1] for a in arguments])
            elif "ptr" in kinds and name not in _HARMLESS and name not in _BLOCKS:
                raise self.fail(f"{name} is given an address")

    def _foreign(self, name: str, arguments: Sequence[str]) -> None:
        """Check a call of a function of others, whose operands are as long as its lengths and strides say."""
        table, *numbers = [self.place(a) for a in arguments[:3]]
        if any([x.memory not in self.constants.values() or x.offset != number(0) for x in numbers]):
            raise self.fail(f"{name} is given lengths that are not known")
        sizes = CALLED[name].sizes(*[x.memory.numbers for x in numbers])
        operands = [(table.memory.slots or {}).get(8 * i) for i in range(len(sizes or ()))]
        if sizes is None or arguments[3] != "null" or table.memory not in self._tables or table.offset != number(0):
            raise self.fail(f"{name} is called in another way than it is known")
        for place, size in zip(operands, sizes, strict=True):
            if place is None or place.memory.held or place.memory.slots is not None or place.offset.terms:
                raise self.fail(f"{name} is given an address that is not followed")
            if place.offset.plain < 0 or place.offset.plain + size > place.memory.size:
                raise self.fail(f"{name} goes {size} bytes into memory of {place.memory.size}")
        if len(table.memory.slots or ()) != len(sizes):
            raise self.fail(f"{name} is given {len(table.memory.slots or ())} operands")

    def address(self, name: str) -> Sum:
        found = self.unknown(tame=True)  # no machine has 2**53 bytes
        self._numbers.append((found, self.place(name)))
        return found

    def range_of(self, text: str) -> tuple[int, int] | None:
        found = _SHORT.match(text)
        place = self.place(found[1]) if found else None
        if (
            place is None
            or not place.memory.held
            or any([n % 4 for n in (place.offset.plain, *dict(place.offset.terms).values())])
        ):
            return None
        return place.memory.held[1:]

    def loaded(self, address: str) -> Sum:
        place = self.place(address)
        numbers = place.memory.numbers
        if not numbers:
            return self.unknown()
        found = self.between(min(numbers), max(numbers))
        if all([a <= b for a, b in itertools.pairwise(numbers)]):
            for memory, offset, other in self._loaded:  # what lies behind is not less
                apart = place.offset.plus(offset, -1)
                if memory is place.memory and not apart.terms:
                    self.learn(found.plus(other, -1) if apart.plain >= 0 else other.plus(found, -1))
        self._loaded.append((place.memory, place.offset, found))
        return found
