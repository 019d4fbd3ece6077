"""Random programs of views, copies and writes on arrays of every layout, in plain NumPy.

A program is a list of steps, each with numbers that choose among what there is, so that every list is a program. Every
step may make an array: a view, a copy, or whichever of them NumPy gives; or it writes. What NumPy refuses (a read-only
view, a reshape that would copy) is noted. Not for: what the programs are held against (test_memory.py).
"""

import random

import numpy as np

import dualad.numpy as dnp

__all__ = ["LAYOUTS", "MAKERS", "program", "run", "write"]

#: name -> an array of six numbers that lies in memory in its own way
LAYOUTS = {
    "vector": lambda v: v.copy(),
    "strided": lambda v: np.repeat(v, 2)[::2],
    "reversed": lambda v: v[::-1].copy()[::-1],
    "rows": lambda v: v.reshape(2, 3).copy(),
    "columns": lambda v: np.asfortranarray(v.reshape(2, 3)),
    "wide": lambda v: np.repeat(v.reshape(3, 2), 2, axis=1)[:, ::2],
    "cube": lambda v: v.reshape(1, 2, 3).copy(),
    "swapped": lambda v: v.reshape(3, 2, 1).copy().swapaxes(0, 2),
}

SHAPES = {6: [(6,), (2, 3), (3, 2), (1, 6), (6, 1), (1, 2, 3), (3, 1, 2)], 3: [(3,), (3, 1), (1, 3)], 2: [(2,), (1, 2)],
          4: [(4,), (2, 2), (4, 1)], 1: [(1,), (1, 1)], 9: [(9,), (3, 3)]}  # fmt: skip


def _shape(a, k):
    shapes = SHAPES.get(a.size, [(a.size,)])
    return shapes[k % len(shapes)]


def _swap(a, k):
    return k % a.ndim, k // 7 % a.ndim


