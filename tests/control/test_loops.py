"""scan, fori_loop, map, associative_scan: under every word over J, V, M and T of length ≤ 3 against JAX's lax.

Not for: loops of unknown length (`test_control_flow.py`), nor the operators' own rules (`ops/test_every_op.py`).
"""

from __future__ import annotations

import pickle

import numpy  # noqa: ICN001  (np is the namespace that a function is given)
import numpy as np
import pytest

import dualad as da
from dualad.errors import (
    ArgumentError,
    ConvergenceError,
    DtypeError,
    NotLinearError,
    OutputError,
    ShapeError,
    TreeError,
)
from dualad.program.check import check
from tests.compose import zoo
from tests.compose.words import WORDS, expected, found
from tests.compose.zoo import Animal, normal, positive
from tests.oracles.jax_side import jax


def control(np):
    return da if np is numpy else jax.lax


def scanned_network(np, w, h, xs):
    """A recurrent network: a matrix in the closure, a tree as carry, a stack of outputs."""

    def step(carry, x):
        new = np.tanh(carry["h"] @ w + x)
        return {"h": new, "n": carry["n"] + 1}, (new[0] * x, np.sum(carry["h"] ** 2))

    carry, (ys, zs) = control(np).scan(step, {"h": h, "n": 0}, xs)
    return carry["h"] * (1 + carry["n"]), np.sum(ys) * zs


def backwards(np, c, xs):
    last, ys = control(np).scan(lambda s, x: (s * x["a"] + x["b"], s), c, xs, reverse=True)
    return last * ys


def without_xs(np, x):
    return control(np).scan(lambda c, _: (np.sin(c) + x, c * x), x, None, length=4)[1]


def powers(np, x):
    return control(np).fori_loop(0, 4, lambda i, c: c * x + i, np.ones_like(x) * 0.5)


def counted(np, x):
    """The number of steps is a value."""
    n = np.where(x > 1.0, 5, 3)
    return control(np).fori_loop(1, n, lambda i, c: c * x / i, x)


def rows(np, x):
    return control(np).map(lambda r: np.cumsum(r) * np.sum(x), x)


def nested(np, x, xs):
    lib = control(np)

    def outer(c, v):
        inner = lib.fori_loop(0, 3, lambda i, s: np.sin(s * v + x), c)
        return lib.cond(v > 0, lambda s: s * x, lambda s: s + x, inner), inner * v

    last, ys = lib.scan(outer, x, xs)
    return last + np.sum(ys)


def filling(np, x):
    """Write into a carried buffer, which JAX spells otherwise."""

    def body(i, buffer):
        if np is numpy:
            buffer[i + 1] = np.sin(buffer[i]) * x
            return buffer
        return buffer.at[i + 1].set(np.sin(buffer[i]) * x)

    start = np.zeros_like(x * np.ones(4)) + x
    return control(np).fori_loop(0, 3, body, start)


def running(np, xs):
    combine = lambda a, b: {"s": b["s"] * a["s"], "t": b["s"] * a["t"] + b["t"]}
    out = control(np).associative_scan(combine, {"s": xs, "t": np.sin(xs)})
    return out["t"] * out["s"]


ANIMALS = {
    f.__name__: Animal(f, lambda rng, makers=makers: tuple(m(rng) for m in makers))
    for f, makers in {
        scanned_network: (normal(2, 2), normal(2), normal(3, 2)),
        backwards: (normal(), lambda rng: {"a": rng.normal(size=3), "b": rng.normal(size=3)}),
        without_xs: (normal(),),
        powers: (normal(2),),
        counted: (positive(),),
        rows: (normal(3, 2),),
        nested: (normal(), normal(3)),
        filling: (normal(),),
        running: (positive(5),),
    }.items()
}


@pytest.fixture(autouse=True)
def in_the_zoo(monkeypatch):
    monkeypatch.setattr(zoo, "ZOO", {**zoo.ZOO, **ANIMALS})


