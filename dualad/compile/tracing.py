"""Writing a function down for ``jit``: one program for one signature, with what it reads besides its arguments.

An array that the caller can still write to is a hidden input, read at each call. What it read of plain numbers and
names is watched by ``captures.py``; a function that does something else the second time is refused. Not for: the
program's simplification (``simplify.py``) or who asks for it (``jit.py``).
"""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from ..base.frames import is_caught, is_users, user_level, user_line
from ..base.tree import static_leaves
from ..boundary import boundary
from ..boundary.boundary import run
from ..boundary.randomness import Watched, runs
from ..control.subprograms import closure_convert
from ..core.above import ABOVE
from ..core.aval import Aval, aval_of, is_weak
from ..core.contexts import TakenApart, active, apart, compiling, errors_raised, note, walking_back, writing
from ..core.tracer import OPERATOR, Tracer
from ..core.watch import Watch
from ..errors import BranchError, DualadError, InPlaceError, NotRepeatableError
from ..guards.places import ENTRY, ITEMS, LIST, Place
from ..guards.reach import Reach, Snapshot
from ..memory.memory import as_array, flush_writes, layout, snapshot
from ..ops.indexing import INDEXED
from ..program.ir import Program, evaluate, live_steps, map_atoms
from ..program.packed import active as packing
from ..program.variable import Variable, aval_of_atom
from ..surface.leaves import output_leaves
from ..tensors.staged import Staged, StagedLevel
from .captures import memory_of, writeable
from .draws import Draw, DrawnInside, Note, check_draws, copied
from .repeated import Again, Record, first_difference, same_bytes
from .whole_numbers import WholeNumbers

__all__ = ["Arguments", "Decision", "EffectWarning", "Traced", "advising", "strides_of", "trace_for_jit", "write_down"]


class EffectWarning(UserWarning):
    """A compiled function changes something that it did not make, or asks for a file: while it is traced only.

    Examples
    --------
    >>> import warnings
    >>> from dualad.compile.tracing import EffectWarning
    >>> log = []
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", EffectWarning)
    ...     try:
    ...         da.jit(lambda x: (log.append("called"), x * 2.0)[1])(1.0)
    ...     except EffectWarning as warning:
    ...         print("changes a list" in str(warning))
    True
    """


class Decision(NamedTuple):
    """A value that Python code asked for while the program was written along it (``specialise=True``)."""

    variable: Variable
    value: np.ndarray
    line: str


class Arguments(NamedTuple):
    """The leaves of a call's arguments, of which ``is_input`` are arrays and the others constants, and their tree.

    Arrays of another byte order are converted; ``given`` has them as they are. Some of the constants are ``generators``
    of random numbers.
    """

    leaves: list
    tree: optree.PyTreeSpec
    is_input: list[bool]
    given: list
    generators: list

    @property
    def arrays(self) -> list:
        return [x for x, m in zip(self.leaves, self.is_input, strict=True) if m]


def strides_of(arrays: Sequence) -> tuple:
    """Return the strides of arrays and tensors, ``None`` of those in C order and of numbers."""
    given = [layout(x) if isinstance(x, Tracer) else x for x in arrays]
    return tuple([x.strides if isinstance(x, np.ndarray) and not x.flags.c_contiguous else None for x in given])


class Traced(NamedTuple):
    """A function written down.

    ``program`` takes the arguments' arrays, then the ``draws``, the ``hidden`` arrays, and the ``captured`` tensors of
    outer transforms. It returns the leaves of the result, then the arguments named in ``written`` as they are after the
    call, then the decisions. ``returned[k]`` is the argument that result ``k`` is, if it is one as it was given. Where
    it is ``unsure``, a NaN among the results may be a number: only the function itself can tell. It ``raises`` where it
    asks for exceptions in place of floating-point warnings, or catches what a program does not raise. ``strides`` are
    the arguments' (``strides_of``), if views and copies depend on them. ``check(*arrays)`` raises where Python's
    integers are not those of the program.
    """

    program: Program
    hidden: list[np.ndarray]
    captured: list[Tracer]
    written: list[int]
    returned: list[int | None]
    decisions: list[Decision]
    draws: list[Draw]
    tree: optree.PyTreeSpec
    unsure: bool
    raises: bool
    strides: tuple | None
    check: Callable | None
    seconds: float
    #: what the next trace is compared with, and how the comparison with the one before came out
    record: Record | None
    is_same: bool


