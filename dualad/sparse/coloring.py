"""``color``: how few products with a matrix tell all its entries, given where they are.

A colouring names, for every column (and row), the product in which it takes part, and for every entry the number of the
result that it is read from. Every colouring is verified when it is made. Not for: the greedy algorithms
(``greedy.py``), substitution (``substitution.py``), or carrying products out (``coloured.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.frames import public
from ..errors import ArgumentError, SparsityError
from . import rows
from .greedy import AFFORDABLE, acyclic, color_columns, has_compiler, is_compiled, largest_first, star
from .needs import scipy_sparse
from .structure import Sparsity, as_sparsity
from .substitution import Substitution

__all__ = ["Coloring", "color", "restored_coloring"]

#: what a pull costs, in products: the walk back makes about twice as many arrays
PULL = 2.0
#: numbers of dense rows (or columns) to try leaving to the other mode
_PEELED = (0, 1, 2, 4, 8, 16, 32, 64)
#: more entries in a row are too many for star colouring
_LONG = 2000
#: entries that greedy colouring, one pass a colour, visits in about a tenth of a second
_QUADRATIC = 2e8

#: paths of two entries that star colouring visits in about a second, if it is compiled
_WALKS = 1e7

_MODES = ("auto", "forward", "reverse", "bidirectional", "symmetric")


class Coloring:
    """A colouring of a pattern: the products that tell all its entries.

    Attributes
    ----------
    sparsity : Sparsity
        The pattern.
    mode : str
        ``"forward"``, ``"reverse"``, ``"bidirectional"`` or ``"symmetric"``.
    column_colors : int array, shape (n,)
        The product in which a column takes part, −1 for none.
    row_colors : int array, shape (m,)
        The pull in which a row takes part, −1 for none.
    forward, reverse, count : int
        How many products and pulls there are, and their sum.
    lower_bound : int
        No colouring of columns alone can need fewer products.

    Examples
    --------
    >>> pattern = da.jacobian_sparsity(lambda x: x[1:] * x[:-1], np.ones(100))
    >>> coloring = da.color(pattern)
    >>> coloring.mode, coloring.count
    ('forward', 2)
    """

    def __init__(
        self, sparsity: Sparsity, mode: str, column_colors: np.ndarray, row_colors: np.ndarray, reason: str,
        substitution: Substitution | None = None,
    ) -> None:  # fmt: skip
        self.sparsity, self.mode, self.reason = sparsity, mode, reason
        self.column_colors, self.row_colors = column_colors, row_colors
        self.forward, self.reverse = (int(c.max(initial=-1)) + 1 for c in (column_colors, row_colors))
        self.count = self.forward + self.reverse
        #: what they cost, in products
        self.cost = self.forward + PULL * self.reverse
        self.substitution = substitution
        self.lower_bound = int(np.diff(sparsity.indptr).max(initial=0))
        self.places = self._places()
        self.places.setflags(write=False)  # to a program that is compiled they are constants then

    def _places(self) -> np.ndarray:
        """Return, for every entry, the place of the number it is read from: in all products, then in all pulls.

        This is the verification: an entry is read where it is alone, and there is an error if it is so nowhere.
        """
        S = self.sparsity
        if self.mode == "forward" and (places := self._all_alone()) is not None:
            return places
        (m, n), i, j = S.shape, S.rows.astype(np.intp), S.indices.astype(np.intp)
        if self.substitution is not None:
            return self.substitution.sums
        places = np.full(S.nnz, -1, np.intp)
        if self.forward:
            alone, key = _alone(i, self.column_colors[j], m)
            places[alone] = key[alone]
            if self.mode == "symmetric" and not alone.all():
                # The matrix is symmetric: (i, j) is also (j, i).
                transposed = _transposed(S)
                other = np.where(alone[transposed], key[transposed], -1)
                places = np.where(places < 0, other, places)
        if self.reverse:
            alone, key = _alone(j, self.row_colors[i], n)
            take = alone & (places < 0)
            places[take] = self.forward * m + key[take]
        if (places < 0).any():
            e = int(np.argmin(places))
            raise SparsityError(
                f"a colouring does not tell entry ({i[e]}, {j[e]}).",
                "in every product that it takes part in, another entry of its row or column does so too",
                "pass a colouring made by dualad.color of this very pattern",
            )
        return places

    def _all_alone(self) -> np.ndarray | None:
        """Return the places of all entries if no two of them are read from one: of most colourings, and quickly."""
        S, m = self.sparsity, self.sparsity.shape[0]
        colors = self.column_colors[S.indices]
        if colors.min(initial=0) < 0:
            return None
        places = colors.astype(np.intp)
        places *= m
        places += S.rows
        taken = np.zeros(self.forward * m, bool)
        taken[places] = True
        return places if np.count_nonzero(taken) == len(places) else None

    def explain(self) -> str:
        """Say how many products there are, of which kind, and why.

        Returns
        -------
        str
            A line.
        """
        parts = [f"{self.forward} product{'s' * (self.forward != 1)}"] if self.forward or not self.reverse else []
        parts += [f"{self.reverse} pull{'s' * (self.reverse != 1)}"] if self.reverse else []
        return f"{' and '.join(parts)} ({self.mode}): {self.reason}"

    def __repr__(self) -> str:
        return f"<colouring: {self.explain()}>"


def restored_coloring(S: Sparsity, stored: Any) -> Coloring:
    """Return the colouring of a pattern from the arrays of a file; it is verified like a new one."""
    colors = stored["column_colors"]
    substitution = Substitution(S, colors, _transposed(S)) if bool(stored["substitution"]) else None
    return Coloring(S, str(stored["mode"]), colors, stored["row_colors"], str(stored["coloring_reason"]), substitution)


def _alone(lines: np.ndarray, colors: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Say which entries are the only ones of their colour in their line, and where a product of it has them."""
    key = colors.astype(np.intp) * length + lines
    valid = colors >= 0
    k = int(colors.max(initial=-1)) + 1
    if k * length <= 8 * len(key) + 1_000_000:
        counts = np.bincount(key[valid], minlength=k * length)
        return valid & (counts[key] == 1), key
    order = np.argsort(key, kind="stable")
    ranked = key[order]
    differs = np.ones(len(key) + 1, bool)
    np.not_equal(ranked[1:], ranked[:-1], out=differs[1:-1])
    alone = np.empty(len(key), bool)
    alone[order] = differs[1:] & differs[:-1]
    return valid & alone, key


