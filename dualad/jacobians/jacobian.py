"""Whole Jacobians: ``jacfwd``, ``jacrev``, ``jacobian``, and their values beside them.

Made only of transforms: a Jacobian is ``vmap`` of ``jvp`` (or of the pullback) over a basis. The primal is not mapped,
so every transcendental of the function runs once, and only tangent arithmetic carries the extra axis.
Not for: second derivatives (``hessian.py``), sparse Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.selection import Selection, select
from ..base.signatures import Args, Out
from ..base.tree import LeafName, flatten, flatten_result, is_array, is_picklable, with_structures
from ..batched import Batched
from ..boundary.transformed import Transformed, importable_name, named, reduced, transform
from ..core.aval import Aval, aval_of, is_inexact
from ..core.constants import foreign
from ..errors import ArgumentError, DtypeError, OutputError
from ..jvp import jvp, without_value
from ..tensors.chunks import check_chunks, refuse_traced
from ..transforms.linearize import Linear, Linearization, stage_tangents
from ..vjp_via_transpose import Pullback, check_differentiable, vjp
from ..vmap import vmap
from .basis import OverBasis, join, over_basis, share_out, slices_of, split_last, standard_basis

__all__ = [
    "check_inexact", "choose", "forward", "jacfwd", "jacobian", "jacrev", "like_chosen", "reverse", "value_and_jacfwd",
    "value_and_jacobian", "value_and_jacrev",
]  # fmt: skip


@transform
def jacfwd(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None,
) -> Callable[Args, Any]:  # fmt: skip
    """Make the Jacobian function of ``f``, column by column in one batched forward pass.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.
    argnums, argnames
        Which arguments to differentiate, as for :func:`dualad.grad`.
    has_aux : bool
        Whether ``f`` returns ``(out, aux)``; then the result is ``(jacobian, aux)``.
    holomorphic : bool
        Required for complex arguments: states that ``f`` is complex-differentiable.
    chunk_size : int, optional
        How many columns to compute at a time; all by default. Smaller chunks take less memory and run ``f`` once per
        chunk.
    max_memory : int, optional
        About how many bytes to use at a time, in place of ``chunk_size``: the first columns are measured.
    executor : Executor, optional
        Whose workers compute the columns, as for :func:`dualad.vmap`; without ``chunk_size`` there is one chunk a
        worker. ``f`` is sent to them and runs once per chunk, as it does here. With more chunks than workers, or if
        ``f`` can't be sent or is larger than 64 MB, ``f`` is linearized here, once, and its linear program is sent.

    Returns
    -------
    callable
        A function of the same arguments. The result has the structure of the output outside and of the arguments
        inside; each leaf has shape ``out.shape + in.shape`` and the output's dtype.

    Raises
    ------
    DtypeError
        If an argument to differentiate is an integer, or complex without ``holomorphic``.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.jacfwd(lambda x: np.sin(x) * x[0])(np.array([1.0, 0.0]))
    array([[1.38177329, 0.        ],
           [0.        , 1.        ]])
    """
    options = (argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor)
    return without_value(_whole(forward, f, options, "jacfwd"), f, "jacfwd", has_aux)


@transform
def value_and_jacfwd(
    f: Callable[Args, Out], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None,
) -> Callable[Args, tuple[Out, Any]]:  # fmt: skip
    """Make a function that returns the value of ``f`` and its Jacobian, by forward mode.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor
        As for :func:`jacfwd`.

    Returns
    -------
    callable
        A function of the same arguments that returns ``(value, jacobian)``; with ``has_aux``,
        ``((value, aux), jacobian)``.

    Raises
    ------
    DtypeError
        As for :func:`jacfwd`.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> value, jacobian = da.value_and_jacfwd(lambda x: x**2)(np.array([1.0, 3.0]))
    >>> value, jacobian.diagonal()
    (array([1., 9.]), array([2., 6.]))
    """
    options = (argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor)
    return Transformed(_whole(forward, f, options, "value_and_jacfwd"), f, "value_and_jacfwd")


def _whole(compute: Callable, f: Callable, options: tuple, where: str) -> Callable:
    """Make the function that gives ``(value, jacobian)``, or with ``has_aux`` ``((value, aux), jacobian)``."""
    check_callable(f, where)
    check_chunks(options[4], options[5], where, options[6])

    def value_and_jacobian(*args, **kwargs):
        value, blocks, aux = compute(f, args, kwargs, options, where)
        return ((value, aux) if options[2] else value), blocks

    return value_and_jacobian


def forward(f: Callable, args: tuple, kwargs: dict, options: tuple, where: str) -> tuple[Any, Any, Any]:
    """Return value, Jacobian and auxiliary output by forward mode."""
    argnums, argnames, has_aux, holomorphic, *chunks = options
    selection = choose(f, args, kwargs, argnums, argnames, holomorphic, where)
    leaves, in_tree = flatten(selection.chosen)
    refuse_traced((args, kwargs), chunks[2], where)
    call = (f, args, kwargs, argnums, argnames, has_aux)
    staged: list = []

    def by_program() -> OverBasis:
        staged[:] = stage_tangents(selection.function, selection.chosen, has_aux, where)
        return OverBasis(_Pushed(staged[1].linear()), real, likes)

    real = [aval_of(x) for x in leaves if is_array(x)]
    likes = [foreign(x) for x in leaves if is_array(x)]
    job = _Columns(call, selection, where)
    parts = share_out(job, sum([a.size for a in real]), chunks, where, f, by_program, anew=True)
    columns = join([p.columns if type(p) is _Some else p for p in parts])
    if type(parts[0]) is _Some:
        out_tree, (value, aux) = parts[0].out_tree, parts[0].beside(selection, has_aux)
    else:
        value, stage = staged
        aux, out_tree = stage.aux, stage.out_tree
    check_inexact([aval_of(v).dtype for v in flatten_result(value)[0]], lambda: out_tree.unflatten(columns), where)
    parts = [split_last(np.moveaxis(c, 0, -1), real) for c in columns]
    return value, _arrange(parts, out_tree, leaves, in_tree, selection), aux


class _Columns:
    """The columns of a Jacobian by forward mode, some at a time."""

    def __init__(self, call: tuple, selection: Selection | None, where: str) -> None:
        self.call, self.where, self.selection = call, where, selection

    def __reduce__(self):
        return _Columns, (self.call, None, self.where)

    def __call__(self, start: int, stop: int) -> _Some:
        f, args, kwargs, argnums, argnames, has_aux = self.call
        selection = self.selection or select(f, args, kwargs, argnums, argnames, self.where)
        leaves, in_tree = flatten(selection.chosen)
        mapped = [is_array(x) for x in leaves]
        kept: dict[str, Any] = {}

        def push(*tangents):
            moving = iter(tangents)
            directions = optree.tree_unflatten(in_tree, [next(moving) if m else None for m in mapped])
            value, tangent, *aux = jvp(selection.function, selection.chosen, tuple(directions), has_aux=has_aux)
            columns, kept["out_tree"] = flatten_result(tangent)
            known, kept["known_tree"] = flatten_result((value, aux))
            # The value is the same for all columns. An operator that computes it together with its tangent gives it
            # the batch axis all the same; then it comes out with the columns.
            kept["known"] = [None if isinstance(x, Batched) else x for x in known]
            return columns, [x for x in known if isinstance(x, Batched)]

        likes = [foreign(x) for x in leaves if is_array(x)]
        basis = standard_basis([aval_of(x) for x in leaves if is_array(x)], start, stop, likes)
        columns, batched = vmap(push, randomness="same")(*basis)
        if batched and start == stop:  # arguments without entries: there is no column for the value to come out with
            return _Some(start, columns, kept["out_tree"], None)
        rest = iter(batched)
        known = [next(rest)[0] if x is None else x for x in kept["known"]]
        beside: Any = optree.tree_unflatten(kept["known_tree"], known)
        return _Some(start, columns, kept["out_tree"], beside)


class _Some:
    """Some columns, and the value and the auxiliary output beside them, which travel with the first, if they can."""

    def __init__(self, start: int, columns: list, out_tree: optree.PyTreeSpec, known: tuple | None) -> None:
        self.start, self.columns, self.out_tree, self.known = start, columns, out_tree, known

    def __reduce__(self):
        known = self.known if self.start == 0 and is_picklable(self.known) else None
        return with_structures(_Some, (self.start, self.columns, self.out_tree, known), self.out_tree)

    def beside(self, selection: Selection, has_aux: bool) -> tuple[Any, Any]:
        """Return the value and the auxiliary output."""
        if self.known is None:
            out = selection.function(*selection.chosen)
            return out if has_aux else (out, None)
        value, aux = self.known
        return value, aux[0] if has_aux else None


def check_inexact(dtypes: Sequence[np.dtype], out: Callable[[], Any], where: str) -> None:
    """Refuse results that have no derivative, by their names in the tree that ``out()`` returns."""
    for i, dtype in enumerate(dtypes):
        if not is_inexact(dtype):
            raise OutputError(
                f"{where}: {LeafName(out(), 'output', i)} has dtype {dtype}.",
                "integers and booleans have no derivative",
                "return it through has_aux=True, or convert it to float",
            )


def _arrange(parts: list[list], out_tree, leaves: list, in_tree, selection: Selection) -> Any:
    """Arrange blocks of shape out + in, a list for each leaf of the output: the output outside, the arguments in it."""
    return optree.tree_unflatten(out_tree, [like_chosen(line, leaves, in_tree, selection) for line in parts])


def like_chosen(values: Sequence, leaves: list, tree, selection: Selection) -> Any:
    """Return values in the places of the arrays among the chosen arguments, whose leaves and tree these are."""
    rest = iter(values)
    return selection.arrange(optree.tree_unflatten(tree, [next(rest) if is_array(x) else x for x in leaves]))


@transform
def jacrev(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None,
) -> Callable[Args, Any]:  # fmt: skip
    """Make the Jacobian function of ``f``, row by row in one batched reverse pass.

    Parameters
    ----------
    f, argnums, argnames, has_aux
        As for :func:`jacfwd`.
    holomorphic : bool
        Required for complex outputs: states that ``f`` is complex-differentiable.
    chunk_size, max_memory : int, optional
        How many rows, or about how many bytes, to compute at a time; all by default. ``f`` runs once in any case.
    executor : Executor, optional
        As for :func:`jacfwd`, but ``f`` is linearized here in any case, and its linear program is sent (where it is
        larger than 64 MB, ``f`` is, and each worker linearizes it).

    Returns
    -------
    callable
        As for :func:`jacfwd`, but with the arguments' dtype in each leaf.

    Raises
    ------
    DtypeError
        If an argument to differentiate is an integer or boolean.
    OutputError
        If an output is complex, without ``holomorphic``.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.jacrev(lambda x: x[1:] * x[0])(np.array([2.0, 3.0, 4.0]))
    array([[3., 2., 0.],
           [4., 0., 2.]])
    """
    options = (argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor)
    return without_value(_whole(reverse, f, options, "jacrev"), f, "jacrev", has_aux)


@transform
def value_and_jacrev(
    f: Callable[Args, Out], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None,
) -> Callable[Args, tuple[Out, Any]]:  # fmt: skip
    """Make a function that returns the value of ``f`` and its Jacobian, by reverse mode.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor
        As for :func:`jacrev`.

    Returns
    -------
    callable
        A function of the same arguments that returns ``(value, jacobian)``; with ``has_aux``,
        ``((value, aux), jacobian)``.

    Raises
    ------
    DtypeError, OutputError
        As for :func:`jacrev`.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.value_and_jacrev(lambda x: x[:1] * x[1])(np.array([2.0, 3.0]))
    (array([6.]), array([[3., 2.]]))
    """
    options = (argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor)
    return Transformed(_whole(reverse, f, options, "value_and_jacrev"), f, "value_and_jacrev")


def reverse(f: Callable, args: tuple, kwargs: dict, options: tuple, where: str) -> tuple[Any, Any, Any]:
    """Return value, Jacobian and auxiliary output by reverse mode."""
    argnums, argnames, has_aux, holomorphic, *chunks = options
    selection = choose(f, args, kwargs, argnums, argnames, holomorphic, where, "reverse")
    refuse_traced((args, kwargs), chunks[2], where)
    out, pull, *aux = vjp(selection.function, *selection.chosen, has_aux=has_aux)
    call = (f, args, kwargs, argnums, argnames, has_aux)
    return out, _rows(selection, out, pull, holomorphic, chunks, where, call), aux[0] if has_aux else None


def _rows(
    selection: Selection, out: Any, pull: Pullback, holomorphic: bool, chunks: Sequence, where: str, call: tuple
) -> Any:
    """Pull the standard basis of the output back, and arrange the rows as blocks of shape out + in."""
    out_leaves, out_tree = flatten_result(out)
    avals = [aval_of(x) for x in out_leaves]
    for i, a in enumerate(avals):
        if not is_inexact(a.dtype) or (a.dtype.kind == "c" and not holomorphic):
            raise OutputError(
                f"{where}: {LeafName(out, 'output', i)} has dtype {a.dtype}.",
                "integers have no derivative, and the derivative of a complex number is not one row",
                "return it through has_aux=True, take its real and imaginary parts, or pass holomorphic=True if the"
                " function is complex-differentiable",
            )
    in_leaves, in_tree = flatten(selection.chosen)
    likes = [foreign(x) for x in out_leaves]
    again = None if chunks[2] is None else _Again(call, where, forward=False)
    rows = over_basis(_Pulled(pull), avals, chunks, where, again, "rows", likes) if avals else []
    parts = [
        [r[at].reshape(a.shape + r.shape[1:]) for r in rows] for a, at in zip(avals, slices_of(avals), strict=True)
    ]
    return _arrange(parts, out_tree, in_leaves, in_tree, selection)


# ── forward or reverse ───────────────────────────────────────────────────────────────────────────────────────────


class jacobian:
    """The Jacobian function of ``f``, by forward or reverse mode, whichever needs fewer passes.

    ``f`` is linearized once. Its linear program is then pushed forward over the columns, or walked backwards over the
    rows: sizes decide, and are known by then.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.
    argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor
        As for :func:`jacfwd`.
    mode : {"auto", "forward", "reverse"}
        ``"auto"`` chooses.

    Raises
    ------
    ArgumentError
        For another mode.
    DtypeError
        If an argument to differentiate is an integer, or complex without ``holomorphic``.
    OutputError
        In reverse mode, if an output is complex, without ``holomorphic``.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> jac = da.jacobian(lambda x: x[:1] * x[1])
    >>> jac(np.array([2.0, 3.0, 4.0]))
    array([[3., 2., 0.]])
    >>> jac.explain(np.array([2.0, 3.0, 4.0]))
    'reverse: 1 row is fewer than 3 columns'
    """

    def __init__(
        self, f: Callable, argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
        has_aux: bool = False, holomorphic: bool = False, mode: str = "auto", chunk_size: int | None = None,
        max_memory: int | None = None, executor: Any = None,
    ) -> None:  # fmt: skip
        check_callable(f, "jacobian")
        check_chunks(chunk_size, max_memory, "jacobian", executor)
        if mode not in ("auto", "forward", "reverse"):
            raise ArgumentError(f"jacobian: mode={mode!r}.", "there are two ways", "use 'auto', 'forward' or 'reverse'")
        self._f, self._selected, self._mode = f, (argnums, argnames), mode
        self._has_aux, self._holomorphic = has_aux, holomorphic
        self._chunks = (chunk_size, max_memory, executor)
        named(self, f, "jacobian")

    @public
    def __call__(self, *args, **kwargs):
        """Return the Jacobian, arranged as by :func:`jacfwd`; with ``has_aux``, ``(jacobian, aux)``."""
        _, blocks, aux = self._computed(args, kwargs)
        return (blocks, aux) if self._has_aux else blocks

    def __reduce__(self):
        return importable_name(self) or reduced(self)

    def _computed(self, args: tuple, kwargs: dict) -> tuple[Any, Any, Any]:
        selection, out, stage = self._linearize_at(args, kwargs)
        refuse_traced((args, kwargs), self._chunks[2], "jacobian")
        call = (self._f, args, kwargs, *self._selected, self._has_aux)
        if self._choice(stage)[0] == "forward":
            return out, _columns(selection, out, stage, self._chunks, "jacobian", call), stage.aux
        pull = Pullback(stage, selection.chosen)
        return out, _rows(selection, out, pull, self._holomorphic, self._chunks, "jacobian", call), stage.aux

    def explain(self, *args, **kwargs) -> str:
        """Say which mode these arguments lead to, and why; ``f`` runs once.

        Parameters
        ----------
        *args, **kwargs
            Arguments of ``f``.

        Returns
        -------
        str
            The mode and the reason.
        """
        _, _, stage = self._linearize_at(args, kwargs)
        return ": ".join(self._choice(stage))

    def _linearize_at(self, args: tuple, kwargs: dict) -> tuple[Selection, Any, Linearization]:
        selection = choose(self._f, args, kwargs, *self._selected, self._holomorphic, "jacobian", self._mode)
        out, stage = stage_tangents(selection.function, selection.chosen, self._has_aux, "jacobian")
        return selection, out, stage

    def _choice(self, stage: Linearization) -> tuple[str, str]:
        columns = sum(a.size for a in stage.in_avals if a is not None)
        rows = sum(a.size for a in stage.out_avals)
        if self._mode != "auto":
            return self._mode, "as asked"
        if not self._holomorphic and any(a is not None and a.dtype.kind == "c" for a in stage.in_avals):
            return "reverse", "the arguments are complex, and the function is not declared holomorphic"
        if columns <= rows:
            return "forward", f"{_count(columns, 'column')} no more than {rows} row{'s' * (rows != 1)}"
        return "reverse", f"{_count(rows, 'row')} fewer than {columns} column{'s' * (columns != 1)}"


def _columns(selection: Selection, out: Any, stage: Linearization, chunks: Sequence, where: str, call: tuple) -> Any:
    """Push the standard basis of the arguments forward, and arrange the columns as blocks of shape out + in."""
    check_inexact([a.dtype for a in stage.out_avals], lambda: out, where)
    leaves, in_tree = flatten(selection.chosen)
    real = [a for a in stage.in_avals if a is not None]
    again = None if chunks[2] is None else _Again(call, where, forward=True)
    columns = over_basis(_Pushed(stage.linear()), real, chunks, where, again, likes=stage.foreign)
    parts = [split_last(np.moveaxis(c, 0, -1), real) for c in columns]
    return _arrange(parts, stage.out_tree, leaves, in_tree, selection)


@transform
def value_and_jacobian(f: Callable[Args, Out], *options: Any, **named_options: Any) -> Callable[Args, tuple[Out, Any]]:
    """Make a function that returns the value of ``f`` and its Jacobian, by the mode that needs fewer passes.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.
    *options, **named_options
        As of :class:`jacobian`.

    Returns
    -------
    callable
        A function of the same arguments that returns ``(value, jacobian)``; with ``has_aux``,
        ``((value, aux), jacobian)``.

    Raises
    ------
    ArgumentError, DtypeError, OutputError
        As for :func:`jacobian`.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> da.value_and_jacobian(lambda x: x[:1] * x[1])(np.array([2.0, 3.0]))
    (array([6.]), array([[3., 2.]]))
    """
    computed = jacobian(f, *options, **named_options)

    def both(*args, **kwargs):
        value, blocks, aux = computed._computed(args, kwargs)
        return ((value, aux) if computed._has_aux else value), blocks

    return Transformed(both, f, "value_and_jacobian")


def _count(n: int, what: str) -> str:
    return f"{n} {what} is" if n == 1 else f"{n} {what}s are"


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Pushed:
    """A linear map on the tangents of the leaves that have one: the leaves of its result."""

    def __init__(self, lin: Linear) -> None:
        self.lin = lin

    def __call__(self, *tangents) -> list:
        moving = iter(tangents)
        directions = [None if a is None else next(moving) for a in self.lin.in_avals]
        return flatten_result(self.lin(*optree.tree_unflatten(self.lin._in_tree, directions)))[0]


class _Pulled:
    """A pullback on the cotangents of a function's results: the leaves that are arrays."""

    def __init__(self, pull: Pullback) -> None:
        self.pull = pull

    def __call__(self, *cts) -> list:
        given = flatten(self.pull(optree.tree_unflatten(self.pull._stage.out_tree, cts)))[0]
        return [r for r, x in zip(given, self.pull._leaves, strict=True) if type(x) is Aval]


