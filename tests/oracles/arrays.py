"""Trees of arrays in tests: flattening, pairing, random directions, comparison with a message.

Not for: anything of the library; only NumPy.
"""

from __future__ import annotations

import zlib

import numpy as np

__all__ = ["close", "describe", "generator", "inexact", "leaves", "pairing", "random_like", "tolerance"]


def generator(*names) -> np.random.Generator:
    """Return a generator seeded by names, so that a failure repeats whatever ran before it."""
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def leaves(tree) -> list:
    """Return the arrays of nested tuples, lists and dicts; `None` has none."""
    if tree is None:
        return []
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in leaves(item)]
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    return [tree]


def inexact(x) -> bool:
    """Say whether an argument can carry a tangent."""
    return isinstance(x, (float, complex, np.ndarray, np.generic)) and np.asarray(x).dtype.kind in "fc"


def random_like(rng: np.random.Generator, x):
    """Return a direction in the space of x, of entries below one; None for integers and booleans."""
    if not inexact(x):
        return None
    x = np.asarray(x)
    t = rng.uniform(-1, 1, x.shape)
    if x.dtype.kind == "c":
        t = t + 1j * rng.uniform(-1, 1, x.shape)
    return np.asarray(t).astype(x.dtype)[()]


def pairing(c, t) -> float:
    """Return ⟨c, t⟩ = Re Σ c·t over all leaves, unconjugated; None and float0 leaves count as zero."""
    c, t = leaves_or_none(c), leaves_or_none(t)
    assert len(c) == len(t), f"{len(c)} cotangents for {len(t)} tangents"
    total = 0.0
    for a, b in zip(c, t, strict=True):
        if a is not None and b is not None and np.asarray(a).dtype.kind in "fc" and np.asarray(b).dtype.kind in "fc":
            assert np.shape(a) == np.shape(b), f"cotangent of shape {np.shape(a)} for a tangent of shape {np.shape(b)}"
            total += float(np.real(np.sum(np.asarray(a, complex) * np.asarray(b, complex))))
    return total


def leaves_or_none(tree) -> list:
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in leaves_or_none(item)]
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves_or_none(tree[key])]
    return [tree]


def tolerance(*trees) -> float:
    """Return the relative tolerance that the least precise leaf allows, for results that are exact up to rounding."""
    single = any(np.asarray(x).dtype.itemsize <= 4 * (1 + (np.asarray(x).dtype.kind == "c"))
                 for x in leaves(trees) if np.asarray(x).dtype.kind in "fc")  # fmt: skip
    return 2e-4 if single else 1e-9


def close(found, expected, what: str, rtol: float | None = None, dtypes: bool = True) -> None:
    """Assert that two trees agree in structure, shapes, dtypes and numbers; NaN and inf must sit in the same places."""
    found, expected = leaves_or_none(found), leaves_or_none(expected)
    assert len(found) == len(expected), f"{what}: {len(found)} results, expected {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        where = f"{what}[{i}]" if len(found) > 1 else what
        assert (a is None) == (b is None), f"{where}: {a!r}, expected {b!r}"
        if a is None:
            continue
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, f"{where}: shape {a.shape}, expected {b.shape}"
        if dtypes:
            assert a.dtype == b.dtype, f"{where}: dtype {a.dtype}, expected {b.dtype}"
        if a.dtype.kind == "V" or b.dtype.kind == "V" or not a.size:
            continue
        if a.dtype.kind in "biu" and b.dtype.kind in "biu":
            assert (a == b).all(), f"{where}: {a}, expected {b}"
            continue
        finite = np.isfinite(b)
        same = (np.isfinite(a) == finite).all() and np.array_equal(a[~finite], b[~finite], equal_nan=True)
        assert same, f"{where}: {a}, expected {b}"
        a, b = a[finite], b[finite]
        scale = 1.0 + np.abs(b).max(initial=0.0)
        error = np.abs(a - b).max(initial=0.0)
        limit = (tolerance(found, expected) if rtol is None else rtol) * scale
        assert error <= limit, f"{where}: off by {error:.2g} (limit {limit:.1g})\n  found    {a}\n  expected {b}"


def describe(args, params) -> str:
    """Return one call in words: dtypes, shapes and params."""
    parts = []
    for a in args:
        if isinstance(a, (np.ndarray, np.generic)):
            parts.append(f"{a.dtype}[{','.join(map(str, a.shape))}]")
        else:
            parts.append(repr(a))
    parts += [f"{k}={v!r}" for k, v in params.items()]
    return f"({', '.join(parts)})"
