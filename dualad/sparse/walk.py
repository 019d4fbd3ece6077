"""One walk over a program: which entries of its results depend on which entries of its inputs.

For: ``Walk``, which holds the rows of the variables that are followed and the arithmetic that rules use, and
``follow``. The rows of a variable are dropped after its last use. Not for: what operators do (``maps.py``), or where
programs come from (``detect.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Aval
from ..core.tracer import Tracer
from ..program.ir import Program, last_uses
from ..program.variable import Step, Variable
from . import contractions, loops, rows  # noqa: F401 - contractions and loops fill in their rules
from .maps import ELEMENTWISE, MIXING, RULES, collects, dense_rule, elementwise, moves, positions_of, shape_of

__all__ = ["TooDense", "Walk", "broadcast", "follow", "full_tags", "sparsity_kind"]


class TooDense(Exception):
    """The rows of a variable have become too many to go on; ``step`` made them."""

    def __init__(self, step: Step | None) -> None:
        super().__init__("the pattern is too dense to follow")
        self.step = step


class Walk:
    """The rows, of ``n`` columns, of the followed variables of a program, and the arithmetic on rows.

    Constant arrays that are ``fixed`` are the same at every point, so that their zeros count: in a program that was
    traced. One variable's rows, and all together, may have ``limit`` entries.
    """

    #: whether the zeros of matrices count
    sparse_factors = True

    def __init__(self, n: int, fixed: bool, limit: int) -> None:
        self.n, self.fixed, self.limit = n, fixed, limit
        self.rows: dict[Variable, Any] = {}
        #: the step that is being followed
        self.step: Step | None = None
        #: entries made so far, and numbers in the results they belong to
        self.work, self.volume = 0, 0
        #: whether zeros of constants have made the pattern smaller
        self.relies = False
        #: steps without a rule of their own
        self.dense: list[Step] = []

    def followed(self, args) -> list[int]:
        """Return the positions of the arguments that are followed."""
        return [i for i, a in enumerate(args) if type(a) is Variable and a in self.rows]

    def note(self, step: Step) -> None:
        """Remember a step for which everything depends on everything."""
        if step.op not in [s.op for s in self.dense]:
            self.dense.append(step)

    # ── the arithmetic ───────────────────────────────────────────────────────────────────────────────────────────

    def gather(self, p: Any, positions: np.ndarray, aval: Aval | None, values: bool = True) -> Any:
        """Return rows that moved; −1 is a constant."""
        return rows.gather(p, positions)

    def join(self, parts: list) -> Any:
        """Return rows one below the other."""
        return rows.join(parts)

    def collect(self, p: Any, targets: np.ndarray, aval: Aval) -> Any:
        """Return rows that were added up, row i into ``targets[i]``."""
        return rows.collect(p, targets, aval.size)[0]

    def spread(self, p: Any, targets: np.ndarray, groups: np.ndarray, m: int) -> Any:
        """Return, for each entry of ``groups``, the union of the rows whose target it is, of m targets."""
        united = rows.collect(p, targets, m)[0]
        count = int((united.indptr[1:] - united.indptr[:-1])[groups].sum()) if len(groups) else 0
        if count > self.limit:
            raise TooDense(None)
        return rows.gather(united, groups)

    def multiply(self, p: Any, matrix: Any, factor: int | None, aval: Aval) -> Any:
        """Return the rows of a product with a matrix; its data are tags of the entries of argument ``factor``."""
        matrix = full_tags(matrix)
        structure = rows.pattern(matrix.indices, matrix.indptr, matrix.shape)
        structure.has_canonical_format = False
        out = structure @ p
        out.sort_indices()
        return out

    def merge(self, parts: list) -> Any:
        """Return the union of patterns of one shape."""
        out = parts[0]
        for p in parts[1:]:
            out = rows.merge(out, p)
        return out

    def elementwise(self, step: Step) -> Any:
        """Return the rows of an elementwise result: the union of its arguments' rows, as they broadcast."""
        op, args, _, outs = step
        out = outs[0].aval
        parts = []
        for i in self.followed(args):
            p = broadcast(self.rows[args[i]], args[i].aval.shape, out.shape)
            if self.fixed:
                p = self._selected(p, op, i, args, out)
            parts.append(p)
        return self.merge(parts)

    def _selected(self, p: Any, op: Any, i: int, args, out: Aval) -> Any:
        """Drop the rows that a constant factor or condition makes zero, always."""
        if op.name in ("multiply", "scale"):
            keep = args[1 - i]
        elif op.name == "where":
            keep = args[0]
        else:
            return p
        if isinstance(keep, (Variable, Tracer)) or not np.size(keep) or not np.ndim(keep):
            return p
        keep = np.asarray(keep) != 0
        if op.name == "where" and i == 2:
            keep = ~keep
        if keep.all() or not (keep.any() or op.name == "where"):
            return p  # a factor that is all zero may well be a parameter that is zero today
        self.relies = True
        kept = np.broadcast_to(keep, out.shape).reshape(-1)
        return rows.gather(p, np.where(kept, np.arange(out.size), -1))

    # ── the walk ─────────────────────────────────────────────────────────────────────────────────────────────────

    def results(self, step: Step) -> list:
        """Return the rows of a step's results."""
        return (RULES.get(step.op.name) or _RULE_OF_KIND[sparsity_kind(step.op)])(self, step)

    def run(self, program: Program, seeds: list) -> list:
        """Follow the inputs that have a seed, in which a program is linear, and return the rows of its outputs.

        ``None`` is an input without a seed, and an output that depends on none.
        """
        outer, self.rows = self.rows, {v: p for v, p in zip(program.inputs, seeds, strict=True) if p is not None}
        live = sum([p.nnz for p in self.rows.values()])
        for step, dead in zip(program.steps, last_uses(program.steps, program.outputs), strict=True):
            if self.followed(step.args):
                self.step = step
                try:
                    made = self.results(step)
                except TooDense as error:
                    raise TooDense(error.step or step) from None
                for v, p in zip(step.outs, made, strict=True):
                    if p is None:
                        continue
                    self.rows[v] = p
                    self.work += p.nnz
                    self.volume += v.aval.size
                    live += p.nnz
                if live > self.limit:
                    raise TooDense(step)
            for v in dead:
                p = self.rows.pop(v, None)
                if p is not None:
                    live -= p.nnz
        found = [self.rows.get(o) if type(o) is Variable else None for o in program.outputs]
        self.rows = outer
        return found

    def stacked(self, program: Program, seeds: list) -> Any:
        """Follow the inputs that have a seed, and return the rows of all outputs, one below the other."""
        found = zip(self.run(program, seeds), program.outputs, strict=True)
        parts = [rows.empty_rows(int(np.prod(shape_of(o))), self.n) if p is None else p for p, o in found]
        return rows.join(parts, self.n)