def _transposed(S: Sparsity) -> np.ndarray:
    """Return, for every entry (i, j) of a symmetric pattern, the position of (j, i)."""
    m, n = S.shape
    tags = rows.with_entry_numbers(S._matrix).T.tocsr()
    if m != n or tags.nnz != S.nnz or not np.array_equal(tags.indices, S.indices):
        raise SparsityError(
            f"a pattern of shape {S.shape} was coloured with mode='symmetric', and it is not symmetric.",
            "entry (i, j) is then read in place of (j, i)",
            "use mode='auto', or the union S | S.T if the matrix is symmetric",
        )
    return tags.data


@public
def color(sparsity: Any, mode: str = "auto", order: str = "auto", decompression: str = "direct") -> Coloring:
    """Colour a pattern: find few products that tell all entries of a matrix.

    Parameters
    ----------
    sparsity : Sparsity, sparse array or bool array, shape (m, n)
        Where the matrix can have entries.
    mode : {"auto", "forward", "reverse", "bidirectional", "symmetric"}
        Products with columns, pulls of rows, both, or products that rely on symmetry. ``"auto"`` takes what costs
        less, and leaves a few dense rows or columns to the other mode where that helps.
    order : {"auto", "natural", "largest_first"}
        The order in which columns are coloured; ``"auto"`` tries both unless the first one can't be beaten, or, of
        symmetric patterns, colouring takes long.
    decompression : {"direct", "substitution"}
        With ``mode="symmetric"``: whether each entry is read from one number, or found by substitution, which takes
        fewer products and rounds more.

    Returns
    -------
    Coloring
        Verified: each entry can be told.

    Raises
    ------
    ArgumentError
        For another mode, order or decompression.
    ArgumentTypeError
        If the pattern is no matrix.
    SparsityError
        If ``mode="symmetric"`` is asked for a pattern that is not symmetric.

    Notes
    -----
    Columns that share no row go together: Curtis, Powell and Reid (1974). Symmetric patterns have star colourings, or
    acyclic ones with substitution: Gebremedhin, Manne and Pothen, *What color is your Jacobian?* (2005).

    Examples
    --------
    >>> C = da.color(np.eye(5) + np.eye(5, k=1))
    >>> C
    <colouring: 2 products (forward): no row has more than 2 entries>
    >>> C.column_colors
    array([0, 1, 0, 1, 0], dtype=int32)
    """
    S = as_sparsity(sparsity, "color")
    for name, value, known in (
        ("mode", mode, _MODES), ("order", order, ("auto", "natural", "largest_first")),
        ("decompression", decompression, ("direct", "substitution")),
    ):  # fmt: skip
        if value not in known:
            raise ArgumentError(f"color: {name}={value!r}.", "there is no such one", f"use one of {known}")
    if decompression == "substitution" and mode != "symmetric":
        raise ArgumentError(
            "color: decompression='substitution' without mode='symmetric'.",
            "substitution relies on symmetry",
            "use it for Hessians, with mode='symmetric'",
        )
    if mode == "symmetric":
        return _symmetric(S, order, decompression)
    if mode == "bidirectional":
        return _bidirectional(S, order)
    if mode == "reverse":
        return _reverse(_columns(S.T, order, 0), S)
    if mode == "forward":
        return _columns(S, order, 0)
    best = _columns(S, order, PULL)
    least = np.bincount(S.indices, minlength=1).max(initial=0)
    if PULL * min(least, _LONG) < best.cost:
        other = _reverse(_columns(S.T, order, 1 / PULL), S)
        best = other if other.cost < best.cost else best
    return best


