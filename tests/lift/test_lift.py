"""``lift``: functions of ordinary modules, as published packages write them, differentiated as they stand.

The modules are written to a folder of the test's own and imported in the ordinary way. Not for: code without a file
(``test_lift_code.py``), and what is left behind (``test_lift_threads.py``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import textwrap

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError, LoadingError, PlainBufferError

POINT = np.array([0.7, 0.4])

HELPER = """
from numpy import zeros
import math as m

def cumulative(x):
    out = zeros(len(x))
    total = 0.0
    for i in range(len(x)):
        total += m.sin(x[i])
        out[i] = total
    return out
"""

MAIN = """
import functools
import math
import cmath
import numbers
import numpy as np
import numpy.linalg as la
from numpy import asarray, float64
from math import exp, pi, hypot
from . import helper
from .helper import cumulative as cum


def doubled(fn):
    @functools.wraps(fn)
    def inner(*a):
        return fn(*a) * 2.0
    return inner


@doubled
def decorated(x):
    a = np.zeros(2)
    a[0] = float(x[0])
    a[1] = float64(x[1])
    return a @ a


@functools.lru_cache(maxsize=None)
def _table(n):
    return np.arange(n) * 1.0


def everything(x):
    if not isinstance(x, np.ndarray) or isinstance(x, (list, tuple)):
        raise TypeError("an array is needed")
    if not (isinstance(x[0], float) and isinstance(x[0], numbers.Real) and np.isscalar(x[0])):
        raise TypeError("a number is needed")
    s = exp(x[0]) + hypot(x[1], 2.0)
    M = np.array([[x[0], 1.0], [0.5, x[1]]], dtype=float)
    y = asarray([x[0], pi])
    z = la.solve(M, y)
    return s + la.norm(M) + z.sum() + np.dot(cum(x), helper.cumulative(x)) + _table(3)[2]


def mixed(x):
    return np.sum(np.exp(np.array([x[0], 1.0, x[1]]))) + np.mean(np.array([x[0], 2.0]))


def with_math(x):
    a, b = x[0], x[1]
    parts = [
        math.sin(a), math.cos(b), math.atan2(a, b), math.sqrt(a), math.log(a), math.log(b, 3.0), math.pow(a, 2.5),
        math.fsum([a, b, 1.0]), math.prod([a, b, 2.0]), math.dist([a, 1.0], [b, 2.0]), math.fabs(-a), math.erf(a),
        math.lgamma(b + 1.0), math.degrees(a), math.modf(a + 2.0)[0], math.tanh(b), math.copysign(a, -1.0),
        math.exp(2.0), math.floor(a + 3.0) * b, math.ldexp(a, 3),
        abs(cmath.exp(1j * a) * cmath.sqrt(b)), cmath.phase(complex(a, 1.0)) if not hasattr(a, "shape") else
        cmath.phase(a + 1j),
    ]
    total = 0.0
    for p in parts:
        total = total + p
    if math.isnan(total) or not math.isclose(a, a):
        raise ValueError
    return total


class Model:
    scale = 3.0

    def __init__(self, n):
        self.n = n
        self.calls = 0

    def run(self, x):
        self.calls += 1
        y = np.zeros(self.n)
        for i in range(self.n):
            y[i] = self.step(x, i)
        return y.sum()

    def step(self, x, i):
        t = np.empty(1)
        t[:] = x * i * self.scale
        return t[0] ** 2

    def __call__(self, x):
        return self.run(x)

    @classmethod
    def of_three(cls, x):
        return cls(3).run(x)

    @staticmethod
    def half(x):
        b = np.zeros(1)
        b[0] = x / 2
        return b[0]


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k

    def run(self, x):
        b = np.ones(2)
        b[1] = x * self.k
        return b.sum()


def make(k):
    import numpy as local_np

    def other(x):
        b = local_np.zeros(2)
        b[0] = x
        return b[0]

    @doubled
    def closure(x):
        b = np.zeros(2)
        b[k] = x
        return b.sum() * 3 + other(x)

    return closure


def recursive(x, n):
    if n == 0:
        return x
    b = np.zeros(1)
    b[0] = recursive(x, n - 1) * x
    return b[0]


