"""Writing a function down for ``jit``: one program for one signature, with what it reads besides its arguments.

An array that the caller can still write to is a hidden input, read at each call. What it read of plain numbers and
names is watched by ``captures.py``; a function that does something else the second time is refused. Not for: the
program's simplification (``simplify.py``) or who asks for it (``jit.py``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from ..control.subprograms import closure_convert
from ..core.aval import Aval, aval_of
from ..core.boundary import run
from ..core.frames import user_line
from ..core.memory import flush_writes, snapshot
from ..core.randomness import Watched
from ..core.tracer import Tracer
from ..core.watch import Watch, carried
from ..errors import BranchError, NotRepeatableError
from ..jvp import output_leaves
from ..program.ir import Program, evaluate, live_steps
from ..program.packed import active as packing
from ..program.variable import Variable
from ..staged import Staged, StagedLevel
from .captures import writeable

__all__ = ["Decision", "Traced", "trace_for_jit", "write_down"]

#: a function whose trace takes longer is not traced a second time to see whether it does the same again
SECOND_TRACE = 0.05
#: bytes of arrays that are compared at a time
_BLOCK = 1 << 18


class Decision(NamedTuple):
    """A value that Python code asked for while the program was written along it (``specialise=True``)."""

    variable: Variable
    value: np.ndarray
    line: str


class Traced(NamedTuple):
    """A function written down.

    ``program`` takes the arguments' arrays, then the ``hidden`` arrays, then the ``captured`` tensors of outer
    transforms. It returns the leaves of the result, then the arguments named in ``written`` as they are after the
    call, then the decisions. ``returned[k]`` is the argument that result ``k`` is, if it is one as it was given. Where
    it is ``unsure``, a NaN among the results may be a number: only the function itself can tell.
    """

    program: Program
    hidden: list[np.ndarray]
    captured: list[Tracer]
    written: list[int]
    returned: list[int | None]
    decisions: list[Decision]
    tree: optree.PyTreeSpec
    unsure: bool
    seconds: float


class _JitLevel(StagedLevel):
    """The level of a program for ``jit``."""

    __slots__ = ("decisions", "held", "values")

    def __init__(self, values: Sequence | None) -> None:
        super().__init__("jit", owning=True)
        #: the arguments, where the program is written along them
        self.values = values
        self.decisions: list[Decision] = []
        #: id of an array -> (the array, its content when it was met, the variable that stands for it)
        self.held: dict[int, tuple[np.ndarray, np.ndarray, Variable]] = {}

    def hold(self, a: np.ndarray) -> Any:
        """Let an array that can be written to be an input."""
        if not writeable(a):
            return a if a.base is None else snapshot(a)
        known = self.held.get(id(a))
        if known is None or not _same_bytes(a, known[1]):
            known = (a, snapshot(a), Variable(Aval(a.shape, a.dtype)))
            # The function wrote into it since it was met: what was read before stays in the program under another key.
            if id(a) in self.held:
                self.held[-len(self.held)] = self.held[id(a)]
            self.held[id(a)] = known
        return Staged(known[2], self)

    def decide(self, variable: Variable, what: str) -> Any:
        """Return the value that the arguments give a variable, and note that the program depends on it."""
        if self.values is None:
            return None
        for known in self.decisions:
            if known.variable is variable:
                return known.value
        steps = live_steps(self.steps, [variable])
        held = {v: content for _, content, v in self.held.values()}
        program = Program([*self.inputs, *held], steps, [variable])
        with np.errstate(all="ignore"):
            value = np.asarray(evaluate(program, [*self.values, *held.values()])[0])
        if value.dtype.kind == "c":
            return None
        self.decisions.append(Decision(variable, value, user_line()))
        return value


def _same_bytes(a: np.ndarray | np.generic, b: np.ndarray | np.generic) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.nbytes <= _BLOCK or a.dtype.hasobject or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return a.tobytes() == b.tobytes()
    kind = np.int64 if a.dtype.itemsize % 8 == 0 else np.uint8  # large ones part by part, without a copy
    a, b, count = a.reshape(-1).view(kind), b.reshape(-1).view(kind), _BLOCK // np.dtype(kind).itemsize
    return all([np.array_equal(a[i : i + count], b[i : i + count]) for i in range(0, a.size, count)])


def trace_for_jit(f: Callable, leaves: Sequence, tree, is_input: Sequence[bool], along: bool = False) -> Traced:
    """Write ``f`` down for arguments with these leaves, of which ``is_input`` are arrays and the others constants.

    Raises
    ------
    BranchError
        If ``f`` branches on a value; with ``along`` it is written along the values of ``leaves``.
    NotRepeatableError
        If ``f`` computes something else the second time.
    """
    watched = Watched(getattr(f, "__wrapped__", f), ())
    start = time.perf_counter()
    traced = write_down(f, leaves, tree, is_input, along)
    seconds = time.perf_counter() - start
    if seconds < SECOND_TRACE and not traced.captured:
        again = write_down(f, leaves, tree, is_input, along)
        if (found := _difference(traced, again)) is not None:
            raise _not_repeated(f, leaves, tree, is_input, along, found)
    elif watched.moved(set()):  # too slow to be traced for this alone; but it has drawn random numbers
        raise _not_repeated(f, leaves, tree, is_input, along, None)
    return traced._replace(seconds=seconds)


def write_down(f: Callable, leaves: Sequence, tree, is_input: Sequence[bool], along: bool) -> Traced:
    """Write ``f`` down, once."""
    arrays = [x for x, m in zip(leaves, is_input, strict=True) if m]
    # Residual hooks are for programs that are kept, not for those that are compiled.
    token = packing.set(None)
    try:
        return _written(f, leaves, tree, is_input, arrays, along)
    finally:
        packing.reset(token)


def _written(f: Callable, leaves: Sequence, tree, is_input: Sequence[bool], arrays: list, along: bool) -> Traced:
    with _JitLevel(arrays if along else None) as level:
        level.function = f
        program, returned, written, out_tree = _run_through(f, level, arrays, leaves, tree, is_input)
        held, decisions, unsure = level.held, level.decisions, level.unsure
    program, hidden = _with_hidden(program, held)
    program, captured = closure_convert(program)
    return Traced(program, hidden, captured, written, returned, decisions, out_tree, unsure, 0.0)


def _run_through(f, level: _JitLevel, arrays: Sequence, leaves: Sequence, tree, is_input: Sequence[bool]) -> tuple:
    """Run the function on variables. What it made is forgotten when this returns: then it is seen what others have."""
    boxes = [level.new_input(aval_of(x)) for x in arrays]
    first = [box.variable for box in boxes]
    rest = iter(boxes)
    given = [next(rest) if m else x for x, m in zip(leaves, is_input, strict=True)]
    for i, x in enumerate(given):
        if type(x) is Staged:
            x._origin = (tree, i, True)
    args, kwargs = optree.tree_unflatten(tree, given)
    out_leaves, out_tree = output_leaves(run(f, args, kwargs), "jit", leaves)
    returned = []
    for x in out_leaves:
        same = [i for i, box in enumerate(boxes) if x is box]
        returned.append(same[0] if same else None)
    written = []
    for i, (box, variable) in enumerate(zip(boxes, first, strict=True)):
        flush_writes(box)
        if type(box) is not Staged or box.variable is not variable:
            written.append(i)
    results = [level.hold(x) if type(x) is np.ndarray else x for x in (*out_leaves, *[boxes[i] for i in written])]
    asked = [Staged(d.variable, level) for d in level.decisions]
    program = level.finish([*results, *asked], getattr(f, "__name__", "jitted"))
    return program, returned, written, out_tree


def _with_hidden(program: Program, held: dict) -> tuple[Program, list[np.ndarray]]:
    """Make inputs of the arrays that somebody else still has, constants of those that only the trace has."""
    if not held:
        return program, []
    found = [held.pop(key) for key in list(held)]
    shared = _share([a for a, *_ in found])
    constants: dict[Variable, np.ndarray] = {}
    inputs, hidden = [], []
    for array, content, variable in found:
        if id(array) in shared and _same_bytes(array, content):
            inputs.append(variable)
            hidden.append(array)
        else:
            constants[variable] = content
    swap = lambda a: constants.get(a, a) if type(a) is Variable else a
    steps = program.steps
    if constants:
        steps = [
            carried(s, (s[0], [swap(a) for a in s[1]], s[2], s[3]))
            if not constants.keys().isdisjoint(_variables(s))
            else s
            for s in steps
        ]
    outputs = [swap(o) for o in program.outputs]
    return Program([*program.inputs, *inputs], steps, outputs, program.name), hidden


def _variables(step: tuple) -> list[Variable]:
    return [a for a in step[1] if type(a) is Variable]


def _share(arrays: list[np.ndarray]) -> set[int]:
    """Return the ids of the arrays whose memory somebody else can reach: told by counting references.

    One that is counted as shared and is not costs an input in place of a constant; the other way round can't be.
    """
    nodes: dict[int, Any] = {0: np.empty(0)}  # what nobody has tells how many references the counting itself takes
    children: dict[int, set[int]] = {}
    given: dict[int, int] = {}
    a: Any = None
    for i in range(len(arrays)):
        a = arrays[i]
        given[id(a)] = 2  # the list, and the tuple that it comes from
        while isinstance(a, np.ndarray) and a.base is not None:
            nodes[id(a)] = a
            children.setdefault(id(a.base), set()).add(id(a))
            a = a.base
        nodes[id(a)] = a
    a = None  # or it would be counted
    reached: set[int] = set()
    counting = 0
    for key in list(nodes):
        node = nodes[key]
        count = sys.getrefcount(node)
        if not key:
            counting = count
        elif not isinstance(node, np.ndarray) or count > counting + given.get(key, 0) + len(children.get(key, ())):
            reached.add(key)
    out = set()
    for array in arrays:
        a = array
        while True:
            if id(a) in reached:
                out.add(id(array))
                break
            if not isinstance(a, np.ndarray) or a.base is None:
                break
            a = a.base
    return out


# ── the second time ──────────────────────────────────────────────────────────────────────────────────────────────


def _difference(a: Traced, b: Traced) -> int | None:
    """Return the first equation in which two programs differ, their number if the results do, None if nothing does."""
    if a.tree != b.tree or a.written != b.written:
        return min(len(a.program.steps), len(b.program.steps))
    # An array is a hidden input of one and a constant of the other if only a cycle of references still held it.
    arrays: dict[Any, Any] = {}
    for t in (a, b):
        arrays.update(zip(t.program.inputs[len(t.program.inputs) - len(t.hidden) :], t.hidden, strict=True))
    return _programs_differ(a.program, b.program, arrays)


def _programs_differ(a: Program, b: Program, arrays: dict) -> int | None:
    same = dict(zip(a.inputs, b.inputs, strict=False))
    for i, (left, right) in enumerate(zip(a.steps, b.steps, strict=False)):
        if (
            left[0] is not right[0]
            or len(left[1]) != len(right[1])
            or not all([_atoms_agree(x, y, same, arrays) for x, y in zip(left[1], right[1], strict=True)])
            or not _params_agree(left[2], right[2])
        ):
            return i
        same.update(zip(left[3], right[3], strict=True))
    if len(a.steps) != len(b.steps) or len(a.outputs) != len(b.outputs):
        return min(len(a.steps), len(b.steps))
    if not all([_atoms_agree(x, y, same, arrays) for x, y in zip(a.outputs, b.outputs, strict=True)]):
        return len(a.steps)
    return None


def _atoms_agree(x: Any, y: Any, same: dict, arrays: dict) -> bool:
    x, y = [arrays.get(a, a) if type(a) is Variable else a for a in (x, y)]
    if type(x) is Variable or type(y) is Variable:
        return same.get(x) is y
    if x is y or isinstance(x, Tracer) or isinstance(y, Tracer):
        return x is y or type(x) is type(y)
    if type(x) is not type(y):
        return False
    if isinstance(x, (np.ndarray, np.generic)):
        return _same_bytes(x, y)
    return bool(x == y) or (x != x and y != y)


def _params_agree(x: Any, y: Any) -> bool:
    """Compare parameters as far as they are data; functions are new objects each time."""
    if isinstance(x, dict) and isinstance(y, dict):
        return x.keys() == y.keys() and all([_params_agree(v, y[k]) for k, v in x.items()])
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all([_params_agree(v, w) for v, w in zip(x, y, strict=True)])
    if isinstance(x, Program) and isinstance(y, Program):
        return len(x.inputs) == len(y.inputs) and _programs_differ(x, y, {}) is None
    if isinstance(x, (np.ndarray, np.generic)) and isinstance(y, (np.ndarray, np.generic)):
        return _atoms_agree(x, y, {}, {})
    if isinstance(x, (bool, int, float, complex, str, np.dtype)) or x is None:
        return type(x) is type(y) and (x == y or x != x)
    return type(x) is type(y)


def _not_repeated(f, leaves, tree, is_input, along, equation: int | None) -> NotRepeatableError:
    """Make the error; a third trace, under a watch, tells the user's line."""
    where = ""
    try:
        if equation is None:
            equation, where = sys.maxsize, "\n  A random number generator that it can reach has moved."
        with Watch().on():
            program = write_down(f, leaves, tree, is_input, along).program
        equations = program.equations
        if equation < len(equations) and equations[equation].line:
            where = f"\n  First difference: `{equations[equation].op.name}` at {equations[equation].line}"
    except (BranchError, NotRepeatableError):
        pass
    return NotRepeatableError(
        f"jit: `{getattr(f, '__name__', 'the function')}` computed something else when it was traced again.{where}",
        "a compiled function is traced once and then run without Python: random numbers, the time, or a counter that it"
        " reads would stay what they were at the first call",
        "make what changes an argument: draw the random numbers outside and pass them in",
    )