def _reverse(C: Coloring, S: Sparsity) -> Coloring:
    """Return the colouring of a pattern from one of its transpose."""
    mode = {"forward": "reverse"}.get(C.mode, C.mode)
    reason = C.reason.replace("row", "\0").replace("column", "row").replace("\0", "column")
    return Coloring(S, mode, C.row_colors, C.column_colors, reason)


def _columns(S: Sparsity, order: str, pull: float) -> Coloring:
    """Colour columns; with a cost of pulls, leave the densest rows to them if that is cheaper."""
    (m, n), counts = S.shape, np.diff(S.indptr)
    matrix = S._matrix
    densest = np.argsort(-counts, kind="stable")[: max(_PEELED) + 1]
    best: tuple[float, int, np.ndarray] | None = None
    for r in _PEELED if pull else (0,):
        if r and r >= m:
            break
        bound = int(counts[densest[r]]) if r < m else 0
        if r and 2 * bound > counts[densest[0]]:
            continue  # the rows that would be left out are not much denser than the others
        if best is not None and bound + pull * r >= best[0]:
            continue
        if bound * S.nnz > _QUADRATIC:
            # Greedy colouring would take a time that is quadratic, for about as many colours as there are columns.
            if r == 0 and not pull:
                best = (n, 0, np.arange(n, dtype=np.int32))
            continue
        kept = matrix
        if r:
            mask = np.ones(m, bool)
            mask[densest[:r]] = False
            kept = rows.gather(matrix, np.flatnonzero(mask))
        colors = _in_order(kept, order, bound)
        cost = int(colors.max(initial=-1)) + 1 + pull * r
        if best is None or cost < best[0]:
            best = (cost, r, colors)
    if best is None:
        best = (n, 0, np.arange(n, dtype=np.int32))
    _, r, colors = best
    row_colors = np.full(m, -1, np.int32)
    row_colors[densest[:r]] = np.arange(r)
    if not counts.size or not S.nnz:
        colors = np.full(n, -1, np.int32)
        return Coloring(S, "forward", colors, row_colors, "there are no entries")
    if r:
        # Columns that have entries in the dense rows only take part in no product.
        colors = np.where(
            np.bincount(rows.gather(matrix, np.flatnonzero(row_colors < 0)).indices, minlength=n) > 0, colors, -1
        )
        colors = _without_gaps(colors)
        dense = f"{r} dense row{'s' * (r != 1)} left to reverse mode"
        return Coloring(S, "bidirectional", colors, row_colors, dense)
    k, bound = int(colors.max()) + 1, int(counts.max())
    reason = f"no row has more than {bound} entries" if k == bound else f"at least {bound} are needed"
    return Coloring(S, "forward", colors, row_colors, reason)


