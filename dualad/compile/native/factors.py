"""Small products of two arrays, written out: which entries of both are multiplied for each entry of the result.

For: products of matrices and Einstein sums in registers. Not for: loops of products (``products.py``), or the
arithmetic (``lowering.py``).
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np

from ...core.aval import Aval
from .values import places

__all__ = ["MOST", "factors_of", "products_of"]

#: products in unrolled code
MOST = 4096
_LETTERS = string.ascii_letters


def _labelled(avals: Sequence[Aval], params: dict) -> tuple[list[str], str, dict[str, int]] | None:
    """Return the letters of each array and of the result, with their lengths; None where they mean something else."""
    given, arrow, result = params["subscripts"].partition("->")
    labels = given.split(",")
    if not arrow or len(labels) > 2:
        return None
    free = "".join([c for c in _LETTERS if c not in given])  # for the axes that dots stand for
    hidden = [len(a.shape) - len(x) + 3 for x, a in zip(labels, avals, strict=True) if "." in x]
    if any([n != hidden[0] for n in hidden]):
        return None
    *labels, result = [x.replace("...", free[: hidden[0]] if hidden else "") for x in (*labels, result)]
    sizes = {c: n for x, a in zip(labels, avals, strict=True) for c, n in zip(x, a.shape, strict=True)}
    plain = all([a.shape == tuple([sizes[c] for c in x]) for x, a in zip(labels, avals, strict=True)])
    return (
        (labels, result, sizes) if plain and sizes.keys() >= set(result) and len(set(result)) == len(result) else None
    )


def products_of(name: str, avals: Sequence[Aval], params: dict) -> int:
    """Return how many products there are; more than ``MOST`` where the sum is not known here."""
    if name == "matmul":
        a, c = [x.shape for x in avals]
        stack = np.broadcast_shapes(a[:-2], c[:-2])
        return math.prod(stack) * math.prod(a[-2:]) * (c[-1] if len(c) > 1 else 1)
    found = _labelled(avals, params)
    return MOST + 1 if found is None else math.prod(found[2].values())


def factors_of(name: str, avals: Sequence[Aval], params: dict) -> list[np.ndarray]:
    """Return the places of the factors in each array: a row for each entry of the result."""
    if name == "matmul":
        a, c = [places(x) for x in avals]
        a, c = a if a.ndim > 1 else a[None], c if c.ndim > 1 else c[:, None]
        spread, count = [a[..., :, None, :], np.swapaxes(c, -1, -2)[..., None, :, :]], a.shape[-1]
    else:
        labels, result, sizes = _labelled(avals, params) or ([], "", {})
        every = result + "".join([c for c in sizes if c not in result])
        counters = dict(zip(every, np.ix_(*[range(sizes[c]) for c in every]), strict=True))
        spread = [places(x)[tuple([counters[c] for c in axes])] for x, axes in zip(avals, labels, strict=True)]
        spread = [np.broadcast_to(x, [sizes[c] for c in every]) for x in spread]
        count = math.prod([sizes[c] for c in every[len(result) :]])
    return [x.reshape(-1, count) for x in np.broadcast_arrays(*spread)]
