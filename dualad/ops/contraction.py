"""Contractions: matrix products and Einstein sums, linear in each of their operands.

Their transposes compute only the cotangent that is asked for, as products that BLAS can do: where an operand was
broadcast over a batch, the batch is folded into one of the matrix axes instead of being summed afterwards.
Not for: NumPy's many spellings of them (``surface/contraction.py``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..core.aval import Array, Aval, broadcast_shapes, result_dtype
from ..core.constants import foreign, match_library
from ..core.dispatch import bind
from ..core.primitive import Primitive
from .choice import nowhere
from .factorization import transposed
from .kinds import add_tangents, align_ranks, bilinear, is_finite, is_wild, unbroadcast
from .samples import complex_normal

__all__ = ["einsum", "matmul"]


# ── matmul ───────────────────────────────────────────────────────────────────────────────────────────────────────
#
# out[..., n, m] = Σ_k x[..., n, k] y[..., k, m]; a one-dimensional operand lacks its n or m, and so does the result.
#
# ⟨c, x y⟩ = ⟨c yᵀ, x⟩ = ⟨xᵀ c, y⟩, nothing conjugated.


def _matmul_shape(x: Aval, y: Aval) -> Aval:
    dtype = x.dtype if x.dtype == y.dtype else result_dtype(x, y)
    if len(x.shape) == 2 and 1 <= len(y.shape) <= 2 and x.shape[1] == y.shape[0]:
        return Aval((x.shape[0], *y.shape[1:]), dtype)
    for i, a in enumerate((x, y)):
        if not a.shape:
            raise ValueError(
                f"matmul: Input operand {i} does not have enough dimensions (has 0, gufunc core with signature"
                " (n?,k),(k,m?)->(n?,m?) requires 1)"
            )
    inner = y.shape[-2] if len(y.shape) > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature"
            f" (n?,k),(k,m?)->(n?,m?) (size {inner} is different from {x.shape[-1]})"
        )
    batch = broadcast_shapes(Aval(x.shape[:-2], dtype), Aval(y.shape[:-2], dtype))
    return Aval((*batch, *x.shape[-2:-1], *(y.shape[-1:] if len(y.shape) > 1 else ())), dtype)


def _matmul_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    x, y = primals
    tx, ty = tangents
    out = np.matmul(x, y)  # first, so that what NumPy refuses is refused in its words
    t = None if tx is None else _product(tx, y, tx)
    if ty is not None:
        t = add_tangents(t, _product(x, ty, ty))
    return out, t


def _product(x, y, t):
    """Return x @ y, one of which is the tangent t: its zeros are strong against infinities in the other."""
    if is_wild(x if t is y else y):
        return _beside_infinity(_matmul_subscripts(x, y), x, y, optimize=False)
    return x @ y


def _matmul_transpose(ct: Array, x: Array, y: Array) -> tuple:
    if type(x) is Aval:
        return unbroadcast(_cotangent_of_left(ct, x, y), x), None
    return None, unbroadcast(_cotangent_of_right(ct, x, y), y)


def _cotangent_of_left(ct, x: Aval, y):
    """Return c yᵀ, summed over what x was broadcast along if x has no batch of its own."""
    n, m = x.ndim, y.ndim
    if n == 2 and m == 2:
        return ct @ y.T
    if m == 1:
        return ct * y if n == 1 else _column(ct) * y
    if n == 1:
        return y @ ct if m == 2 else _rows(y) @ ct.reshape((ct.size,))
    if n == 2:
        return _rows(ct) @ _rows(y).T
    return ct @ transposed(y)


def _cotangent_of_right(ct, x, y: Aval):
    """Return xᵀ c, summed over what y was broadcast along if y has no batch of its own."""
    n, m = x.ndim, y.ndim
    if n == 2 and m == 2:
        return x.T @ ct
    if n == 1:
        return ct * x if m == 1 else _column(x) * ct.reshape((*ct.shape[:-1], 1, ct.shape[-1]))
    if m == 1:
        return ct.reshape((ct.size,)) @ _fold(x)
    if m == 2:
        return _fold(x).T @ _fold(ct)
    return transposed(x) @ ct


def _column(x):
    """Return x with one more axis at the end."""
    return x.reshape((*x.shape, 1))


def _fold(x):
    """Return x[..., n, k] as x[(...n), k]."""
    return x if x.ndim == 2 else x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def _rows(x):
    """Return x[..., n, k] as x[n, (...k)]."""
    return np.moveaxis(x, -2, 0).reshape((x.shape[-2], math.prod(x.shape[:-2]) * x.shape[-1]))


def _matmul_batch(size: int, values: Sequence, mapped: Sequence[bool]) -> Array:
    """Choose, of the ways to add a leading axis, one that is a single matrix product if there is one."""
    x, y = values
    mx, my = mapped
    n, m = np.ndim(x) - mx, np.ndim(y) - my
    if not n or not m:
        raise ValueError("matmul: a number is no matrix; an operand must have at least one dimension in every lane")
    if (n == 1 and not mx) or (m == 1 and not my):
        return y @ x if n == m == 1 and my else x @ y
    if m == 1 and not mx:  # the same matrices applied to a vector per lane: out = y xᵀ
        return (y @ _fold(x).T).reshape((size, *x.shape[:-1]))
    if m == 2 and not my:  # a stack of rows times one matrix
        return (_fold(x) @ y).reshape((*x.shape[:-1], y.shape[-1]))
    ndim = max(n, m, 2)
    if n == 1:
        x = x.reshape((size, 1, x.shape[-1]))
    if m == 1:
        y = y.reshape((size, y.shape[-1], 1))
    out = (align_ranks(x, ndim) if mx else x) @ (align_ranks(y, ndim) if my else y)
    if n == 1 or m == 1:
        row, column = out.shape[-2:]
        out = out.reshape((*out.shape[:-2], *(() if n == 1 else (row,)), *(() if m == 1 else (column,))))
    return out


def _matmul_strong_transpose(ct, x, y, live, hot):
    if not hot and (live is None or is_finite(y if type(x) is Aval else x) is not False):
        return _matmul_transpose(ct, x, y)
    subscripts = _matmul_subscripts(x, y)
    return _einsum_strong_transpose(ct, x, y, live=live, hot=hot, subscripts=subscripts, optimize=False)


def _matmul_subscripts(x, y) -> str:
    """Return a matrix product as an Einstein sum: batch letters from the right, then the matrix axes that there are."""
    n, m = len(np.shape(x)), len(np.shape(y))
    batch = _LETTERS[: max(n, m, 2) - 2]
    left = batch[len(batch) - max(n - 2, 0) :] + ("XY" if n > 1 else "Y")
    right = batch[len(batch) - max(m - 2, 0) :] + ("YZ" if m > 1 else "Y")
    return f"{left},{right}->{batch}{'X' * (n > 1)}{'Z' * (m > 1)}"


matmul = Primitive(
    "matmul",
    impl=np.matmul,
    abstract_eval=_matmul_shape,
    jvp=_matmul_jvp,
    linear_in=(0, 1),
    transpose=_matmul_transpose,
    strong_transpose=_matmul_strong_transpose,
    contracts=True,
    batch=_matmul_batch,
    samples=[
        ((2, 3), (3, 4)), ((2, 3), (3,)), ((3,), (3, 2)), ((3,), (3,)), ((4, 2, 3), (3, 2)), ((2, 3), (4, 3, 2)),
        ((4, 2, 3), (3,)), ((3,), (4, 3, 2)), ((4, 2, 3), (4, 3, 2)), ((4, 1, 2, 3), (5, 3, 2)), ((1, 1), (1, 1)),
        ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 2)), (complex_normal(2, 3), (3, 2)),
        ((2, 3), complex_normal(3)), (complex_normal(2, 3), complex_normal(4, 3, 2)),
    ],
    numpy=[np.matmul],
    kind="bilinear",
)  # fmt: skip


# ── einsum ───────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Subscripts are complete: one letter an axis, no ellipsis, an explicit output. With the operands but one held fixed,
#
#     out[o] = Σ_s x[i] r[...],      ⟨c, out⟩ = Σ c[o] r[...] x[i],
#
# so the cotangent of x is the Einstein sum of c and the rest with output i, where
#   - a letter of x that neither c nor the rest has was only summed over: the cotangent is constant along it;
#   - a letter that x has with size 1, and others with size n, was broadcast: the cotangent is summed along it;
#   - a letter that x has twice means its diagonal: the cotangent lies on the diagonal, zero off it.


def _split(subscripts: str) -> tuple[list[str], str]:
    inputs, output = subscripts.split("->")
    return inputs.split(","), output


def _sizes(labels: list[str], shapes) -> dict[str, int]:
    """Return the size of every letter, 1 giving way to n."""
    sizes: dict[str, int] = {}
    for letters, shape in zip(labels, shapes, strict=True):
        for letter, n in zip(letters, shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                if n != 1 and sizes[letter] != 1:
                    raise ValueError(
                        f"operands could not be broadcast together: subscript {letter!r} has sizes {sizes[letter]}"
                        f" and {n}"
                    )
                sizes[letter] = n if sizes[letter] == 1 else sizes[letter]
    return sizes


def _worth_optimizing(labels: list[str], shapes) -> bool:
    """Whether a contraction is large enough to search for an order, and for BLAS, instead of one plain loop.

    Of two operands with the same letters it is a product entry by entry, which BLAS would do one dot product at a time.
    """
    if len(labels) == 2 and set(labels[0]) == set(labels[1]):
        return False
    return len(labels) > 1 and math.prod(_sizes(labels, shapes).values()) > 20_000


#: products that are worth being handed to BLAS: fewer are quicker in NumPy's one loop over all of them
_FOR_BLAS = 2000


def _contract(*operands, subscripts: str, optimize):
    """Contract two arrays at a time, by matrix products, which ``np.einsum`` searches for at each call or never."""
    if len(operands) < 2 or type(optimize) is tuple or foreign(*operands) is not None:
        return np.einsum(subscripts, *operands, optimize=optimize)
    operands = [np.asarray(x) for x in operands]
    if not all([x.dtype.kind in "fc" for x in operands]):
        return np.einsum(subscripts, *operands, optimize=optimize)
    steps = _by_pairs(subscripts, *[x.shape for x in operands])
    if not steps:
        return np.einsum(subscripts, *operands)
    left = operands
    for places, part, moves in steps:
        taken = [left.pop(i) for i in places]
        left.append(np.einsum(part, *taken) if moves is None else _matrix_product(*taken, *moves))
    return left[0]


def _matrix_product(x, y, x_axes, x_shape, y_axes, y_shape, shape, order):
    out = np.matmul(x.transpose(x_axes).reshape(x_shape), y.transpose(y_axes).reshape(y_shape)).reshape(shape)
    return np.ascontiguousarray(out.transpose(order))


@functools.lru_cache(4096)
def _by_pairs(subscripts: str, *shapes) -> list[tuple]:
    """Return contractions of two arrays, by their places, whose results come last, and moves to a matrix product.

    There are none where all of it is so little that one loop is quicker.
    """
    labels, output = _split(subscripts)
    if math.prod(_sizes(labels, shapes).values()) < _FOR_BLAS:
        return []
    path = [tuple(range(len(labels)))]
    if len(labels) > 2:
        path = np.einsum_path(subscripts, *[np.broadcast_to(0.0, s) for s in shapes], optimize="greedy")[0][1:]
    steps, left = [], list(zip(labels, shapes, strict=True))
    for some in path:
        places = sorted(some, reverse=True)
        taken = [left.pop(i) for i in places]
        wanted = set(output).union(*[letters for letters, _ in left])
        kept = "".join([a for a in dict.fromkeys("".join([t[0] for t in taken])) if a in wanted]) if left else output
        part = f"{','.join([t[0] for t in taken])}->{kept}"
        sizes = _sizes(*zip(*taken, strict=True))
        steps.append((places, part, _moves(part, *[t[1] for t in taken]) if len(taken) == 2 else None))
        left.append((kept, tuple([sizes[a] for a in kept])))
    return steps


def _moves(subscripts: str, *shapes) -> tuple | None:
    """Return the moves that make two arrays matrices, or stacks of them, whose product is the contraction."""
    (a, b), output = _split(subscripts)
    sizes, both = _sizes([a, b], shapes), [c for c in a if c in b]
    stack, summed = [c for c in output if c in both], [c for c in both if c not in output]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    plain = len(set(a)) == len(a) and len(set(b)) == len(b) and {*rows, *columns} <= set(output)
    if not plain or not summed or not (rows or columns) or [tuple([sizes[c] for c in x]) for x in (a, b)] != [*shapes]:
        return None
    count = lambda letters: math.prod([sizes[c] for c in letters])
    size = lambda *groups: (*[sizes[c] for c in stack], *map(count, groups))
    axes = lambda x, letters: tuple([x.index(c) for c in letters])
    made = [*stack, *rows, *columns]
    return (
        axes(a, [*stack, *rows, *summed]), size(rows, summed),
        axes(b, [*stack, *summed, *columns]), size(summed, columns),
        tuple([sizes[c] for c in made]), axes(made, output),
    )  # fmt: skip


def _einsum_shape(*avals: Aval, subscripts: str, optimize) -> Aval:
    inputs, output = _split(subscripts)
    sizes = _sizes(inputs, [a.shape for a in avals])
    # np.einsum makes arrays of Python scalars: unlike a ufunc it lets them widen the result.
    return Aval(tuple([sizes[letter] for letter in output]), np.result_type(*[a.dtype for a in avals]))


def _einsum_transpose(ct: Array, *args: Array, subscripts: str, optimize, contract: Callable = np.einsum) -> tuple:
    inputs, output = _split(subscripts)
    i = next(i for i, a in enumerate(args) if type(a) is Aval)
    letters, x = inputs[i], args[i]
    labels, operands = [output, *inputs[:i], *inputs[i + 1 :]], [ct, *args[:i], *args[i + 1 :]]
    shapes = [np.shape(o) for o in operands]
    sizes = _sizes(labels, shapes)
    size_in_x = dict(zip(letters, x.shape, strict=True))
    kept = "".join([a for a in dict.fromkeys(letters) if a in sizes and not (size_in_x[a] == 1 and sizes[a] != 1)])
    if labels == [kept]:
        found = ct
    else:
        found = contract(f"{','.join(labels)}->{kept}", *operands, optimize=_worth_optimizing(labels, shapes))
    once = letters if len(set(letters)) == len(letters) else ""
    if once != kept:
        # Every letter of x at its first place, size 1 where the cotangent is constant or the letter is repeated.
        first = [a in kept and letters.index(a) == place for place, a in enumerate(letters)]
        found = found.reshape(tuple([sizes[a] if f else 1 for a, f in zip(letters, first, strict=True)]))
    if not once and letters:
        found = np.where(match_library(_diagonal_mask(letters, x.shape), found), found, found.dtype.type(0))
    if found.shape != x.shape:
        found = np.broadcast_to(found, x.shape)
    return (*[None] * i, unbroadcast(found, x), *[None] * (len(args) - i - 1))


def _diagonal_mask(letters: str, shape: tuple[int, ...]) -> np.ndarray:
    """Mark the entries at which all axes of a repeated letter have the same index."""
    mask = np.ones((1,) * len(shape), bool)
    axes = np.ogrid[tuple([slice(n) for n in shape])]
    for place, letter in enumerate(letters):
        first = letters.index(letter)
        if first != place:
            mask = mask & (axes[first] == axes[place])
    return mask


def _einsum_batch(
    size: int, values: Sequence, mapped: Sequence[bool], *, subscripts: str, optimize, contract: Callable = np.einsum
) -> Array:
    inputs, output = _split(subscripts)
    used = set(subscripts)
    lane = next((a for a in _LETTERS if a not in used), None)
    if lane is None:
        raise ValueError("einsum: all 52 subscripts are in use, none is left for the axis of vmap")
    labels = [lane + letters if m else letters for letters, m in zip(inputs, mapped, strict=True)]
    optimize = optimize or _worth_optimizing(labels, [np.shape(v) for v in values])
    return contract(f"{','.join(labels)}->{lane}{output}", *values, optimize=optimize)


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


# ── beside a pole ────────────────────────────────────────────────────────────────────────────────────────────────
#
# A sum of products leaves 0·∞ out term by term where a zero of a *factor* wins, as `scale(factor, c)` does for one
# product (`kinds.py`). The terms with an infinite entry of c are ±∞, NaN or nothing. The same contraction of signs
# counts them: `met` of them there are, and all have one sign if their sum `balance` is ±met. Terms with an infinite
# factor count too; where one meets a zero, the sum is NaN.


def _einsum_strong(*operands, subscripts: str, optimize):
    ct, *factors = operands
    if is_finite(ct) or ct.dtype.kind == "c":
        if len(factors) == 1 and _is_plain_product(subscripts) and ct.shape[-1] == factors[0].shape[0]:
            return np.tensordot(ct, factors[0], 1)  # which needs no transposes, of einsum's as many as three
        return _contract(*operands, subscripts=subscripts, optimize=optimize)
    count = lambda c, given: np.einsum(subscripts, c.astype(ct.dtype), *given, optimize=optimize)
    known, signs = np.isfinite(ct), [np.sign(a) for a in factors]
    sign = np.where(known | np.isnan(ct), 0, np.sign(ct))
    balance, met = count(sign, signs), count(~known, [np.abs(s) for s in signs])
    wide = [np.isinf(a) for a in factors]
    lost = np.zeros(())
    if not all([nowhere(w) for w in wide]):
        only = lambda c, given: (
            count(c, given) - count(c, [np.where(w, 0, a) for a, w in zip(given, wide, strict=True)])
        )
        sizes, ones = [np.abs(s) for s in signs], [np.ones_like(a) for a in factors]
        sign = np.where(known, np.sign(ct), 0)
        balance, met = balance + only(sign, signs), met + only(sign != 0, sizes)
        lost = only(np.ones_like(known), ones) - only((sign != 0) | ~known, sizes)
        factors = [np.where(w, 0, a) for a, w in zip(factors, wide, strict=True)]
    total = count(np.where(known, ct, 0), factors)
    infinite = np.where(balance == met, np.inf, np.where(balance == -met, -np.inf, np.nan))
    return np.where(lost > 0, np.nan, np.where(met > 0, infinite, total)).astype(total.dtype)[()]


@functools.cache
def _is_plain_product(subscripts: str) -> bool:
    """Whether a contraction sums over just the last axis of one array and the first of the other."""
    (left, right), output = _split(subscripts)
    letters = left + right[1:]
    free = letters.replace(left[-1:], "")
    return left[-1:] == right[:1] != "" and output == free != "" and len(set(letters)) == len(letters)


def _contract_strongly(subscripts: str, *operands, optimize):
    return bind(einsum_strong, operands, {"subscripts": subscripts, "optimize": optimize})


def _beside_infinity(subscripts: str, *operands, optimize):
    """Contract, and let the zeros of the others win against the first operand that is known to be infinite."""
    wild = next((i for i, a in enumerate(operands) if is_finite(a) is False), None)
    if wild is None:
        return np.einsum(subscripts, *operands, optimize=optimize)
    inputs, output = _split(subscripts)
    order = [wild, *[i for i in range(len(operands)) if i != wild]]
    return _contract_strongly(
        f"{','.join([inputs[i] for i in order])}->{output}", *[operands[i] for i in order], optimize=optimize
    )


def _einsum_strong_transpose(ct, *args, live, hot: bool, subscripts: str, optimize):
    contract = _contract_strongly if hot else np.einsum if live is None else _beside_infinity
    return _einsum_transpose(ct, *args, subscripts=subscripts, optimize=optimize, contract=contract)


def _einsum_jvp(primals, tangents, *, subscripts: str, optimize):
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            rest = primals[:i] + primals[i + 1 :]
            contract = _beside_infinity if any([is_wild(a) for a in rest]) else np.einsum
            total = add_tangents(total, contract(subscripts, *primals[:i], t, *primals[i + 1 :], optimize=optimize))
    return bind(einsum, primals, {"subscripts": subscripts, "optimize": optimize}), total


def _sum(subscripts: str, *operands, optimize=False) -> tuple:
    return (*operands, {"subscripts": subscripts, "optimize": optimize})


einsum_strong = bilinear(
    "einsum_strong",
    impl=_einsum_strong,
    abstract_eval=_einsum_shape,
    linear_in=(-1,),
    transpose=_einsum_transpose,
    strong_transpose=_einsum_strong_transpose,
    batch=functools.partial(_einsum_batch, contract=_contract_strongly),
    samples=[_sum("ij,jk->ik", (2, 3), (3, 4)), _sum("ij,j->i", (2, 3), (3,))],
    pole=True,
    contracts=True,
)

einsum = Primitive(
    "einsum",
    impl=_contract,
    abstract_eval=_einsum_shape,
    jvp=_einsum_jvp,
    linear_in=(-1,),
    transpose=_einsum_transpose,
    strong_transpose=_einsum_strong_transpose,
    contracts=True,
    batch=_einsum_batch,
    samples=[
        _sum("ij,jk->ik", (2, 3), (3, 4)), _sum("ij,jk,ki->", (2, 3), (3, 4), (4, 2), optimize="greedy"),
        _sum("ii->i", (3, 3)), _sum("ii->", (3, 3)), _sum("ij->ji", (2, 3)), _sum("ij->i", (2, 3)),
        _sum("iij,i->j", (3, 3, 2), (3,)), _sum("ij,ij->ij", (2, 1), (2, 4)), _sum("ij,ij->i", (2, 1), (2, 4)),
        _sum(",i->i", (), (3,)), _sum("ij,jk->ik", (0, 2), (2, 3)),
        _sum("bij,jk->bik", (5, 2, 3), (3, 4), optimize=True), _sum("ij,j->i", complex_normal(2, 3), (3,)),
    ],
)  # fmt: skip
