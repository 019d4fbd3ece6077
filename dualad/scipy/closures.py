"""Users' functions as operators take them: functions of plain values, of which all that is traced is an input.

For: ``Inputs``, which finds the traced values that functions are given or read from their closures. A function that can
be written down says itself what it reads. One that branches on values runs on plain numbers as it stands, once the
tensors that it holds are plain as well (``rules/closures.py``). Not for: what any operator does with a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.tree import flatten
from ..boundary.boundary import running
from ..control.subprograms import output_avals, runner, stage
from ..core.aval import Aval, aval_of
from ..core.tracer import Tracer, tracer_in
from ..errors import CapturedTensorError, OutputError, ShapeError
from ..rules.calls import has_tensor
from ..rules.closures import reads, with_values
from ..surface.arguments import operand

__all__ = ["Closed", "Inputs", "refuse_captured"]


class Closed:
    """A function of a user's, called with values for the inputs of an operator and with its ``own`` leading arguments.

    ``avals`` are those of its results, if it could be written down; ``captures`` says whether it reads tensors.
    """

    __slots__ = (
        "_f", "_fill", "_finish", "_plain", "_reads", "_run", "_tree", "avals", "captures", "name", "opened", "own",
        "where",
    )  # fmt: skip

    def __init__(self, f: Callable, own: int, fill: Callable, where: str, finish: Callable | None) -> None:
        self._f, self.own, self._fill, self._finish, self.where = f, own, fill, finish, where
        self.name = getattr(f, "__name__", type(f).__name__)
        self._run: Any = None
        #: ``opened(inputs)``, if given, is the same function with these values for the tensors that it holds
        self.opened: Any = None
        self.avals: list[Aval] | None = None
        self.captures = False

    def __call__(self, inputs: Sequence, *x: Any) -> Any:
        """Call it with these values, plain or traced, for the inputs."""
        if self._run is None:
            f = self._f if self.opened is None else self.opened(inputs)
            out = f(*x, *self._fill(inputs))
            if self._finish is not None:
                return self._finish(out, self.name)
            if not isinstance(out, (np.ndarray, float)) or (out.__class__ is np.ndarray and out.dtype == object):
                self._check(out, inputs, x)
            return out
        given = [*x, *[inputs[i] for i in self._reads]]
        plain = not any([isinstance(a, Tracer) for a in given])
        out = (self._plain if plain else self._run)(*given)
        return optree.tree_unflatten(self._tree, out)

    def of_all(self, *values: Any) -> Any:
        """Call it with its own arguments followed by values for all inputs, plain or traced."""
        return self(values[self.own :], *values[: self.own])

    def plain(self, inputs: Sequence) -> Callable:
        """Return a function of plain arguments for plain inputs: the user's own wherever that can be called."""
        if self.captures and self._run is not None:
            return lambda *x: self(inputs, *x)
        f = self._f if self.opened is None else self.opened(inputs)
        args = self._fill(inputs)
        if self.avals is not None:
            return lambda *x: f(*x, *args)
        return lambda *x: refuse_captured(f(*x, *args), self.where, self.name)

    def apart(self, inputs: Sequence) -> tuple[Callable, tuple]:
        """Return the function, the user's own if it reads no tensors, and plain values of its other arguments."""
        is_own = self.avals is not None and not self.captures
        return (self._f, tuple(self._fill(inputs))) if is_own else (functools.partial(self, inputs), ())

    def close(self, body: Any, reads: Sequence[int]) -> None:
        """Take the program in place of the function."""
        self._reads, self._tree = tuple(reads), body.tree
        self._run, self._plain = runner(body.program), runner(body.program, plain=True)

    def _check(self, out: Any, inputs: Sequence, x: tuple) -> None:
        if has_tensor(out) and not has_tensor(list(inputs)) and not has_tensor(x):
            raise CapturedTensorError(
                f"{self.where}: `{self.name}` returned a tensor for plain arguments.",
                "it reads a traced value from where it is not looked for (a global), and could not be written down to"
                " find out which (it branches on values, or calls code that is not NumPy)",
                "pass the value as an argument, args=(value,), and let the function take it",
            )


def refuse_captured(out: Any, where: str, name: str) -> Any:
    """Return the function's result for plain arguments, if it is plain."""
    if tracer_in(out) is None:
        return out
    raise CapturedTensorError(
        f"{where}: `{name}` returned a tensor for plain arguments.",
        "it reads a traced value through a closure, and could not be written down to find out which (it branches on"
        " values, or calls code that is not NumPy)",
        f"pass the value as an argument: {where}({name}, ..., args=(value,))",
    )


