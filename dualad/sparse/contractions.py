"""Rules of contractions: products with a matrix, sums of products, convolutions.

A known factor is taken as full, unless many of its entries are zero: then it is a matrix of constants, most likely, and
a pattern that relies on that is checked at each call. Of a linear program, just one factor is followed. Not for:
anything elementwise (``maps.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.aval import Aval
from .maps import RULES, along, dense_rule, positions_of, shape_of
from .needs import scipy_sparse

__all__ = ["zeros_that_stay"]

#: a factor with fewer zeros than this is taken as full
_SPARSE = 0.5


def zeros_that_stay(walk: Any, factor: Any) -> bool:
    """Whether a factor is an array of constants, many of them zero for good."""
    if not walk.sparse_factors or type(factor) is not np.ndarray:
        return False
    stay = 0 < np.count_nonzero(factor) <= _SPARSE * factor.size
    walk.relies = walk.relies or stay
    return bool(stay)


def _matmul(walk, step) -> list:
    _, args, _, outs = step
    (i,) = walk.followed(args)
    x, other, out = args[i], args[1 - i], outs[0].aval
    m, n = x.aval.ndim, len(shape_of(other))
    if n == 2 and m <= 2 and zeros_that_stay(walk, other):
        matrix = other if i else other.T
        structure = scipy_sparse().csr_array((matrix != 0).astype(int))
        eye = scipy_sparse().eye_array(x.aval.size // matrix.shape[1], dtype=int, format="csr")
        kron = scipy_sparse().kron
        return [walk.multiply(walk.rows[x], kron(structure, eye) if i else kron(eye, structure), None, out)]
    if i:
        return [along(walk, x, (max(m - 2, 0),), out, () if n == 1 else (out.ndim - (2 if m > 1 else 1),))]
    return [along(walk, x, (m - 1,), out, () if n == 1 else (out.ndim - 1,))]


def _einsum(walk, step) -> list:
    _, args, params, outs = step
    (i,) = walk.followed(args)
    out = outs[0].aval
    inputs, output = params["subscripts"].split("->")
    letters, shape = inputs.split(",")[i], args[i].aval.shape
    once = "".join(dict.fromkeys(letters))
    sizes = dict(zip(letters, shape, strict=True))
    # Of a repeated letter only the diagonal is read.
    read = np.einsum(f"{letters}->{once}", positions_of(shape))
    rows = walk.rows[args[i]]
    if len(once) < len(letters):
        rows = walk.gather(rows, read.reshape(-1), Aval(read.shape, args[i].aval.dtype), values=False)
    kept = [a for a in once if a in output]
    groups = positions_of(tuple([sizes[a] for a in kept]))
    targets = groups.reshape([sizes[a] if a in kept else 1 for a in once])
    there = np.einsum(f"{''.join(kept)}->{''.join([a for a in output if a in kept])}", groups)
    there = there.reshape([sizes[a] if a in kept else 1 for a in output])
    return [
        walk.spread(
            rows, np.broadcast_to(targets, read.shape).reshape(-1), np.broadcast_to(there, out.shape).reshape(-1),
            groups.size,
        )
    ]  # fmt: skip


def _csr_product(walk, step) -> list:
    _, args, params, outs = step
    (i,) = walk.followed(args)
    pattern, transposed, out = params["pattern"], params["transposed"], outs[0].aval
    columns = out.shape[1]
    ss = scipy_sparse()
    if i:
        matrix = pattern.matrix(np.arange(1, len(pattern.indices) + 1), transposed)
        if columns != 1:
            matrix = ss.kron(matrix, ss.eye_array(columns, dtype=int))
        return [walk.multiply(walk.rows[args[1]], matrix, 0, out)]
    entries = np.repeat(positions_of((len(pattern.indices),)), columns)
    into = np.asarray(pattern.indices if transposed else pattern.rows)
    targets = (into[:, None] * columns + np.arange(columns)).reshape(-1)
    moved = walk.gather(walk.rows[args[0]], entries, Aval((len(entries),), args[0].aval.dtype), values=False)
    return [walk.spread(moved, targets, np.arange(out.size), out.size)]


def _convolve(walk, step) -> list:
    """Let entry k read entries k − j ("full") or k + last − j ("valid") of one argument, for j of the other."""
    op, args, params, outs = step
    (i,) = walk.followed(args)
    x, other, out = args[i], args[1 - i], outs[0].aval
    ndim = params.get("ndim", 1)
    mine, theirs, core = x.aval.shape[-ndim:], shape_of(other)[-ndim:], out.shape[-ndim:]
    if x.aval.shape[:-ndim] != out.shape[:-ndim] or math.prod(theirs) > 4096 or 0 in mine or 0 in theirs:
        return dense_rule(walk, step)
    swapped = params["mode"] == "valid" and (i == 1 if op.name == "convolve_nd" else mine[-1] < theirs[-1])
    lanes = math.prod(out.shape[:-ndim])
    zero = walk.sparse_factors and type(other) is np.ndarray and other.ndim == ndim and bool(other.any())
    rows, columns, tags = [], [], []
    places = np.indices(core).reshape(ndim, -1)
    for number, j in enumerate(np.ndindex(*theirs)):
        if zero and not other[j]:
            walk.relies = True
            continue
        shift = np.array(j)[:, None]
        if params["mode"] == "full":
            read = places - shift
        elif swapped:  # the other one is longer: out[k] = Σ other[k + last − i] x[i]
            read = places + np.array(mine)[:, None] - 1 - shift
        else:
            read = places + np.array(theirs)[:, None] - 1 - shift
        inside = ((read >= 0) & (read < np.array(mine)[:, None])).all(0)
        rows.append(np.flatnonzero(inside))
        columns.append(np.ravel_multi_index(tuple(read[:, inside]), mine))
        tags.append(np.full(len(rows[-1]), number + 1))
    shape = (math.prod(core), math.prod(mine))
    ss = scipy_sparse()
    if rows:
        matrix = ss.csr_array((np.concatenate(tags), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    else:
        matrix = ss.csr_array(shape, dtype=int)
    if lanes != 1:
        matrix = ss.kron(ss.eye_array(lanes, dtype=int), matrix)
    return [walk.multiply(walk.rows[x], matrix, 1 - i if len(shape_of(other)) == ndim else None, out)]


RULES.update(
    {
        "convolve": _convolve,
        "convolve_nd": _convolve,
        "csr_product": _csr_product,
        "einsum": _einsum,
        "einsum_strong": _einsum,
        "matmul": _matmul,
    }
)