#: what may return the array, a view or a copy of it
MAKERS = [
    lambda a, k: a[1:] if len(a) > 1 else a[...],
    lambda a, k: a[::-1],
    lambda a, k: a[..., ::2],
    lambda a, k: a[..., : a.shape[-1] - 1] if a.shape[-1] > 1 else a[()],
    lambda a, k: a[None] if a.ndim < 4 else a[0],
    lambda a, k: a[..., None] if a.ndim < 4 else a[..., 0],
    lambda a, k: a[k % len(a)] if a.ndim > 1 else a[:2],
    lambda a, k: a[..., k % a.shape[-1]] if a.ndim > 1 else a[1:2],
    lambda a, k: a.T,
    lambda a, k: np.swapaxes(a, *_swap(a, k)),
    lambda a, k: np.moveaxis(a, *_swap(a, k)),
    lambda a, k: np.rollaxis(a, k % a.ndim),
    lambda a, k: a.transpose(np.roll(np.arange(a.ndim), k)),
    lambda a, k: np.flip(a, k % a.ndim),
    lambda a, k: np.rot90(a, k) if a.ndim > 1 else a[::-1],
    lambda a, k: a.ravel(),
    lambda a, k: np.ravel(a, "CF"[k % 2]),
    lambda a, k: a.reshape(-1),
    lambda a, k: a.reshape(a.shape),
    lambda a, k: a.reshape(_shape(a, k)),
    lambda a, k: np.reshape(a, _shape(a, k), "F"),
    lambda a, k: a.reshape(_shape(a, k), order="CF"[k % 2], copy=(None, True, False)[k // 2 % 3]),
    lambda a, k: np.squeeze(a) if a.size > 1 else a,
    lambda a, k: np.expand_dims(a, k % (a.ndim + 1)) if a.ndim < 4 else a,
    lambda a, k: (np.atleast_1d, np.atleast_2d, np.atleast_3d)[k % 3](a),
    lambda a, k: np.array_split(a, 2, axis=k % a.ndim)[k // 7 % 2],
    lambda a, k: np.split(a, [1], axis=-1)[0],
    lambda a, k: np.hsplit(a, [1])[0],
    lambda a, k: next(iter(a)) if a.ndim > 1 else a[:1],
    lambda a, k: np.diagonal(a) if a.ndim > 1 else a[:1],
    lambda a, k: np.broadcast_to(a, (2, *a.shape)) if a.size < 7 and a.ndim < 4 else a,
    lambda a, k: np.lib.stride_tricks.sliding_window_view(a, 1, axis=0) if a.ndim < 4 else a,
    lambda a, k: np.einsum("...i->i...", a),
    lambda a, k: np.einsum("ij->ji", a) if a.ndim == 2 else a.T,
    lambda a, k: a.real,
    lambda a, k: a.imag if a.dtype.kind == "c" else a.real,
    lambda a, k: a.view(),
    lambda a, k: a.conj(),
    lambda a, k: a.astype(a.dtype, copy=False),
    lambda a, k: a.astype(a.dtype, order="CFK"[k % 3], copy=False),
    lambda a, k: a.astype(a.dtype, order="CFK"[k % 3]),
    lambda a, k: a.astype(complex, order="CFK"[k % 3], copy=False),
    lambda a, k: dnp.asarray(a, order="CF"[k % 2]),
    lambda a, k: dnp.array(a, copy=(None, True, False)[k % 3], order="CFK"[k // 3 % 3], ndmin=k // 9 % 4),
    lambda a, k: dnp.ascontiguousarray(a),
    lambda a, k: dnp.asfortranarray(a),
    lambda a, k: dnp.require(a, requirements=("C", "F", "W")[k % 3]),
    lambda a, k: np.copy(a, "CFK"[k % 3]),
    lambda a, k: a.copy("CFK"[k % 3]),
    lambda a, k: a.flatten("CF"[k % 2]),
    lambda a, k: a * 1.5,
    lambda a, k: np.sin(a),
    lambda a, k: a + a[..., ::-1],
    lambda a, k: np.where(np.real(a) > 0.2137, a, 0.5 * a),
    lambda a, k: np.zeros_like(a, order="CFK"[k % 3]),
    lambda a, k: np.full_like(a, 0.25),
    lambda a, k: a[np.arange(len(a))],
    lambda a, k: a[np.arange(len(a)) % 2 == 0],
    lambda a, k: np.take(a, [0, -1], axis=k % a.ndim),
    lambda a, k: np.concatenate([a, a], axis=k % a.ndim) if a.size < 4 else a[...],
    lambda a, k: np.tile(a, 1),
    lambda a, k: np.roll(a, k % 3, axis=k % a.ndim),
    lambda a, k: np.sort(a, axis=-1),
    lambda a, k: np.nan_to_num(a, copy=k % 2 == 0),
]


def _index(a, k):
    n, m = a.shape[0], a.shape[-1]
    ways = [
        k % n, -1, slice(k % n, None), slice(None, None, -1), slice(None, None, 2), Ellipsis, (Ellipsis, 0),
        (Ellipsis, slice(1, None)), (None, k % n), np.array([k % n]), np.arange(n)[::-1], (Ellipsis, np.array([[0]])),
        np.arange(n) % 2 == k % 2, (Ellipsis, np.arange(m) % 2 == 0), tuple([s - 1 for s in a.shape]),
        (np.arange(a.size) % 3 == 0).reshape(a.shape),
    ]  # fmt: skip
    return ways[k // 5 % len(ways)]


def _value(slot, b, k):
    """Return a number, an entry of ``b``, or as many of its entries as the slot has."""
    size = int(np.prod(slot))
    if k % 3 == 0 or not size:
        return 0.25 + k % 5 / 4
    if k % 3 == 1 or size > b.size:
        return np.sin(b[(-1,) * b.ndim]) + 0.5
    return np.reshape(b.copy().reshape(-1)[:size] if k % 2 else np.ravel(b)[:size], slot) * 0.75


def _augment(a, v, k):
    if k % 4 == 0:
        a += v
    elif k % 4 == 1:
        a -= v
    elif k % 4 == 2:
        a *= v
    else:
        a /= 2.0 + v * v


def write(a, b, k, n):
    """Write into ``a``, in one of nine ways, a number or entries of ``b``."""
    way = n % 9
    if way < 3:
        index = _index(a, k)
        v = _value(np.shape(a[index]), b, k)
        if way == 0:
            a[index] = v
        elif way == 1:
            a[index] += v
        else:
            a[index] *= v
    elif way == 3:
        _augment(a, _value(a.shape, b, k), n // 9)
    elif way == 4:
        np.multiply(a, 0.5, out=a)
    elif way == 5:
        np.copyto(a, _value(a.shape, b, k))
    elif way == 6:
        a.fill(0.125 * (k % 5))
    elif way == 7:
        a *= 1.0  # NumPy's `at` itself writes into read-only views
        np.add.at(a, [0, 0], _value(np.shape(a[[0, 0]]), b, k))
    else:
        a.flat[k % a.size] = _value((), b, 1)


def program(seed, steps=7):
    """Return a random program: (layout, list of steps)."""
    choose = random.Random(seed)
    numbers = lambda: [choose.randrange(10**6) for _ in range(4)]
    kinds = ["make", *choose.choices(["make", "write"], k=steps - 2), "write"]
    return choose.choice(list(LAYOUTS)), [(kind, *numbers()) for kind in kinds]


def run(steps, x):
    """Run a program on ``x``, which it owns: the arrays that came about, in one vector, and what was refused."""
    arrays, refused = [x], []
    for i, (kind, which, k, other, n) in enumerate(steps):
        a, b = arrays[which % len(arrays)], arrays[other % len(arrays)]
        try:
            if kind == "make":
                made = MAKERS[n % len(MAKERS)](a, k)
                if made.ndim and made.size and made.size < 40:
                    arrays.append(made)
            elif a.dtype.kind == "c" or b.dtype.kind != "c":
                write(a, b, k, n)
        except ValueError as error:
            refused.append((i, "read-only" if "read-only" in str(error) else str(error)))
    flat = np.concatenate([np.ravel(a) for a in arrays])
    return (np.concatenate([flat.real, flat.imag]) if flat.dtype.kind == "c" else flat), refused
