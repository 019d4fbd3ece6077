"""Code that keeps arrays of its own which no name of NumPy's makes, and writes traced values into them, or indexes.

The oracles are central differences and a loop of the plain function. Not for: buffers that swapped names make, or
arguments (``test_by_itself.py``, ``tests/edges/test_plain_arguments.py``).
"""

import importlib.util
import itertools
import linecache
import types

import numpy as np
import pytest

import dualad as da
from dualad.errors import DualadError

MAKES = [
    "T.copy()", "2 * T", "-T", "T ** 2 + 1", "np.exp(T)", "special.expit(T)", "T[[0, 1, 2, 3]]", "T[T > 0]",
    "T.astype(float)", "(T + 1).reshape(2, 2).ravel()", "HELD.table.copy()", "np.asarray(T).copy()", "made()",
    "np.random.default_rng(3).normal(size=4)", "np.random.RandomState(3).rand(4)", "T.clip(1.5, 3)", "T @ np.eye(4)",
    "T.copy() if len(x) else None", "(z := T.copy())", "[r * 1.0 for r in (T, T)][1]", "handed(T.copy(), x)",
]  # fmt: skip
WRITES = [
    "y[1] = x[0] * x[1]", "y[1:3] = x ** 2", "y += x[0] * y", "y[[0, 2]] *= x[1]", "y[::2], y[3] = x, x[0] ** 3",
    "y[y > 2] = x[1]", "v = y[1:]; v[0] = x[0] ** 2", "y.reshape(2, 2)[0] = x", "inner(y)",
]  # fmt: skip
HEAD = """
import types
import numpy as np
import scipy.special as special
T = np.array([1.0, 2.0, 4.0, 0.5])
HELD = types.SimpleNamespace(table=T)
def made():
    return T * 1
def handed(y, x):
    y[3] = x[1]
    return y
"""
BODY = """
def f{}(x):
    def inner(y):
        y[1] = x[0] * 3
    y = {}
    {}
    return y * x[0]
"""
X = np.array([0.3, 0.7])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a module with a function for every way to make an array, and to write to it."""
    path = tmp_path_factory.mktemp("written") / "written_functions.py"
    cases = list(itertools.product(MAKES, WRITES))
    path.write_text(HEAD + "".join([BODY.format(i, *case) for i, case in enumerate(cases)]))
    spec = importlib.util.spec_from_file_location("written_functions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.cases = cases
    return module


def slopes(f, x):
    return np.stack([(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(x.size)], -1)


@pytest.mark.parametrize("make", range(len(MAKES)), ids=MAKES)
def test_new_arrays_take_traced_values(written, make):
    i = make * len(WRITES) + 4 * make % len(WRITES)  # all of them take a minute
    f, before = getattr(written, f"f{i}"), written.T.copy()
    jacobian, lanes = slopes(f, X), np.stack([X, 1.1 * X])
    np.testing.assert_allclose(da.jacfwd(f)(X), jacobian, atol=1e-7, err_msg=str(written.cases[i]))
    np.testing.assert_allclose(da.jacrev(f)(X), jacobian, atol=1e-7)
    np.testing.assert_allclose(da.vmap(da.jacrev(f))(lanes), [slopes(f, x) for x in lanes], atol=1e-7)
    np.testing.assert_allclose(da.jit(f)(X), f(X), rtol=1e-14)
    np.testing.assert_allclose(da.jacfwd(da.jacrev(f))(X), slopes(lambda x: da.jacfwd(f)(x), X), atol=1e-6)
    np.testing.assert_array_equal(written.T, before)
    assert type(f(X)) is np.ndarray


TABLE = np.array([1.0, 2.0, 4.0])
PAIR = types.SimpleNamespace(first=TABLE)


def returned():
    return TABLE


def kept(x):
    y = returned()
    y[0] = x
    return np.sum(y)


def viewed(x):
    y = TABLE[1:]
    y[0] = x
    return np.sum(y)


def held(x):
    PAIR.second = y = 2 * TABLE
    z = PAIR.second
    z[0] = x
    return np.sum(y) * x


def indexed(x):
    return TABLE[np.argmin(x)] * x + [3.0, 5.0, 7.0][np.argmax(x)]


@pytest.mark.parametrize("f", [kept, viewed])
def test_arrays_that_somebody_else_holds_refuse_them(f):
    before = TABLE.copy()
    with pytest.raises(DualadError, match="plain array"):
        da.grad(f)(1.0)
    np.testing.assert_array_equal(TABLE, before)


def test_two_names_of_a_new_array_are_one():
    assert da.grad(held)(3.0) == 18.0


def test_tables_and_lists_take_traced_integers():
    x = np.array([0.5, 0.2, 0.9])
    np.testing.assert_array_equal(da.jit(indexed)(x), indexed(x))
    np.testing.assert_array_equal(da.jit(indexed)(x[::-1]), indexed(x[::-1]))


def test_code_whose_source_has_changed_is_refused_as_it_is(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("def f(x):\n    y = 2 * T\n    y[0] = x\n    return y\n")
    names = {"T": TABLE, "__name__": "changed"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("def f(x):\n    y = 3 * T\n    y[0] = x\n    return y\n")
    linecache.checkcache(str(path))
    with pytest.raises(DualadError, match="plain array"):
        da.jacfwd(names["f"])(1.0)
