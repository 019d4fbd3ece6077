"""``sparse_jacobian`` and ``sparse_hessian``: functions that return sparse matrices.

For: the interface: preparing at the first call, arranging values, repairing a local pattern. Not for: how patterns and
values are found (``detect.py``, ``prepared.py``).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..base.arguments import check_callable
from ..base.frames import public, user_level
from ..boundary.transformed import importable_name, named, reduced
from ..core.contexts import compiling
from ..errors import ArgumentError, PerformanceNote, ShapeError, SparsityError
from ..guards.reach import Snapshot
from ..transforms.linearize import Linearization
from .arrange import arrange
from .coloring import Coloring, color, restored_coloring
from .detect import Names, Positions, detect, pattern_of_program
from .prepared import Grown, Prepared
from .problem import Problem, SparseOptions, form_of
from .structure import Sparsity, as_sparsity

__all__ = ["sparse_hessian", "sparse_jacobian", "value_and_sparse_hessian", "value_and_sparse_jacobian"]

#: where colours are more than this share of rows or columns, and these many, the dense function is as good
_WORTH, _FEW = 0.5, 32

_File = str | os.PathLike | Prepared | None


class _SparseDerivative:
    """The common base of Jacobians and Hessians."""

    _modes: tuple[str, ...] = ()
    _second = False
    _with_value = False

    def __init__(self, f: Callable, options: dict[str, Any]) -> None:
        where = type(self).__name__
        check_callable(f, where)
        options = {name: value for name, value in options.items() if name not in ("self", "f", "__class__")}
        self._f, self._where = f, where
        self._options = o = SparseOptions(where=where, modes=self._modes, with_value=self._with_value, **options)
        self._prepared: list[Prepared] = []
        #: whether what the function reads has changed a pattern
        self._changes = False
        self._given = (
            o.sparsity if o.sparsity is None or isinstance(o.sparsity, Coloring) else as_sparsity(o.sparsity, where)
        )
        self._stored: Any = o.prepared
        named(self, f, where)

    def __reduce__(self) -> Any:
        return importable_name(self) or reduced(self)

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the matrix, and the auxiliary results."""
        problem, prepared, out, stage, data = self._computed(args, kwargs)
        matrix = self._arrange(prepared, data, problem, stage)
        value, aux = out, stage.aux
        if self._second:
            value, aux = aux if problem.has_aux else (aux, None)
        return self._options.result(value, matrix, aux)

    @public
    def data(self, *args: Any, **kwargs: Any) -> Any:
        """Return the entries alone, in the order of :meth:`structure`.

        Parameters
        ----------
        *args, **kwargs
            Arguments of ``f``.

        Returns
        -------
        array, shape (entries,)
            May be differentiated and batched like the result of any function.
        """
        return self._computed(args, kwargs, shown=True)[-1]

    @public
    def prepare(self, *args: Any, **kwargs: Any) -> Prepared:
        """Find pattern and colouring for arguments like these; calls with such arguments then use them.

        Parameters
        ----------
        *args, **kwargs
            Sample arguments. A local pattern of other arguments of the same shapes is united with the present one.

        Returns
        -------
        Prepared
            Which can be saved: ``jac.prepare(x).save("jac.npz")``.
        """
        problem = self._problem(args, kwargs)
        prepared = self._find(problem)
        if prepared is None:
            return self._prepare(problem)
        if prepared.sparsity.scope == "local" and self._given is None:
            self._unite(prepared, detect(problem, "local", self._options.max_memory))
        return prepared

    def structure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and the columns of the entries, in the order of :meth:`data`.

        Returns
        -------
        rows, columns : array of int, shape (entries,)
            For IPOPT's callbacks, for instance. Of a Hessian, those of the triangle that was asked for.

        Raises
        ------
        ArgumentError
            Before the first call, and before :meth:`prepare`.
        """
        prepared = self._latest()
        S = prepared.sparsity
        kept = self._kept(prepared)
        return S.rows[kept].copy(), S.indices[kept].copy()

    @property
    def sparsity(self) -> Sparsity:
        """The pattern that was prepared last."""
        return self._latest().sparsity

    @property
    def coloring(self) -> Coloring:
        """The colouring that was prepared last."""
        return self._latest().coloring

    @public
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Say how the pattern was found, how many products tell its entries, and what the two ways cost.

        Parameters
        ----------
        *args, **kwargs
            Arguments of ``f``; without them, those prepared last.

        Returns
        -------
        str
            A few lines.
        """
        return (self.prepare(*args, **kwargs) if args or kwargs else self._latest()).explain()

    # ── preparing ────────────────────────────────────────────────────────────────────────────────────────────────

    def _latest(self) -> Prepared:
        if not self._prepared:
            raise ArgumentError(
                f"{self._where}: nothing has been prepared yet.",
                "the pattern is found for arguments of some shapes",
                "call .prepare(x) with sample arguments first",
            )
        return self._prepared[-1]

    def _problem(self, args: tuple, kwargs: dict) -> Problem:
        return Problem(self._f, args, kwargs, self._options, self._second)

    def _find(self, problem: Problem) -> Prepared | None:
        signature = problem.signature()
        for prepared in reversed(self._prepared):
            if _equal(signature, prepared.signature):
                return prepared if prepared.holds() else self._renewed(problem, prepared)
        return None

    def _renewed(self, problem: Problem, old: Prepared) -> Prepared | None:
        """Return the preparation if its guards hold; otherwise it is forgotten."""
        form = _identity(problem)
        if form != old.form:
            if self._stored is not None:
                raise self._belongs_elsewhere(old.sparsity)
            del self._prepared[[p is old for p in self._prepared].index(True)]
            self._changes = True
            return None
        old.guards = Snapshot.of(problem.roots())
        return old

    def _prepare(self, problem: Problem) -> Prepared:
        o, before = self._options, Snapshot.of(problem.roots())
        if self._stored is not None:
            prepared = self._restored(problem)
        else:
            given = self._given
            S = given.sparsity if isinstance(given, Coloring) else given
            S = detect(problem, o.scope, o.max_memory) if S is None else S
            C = given if isinstance(given, Coloring) else self._colored(S)
            prepared = self._make(S, C, problem.signature(), lambda: _identity(problem), o.mode)
            prepared.deferred = o.mode == "auto"
        if prepared.sparsity.scope == "global":  # others are checked at each call
            prepared.guards = self._guards(problem, before)
            prepared.is_guarded = prepared.guards is not None
            prepared.form = _identity(problem) if self._changes or self._stored is not None else ""
        self._prepared.append(prepared)
        self._note_if_dense(prepared)
        return prepared

    def _guards(self, problem: Problem, before: Snapshot | None) -> Snapshot | None:
        """Return the guards of a pattern, without state that the function changes whenever it runs."""
        if before is None or before.holds():
            return before
        between = Snapshot.of(problem.roots())
        _identity(problem)
        after = Snapshot.of(problem.roots())
        return after and after.without(between.changed()[0] if between else ())

    def _colored(self, S: Sparsity) -> Coloring:
        raise NotImplementedError

    def _make(self, S: Sparsity, C: Coloring, signature: list, identity: Callable[[], str], mode: str) -> Prepared:
        return Prepared(S, C, signature, identity, mode, self._options.chunk_size, self._options.max_memory)

    def _note_if_dense(self, prepared: Prepared) -> None:
        S, C = prepared.sparsity, prepared.coloring
        least = min(S.shape)
        if prepared.method == "products" and least > _FEW and C.count >= _WORTH * least:
            dense = "dualad.hessian" if self._second else "dualad.jacobian"
            warnings.warn(
                f"{self._where}: {C.count} products for a matrix of {S.shape[0]} x {S.shape[1]}: {dense}, which makes"
                f" it dense, is the better choice. {S.explain().splitlines()[0]}; {C.reason}.",
                PerformanceNote,
                stacklevel=user_level(),
            )

    def _unite(self, prepared: Prepared, sparsity: Sparsity) -> Prepared:
        """Replace the preparation by the same for a larger pattern."""
        united = prepared.sparsity | sparsity
        if united == prepared.sparsity:
            return prepared
        mode = self._options.mode
        new = self._make(united, self._colored(united), prepared.signature, prepared.identity, mode)
        self._prepared[[p is prepared for p in self._prepared].index(True)] = new
        return new

    def _restored(self, problem: Problem) -> Prepared:
        stored = self._stored
        if isinstance(stored, Prepared):
            S, C, form, method = stored.sparsity, stored.coloring, stored.identity(), stored.method
        else:
            with np.load(stored) as file:
                S = Sparsity._restored(file)
                C = restored_coloring(S, file)
                form, method = str(file["form"]), str(file["method"])
        if _identity(problem) != form:
            raise self._belongs_elsewhere(S)
        return self._make(S, C, problem.signature(), lambda: form, method)

    def _belongs_elsewhere(self, S: Sparsity) -> SparsityError:
        return SparsityError(
            f"{self._where}: what was prepared, a pattern of {S.shape[0]} x {S.shape[1]}, belongs to another function"
            f" or other shapes than `{getattr(self._f, '__name__', 'the function')}` with these arguments, or it reads"
            " something else now.",
            "its program, written down, is not the one that was prepared",
            "prepare again: prepare(x).save(file)",
        )

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _computed(
        self, args: tuple, kwargs: dict, shown: bool = False
    ) -> tuple[Problem, Prepared, Any, Linearization, Any]:  # fmt: skip
        """Return the parts of a result; the last is the entries, or those that are shown."""
        problem = self._problem(args, kwargs)
        prepared = self._find(problem)
        out, stage = problem.linearized()
        if prepared is None:
            prepared = self._prepare(problem)
        rows = sum([a.size for a in stage.out_avals])
        if prepared.sparsity.shape != (rows, problem.n):
            raise ShapeError(
                f"{self._where}: the pattern has shape {prepared.sparsity.shape}, and the matrix {(rows, problem.n)}.",
                "rows are the entries of the results, columns those of the arguments",
                "pass the pattern of this function at arguments of these shapes",
            )
        for _ in range(3):
            try:
                is_checked = self._is_checked(prepared)
                kept = self._kept(prepared) if shown else slice(None)
                now = slice(None) if is_checked else kept
                data = values = prepared.values(stage, self._options.executor, self._f, now)
            except Grown as grown:
                if self._options.check == "raise":
                    raise self._missed(prepared, grown.sparsity) from None
                prepared = self._repair(prepared, grown.sparsity)
                continue
            if is_checked:
                data = prepared.checked(data, stage, partial(self._missed, prepared, prepared.sparsity))
                data, values = (None if data is None else data[kept]), values[kept]
            if data is not None:
                return problem, prepared, out, stage, data
            S, pattern_here = prepared.sparsity, partial(pattern_of_program, problem, stage.program)
            if pattern_here("global", "", self._options.max_memory) | S == S:  # what differs was rounded
                return problem, prepared, out, stage, values
            here = pattern_here("local", "", self._options.max_memory)
            if self._options.check == "raise" or prepared.sparsity.scope != "local":
                raise self._missed(prepared, here)
            prepared = self._repair(prepared, here)
        raise self._missed(prepared, prepared.sparsity)

    def _is_checked(self, prepared: Prepared) -> bool:
        check, S = self._options.check, prepared.sparsity
        relies = S.relies_on_constants and compiling.get() is None  # jit compares what constants are made of
        return check == "raise" or (check == "auto" and (S.scope != "global" or relies or not prepared.is_guarded))

    def _repair(self, prepared: Prepared, here: Sparsity) -> Prepared:
        new = self._unite(prepared, here)
        missing = new.sparsity.nnz - prepared.sparsity.nnz
        warnings.warn(
            f"{self._where}: the pattern did not hold here: {missing} entries were missing"
            f" ({prepared.sparsity.reason}). They have been added, and the pattern is coloured anew.",
            PerformanceNote,
            stacklevel=user_level(),
        )
        return new

    def _missed(self, prepared: Prepared, here: Sparsity) -> SparsityError:
        """Make the error for a pattern that misses entries; name the first one."""
        S = prepared.sparsity
        first, n = "", S.shape[1]
        have, want = (p.rows.astype(np.int64) * n + p.indices for p in (S, here))
        missing = np.setdiff1d(want, have)
        if len(missing):
            first = f"; the first one missing is row {missing[0] // n}, column {missing[0] % n}"
        what = {"given": "was given by hand", "local": S.reason}.get(S.scope, "relies on zeros of constant arrays")
        return SparsityError(
            f"{self._where}: the matrix has entries outside of its pattern{first}.",
            f"the pattern {what}",
            "detect it at more points and unite them: S1 | S2, or leave the pattern to be detected",
        )

    def _kept(self, prepared: Prepared) -> Any:
        """Return which entries are shown: those of a triangle, or all."""
        triangle, S = self._options.triangle, prepared.sparsity
        if triangle == "full":
            return slice(None)
        return np.flatnonzero(S.indices <= S.rows if triangle == "lower" else S.indices >= S.rows)

    def _arrange(self, prepared: Prepared, data: Any, problem: Problem, stage: Linearization) -> Any:
        blocks = self._options.blocks
        if prepared.blocks is None:
            leaves = (stage.out_avals, problem.avals) if blocks else None
            prepared.blocks = arrange(prepared.sparsity, self._options.format, self._kept(prepared), leaves)
        if not blocks:
            return prepared.blocks[0][0].of(data)

        lines = [[block.of(data) for block in line] for line in prepared.blocks]
        if self._second:
            return problem.arrange([problem.arrange(line) for line in lines])
        return problem.arrange_blocks(lines, stage.out_tree)

    def __repr__(self) -> str:
        return f"<{self._where} of {getattr(self._f, '__name__', self._f)!s}>"


