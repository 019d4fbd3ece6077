"""A program's text loses nothing: printed, read back, printed again, and run."""

import numpy as np
import pytest

import dualad as da
from dualad.errors import ProgramError
from dualad.program.check import check

A = np.arange(6.0).reshape(2, 3)

FUNCTIONS = {
    "elementwise": (lambda x: np.sin(x) * 2.0 + np.exp(-x) / 3, (A,)),
    "weak scalars": (lambda x: (1 + 2j) * x - 0.5 + True, (A,)),
    "constants": (lambda x: x * np.array([1.0, np.inf, -0.0]), (A,)),
    "parameters": (lambda x: np.transpose(np.broadcast_to(x, (4, 2, 3)), (2, 0, 1)).reshape(3, -1), (A,)),
    "dtypes": (lambda x: x.astype(np.float32).astype(complex), (A,)),
    "indexing": (lambda x: x[1:, None, ::2] + x[0, [0, 2]], (A,)),
    "several inputs and outputs": (lambda x, y: (x + y, [y, x]), (A, 2.0)),
    "several results": (lambda x: np.linalg.slogdet(x[:, :2] + 3 * np.eye(2)), (A,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_printing_loses_nothing(name):
    f, args = FUNCTIONS[name]
    program = da.trace(f, *args)
    text = str(program)
    again = da.read_program(text)
    check(program)
    check(again)
    assert str(again) == text
    flat = da.tree.flatten(program(*args))[0]
    for a, b in zip(flat, again(*da.tree.flatten(args)[0]), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def test_a_linear_program_is_read_back_and_transposed():
    x = np.array([0.1, 0.2, 0.3])
    _, lin = da.linearize(lambda x: np.sin(x) * x, x)
    again = da.read_program(str(lin.program))
    (pulled,) = da.linear_transpose(lambda t: again(t)[0], x)(np.ones(3))
    np.testing.assert_array_equal(pulled, da.vjp(lambda x: np.sin(x) * x, x)[1](np.ones(3))[0])


def test_long_constants_are_left_out_and_given_again():
    k = np.arange(100.0)
    program = da.trace(lambda x: x * k, np.ones(100))
    with pytest.raises(ProgramError, match="k0"):
        da.read_program(str(program))
    again = da.read_program(str(program), constants={"k0": k})
    np.testing.assert_array_equal(again(np.ones(100))[0], k)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a program"),
        ("program f(a: f64[3]):\n    b: f64[3] = nonsense(a)\n    return b", "unknown operator"),
        ("program f(a: f64[3]):\n    b: f64[3] = sin(import os)\n    return b", "can't be read"),
        ("program f(a: f64[3]):\n    b: f64[3] = sin(__import__('os'))\n    return b", "not a value"),
        ("program f(a: f64[3]):\n    b: what = sin(a)\n    return b", "not a value|not a type"),
        ("program f(a: f64[3]):\n    return c", "not a value"),
    ],
)
def test_what_is_no_program_is_refused_with_words(text, says):
    with pytest.raises(ProgramError, match=says):
        da.read_program(text)
