"""Whole Jacobians: ``jacfwd``, ``jacrev``, ``jacobian``, and their values beside them.

Made only of transforms: a Jacobian is ``vmap`` of ``jvp`` (or of the pullback) over a basis. The primal is not mapped,
so every transcendental of the function runs once, and only tangent arithmetic carries the extra axis.
Not for: second derivatives (``hessian.py``), sparse Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.signatures import Args, Out
from ..base.tree import LeafName, flatten_result, is_picklable, with_structures
from ..batched import Batched
from ..boundary.transformed import importable_name, named, reduced, transform
from ..core.aval import Aval, aval_of, is_inexact
from ..errors import ArgumentError, OutputError
from ..jvp import jvp
from ..tensors.chunks import Plan
from ..transforms.linearize import Linearization
from ..vjp_via_transpose import pull
from .call import Call, Options, OverBasis, derivative, join, over_basis, slices_of, split_last

__all__ = [
    "Derivative", "check_inexact", "forward", "jacfwd", "jacobian", "jacrev", "reverse", "value_and_jacfwd",
    "value_and_jacobian", "value_and_jacrev",
]  # fmt: skip


@transform
def jacfwd(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, progress: bool = False,
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
    progress : bool
        Whether to show a bar on a terminal; without ``chunk_size`` the columns then run in a hundred chunks.

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
    >>> da.jacfwd(lambda x: np.sin(x) * x[0])(np.array([1.0, 0.0]))
    array([[1.38177329, 0.        ],
           [0.        , 1.        ]])
    """
    options = Options.of("jacfwd", locals())
    return derivative(forward, f, options)


@transform
def value_and_jacfwd(
    f: Callable[Args, Out], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, progress: bool = False,
) -> Callable[Args, tuple[Out, Any]]:  # fmt: skip
    """Make a function that returns the value of ``f`` and its Jacobian, by forward mode.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor, progress
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
    >>> value, jacobian = da.value_and_jacfwd(lambda x: x**2)(np.array([1.0, 3.0]))
    >>> value, jacobian.diagonal()
    (array([1., 9.]), array([2., 6.]))
    """
    options = Options.of("value_and_jacfwd", locals(), with_value=True)
    return derivative(forward, f, options)


def forward(call: Call) -> tuple[Any, Any, Any]:
    """Value, Jacobian and auxiliary output by forward mode: ``vmap`` of ``jvp`` over the basis of the arguments."""
    options = call.options
    staged: list = []

    def by_program() -> OverBasis:
        staged[:] = call.linearized()
        return OverBasis(Derivative(call, "forward", staged[1]), call.avals, call.foreign)

    total = sum([a.size for a in call.avals])
    plan = Plan(Columns(call), total, None, options.where, "columns", call.f, other=by_program, anew=True)
    parts = options.run(plan)
    columns = join([p.columns if type(p) is SomeColumns else p for p in parts])
    if type(parts[0]) is SomeColumns:
        out_tree, (value, aux) = parts[0].out_tree, parts[0].beside(call)
    else:
        value, stage = staged
        aux, out_tree = stage.aux, stage.out_tree
    dtypes = [aval_of(v).dtype for v in flatten_result(value)[0]]
    check_inexact(dtypes, lambda: out_tree.unflatten(columns), options.where)
    return value, _blocks_of_columns(call, columns, out_tree), aux


