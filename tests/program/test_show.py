"""A program's text: what it shows of every kind of equation, and that it tells programs apart."""

import pickle

import numpy as np
import pytest

import dualad as da
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

TEXTS = {
    "elementwise": """
program lambda(a: f64[2,3]):
    b: f64[2,3] = sin(a)
    c: f64[2,3] = multiply(b, 2.0)
    d: f64[2,3] = negative(a)
    e: f64[2,3] = exp(d)
    f: f64[2,3] = divide(e, 3)
    g: f64[2,3] = add(c, f)
    return g
""",
    "weak scalars": """
program lambda(a: f64[2,3]):
    b: c128[2,3] = multiply((1+2j), a)
    c: c128[2,3] = subtract(b, 0.5)
    d: c128[2,3] = add(c, True)
    return d
""",
    "constants": """
program lambda(a: f64[2,3]):
    b: f64[2,3] = multiply(a, k0)
    return b
where:
    k0: f64[3] = [1.0, inf, -0.0]
""",
    "parameters": """
program lambda(a: f64[2,3]):
    b: f64[4,2,3] = broadcast_to(a, shape=(4, 2, 3))
    c: f64[3,4,2] = transpose(b, axes=(2, 0, 1))
    d: f64[3,8] = reshape(c, shape=(3, 8))
    return d
""",
    "dtypes": """
program lambda(a: f64[2,3]):
    b: f32[2,3] = astype(a, dtype=dtype('<f4'))
    c: c128[2,3] = astype(b, dtype=dtype('<c16'))
    return c
""",
    "indexing": """
program lambda(a: f64[2,3]):
    b: f64[1,1,2] = index(a, template=((1, 2, 1), None, (0, 3, 2)))
    c: f64[2] = index(a, k0, template=(0, 'array'))
    d: f64[1,1,2] = add(b, c)
    return d
where:
    k0: i64[2] = [0, 2]
""",
    "several inputs and outputs": """
program lambda(a: f64[2,3], b: f64[]):
    c: f64[2,3] = add(a, b)
    return c, b, a
""",
    "several results": """
program lambda(a: f64[2,3]):
    b: f64[2,2] = index(a, template=((0, 2, 1), (0, 2, 1)))
    c: f64[2,2] = add(b, k0)
    d: f64[], e: f64[] = slogdet(c)
    return d, e
where:
    k0: f64[2,2] = [[3.0, 0.0], [0.0, 3.0]]
""",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_prints_its_equations_and_short_constants(name):
    f, args = FUNCTIONS[name]
    program = da.trace(f, *args)
    check(program)
    assert str(program) == program.to_text() == TEXTS[name].strip()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_programs_print_equally(name):
    """One that is traced again, and one that was pickled, which computes the same numbers too."""
    f, args = FUNCTIONS[name]
    program = da.trace(f, *args)
    again = pickle.loads(pickle.dumps(program))
    check(again)
    assert str(program) == str(again) == str(da.trace(f, *args))
    for a, b in zip(*[da.tree.flatten(p(*args))[0] for p in (program, again)], strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


X = np.array([0.5, 1.5, 2.5])
ALIKE = {
    "operator": [lambda x, y: np.sin(x), lambda x, y: np.cos(x)],
    "argument": [lambda x, y: np.sin(x), lambda x, y: np.sin(y)],
    "order of arguments": [lambda x, y: x - y, lambda x, y: y - x],
    "order of equations": [lambda x, y: (np.sin(x), np.cos(y)), lambda x, y: (np.cos(y), np.sin(x))[::-1]],
    "parameter": [lambda x, y: np.cumsum(np.stack([x, y]), 0), lambda x, y: np.cumsum(np.stack([x, y]), 1)],
    "dtype": [lambda x, y: x.astype("f4"), lambda x, y: x.astype("f2"), lambda x, y: x.astype("c16")],
    "index": [lambda x, y: x[:2], lambda x, y: x[1:], lambda x, y: x[:2:2]],
    "array or number": [lambda x, y: x * 2.0, lambda x, y: x * 2, lambda x, y: x * np.full(3, 2.0)],
    "constant": [lambda x, y: x * np.array([1.0, 2.0, 3.0]), lambda x, y: x * np.array([1.0, 2.0, 4.0])],
    "sign of zero": [lambda x, y: x * np.array([0.0, 1.0, 1.0]), lambda x, y: x * np.array([-0.0, 1.0, 1.0])],
    "dtype of a constant": [lambda x, y: x + np.array([1.0, 2.0, 3.0]), lambda x, y: x + np.array([1, 2, 3])],
    "results": [lambda x, y: (x, y), lambda x, y: (y, x), lambda x, y: x],
    "body": [
        lambda x, y: da.scan(lambda c, v: (c + v, None), 0.0, x)[0],
        lambda x, y: da.scan(lambda c, v: (c * v, None), 0.0, x)[0],
        lambda x, y: da.scan(lambda c, v: (c + v, None), 0.0, x, reverse=True)[0],
    ],
}


@pytest.mark.parametrize("name", ALIKE)
def test_different_programs_print_differently(name):
    texts = [str(da.trace(f, X, X + 1.0)) for f in ALIKE[name]]
    assert len(set(texts)) == len(texts), texts[0]


def test_shapes_of_arguments_are_printed():
    square = lambda x: x * x
    assert str(da.trace(square, X)) != str(da.trace(square, X[:2])) != str(da.trace(square, X.astype(np.float32)))


def test_a_linear_program_survives_pickling_and_is_transposed():
    x = np.array([0.1, 0.2, 0.3])
    _, lin = da.linearize(lambda x: np.sin(x) * x, x)
    again = pickle.loads(pickle.dumps(lin.program))
    assert str(again) == str(lin.program)
    (pulled,) = da.linear_transpose(lambda t: again(t)[0], x)(np.ones(3))
    np.testing.assert_array_equal(pulled, da.vjp(lambda x: np.sin(x) * x, x)[1](np.ones(3))[0])


def test_long_constants_are_described_and_not_printed():
    k = np.arange(100.0)
    assert str(da.trace(lambda x: x * k, np.ones(100))).splitlines()[-2:] == ["where:", "    k0: f64[100]"]
    assert str(da.trace(lambda x: x * k[:16], np.ones(16))).endswith(f"    k0: f64[16] = {k[:16].tolist()}")


def test_programs_in_parameters_are_printed_below_by_names_of_their_own():
    text = str(da.trace(lambda i, x: da.switch(i, [lambda v: v * 2.0, lambda v: v + 1.0, np.sin], x), 1, 0.5))
    assert "branches=(lambda_2, lambda_3, sin)" in text
    assert [line for line in text.splitlines() if line.startswith("program")] == [
        "program lambda(a: i64[], b: f64[]):",
        "program lambda_2(a: f64[]):",
        "program lambda_3(a: f64[]):",
        "program sin(a: f64[]):",
    ]
