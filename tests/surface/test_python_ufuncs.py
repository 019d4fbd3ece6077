"""``np.frompyfunc`` and ``np.nditer`` on tensors, against NumPy on numbers and central differences."""

import itertools
import math

import numpy as np
import pytest

import dualad as da

X = np.array([[0.3, -0.7, 1.2], [0.5, 1.1, -0.4]])
EXP = np.frompyfunc(math.exp, 1, 1)
STEP = np.frompyfunc(lambda a, b: a * b + math.sin(a) if a > 0 else b, 2, 1)
PAIR = np.frompyfunc(lambda a, b: (a * b, a - b * b), 2, 2)
LABEL = np.frompyfunc(lambda a: "large" if a > 0 else "small", 1, 1)

CALLS = {
    "of math": lambda x: EXP(x),
    "broadcast": lambda x: STEP(x[:, None], x),
    "with a number": lambda x: STEP(x, 2),
    "two results": lambda x: PAIR(x, [1.0, 2.0, 3.0])[0] * PAIR(x, 0.5)[1],
    "reduce": lambda x: STEP.reduce(x, axis=1),
    "accumulate": lambda x: STEP.accumulate(x, axis=0),
    "outer": lambda x: STEP.outer(x[0], x[1]),
    "a number": lambda x: STEP(x[0, 0], x[1, 1]),
    "labels": lambda x: np.sum(x[LABEL(x) == "large"]),
    "made inside": lambda x: np.frompyfunc(lambda v: math.atan(v) * x[0, 0], 1, 1)(x),
}


def slopes(f, x):
    one = np.eye(x.size).reshape(x.size, *x.shape) * 1e-6
    return np.stack([(np.asarray(f(x + h), float) - np.asarray(f(x - h), float)) / 2e-6 for h in one], -1)


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")  # lanes that disagree
@pytest.mark.parametrize("name", CALLS)
def test_functions_of_python_are_differentiated(name):
    f = CALLS[name]
    expected = slopes(f, X)
    for jacobian in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(np.reshape(jacobian(f)(X), expected.shape), expected, atol=1e-8)
    second = slopes(lambda x: da.jacfwd(f)(x), X)
    np.testing.assert_allclose(np.reshape(da.jacfwd(da.jacrev(f))(X), second.shape), second, atol=1e-6)
    lanes = np.stack([X, X[::-1]])
    np.testing.assert_allclose(da.vmap(f)(lanes), np.stack([f(x) for x in lanes]).astype(float), atol=1e-14)


LAYOUTS = {
    "C": lambda x: x * 1.0,
    "transposed": lambda x: (x * 1.0).T,
    "reversed": lambda x: (x * 1.0)[::-1, ::2],
    "a vector": lambda x: (x * 1.0)[1],
    "a number": lambda x: (x * 1.0)[1, 2],
}
OPTIONS = {
    "alone": {},
    "order": {"order": "F"},
    "chunks": {"flags": ["external_loop"]},
    "buffered": {"flags": ["external_loop", "buffered"]},
}


def weighed(x, options):
    """Return a sum that depends on the order."""
    total = 0.0
    for i, v in enumerate(np.nditer(x, **options)):
        total = total + (i + 1) * np.sum(np.arange(1, np.size(v) + 1) * v**2)
    return total


def by_index(x):
    it, total = np.nditer(x, flags=["multi_index", "c_index"]), 0.0
    while not it.finished:
        total = total + it[0] ** 2 * (1 + sum(it.multi_index)) * (it.index + 1)
        it.iternext()
    return total


def writes(x):
    out = np.zeros(x.shape)
    with np.nditer([x, out], op_flags=[["readonly"], ["writeonly"]]) as it:
        for a, b in it:
            b[...] = a * math.sin(a)
    return out


def in_place(x):
    out = np.array(x)
    for a in np.nditer(out, op_flags=["readwrite"]):
        a[...] = a**2 + 1
    return out


def allocated(x):
    it = np.nditer([x, np.arange(np.shape(x)[-1]) if np.ndim(x) else 2.0, None])
    for a, b, c in it:
        c[...] = a * a * b
    return it.operands[2]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_iterations_go_as_numpys_do(layout):
    functions = [writes, in_place, allocated, by_index]
    functions += [lambda x, options=options: weighed(x, options) for options in OPTIONS.values()]
    for f, transform in itertools.product(functions, (da.jacfwd, da.jacrev)):
        g = lambda x, f=f: f(LAYOUTS[layout](x))
        expected = slopes(g, X)
        np.testing.assert_allclose(np.reshape(transform(g)(X), expected.shape), expected, atol=1e-8)
        np.testing.assert_array_equal(da.jvp(g, (X,), (X,))[0], g(X))


def test_plain_iterations_are_numpys():
    assert type(da.numpy.nditer(X)) is np.nditer
