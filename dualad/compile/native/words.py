"""Machine words as sums of unknowns: what each name of a function is, and what holds behind conditions.

Counters are what they begin at and a number of steps; conditions that a block is behind, with the operands that they
compare, are facts there. An operation that might wrap around is an unknown of its own. That a value is used together
with facts about the same turn of a loop is guaranteed by LLVM's form: code behind a definition is behind its last
one. Not for: addresses (``bounds.py``), or what facts come to (``ranges.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .flow import Function
from .ranges import Facts, Given, Sum, number

__all__ = ["TAME", "Words"]

#: numbers that are far from wrapping around
TAME = 1 << 53
#: what a counter goes on by, at most: it takes longer than anything lasts until it wraps around
_STEP = 1 << 16
#: what whole numbers of other types are, by how they are made words
_WIDENED = {"zext i1": (0, 1), "zext i8": (0, 255), "zext i32": (0, 2**32 - 1), "sext i1": (-1, 0),
            "sext i8": (-128, 127), "sext i32": (-(2**31), 2**31 - 1)}  # fmt: skip
_OPPOSITE = {"slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt", "eq": "ne", "ne": "eq", "ult": "uge", "ule": "ugt",
             "ugt": "ule", "uge": "ult"}  # fmt: skip

_PHI = re.compile(r"\[ ?([^,\]]+), %([^\] ]+) ?\]")
_CALL = re.compile(r"call (?:\w+ )?(?:<[^>]*>|\S+) @([\w.]+)\((.*)\)$")


class Words(Facts):
    """The whole numbers of one function.

    Those that are parameters are in ``parameters``; a subclass gives the ranges of loads, and addresses as numbers.
    """

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.parameters: dict[str, Any] = {}
        self._values: dict[str, Sum] = {}
        self._lanes: dict[tuple[str, int], Sum] = {}
        self._edges: dict[str, Given] = {}

    def loaded(self, address: str) -> Sum:
        """Return a number from memory."""
        return self.unknown()

    def range_of(self, text: str) -> tuple[int, int] | None:
        """Return the least and the greatest int32 that an instruction can load, if more is known than its type."""
        return None

    def address(self, name: str) -> Sum:
        """Return an address as a number."""
        return self.unknown()

    def is_behind(self, x: Sum, block: str) -> bool:
        """Whether a sum is not negative in a block."""
        return self.is_at_least(x, 0, self.holding(block))

    # ── what holds in a block ────────────────────────────────────────────────────────────────────────────────────

    def holding(self, block: str) -> Given:
        """Return the facts of the conditions that a block is behind."""
        above: list[str] = []
        at: str | None = block
        while at is not None and at not in self._edges:
            above.append(at)
            at = self.function.dominator(at)
        for found in reversed(above):
            over = self.function.dominator(found)
            given = self._edges[found] = Given() if over is None else self._edges[over]
            if (edge := self.function.condition(found)) is not None and (facts := self._facts(*edge)):
                self._edges[found] = Given(facts, given)
        return self._edges[block]

    def _facts(self, condition: str, truth: bool) -> list[Sum]:
        """Return the facts about numbers that a condition implies where it is true, or false."""
        facts, left = list[Sum](), [(condition, truth)]
        while left:
            condition, truth = left.pop()
            if condition not in self.function.made:
                continue
            text = self.function.made[condition][0]
            op, _, rest = text.partition(" ")
            if op == "icmp":
                facts += self._compared(rest, truth)
            elif op in ("or", "and") and (op == "and") == truth:
                left += [(x, truth) for x in rest.split(" ", 1)[1].split(", ")]
            elif op == "xor" and rest.endswith(", true"):
                left.append((rest.split(" ")[1].rstrip(","), not truth))
            elif text.startswith("call i1 @llvm.vector.reduce.or.") and not truth:
                left.append((text.rsplit(" ", 1)[1].rstrip(")"), False))
        return facts

    def _compared(self, text: str, truth: bool) -> list[Sum]:
        predicate, rest = text.split(" ", 1)
        kind, rest = _split_type(rest)
        if kind not in ("i64", "<8 x i64>"):
            return []
        x, y = _operands(rest)
        if kind == "i64":
            return self._ordered(predicate if truth else _OPPOSITE[predicate], self.value(x), self.value(y))
        if truth:
            return []
        pairs = [(self.lane(x, i), self.lane(y, i)) for i in range(8)]
        return [fact for a, b in pairs for fact in self._ordered(_OPPOSITE[predicate], a, b)]

    def _ordered(self, predicate: str, x: Sum, y: Sum) -> list[Sum]:
        """Return the facts that an order of two machine words means."""
        if not (self.is_exact(x) and self.is_exact(y)):
            return []
        if predicate[0] in "su":
            if "g" in predicate:
                predicate, x, y = predicate.replace("g", "l"), y, x
            found = [y.plus(x, -1).plus(number(-(predicate[2] == "t")))]
            if predicate[0] == "s":
                return found
            # Of words without a sign: below one that is not negative, neither is the other.
            return [*found, x] if self.is_at_least(y, 0) else []
        return [x.plus(y, -1), y.plus(x, -1)] if predicate == "eq" else []

    # ── whole numbers ────────────────────────────────────────────────────────────────────────────────────────────

    def value(self, name: str) -> Sum:
        """Return the whole number that an operand is."""
        if name[0] != "%":
            return number(int(name)) if name.lstrip("-").isdigit() else self.unknown()
        found = self._values.get(name)
        if found is None:
            if name in self.parameters:
                found = self.parameters[name]
            elif name not in self.function.made:
                raise LookupError(f"{name} is not there")
            else:
                text, block, line = self.function.made[name]
                before, self.at = self.at, line
                found = self._made(name, text, block)
                self.at = before
            if not isinstance(found, Sum):
                raise LookupError(f"{name} is no number")
            self._values[name] = found
        return found

    def _made(self, name: str, text: str, block: str) -> Sum:
        op, _, rest = text.partition(" ")
        if op in _ARITHMETIC and rest.startswith("i64 "):
            x, y = rest[4:].split(", ")
            return _ARITHMETIC[op](self, self.value(x), self.value(y), block)
        if op == "phi" and rest.startswith("i64 "):
            return self._counter(name, rest, block)
        if op == "select":
            condition, x, y = re.fullmatch(r"i1 (\S+), i64 (\S+), i64 (\S+)", rest).groups()  # type: ignore[union-attr]
            return self._either(self.value(x), self._facts(condition, True), self.value(y),
                                self._facts(condition, False))  # fmt: skip
        if op == "call" and (call := _CALL.match(text)) and call[1] in _EXTREMA:
            x, y = [self.value(a.split(" ")[1]) for a in call[2].split(", ")]  # type: ignore[assignment]
            return self._extremum(_EXTREMA[call[1]], x, y)  # type: ignore[arg-type]
        if op == "extractelement":
            vector, lane = re.fullmatch(r"<8 x i64> (\S+), i64 (\d+)", rest).groups()  # type: ignore[union-attr]
            return self.lane(vector, int(lane))
        if op == "ptrtoint":
            return self.address(rest.split(" ")[1])
        if op == "load" and rest.startswith("i64, ptr "):
            return self.loaded(rest[9:].split(",")[0])
        known = self._wide(text, " ".join(text.split(" ")[:2]))
        return self.between(*known) if known else self.unknown()

    def _wide(self, text: str, kind: str) -> tuple[int, int] | None:
        """Return the range of a word that an instruction widens."""
        made = self.function.made.get(text.rsplit(" to ", 1)[0].rsplit(" ", 1)[-1])
        return (made and kind == "sext i32" and self.range_of(made[0])) or _WIDENED.get(kind)

    def between(self, least: int, most: int) -> Sum:
        found = self.unknown(tame=True)
        self.learn(found.plus(number(-least)))
        self.learn(number(most).plus(found, -1))
        return found

    def _either(self, x: Sum, if_x: Sequence[Sum], y: Sum, if_y: Sequence[Sum]) -> Sum:
        found = self.unknown(self.is_tame(x) and self.is_tame(y))
        if self.is_exact(x) and self.is_exact(y):
            self.one_of(found, [(x, if_x), (y, if_y)])
        return found

    def _extremum(self, predicate: str, x: Sum, y: Sum) -> Sum:
        opposite = _OPPOSITE[predicate]
        found = self._either(x, self._ordered(predicate, x, y), y, self._ordered(opposite, x, y))
        if predicate == "ule" and not y.terms and y.plain >= 0:  # of words without a sign, with a number: at most that
            found = self.between(0, y.plain)
        return found

    def _counter(self, name: str, text: str, block: str) -> Sum:
        """Return a counter as what it begins at and a number of steps."""
        ways, function = _PHI.findall(text), self.function
        back = [w for w in ways if function.is_above(block, w[1])]
        start = [w for w in ways if not function.is_above(block, w[1])]
        made = function.text(back[0][0]) if len(back) == 1 and len(start) == 1 else ""
        step = re.fullmatch(rf"add i64 {re.escape(name)}, (\d+)", made)
        if step is None or not 0 < int(step[1]) < _STEP:
            return self.unknown()
        first, turns = self.value(start[0][0]), self.unknown(tame=True)
        self.learn(turns)
        found = self._values[name] = first.plus(turns, int(step[1]))
        # A loop that asks at its end whether to go on: what it has gone on with is below the end.
        edge = function.edge(back[0][1], block)
        asked = edge and re.fullmatch(r"icmp slt i64 (\S+), (-?\d+)", function.text(edge[0]))
        if asked and edge[1] and asked[1] == back[0][0] and self.is_tame(first):  # type: ignore[index]
            room = number(int(asked[2]) - 1)
            if self.is_behind(room.plus(first, -1), start[0][1]):
                self.learn(room.plus(found, -1))
        return found

    # ── vectors of whole numbers ─────────────────────────────────────────────────────────────────────────────────

    def lane(self, vector: str, i: int) -> Sum:
        """Return one of the eight numbers that an operand is."""
        found = self._lanes.get((vector, i))
        if found is None:
            before, self.at = self.at, self.function.made[vector][2] if vector in self.function.made else 0
            found = self._lanes[vector, i] = self._lane(vector, i)
            self.at = before
        return found

    def _lane(self, vector: str, i: int) -> Sum:
        if vector == "zeroinitializer":
            return number(0)
        if vector.startswith("splat"):
            return self.value(re.fullmatch(r"splat \(i64 (\S+)\)", vector)[1])  # type: ignore[index]
        if vector.startswith("<"):
            return self.value(vector[1:-1].split(", ")[i].split(" ")[1])
        if vector not in self.function.made:
            return self.unknown()
        text, block, _ = self.function.made[vector]
        op, _, rest = text.partition(" ")
        if op in _ARITHMETIC:
            x, y = [self.lane(z, i) for z in _operands(_split_type(rest)[1])]
            return _ARITHMETIC[op](self, x, y, block)
        if op == "insertelement":
            whole, x, place = re.fullmatch(r"<8 x i64> (\S+), i64 (\S+), i64 (\d+)", rest).groups()  # type: ignore[assignment, union-attr]
            return self.value(x) if int(place) == i else self.lane(whole, i) if whole != "poison" else self.unknown()  # type: ignore[arg-type]
        if op == "shufflevector":
            x, y, mask = re.fullmatch(r"<8 x i64> (.+), <8 x i64> (.+), <8 x i32> (.+)", rest).groups()  # type: ignore[assignment, union-attr]
            chosen = "i32 0" if mask == "zeroinitializer" else mask[1:-1].split(", ")[i]
            if chosen.endswith("poison"):
                return self.unknown()
            k = int(chosen.split(" ")[1])
            return self.lane(x if k < 8 else y, k % 8)  # type: ignore[arg-type]
        if op == "sext" and rest.startswith("<8 x i32>") and (known := self._wide(text, "sext i32")):
            return self.between(*known)
        return self.unknown()


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────


def _product(a: Words, x: Sum, y: Sum, block: str) -> Sum:
    if x.terms and y.terms:
        return a.unknown()
    return x.times(y.plain) if not y.terms else y.times(x.plain)


def _mask_bits(a: Words, x: Sum, y: Sum, block: str) -> Sum:
    """And: with the negative of a power of two, the multiple of it below; with a number, at most that."""
    if y.terms:
        return a.unknown()
    if y.plain >= 0:
        return a.between(0, y.plain)
    if (power := -y.plain) & (power - 1) or not a.is_tame(x):
        return a.unknown()
    return _floor(a, x, power).times(power)


def _floor(a: Words, x: Sum, by: int) -> Sum:
    found = a.unknown(a.is_tame(x))
    a.learn(x.plus(found, -by))
    a.learn(found.times(by).plus(x, -1).plus(number(by - 1)))
    return found


def _quotient(power: bool) -> Any:
    def write(a: Words, x: Sum, y: Sum, block: str) -> Sum:
        if y.terms or not 0 < y.plain < (63 if power else TAME):
            return a.unknown()
        by = 1 << y.plain if power else y.plain
        if not a.is_tame(x) or not a.is_behind(x, block):
            return a.unknown()
        return _floor(a, x, by)

    return write


def _rest(a: Words, x: Sum, y: Sum, block: str) -> Sum:
    return a.unknown() if y.terms or y.plain < 1 else a.between(0, y.plain - 1)


_ARITHMETIC: dict[str, Any] = {
    "add": lambda a, x, y, block: x.plus(y),
    "sub": lambda a, x, y, block: x.plus(y, -1),
    "mul": _product,
    "and": _mask_bits,
    "shl": lambda a, x, y, block: a.unknown() if y.terms or not 0 <= y.plain < 63 else x.times(1 << y.plain),
    "lshr": _quotient(True),
    "udiv": _quotient(False),
    "urem": _rest,
}
_EXTREMA = {"llvm.smax.i64": "sge", "llvm.smin.i64": "sle", "llvm.umin.i64": "ule"}


def _split_type(text: str) -> tuple[str, str]:
    """Return a type, and the operands behind it."""
    end = text.index(">") + 1 if text.startswith("<") else text.index(" ")
    return text[:end], text[end:].strip()


def _operands(text: str) -> list[str]:
    """Return two operands, which may be vectors written out."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "<(") - (c in ">)")
        if c == "," and not depth:
            return [text[:i], text[i + 2 :]]
    return [text]