class _JitLevel(StagedLevel):
    """The level of a program for ``jit``."""

    __slots__ = ("again", "attempts", "decisions", "draws", "held", "recorded", "values", "whole")

    def __init__(self, values: Sequence | None, first: Record | None = None) -> None:
        super().__init__("jit", owning=True)
        #: what it writes down, or the comparison of that with the first
        self.recorded = Record(self)
        self.again = None if first is None or type(self.steps) is not list else Again(first, self)
        if self.again is not None:
            self.steps = self.again
        #: the arguments, where the program is written along them
        self.values = None if values is None else [*values]
        #: where steps are whose errors the function catches
        self.attempts: list[tuple[int, Any]] = []
        self.decisions: list[Decision] = []
        self.draws: list[Draw] = []
        #: an array's place in memory -> (the array, its content when it was met, the variable that stands for it)
        self.held: dict[Any, tuple[np.ndarray, np.ndarray, Variable]] = {}
        self.whole = WholeNumbers()

    def drawn(self, leaf: int, name: str, args: tuple, kwargs: dict, value: Any) -> Any:
        """Let a draw be an input."""
        if writing.get() is not self:
            raise DrawnInside
        self.draws.append(Draw.of(leaf, name, args, kwargs, value))
        if self.values is not None:
            self.values.append(value)
        return self.new_input(aval_of(value))

    def promote(self, op: Any, atoms: Any, params: dict, out: Variable) -> tuple:
        promoted = super().promote(op, atoms, params, out)
        alone = params is OPERATOR and all([is_weak(aval_of_atom(a)) or self.is_number(a) for a in atoms])
        self.whole.record(op, atoms, promoted[1], alone)
        return promoted

    def attempt(self, op: Any, args: Sequence) -> None:
        """Note what Python raises and a program may not, if the function catches it."""
        atoms = [a.variable if type(a) is Staged and a.level is self else a for a in args]
        avals = [self.aval(a) for a in atoms]
        of_numbers = all([is_weak(v) or self.is_number(a) for v, a in zip(avals, atoms, strict=True)])
        if self.again is not None or not (op.raises or of_numbers or len(args) > INDEXED.get(op.name, len(args))):
            return
        if is_caught(_run_through.__code__):
            if of_numbers and any([v.dtype.kind == "f" for v in avals]):
                note("caught")
            self.attempts.append((len(self.steps), op))

    def hold(self, a: np.ndarray) -> Any:
        """Let an array that can be written to be an input."""
        if not writeable(a):
            return a if a.base is None else snapshot(a)
        # A view that is made at each turn of a loop, `a.T`, is one input.
        key = a.__array_interface__["data"], a.shape, a.strides, a.dtype
        known = self.held.get(key)
        if known is None or not same_bytes(a, known[1]):
            content = snapshot(a) if self.again is None else self.again.snapshot(a)
            known = (a, content, Variable(Aval(a.shape, a.dtype)))
            # The function wrote into it since it was met: earlier reads stay in the program under another key.
            if key in self.held:
                self.held[len(self.held)] = self.held[key]
            self.held[key] = known
        return Staged(known[2], self)

    def finish(self, outputs: Sequence, name: str, once: bool = False) -> Program:
        """Close the program; one that is compared with the first is not kept."""
        if self.again is not None and self.steps is self.again:
            self.steps = []
            program = super().finish(outputs, name)
            self.again.finish(program.outputs)
            return program
        self.recorded.steps = steps = self.steps
        program = super().finish(outputs, name)
        live = {id(step[3][0]) for step in program.steps if step[3]} if self.attempts else set()
        for first, op in self.attempts:  # what nothing reads is left out, with its error
            outs = next((outs for found, _, _, outs in steps[first:] if found is op), None)
            if outs and id(outs[0]) not in live:  # there is none where tracing met the error
                note("caught")
        self.recorded.outputs = program.outputs
        return program

    def decide(self, variable: Variable, what: str) -> Any:
        """Return the value that the arguments give a variable, and note that the program depends on it."""
        if self.values is None:
            return None
        for known in self.decisions:
            if known.variable is variable:
                return known.value
        steps = live_steps(self.steps, [variable], effects=False)
        held = {v: content for _, content, v in self.held.values()}
        program = Program([*self.inputs, *held], steps, [variable])
        with np.errstate(all="ignore"):
            value = np.asarray(evaluate(program, [*self.values, *held.values()])[0])
        if value.dtype.kind == "c":
            return None
        self.decisions.append(Decision(variable, value, user_line()))
        return value


