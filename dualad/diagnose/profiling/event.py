"""One thing that happened while a profiler was on, with its times.

For: the record. Not for: making one (``recorder.py``) or sums over many (``averages.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...core.aval import Aval
from ...program.variable import Step

__all__ = ["Event", "Line", "PHASES"]

#: what each phase means, in words
PHASES = {
    "primal": "a value, computed alone: no tangent moves here",
    "tangent": "a value and its tangent, computed together by the operation's forward rule",
    "linearize": "a value, computed while its tangent is written down as equations",
    "record": "one equation written down",
    "program": "one equation of a program, run",
    "transpose": "one equation of a linear program, walked backwards",
    "batched": "all lanes of a vmap at once",
    "transform": "a transform, from opening to closing, or a walk through a program",
    "range": "a range named by the user",
}


class Line(NamedTuple):
    """A line of the user's: ``file``, ``number`` and the ``function`` it stands in."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.number}"


class Event:
    """One operation in one phase, a transform, or a range of the user's.

    Attributes
    ----------
    name : str
        The operation's name (``sin``), the transform's (``grad``), or the range's.
    phase : str
        ``primal``, ``tangent``, ``linearize``, ``record``, ``program``, ``transpose``, ``batched``, ``transform``,
        ``range``; the name of the tensor's class for tensors of third parties.
    line : Line or None
        Where the user's code called it. Of an equation that is run or transposed: where it was written down.
    thread : int
        Identifier of the thread it ran in.
    parent : Event or None
        The event it ran inside of.
    seq : int or None
        Its sequence number: an operation of the function, the equations that it wrote down, and their transposes all
        have the same one.
    inputs, outputs : tuple of Aval
        Shapes and dtypes; of a transposed equation, of its cotangents. For batched operations those of one lane.
    lanes : int or None
        How many lanes a batched operation ran for.
    bytes : int
        Memory of the results, as far as it is not an argument's (a view takes none).
    failed : bool
        Whether it raised.
    """

    __slots__ = (
        "bytes", "children", "entered", "failed", "inputs", "inside", "lanes", "line", "name", "op", "outputs",
        "overhead", "parent", "phase", "seq", "start", "step", "thread", "walked_at", "wall",
    )  # fmt: skip

    def __init__(self, name: str, phase: str, parent: Event | None = None, thread: int = 0, op: Any = None) -> None:
        self.name, self.phase, self.parent, self.thread, self.op = name, phase, parent, thread, op
        self.line: Line | None = None
        self.seq: int | None = None
        self.inputs: tuple[Aval, ...] = ()
        self.outputs: tuple[Aval, ...] = ()
        self.lanes: int | None = None
        self.bytes = 0
        self.failed = False
        #: equation being run or transposed, of a walk through a program
        self.step: Step | None = None
        #: where the user called for the walk, of an event whose line is that of an equation
        self.walked_at: Line | None = None
        # Nanoseconds. What the profiler itself takes inside an event is `overhead`, and is not counted as the event's.
        self.entered = self.start = self.wall = self.overhead = self.inside = self.children = 0

    @property
    def nanoseconds(self) -> int:
        """Time from beginning to end, without the profiler's own."""
        return max(0, self.wall - self.overhead)

    @property
    def total(self) -> float:
        """Seconds from beginning to end, without the profiler's own."""
        return self.nanoseconds * 1e-9

    @property
    def self_time(self) -> float:
        """Seconds that no event inside it accounts for."""
        return max(0, self.nanoseconds - self.inside) * 1e-9

    @property
    def shapes(self) -> str:
        """The shapes and dtypes of the arguments, as in programs: ``f64[3], f64[]``."""
        text = ", ".join(map(repr, self.inputs))
        return f"{text} × {self.lanes}" if self.lanes is not None else text

    @property
    def operation(self) -> bool:
        """Whether it is an operation, neither a transform nor a range."""
        return self.phase not in ("transform", "range")

    def outer(self) -> Iterator[Event]:
        """Yield the events that it ran inside of, the innermost first."""
        around = self.parent
        while around is not None:
            yield around
            around = around.parent

    def __repr__(self) -> str:
        where = f" at {self.line}" if self.line else ""
        return f"<{self.phase} {self.name}{where}: {self.total * 1e6:.1f} µs>"