class Columns:
    """The columns of a Jacobian by forward mode, some at a time."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def __call__(self, start: int, stop: int) -> SomeColumns:
        call = self.call
        kept: dict[str, Any] = {}

        def push(*tangents):
            out = jvp(call.function, call.chosen, call.directions(tangents), has_aux=call.options.has_aux)
            columns, kept["out_tree"] = flatten_result(out[1])
            known, kept["known_tree"] = flatten_result((out[0], *out[2:]))
            # The value is the same for all columns. An operator that computes it together with its tangent gives it
            # the batch axis all the same; then it comes out with the columns.
            kept["known"] = [None if isinstance(x, Batched) else x for x in known]
            return columns, [x for x in known if isinstance(x, Batched)]

        columns, batched = OverBasis(push, call.avals, call.foreign)(start, stop)
        if batched and start == stop:  # arguments without entries: there is no column for the value to come out with
            return SomeColumns(start, columns, kept["out_tree"], None)
        rest = iter(batched)
        known = [next(rest)[0] if x is None else x for x in kept["known"]]
        return SomeColumns(start, columns, kept["out_tree"], optree.tree_unflatten(kept["known_tree"], known))


class SomeColumns:
    """Some columns, and the value and the auxiliary output beside them, which travel with the first, if they can."""

    def __init__(self, start: int, columns: list, out_tree: optree.PyTreeSpec, known: Any) -> None:
        self.start, self.columns, self.out_tree, self.known = start, columns, out_tree, known

    def __reduce__(self):
        known = self.known if self.start == 0 and is_picklable(self.known) else None
        return with_structures(SomeColumns, (self.start, self.columns, self.out_tree, known), self.out_tree)

    def beside(self, call: Call) -> tuple[Any, Any]:
        """The value and the auxiliary output."""
        if self.known is None:
            out = call.function(*call.chosen)
            return out if call.options.has_aux else (out, None)
        value, *aux = self.known
        return value, aux[0] if aux else None


def _blocks_of_columns(call: Call, columns: list, out_tree: optree.PyTreeSpec) -> Any:
    return call.arrange_blocks([split_last(np.moveaxis(c, 0, -1), call.avals) for c in columns], out_tree)


def check_inexact(dtypes: Sequence[np.dtype], out: Callable[[], Any], where: str) -> None:
    """Refuse results that have no derivative, by their names in the tree that ``out()`` returns."""
    for i, dtype in enumerate(dtypes):
        if not is_inexact(dtype):
            raise OutputError(
                f"{where}: {LeafName(out(), 'output', i)} has dtype {dtype}.",
                "integers and booleans have no derivative",
                "return it through has_aux=True, or convert it to float",
            )


@transform
def jacrev(
    f: Callable[Args, Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, progress: bool = False,
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
    progress : bool
        As for :func:`jacfwd`, of rows.

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
    >>> da.jacrev(lambda x: x[1:] * x[0])(np.array([2.0, 3.0, 4.0]))
    array([[3., 2., 0.],
           [4., 0., 2.]])
    """
    options = Options.of("jacrev", locals(), allows_complex=True)
    return derivative(reverse, f, options)


@transform
def value_and_jacrev(
    f: Callable[Args, Out], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
    has_aux: bool = False, holomorphic: bool = False, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, progress: bool = False,
) -> Callable[Args, tuple[Out, Any]]:  # fmt: skip
    """Make a function that returns the value of ``f`` and its Jacobian, by reverse mode.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor, progress
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
    >>> da.value_and_jacrev(lambda x: x[:1] * x[1])(np.array([2.0, 3.0]))
    (array([6.]), array([[3., 2.]]))
    """
    options = Options.of("value_and_jacrev", locals(), with_value=True, allows_complex=True)
    return derivative(reverse, f, options)


def reverse(call: Call) -> tuple[Any, Any, Any]:
    """Value, Jacobian and auxiliary output by reverse mode: the pullback mapped over the basis of the results."""
    out, stage = call.linearized("vjp")
    return out, _by_rows(call, out, stage), stage.aux


def _by_rows(call: Call, out: Any, stage: Linearization) -> Any:
    """Pull the standard basis of the output back, and arrange the rows as blocks of shape out + in."""
    where, avals = call.options.where, stage.out_avals
    for i, a in enumerate(avals):
        if not is_inexact(a.dtype) or (a.dtype.kind == "c" and not call.options.holomorphic):
            raise OutputError(
                f"{where}: {LeafName(out, 'output', i)} has dtype {a.dtype}.",
                "integers have no derivative, and the derivative of a complex number is not one row",
                "return it through has_aux=True, take its real and imaginary parts, or pass holomorphic=True if the"
                " function is complex-differentiable",
            )
    rows = Derivative(call, "reverse", stage).over_basis(avals, stage.out_foreign) if avals else []
    blocks = [
        [r[at].reshape(a.shape + r.shape[1:]) for r in rows] for a, at in zip(avals, slices_of(avals), strict=True)
    ]
    return call.arrange_blocks(blocks, stage.out_tree)


# ── forward or reverse ───────────────────────────────────────────────────────────────────────────────────────────


