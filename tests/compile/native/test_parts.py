"""Long functions in parts: whatever crosses from one to another has the same bits as in one function.

Not for: what equations compute (test_groups.py), or how long LLVM takes.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import dualad as da
from dualad.compile import call
from dualad.compile.native import parts
from dualad.compile.native.engine import engine, tally
from dualad.errors import PerformanceNote

pytestmark = pytest.mark.usefixtures("native_backend")

X = np.random.default_rng(3).normal(size=16)


def straight(x):
    """Numbers, of which most are read far behind."""
    random, known = np.random.default_rng(1), list(x)
    for _ in range(60):
        a, b = (known[i] for i in random.integers(0, len(known), 2))
        known.append([a * b + 0.5, np.sin(a) - b, a / (1.5 + b * b), np.where(a > b, a, 0.5 * b)][random.integers(4)])
    return sum(known[-9:]), known[20], known[-1] > 0, known[-2]


def cells(x):
    """A recurrent network, step by step."""
    h, c, w = x[:3], x[3:6], x.reshape(4, 4)[:, :3]
    for k in range(4):
        z = w.T @ np.concatenate([h, x[-1:]]) + 0.1 * k * k
        c = np.tanh(z) * c + h
        h = np.tanh(c) / (1.0 + np.exp(-z))
    return h, np.sum(c), w.T[::-1]


def loops(x):
    """Stacks and carries in scratch memory, truths, whole numbers, constants."""
    c, ys = da.scan(lambda c, r: (c * 0.9 + r * np.sum(x[:3]), c), x[0], x)
    d, zs = da.scan(lambda c, r: (np.sin(c) + r, c * r), c, ys * 2)
    chosen = np.where(ys > 0, ys, zs)
    w = da.while_loop(lambda t: t < 50.0, lambda t: t * 1.7 + 1, np.abs(d))
    order = np.argmax(zs) + np.arange(3)
    return np.sum(chosen) + w, chosen, ys > 0, np.concatenate([zs, ys, x]).reshape(6, 8).T, np.ones(5) + 1.0, order


def long_carry(x):
    """Arrays that are too long for registers, changed in a loop."""

    def put(i, t):
        t = t.copy()
        t[i * 70] = x[i] * 2.0
        return t

    table = da.fori_loop(0, 16, put, np.zeros(1200) + x[0] * 0)
    return np.sum(table[::7].reshape(4, -1), 1), table


def flat(f, *args):
    return [np.asarray(a) for a in da.tree.flatten(f(*args))[0]]


CASES = {
    "straight": straight,
    "straight_jacrev": da.jacrev(lambda x: straight(x)[0]),
    "cells": cells,
    "cells_jacrev": da.jacrev(lambda x: cells(x)[0]),
    "loops": loops,
    "loops_jacfwd": da.jacfwd(lambda x: loops(x)[1]),
    "long_carry": long_carry,
    "long_carry_jacrev": da.jacrev(lambda x: long_carry(x)[0][:2]),
}


@pytest.mark.parametrize("lines", [1, 9, 60])
@pytest.mark.parametrize("f", CASES.values(), ids=CASES)
def test_bits_do_not_depend_on_parts(f, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with np.errstate(all="ignore"):
        one = flat(da.jit(f), X)
        monkeypatch.setattr(parts, "_LINES", lines)
        several = flat(da.jit(f), X)
    for a, b in zip(one, several, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_long_functions_are_cut() -> None:
    """Each part is a module of its own, and no result comes before it is written."""
    steps = 2 * parts._LINES

    def f(x):
        random, known = np.random.default_rng(7), list(x)
        for i in range(steps):
            known.append(known[-1] * 0.3 + known[random.integers(0, len(known))] * (0.2 + 1e-5 * i))
        return known[-1], known[len(known) // 2], known[20]

    before, fast = tally(), da.jit(f)
    found, expected = fast(X), f(X)
    assert found == expected
    assert sum(tally().since(before)[:2]) >= 4
    assert fast.lower(X).source.count("define i32 @part") >= 3


def test_an_index_out_of_range_ends_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy raises what it raises, also where the index is found in the first of many parts."""
    monkeypatch.setattr(parts, "_LINES", 3)

    def f(x, i):
        y = x[i] * 2.0
        for k in range(20):
            y = y * x[(k * k) % 16] + k
        return y

    fast = da.jit(f)
    assert fast(X, np.int64(3)) == f(X, 3)
    with pytest.raises(IndexError):
        fast(X, np.int64(16))
    assert fast(X, np.int64(-16)) == f(X, -16)


def test_parts_live_as_long_as_what_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_LINES", 3)
    made = engine()
    assert made is not None
    call = functools.partial(da.jit(lambda x: straight(x)[0]), X)
    expected = call()
    for k in range(3):  # others come and go
        da.jit(lambda x, k=k: straight(x * k)[0])(X)
    assert call() == expected


def test_a_long_first_call_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is compiled, at the line of the call, once, with what to write instead."""
    monkeypatch.setattr(call, "_PATIENT", 100)
    fast = da.jit(lambda x: straight(x)[0])
    with pytest.warns(PerformanceNote, match=r"equations, and compiling it takes up to \d+ s.*dualad.scan") as notes:
        fast(X)
    assert [n.filename for n in notes] == [__file__]
    fast(X)
