"""Random programs of reads, writes and views: the same program on plain NumPy is the oracle.

Hypothesis makes a program of a few steps on one float array and the views and copies taken of it; values are compared
with NumPy's run, derivatives with central differences of it, and all of them with JAX's run of the same program,
written with `.at`. Not for: which writes there are (test_writing.py).
"""

import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dualad as da
from tests.oracles import differences
from tests.oracles.jax_side import jax, jnp

SIZE = 6
X = np.array([0.7, -1.2, 1.5, 0.3, 0.9, -0.4])
T = np.cos(1.0 + np.arange(float(SIZE)))


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# A program is a list of steps; a step is (kind, which array, ...), its numbers taken modulo what there is to choose
# from, so that every list is a valid program and shrinks well.


STEPS = st.one_of(
    st.tuples(st.just("view"), *[st.integers(0, 999)] * 4),
    st.tuples(st.just("copy"), *[st.integers(0, 999)] * 4),
    st.tuples(st.just("set"), *[st.integers(0, 999)] * 4),
    st.tuples(st.just("augment"), *[st.integers(0, 999)] * 4),
    st.tuples(st.just("whole"), *[st.integers(0, 999)] * 4),
)
PROGRAMS = st.lists(STEPS, min_size=1, max_size=6)

SHAPES = [(6,), (2, 3), (3, 2), (1, 6), (6, 1), (1, 2, 3)]