def _equal(one: list, other: list) -> bool:
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if a is b:
            continue
        if type(a) is not type(b):
            return False
        try:
            if not (a.dtype == b.dtype and np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)):
                return False
        except Exception:
            return False
    return True


def _identity(problem: Problem) -> str:
    """Return a hash of the form of a problem's program: equal for the same function and shapes."""
    try:
        program = problem.traced()
    except Exception:
        return f"untraced {[repr(a) for a in problem.avals]}"
    return form_of(program)


# ── for users ────────────────────────────────────────────────────────────────────────────────────────────────────


class sparse_jacobian(_SparseDerivative):
    """Make the Jacobian function of ``f`` that returns a sparse matrix.

    At the first call with arguments of some shapes the pattern of the Jacobian is found
    (:func:`dualad.jacobian_sparsity`) and coloured (:func:`dualad.color`); later calls run ``f`` once and carry out a
    few products, or accumulate the entries directly, whichever is predicted to cost less. The structure of the result
    does not depend on the values: zeros are stored.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.
    argnums, argnames, has_aux, holomorphic
        As for :func:`dualad.jacfwd`.
    mode : {"auto", "forward", "reverse", "bidirectional", "direct"}
        How entries are computed: by products, by pulls, by both, or without a colouring.
    format : {"csr", "csc", "coo", "dense", "operator", "triplets"}
        The form of results: an array of SciPy's or NumPy's, a ``LinearOperator``, or ``(rows, columns, data)``.
    scope : {"auto", "global", "local"}
        As for :func:`dualad.jacobian_sparsity`.
    check : {"auto", "raise", "never"}
        Patterns that hold at one point only, or were given, are compared with the function at every call, which costs
        one more product. ``"auto"`` adds what a local pattern misses and goes on with a note; ``"raise"`` compares
        every pattern and raises.
    sparsity : Sparsity, Coloring, sparse array or bool array, optional
        The pattern, if it is known.
    prepared : path or Prepared, optional
        What :meth:`prepare` returned, or the file it was saved to.
    blocks : bool
        Whether to return a tree of matrices, one for each leaf of the results and of the arguments, instead of one.
    chunk_size : int, optional
        How many products to carry out at a time; by default as many as stay in the processor's cache.
    max_memory : int, optional
        About how many bytes finding the pattern may hold; 1 GiB by default.
    executor : Executor, optional
        Whose workers carry out the products, as for :func:`dualad.vmap`; direct accumulation happens here.

    Returns
    -------
    callable
        A function of the same arguments. One matrix over all leaves has the shape (entries of the results, entries of
        the arguments), both in the order of the leaves.

    Raises
    ------
    SparsityError
        If the pattern misses entries, is too dense, or was prepared for another function.
    ArgumentError
        If SciPy is not installed.

    Examples
    --------
    >>> jac = da.sparse_jacobian(lambda x: np.diff(x) ** 2)
    >>> jac(np.array([1.0, 2.0, 4.0])).toarray()
    array([[-2.,  2.,  0.],
           [ 0., -4.,  4.]])
    >>> jac.sparsity
    <sparsity 2 x 3, 4 entries (66.7%), global>
    >>> jac.coloring
    <colouring: 2 products (forward): no row has more than 2 entries>
    """

    _modes = ("auto", "forward", "reverse", "bidirectional", "direct")

    def __init__(
        self, f: Callable, argnums: Positions = None, argnames: Names = None, *, has_aux: bool = False,
        holomorphic: bool = False, mode: str = "auto", format: str = "csr", scope: str = "auto", check: str = "auto",
        sparsity: Any = None, prepared: _File = None, blocks: bool = False, chunk_size: int | None = None,
        max_memory: int | None = None, executor: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(f, locals())

    def _colored(self, S: Sparsity) -> Coloring:
        mode = {"direct": "auto"}.get(self._options.mode, self._options.mode)
        return color(S, mode)


class value_and_sparse_jacobian(sparse_jacobian):
    """Make a function that returns the value of ``f`` and its sparse Jacobian.

    Parameters
    ----------
    f, argnums, argnames, has_aux, holomorphic, mode, format, scope, check, sparsity, prepared, blocks, chunk_size
        As for :func:`sparse_jacobian`.
    max_memory, executor
        As for :func:`sparse_jacobian`.

    Examples
    --------
    >>> value, J = da.value_and_sparse_jacobian(np.square)(np.array([1.0, 3.0]))
    >>> value, J.toarray()
    (array([1., 9.]), array([[2., 0.],
           [0., 6.]]))
    """

    _with_value = True


class sparse_hessian(_SparseDerivative):
    """Make the Hessian function of a scalar-valued ``f`` that returns a sparse matrix.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it returns a real scalar.
    argnums, argnames, has_aux
        As for :func:`dualad.grad`.
    mode : {"auto", "symmetric", "forward", "direct"}
        How entries are computed: by products that rely on symmetry, by products that do not, or without a colouring.
    triangle : {"full", "lower", "upper"}
        Which entries to return.
    decompression : {"direct", "substitution"}
        As for :func:`dualad.color`.
    format, scope, check, sparsity, prepared, blocks, chunk_size, max_memory, executor
        As for :func:`sparse_jacobian`.

    Returns
    -------
    callable
        A function of the same arguments that returns a matrix of shape (n, n), n being the number of entries of the
        chosen arguments.

    Raises
    ------
    OutputError, ...
        If the result is not a real scalar; the others of :func:`sparse_jacobian`.

    Examples
    --------
    >>> hes = da.sparse_hessian(lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2))
    >>> hes(np.array([1.0, 2.0, 3.0])).toarray()
    array([[ 4., -4.,  0.],
           [-4., 38., -8.],
           [ 0., -8.,  2.]])
    """

    _modes = ("auto", "symmetric", "forward", "direct")
    _second = True

    def __init__(
        self, f: Callable, argnums: Positions = None, argnames: Names = None, *, has_aux: bool = False,
        mode: str = "auto", triangle: str = "full", decompression: str = "direct", format: str = "csr",
        scope: str = "auto", check: str = "auto", sparsity: Any = None, prepared: _File = None, blocks: bool = False,
        chunk_size: int | None = None, max_memory: int | None = None, executor: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(f, locals())

    def _colored(self, S: Sparsity) -> Coloring:
        if self._options.mode == "forward":
            return color(S, "forward")
        return color(S | S.T, "symmetric", decompression=self._options.decompression)


class value_and_sparse_hessian(sparse_hessian):
    """Make a function that returns the value of a scalar-valued ``f`` and its sparse Hessian.

    Parameters
    ----------
    f, argnums, argnames, has_aux, mode, triangle, decompression, format, scope, check, sparsity, prepared, blocks
        As for :func:`sparse_hessian`.
    chunk_size, max_memory, executor
        As for :func:`sparse_jacobian`.

    Examples
    --------
    >>> value, H = da.value_and_sparse_hessian(lambda x: np.sum(x**3))(np.array([1.0, 3.0]))
    >>> float(value), H.diagonal()
    (28.0, array([ 6., 18.]))
    """

    _with_value = True
