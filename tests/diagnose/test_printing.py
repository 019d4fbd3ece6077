"""`debug.print` without `jit`: text, lanes, derivatives, and what is refused."""

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError

X = np.array([1.0, 2.0])


def f(x):
    da.debug.print("x = {:.2f}, {n}", x, n="text")
    return np.sin(x) * x


@pytest.mark.parametrize(
    ("run", "lines"),
    [
        (lambda: f(1.0), ["x = 1.00, text"]),
        (lambda: da.jvp(f, (1.0,), (1.0,)), ["x = 1.00, text"]),
        (lambda: da.grad(da.grad(f))(1.0), ["x = 1.00, text"]),
        (lambda: da.vjp(f, 1.0)[1](2.0), ["x = 1.00, text"]),
        (lambda: da.grad(da.checkpoint(f))(1.0), ["x = 1.00, text"]),
        (lambda: da.hessian(lambda x: np.sum(f(x)))(X), ["x = [1.00 2.00], text"]),
        (lambda: da.jacfwd(f)(X), ["x = [1.00 2.00], text"]),
        (lambda: da.vmap(f)(X), ["x = 1.00, text", "x = 2.00, text"]),
        (lambda: da.vmap(da.grad(f))(X), ["x = 1.00, text", "x = 2.00, text"]),
        (lambda: da.vmap(da.vmap(f))(np.stack([X, X + 2])), [f"x = {i}.00, text" for i in (1, 2, 3, 4)]),
        (lambda: da.vmap(f)(np.zeros(0)), []),
        (lambda: da.taylor(f, 1.0, order=2), ["x = 1.00, text"]),
    ],
)
def test_values_are_printed_once(run, lines, capsys) -> None:
    run()
    assert capsys.readouterr().out.splitlines() == lines


def test_text_is_pythons(capsys) -> None:
    da.debug.print("{0} {0!r} {p[a]:>6} {1:+.1e} {{}} {2.dtype}", "s", 2.5, X, p={"a": 1.5, "b": [X]})
    da.debug.print("{:.1f} {:d} {}", np.array([[1.0, 2.0]]), np.int64(3), [X, "t"])
    assert capsys.readouterr().out == ("s 's'    1.5 +2.5e+00 {} float64\n[[1.0 2.0]] 3 [array([1., 2.]), 't']\n")


@pytest.mark.parametrize("call", [("{} {}", 1), ("{a}", 1), ("{",), ("{} {b}", 1)])
def test_text_that_cannot_be_filled_in_is_refused_at_once(call) -> None:
    with pytest.raises(ArgumentError, match="can't be filled in"):
        da.jit(lambda x: (da.debug.print(*call), x)[1])(1.0)


def test_a_value_in_place_of_text_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"debug\.print\('x = \{\}', x\)"):
        da.debug.print(1.0)


def test_debug_stays_a_context_and_a_decorator() -> None:
    @da.debug(nan=True)
    def slope(x):
        return da.grad(np.sqrt)(x)

    assert slope(4.0) == 0.25
    with pytest.raises(FloatingPointError):
        slope(0.0)
    with da.debug(branches=True) as report:
        da.grad(lambda x: 0.0 * x if x == 0 else x)(0.0)
    assert len(report.branches) == 1