def _without_gaps(colors: np.ndarray) -> np.ndarray:
    used = np.unique(colors[colors >= 0])
    number = np.full(int(colors.max(initial=-1)) + 2, -1, np.int32)
    number[used] = np.arange(len(used))
    return number[colors]


def _in_order(pattern: Any, order: str, bound: int) -> np.ndarray:
    """Colour in the natural order, and largest first if that could be better."""
    colors = color_columns(pattern, largest_first(pattern) if order == "largest_first" else None)
    if order == "auto" and int(colors.max(initial=-1)) + 1 > bound:
        first = largest_first(pattern)
        if bool((first[1:] > first[:-1]).all()):
            return colors
        other = color_columns(pattern, first)
        colors = other if other.max() < colors.max() else colors
    return colors


# ── symmetric ────────────────────────────────────────────────────────────────────────────────────────────────────


def _symmetric(S: Sparsity, order: str, decompression: str) -> Coloring:
    """Give the densest vertices a colour each, and colour the rest."""
    _transposed(S)
    n, counts, matrix = S.shape[0], np.diff(S.indptr), S._matrix
    none = np.full(n, -1, np.int32)
    if not S.nnz:
        return Coloring(S, "symmetric", none, none, "there are no entries")
    densest = np.argsort(-counts, kind="stable")[: max(_PEELED) + 1]
    best: tuple[int, int, np.ndarray, str] | None = None
    for r in _PEELED:
        if r and r >= n:
            break
        apart = np.ones(n, bool)
        apart[densest[:r]] = False
        left = np.flatnonzero(apart)
        rest = matrix[left][:, left] if r else matrix
        bound = int(np.diff(rest.indptr).max(initial=0))
        # A star colouring may need half of what the densest row has; without hubs there is nothing to peel.
        if best is not None and (r >= best[0] or bound * 2 > 3 * best[0]):
            continue
        if bound * S.nnz > _QUADRATIC:
            continue
        colors, how = _vertices(rest, order, decompression, bound)
        k = int(colors.max(initial=-1)) + 1 + r
        if best is None or k < best[0]:
            full = none.copy()
            full[left], full[densest[:r]] = colors, np.arange(k - r, k)
            best = (k, r, full, how)
        if bound <= 2 * (best[0] - best[1]):
            break
    if best is None:
        best = (n, 0, np.arange(n, dtype=np.int32), "dense")
    _, r, colors, how = best
    reason = how + (f", {r} dense {'row' if r == 1 else 'rows'} apart" if r else "")
    if decompression == "substitution":
        return Coloring(S, "symmetric", colors, none, reason, Substitution(S, colors, _transposed(S)))
    colors = _drop_unused_colors(S, colors) if how == "star" else _without_gaps(colors)
    return Coloring(S, "symmetric", colors, none, reason)


def _vertices(matrix: Any, order: str, decompression: str, bound: int) -> tuple[np.ndarray, str]:
    """Colour the vertices of a symmetric pattern in the best way there is time for."""
    n = matrix.shape[0]
    if not matrix.nnz:
        return np.full(n, -1, np.int32), "nothing else"
    affordable = bound <= _LONG and (n < AFFORDABLE or has_compiler())
    plain = None
    if decompression == "direct":
        plain = _in_order(matrix, order, bound)
        # A path of four vertices needs three colours in a star colouring, too.
        if not affordable or int(plain.max()) < 3:
            return np.where(np.diff(matrix.indptr) > 0, plain, -1).astype(np.int32), "columns"
    if not affordable:
        raise ArgumentError(
            f"color: decompression='substitution' of {n} vertices without Numba.",
            "an acyclic colouring in plain Python takes too long",
            "pip install numba, or use decompression='direct'",
        )
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    pairs, kernel, how = ([_pairs(matrix)], acyclic, "acyclic") if plain is None else ([], star, "star")
    colors = min([kernel(indptr, indices, *pairs, first) for first in _orders(matrix, order)], key=np.max)
    if plain is not None and plain.max() < colors.max():
        colors, how = plain, "columns"
    return np.where(np.diff(indptr) > 0, colors, -1).astype(np.int32), how


