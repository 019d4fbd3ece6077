"""The program form: variables, equations, programs; what ``linearize`` writes down and ``trace`` returns.

For: the data, and running it forwards. A program is a flat list of equations in the order they ran, each result
assigned once, so that evaluation, transposition and destruction are loops, never recursions. Not for: printing
(``show.py``), checking (``check.py``), or running one backwards (``vjp_via_transpose.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import optree

from ..base.frames import public
from ..base.tree import flatten, is_array, treedef_outline, with_structures
from ..core.contexts import active, process_wide
from ..core.dispatch import bind
from ..errors import ShapeError, TreeError
from ..memory.memory import unshared
from .show import show
from .variable import Step, Variable

__all__ = [
    "Program",
    "distinct_calls",
    "evaluate",
    "last_uses",
    "live_steps",
    "map_atoms",
    "map_programs",
    "mentions",
    "programs_in",
    "stays",
]

#: a step, or a tuple of its parts
S = TypeVar("S", bound=tuple)

#: ``str`` of a longer program leaves its middle out
_PRINTED = 1000
#: the most equations of a program that is walked at once
_FEW = 12


class Program:
    """A straight-line program.

    Parameters
    ----------
    inputs : sequence of Variable
        What it is called with.
    steps : sequence of Step, or of (op, args, params, outs)
        Its equations in the order they run; as plain tuples they are cheaper to record.
    outputs : sequence of Variable or constant
        What it returns; a constant output does not depend on the inputs.
    name : str
        For printing.
    in_tree, out_tree : PyTreeSpec, optional
        The structure of ``(args, kwargs)`` and of the result of the function it was traced from; without them the
        program takes and returns flat lists.
    """

    __slots__ = ("_steps", "answers", "in_tree", "inputs", "name", "out_tree", "outputs", "plain", "recorded")

    def __init__(self, inputs, steps, outputs, name: str = "program", in_tree=None, out_tree=None) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        #: the steps as they were given, for loops that take them apart: ``for op, args, params, outs in ...``
        self.recorded: Sequence[Any] = steps
        self._steps: Sequence[Step] | None = None
        self.name, self.in_tree, self.out_tree = name, in_tree, out_tree
        #: whether it is known that its operators have no bodies and no effects, and that no constant is a tensor
        self.plain = False
        #: what has been asked of it (``mentions``), for it does not change
        self.answers: dict[Any, Any] | None = None

    def __reduce__(self):
        args = (self.inputs, self.recorded, self.outputs, self.name, self.in_tree, self.out_tree)
        return with_structures(type(self), args, self.in_tree, self.out_tree)

    @property
    def steps(self) -> Sequence[Step]:
        """Its equations in the order they run; those recorded as plain tuples become steps when they are asked for."""
        if self._steps is None:
            kinds = set(map(type, self.recorded))
            if kinds == {tuple}:  # as they come out of a trace, in their thousands
                self.recorded = list(map(Step._make, self.recorded))
            elif tuple in kinds:
                self.recorded = [step if isinstance(step, Step) else Step(*step) for step in self.recorded]
            self._steps = self.recorded
        return self._steps

    @property
    def equations(self) -> tuple[Step, ...]:
        """Its equations, with names for their parts."""
        return tuple(self.steps)

    @property
    def constants(self) -> list:
        """The constants it reads, in order of appearance, each object once: of a linear program, the residuals."""
        seen: dict[int, Any] = {}
        for _, args, _, _ in (*self.recorded, (None, self.outputs, None, None)):
            for a in args:
                if type(a) is not Variable and hasattr(a, "shape"):
                    seen.setdefault(id(a), a)
        return list(seen.values())

    @public
    def __call__(self, *args, **kwargs):
        """Run the program on arguments like those it was traced with."""
        if self.in_tree is None:
            return evaluate(self, args)
        leaves, tree = flatten((args, kwargs))
        if tree != self.in_tree:
            raise TreeError(
                f"the program `{self.name}` was called with arguments of another structure than it was traced with:\n"
                f"    called with: {treedef_outline(tree)}\n    traced with: {treedef_outline(self.in_tree)}",
                "its inputs are the leaves of that structure, in order",
                "trace the function again with arguments of the new structure",
            )
        arrays = [x for x in leaves if is_array(x)]
        if len(arrays) != len(self.inputs):
            raise TreeError(
                f"the program `{self.name}` was called with {len(arrays)} arrays and numbers; it has {len(self.inputs)}"
                " inputs.",
                "its inputs are the arrays and numbers among the leaves it was traced with",
                "pass an array or a number wherever there was one, and what was no array as it was",
            )
        for i, (x, v) in enumerate(zip(arrays, self.inputs, strict=True)):
            if np.shape(x) != v.aval.shape:
                raise ShapeError(
                    f"the program `{self.name}` was called with shape {np.shape(x)} for input {i}, a {v.aval!r}.",
                    "a program is written for one set of shapes",
                    "trace the function again with arguments of the new shapes",
                )
        run, watch = functools.partial(evaluate, self, arrays), active()
        results = run() if watch is None else watch.pushed(run, self, arrays, "primal")
        return optree.tree_unflatten(self.out_tree, results)

    def to_text(self, limit: int | None = None) -> str:
        """Return the program as text.

        Parameters
        ----------
        limit : int, optional
            At most how many equations to print; the middle is left out of a longer one.
            ``str(program)`` prints up to 1000.

        Returns
        -------
        str
            An equation a line.
        """
        return show(self, limit)

    def to_dot(self) -> str:
        """Return the program as a graph in the DOT language, for Graphviz: ``dot -Tsvg program.dot``.

        Returns
        -------
        str
            A box for each input, equation, constant and output, under the names of the text.

        Examples
        --------
        >>> print(da.trace(np.sin, 1.0).to_dot().splitlines()[0])
        digraph "sin" {
        """
        from .picture import to_dot  # what draws is loaded when something is drawn

        return to_dot(self)

    def to_svg(self, limit: int = 300) -> str:
        """Draw the program as a graph, in SVG; nothing needs to be installed.

        Parameters
        ----------
        limit : int
            The most boxes to draw.

        Returns
        -------
        str
            The picture, from the inputs at the top to the results at the bottom.

        Raises
        ------
        ArgumentError
            If there are more boxes; ``to_dot`` has no limit.

        Examples
        --------
        >>> da.linearize(np.sin, 1.0)[1].program.to_svg().startswith("<svg")
        True
        """
        from .picture import to_svg

        return to_svg(self, limit)

    def _repr_html_(self, heading: str = "") -> str:
        from .picture import to_html

        return to_html(self, heading)

    def __str__(self) -> str:
        return show(self, _PRINTED)

    def __repr__(self) -> str:
        return f"<program {self.name}: {len(self.inputs)} inputs, {len(self.recorded)} equations>"


def programs_in(params: dict) -> Iterator[Program]:
    """Yield the programs among an equation's parameters: bodies of loops, branches."""
    for value in params.values():
        if isinstance(value, (Program, tuple)):
            yield from [part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Program)]