def taken(a, seed):
    """Return a view of `a` as NumPy would give it (reshape and ravel may copy)."""
    last = a.ndim - 1
    whole = a.size == SIZE
    ways = [
        lambda: a[1:],
        lambda: a[::-1],
        lambda: a[..., ::2],
        lambda: a[np.newaxis],
        lambda: a.T,
        lambda: np.swapaxes(a, 0, last),
        lambda: np.flip(a),
        lambda: np.flip(a, last),
        lambda: a.ravel(),
        lambda: a.reshape(-1),
        lambda: a.reshape(SHAPES[seed // 16 % len(SHAPES)]) if whole else a[...],
        lambda: a[0] if last else a[:2],
        lambda: np.squeeze(a) if a.size > 1 else a[...],
        lambda: np.expand_dims(a, last),
    ]
    view = ways[seed % len(ways)]()
    return view if view.ndim and view.ndim < 5 and view.size else a


def index_into(shape, seed):
    """Return an index: integers, slices, an ellipsis, new axes, integer arrays without repeats, or a mask."""
    n = shape[0]
    ways = [
        lambda: seed % n,
        lambda: -1,
        lambda: slice(seed % n, None),
        lambda: slice(None, None, -1),
        lambda: slice(None, None, 2),
        lambda: Ellipsis,
        lambda: (Ellipsis, 0),
        lambda: (Ellipsis, slice(1, None)),
        lambda: (np.newaxis, seed % n),
        lambda: (Ellipsis, np.newaxis, shape[-1] - 1),
        lambda: np.array([seed % n]),
        lambda: np.arange(n)[::-1],
        lambda: (Ellipsis, np.array([[0]])),
        lambda: np.arange(n) % 2 == seed % 2,
        lambda: (np.arange(np.prod(shape)) % 3 == 0).reshape(shape),
        lambda: tuple([s - 1 for s in shape]),
        lambda: tuple([slice(s // 2, None) for s in shape]),
    ]
    return ways[seed // 7 % len(ways)]()


def value_for(slot, a, seed, np=np):
    """Return a value that broadcasts to the slot: a number, an entry, or a stretch of what the array `a` holds."""
    entry = a[(0,) * a.ndim]
    size = math.prod(slot)
    if seed % 3 == 0:
        return 0.25 + seed % 5 / 4
    if seed % 3 == 1 or not 0 < size <= a.size:
        return np.sin(entry) + 0.5
    return np.reshape(np.reshape(a, -1)[:size], slot) * 0.75


def augmented(operator, a, value):
    """Return the value of an augmented assignment's right side applied to `a` in place."""
    if operator == 0:
        a += value
    elif operator == 1:
        a -= value
    elif operator == 2:
        a *= value
    else:
        a /= 2.0 + value**2
    return a


def run(program, x, functional=False):
    """Run the program on `x`, which it owns; return the array and the views and copies of it, one after the other."""
    arrays = [x]
    for kind, which, first, second, third in program:
        which %= len(arrays)
        a = arrays[which]
        if kind == "view":
            arrays.append(taken(a, first))
            continue
        if kind == "copy":
            arrays.append((np.copy(a), a * 1.0, a[np.arange(len(a))])[first % 3])
            continue
        index = Ellipsis if kind == "whole" else index_into(a.shape, first)
        value = value_for(a[index].shape, arrays[second % len(arrays)], second)
        if functional:
            at = a.at[index]
            arrays[which] = at.set(value) if kind == "set" else _functional(third % 4, at, value)
        elif kind == "set":
            a[index] = value
        elif kind == "augment":
            a[index] = augmented(third % 4, a[index], value) if a[index].ndim else _plain(third % 4, a[index], value)
        else:
            a = augmented(third % 4, a, value)
    return np.concatenate([np.reshape(a, -1) for a in arrays])


def _plain(operator, a, value):
    return (a + value, a - value, a * value, a / (2.0 + value**2))[operator]


def _functional(operator, at, value):
    if operator == 0:
        return at.add(value)
    if operator == 1:
        return at.add(-value)
    return at.multiply(value) if operator == 2 else at.divide(2.0 + value**2)


def functional_on_plain(program, x):
    """The same as with `.at`, on plain arrays: each write goes to a copy, so there are no views."""
    arrays = [x]
    for kind, which, first, second, third in program:
        which %= len(arrays)
        a = arrays[which]
        if kind in ("view", "copy"):
            arrays.append(np.copy(taken(a, first) if kind == "view" else a))
            continue
        index = Ellipsis if kind == "whole" else index_into(a.shape, first)
        value = value_for(a[index].shape, arrays[second % len(arrays)], second)
        a = np.copy(a)
        a[index] = value if kind == "set" else _plain(third % 4, a[index], value)
        arrays[which] = a
    return np.concatenate([np.reshape(a, -1) for a in arrays])


def with_at(program, x):
    """The same as `run` in JAX: an array is the positions of its entries in what owns them; a write is `.at[...].set`.

    NumPy tells which positions: it takes the same views of the numbers 0, 1, 2, ...
    """
    owners, arrays = [x], [(0, np.arange(SIZE))]

    def read(i):
        owner, positions = arrays[i]
        return owners[owner][positions]

    def add(owner, positions, source):
        if np.shares_memory(positions, arrays[source][1]):
            arrays.append((owner, positions))
        else:
            owners.append(owners[owner][positions.reshape(-1)])
            arrays.append((len(owners) - 1, np.arange(positions.size).reshape(positions.shape)))

    for kind, which, first, second, third in program:
        which %= len(arrays)
        owner, positions = arrays[which]
        if kind in ("view", "copy"):
            add(owner, taken(positions, first) if kind == "view" else positions.copy(), which)
            continue
        slot = positions if kind == "whole" else positions[index_into(positions.shape, first)]
        value = value_for(slot.shape, read(second % len(arrays)), second, jnp)
        new = value if kind == "set" else _plain(third % 4, owners[owner][slot], value)
        owners[owner] = owners[owner].at[slot].set(new)
    return jnp.concatenate([read(i).reshape(-1) for i in range(len(arrays))])


def agree(f, plain):
    """Assert that `f` under jvp, vjp and vmap, and nested, is what `plain` is on plain arrays."""
    value, tangent = da.jvp(f, (X,), (T,))
    np.testing.assert_allclose(value, plain(X), rtol=1e-12)
    differences.compare(tangent, differences.along(plain, (X,), (T,)), "jvp")
    ct = np.sin(1.0 + np.arange(float(value.size)))
    (pulled,) = da.vjp(f, X)[1](ct)
    assert pulled @ T == pytest.approx(ct @ tangent, rel=1e-9, abs=1e-9)
    rows = np.stack([X, 0.9 * X, X + 0.1 * T])
    np.testing.assert_allclose(da.vmap(f)(rows), [plain(r) for r in rows], rtol=1e-12)
    gradient = da.grad(lambda x: np.sum(np.sin(f(x))))
    batched = da.vmap(gradient)(rows)
    np.testing.assert_allclose(batched[0], gradient(X), atol=1e-11)
    differences.compare(da.jvp(gradient, (X,), (T,))[1], differences.along(gradient, (X,), (T,)), "jvp of grad")


BOUNDED = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


@BOUNDED
@given(PROGRAMS)
def test_in_place(program):
    agree(lambda x: run(program, np.copy(x)), lambda x: run(program, np.copy(x)))


@BOUNDED
@given(PROGRAMS)
def test_functional_forms(program):
    agree(lambda x: run(program, x, functional=True), lambda x: functional_on_plain(program, np.copy(x)))


@BOUNDED
@given(PROGRAMS)
def test_into_a_buffer(program):
    """An array of ones receives traced values; the first write promotes it."""

    def f(x):
        buffer = np.ones_like(x)
        buffer[...] = x
        return run(program, buffer)

    agree(f, f)


@pytest.mark.parametrize("seed", range(5))
def test_against_at_in_jax(seed):
    choose = random.Random(seed)
    kinds = ["view", choose.choice(["view", "copy"]), *choose.choices(["set", "augment", "whole", "view"], k=4)]
    program = [(kind, *[choose.randrange(1000) for _ in range(4)]) for kind in kinds]
    f = lambda x: run(program, np.copy(x))
    theirs = lambda x: (with_at(program, x),) * 2
    jacobian, expected = jax.jit(jax.jacfwd(theirs, has_aux=True))(X)  # compiling is what takes time: once for all

    value, tangent = da.jvp(f, (X,), (T,))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(tangent, jacobian @ T, rtol=1e-12, atol=1e-12)
    ct = np.sin(1.0 + np.arange(float(value.size)))
    np.testing.assert_allclose(da.vjp(f, X)[1](ct)[0], ct @ jacobian, rtol=1e-12, atol=1e-12)
