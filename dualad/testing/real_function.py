"""A user's function of trees of arrays, seen as a function of one real vector.

Every check works on this view: floating-point leaves of the arguments are the inputs, everything else (integers,
strings, None) is held fixed; a complex leaf counts as two real ones. Points are float64, whatever they were given as,
because differences need the digits.

Not for derivatives: nothing here differentiates anything.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from dualad.base.tree import flatten, leaf_names
from dualad.core.watch import Watch
from dualad.errors import OutputError, ShapeError, UsageError
from dualad.jacobians.basis import split_last

__all__ = ["RealFunction", "Side", "argument_names", "as_arguments", "is_inexact", "join_entries", "name_of", "same"]


class RealFunction:
    """`f` at `args`, trees with a floating-point leaf at least, as a function of real arrays that returns real arrays.

    A point without floating-point numbers is a UsageError. A function that returns nothing of floating point, or other
    values when it is called again, is an OutputError, but if it is ``lenient``: then ``out_size`` and ``spread`` tell.
    """

    def __init__(self, f: Callable, args: Sequence[Any], *, lenient: bool = False) -> None:
        self.f = f
        self.name = name_of(f)
        self.lenient = lenient
        self.changed = ""
        self.leaves, self.treedef = flatten(tuple(args))
        named = zip(args, argument_names(f, len(args)), strict=True)
        self.ins = Side(self.leaves, [name for arg, parameter in named for name in leaf_names(arg, parameter)])
        if not self.ins.arrays:
            raise UsageError(
                f"You asked for derivatives of {self.name} at a point made of {_kinds(self.leaves)}.",
                "Derivatives are taken with respect to floating-point numbers, and there are none.",
                "Write floats: 1.0 instead of 1, np.array([1.0, 2.0]) instead of np.array([1, 2]).",
            )
        self.point, self.size, self.x = self.ins.arrays, self.ins.size, self.ins.vector
        with np.errstate(all="ignore"):
            self._learn_outputs()

    def _learn_outputs(self) -> None:
        """Call the function twice on plain arrays; remember what it returns."""
        outputs, self.out_treedef = self._flat_call(self.point, np)
        self.dtypes = self.seen_dtypes
        self.outs = Side(outputs, leaf_names(self.out_treedef.unflatten(outputs), "out"))
        if not self.outs.arrays and not self.lenient:
            raise OutputError(
                f"{self.name} returned {_kinds(outputs)} here.",
                "Only floating-point results have derivatives, and there are none.",
                "Return an array of floats, or check another function.",
            )
        self.value, self.out_size, self.flat_value = self.outs.arrays, self.outs.size, self.outs.vector
        again = self.evaluate(self.x)
        steady = same(again, self.flat_value)
        self.spread = float(np.max(np.where(steady, 0.0, np.abs(again - self.flat_value)), initial=0.0))
        if not steady.all() and not self.lenient:
            raise OutputError(
                f"{self.name} returned two different values at one point.",
                "A function that draws random numbers or keeps state has no derivative to compare with.",
                "Pass the random numbers (or the seed) in as an argument.",
            )

    # -- evaluation ---------------------------------------------------------------------------------------------

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Evaluate on real leaves of any array type that NumPy's functions accept: arrays, tensors."""
        return self.on(leaves, np)

    def on(self, leaves: Sequence[Any], xp: Any, f: Callable | None = None) -> tuple[Any, ...]:
        """Evaluate on leaves of the array type that `xp` (NumPy, jax.numpy) makes, perhaps another loading of `f`."""
        outputs, treedef = self._flat_call(leaves, xp, f)
        if len(outputs) <= max(self.outs.positions, default=-1) or treedef.num_leaves != self.out_treedef.num_leaves:
            raise OutputError(
                f"{self.name} returned a tree of {treedef.num_leaves} leaves here and "
                f"{self.out_treedef.num_leaves} on plain arrays.",
                "What comes out may not depend on who calls.",
                "Return the same structure always.",
            )
        return self._real_outputs(outputs, xp)

    def scalar(self, weights: Sequence[Any], leaves: Sequence[Any], xp: Any = np, f: Callable | None = None) -> Any:
        """Evaluate the weighted sum of all outputs: one real number, for second derivatives."""
        outputs = self.on(leaves, xp, f)
        return functools.reduce(operator.add, [xp.sum(w * out) for w, out in zip(weights, outputs, strict=True)])

    def _flat_call(self, leaves: Sequence[Any], xp: Any, f: Callable | None = None) -> tuple[list[Any], Any]:
        # Fresh copies each time: a function may write its arguments, and must not see its own writes.
        full = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in self.leaves]
        for (position, part), leaf in zip(self.ins.slots, leaves, strict=True):
            if isinstance(leaf, np.ndarray):
                leaf = leaf[()] if leaf.shape == () else leaf.copy()
            full[position] = leaf if part == "real" else full[position] + 1j * leaf
        args = self.treedef.unflatten(full)
        # Compiled functions inside are compared with what they were compiled from: nobody looks on where they run.
        plain = all([isinstance(leaf, (np.ndarray, np.generic, float, complex)) for leaf in leaves])
        with Watch().on() if plain else nullcontext():
            outputs, treedef = flatten((self.f if f is None else f)(*args))
        self.seen_dtypes = [getattr(out, "dtype", None) or np.asarray(out).dtype for out in outputs] if xp is np else []
        return outputs, treedef

    def _real_outputs(self, outputs: Sequence[Any], xp: Any) -> tuple[Any, ...]:
        outs = self.outs
        return tuple([getattr(xp, part)(outputs[i]) if i in outs.complex else outputs[i] for i, part in outs.slots])

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """Evaluate on plain arrays: a vector of R^n (or, for a complex step, of C^n) to a vector of R^m (C^m).

        ``changed`` remembers whether the shape, dtype or structure of the result is another than at the point.
        """
        try:
            return self._evaluate(x)
        except (ShapeError, OutputError) as error:
            self.changed = self.changed or error.what
            raise

    def _evaluate(self, x: np.ndarray) -> np.ndarray:
        outputs = self(*self.ins.split(x))
        if not np.iscomplexobj(x) and self.seen_dtypes != self.dtypes:
            at = next(i for i, pair in enumerate(zip(self.dtypes, self.seen_dtypes, strict=True)) if len(set(pair)) > 1)
            raise ShapeError(
                f"output {at} has dtype {self.dtypes[at]} at the point and {self.seen_dtypes[at]} beside it.",
                "Differences compare values of one dtype.",
                "Return the same dtype at every point.",
            )
        parts = []
        for value, at_point, name in zip(outputs, self.value, self.outs.names, strict=True):
            array = np.asarray(value)
            if array.shape != at_point.shape:
                raise ShapeError(
                    f"{name} has shape {at_point.shape} at the point and {array.shape} beside it.",
                    "A result whose shape depends on the values has no derivative.",
                    "Return arrays of one shape.",
                )
            parts.append(array)
        return join_entries(parts)

    @functools.cached_property
    def scale(self) -> np.ndarray:
        """The size of a natural change of each input: its own magnitude, or that of its array, or 1."""
        parts = []
        for leaf in self.point:
            magnitude = np.abs(leaf)
            finite = magnitude[np.isfinite(magnitude)]
            typical = min(1.0, finite.max(initial=0.0)) or 1.0
            parts.append(np.where((magnitude > 1e-12 * typical) & np.isfinite(magnitude), magnitude, typical))
        return join_entries(parts)


