"""Preparation, done once for arguments of some shapes: pattern, colouring, and how values are computed.

For: ``Prepared``, which chooses between products and direct accumulation, computes values from a linearization, and
checks them. Not for: arranging values as users want them (``derivatives.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.frames import public
from ..core.contexts import compiling
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..guards.reach import Snapshot
from ..jacobians.call import split_flat
from ..program.packed import unpack_constants
from ..transforms.linearize import Linearization
from .coloring import Coloring
from .coloured import Products
from .detect import MAX_MEMORY
from .direct import NoValues, Plan, are_alike, outline_of
from .internal import Internal
from .needs import traced_product
from .structure import Sparsity
from .walk import TooDense

__all__ = ["Grown", "Prepared"]

#: what it costs to move an entry of a sparse intermediate, measured in entries of a dense one
DIRECT = 2.6
#: what direct accumulation costs besides in machine code, where products of slices are vectors, if a matrix has more
#: than this many columns; of fewer both are straight code (measured on twelve problems of control, meshes and grids)
_COMPILED, _STRAIGHT = 1.6, 64
#: internal variables are worth it where they take this share of the cost, which is a guess
_SURE = 0.8
#: the cost of making a plan, in direct accumulations
_WORTH_A_PLAN = 10
#: number of forms of the linear program that get plans before products are taken
_FORMS = 8
#: bytes of an entry of a plan: its value, and where it comes from
_PLANNED = 24


class Prepared:
    """Everything about a sparse matrix that does not depend on values.

    Attributes
    ----------
    sparsity : Sparsity
        The pattern.
    coloring : Coloring
        The products that tell its entries.
    method : str
        ``"products"`` or ``"direct"``.
    """

    def __init__(
        self, sparsity: Sparsity, coloring: Coloring, signature: list, identity: Callable[[], str], mode: str,
        chunk_size: int | None, max_memory: int | None,
    ) -> None:  # fmt: skip
        self.sparsity, self.coloring, self.signature = sparsity, coloring, signature
        self._chunk_size, self._max_memory = chunk_size, max_memory
        #: what the two ways cost, in products: by the colouring, and direct
        self.costs = products, direct = coloring.cost, DIRECT * sparsity.work if sparsity.work else float("inf")
        self.method = "direct" if mode == "direct" or (mode == "auto" and direct < products) else "products"
        self._products: Products | None = None
        self._plans: list[tuple[Plan, np.ndarray | None]] = []
        #: plans in internal variables, behind the program's outline and whether they are for all entries
        self._internal: list[tuple[tuple[list, list], bool, Internal | None]] = []
        self._probe: Any = None
        self._why, self._called = "", False
        #: what the pattern was read from besides arguments, and whether all of that could be noted
        self.guards: Snapshot | None = None
        self.is_guarded = True
        #: a hash of the program's form, once something that it reads has changed
        self.form = ""
        #: whether the first call may go by products
        self.deferred = False
        #: returns a hash of the program that was prepared; it is found out when it is asked for
        self.identity = identity
        #: the matrices that are made of the entries, once it is known what they are to look like
        self.blocks: Any = None

    def explain(self) -> str:
        """Say where the pattern came from, how many products it takes, and why values are computed as they are.

        Returns
        -------
        str
            A few lines.
        """
        products, direct = self.costs
        unknown = "unknown, the pattern was given" if direct == float("inf") else f"about {direct:.3g}"
        lines = [
            self.sparsity.explain(),
            self.coloring.explain(),
            f"cost, in products: by products {products:g}, direct accumulation {unknown}; chosen: {self.method}",
        ]
        plans = [plan for *_, plan in self._internal if plan is not None]
        lines += [f"compiled: {plan.explain()}" for plan in plans[:1]] + [self._why] * bool(self._why)
        return "\n".join(lines)

    @public
    def save(self, file: str | os.PathLike) -> None:
        """Write pattern and colouring to an ``.npz`` file, for ``prepared=``.

        Parameters
        ----------
        file : str or path
            The file.
        """
        C = self.coloring
        np.savez_compressed(
            file, **self.sparsity._stored(), column_colors=C.column_colors, row_colors=C.row_colors, mode=C.mode,
            coloring_reason=C.reason, form=self.identity(), method=self.method,
            substitution=C.substitution is not None,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<prepared: {self.sparsity!r}, {self.coloring.explain()}>"

    def __getstate__(self) -> dict:
        # Plans and products are for programs of this process; what identifies the function is found out now.
        return {
            **vars(self),
            "_products": None,
            "_plans": [],
            "_internal": [],
            "guards": None,
            "blocks": None,
            "identity": self.identity(),
        }

    def __setstate__(self, state: dict) -> None:
        form = state["identity"]
        vars(self).update(state, identity=lambda: form)

    def holds(self) -> bool:
        """Whether everything the pattern was read from is unchanged."""
        return self.guards is None or self.guards.holds()

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────

    def values(self, stage: Linearization, executor: Any = None, f: Any = None, kept: Any = slice(None)) -> Any:
        """Return the entries that are kept, in the order of the pattern.

        Products are carried out by the workers of an executor, if there is one.
        """
        found = self._in_internal_variables(stage, kept)
        if found is not None:
            return found
        found = self._by_columns(stage, executor, f)
        return found if type(kept) is slice else found[kept]

    def _in_internal_variables(self, stage: Linearization, kept: Any) -> Any:
        """Return the entries by fewer products with internal Jacobians, if that is how to find them; else None."""
        is_ours = self.deferred and self.sparsity.scope == "global" and self.coloring.substitution is None
        if compiling.get() is None or not is_ours:
            return None
        if self.method == "direct" and self.sparsity.shape[1] <= _STRAIGHT:
            return None
        program, S, is_whole = unpack_constants(stage.program), self.sparsity, type(kept) is slice
        outline = outline_of(program, whole=True)
        for form, whole, plan in self._internal:
            if whole == is_whole and are_alike(form, outline):
                return None if plan is None else plan.values(program)
        limit = (MAX_MEMORY if self._max_memory is None else self._max_memory) // _PLANNED
        try:
            plan = Internal(program, S.rows[kept], S.indices[kept], limit)
        except (NoValues, TooDense):
            plan = None
        products, direct = self.costs
        if plan is not None and plan.cost > _SURE * min(products, _COMPILED * direct):
            plan = None
        self._internal = [(outline, is_whole, plan), *self._internal][:_FORMS]
        return None if plan is None else plan.values(program)

    def _by_columns(self, stage: Linearization, executor: Any, f: Any) -> Any:
        """Return all entries by products, or by direct accumulation."""
        found = self._direct(stage) if self._goes_direct() else None
        if found is not None:
            return found
        ins = [a for a in stage.in_avals if a is not None]
        if self._products is None or self._products.ins != ins or self._products.outs != stage.out_avals:
            self._products = Products(self.coloring, ins, stage.out_avals, self._chunk_size)
        return self._products.values(stage, executor, f)

    def _goes_direct(self) -> bool:
        """Whether to accumulate directly: a plan is not made for a single call, unless products are many.

        Compiled functions are called again, and must be the same program at each trace.
        """
        if self.method != "direct":
            return False
        products, direct = self.costs
        if compiling.get() is not None:
            return not self.deferred or self.sparsity.shape[1] <= _STRAIGHT or _COMPILED * direct < products
        first, self._called = not self._called, True
        return not (first and self.deferred and products <= _WORTH_A_PLAN * direct)

    def _direct(self, stage: Linearization) -> Any:
        program = unpack_constants(stage.program)
        known = next((pair for pair in self._plans if pair[0].fits(program)), None)
        if known is None:
            if len(self._plans) == _FORMS:
                self.method, self._why = "products", "the linear program has another form at every point"
                return None
            limit = (MAX_MEMORY if self._max_memory is None else self._max_memory) // _PLANNED
            try:
                plan = Plan(program, [a for a in stage.in_avals if a is not None], limit)
            except NoValues:
                self.method, self._why = "products", "an operator has no rule for direct accumulation"
                return None
            except TooDense:
                self.method, self._why = "products", "direct accumulation would take too much memory"
                return None
            known = plan, self._places(plan)
            self._plans.append(known)
        plan, places = known
        found = plan.values(program)
        dtype = np.result_type(*[a.dtype for a in stage.out_avals])
        if places is not None:
            padded: Any = np.concatenate([found, np.zeros(1, found.dtype)])
            is_traced = isinstance(padded, Tracer)
            found = padded[places] if is_traced else padded.take(places)
        return found if found.dtype == dtype else found.astype(dtype)

    def _places(self, plan: Plan) -> np.ndarray | None:
        """Return, for every entry of the pattern, its place among the plan's; behind the last one where it has none.

        There is nothing to return if the two patterns are one.
        """
        S, P = self.sparsity, plan.matrix
        n = S.shape[1]
        have = np.repeat(np.arange(S.shape[0], dtype=np.int64), np.diff(P.indptr)) * n + P.indices
        want = S.rows.astype(np.int64) * n + S.indices
        if len(have) == len(want) and bool((have == want).all()):
            return None
        at = np.searchsorted(have, want)
        there = np.append(have, -1)[at] == want
        if int(there.sum()) < len(have) and self.sparsity.scope == "local":
            raise Grown(Sparsity(P, "local", "found by direct accumulation"))
        places = np.where(there, at, len(have))
        places.setflags(write=False)
        return places

    # ── the check ────────────────────────────────────────────────────────────────────────────────────────────────

    def checked(self, data: Any, stage: Linearization, missed: Callable[[], Exception]) -> Any:
        """Return the entries if the matrix times a random vector is what the linear map makes of that, or None.

        An entry missed makes a difference. Traced entries are looked at whenever there are numbers, and ``missed()`` is
        raised then.
        """
        S, wanted = self.sparsity, self._images(stage)
        if not isinstance(data, Tracer) and not isinstance(wanted, Tracer):
            return data if self._agrees(data, wanted) else None
        given = traced_product(data, S.indices, S.indptr, self._probe)
        size = traced_product(np.abs(data), S.indices, S.indptr, self._probe)
        off = np.abs(given - wanted) > _tolerance(np.result_type(data)) * (size + np.abs(wanted))
        return bind(complete, (data, off), {"call": missed})

    def _images(self, stage: Linearization) -> Any:
        """Return the linear map's product with a random vector."""
        lin = stage.linear()
        S = self.sparsity
        ins = [a for a in stage.in_avals if a is not None]
        if self._probe is None:
            self._probe = np.random.default_rng(S.nnz).uniform(0.5, 1.5, S.shape[1])
        images = lin.flat(split_flat(self._probe, ins))
        return np.concatenate([np.reshape(y, -1) for y in images]) if images else np.zeros(0)

    def _agrees(self, data: np.ndarray, wanted: np.ndarray) -> bool:
        S = self.sparsity
        matrix = S._matrix.__class__((data, S.indices, S.indptr), shape=S.shape)
        given = matrix @ self._probe.astype(data.dtype)
        tolerance = _tolerance(data.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.flatnonzero(np.abs(given - wanted) > tolerance * np.abs(wanted))
            if not len(off):
                return True
            matrix.data = np.abs(data)
            size = matrix[off] @ self._probe
            return not bool((np.abs(given[off] - wanted[off]) > tolerance * (size + np.abs(wanted[off]))).any())


def _complete_impl(data, *off, call):
    if any(map(np.any, off)):
        raise call()
    return data


def _complete_batch(size, values, mapped, *, call):
    data = values[0] if mapped[0] else np.broadcast_to(values[0], (size, *np.shape(values[0])))
    return bind(complete, (data, *values[1:]), {"call": call})


#: the entries as they are, unless their product with a vector is off: they are compared in compiled programs, too
complete: Primitive = Primitive(
    "complete",
    impl=_complete_impl,
    abstract_eval=lambda data, *off, call: data,
    jvp=lambda primals, tangents, *, call: (bind(complete, primals, {"call": call}), tangents[0]),
    batch=_complete_batch,
    samples=[((3,), {"call": AssertionError})],
    raises=True,
    kind="implicit",
)


def _tolerance(dtype: np.dtype) -> float:
    return 1000 * float(np.finfo(dtype).eps)


class Grown(Exception):
    """Direct accumulation found entries that are not in the pattern."""

    def __init__(self, sparsity: Sparsity) -> None:
        super().__init__("entries that are not in the pattern")
        self.sparsity = sparsity