lambdas = [lambda x: np.array([x, x * 2]).sum()]
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lifted")
    package = folder / "lifted_library"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text(HELPER)
    (package / "main.py").write_text(MAIN)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("lifted_library.main")
    finally:
        sys.path.remove(str(folder))
        for name in [n for n in sys.modules if n.startswith("lifted_library")]:
            del sys.modules[name]


@pytest.mark.parametrize("name", ["everything", "decorated", "mixed", "with_math"])
def test_functions(library, name):
    if name == "with_math":
        pytest.importorskip("scipy")
    f = getattr(library, name)
    lifted = da.lift(f)
    h = 1e-6
    expected = np.array([(f(POINT + h * e) - f(POINT - h * e)) / (2 * h) for e in np.eye(2)])
    assert lifted(POINT) == pytest.approx(f(POINT), rel=1e-14)
    np.testing.assert_allclose(da.grad(lifted)(POINT), expected, rtol=1e-7)
    np.testing.assert_allclose(da.jacfwd(lifted)(POINT), expected, rtol=1e-7)
    X = np.stack([POINT, POINT + 0.1])
    np.testing.assert_allclose(da.vmap(lifted)(X), [f(x) for x in X], rtol=1e-13)
    np.testing.assert_allclose(da.vmap(da.grad(lifted))(X)[0], expected, rtol=1e-7)
    np.testing.assert_allclose(da.hessian(lifted)(POINT), da.jacfwd(da.jacfwd(lifted))(POINT), rtol=1e-9, atol=1e-12)


def test_methods_classes_and_objects(library):
    model = library.Model(3)  # the sum of (3 i x)² for i < 3 is 45 x²
    for f in (model.run, model, library.Model.of_three):
        assert da.grad(da.lift(f))(2.0) == 180.0
    assert model.calls == 2
    assert da.grad(da.lift(library.Model)(3).run)(2.0) == 180.0
    assert da.grad(da.lift(library.Model.half))(2.0) == 0.5
    assert da.grad(da.lift(library.Slotted(4.0).run))(2.0) == 4.0


def test_closures_lambdas_and_recursion(library):
    assert da.grad(da.lift(library.make(1)))(2.0) == 8.0
    assert da.grad(da.lift(library.lambdas[0]))(2.0) == 3.0
    assert da.grad(da.lift(functools.partial(library.recursive, n=2)))(2.0) == 12.0
    scale = 3.0

    def here(x):
        b = np.zeros(2)
        b[1] = x * scale
        return b.sum()

    assert da.grad(da.lift(here))(2.0) == 3.0


def test_a_local_function_that_calls_itself():
    def power(x, n):
        b = np.ones(1)
        if n:
            b[0] = x * power(x, n - 1)
        return b[0]

    assert da.grad(da.lift(lambda x: power(x, 3)))(2.0) == 12.0