def trace_for_jit(f: Callable, given: Arguments, roots: Sequence, along: bool = False) -> tuple[Traced, Reach | None]:
    """Write ``f`` down for arguments like these; return the snapshot within reach of ``roots``, None if too much.

    Raises
    ------
    BranchError
        If ``f`` branches on a value; with ``along`` it is written along the values that are given.
    NotRepeatableError
        If ``f`` computes something else the second time, or writes into a captured array each time.
    """
    watched, before = Watched(getattr(f, "__wrapped__", f), ()), Snapshot.of(roots)
    start = time.perf_counter()
    traced = write_down(f, given, along)
    seconds = time.perf_counter() - start
    touched = before is not None and any(before.changed())
    moving: dict[tuple, Place] = {}
    more = 0 if traced.captured else 1  # tensors of an outer transform are others in a trace of their own
    if more and not (touched or along or active()):
        second = write_down(f, given, along, traced.record)
        # A difference may be in what nothing reads; and what alternates is the same the third time.
        more = 0 if second.is_same and _found(second) == _found(traced) else 2
    for _ in range(more):
        middle, lines = Snapshot.of(roots) if touched else None, _Lines()
        if middle is None:
            again = write_down(f, given, along)
        else:
            with lines.noted(middle):
                again = write_down(f, given, along)
            moving, arrays = middle.changed()
            if arrays:
                raise _writes(f, arrays[0], lines.found)
        if (found := _difference(traced, again)) is not None:
            raise _other_result(f, traced.tree, again.tree) or _not_repeated(f, given, along, found)
        traced = again if touched else traced
    if watched.moved(set()):  # the numbers may be the same by chance, or too few to make a difference
        raise _not_repeated(f, given, along, None)
    # With the names that code had before, one look finds what has been added.
    after = Snapshot.of(roots, code=before.reach.names) if before is not None else None
    if after is not None:  # a value that differs between traces of one program is not computed with
        after.without(moving)
    # What a function notes in its own attributes, a counter of its traces, is meant to be noted then.
    effects = [p for p in moving.values() if after is None or id(p.holder) not in after.reach.notes]
    for what, line in (after.reach.outside if after else {}).items():
        warnings.warn(_note_unwatched(f, what, line), EffectWarning, stacklevel=user_level())
    if effects:
        warnings.warn(_effect(f, effects[0], lines.found), EffectWarning, stacklevel=user_level())
    return traced._replace(seconds=seconds, record=None), after.reach if after is not None else None


def write_down(f: Callable, given: Arguments, along: bool, first: Record | None = None) -> Traced:
    """Write ``f`` down; with its names lifted where it calls ``np.asarray`` or its like on traced arrays.

    With the record of a ``first`` trace, what comes of it is a comparison, and no program.
    """
    token, begun = apart.set(True), boundary.lifted
    try:
        written = _write_down(f, given, along, first)
        # What a run was refused in the middle, or made objects of, is no part of the program: now it is known before.
        return written if boundary.lifted == begun else _write_down(f, given, along, first)
    except TakenApart as found:
        block = ABOVE.lifted(found.namespace)
    finally:
        apart.reset(token)
    try:
        with block:
            return _write_down(f, given, along, first)
    except InPlaceError:  # an array of objects would take what an array refuses, in another dtype
        raise
    except Exception:
        pass
    return _write_down(f, given, along, first)  # entry by entry


