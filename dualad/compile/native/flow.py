"""The text of LLVM functions: what each name is, which blocks are behind which conditions, what touches memory.

Only what ``code.py`` and its like write is read: one instruction a line, names with ``%``, types as they are there.
Not for: what instructions come to (``bounds.py``).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

__all__ = ["Function", "functions_of", "globals_of", "size_of"]

_HEAD = re.compile(r"define (?:internal )?\S+ @(\w+)\((.*)\)")
_GLOBAL = re.compile(r"(@[\w.]+) = (?:private |internal )?constant (\[\d+ x \w+\]) \[(.*?)\](?:, align \d+)?$")
_CALL = re.compile(r"call (.*?)@([\w.]+)\((.*)\)$")
_SIZES = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1, "ptr": 8}
#: base of the addresses of parts, each of which ends where the next one begins
_SCRATCH = "%scratch"


@functools.cache
def size_of(kind: str) -> int:
    """Return how many bytes of memory a type takes."""
    if kind[0] in "[<":
        count, _, entry = kind[1:-1].partition(" x ")
        return int(count) * _SIZES[entry]
    return _SIZES[kind]


def globals_of(text: str) -> dict[str, tuple[int, list[int]]]:
    """Return the constants of a module: their bytes, and their numbers if they are whole ones."""
    found: dict[str, tuple[int, list[int]]] = {}
    for part in f"\n{text}".split("\n@")[1:]:
        if known := _GLOBAL.match("@" + part.partition("\n")[0]):
            whole = known[2].endswith(" x i64]")
            found[known[1]] = size_of(known[2]), [int(n[4:]) for n in known[3].split(", ")] if whole else []
    return found


def functions_of(text: str) -> dict[str, Function]:
    """Return the functions that a module defines."""
    bodies = [part.partition("\n}")[0].split("\n") for part in f"\n{text}".split("\ndefine ")[1:]]
    functions = [Function(f"define {head}", lines) for head, *lines in bodies]
    return {function.name: function for function in functions}


class Function:
    """A function: names, blocks, accesses to memory and calls."""

    def __init__(self, head: str, lines: Sequence[str]) -> None:
        name = _HEAD.match(head)
        if name is None:
            raise ValueError(f"no function begins with {head!r}")
        self.name = name[1]
        self.parameters = [tuple(p.rsplit(" ", 1)) for p in name[2].split(", ") if p]
        #: name -> (right-hand side, block, line)
        self.made: dict[str, tuple[str, str, int]] = {}
        #: (type, address, block, line) of each load and store
        self.accesses: list[tuple[str, str, str, str]] = []
        #: (address that is stored, where, block, number of the line)
        self.stored: list[tuple[str, str, str, int]] = []
        #: (function, arguments, block, number of the line)
        self.calls: list[tuple[str, list[str], str, int]] = []
        self.first, self._order = "", dict[str, int]()
        self._ends: dict[str, list[tuple[str, str, bool]]] = {}
        #: where parts of scratch memory begin, ascending
        self.rooms: dict[str, list[int]] = {}
        self._read(lines)
        self._dominators = self._find_dominators()

    def _read(self, lines: Sequence[str]) -> None:
        block, rooms = "", set[int]()
        for at, line in enumerate(lines, 1):
            if not line.startswith(" "):
                block = line.rstrip(":")
                self._order[block] = len(self._order)
                self._ends[block] = []
                self.first = self.first or block
                continue
            text, name = line.strip(), ""
            if text.startswith("%"):
                name, _, text = text.partition(" = ")
                if name in self.made:
                    raise ValueError(f"{name} is made twice")
                self.made[name] = text, block, at
            op = text[: text.find(" ")]
            if op in _PURE:
                if op == "getelementptr" and text.startswith(f"getelementptr i8, ptr {_SCRATCH}, i64 "):
                    rooms.add(int(text.rsplit(" ", 1)[1]))
            elif op == "load":
                kind, _, rest = text[5:].partition(", ptr ")
                self.accesses.append((kind, rest.split(",")[0], block, text))
            elif op == "store":
                value, _, rest = text[6:].rpartition(", ptr ")
                kind = value[: value.index(">") + 1] if value.startswith("<") else value.split(" ")[0]
                address = rest.split(",")[0]
                self.accesses.append((kind, address, block, text))
                if kind == "ptr":
                    self.stored.append((value[4:], address, block, at))
            elif op == "call":
                called = _CALL.match(text)
                if called is None:
                    raise ValueError(f"{text!r} is not read")
                # Without an address there is no memory to look at.
                given = _arguments(called[3]) if "ptr " in called[3] else []
                self.calls.append((called[2], given, block, at))
            elif op == "br" and text.startswith("br label"):
                self._ends[block].append((text.rsplit("%", 1)[1], "", True))
            elif op == "br":
                condition, yes, no = re.fullmatch(r"br i1 (\S+), label %(\S+), label %(\S+)", text).groups()  # type: ignore[union-attr]
                self._ends[block] += [(yes, condition, True), (no, condition, False)]
            elif op == "switch":
                self._ends[block] += [(label, "", True) for label in re.findall(r"label %([\w.]+)", text)]
            else:
                raise ValueError(f"{text!r} is not read")
        self.rooms[_SCRATCH] = sorted(rooms)

    def text(self, name: str) -> str:
        """Return the instruction that defines a name; nothing for a parameter."""
        return self.made[name][0] if name in self.made else ""

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _find_dominators(self) -> dict[str, str]:
        before: dict[str, list[str]] = {b: [] for b in self._order}
        for block, ends in self._ends.items():
            for label, _, _ in ends:
                before[label].append(block)
        self._before, order = before, self._order
        found: dict[str, str] = {self.first: self.first}
        changed = True
        while changed:
            changed = False
            for block in order:
                known = [b for b in before[block] if b in found]
                if block == self.first or not known:
                    continue
                new = known[0]
                for other in known[1:]:
                    while new != other:
                        if order[new] > order[other]:
                            new = found[new]
                        else:
                            other = found[other]
                changed = changed or found.get(block) != new
                found[block] = new
        return found

    def dominator(self, block: str) -> str | None:
        """Return the block that is run before this one, whichever way it is come to; None for the first."""
        above = self._dominators.get(block, self.first)
        return None if block == self.first else above

    def is_above(self, block: str, other: str) -> bool:
        """Whether a block is run before another one, or is it."""
        at: str | None = other
        while at is not None and at != block:
            at = self.dominator(at)
        return at == block

    def edge(self, block: str, label: str) -> tuple[str, bool] | None:
        """Return the condition on which a block goes on at another one."""
        ways = [e for e in self._ends[block] if e[0] == label]
        return (ways[0][1], ways[0][2]) if len(ways) == 1 and ways[0][1] else None

    def condition(self, block: str) -> tuple[str, bool] | None:
        """Return the condition that this block is behind: it is come to from one block alone."""
        before = self._before[block]
        return self.edge(before[0], block) if len(before) == 1 else None

    def is_behind(self, block: str, refuted: str) -> bool:
        """Whether a block is come to only where a condition, given by its text, has been found to be false."""
        at: str | None = block
        while at is not None:
            edge = self.condition(at)
            if edge is not None and not edge[1] and self.text(edge[0]) == refuted:
                return True
            at = self.dominator(at)
        return False


def _arguments(text: str) -> list[str]:
    """Return the arguments of a call; vectors may be written out."""
    found, depth, start = list[str](), 0, 0
    for i, c in enumerate(text):
        depth += (c in "<([") - (c in ">)]")
        if c == "," and not depth:
            found.append(text[start:i])
            start = i + 2
    return [*found, text[start:]] if text else []


#: instructions that touch no memory and end no block early
_PURE = frozenset({
    "add", "sub", "mul", "fadd", "fsub", "fmul", "fdiv", "fneg", "frem", "and", "or", "xor", "shl", "lshr", "ashr",
    "sdiv", "udiv", "srem", "urem", "icmp", "fcmp", "select", "phi", "bitcast", "sext", "zext", "trunc", "fptrunc",
    "fpext", "fptosi", "sitofp", "uitofp", "insertelement", "extractelement", "shufflevector", "getelementptr",
    "alloca", "inttoptr", "ptrtoint", "ret",
})  # fmt: skip
