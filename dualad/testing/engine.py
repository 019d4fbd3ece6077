"""The engine of all checks: dualad's derivatives of a function at a point, as real vectors and matrices.

`gradcheck`, `check_grads`, `check_rule`, the laws and `check_function` ask it for the same products and differ in whom
they compare them with. `jvp` and `vjp` are called as a user calls them, on the function's own trees with complex
arrays, float32 and integers as they are, so that dtypes, layouts and zeros on the way are those of real use. The
coordinates are `RealFunction`'s: a complex array counts twice, and v ↦ Re(ct·v) is the cotangent of a complex one.

Not for judging.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dualad.base.arguments import replace_at
from dualad.base.tree import flatten, is_array
from dualad.diagnose.values import Difference, copied, difference
from dualad.errors import ArgumentError, DualadError, GradcheckError, ShapeError
from dualad.jacobians.hessian import hvp
from dualad.jacobians.jacobian import jacfwd, jacrev
from dualad.jvp import jvp
from dualad.vjp_via_transpose import vjp
from dualad.vmap import vmap

from .real_function import RealFunction, Side, is_inexact, join_entries

__all__ = [
    "Direction", "Engine", "MODES", "SINGLE", "chosen_mode", "chosen_modes", "failure", "is_single", "one_line",
    "refuse_unknown",
]  # fmt: skip

#: allowed error of derivatives in single precision, with room for cancellation
SINGLE = 1e-3

MODES = ("forward", "reverse")
_MODE_NAMES = {"forward": "forward", "fwd": "forward", "reverse": "reverse", "rev": "reverse"}


class Engine(RealFunction):
    """The transforms of dualad on `f` at `args`, flattened to R^n → R^m; ``lenient`` as a `RealFunction` is.

    With ``double``, floating-point arguments are made double first; otherwise derivatives are taken in their dtypes.
    ``single`` says whether an argument or a result is in single precision, so that derivatives have seven digits only;
    ``pushed_value`` is the function's value as the last `jvp` reported it.

    Examples
    --------
    >>> import numpy as np
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
        # What is known once a derivative was taken: the results' own dtypes and shapes, and forward mode's value.
        self.out_dtypes: dict[int, np.dtype] = {}
        self.output_shapes: list[tuple[int, ...]] = []
        self.absent: list[Any] = []  # a cotangent of nothing: None, and what is no array as it is
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
        return _cut(self.ins, v, 1j, self.in_dtypes)

    def cotangents(self, w: np.ndarray) -> list[Any]:
        """Cut a vector (or the rows of a matrix) of R^m into one cotangent per floating-point output, in its dtype."""
        return _cut(self.outs, w, -1j, self.out_dtypes)

    def _of_outputs(self, leaves: Sequence[Any], rows: tuple[int, ...] = ()) -> np.ndarray:
        """Join tangents of the outputs, (k, m) of them or (m,), checking shapes and dtypes."""
        return _checked(self.outs, leaves, 1, "the tangent of output", self.output_shapes, self.out_dtypes, rows)

    def _of_inputs(self, leaves: Sequence[Any], rows: tuple[int, ...] = ()) -> np.ndarray:
        """Join cotangents of the inputs, (k, n) of them or (n,), checking shapes and dtypes."""
        shapes = {i: np.shape(self.held[i]) for i in self.ins.positions}
        return _checked(self.ins, leaves, -1, "the cotangent of input", shapes, self.in_dtypes, rows)

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
        """Return a random vector, or so many rows of them."""
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


def _cut(side: Side, rows: np.ndarray, unit: complex, dtypes: Mapping[int, np.dtype]) -> list[Any]:
    """Cut a vector, or the rows of a matrix, into one array per leaf; a complex one is x + unit·y."""
    found: dict[int, Any] = {}
    for (position, part), block in zip(side.slots, side.split(rows), strict=True):
        found[position] = block if part == "real" else found[position] + unit * block
    return [np.asarray(x, dtypes[position])[()] for position, x in found.items()]


def _checked(
    side: Side, leaves: Sequence[Any], sign: int, what: str, shapes: Any, dtypes: Any, rows: tuple[int, ...]
) -> np.ndarray:
    """Join one array (or a batch of them) per leaf, of the shapes and dtypes that they must have."""
    parts = []
    for position, leaf in zip(side.positions, leaves, strict=True):
        x, shape, dtype = np.asarray(leaf), rows + shapes[position], dtypes[position]
        if x.shape != shape or x.dtype != dtype:
            raise failure(
                "structure",
                f"{what} {position} has shape {x.shape} and dtype {x.dtype}; expected {shape} and {dtype}.",
                "tangents and cotangents have the shapes and dtypes of what they belong to",
                "look at what your rule returns",
            )
        parts += [x.real, sign * x.imag] if position in side.complex else [x]
    return join_entries(parts, rows, np.float64)


def _of_shape(array: Any, shape: tuple[int, ...]) -> np.ndarray:
    if np.shape(array) != shape:
        raise ShapeError(
            f"A derivative came back with shape {np.shape(array)} where {shape} belongs.",
            "This is an error in dualad, or in a rule of your own.",
            "Check the shapes that your custom rules return; otherwise report it.",
        )
    return np.asarray(array, np.float64)