class Inputs:
    """The traced values that one call of SciPy's depends on, which become the inputs of its operator."""

    __slots__ = ("_places", "arrays", "where")

    def __init__(self, where: str) -> None:
        self.where = where
        self.arrays: list = []
        self._places: dict[int, int] = {}

    def _place(self, tensor: Tracer) -> int:
        key = id(tensor)
        if key not in self._places:
            self._places[key] = len(self.arrays)
            self.arrays.append(tensor)
        return self._places[key]

    def add(self, tree: Any) -> Callable[[Sequence], Any]:
        """Take the tensors out of a tree; return a function that fills it with values of the inputs."""
        leaves, treedef = flatten(tree)
        leaves = [x if tracer_in(x) is None else operand(x) for x in leaves]
        places = {i: self._place(x) for i, x in enumerate(leaves) if isinstance(x, Tracer)}
        if not places:
            return lambda inputs: tree

        def fill(inputs: Sequence) -> Any:
            values = list(leaves)
            for i, place in places.items():
                values[i] = inputs[place]
            return optree.tree_unflatten(treedef, values)

        return fill

    def close(
        self, f: Any, examples: Sequence, args: tuple = (), name: str = "fun", finish: Callable | None = None,
        result: Callable[[], list[Aval] | None] = lambda: None,
    ) -> Closed:  # fmt: skip
        """Take a function ``f(*x, *args)``, and what it reads from its closure.

        To find that, it is written down once for arguments like the examples; outside of transforms, where functions
        hold no tensors, it is called once to see what it returns, unless ``result()`` tells. A function that can't be
        (it branches on values, or is not NumPy) is searched for tensors, and noticed later if it reads others.
        ``finish(out, name)``, if given, makes one plain array of its result, and what it refuses is refused at once.
        """
        check_callable(f, self.where, name)
        n, fill = len(examples), self.add(args)
        closed, known = Closed(f, n, fill, self.where, finish), len(self.arrays)
        if finish is None and not running.get() and not self.arrays:
            closed.avals = result() or _plain_avals(f, (*examples, *args))
            if closed.avals is not None:
                return closed
        avals = [*[Aval(a.shape, a.dtype) for a in map(aval_of, examples)], *map(aval_of, self.arrays)]

        def flat(*values: Any) -> Any:
            out = f(*values[:n], *fill(values[n:]))
            return _join(out) if finish is None else finish(out, closed.name)

        held = reads(f)
        at_once = Warning if finish is None else (ShapeError, OutputError)
        try:
            body = stage(flat, avals, closed.name, self.where)
        except at_once:  # refusals, or warnings where warnings are errors
            raise
        except Exception:  # whatever is wrong with it shows when it is called
            places = {id(t): self._place(t) for t in held}
            if places:
                closed.opened = lambda inputs: with_values(f, lambda t: inputs[places[id(t)]])
                closed.captures = True
            if finish is None:
                self._probe(closed, examples)
            return closed
        closed.avals = output_avals(body.program)
        closed.captures = bool(body.captured or held)  # a value without influence is read all the same
        if closed.captures or finish is not None:
            closed.close(body, [*range(known), *[self._place(t) for t in body.captured]])
        return closed

    def _probe(self, closed: Closed, examples: Sequence) -> None:
        if self.arrays or has_tensor(list(examples)):
            return
        try:
            closed([], *examples)
        except CapturedTensorError:
            raise
        except Exception:  # SciPy's to tell
            return


def _plain_avals(f: Callable, args: Sequence) -> list[Aval] | None:
    """Return the avals of what a function returns for plain arguments; None if that is an error, or not arrays."""
    try:
        out = _join(f(*[a.copy() if isinstance(a, np.ndarray) else a for a in args]))
        leaves = out if isinstance(out, tuple) else (out,)
        plain = all([tracer_in(x) is None and np.asarray(x).dtype.kind in "biuf" for x in leaves])
        return [aval_of(x) for x in leaves] if plain else None
    except Exception:  # whatever is wrong with it is said by who calls it next
        return None


def _join(out: Any) -> Any:
    """Return a result as an array, or of a pair (the value and its derivative) both as arrays."""
    pair = isinstance(out, tuple) and any([np.ndim(x) for x in out if not isinstance(x, (list, tuple))])
    return tuple([operand(x) for x in out]) if pair else operand(out)