def test_scipy_is_redirected(library, tmp_path, monkeypatch):
    pytest.importorskip("scipy")
    (tmp_path / "uses_scipy_here.py").write_text(
        "import numpy as np\nfrom scipy.linalg import solve\n"
        "from scipy.special import erf\nimport scipy.special as sp\n"
        "def f(x):\n    M = np.array([[x, 1.0], [0.0, 2.0]])\n"
        "    return solve(M, np.array([1.0, 1.0])).sum() + erf(x) + sp.logsumexp(np.array([x, 0.0]))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    f = importlib.import_module("uses_scipy_here").f
    h = 1e-6
    assert da.grad(da.lift(f))(0.7) == pytest.approx((f(0.7 + h) - f(0.7 - h)) / (2 * h), rel=1e-8)


@pytest.mark.plain
def test_nothing_is_changed_but_while_it_runs(library):
    numpy_before, globals_before = dict(vars(np)), dict(vars(library))
    held = []
    with da.lifted([library]):
        assert library.np is da.numpy and library.exp is not globals_before["exp"]
    da.grad(da.lift(library.everything))(POINT)
    da.grad(da.lifted(["lifted_library"])(lambda x: held.append(dict(vars(library))) or library.everything(x)))(POINT)
    assert held[0]["np"] is da.numpy and held[0]["la"] is da.numpy.linalg
    assert dict(vars(np)) == numpy_before
    assert vars(library).keys() == globals_before.keys()
    assert all(vars(library)[k] is v for k, v in globals_before.items())
    with pytest.raises((PlainBufferError, TypeError)):
        da.grad(library.everything)(POINT)


def test_nothing_runs_twice(library, tmp_path, monkeypatch):
    (tmp_path / "runs_once.py").write_text(
        "import numpy as np\nRUNS = []\nRUNS.append(1)\ndef f(x):\n    b = np.zeros(1)\n    b[0] = x * len(RUNS)\n"
        "    return b[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("runs_once")
    module.RUNS.append(2)  # what the program has changed since is seen
    assert da.grad(da.lift(module.f))(3.0) == 2.0
    assert module.RUNS == [1, 2]


def test_a_transformed_or_decorated_function_is_lifted_inside(library):
    assert da.lift(da.grad(library.Model.half))(2.0) == 0.5

    @contextlib.contextmanager
    def opened(x):
        b = np.zeros(1)
        b[0] = x * 2.0
        yield b[0]

    def f(x):
        with opened(x) as y:
            return y

    assert da.grad(da.lift(f))(1.0) == 2.0


@pytest.mark.parametrize("what", [3, None])
def test_what_is_no_function_is_refused(what):
    with pytest.raises(ArgumentTypeError, match="lift was given"):
        da.lift(what)


def test_compiled_functions_are_refused():
    for f in (len, np.sin, np.linalg.solve, np.sum):
        with pytest.raises(ArgumentTypeError, match="lift was given"):
            da.lift(f)


def test_modules_that_are_not_there_are_refused():
    with pytest.raises(LoadingError, match="no_such_module"):
        da.lift(lambda x: x, modules=["no_such_module"])
    with pytest.raises(ArgumentTypeError, match="modules holds 3"):
        da.lift(lambda x: x, modules=[3])
    with pytest.raises(ArgumentError, match="computes by itself"):
        da.lift(lambda x: x, modules=["numpy.linalg"])
    with pytest.raises(ArgumentError, match="execnet computes by itself"):
        da.lift(lambda x: x, modules=["execnet"])


def test_a_complex_number_of_two_parts_keeps_both():
    @da.lift
    def f(x):
        a, b = complex(x[0], x[1]), complex(imag=x[1], real=2.0)
        return abs(a) ** 2 + abs(b - complex(x[0])) ** 2 + complex(x[0] * 1j, x[1] * 1j).real

    x = np.array([0.5, 1.25])
    value = 0.25 + 1.25**2 + 1.5**2 + 1.25**2 - 1.25
    for g in (f, lambda x: da.jvp(f, (x,), (x,))[0], da.jit(f), lambda x: da.vmap(f)(x[None])[0]):
        assert g(x) == pytest.approx(value)
    np.testing.assert_allclose(da.grad(f)(x), [2 * 0.5 - 2 * 1.5, 4 * 1.25 - 1])
    with pytest.raises(TypeError):
        da.grad(da.lift(lambda x: float(x, x)))(1.0)


def test_pythons_own_types_behave(tmp_path, monkeypatch):
    (tmp_path / "types_here.py").write_text(
        textwrap.dedent("""
        from typing import Optional
        import numpy as np

        def f(x: Optional[float] = None) -> float | None:
            assert isinstance(1.0, float) and not isinstance(1, float) and issubclass(np.float64, float)
            assert type(1.0) is float and type(x) in (float, np.float64) and type(type(1)) is type
            assert type(np.ones(2)) is np.ndarray and type(np.float64(1)) is np.float64 and type("a") is str
            assert type(1.0) == float and {float: 1}[type(1.0)] == 1 and float("2.5") == 2.5 and type(float(3)) == float
            assert np.zeros(2, dtype=float).dtype == np.float64 and np.dtype(complex) == np.complex128
            assert np.dtype(np.float32).itemsize == 4 and np.issubdtype(np.float32, np.floating)
            assert complex(1, 2) == 1 + 2j and float.fromhex("0x1p0") == 1.0
            assert list(map(float, ["1", "2"])) == [1.0, 2.0]
            assert isinstance(np.ones(2), np.ndarray) and not isinstance([1], np.ndarray)
            try:
                float(np.array([x, x]))
            except TypeError:
                pass
            else:
                raise AssertionError
            return float(np.array(x)) * 2.0 + complex(x).real
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    f = importlib.import_module("types_here").f
    assert da.grad(da.lift(f))(3.0) == 3.0
    with np.errstate(all="ignore"):
        assert da.lift(f)(np.float64(3.0)) == 9.0
