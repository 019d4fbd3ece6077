"""The words in which ``stub_text.py`` and ``front_text.py`` say what stands between Python and compiled code.

A routine handles objects of Python: it reads their fields and the words of plans, calls C functions, and is left early
with nothing where something is not as it should be. Not for: what routines do, or code that computes (``code.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from .code import Code
from .interface import SIGNATURES

__all__ = ["Layout", "PLAIN_ARRAY", "Routine", "write_routine"]

#: the flags of an array that is in order and aligned
PLAIN_ARRAY = 0x101

#: what is returned by a routine that is left with nothing
_NOTHING = {"ptr": "null", "i1": "0", "i32": "-1", "i64": "-1"}


class Layout:
    """Where the fields of objects are, in bytes."""

    __slots__ = ("descr", "dims", "flags", "front", "head", "nd", "strides", "type")

    def __init__(self, head: int) -> None:
        self.front = head
        self.type, self.head, self.nd, self.dims = head - 8, head, head + 8, head + 16
        self.strides, self.descr, self.flags = head + 24, head + 40, head + 48


class Routine(Code):
    """A function that is being written."""

    def __init__(self, returns: str, layout: Layout) -> None:
        super().__init__()
        self.returns, self.layout = returns, layout
        #: the blocks at which the function is left, by what it returns there
        self._exits: dict[str, str] = {}

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────

    def room(self, kind: str, count: str | int = 1) -> str:
        """Return the address of memory on the stack."""
        return self.new(f"alloca {kind}, i64 {count}")

    def words(self, plan: str, k: str | int) -> str:
        """Return the address of the k-th word of a plan, or of a table of numbers or addresses."""
        return self.new(f"getelementptr i64, ptr {plan}, i64 {k}")

    def row(self, plan: str, first: str | int, i: str, size: int) -> str:
        """Return the address of the i-th of some rows of words."""
        return self.words(plan, self.add(first, self.new(f"mul i64 {i}, {size}")))

    def word(self, plan: str, k: str | int) -> str:
        return self.load(self.words(plan, k), "i64")

    def object(self, plan: str, k: str | int) -> str:
        return self.load(self.words(plan, k))

    def load(self, address: str, kind: str = "ptr") -> str:
        return self.new(f"load {kind}, ptr {address}")

    def put(self, x: str, table: str, k: str | int = 0) -> None:
        self.effect(f"store ptr {x}, ptr {self.words(table, k)}")

    def inside(self, x: str, name: str) -> str:
        """Return the address of a field of an object."""
        return self.new(f"getelementptr i8, ptr {x}, i64 {getattr(self.layout, name)}")

    def field(self, x: str, name: str, kind: str = "ptr") -> str:
        return self.load(self.inside(x, name), kind)

    def axes(self, x: str) -> str:
        """Return the number of an array's axes."""
        return self.new(f"sext i32 {self.field(x, 'nd', 'i32')} to i64")

    def has_flags(self, x: str, wanted: str | int) -> str:
        flags = self.new(f"and i32 {self.field(x, 'flags', 'i32')}, {wanted}")
        return self.test("eq i32", flags, wanted)

    # ── numbers and tests ────────────────────────────────────────────────────────────────────────────────────────

    def add(self, x: str | int, y: str | int) -> str:
        return self.new(f"add i64 {x}, {y}")

    def test(self, how: str, x: str, y: str | int) -> str:
        """Compare: ``how`` is a predicate and a type."""
        return self.new(f"icmp {how} {x}, {y}")

    def is_null(self, x: str) -> str:
        return self.test("eq ptr", x, "null")

    def chosen(self, number: str, finders: dict[int, Callable[[], str]], otherwise: str) -> str:
        """Return the object that the code for a number finds; for other numbers go elsewhere."""
        labels, end = {k: self.label() for k in finders}, self.label()
        listed = " ".join([f"i64 {k}, label %{label}" for k, label in labels.items()])
        self.effect(f"switch i64 {number}, label %{otherwise} [{listed}]")
        found = []
        for k, find in finders.items():
            self.begin(labels[k])
            found.append(f"[{find()}, %{self.block}]")
            self.jump(end)
        self.begin(end)
        return self.new(f"phi ptr {', '.join(found)}")

    # ── where it goes on ─────────────────────────────────────────────────────────────────────────────────────────

    def give(self, x: str | int = "") -> None:
        """Return."""
        self.effect(f"ret {self.returns} {x}")

    def go_if(self, condition: str, label: str) -> None:
        go = self.label()
        self.branch(condition, label, go)
        self.begin(go)

    def go_unless(self, condition: str, label: str) -> None:
        go = self.label()
        self.branch(condition, go, label)
        self.begin(go)

    def give_if(self, condition: str, x: str | int) -> None:
        """Return something if a condition holds."""
        self.go_if(condition, self._exit(str(x)))

    def need(self, condition: str) -> None:
        """Return nothing unless a condition holds."""
        self.go_unless(condition, self._exit(_NOTHING[self.returns]))

    def found(self, x: str) -> str:
        """Return an object; where there is none, the function returns nothing."""
        self.give_if(self.is_null(x), _NOTHING[self.returns])
        return x

    def _exit(self, x: str) -> str:
        if x not in self._exits:
            self._exits[x] = self.label()
        return self._exits[x]

    def exits(self) -> None:
        for x, label in self._exits.items():
            self.begin(label)
            self.give(x)


def write_routine(name: str, write: Callable[..., None], layout: Layout, head: str) -> tuple[str, dict[str, str]]:
    """Return a function as text, with the declarations of what it calls.

    Parameters
    ----------
    name : str
        Its name, under which ``interface.py`` says what it returns and takes.
    write : callable
        ``write(routine, *arguments)`` writes it.
    layout : Layout
        Where fields are.
    head : str
        What it is: ``define`` or ``define internal``.
    """
    returns, *takes = SIGNATURES[name]
    f, arguments = Routine(returns, layout), [f"%a{i}" for i in range(len(takes))]
    write(f, *arguments)
    f.exits()
    given = ", ".join([f"{t} {a}" for t, a in zip(takes, arguments, strict=True)])
    return "\n".join([f"{head} {returns} @{name}({given}) {{", "start:", *f.lines, "}"]), f.declared