def _write_down(f: Callable, given: Arguments, along: bool, first: Record | None) -> Traced:
    # Residual hooks are for programs that are kept, not for those that are compiled.
    noted: set[str] = set()
    token, told, around = packing.set(None), compiling.set(noted), runs.set(())
    level = _JitLevel(given.arrays if along else None, first)
    walking = walking_back.set((level.recorded if level.again is None else level.again).walk)
    try:
        with level:
            level.function = f
            program, returned, written, tree = _run_through(f, level, given)
        hidden, captured = list[np.ndarray](), list[Tracer]()
        if level.again is None:
            level.recorded.contents = {variable: content for _, content, variable in level.held.values()}
            program, hidden = _captures_to_inputs(program, level.held)
            program, captured = closure_convert(program)
    finally:
        walking_back.reset(walking)
        runs.reset(around)
        compiling.reset(told)
        packing.reset(token)
    return Traced(
        program,
        hidden,
        captured,
        written,
        returned,
        level.decisions,
        level.draws,
        tree,
        "numbers" in noted,
        "caught" in noted or bool((noted - errors_raised()) & set(np.geterr())),
        strides_of(given.given) if "order" in noted else None,
        level.whole.check(),
        0.0,
        level.recorded,
        level.again is not None and level.again.is_same,
    )


def _run_through(f: Callable, level: _JitLevel, given: Arguments) -> tuple:
    """Run the function on variables. What it made is forgotten when this returns: then it is seen what others have."""
    boxes = [level.new_input(aval_of(x)) for x in given.arrays]
    for x, box in zip(given.arrays, boxes, strict=True):
        if isinstance(x, Tracer) and x.is_python_number():
            box.marked_number()
    first = [box.variable for box in boxes]
    level.whole.start(first)
    if level.again is not None:
        level.again.begin()
    level.lay_out({v: s for v, s in zip(first, strides_of(given.given), strict=True) if s is not None})
    rest = iter(boxes)
    leaves = [next(rest) if m else x for x, m in zip(given.leaves, given.is_input, strict=True)]
    noting = copied(given.leaves, leaves, lambda i: Note(level, i))
    for i, x in enumerate(leaves):
        if type(x) is Staged:
            x._origin = (given.tree, i, True)
            if type(given.leaves[i]) is np.ndarray:
                as_array(x)
    args, kwargs = optree.tree_unflatten(given.tree, leaves)
    out = run(f, args, kwargs)
    if noting:
        check_draws(given.leaves, level.draws, noting)
    out_leaves, out_tree = output_leaves(out, "jit", given.leaves, statics=True)
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


def _captures_to_inputs(program: Program, held: dict) -> tuple[Program, list[np.ndarray]]:
    """Make inputs of the arrays that somebody else still has, constants of those that only the trace has."""
    if not held:
        return program, []
    found = [held.pop(key) for key in list(held)]
    shared = _share([a for a, *_ in found])
    constants: dict[Variable, np.ndarray] = {}
    inputs, hidden = [], []
    for array, content, variable in found:
        if id(array) in shared and same_bytes(array, content):
            inputs.append(variable)
            hidden.append(array)
        else:
            constants[variable] = content
    swap = lambda a: constants.get(a, a) if type(a) is Variable else a
    steps, outputs = map_atoms(program, swap) if constants else (program.steps, program.outputs)
    return Program([*program.inputs, *inputs], steps, outputs, program.name), hidden


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
    return {id(array) for array in arrays if any([id(a) in reached for a in memory_of(array)])}


# ── the second time ──────────────────────────────────────────────────────────────────────────────────────────────


def _seen(t: Traced) -> Program:
    # An array is a hidden input of one and a constant of the other if only a cycle of references still held it.
    if not t.hidden:
        return t.program
    own = len(t.program.inputs) - len(t.hidden)
    arrays = dict(zip(t.program.inputs[own:], t.hidden, strict=True))
    steps, outputs = map_atoms(t.program, lambda x: arrays.get(x, x) if type(x) is Variable else x)
    return Program(t.program.inputs[:own], steps, outputs)


def _found(t: Traced) -> tuple:
    return t.tree, t.written, [d.key for d in t.draws]


def _difference(a: Traced, b: Traced) -> int | None:
    """Return the first equation in which two programs differ, their number if the results do, None if nothing does."""
    if _found(a) != _found(b):
        return min(len(a.program.steps), len(b.program.steps))
    return first_difference(_seen(a), _seen(b))


def _other_result(f: Callable, tree: optree.PyTreeSpec, again: optree.PyTreeSpec) -> NotRepeatableError | None:
    """The error about a static leaf of a result that is another one in each trace, if it is one."""
    first, second = static_leaves(tree, "output"), static_leaves(again, "output")
    for name in first.keys() & second.keys():
        if first[name] is not second[name] and first[name] != second[name]:
            return NotRepeatableError(
                f"jit: `{getattr(f, '__name__', 'the function')}` returned {first[name]!r} at {name}, and"
                f" {second[name]!r} when it was traced again.",
                "what is no array is returned as it was when the function was traced, the same at each call",
                "make it outside of the function, where it is one object or of one value, or of what is returned",
            )
    return None


