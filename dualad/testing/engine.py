"""The engine of all checks: a function at a point, and dualad's derivatives of it, as real vectors and matrices.

`RealFunction` sees a function of trees of arrays as one of a real vector: the floating-point leaves of its arguments
are the inputs, in double precision because differences need the digits; everything else (integers, strings, None) is
held fixed, and a complex leaf counts as two real ones. `Engine` adds the derivatives. `gradcheck`, `check_grads`,
`check_rule`, the laws and `check` ask it for the same products and differ in the oracle. `jvp` and `vjp` are called as
a user calls them, on the function's own trees with complex arrays, float32 and integers as they are, so that dtypes,
layouts and zeros on the way are those of real use; v ↦ Re(ct·v) is the cotangent of a complex array.

Not for judging.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, cast

import numpy as np

from dualad.base.arguments import replace_at
from dualad.base.tree import flatten, is_array, leaf_names
from dualad.core.watch import Watch
from dualad.diagnose.values import Difference, copied, difference
from dualad.errors import ArgumentError, DualadError, GradcheckError, OutputError, ShapeError, UsageError
from dualad.jacobians.call import split_last
from dualad.jacobians.hessian import hvp
from dualad.jacobians.jacobian import jacfwd, jacrev
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp
from dualad.vmap import vmap

__all__ = [
    "Direction", "Engine", "MODES", "RealFunction", "SINGLE", "Side", "argument_names", "as_arguments", "chosen_mode",
    "chosen_modes", "failure", "is_inexact", "is_single", "join_entries", "name_of", "one_line", "refuse_unknown",
    "same",
]  # fmt: skip

#: allowed error of derivatives in single precision, with room for cancellation
SINGLE = 1e-3

MODES = ("forward", "reverse")
_MODE_NAMES = {"forward": "forward", "fwd": "forward", "reverse": "reverse", "rev": "reverse"}


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

    def cut(self, rows: np.ndarray, unit: complex, dtypes: Any) -> list[Any]:
        """Cut a vector, or the rows of a matrix, into one array per leaf; a complex one is x + unit·y."""
        found: dict[int, Any] = {}
        for (position, part), block in zip(self.slots, self.split(rows), strict=True):
            found[position] = block if part == "real" else found[position] + unit * block
        return [np.asarray(x, dtypes[position])[()] for position, x in found.items()]

    def join(
        self, leaves: Sequence[Any], sign: int, what: str, shapes: Any, dtypes: Any, rows: tuple[int, ...]
    ) -> np.ndarray:
        """Join one array per leaf, or a batch of them, of the shapes and dtypes that they must have; undoes `cut`."""
        parts = []
        for position, leaf in zip(self.positions, leaves, strict=True):
            x, shape, dtype = np.asarray(leaf), rows + shapes[position], dtypes[position]
            if x.shape != shape or x.dtype != dtype:
                raise failure(
                    "structure",
                    f"{what} {position} has shape {x.shape} and dtype {x.dtype}; expected {shape} and {dtype}.",
                    "tangents and cotangents have the shapes and dtypes of what they belong to",
                    "look at what your rule returns",
                )
            parts += [x.real, sign * x.imag] if position in self.complex else [x]
        return join_entries(parts, rows, np.float64)

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


class Engine(RealFunction):
    """The transforms of dualad on `f` at `args`, flattened to R^n → R^m; ``lenient`` as a `RealFunction` is.

    With ``double``, floating-point arguments are made double first; otherwise derivatives are taken in their dtypes.
    ``single`` says whether an argument or a result is in single precision, so that derivatives have seven digits only;
    ``pushed_value`` is the function's value as the last `jvp` reported it.

    Examples
    --------
    >>> from dualad.testing.engine import Engine
    >>> Engine(np.square, (np.array([1.0, 3.0]),)).jvp(np.array([1.0, 1.0]))
    array([2., 6.])
    >>> Engine(lambda z: z * z, (1 + 2j,)).jvp(np.array([0.0, 1.0]))  # 2z·i, as real and imaginary part
    array([-4.,  2.])
    """

    def __init__(self, f: Callable, args: Sequence[Any], *, lenient: bool = True, double: bool = False) -> None:
        if double:
            leaves, treedef = flatten(tuple(args))
            wide = lambda x: np.array(x, np.complex128 if np.iscomplexobj(x) else np.float64)[()]
            args = cast(tuple, treedef.unflatten([wide(leaf) if is_inexact(leaf) else leaf for leaf in leaves]))
        super().__init__(f, args, lenient=lenient)
        # Entries of a broadcast array share memory; every other layout stays as it is.
        shared = lambda x: any(s == 0 and n > 1 for s, n in zip(x.strides, x.shape, strict=True))
        self.held = [x.copy() if isinstance(x, np.ndarray) and i in self.ins.positions and shared(x) else x
                     for i, x in enumerate(self.leaves)]  # fmt: skip
        self.in_dtypes = {i: np.asarray(self.leaves[i]).dtype for i in self.ins.positions}
        self.single = any(map(is_single, [*self.in_dtypes.values(), *self.dtypes]))
        self.pull_back: Callable | None = None
        # Known once a derivative was taken: the results' own dtypes and shapes, and forward mode's value.
        self.out_dtypes: dict[int, np.dtype] = {}
        self.output_shapes: list[tuple[int, ...]] = []
        self.absent: list[Any] = []  # a cotangent of nothing: None, and leaves that are no arrays as they are
        self.pushed_value = self.flat_value

    # -- coordinates ----------------------------------------------------------------------------------------------

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments as the user gave them; integer arrays are copies, as a function may write them."""
        own = lambda i, x: x.copy() if isinstance(x, np.ndarray) and i not in self.in_dtypes else x
        return self.unflatten([own(i, x) for i, x in enumerate(self.held)])

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Return the arguments that have these leaves."""
        return self.treedef.unflatten(leaves)

    def tangents(self, v: np.ndarray) -> list[Any]:
        """Cut a vector (or the rows of a matrix) of R^n into one tangent per floating-point leaf, in its dtype."""
        return self.ins.cut(v, 1j, self.in_dtypes)

    def cotangents(self, w: np.ndarray) -> list[Any]:
        """Cut a vector (or the rows of a matrix) of R^m into one cotangent per floating-point output, in its dtype."""
        return self.outs.cut(w, -1j, self.out_dtypes)

    def _of_outputs(self, leaves: Sequence[Any], rows: tuple[int, ...] = ()) -> np.ndarray:
        return self.outs.join(leaves, 1, "the tangent of output", self.output_shapes, self.out_dtypes, rows)

    def _of_inputs(self, leaves: Sequence[Any], rows: tuple[int, ...] = ()) -> np.ndarray:
        shapes = {i: np.shape(self.leaves[i]) for i in self.ins.positions}
        return self.ins.join(leaves, -1, "the cotangent of input", shapes, self.in_dtypes, rows)

    # -- values -----------------------------------------------------------------------------------------------------

    def values(self) -> np.ndarray:
        """Return the function's value as `jvp` and as `vjp` report it, shape (2 m,)."""
        self.jvp(np.zeros(self.size))
        return np.concatenate([self.pushed_value, self.learn()])

    def difference(self) -> Difference | None:
        """Return how the value that `jvp` computes differs from a plain call's, and why it seems so."""
        still = self.unflatten([None] * len(self.leaves))
        under = lambda: jvp(self.f, self.arguments(), still)[0]
        return difference(lambda: self.f(*copied(self.arguments())), under(), under)

    def learn(self) -> np.ndarray:
        """Linearize once for reverse mode; return the value it reports, as a vector of R^m."""
        out, self.pull_back = vjp(self.f, *self.arguments())
        return self._value(out)

    def _value(self, out: Any) -> np.ndarray:
        leaves, treedef = flatten(out)
        seen, plain = f"the result is {treedef}", str(self.out_treedef)
        if treedef == self.out_treedef:
            self.out_dtypes = dict(enumerate([np.asarray(leaf).dtype for leaf in leaves]))
            self.output_shapes = [np.shape(leaf) for leaf in leaves]
            self.absent = [None if is_array(leaf) else leaf for leaf in leaves]
            parts = self._real_outputs([np.asarray(leaf) for leaf in leaves], np)
            shapes, plain_shapes = tuple([p.shape for p in parts]), tuple([v.shape for v in self.value])
            if shapes == plain_shapes:
                return join_entries(parts, dtype=np.float64)
            seen, plain = f"the results have shapes {shapes}", str(plain_shapes)
        raise failure(
            "structure",
            f"{seen} under a derivative and {plain} on plain arrays.",
            "a rule returns the structure and the shapes that its function returns",
            "look at the value that your rule returns",
        )

    # -- derivatives ------------------------------------------------------------------------------------------------

    def jvp(self, v: np.ndarray, absent: Sequence[int] = ()) -> np.ndarray:
        """Return J v; the tangents of inputs in ``absent`` (their numbers among the floating ones) are None."""
        given = replace_at(self.tangents(v), absent, [None] * len(absent))
        return self._of_outputs(self._pushed(given))

    def _pushed(self, given: Sequence[Any], value_too: bool = True) -> list[Any]:
        directions = replace_at([None] * len(self.leaves), self.ins.positions, given)
        out, tangent = jvp(self.f, self.arguments(), self.unflatten(directions))
        if value_too:
            self.pushed_value = self._value(out)
        leaves = flatten(tangent)[0]
        return [leaves[i] for i in self.outs.positions]

    def vjp(self, w: np.ndarray, absent: Sequence[int] = ()) -> np.ndarray:
        """Return Jᵀ w; the cotangents of outputs in ``absent`` (their numbers among the floating ones) are None."""
        if self.pull_back is None:
            self.learn()
        given = replace_at(self.cotangents(w), absent, [None] * len(absent))
        return self._of_inputs(self._pulled(given))

    def _pulled(self, given: Sequence[Any]) -> list[Any]:
        cts = replace_at(self.absent, self.outs.positions, given)
        assert self.pull_back is not None
        leaves = flatten(self.pull_back(self.out_treedef.unflatten(cts)))[0]
        return [leaves[p] for p in self.ins.positions]

    def jacfwd(self) -> np.ndarray:
        """Return the (m, n) Jacobian by forward mode."""
        return self._jacobian(jacfwd)

    def jacrev(self) -> np.ndarray:
        """Return the (m, n) Jacobian by reverse mode."""
        return self._jacobian(jacrev)

    def _jacobian(self, transform: Callable) -> np.ndarray:
        blocks = transform(self, argnums=tuple(range(len(self.point))))(*self.point)
        square = lambda block, y, x: _of_shape(block, y.shape + x.shape).reshape(y.size, x.size)
        rows = zip(blocks, self.value, strict=True)
        return np.block([[square(b, y, x) for b, x in zip(row, self.point, strict=True)] for row, y in rows])

    def hvp(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the Hessian of ``w · f`` times v, shape (n,)."""
        weights = self.outs.split(w)
        found = hvp(lambda leaves: self.scalar(weights, leaves), self.point, self.ins.split(v))
        return join_entries([_of_shape(x, at.shape) for x, at in zip(found, self.point, strict=True)])

    # -- many at once -----------------------------------------------------------------------------------------------

    def vmap_jvp(self, rows: np.ndarray) -> np.ndarray:
        """Return J v for all rows v of a (k, n) matrix at once, by vmap, shape (k, m)."""
        if not self.out_dtypes:
            self.jvp(np.zeros(self.size))
        # What a rule draws is seen where its derivatives are computed again, and not warned of here.
        mapped = vmap(lambda *given: self._pushed(given, value_too=False), randomness="same")
        return self._of_outputs(mapped(*self.tangents(rows)), rows.shape[:1])

    def vmap_vjp(self, rows: np.ndarray) -> np.ndarray:
        """Return Jᵀ w for all rows w of a (k, m) matrix at once, by vmap, shape (k, n)."""
        if self.pull_back is None:
            self.learn()
        mapped = vmap(lambda *given: self._pulled(given), randomness="same")
        return self._of_inputs(mapped(*self.cotangents(rows)), rows.shape[:1])

    def vmap_value(self, points: np.ndarray) -> np.ndarray:
        """Return the values at all rows of a (k, n) matrix at once, by vmap, shape (k, m)."""
        found = vmap(self)(*self.ins.split(points))
        count = len(points)
        return join_entries([_of_shape(x, (count, *y.shape)) for x, y in zip(found, self.value, strict=True)], (count,))

    def entry_groups(self) -> np.ndarray:
        """Return, for each entry of the Jacobian, the number of the block that it is in."""
        return self.outs.groups()[:, None] * len(self.point) + self.ins.groups()

    def going(self, mode: str) -> Direction:
        """Return how derivatives go through the function in a mode."""
        if mode == "forward":
            return Direction("tangent", "input", self.jvp, self.vmap_jvp, self.scale, self.ins, self.outs)
        return Direction("cotangent", "output", self.vjp, self.vmap_vjp, 1.0, self.outs, self.ins)


class Direction(NamedTuple):
    """How derivatives go through a function: forward, tangents of inputs, or in reverse, cotangents of outputs.

    ``product`` takes one vector of ``size`` entries, ``scale`` times ordinary numbers, and which of the arrays in it
    are to be absent; ``batched`` takes many vectors as rows.
    """

    word: str
    owner: str
    product: Callable[..., np.ndarray]
    batched: Callable[[np.ndarray], np.ndarray]
    scale: np.ndarray | float
    source: Side
    target: Side

    @property
    def size(self) -> int:
        """How many entries a vector has."""
        return self.source.size

    def random(self, rng: np.random.Generator, *rows: int) -> np.ndarray:
        """Return a random vector, or a matrix of them by rows."""
        return rng.standard_normal((*rows, self.size)) * self.scale


def chosen_modes(
    modes: str | Sequence[str], forward: bool | None = None, reverse: bool | None = None
) -> tuple[str, ...]:
    """Return the modes asked for by their full names, in a fixed order; none at all is an error."""
    wanted = {chosen_mode(m) for m in ([modes] if isinstance(modes, str) else modes)}
    for mode, switch in (("forward", forward), ("reverse", reverse)):
        if switch is not None:
            wanted = wanted | {mode} if switch else wanted - {mode}
    if not wanted:
        raise failure(
            "modes", "You asked for neither forward nor reverse mode.", "there is nothing to check", "name one"
        )
    return tuple(sorted(wanted))


def chosen_mode(name: str) -> str:
    """Return the full name of one mode."""
    refuse_unknown("mode", [name], _MODE_NAMES)
    return _MODE_NAMES[name]


def refuse_unknown(what: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse names that are not among those known."""
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"You named the {what} {name!r}.", "There is none of this name.", f"Choose from {', '.join(known)}."
            )


def failure(check: str, what: str, why: str = "", instead: str = "", **details: Any) -> GradcheckError:
    """Make the error of a check, with its details as attributes."""
    error = GradcheckError(what, why, instead)
    error.check = check
    for name, value in details.items():
        setattr(error, name, value)
    return error


def is_single(dtype: np.dtype) -> bool:
    """Whether a dtype is floating-point or complex, and narrower than double precision."""
    return dtype.kind in "fc" and np.finfo(dtype).bits < 64


def one_line(error: Exception) -> str:
    """Return an exception's words, in one line."""
    text = error.what if isinstance(error, DualadError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _of_shape(array: Any, shape: tuple[int, ...]) -> np.ndarray:
    if np.shape(array) != shape:
        raise ShapeError(
            f"A derivative came back with shape {np.shape(array)} where {shape} belongs.",
            "This is an error in dualad, or in a rule of your own.",
            "Check the shapes that your custom rules return; otherwise report it.",
        )
    return np.asarray(array, np.float64)


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
    """Return a function's name, or else that of its type."""
    return getattr(f, "__name__", None) or type(f).__name__


def _kinds(leaves: Sequence[Any]) -> str:
    return ", ".join(sorted({type(leaf).__name__ for leaf in leaves})) or "nothing"