def distinct_calls(program: Program) -> list[tuple[Any, dict]]:
    """Return the operators of a program with their parameters; those without any, which are most, once each."""
    alone = {op: params for op, _, params, _ in program.recorded if not params}
    return [*alone.items(), *[(op, params) for op, _, params, _ in program.recorded if params]]


def map_programs(params: dict, function: Callable[[Program], Program]) -> dict:
    """Return an equation's parameters with ``function`` of each program among them."""
    new = params
    for k, v in params.items():
        if isinstance(v, Program):
            new = {**new, k: function(v)}
        elif isinstance(v, tuple) and v and isinstance(v[0], Program):
            new = {**new, k: tuple([function(p) for p in v])}
    return new


def map_atoms(program: Program, function: Callable[[Any], Any]) -> tuple[list[Step], list]:
    """Return a program's steps and its outputs with ``function`` of each variable or constant that they read."""
    steps = [s.rewritten(s.op, [function(a) for a in s.args], s.params, s.outs) for s in program.steps]
    return steps, [function(o) for o in program.outputs]


def mentions(program: Program, test: Callable[[Any, dict], bool]) -> bool:
    """Whether ``test(op, params)``, a module's function, holds for an equation of a program or of a subprogram."""
    if program.answers is None:
        program.answers = {}
    answer = program.answers.get(test)
    if answer is None:
        answer = program.answers[test] = any(
            test(op, params) or any([mentions(part, test) for part in programs_in(params)])
            for op, params in distinct_calls(program)
        )
    return answer


def _is_kept(op: Any, params: dict) -> bool:
    return op.kept or getattr(params.get("call"), "kept", False)


def stays(op: Any, params: dict) -> bool:
    """Whether an equation is there for what it does, by itself or in a body: it stays where it is, read or not."""
    return _is_kept(op, params) or (op.kind == "control" and any([mentions(p, _is_kept) for p in programs_in(params)]))


def live_steps(steps: Sequence[S], outputs: Sequence[Any], effects: bool = True) -> list[S]:
    """Return the steps the outputs depend on, in order: dead code eliminated in one backward pass.

    With ``effects`` also those that are there for what they do, and what they read. A step is read only by later ones.
    So where each is read by something, none is dead, which is soon seen of a longer program.
    """
    if len(steps) > _FEW:
        read = set(map(id, chain.from_iterable([args for _, args, _, _ in steps])))
        read.update(map(id, outputs))
        if read.issuperset([id(outs[0]) if outs else 0 for _, _, _, outs in steps]):  # a loop may have no results
            return list(steps)
    needed = {v for v in outputs if type(v) is Variable}
    live: list[S] = []
    for step in reversed(steps):
        op, args, params, outs = step
        is_read = (outs and outs[0] in needed) or (len(outs) > 1 and not needed.isdisjoint(outs))
        if is_read or (effects and stays(op, params)):
            live.append(step)
            needed.update([a for a in args if type(a) is Variable])
    live.reverse()
    return live


def evaluate(program: Program, arguments) -> list:
    """Run a program on a flat list of arguments, under any transform, since every equation goes through dispatch.

    Each value is dropped after its last use. A constant among the outputs is returned as a copy: it is the program's,
    and the caller may write to what it is given.
    """
    env = dict(zip(program.inputs, arguments, strict=True))
    last_use = last_uses(program.recorded, program.outputs)
    steps = program.recorded if (watch := process_wide()) is None else watch.walk(program, program.steps, "run")
    for (op, args, params, outs), dead in zip(steps, last_use, strict=True):
        out = bind(op, [env[a] if type(a) is Variable else a for a in args], params)
        if op.multiple_results:
            env.update(zip(outs, out, strict=True))
        else:
            env[outs[0]] = out
        for v in dead:
            del env[v]
    return [env[a] if type(a) is Variable else unshared(a) for a in program.outputs]


def last_uses(steps: Sequence[tuple], outputs: Sequence) -> list[list[Variable]]:
    """Return, for each equation, the variables that nothing reads after it."""
    kept = {a for a in outputs if type(a) is Variable}
    uses: list[list[Variable]] = []
    for _, args, _, outs in reversed(steps):
        dead = []
        for v in (*args, *outs):
            if type(v) is Variable and v not in kept:
                kept.add(v)
                dead.append(v)
        uses.append(dead)
    uses.reverse()
    return uses