def _orders(matrix: Any, order: str) -> list[np.ndarray]:
    """Return the orders in which to colour vertices: if any will do, the second one where there is time for it."""
    natural, largest = np.arange(matrix.shape[0]), largest_first(matrix)
    if order != "auto":
        return [largest if order == "largest_first" else natural]
    is_quick = _walks(np.diff(matrix.indptr)) <= (_WALKS if is_compiled(len(natural)) else _WALKS / 10)
    return [natural, largest] if is_quick and not np.array_equal(natural, largest) else [natural]


def _walks(lengths: np.ndarray) -> float:
    """Return how many paths of two entries there are, by how many entries vertices have."""
    return float((lengths.astype(float) ** 2).sum())


def _pairs(matrix: Any) -> np.ndarray:
    """Return a number for every entry off or on the diagonal, the same for (i, j) and (j, i)."""
    n = matrix.shape[0]
    i, j = np.repeat(np.arange(n), np.diff(matrix.indptr)), matrix.indices.astype(np.int64)
    return np.unique(np.minimum(i, j) * n + np.maximum(i, j), return_inverse=True)[1].astype(np.int64)


def _needed_colors(first: Any, second: Any, by_first: Any, by_second: Any, weights: np.ndarray) -> np.ndarray:
    """Return which colours to keep where entries can be read by one of two: greedily, those that tell the most."""
    needed = np.zeros(len(weights), bool)
    needed[first[by_first & ~by_second]] = needed[second[by_second & ~by_first]] = True
    open_ = by_first & by_second & ~needed[first] & ~needed[second]
    while open_.any():
        told = sum([np.bincount(colors[open_], minlength=len(weights)) for colors in (first, second)])
        needed[np.argmax(told * weights)] = True
        open_ &= ~needed[first] & ~needed[second]
    return needed


def _drop_unused_colors(S: Sparsity, colors: np.ndarray) -> np.ndarray:
    """Leave out the colours that no entry needs to be read from."""
    i, j = S.rows.astype(np.intp), S.indices.astype(np.intp)
    alone, _ = _alone(i, colors[j], S.shape[0])
    other = alone[_transposed(S)] & (i != j)
    needed = _needed_colors(colors[j], colors[i], alone, other, np.ones(int(colors.max(initial=-1)) + 2))
    return _without_gaps(np.where(needed[colors], colors, -1))


def _bidirectional(S: Sparsity, order: str) -> Coloring:
    """Star-colour the graph of rows and columns: products and pulls together, colours that nobody needs left out."""
    m, n = S.shape
    lengths = [np.diff(S.indptr), np.bincount(S.indices, minlength=1)]
    walks = sum(map(_walks, lengths))
    if not S.nnz or walks > _WALKS or (walks > _WALKS / 100 and not has_compiler()):
        return color(S, "auto", order)
    ss = scipy_sparse()
    graph = ss.block_array([[None, S._matrix.T], [S._matrix, None]], format="csr")
    graph.sort_indices()
    indptr, indices = graph.indptr.astype(np.int64), graph.indices.astype(np.int64)
    found = [color(S, "auto", order)]
    for name in ("natural", "largest_first") if order == "auto" else (order,):
        first = np.arange(m + n) if name == "natural" else largest_first(graph)
        colors = star(indptr, indices, first)
        columns, lines = colors[:n], colors[n:]
        i, j = S.rows.astype(np.intp), S.indices.astype(np.intp)
        forward, _ = _alone(i, columns[j], m)
        reverse, _ = _alone(j, lines[i], n)
        k = int(colors.max()) + 1
        needed = _needed_colors(columns[j], k + lines[i], forward, reverse, np.repeat([PULL, 1.0], k))
        columns = _without_gaps(np.where(needed[columns], columns, -1))
        lines = _without_gaps(np.where(needed[k + lines], lines, -1))
        found.append(Coloring(S, "bidirectional", columns, lines, "star colouring of rows and columns"))
    return min(found, key=lambda C: C.cost)
