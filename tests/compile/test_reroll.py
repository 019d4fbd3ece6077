"""Unrolled Python loops become loops again: the same bits, whatever the loop carries, reads and leaves behind.

The programs are compared with themselves as they were traced, run by NumPy's operators; a loop that is not one stays.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import dualad as da
from dualad.compile import names, repeats
from dualad.compile import reroll as rerolling
from dualad.compile.reroll import reroll, rolled_loops
from dualad.compile.simplify import simplify
from dualad.compile.validate import check_same
from dualad.errors import ProgramError
from dualad.program.check import check
from dualad.program.ir import Program, evaluate

MIXING = np.array([[-1.0, 0.5, 0.1], [0.2, -0.7, 0.3], [0.1, 0.4, -0.9]])
STATE = np.array([0.5, -0.3, 0.8])


def bare(program: Program) -> Program:
    return Program(program.inputs, program.steps, program.outputs, program.name)


def same_bits(a, b) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def rolled(f, *args) -> Program:
    """Trace and roll up; what comes out computes the same bits, and is well-formed."""
    program = simplify(bare(da.trace(f, *args)))
    found = reroll(program)
    check(found)
    leaves = da.tree.flatten(args)[0]
    with np.errstate(all="ignore"):
        for a, b in zip(evaluate(found, leaves), evaluate(program, leaves), strict=True):
            assert same_bits(a, b), found
    return found


def lengths(program: Program) -> list[int]:
    """Return how often the loops are run, those inside of others behind them."""
    return [count for count, _ in rolled_loops(program)]


@pytest.fixture
def short(monkeypatch) -> None:
    """Let shorter programs count as long, which is quicker to test."""
    monkeypatch.setattr(rerolling, "_LONG", 60)


# ── what a loop can be ───────────────────────────────────────────────────────────────────────────────────────────


N = 40


def two_values(u, v, steps=N):
    for _ in range(steps):
        u, v = u + 0.1 * v, v - 0.1 * np.sin(u)
    return u, v


def two_values_long(u, v):
    return two_values(u, v, 400)


def leapfrog(u, v):
    before, now = u, v
    for _ in range(N + 10):
        before, now = now, before + 0.02 * np.cos(now)
    return now, before


def three_back(u, v):
    f = [u, v, u * v]
    for k in range(N + 10):
        f.append(0.3 * f[k] + 0.2 * f[k + 1] - 0.1 * np.sin(f[k + 2]))
    return f[-1], f[-3]


def trajectory(u, v):
    out = [u]
    for _ in range(N):
        u = u + 0.1 * np.cos(u) * v
        out.append(u)
    return np.stack(out), u


def reads_rows(u, v):
    table = np.outer(np.linspace(0, 1, N), v)
    for i in range(N):
        u = u * 0.5 + np.sin(table[i]) * u
    return u


def reads_backwards(u, v):
    table = np.outer(v, np.linspace(0, 1, 2 * N))
    for i in reversed(range(0, 2 * N, 2)):
        u = u * 0.5 + np.sin(table[:, i]) * table[1:, 3 + i % 5].sum()
    return u


def reads_at_random(u, v):
    order, table = np.random.default_rng(0).permutation(N), np.outer(np.linspace(0, 1, N), v)
    for i in order.tolist():
        u = u * 0.5 + np.sin(table[i, 1]) * table[i, :2].sum()
    return u


def its_own_number(u, v):
    for k in range(N):
        u = u + np.sin(0.1 * k * v) + k * np.cos(u)
    return u


def constants_in_turn(u, v):
    rows = np.random.default_rng(0).normal(size=(N, 3))
    for row in rows:
        u = u * row + np.sin(v)
    return u


def last_but_two(u, v):
    out = [u]
    for _ in range(N):
        out.append(np.sin(out[-1]) * v + 0.1 * out[0])
    return out[-3] + out[5]


def ragged(u, v):
    u = np.sin(v)
    for k in range(N + 10):
        if k in (3, 4):
            u = u - v
        u = np.cos(u) * v + 0.5
        w = u * u
        if k > 35:
            u = u + w
        u = u - 0.1 * w
    return u


def broken_in_the_middle(u, v):
    for k in range(2 * N):
        u = u * v + (0.1 * np.sin(u) if k != N else np.exp(u))
        u = u / 2.0
    return u


def two_loops(u, v):
    kept = []
    for _ in range(N):
        u = u + 0.1 * np.sin(u)
        kept.append(np.cos(u) * v)
    for c in kept[::-1]:
        v = v * 0.9 + c * u
    for c, d in zip(kept[1:], kept, strict=False):
        v = v * 0.9 + c * d
    return v


def nested(u, v):
    for _ in range(12):
        for _ in range(10):
            u = u + 0.01 * np.sin(v) * u
        v = v * 0.99 + 0.1 * np.cos(u)
    return u + v


def nested_deeply(u, v):
    for _ in range(10):
        for _ in range(200):
            u = u + 0.01 * np.sin(v) * np.cos(u)
        v = v * 0.99 + 0.1 * np.cos(u)
    return u + v


def nested_with_a_table(u, v):
    table = np.outer(np.linspace(0, 1, 12), v)
    for i in range(12):
        w = table[i]
        for j in range(12):
            w = w * 0.5 + np.sin(table[j]) * u
        u = u + 0.1 * w
    return u


def of_numbers(u, v, steps=N + 10):
    x, y = u[0], v[1]
    for _ in range(steps):
        x, y = x + 0.01 * (1.0 - x * x) * y, y - 0.01 * x
    return x, y


def of_numbers_long(u, v):
    return of_numbers(u, v, 300)


def whole_numbers(u, v):
    n = (u > 0).sum()
    for _ in range(N + 10):
        n = n * 3 + 1 - n // 2
        u = u + 0.001 * (n % 7)
    return n, u


LOOPS = {
    two_values: 40, leapfrog: 50, three_back: 50, trajectory: 40, reads_rows: 40, reads_backwards: 35,
    reads_at_random: 40, its_own_number: 29, constants_in_turn: 39, last_but_two: 37, ragged: 30,
    broken_in_the_middle: 39, two_loops: 40, nested: 12, nested_with_a_table: 9, of_numbers: 50, whole_numbers: 49,
}  # fmt: skip


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_loops(f) -> None:
    program = rolled(f, STATE, STATE * 0.7 + 0.1)
    assert max(lengths(program)) >= LOOPS[f], program
    assert len(program.steps) <= 70, program


def test_loops_inside_of_loops_are_found() -> None:
    program = rolled(nested_deeply, STATE, STATE * 0.7 + 0.1)
    assert lengths(program) == [9, 199, 199]  # the last outer iteration ends otherwise
    assert len(program.steps) + sum([len(body.steps) for _, body in rolled_loops(program)]) < 30


TRANSFORMS = {
    "jvp": lambda f: lambda u, v: da.jvp(f, (u, v), (v, u)),
    "grad": lambda f: da.grad(lambda u, v: sum([np.sum(x * (1.0 + x)) for x in da.tree.flatten(f(u, v))[0]]), (0, 1)),
    "vmap": lambda f: lambda u, v: da.vmap(f)(np.stack([u, 2 * u]), np.stack([v, 0.5 * v])),
    "vmap of grad": lambda f: lambda u, v: da.vmap(TRANSFORMS["grad"](f), (0, None))(np.stack([u, 2 * u]), v),
    "jvp of grad": lambda f: lambda u, v: da.jvp(TRANSFORMS["grad"](f), (u, v), (v, u)),
}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "transform", [pytest.param(t, marks=pytest.mark.full if " of " in t else ()) for t in TRANSFORMS]
)
@pytest.mark.parametrize("f", [f for f in LOOPS if f is not whole_numbers], ids=lambda f: f.__name__)
def test_derivatives_of_loops(f, transform: str) -> None:
    program = rolled(TRANSFORMS[transform](f), STATE, STATE * 0.7 + 0.1)
    assert max(lengths(program)) >= 9, program


def test_a_gradient_is_two_loops_of_which_the_second_reads_backwards() -> None:
    program = rolled(TRANSFORMS["grad"](two_values_long), STATE, STATE * 0.7 + 0.1)
    (n, forward), (m, _) = rolled_loops(program)
    assert n == 400 and m >= 399
    assert [e.op.name for e in forward.equations] == ["multiply", "add", "sin", "cos", "multiply", "subtract"]
    assert [e.params["reverse"] for e in program.equations if e.op.name == "scan"] == [False, True]


# ── loops made at random ─────────────────────────────────────────────────────────────────────────────────────────

UNARY = [np.sin, np.tanh, np.negative, np.cos, lambda x: x * 0.5, lambda x: 1.0 - x, np.square, np.arctan]
BINARY = [
    np.add,
    np.subtract,
    np.multiply,
    lambda x, y: x / (2.0 + y * y),
    np.maximum,
    lambda x, y: np.where(x > y, x, y),
]


def made_at_random(seed: int):
    """Return a function of two vectors with a loop in it: what it carries, reads, keeps and skips is drawn."""
    draw = np.random.default_rng(seed)
    count, steps, states = int(draw.integers(9, 40)), int(draw.integers(2, 7)), int(draw.integers(1, 4))
    plan = [(int(draw.integers(2)), int(draw.integers(8)), *draw.integers(0, 100, 3).tolist()) for _ in range(steps)]
    moves, inner = draw.integers(0, 100, states).tolist(), int(draw.integers(0, 3)) * 8
    odd = set(draw.integers(0, count, int(draw.integers(0, 3))).tolist())
    keep, places = draw.random(2) < 0.4, draw.integers(0, 40, count).tolist()
    numbers, reads = draw.normal(size=count).tolist(), int(draw.integers(4))

    def f(u, v):
        table = np.outer(np.linspace(-1, 1, 40), v)
        state, kept, old = [u, v * 0.5, u - v][:states], [], [u]
        for k in range(count):
            pool = [*state, v, old[max(0, len(old) - 3)]]
            row = [lambda: table[k], lambda: table[39 - k], lambda: table[places[k]], lambda: v * numbers[k]][reads]
            pool.append(row())
            for two, which, *at in plan:
                x, y = pool[at[0] % len(pool)], pool[at[1] % len(pool)]
                pool.append(BINARY[which % 6](x, y) if two else UNARY[which](x))
            for _ in range(inner):
                pool.append(pool[-1] * 0.5 + np.sin(state[0]))
            if k in odd:
                pool.append(np.cosh(np.tanh(pool[-1])))
            state = [np.tanh(pool[-1 - (m % min(4, len(pool)))] + s) for m, s in zip(moves, state, strict=True)]
            old.append(state[0])
            if keep[0]:
                kept.append(state[-1])
        if keep[1]:
            state.append(old[-4] + old[2])
        return np.stack(kept) if kept else u, state

    return f


def check_at_random(seed: int) -> int:
    f = made_at_random(seed)
    names = [None, *TRANSFORMS]
    name = names[seed % len(names)]
    program = rolled(f if name is None else TRANSFORMS[name](f), STATE, STATE * 0.7 + 0.1)
    return len(lengths(program))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("chunk", [0, *[pytest.param(c, marks=pytest.mark.full) for c in range(1, 40)]])
def test_loops_made_at_random(chunk: int) -> None:
    found = [check_at_random(seed) for seed in range(25 * chunk, 25 * (chunk + 1))]
    assert np.mean([n > 0 for n in found]) > 0.5


# ── what stays, what it says, what it costs ──────────────────────────────────────────────────────────────────────


def test_what_is_not_regular_stays() -> None:
    order = np.random.default_rng(0).integers(0, len(UNARY), 700).tolist()

    def f(u):
        for k in order:
            u = UNARY[k](u)
        return u

    program = simplify(bare(da.trace(f, STATE)))
    assert not lengths(reroll(program))


def test_short_programs_stay() -> None:
    program = simplify(bare(da.trace(two_values, STATE, STATE)))
    assert len(program.steps) <= 500 and reroll(program).steps == program.steps


def test_operators_with_effects_stay() -> None:
    @da.custom_jvp
    def own(x):
        return np.sin(x)

    @own.defjvp
    def _rule(primals, tangents):
        return own(*primals), tangents[0] * np.cos(primals[0])

    def f(u):
        for _ in range(300):
            u = own(u) + 0.1
        return u

    assert not lengths(reroll(simplify(bare(da.trace(f, STATE)))))


def test_large_arrays_stay_in_one_loop_where_no_entry_meets_another() -> None:
    def entries(u):
        for _ in range(300):
            u = np.sin(u) * 0.5
        return u

    def spread(u):
        for _ in range(60):
            u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return u

    found = lambda f, n: lengths(reroll(simplify(bare(da.trace(f, np.zeros(n))))))
    assert not found(entries, 1 << 15) and found(entries, 100) == [300]
    assert found(spread, 1 << 15) == found(spread, 100) == [60]
    many = np.random.default_rng(0).normal(size=1 << 15)
    for f in (spread, lambda u: np.sum(spread(u) ** 2)):
        assert same_bits(da.jit(f)(many), f(many))
    slopes = da.jit(da.grad(lambda u: np.sum(spread(u) ** 2)))(many)
    np.testing.assert_allclose(slopes, 2 * spread(spread(many)), rtol=0, atol=1e-12)  # a step is symmetric


def test_masks_of_each_turn_are_rows_of_the_reverse_loop() -> None:
    """What a step reads moves by one entry, so each turn has another mask of 4,999 entries."""

    def f(x):
        y = np.zeros_like(x)
        for _ in range(40):
            y = y + 0.01 * np.concatenate([x[:1], x[1:] * y[:-1]])
        return y[-1]

    program = simplify(bare(da.trace(da.grad(f), np.linspace(0.5, 1.0, 5000))))
    again = reroll(program)
    assert sorted(lengths(again)) == [38, 38]
    check_same(program, again)


def test_signs_of_zeros_infinities_and_nan_stay() -> None:
    u = np.array([-0.0, np.inf, np.nan])

    def f(u, v):
        for _ in range(300):
            u = np.negative(u) * v
        return u

    rolled(f, u, np.array([0.0, 1.0, -1.0]))


def test_narrow_and_complex_numbers() -> None:
    for dtype in (np.float32, np.complex128, np.complex64):
        f = lambda u, v: two_values_long(u, v)[0]
        program = rolled(f, STATE.astype(dtype), STATE.astype(dtype))
        assert lengths(program)[0] >= 399


def test_python_numbers_as_arguments() -> None:
    def f(x, y):
        for _ in range(300):
            x, y = x + 0.1 * y, y * 0.9
        return x, y

    fast = da.jit(f)
    for x, y in zip(fast(0.5, 0.25), f(0.5, 0.25), strict=True):
        assert x == y


def test_compiled_loops_agree_with_eager_and_are_named() -> None:
    for name in ("jvp", "grad", "vmap"):
        for f in (two_values_long, of_numbers_long):
            g = TRANSFORMS[name](f)
            fast = da.jit(g)
            for _ in range(2):
                found, expected = (da.tree.flatten(h(STATE, STATE * 0.7 + 0.1))[0] for h in (fast, g))
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-11)
    text = da.jit(two_values_long).explain(STATE, STATE)
    assert "a loop of 400 times 5 equations, unrolled by Python, found again" in text


def test_a_division_by_zero_in_a_loop_is_numpys() -> None:
    def f(x):
        y = x
        for _ in range(300):
            y = 1.0 / (y + x)
        return y

    with np.errstate(all="ignore"):
        assert np.array_equal(da.jit(f)(0.0), f(np.float64(0.0)), equal_nan=True)
        assert np.array_equal(da.jit(f)(np.float64(0.0)), f(np.float64(0.0)), equal_nan=True)


def test_thirteen_thousand_equations_are_rolled_up_at_once() -> None:
    def f(u, a):
        for _ in range(1000):
            u = u + 0.01 * (a @ np.tanh(u) - u)
        return np.sum(u * u)

    program = simplify(bare(da.trace(da.grad(f), STATE, MIXING)))
    assert len(program.steps) > 10_000
    times = []
    for _ in range(3):
        start = time.thread_time()
        small = reroll(program)
        times.append(time.thread_time() - start)
    assert len(small.steps) < 20 and lengths(small) == [1000, 1000]
    assert min(times) < 0.3  # 0.04 on a quiet machine


def wrong_ages(code):
    return [r._replace(refs=np.roll(r.refs, 1, axis=0)) for r in repeats.find_repeats(code)]


def wrong_places(code):
    turned = lambda places: {j: {w: x[::-1] for w, x in moving.items()} for j, moving in places.items()}
    return [r._replace(places=turned(r.places)) for r in repeats.find_repeats(code)]


def too_long(code):
    return [r._replace(refs=np.vstack((r.refs[1:], r.refs[-1:]))) for r in repeats.find_repeats(code)]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("where", "name", "fault", "f"),
    [
        (rerolling, "find_repeats", wrong_ages, leapfrog),
        (rerolling, "find_repeats", wrong_places, reads_rows),
        (rerolling, "find_repeats", too_long, constants_in_turn),
        (rerolling._Roller, "slice", lambda self, array, numbers, before=0: array, two_loops),
        (rerolling, "reversed", lambda firsts: firsts, three_back),
    ],
)
def test_planted_faults_are_caught(monkeypatch, where, name: str, fault, f) -> None:
    rolled(f, STATE, STATE * 0.7 + 0.1)
    monkeypatch.setattr(where, name, fault, raising=name != "reversed")
    with pytest.raises((AssertionError, ProgramError, IndexError, KeyError, ValueError)):
        rolled(f, STATE, STATE * 0.7 + 0.1)


@pytest.mark.parametrize("left", [1 << 12, 100])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_beyond_the_limit_are_proven(left, turned, monkeypatch) -> None:
    """Rows of a loop that are stacked into a large array are read again in the reverse loop, as in long networks.

    Beyond the budget they have no names for their entries: what turns such an array knows it by the names of its rows.
    """
    monkeypatch.setattr(rerolling, "_LONG", 60)
    monkeypatch.setattr(names, "SMALL", 64)
    monkeypatch.setattr(names, "_MANY", left)

    def f(x):
        rows = []
        for _ in range(40):
            x = np.tanh(x * 1.5)
            rows.append(x)
        stacked = np.stack(rows)
        return np.sum((stacked.T if turned else stacked) ** 2)

    program = simplify(bare(da.trace(da.grad(f), np.linspace(0.1, 0.7, 4))))
    again = reroll(program)
    assert any([step.op.name == "scan" for step in again.steps])
    check_same(program, again)