def agrees(name: str, word: str) -> None:
    if name == "counted" and "V" in word and "T" in word[word.index("V") :]:
        return  # a loop of unknown length in a program: refused, in test_control_flow.py
    got, want = found(name, ANIMALS[name], word), expected(name, ANIMALS[name], word)
    assert abs(got - want) <= 1e-9 * max(1.0, abs(want)), f"{word} of {name}: {got}, JAX says {want}"


@pytest.mark.parametrize("word", WORDS[1] + WORDS[2])
@pytest.mark.parametrize("name", ANIMALS)
def test_under_every_pair_of_transforms(name: str, word: str) -> None:
    agrees(name, word)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANIMALS)
def test_under_every_triple_of_transforms(name: str) -> None:
    for word in WORDS[3]:
        agrees(name, word)


# ── values against plain Python ──────────────────────────────────────────────────────────────────────────────────


def test_values_are_those_of_python_loops() -> None:
    xs = np.arange(1.0, 5.0)
    for reverse in (False, True):
        last, ys = da.scan(lambda c, x: (c * 2 + x, c - x), 1.0, xs, reverse=reverse)
        c, want = 1.0, []
        for x in xs[::-1] if reverse else xs:
            want.append(c - x)
            c = c * 2 + x
        assert last == c
        np.testing.assert_array_equal(ys, want[::-1] if reverse else want)
    assert da.fori_loop(2, 5, lambda i, c: [*c, i][1:], [0, 0]) == [3, 4]
    assert da.fori_loop(5, 2, lambda i, c: c + i, 7) == 7
    np.testing.assert_array_equal(da.map(lambda t: t["x"] * t["y"], {"x": xs, "y": xs + 1}), xs * (xs + 1))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_any_length(n: int, reverse: bool) -> None:
    """Matrix products do not commute, so that the order is tested too; along axis 1 as well."""
    xs = np.random.default_rng(n).normal(size=(n, 2, 2))
    got = da.associative_scan(np.matmul, xs, reverse=reverse)
    want, total = [], np.eye(2)
    for x in xs[::-1] if reverse else xs:
        total = total @ x
        want.append(total)
    np.testing.assert_allclose(got, np.reshape(want[::-1] if reverse else want, (n, 2, 2)), rtol=1e-12)
    flat = np.arange(1.0, 2 * n + 1).reshape(2, n)
    np.testing.assert_array_equal(da.associative_scan(np.add, flat, axis=1), np.cumsum(flat, 1))


def test_no_steps() -> None:
    """The carry as it was, and stacks of the right shapes and dtypes, for programs and derivatives too."""

    def f(c, xs):
        return da.scan(lambda c, x: (c * x[0], (c * x, x > 0)), c, xs)

    c, xs = 2.0, np.ones((0, 3))
    for got in (f(c, xs), da.trace(f, c, xs)(c, xs), da.jvp(f, (c, xs), (1.0, xs))[0]):
        assert got[0] == 2.0
        assert got[1][0].shape == (0, 3) and got[1][0].dtype == float and got[1][1].dtype == bool
    assert da.vmap(lambda x: da.scan(lambda c, v: (c, v), 0.0, x)[1])(np.ones((2, 0))).shape == (2, 0)
    assert da.grad(lambda c: f(c, xs)[0])(c) == 1.0