class Side:
    """One end of a function: the floating-point leaves of its arguments, or of its result, as one real vector.

    ``positions`` are those of its leaves among all, ``complex`` those that count as two real arrays. Each real array
    has a name (``theta``, ``real(z)``) and a slot: the position of its leaf, and ``"real"`` or ``"imag"``. ``arrays``
    are in double precision; ``vector``, of ``size`` entries, is all of them, one after the other.
    """

    def __init__(self, leaves: Sequence[Any], names: Sequence[str]) -> None:
        self.positions = [i for i, leaf in enumerate(leaves) if is_inexact(leaf)]
        self.complex = {i for i in self.positions if np.iscomplexobj(leaves[i])}
        parts = lambda i: ("real", "imag") if i in self.complex else ("real",)
        self.slots = [(i, part) for i in self.positions for part in parts(i)]
        self.names = [f"{part}({names[i]})" if i in self.complex else names[i] for i, part in self.slots]
        self.arrays = tuple([np.array(getattr(np, part)(leaves[i]), np.float64) for i, part in self.slots])
        self.vector = join_entries(self.arrays)
        self.size = self.vector.size

    def split(self, vectors: np.ndarray) -> tuple[np.ndarray, ...]:
        """Cut a vector, or the rows of a matrix, into arrays of the shapes of these."""
        return tuple(split_last(vectors, self.arrays))

    def groups(self) -> np.ndarray:
        """Return, for each entry of the vector, the number of its array."""
        return np.repeat(np.arange(len(self.arrays)), [a.size for a in self.arrays])

    def apart(self, vector: np.ndarray) -> np.ndarray:
        """Return one row per array: the vector with zeros in the others."""
        groups = self.groups()
        return np.stack([np.where(groups == g, vector, 0.0) for g in np.unique(groups)])

    def label(self, k: int) -> str:
        """Name the k-th entry of the vector: ``theta[2]``, ``out[0, 1]``."""
        group = int(self.groups()[k])
        entry = k - sum(a.size for a in self.arrays[:group])
        index = ", ".join(str(int(i)) for i in np.unravel_index(entry, self.arrays[group].shape))
        return f"{self.names[group]}[{index}]" if index else self.names[group]

    def leaf_of(self, k: int) -> tuple[int, str]:
        """Return which of all leaves the k-th entry belongs to, and which part of it if it is complex."""
        position, part = self.slots[int(self.groups()[k])]
        return position, {"real": "real", "imag": "imaginary"}[part] if position in self.complex else ""


def join_entries(arrays: Sequence[Any], rows: tuple[int, ...] = (), dtype: Any = None) -> np.ndarray:
    """Return the entries of arrays as one vector or, of arrays with a leading axis for them, as rows."""
    flat = [np.asarray(a, dtype).reshape(*rows, -1) for a in arrays]
    return np.concatenate(flat, axis=-1) if flat else np.zeros((*rows, 0))


def is_inexact(leaf: Any) -> bool:
    """Whether a leaf is floating-point data: an array or a number, not a string, an int or an object."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "fc"
    return isinstance(leaf, (float, complex))


def as_arguments(args: Any) -> tuple[Any, ...]:
    """Return positional arguments as a tuple, of one that was given alone too."""
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


def argument_names(f: Callable, count: int) -> list[str]:
    """Return the names of the positional parameters, or ``arg0``, ``arg1`` where there are none."""
    fallback = [f"arg{i}" for i in range(count)]
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return fallback
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (positional + fallback[len(positional) :])[:count]


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Say which entries are the same; NaN is NaN."""
    return (a == b) | (np.isnan(a) & np.isnan(b))


def name_of(f: Callable) -> str:
    """Return what a function is called, or else what it is."""
    return getattr(f, "__name__", None) or type(f).__name__


def _kinds(leaves: Sequence[Any]) -> str:
    return ", ".join(sorted({type(leaf).__name__ for leaf in leaves})) or "nothing"