class _Again:
    """What linearizes a function where it is called, for workers that its linear program is too large to be sent to."""

    def __init__(self, call: tuple, where: str, forward: bool) -> None:
        self.call, self.where, self.forward, self.function = call, where, forward, call[0]
        self.found: Callable | None = None

    def __call__(self, *vectors) -> list:
        if self.found is None:
            f, args, kwargs, argnums, argnames, has_aux = self.call
            selection = select(f, args, kwargs, argnums, argnames, self.where)
            _, stage = stage_tangents(selection.function, selection.chosen, has_aux, self.where)
            self.found = _Pushed(stage.linear()) if self.forward else _Pulled(Pullback(stage, selection.chosen))
        return self.found(*vectors)


def choose(
    f: Callable, args: tuple, kwargs: dict, argnums, argnames, holomorphic: bool, where: str, mode: str = "forward"
) -> Selection:
    """Choose arguments, refusing those without a derivative; forward, complex ones too if ``f`` is not holomorphic."""
    selection = select(f, args, kwargs, argnums, argnames, where)
    for x, name in zip(selection.chosen, selection.names, strict=True):
        check_differentiable(x, name, holomorphic, where)
        if mode != "forward" or holomorphic:
            continue
        for i, leaf in enumerate(flatten(x)[0]):
            if is_array(leaf) and aval_of(leaf).dtype.kind == "c":
                raise DtypeError(
                    f"{where}: {LeafName(x, name, i)} is complex.",
                    "a function of a complex number has two real directions, and one column can't hold both",
                    "pass holomorphic=True if the function is complex-differentiable, or differentiate in real and"
                    " imaginary parts",
                )
    return selection
