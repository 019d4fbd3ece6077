"""A user's function of trees of arrays, seen as a function of one real vector.

Every check works on this view: floating-point leaves of the arguments are the inputs, everything else (integers,
strings, None) is held fixed; a complex leaf counts as two real ones. Points are float64, whatever they were given as,
because differences need the digits.

Not for derivatives: nothing here differentiates anything.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualad.errors import OutputError, ShapeError, UsageError
from dualad.tree import flatten, leaf_names

__all__ = ["RealFunction", "argument_names", "cut"]


class RealFunction:
    """`f` at `args`, as a function of real arrays that returns real arrays.

    Parameters
    ----------
    f : callable
        The function; it is called with trees shaped like `args`.
    args : sequence
        Its positional arguments: trees of arrays, at least one of them with a floating-point leaf.
    lenient : bool
        Whether a function that returns nothing of floating point, or other values when it is called again, is accepted;
        the attributes ``out_size`` and ``spread`` tell.

    Raises
    ------
    UsageError
        When no argument has a floating-point leaf.
    OutputError
        When the function returns nothing of floating point, or is not deterministic.
    """

    def __init__(self, f: Callable, args: Sequence[Any], *, lenient: bool = False) -> None:
        self.f = f
        self.lenient = lenient
        self.args = tuple(args)
        leaves, self.treedef = flatten(self.args)
        names = [
            name
            for arg, parameter in zip(self.args, argument_names(f, len(self.args)), strict=True)
            for name in leaf_names(arg, parameter)
        ]
        self.leaves = leaves
        self.slots: list[tuple[int, str]] = []  # position among the leaves, and "re" or "im"
        point: list[np.ndarray] = []
        self.input_names: list[str] = []
        for position, (leaf, name) in enumerate(zip(leaves, names, strict=True)):
            if not _is_inexact(leaf):
                continue
            value = np.asarray(leaf)
            if np.iscomplexobj(value):
                self.slots += [(position, "re"), (position, "im")]
                point += [np.array(value.real, np.float64), np.array(value.imag, np.float64)]
                self.input_names += [f"real({name})", f"imag({name})"]
            else:
                self.slots.append((position, "re"))
                point.append(np.array(value, np.float64))
                self.input_names.append(name)
        if not point:
            kinds = ", ".join(sorted({type(leaf).__name__ for leaf in leaves})) or "nothing"
            raise UsageError(
                f"You asked for derivatives of {_name(f)} at a point made of {kinds}.",
                "Derivatives are taken with respect to floating-point numbers, and there are none.",
                "Write floats: 1.0 instead of 1, np.array([1.0, 2.0]) instead of np.array([1, 2]).",
            )
        self.point = tuple(point)
        self.shapes = tuple(leaf.shape for leaf in point)
        self.size = sum(leaf.size for leaf in point)
        self.has_complex_input = any(part == "im" for _, part in self.slots)
        with np.errstate(all="ignore"):
            self._learn_outputs()

    def _learn_outputs(self) -> None:
        """Call the function twice on plain arrays; remember what it returns."""
        outputs, self.out_treedef = self._flat_call(self.point, np)
        self.active_outputs = [i for i, leaf in enumerate(outputs) if _is_inexact(leaf)]
        self.complex_outputs = [i for i in self.active_outputs if np.iscomplexobj(np.asarray(outputs[i]))]
        if not self.active_outputs and not self.lenient:
            kinds = ", ".join(sorted({type(leaf).__name__ for leaf in outputs})) or "nothing"
            raise OutputError(
                f"{_name(self.f)} returned {kinds} here.",
                "Only floating-point results have derivatives, and there are none.",
                "Return an array of floats, or check another function.",
            )
        names = leaf_names(self.out_treedef.unflatten(outputs), "out")
        self.output_names: list[str] = []
        self.out_slots: list[tuple[int, str]] = []  # number of the result, and "re" or "im"
        for i in self.active_outputs:
            two = i in self.complex_outputs
            self.out_slots += [(i, "re"), (i, "im")] if two else [(i, "re")]
            self.output_names += [f"real({names[i]})", f"imag({names[i]})"] if two else [names[i]]
        values = self._real_outputs(outputs, np)
        self.value = tuple(np.array(v, np.float64) for v in values)
        self.out_shapes = tuple(v.shape for v in self.value)
        self.out_size = sum(v.size for v in self.value)
        again = self.evaluate(self.x)
        same = (again == self.flat_value) | (np.isnan(again) & np.isnan(self.flat_value))
        self.spread = float(np.max(np.where(same, 0.0, np.abs(again - self.flat_value)), initial=0.0))
        if not same.all() and not self.lenient:
            raise OutputError(
                f"{_name(self.f)} returned two different values at one point.",
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
        if len(outputs) <= max(self.active_outputs, default=-1) or treedef.num_leaves != self.out_treedef.num_leaves:
            raise OutputError(
                f"{_name(self.f)} returned a tree of {treedef.num_leaves} leaves here and "
                f"{self.out_treedef.num_leaves} on plain arrays.",
                "What comes out may not depend on who calls.",
                "Return the same structure always.",
            )
        return self._real_outputs(outputs, xp)

    def scalar(self, weights: Sequence[Any], leaves: Sequence[Any], xp: Any = np, f: Callable | None = None) -> Any:
        """Evaluate the weighted sum of all outputs: one real number, for second derivatives."""
        outputs = self.on(leaves, xp, f)
        terms = [xp.sum(w * out) for w, out in zip(weights, outputs, strict=True)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    def _flat_call(self, leaves: Sequence[Any], xp: Any, f: Callable | None = None) -> tuple[list[Any], Any]:
        # Fresh copies each time: a function may write its arguments, and must not see its own writes.
        full = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in self.leaves]
        for (position, part), leaf in zip(self.slots, leaves, strict=True):
            if isinstance(leaf, np.ndarray):
                leaf = leaf[()] if leaf.shape == () else leaf.copy()
            full[position] = leaf if part == "re" else full[position] + 1j * leaf
        args = self.treedef.unflatten(full)
        return flatten((self.f if f is None else f)(*args))

    def _real_outputs(self, outputs: Sequence[Any], xp: Any) -> tuple[Any, ...]:
        take = {"re": xp.real, "im": xp.imag}
        return tuple([take[p](outputs[i]) if i in self.complex_outputs else outputs[i] for i, p in self.out_slots])

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """Evaluate on plain arrays: a vector of R^n (or, for a complex step, of C^n) to a vector of R^m (C^m)."""
        outputs = self(*self.split(x))
        parts = []
        for value, shape, name in zip(outputs, self.out_shapes, self.output_names, strict=True):
            array = np.asarray(value)
            if array.shape != shape:
                raise ShapeError(
                    f"{name} has shape {shape} at the point and {array.shape} beside it.",
                    "A result whose shape depends on the values has no derivative.",
                    "Return arrays of one shape.",
                )
            parts.append(array.ravel())
        return self.join(parts)

    # -- vectors and their parts --------------------------------------------------------------------------------

    @property
    def x(self) -> np.ndarray:
        """The point as one vector of R^n."""
        return self.join(self.point)

    @property
    def flat_value(self) -> np.ndarray:
        """The value at the point as one vector of R^m."""
        return self.join(self.value)

    @property
    def scale(self) -> np.ndarray:
        """The size of a natural change of each input: its own magnitude, or that of its array, or 1."""
        parts = []
        for leaf in self.point:
            magnitude = np.abs(leaf).ravel()
            finite = magnitude[np.isfinite(magnitude)]
            typical = min(1.0, finite.max(initial=0.0)) or 1.0
            parts.append(np.where((magnitude > 1e-12 * typical) & np.isfinite(magnitude), magnitude, typical))
        return self.join(parts)

    @staticmethod
    def join(leaves: Sequence[Any]) -> np.ndarray:
        """Flatten leaves to one vector."""
        return np.concatenate([np.asarray(leaf).ravel() for leaf in leaves]) if leaves else np.zeros(0)

    def split(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Cut a vector of R^n into leaves."""
        return cut(x, self.shapes)

    def split_out(self, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Cut a vector of R^m into output leaves."""
        return cut(y, self.out_shapes)

    def input_groups(self) -> np.ndarray:
        """Return, for each entry of the input vector, the number of its array."""
        return _groups(self.shapes)

    def output_groups(self) -> np.ndarray:
        """Return, for each entry of the output vector, the number of its array."""
        return _groups(self.out_shapes)

    def input_label(self, k: int) -> str:
        """Name the k-th entry of the input vector: ``theta[2]``."""
        return _label(k, self.shapes, self.input_names)

    def output_label(self, k: int) -> str:
        """Name the k-th entry of the output vector: ``out[0, 1]``."""
        return _label(k, self.out_shapes, self.output_names)


def cut(vectors: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, ...]:
    """Cut a vector, or the rows of a matrix, into arrays of these shapes, one after the other."""
    parts, start, rows = [], 0, vectors.shape[:-1]
    for shape in shapes:
        size = math.prod(shape)
        parts.append(vectors[..., start : start + size].reshape(rows + shape))
        start += size
    return tuple(parts)


def _groups(shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.repeat(np.arange(len(shapes)), [math.prod(shape) for shape in shapes])


def _label(k: int, shapes: Sequence[tuple[int, ...]], names: Sequence[str]) -> str:
    for shape, name in zip(shapes, names, strict=True):
        size = math.prod(shape)
        if k < size:
            index = ", ".join(str(int(i)) for i in np.unravel_index(k, shape)) if shape else ""
            return f"{name}[{index}]" if index else name
        k -= size
    raise IndexError(k)


def _is_inexact(leaf: Any) -> bool:
    """Say whether a leaf is floating-point data: an array or a number, not a string, an int or an object."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "fc"
    return isinstance(leaf, (float, complex))


def argument_names(f: Callable, count: int) -> list[str]:
    """Return the names of the positional parameters, or ``arg0``, ``arg1`` where there are none."""
    fallback = [f"arg{i}" for i in range(count)]
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return fallback
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (positional + fallback[len(positional) :])[:count]


def _name(f: Callable) -> str:
    return getattr(f, "__name__", None) or type(f).__name__