def _not_repeated(f: Callable, given: Arguments, along: bool, equation: int | None) -> NotRepeatableError:
    """Make the error; a third trace, under a watch, tells the user's line."""
    where = ""
    try:
        if equation is None:
            equation, where = sys.maxsize, "\n  A random number generator that it can reach has moved."
        with Watch().on():
            program = write_down(f, given, along).program
        equations = program.equations
        if equation < len(equations) and equations[equation].line:
            where = f"\n  First difference: `{equations[equation].op.name}` at {equations[equation].line}"
    except (BranchError, NotRepeatableError):
        pass
    return NotRepeatableError(
        f"jit: `{getattr(f, '__name__', 'the function')}` computed something else when it was traced again.{where}",
        "a compiled function is traced once and then run without Python: random numbers, the time, or a counter that it"
        " reads would stay what they were at the first call",
        "make what changes an argument: f(x, rng) draws from a generator that is one; or draw outside, and pass the"
        " numbers",
    )


class _Lines:
    """Where something is changed for the first time: looked for after each of the user's lines."""

    def __init__(self) -> None:
        self.found = ""
        self._last: dict[Any, str] = {}

    @contextlib.contextmanager
    def noted(self, before: Snapshot) -> Iterator[None]:
        def look(frame: Any, event: str, arg: Any) -> Any:
            if self.found or not is_users(frame.f_code.co_filename):
                return None
            if any(before.changed()):
                self.found = self._last.get(frame, self._last.get(None, ""))
            self._last[frame] = self._last[None] = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            return look

        around = sys.gettrace()
        sys.settrace(look)
        try:
            yield
        finally:
            sys.settrace(around)


def _effect(f: Callable, place: Place, line: str) -> str:
    """The warning about a side effect."""
    kind = type(place.holder).__name__
    what = {ENTRY: repr(place.key), LIST: "a list", ITEMS: "a dict"}.get(place.kind, f"a {kind}")
    return (
        f"jit: `{getattr(f, '__name__', 'the function')}` changes {what} that it did not make, at {line or '?'}."
        " That happens when it is traced, and not at each call; return what is to be kept"
    )


def _note_unwatched(f: Callable, what: str, line: str) -> str:
    """The warning about a value that no guard can watch."""
    return (
        f"jit: `{getattr(f, '__name__', 'the function')}` asks for `{what}` at {line}, which can't be watched: what it"
        " is told while it is traced stays; ask outside of the function, and pass what is read as an argument"
    )


def _writes(f: Callable, array: np.ndarray, line: str) -> NotRepeatableError:
    """Make the error about a captured array that is written to."""
    name, where = getattr(f, "__name__", "the function"), f"\n  At: {line}" if line else ""
    return NotRepeatableError(
        f"jit: `{name}` writes into an array of shape {array.shape} that is not one of its arguments, and something"
        f" else each time.{where}",
        "a compiled function runs without Python: what it writes into captured arrays would be written while it is"
        " traced, and never again",
        "pass the array as an argument and return what becomes of it, or write into an argument, which jit carries out",
    )


#: the advice where a number may have been meant as a setting
_OF_SETTINGS = (
    "int() ",
    "not known yet",
    "known when a program is written",
    "unhashable",
    "dtype int64 was given to np.",
    "dtype bool was given to np.",  # a mask
)


@contextlib.contextmanager
def advising() -> Iterator[None]:
    """Have refusals of a truth, an integer or a shape that values decide say what ``jit`` has for them."""
    try:
        yield
    except DualadError as error:
        said = f"{error.what} {error.why}"
        if "static_arg" in error.instead or not (
            isinstance(error, BranchError) or any([words in said for words in _OF_SETTINGS])
        ):
            raise
        raise type(error)(
            error.what,
            error.why,
            f"{error.instead}; for an argument that is a setting, use jit(f, static_argnames=...), and"
            " jit(f, specialise=True) compiles the branches that are taken, one by one",
        ).with_traceback(error.__traceback__) from None