def sparsity_kind(op: Any) -> str:
    """Say in a word how the pattern of a linear operator is known."""
    if op.name in RULES:
        return "by axes" if op.name in MIXING else "own rule"
    if op.name in ELEMENTWISE:
        return "elementwise"
    return "moves" if op.moves else "collects" if op.collects else "dense"


#: rules by the operator's flags, and the one that is right for any
_RULE_OF_KIND = {"elementwise": elementwise, "moves": moves, "collects": collects, "dense": dense_rule}


def full_tags(matrix: Any) -> Any:
    """Return a matrix of tags in CSR form without the zeros that ``kron`` fills blocks with; tags count from one."""
    matrix = matrix.tocsr()
    matrix.eliminate_zeros()
    return matrix


def broadcast(p: Any, shape: tuple[int, ...], into: tuple[int, ...]) -> Any:
    """Return the rows of an array broadcast to another shape."""
    return p if shape == into else rows.gather(p, np.broadcast_to(positions_of(shape), into).reshape(-1))


def follow(program: Program, sizes: list[int], fixed: bool, limit: int, skip: int = 0) -> tuple[Any, Walk]:
    """Return the pattern of all outputs against all inputs behind the first ``skip``, and the walk that found it."""
    walk = Walk(sum(sizes), fixed, limit)
    return walk.stacked(program, [*[None] * skip, *rows.identities(sizes)]), walk