class jacobian:
    """The Jacobian function of ``f``, by forward or reverse mode, whichever needs fewer passes.

    ``f`` is linearized once. Its linear program is then pushed forward over the columns, or walked backwards over the
    rows: sizes decide, and are known by then.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.
    argnums, argnames, has_aux, holomorphic, chunk_size, max_memory, executor, progress
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
    >>> jac = da.jacobian(lambda x: x[:1] * x[1])
    >>> jac(np.array([2.0, 3.0, 4.0]))
    array([[3., 2., 0.]])
    >>> jac.explain(np.array([2.0, 3.0, 4.0]))
    'reverse: 1 row is fewer than 3 columns'
    """

    def __init__(
        self, f: Callable, argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None, *,
        has_aux: bool = False, holomorphic: bool = False, mode: str = "auto", chunk_size: int | None = None,
        max_memory: int | None = None, executor: Any = None, progress: bool = False,
    ) -> None:  # fmt: skip
        check_callable(f, "jacobian")
        if mode not in ("auto", "forward", "reverse"):
            raise ArgumentError(f"jacobian: mode={mode!r}.", "there are two ways", "use 'auto', 'forward' or 'reverse'")
        self._f, self._mode = f, mode
        self._options = Options.of("jacobian", locals(), allows_complex=mode != "forward")
        named(self, f, "jacobian")

    @public
    def __call__(self, *args, **kwargs):
        """Return the Jacobian, arranged as by :func:`jacfwd`; with ``has_aux``, ``(jacobian, aux)``."""
        return self._options.result(*self._compute(Call(self._f, args, kwargs, self._options)))

    def __reduce__(self):
        return importable_name(self) or reduced(self)

    def _compute(self, call: Call) -> tuple[Any, Any, Any]:
        out, stage = call.linearized()
        if self._choice(stage)[0] == "reverse":
            return out, _by_rows(call, out, stage), stage.aux
        check_inexact([a.dtype for a in stage.out_avals], lambda: out, call.options.where)
        columns = Derivative(call, "forward", stage).over_basis(call.avals, call.foreign)
        return out, _blocks_of_columns(call, columns, stage.out_tree), stage.aux

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
        return ": ".join(self._choice(Call(self._f, args, kwargs, self._options).linearized()[1]))

    def _choice(self, stage: Linearization) -> tuple[str, str]:
        columns = sum(a.size for a in stage.in_avals if a is not None)
        rows = sum(a.size for a in stage.out_avals)
        if self._mode != "auto":
            return self._mode, "as asked"
        if not self._options.holomorphic and any(a is not None and a.dtype.kind == "c" for a in stage.in_avals):
            return "reverse", "the arguments are complex, and the function is not declared holomorphic"
        if columns <= rows:
            return "forward", f"{_count(columns, 'column')} no more than {rows} row{'s' * (rows != 1)}"
        return "reverse", f"{_count(rows, 'row')} fewer than {columns} column{'s' * (columns != 1)}"


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
    >>> da.value_and_jacobian(lambda x: x[:1] * x[1])(np.array([2.0, 3.0]))
    (array([6.]), array([[3., 2.]]))
    """
    of = jacobian(f, *options, **named_options)
    return derivative(of._compute, f, replace(of._options, where="value_and_jacobian", with_value=True))


def _count(n: int, what: str) -> str:
    return f"{n} {what} is" if n == 1 else f"{n} {what}s are"


# ── the derivative at a call ─────────────────────────────────────────────────────────────────────────────────────


class Derivative:
    """The derivative at a call as a map of flat vectors: tangents are pushed forward, or cotangents pulled back.

    It travels as the linear program; without one the call is linearized where it is needed first.
    """

    def __init__(self, call: Call, mode: str, stage: Linearization | None = None) -> None:
        self.call, self.mode, self.stage = call, mode, stage

    @property
    def __wrapped__(self) -> Callable | None:
        return self.call.f if self.stage is None else None  # a linear program runs none of the user's code

    def __reduce__(self) -> tuple:
        return Derivative, (self.call if self.stage is None else None, self.mode, self.stage)

    def __call__(self, *vectors: Any) -> list:
        """Apply the map to a vector: an array for each leaf that has one."""
        if self.stage is None:
            self.stage = self.call.linearized()[1]
        return self.stage.linear().flat(list(vectors)) if self.mode == "forward" else pull(self.stage, list(vectors))

    def over_basis(self, avals: Sequence[Aval], likes: Sequence) -> list:
        """The columns, or the rows: the map over the standard basis of spaces of these avals."""
        unlinearized = lambda: Derivative(self.call, self.mode)
        unit = "columns" if self.mode == "forward" else "rows"
        return over_basis(self, avals, self.call.options, unit, likes, self.call.f, unlinearized)
