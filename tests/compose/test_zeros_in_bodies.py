"""The law of zeros inside of loops and branches: reverse mode through a body returns forward mode's numbers.

A traced body is transposed before its cotangents are known, so what of them is live goes through it by itself. Each
composition of a pole, a factor, a selection is put into bodies of all kinds. The oracle is ``jacfwd`` of the same
function on known values, where a loop is Python's. Not for: compositions outside of bodies
(``test_reverse_equals_forward.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import dualad as da
from dualad.control.scan import scan
from tests.compose.test_reverse_equals_forward import check, gradients
from tests.compose.zeros_table import TABLE
from tests.gaps import marks

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _always(x):
    return np.sum(x) > -100.0


#: name -> a function that calls f(x) in a body
BODIES: dict[str, Callable] = {
    "scan, carried": lambda f: lambda x: da.scan(lambda c, _: (c, f(c)), x, None, length=2)[1],
    "scan, rows": lambda f: lambda x: da.scan(lambda c, v: (c, f(v)), 0.0, np.stack([x, x]))[1],
    "scan, captured": lambda f: lambda x: da.scan(lambda c, v: (c, f(x) * v), 0.0, np.array([1.0, 2.0]))[1],
    "scan, backwards": lambda f: lambda x: da.scan(lambda c, v: (f(v), c), f(x), np.stack([x, x]), reverse=True)[0],
    "fori_loop": lambda f: lambda x: da.fori_loop(0, 2, lambda i, s: (s[0], f(s[0])), (x, np.zeros(np.shape(f(x)))))[1],
    "map": lambda f: lambda x: da.map(f, np.stack([x, x]))[1],
    "cond": lambda f: lambda x: da.cond(_always(x), f, lambda v: 2.0 * f(v), x),
    "switch": lambda f: lambda x: da.switch(_always(x).astype(int), [lambda v: 3.0 * f(v), f, lambda v: 2.0 * f(v)], x),
    "scan in cond": lambda f: (
        lambda x: da.cond(
            _always(x), lambda v: da.scan(lambda c, _: (c, f(c)), v, None, length=2)[1][0], lambda v: 2.0 * f(v), x
        )
    ),
    "cond in scan": lambda f: (
        lambda x: da.scan(lambda c, _: (c, da.cond(_always(c), f, lambda v: 2.0 * f(v), c)), x, None, length=2)[1]
    ),
    "jit in scan": lambda f: lambda x: da.scan(lambda c, _: (c, da.jit(f)(c)), x, None, length=2)[1],
    "checkpoint in scan": lambda f: lambda x: da.scan(lambda c, _: (c, da.checkpoint(f)(c)), x, None, length=2)[1],
}


def written(f: Callable) -> Callable:
    """Write a function down at another point, where nothing is special."""
    return lambda x: da.trace(f, x + 1.0)(x)


def _transposed(f: Callable) -> Callable:
    def jacobian(x):
        y, linear = da.linearize(da.trace(f, x + 1.0), x)
        rows = np.eye(np.size(y)).reshape(-1, *np.shape(y))
        return da.vmap(lambda c: da.linear_transpose(linear, x)(c)[0])(rows).reshape(np.shape(y) + x.shape)

    return jacobian


WRAPPERS: dict[str, Callable] = {
    "jacrev of trace": lambda f: da.jacrev(written(f)),
    "grad of trace": lambda f: gradients(lambda g, x: da.grad(g)(x))(written(f)),
    "vmap of jacrev of trace": lambda f: lambda x: da.vmap(da.jacrev(da.trace(f, x + 1.0)))(np.stack([x, x + 1, x]))[2],
    "trace of jacrev": lambda f: written(da.jacrev(f)),
    "trace of grad": gradients(lambda f, x: da.trace(da.grad(f), x + 1.0)(x)),
    "jit of grad": gradients(lambda f, x: da.jit(da.grad(f))(x)),
    "jit of jacrev": lambda f: da.jit(da.jacrev(f)),
    "jacrev of jit": lambda f: da.jacrev(da.jit(f)),
    "checkpoint": lambda f: da.jacrev(da.checkpoint(written(f))),
    "linear_transpose": _transposed,
}

#: rows in the quick run, all of the table in the full one
QUICK = [
    "sqrt squared", "exp of log", "cbrt cubed", "zero weights", "a matrix with zeros", "sqrt of square", "norm by @",
    "distances", "gaussian kernel", "a norm beside a cube", "where root", "where root squared", "an index", "maximum",
    "stack of two", "smooth",
]  # fmt: skip

_ONE_WALK = "several paths lead to one pole, and a body is walked once"
GAPS = {
    (row, body): _ONE_WALK
    for row in ("gram distances", "cancellation before a pole")
    for body in BODIES
    if body != "checkpoint in scan"  # which is walked by itself, on known values
}


def run(row: str, body: str, names) -> None:
    f, x = TABLE[row]
    f = BODIES[body](f)
    expected = da.jacfwd(f)(x)
    for name in names:
        np.testing.assert_allclose(WRAPPERS[name](f)(x), expected, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("i", "row", "body"), [(i, *c) for i, c in enumerate(itertools.product(QUICK, BODIES))])
def test_first_derivatives(i: int, row: str, body: str) -> None:
    run(row, body, [list(WRAPPERS)[3 * i % 10]])


@pytest.mark.full
@pytest.mark.parametrize(
    ("row", "body"), [pytest.param(r, b, marks=marks(GAPS, (r, b))) for r, b in itertools.product(TABLE, BODIES)]
)
def test_all_first_derivatives(row: str, body: str) -> None:
    run(row, body, WRAPPERS)


ORDERS: dict[str, Callable] = {
    "forward of traced reverse": lambda f: da.jacfwd(written(da.jacrev(f))),
    "reverse of traced forward": lambda f: da.jacrev(written(da.jacfwd(f))),
    "traced forward of reverse": lambda f: written(da.jacfwd(da.jacrev(f))),
    "traced reverse of reverse": lambda f: written(da.jacrev(da.jacrev(f))),
    "jit of forward of reverse": lambda f: da.jit(da.jacfwd(da.jacrev(f))),
}


@pytest.mark.parametrize("body", ["scan, carried", "scan, captured", "map", "scan in cond"])
@pytest.mark.parametrize("row", ["where root", "where root squared", "an index", "maximum", "smooth"])
def test_second_derivatives(row: str, body: str) -> None:
    f, x = TABLE[row]
    f = BODIES[body](f)
    expected = da.jacfwd(da.jacfwd(f))(x)
    for name, order in ORDERS.items():
        np.testing.assert_allclose(order(f)(x), expected, rtol=1e-9, atol=1e-12, err_msg=name)


def test_second_derivatives_beside_a_pole_in_a_program() -> None:
    """Products of tangents are plain where nothing is known, so an entry may be NaN that is 0 on known values."""
    f, x = BODIES["scan, carried"](lambda x: np.sqrt(x) ** 3), np.array([0.0, 4.0])
    known, found = da.jacfwd(da.jacfwd(f))(x), da.jacfwd(written(da.jacrev(f)))(x)
    wild = ~np.isfinite(found)
    assert np.isnan(known).sum() < wild.sum() and not (wild < np.isnan(known)).any()
    np.testing.assert_allclose(found[~wild], known[~wild], rtol=1e-12)


def everywhere(f: Callable, x, expected) -> None:
    """Check a function's forward numbers, and that all wrappers give them."""
    check(da.jacfwd(f)(x), expected)
    for name, wrapper in WRAPPERS.items():
        np.testing.assert_allclose(wrapper(f)(x), expected, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_pole_in_one_step_and_its_factor_in_another() -> None:
    """What makes a tangent zero and the pole that it would meet are two steps apart, in both orders."""

    def factor_first(x):  # carries (x, square, root of the square before)
        return da.scan(lambda s, _: ((s[0], s[0] * s[0], np.sqrt(s[1])), None), (x, x * x, x), None, length=3)[0][2]

    def pole_first(x):
        return da.scan(lambda s, _: ((s[0], np.sqrt(s[0]), s[1] ** 2), None), (x, x, x), None, length=3)[0][2]

    x = np.array([0.0, 4.0])
    everywhere(factor_first, x, [[0.0, 0.0], [0.0, 1.0]])
    everywhere(pole_first, x, [[np.nan, 0.0], [0.0, 1.0]])


def test_what_only_an_earlier_step_reads() -> None:
    """The last step's root is not read by anything: its cotangent is dead in that step, and live in those before."""

    def unread_at_zero(x):
        step = lambda s, v: ((s[0] + s[1] * v, np.sqrt(s[2]), s[2] - v), None)
        return da.scan(step, (x, x, x + 2.0), np.ones(3))[0][0]

    everywhere(unread_at_zero, np.array([0.0]), da.jacfwd(unread_at_zero)(np.array([0.0])))
    assert np.isfinite(da.jacfwd(unread_at_zero)(np.array([0.0]))).all()


def test_masks_that_leave_a_body() -> None:
    """A pole before a loop whose rows, carry, constants are selected inside of it."""
    chosen = np.array([[False, True], [False, False]])

    def rows(x):
        return da.scan(lambda c, v: (c + np.where(v[1] > 1.0, v[0], 0.0), None), 0.0, (np.sqrt(x), x))[0]

    def carry(x):
        return da.scan(lambda c, m: (np.where(m, c, 1.0), None), np.sqrt(x), chosen)[0]

    def constant(x):
        y = np.sqrt(x)
        return da.scan(lambda c, m: (c + np.where(m, y, 0.0), None), x * 0.0, chosen)[0]

    def branch(x):
        return da.cond(_always(x), lambda y: y[1:] * 2.0, lambda y: y[:1], np.sqrt(x))

    def unread(x):
        return da.scan(lambda s, _: ((s[0] * s[0], np.sin(s[1])), None), (x, np.sqrt(x)), None, length=2)[0][0]

    x = np.array([0.0, 4.0])
    everywhere(unread, x, [[0.0, 0.0], [0.0, 256.0]])
    everywhere(rows, x, [0.0, 0.25])
    everywhere(carry, x, [[0.0, 0.0], [0.0, 0.0]])
    everywhere(constant, x, [[0.0, 0.0], [0.0, 0.25]])
    everywhere(branch, x, [[0.0, 0.5]])


def test_a_hook_in_a_body_is_called_once_where_the_body_is_transposed() -> None:
    called = []

    def step(c, _):
        c = da.grad_hook(c, lambda ct: called.append(ct))
        return np.sqrt(c) * c, None

    f = lambda x: np.sum(da.scan(step, x, None, length=2)[0])
    x = np.array([0.0, 4.0])
    program = da.trace(f, x + 1.0)
    np.testing.assert_allclose(da.grad(program)(x), da.jacfwd(f)(x))
    assert len(called) == 1


def test_a_result_that_nothing_reads() -> None:
    """Of two results of a compiled function one is not used, and there it has a pole."""
    f = lambda x: da.jit(lambda v: (np.sqrt(v), 2.0 * v))(x)[1]
    everywhere(f, np.array([0.0, 1.0]), [[2.0, 0.0], [0.0, 2.0]])


def test_pieces_that_nothing_reads() -> None:
    def f(x):
        _, second = np.sqrt(x)
        return second * 3.0 + np.split(np.log(x), 2)[1]

    everywhere(f, np.array([0.0, 4.0]), [[0.0, 1.0]])


@pytest.mark.parametrize("wrapper", ["jit of both", "reverse of reverse of jit", "reverse of traced reverse"])
def test_a_linear_loop_beside_a_quotient_is_transposed_twice(wrapper: str) -> None:
    """Behind a quotient a cotangent may be infinite, so the factor comes first; it is linear in the other one, too."""
    k, m, x = np.array([2.0, 3.0]), np.array([1.0, 4.0]), np.array([1.0, 2.0])

    def f(x, k, m):
        return np.sum(da.scan(lambda c, _: (k * np.sqrt(m * m) * c / m, None), x, None, length=2)[0] ** 3)

    second = {
        "jit of both": da.jit(da.jacrev(da.jacrev(f))),
        "reverse of reverse of jit": da.jacrev(da.jacrev(da.jit(f))),
        "reverse of traced reverse": lambda *a: da.jacrev(da.trace(da.jacrev(f), *a))(*a),
    }
    np.testing.assert_allclose(second[wrapper](x, k, m), da.jacfwd(da.jacfwd(f))(x, k, m), rtol=1e-12)


def test_a_body_without_dead_entries_has_no_masks() -> None:
    """Where all is live, which is seen when it is written, a transposed loop carries what it did without the law."""
    f = lambda x: np.sum(da.scan(lambda c, v: (np.tanh(c * v), c * c), x, np.ones((3, 2)))[0])
    text = str(da.trace(da.grad(f), np.ones(2)))
    assert text.count("scan") == 2 and "bool" not in text
    relu = lambda x: np.sum(da.scan(lambda c, v: (np.maximum(W @ c + v, 0.0), None), x, np.ones((3, 2)))[0])
    W = np.ones((2, 2))
    assert str(da.trace(da.grad(relu), np.ones(2))).count("scan") == 2


@pytest.mark.parametrize("before", [np.sin, np.sqrt])
def test_masks_of_many_steps_are_left_to_the_program(before: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not run step by step while it is written, where all that they depend on is known."""
    run, lengths = scan.impl, []
    monkeypatch.setattr(scan, "impl", lambda *args, **params: lengths.append(params["length"]) or run(*args, **params))

    def f(x):
        return da.scan(lambda c, i: (0.9 * c + x[i] * x[i], None), 0.3, np.arange(1000))[0]

    x = np.linspace(0.1, 1.0, 1000)
    expected = 2 * before(x) * 0.9 ** np.arange(999.0, -1.0, -1.0) * da.jvp(before, (x,), (np.ones(1000),))[1]
    np.testing.assert_allclose(da.grad(lambda x: da.jit(f)(before(x)))(x), expected, rtol=1e-12)
    assert 1000 not in lengths