def test_in_place_writes_stay_inside() -> None:
    """A body may write to its carry: neither what it started from nor what was stacked before changes."""
    start = np.zeros(3)

    def step(buffer, x):
        buffer[x] = x + 1
        return buffer, buffer

    for run in (lambda s: da.scan(step, s, np.arange(3)), da.trace(lambda s: da.scan(step, s, np.arange(3)), start)):
        last, history = run(start)
        np.testing.assert_array_equal(last, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(history, [[1, 0, 0], [1, 2, 0], [1, 2, 3]])
        np.testing.assert_array_equal(start, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        da.scan(lambda c, x: (c, x.fill(0)), 0.0, np.ones((2, 2)))


def test_dtypes_are_those_of_a_python_loop() -> None:
    """The index is a Python integer and widens nothing, in programs too."""
    x = np.float32(1.5)
    f = lambda x: da.fori_loop(0, 3, lambda i, c: c * i + x, np.float32(1))
    c = np.float32(1)
    for i in range(3):
        c = c * i + x
    got = [f(x), da.trace(f, x)(x), da.vmap(f)(np.array([x]))[0], da.trace(da.vmap(f), np.array([x]))(np.array([x]))[0]]
    for value in (*got, da.jvp(f, (x,), (x,))[1] * 0 + c, da.grad(f)(x) * 0 + c, da.trace(da.grad(f), x)(x) * 0 + c):
        assert value == c and value.dtype == np.float32
    total = da.trace(lambda xs: da.scan(lambda c, x: (c + x, c), 0, xs), np.ones(3, np.float32))
    assert total(np.ones(3, np.float32))[0].dtype == np.float32


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def rnn(w, xs):
    last, ys = da.scan(lambda c, x: (np.sin(c * w) + x, c * x), 0.5, xs)
    return last + np.sum(ys)


def test_a_scan_is_one_equation_and_its_derivative_two() -> None:
    w, xs = 1.3, np.linspace(0.0, 1.0, 50)
    program = da.trace(rnn, w, xs)
    assert [e.op.name for e in program.equations].count("scan") == 1
    gradient = da.trace(da.grad(rnn, (0, 1)), w, xs)
    scans = [e for e in gradient.equations if e.op.name == "scan"]
    assert [(e.params["linear"], e.params["reverse"]) for e in scans] == [(False, False), (True, True)]
    # What the linear scan reads of the first one is stacked: one row a step.
    assert all(v.aval.shape == (50,) for v in scans[0].outs[1:])
    for p in (program, gradient):
        check(p)
        assert str(pickle.loads(pickle.dumps(p))) == str(p)
    np.testing.assert_allclose(gradient(w, xs)[1], da.grad(rnn, 1)(w, xs), rtol=1e-12)
    # As long a text for a thousand steps.
    longer = da.trace(rnn, w, np.linspace(0.0, 1.0, 1000))
    assert len(str(longer).splitlines()) == len(str(program).splitlines())


def test_residuals_are_not_copied_where_the_scan_was_given_them() -> None:
    """The rows of xs and values of the closure are read again; only what changes from step to step is stacked."""
    f = lambda w, xs: da.fori_loop(0, 1, lambda i, c: c, da.scan(lambda c, x: (c * w * x, None), 1.0, xs)[0])
    gradient = da.trace(da.grad(f), 2.0, np.ones(4))
    first = next(e for e in gradient.equations if e.op.name == "scan")
    assert len(first.outs) <= 1 + 2  # the carry, and at most the carries and products of each step
    np.testing.assert_allclose(gradient(2.0, np.full(4, 0.5)), 4 * 2.0**3 * 0.5**4)


def test_a_loop_whose_body_alone_is_traced_is_one_equation_too() -> None:
    """Neither the carry nor xs is traced; what the body reads is."""
    f = lambda x: da.fori_loop(0, 20, lambda i, c: c * x, 1.0)
    program = da.trace(f, 2.0)
    assert [e.op.name for e in program.equations] == ["scan"]
    assert program(2.0) == 2.0**20


def test_a_loop_in_a_linear_function_stays_linear() -> None:
    a = np.array([0.5, 2.0, 3.0])

    weighted = lambda v: da.scan(lambda c, x: (c * x[0] + x[1], c), v[0] * 0, (a, v))[1]
    ct = np.array([1.0, 2.0, 4.0])
    matrix = da.jacfwd(weighted)(np.zeros(3))
    np.testing.assert_allclose(da.linear_transpose(weighted, np.zeros(3))(ct)[0], matrix.T @ ct)

    def transposed(b, ct):
        recurrence = lambda v: da.scan(lambda c, x: (c * x[0] + x[1], c), v[0] * 0, (b, v))[1]
        return da.linear_transpose(recurrence, np.zeros(3))(ct)[0]

    def back(b, ct):
        g = lambda v: da.scan(lambda c, x: (c * x[0] + x[1], c), v[0] * 0, (b, v))[1]
        return da.linear_transpose(g, np.zeros(3))(ct)[0]

    traced = da.trace(back, a, ct)
    np.testing.assert_allclose(traced(a, ct), matrix.T @ ct)
    with pytest.raises(NotLinearError):
        da.linear_transpose(lambda v: da.scan(lambda c, x: (c * x, c), v[0], v)[1], np.zeros(3))


def test_the_program_of_a_scan_is_differentiated_like_the_function() -> None:
    """A program of a scan keeps its loop under derivatives: reverse mode stacks residuals, and does not unroll."""
    w, xs = 1.3, np.linspace(0.0, 1.0, 30)
    program = da.trace(rnn, w, xs)
    _, lin = da.linearize(program, w, xs)
    assert [e.op.name for e in lin.program.equations].count("scan") == 1
    np.testing.assert_allclose(da.grad(program)(w, xs), da.grad(rnn)(w, xs), rtol=1e-12)
    np.testing.assert_allclose(da.hessian(program)(w, xs), da.hessian(rnn)(w, xs), rtol=1e-12)
    np.testing.assert_allclose(
        da.vmap(da.grad(program), (0, None))(np.array([1.0, w]), xs)[1], da.grad(rnn)(w, xs), rtol=1e-12
    )


def test_trees_and_lanes_that_only_some_leaves_have() -> None:
    """A carry that starts unmapped and becomes mapped, in the second step only."""

    def f(x):
        step = lambda c, _: ({"a": c["b"], "b": c["c"], "c": c["c"] * x}, c["a"])
        return da.scan(step, {"a": 1.0, "b": 2.0, "c": 3.0}, None, length=4)[1]

    x = np.array([1.0, 2.0])
    want = np.array([[1.0, 2.0, 3.0, 3.0 * v] for v in x])
    np.testing.assert_array_equal(da.vmap(f)(x), want)
    np.testing.assert_array_equal(da.vmap(da.trace(f, 1.0))(x), want)
    np.testing.assert_array_equal(da.trace(da.vmap(f), x)(x), want)


# ── many steps ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_hundred_thousand_steps() -> None:
    """Neither recursion nor quadratic time or memory, in Python loops and in programs, forwards and backwards."""
    n = 100_000
    xs = np.full(n, 1e-5)
    f = lambda a, xs: da.scan(lambda c, x: (c + x * c * a, None), 1.0, xs)[0]
    want = (1 + 1e-5) ** n
    by_a, by_xs = da.trace(da.grad(f, (0, 1)), 1.0, xs)(1.0, xs)
    np.testing.assert_allclose(by_a, n * 1e-5 * want / (1 + 1e-5), rtol=1e-9)
    np.testing.assert_allclose(by_xs, want / (1 + 1e-5), rtol=1e-9)
    fewer, slower = xs[: n // 10], (1 + 1e-5) ** (n // 10)  # as a Python loop each step takes twice as long
    np.testing.assert_allclose(da.grad(f)(1.0, fewer), 0.1 * slower / (1 + 1e-5), rtol=1e-9)
    m = n // 10
    power = lambda x: da.while_loop(lambda c: c[0] < m, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]
    value, slope = da.value_and_grad(power)(1.00001)
    np.testing.assert_allclose([value, slope], [1.00001**m, m * 1.00001 ** (m - 1)], rtol=1e-9)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_refusals_of_scan() -> None:
    with pytest.raises(ArgumentError, match="neither xs nor length"):
        da.scan(lambda c, x: (c, x), 0.0)
    with pytest.raises(ArgumentError, match=r"xs\['a'\] has 2 rows, xs\['b'\] has 3 rows"):
        da.scan(lambda c, x: (c, x), 0.0, {"a": np.ones(2), "b": np.ones(3)})
    with pytest.raises(ArgumentError, match="length is 4"):
        da.scan(lambda c, x: (c, x), 0.0, np.ones(2), length=4)
    with pytest.raises(ShapeError, match="has no rows"):
        da.scan(lambda c, x: (c, x), 0.0, [1.0, 2.0])
    with pytest.raises(OutputError, match=r"\(carry, y\)"):
        da.scan(lambda c, x: c, 0.0, np.ones(2))
    with pytest.raises(DtypeError, match="came out as f64"):
        da.scan(lambda c, x: (c + x, x), np.float32(0), np.ones(2))
    with pytest.raises(TreeError, match="the carry went in as"):
        da.scan(lambda c, x: ((c, c), x), 0.0, np.ones(2))
    with pytest.raises(ShapeError, match="in different steps"):
        da.scan(lambda c, x: (c + 1, np.ones(c)), 0, np.ones(2))
    with pytest.raises(TreeError, match="in one step"):
        da.scan(lambda c, x: (c + 1, (c,) * c), 1, np.ones(2))
    with pytest.raises(OutputError, match="stay the same"):
        da.scan(lambda c, x: ({"a": "other"}, x), {"a": "one"}, np.ones(2))


def test_refusals_of_fori_loop_and_associative_scan() -> None:
    with pytest.raises(DtypeError, match="integer"):
        da.fori_loop(0, 2.5, lambda i, c: c, 0.0)
    with pytest.raises(ShapeError, match="fori_loop: upper"):
        da.fori_loop(0, np.array([1, 2]), lambda i, c: c, 0.0)
    with pytest.raises(ShapeError, match="went in as"):
        da.fori_loop(0, 2, lambda i, c: np.append(c, i), np.ones(1))
    with pytest.raises(ArgumentError, match="lengths"):
        da.associative_scan(np.add, (np.ones(2), np.ones(3)))
    with pytest.raises(ArgumentError, match="axis is 1"):
        da.associative_scan(np.add, np.ones(3), axis=1)
    with pytest.raises(TreeError, match="what f returned"):
        da.associative_scan(lambda a, b: (a, b), np.ones(4))
    with pytest.raises(ShapeError, match="f turned shape"):
        da.associative_scan(lambda a, b: np.sum(a), np.ones(4))


# ── what reverse mode keeps of a scan ────────────────────────────────────────────────────────────────────────────


def with_settings(h, k, xs):
    """A scan that carries settings as they are, and computes with them the same in each step."""

    def body(carry, x):
        h, k = carry
        y = np.tanh(np.tanh(k) * h + x) * np.exp(k)
        return (y, k), y * y

    (h, _), ys = da.scan(body, (h, k), xs)
    return np.sum(h) + np.sum(ys)


def with_settings_in_python(h, k, xs):
    total = 0.0
    for x in xs:
        h = np.tanh(np.tanh(k) * h + x) * np.exp(k)
        total = total + np.sum(h * h)
    return np.sum(h) + total


SETTINGS = np.array([1.0, -0.5, 0.3]), np.array([0.2, 0.7, -0.4]), np.linspace(0.0, 1.0, 7)


@pytest.mark.parametrize("transform", [
    da.value_and_grad, lambda f: da.grad(f, (0, 1, 2)), lambda f: da.hessian(f, (0, 1)),
    lambda f: lambda *a: da.jvp(f, a, a),
    lambda f: lambda h, k, xs: da.vmap(da.grad(f, (0, 1)), (0, None, None))(np.stack([h, 2 * h]), k, xs),
])  # fmt: skip
def test_what_a_scan_carries_unchanged(transform) -> None:
    expected = transform(with_settings_in_python)(*SETTINGS)
    for out in (transform(with_settings)(*SETTINGS), da.trace(transform(with_settings), *SETTINGS)(*SETTINGS)):
        for a, b in zip(da.tree.flatten(out)[0], da.tree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_what_is_the_same_in_all_steps_is_not_stacked() -> None:
    program = da.trace(da.grad(with_settings, (0, 1, 2)), *SETTINGS)
    forward = next(e for e in program.equations if e.op.name == "scan" and not e.params["linear"])
    backward = next(e for e in program.equations if e.op.name == "scan" and e.params["linear"])
    stacks = forward.outs[2:]
    assert len({id(v) for v in stacks}) == len(stacks) == len({id(o) for o in forward.params["body"].outputs[2:]})
    # tanh(k), exp(k) and the derivative of tanh are computed once before the loop, besides in it
    assert backward.params["counts"][3] >= 3 and len(stacks) <= 5
    assert {"tanh", "exp"} <= {e.op.name for e in program.equations}


def test_a_scan_of_no_steps_computes_nothing_for_its_gradient() -> None:
    def f(m, x):
        out, _ = da.scan(lambda c, _: ((np.linalg.inv(c[0]) @ c[1], c[0])[::-1], None), (m, x), np.zeros(0))
        return np.sum(out[1])

    assert np.array_equal(
        da.trace(da.grad(f, 1), np.zeros((2, 2)), np.ones(2))(np.zeros((2, 2)), np.ones(2)), np.ones(2)
    )


@pytest.mark.parametrize(
    "body",
    [
        np.sort,
        lambda x: np.sort(x * x) * 0.5,
        lambda x: np.partition(x, 1) * 0.7,
        lambda x: x[np.argsort(x)] * np.sin(x),
        lambda x: np.median(x) * np.cos(x) + x * 0.2,
    ],
)
def test_reverse_of_reverse_of_what_a_transpose_computes_in_a_body(body) -> None:
    """The transpose of a permutation sorts it: a step of a linear body that does not depend on its cotangents."""
    x = np.array([2.48, 0.14, 1.78])
    step = lambda x, _: (body(x), None)

    def pulled(f):
        return lambda x: np.sum(da.vjp(f, x)[1](np.cos(x))[0] * x)

    expected = da.grad(pulled(lambda x: body(body(x))))(x)
    for f in (
        pulled(lambda x: da.scan(step, x, None, length=2)[0]),
        pulled(lambda x: da.cond(x[0] > 0, lambda x: body(body(x)), np.sin, x)),
        pulled(da.jit(lambda x: body(body(x)))),
    ):
        np.testing.assert_allclose(da.trace(da.grad(f), x)(x), expected)
        np.testing.assert_allclose(da.jit(da.grad(f))(x), expected)
        np.testing.assert_allclose(da.grad(f)(x), expected)


def test_a_body_that_reads_a_tangent_of_a_program_around_it() -> None:
    @da.custom_jvp
    def total(x):
        return np.sum(x)

    @total.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        last, rows = da.scan(lambda c, a: (c + np.sum(t) * a, c), 0.0, x / np.sum(x), reverse=True)
        return np.sum(x), last + np.sum(rows)

    x = np.array([1.0, 2.0, 3.0])
    rows = 3.0 / 6.0 + 5.0 / 6.0
    np.testing.assert_allclose(da.grad(total)(x), np.full(3, 1.0 + rows), rtol=1e-15)
    np.testing.assert_allclose(da.trace(da.grad(total), x)(x), np.full(3, 1.0 + rows), rtol=1e-15)


# ── dtypes, and loops without steps ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrap", [lambda f: f, da.jit], ids=["eager", "jit"])
def test_a_wider_factor_leaves_the_gradient_its_dtype(wrap) -> None:
    x, a, weights = np.float32([0.1, 0.2, 0.3]), np.float32(0.3), np.array([1.0, 2.0, 3.0])
    f = lambda x, a: np.sum(da.map(lambda p: np.tanh(p) * a, x) * weights)
    found = wrap(da.grad(f, argnums=(0, 1)))(x, a)
    assert [g.dtype for g in found] == [np.float32, np.float32]
    slopes = (1.0 - np.tanh(x) ** 2) * a * weights, np.sum(np.tanh(x) * weights)
    for g, slope in zip(found, slopes, strict=True):
        np.testing.assert_allclose(g, slope, rtol=1e-5)


def test_a_tangent_narrower_than_its_primal_goes_into_a_compiled_loop() -> None:
    x, t = np.float32([0.1, 0.2]), np.float32([1.0, 2.0])

    def f(x):
        step = lambda k: (k[0] + 1, x[0] + np.sin(k[1]) * np.float64(1.0) + np.float64(0.0) * x[1])
        return da.while_loop(lambda k: k[0] < 3, step, (0, x[0] + np.float64(1.0)))[1]

    expected, moved = da.jvp(f, (x,), (t,))
    for g in (da.jit(f), da.jit(da.jit(f))):
        found = da.jvp(g, (x,), (t,))
        np.testing.assert_allclose(found, (expected, moved), rtol=1e-12)
        assert found[1].dtype == np.float64


@pytest.mark.parametrize("wrap", [lambda f: f, da.jit], ids=["eager", "jit"])
def test_a_counter_that_never_counts_reads_nothing(wrap) -> None:
    f = wrap(lambda x: da.fori_loop(0, 0, lambda i, c: c + x[i], 0.5 * x[0]))
    assert f(np.array([3.0, 4.0])) == 1.5
    assert wrap(lambda x: da.fori_loop(0, x.size, lambda i, c: c + x[i], 0.0))(np.zeros(0)) == 0.0


# ── while_loop with a bound ──────────────────────────────────────────────────────────────────────────────────────


def cube_root(a, most=60):
    unfinished = lambda x: np.abs(x**3 - a) > 1e-12
    return da.while_loop(unfinished, lambda x: x - (x**3 - a) / (3 * x**2), a, max_steps=most)


def growth(a):
    """An integer and a Python number in the carry, an array, and a step that is a pole once the loop is done."""

    def step(c):
        return c[0] + 1, c[1] * 1.5 + 0.1 * np.sum(a), np.sqrt(6.0 - c[1]) * c[2] + a

    n, total, x = da.while_loop(lambda c: c[1] < 5.0, step, (0, 1.0, 0.0 * a), max_steps=9)
    return n * total + np.sum(x**2)


@pytest.mark.parametrize(("f", "x"), [(cube_root, 8.0), (growth, np.array([0.3, 0.4])), (growth, np.array([2.0, 4.0]))])
def test_bounded_loops_have_reverse_mode_in_programs(f, x) -> None:
    """Against the Python loop that the same function is where values are known."""
    value, gradient, hessian = f(x), da.grad(f)(x), da.hessian(f)(x)
    for compiled in (da.jit, lambda f: da.trace(f, x)):
        np.testing.assert_allclose(compiled(f)(x), value)
        for transform in (da.grad, da.jacfwd, da.jacrev):
            np.testing.assert_allclose(compiled(transform(f))(x), gradient, rtol=1e-12)
        np.testing.assert_allclose(compiled(da.hessian(f))(x), hessian, rtol=1e-10)
    lanes = np.stack([x, 1.3 * x, 0.2 * x])
    np.testing.assert_allclose(da.jit(da.vmap(da.grad(f)))(lanes), [da.grad(f)(row) for row in lanes], rtol=1e-12)


def test_a_bound_that_is_reached() -> None:
    steps = 7
    while np.isnan(da.jit(lambda a: cube_root(a, steps))(8.0)):
        with pytest.raises(ConvergenceError, match=f"after {steps} steps"):
            cube_root(8.0, steps)
        steps += 1
    assert da.jit(lambda a: cube_root(a, steps))(8.0) == cube_root(8.0, steps) == pytest.approx(2.0)
    lanes = da.jit(da.vmap(lambda a: cube_root(a, steps)))(np.array([8.0, 1e60]))
    np.testing.assert_allclose(lanes, [2.0, np.nan])


@pytest.mark.parametrize("most", [0, -1, 2.5, "many"])
def test_a_bound_that_is_no_number_of_steps(most) -> None:
    with pytest.raises(ArgumentError, match="1 or more"):
        cube_root(8.0, most)


def test_a_loop_without_results_lies_in_no_order() -> None:
    """The Hessian's loop over a carry that nothing moves has none."""

    def last(x, a):
        body = lambda c, row: ((np.tanh(c[0]) + row * 0.0, np.float64(0.9) + a * 0.0), None)
        return da.scan(body, (np.cos(x[0]), np.tanh(a)), x, reverse=True)[0][1]

    args = np.array([0.3, 0.5, 0.9], np.float32), np.float64(0.989)
    blocks = da.tree.leaves(da.jit(da.hessian(last, argnums=(0, 1)))(*args))
    assert [b.shape for b in blocks] == [(3, 3), (3,), (3,), ()] and not any(b.any() for b in blocks)
