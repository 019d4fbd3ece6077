"""``lift`` on code that is in no file, and on everything that may hold a name of NumPy's.

Not for: published packages (``tests/packages``), or what is left behind (``test_lift_threads.py``).
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import importlib
import math
import os
import subprocess
import sys
import textwrap
import types
import weakref

import numpy as np
import pytest

import dualad as da
from dualad.errors import DualadError


def module_of(code: str) -> dict:
    """Run code as a notebook does: in globals that belong to no file."""
    namespace: dict = {"__name__": "typed"}
    exec(textwrap.dedent(code), namespace)
    return namespace


FILLS = """
import numpy as np
from math import sin as sine

def fill(x):
    b = np.zeros(3)
    for i in range(3):
        b[i] = sine(x) * float(x) ** i
    return b.sum()
"""


def expected(x):
    return math.cos(x) * (1 + x + x * x) + math.sin(x) * (1 + 2 * x)


def test_code_without_a_file():
    f = module_of(FILLS)["fill"]
    lifted = da.lift(f)
    assert da.grad(lifted)(0.7) == pytest.approx(expected(0.7), rel=1e-14)
    np.testing.assert_allclose(da.vmap(da.grad(lifted))(np.array([0.7, 0.2])), [expected(0.7), expected(0.2)])
    assert lifted(0.7) == f(0.7) and type(lifted(0.7)) is type(f(0.7))


def test_names_defined_later_are_seen():
    namespace = module_of("import numpy as np\ndef f(x):\n    return g(x)\ndef g(x):\n    return x\n")
    lifted = da.lift(namespace["f"])
    assert da.grad(lifted)(2.0) == 1.0
    exec("from numpy import empty as e\ndef g(x):\n    b = e(1)\n    b[0] = x * x\n    return b[0]", namespace)
    assert da.grad(lifted)(2.0) == 4.0
    exec("def g(x):\n    from numpy import ones\n    b = ones(1)\n    b[0] = x ** 3\n    return b[0]", namespace)
    assert da.grad(lifted)(2.0) == 12.0
    exec("x = 5.0\nz = [1.0]", namespace)
    assert da.grad(lifted)(2.0) == 12.0


def test_a_script_and_an_interpreter(tmp_path):
    code = textwrap.dedent("""
        import numpy as np
        import dualad as da
        from neighbour import half

        def f(x):
            b = np.zeros(2)
            b[0] = x * half(x)
            return b.sum()

        before = dict(globals())
        print(da.grad(da.lift(f))(3.0))
        assert all(globals()[k] is v for k, v in before.items()) and globals().keys() - before.keys() == {"before"}
        with da.lifted():
            print(da.grad(f)(3.0))
    """)
    (tmp_path / "neighbour.py").write_text(
        "from numpy import zeros\ndef half(x):\n    b = zeros(1)\n    b[0] = x / 2\n    return b[0]\n"
    )
    (tmp_path / "script.py").write_text(code)
    env = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path])}
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=False, env=env)
    done = run([sys.executable, str(tmp_path / "script.py")])
    assert done.stdout.split() == ["3.0", "3.0"], done.stderr
    # Without a file there is no folder: the neighbour is named.
    typed = code.replace("da.lift(f)", "da.lift(f, modules=['neighbour'])").replace("lifted()", "lifted(['neighbour'])")
    done = run([sys.executable, "-c", typed])
    assert done.stdout.split() == ["3.0", "3.0"], done.stderr


PLACES = """
import functools
import math
import operator
import numpy as np
from functools import partial

TABLE = {"zeros": np.zeros, "deep": {"sin": [math.sin]}}
PAIR = (np.empty, math.cos)
make = partial(np.full, 1)
joined = partial(functools.reduce, operator.add)

class Config:
    make = np.zeros
    sine = math.sin
    kind = float

class Layer:
    def __init__(self, function):
        self.function = function

    def __call__(self, x):
        return self.function(x)

LAYER = Layer(math.tanh)

@functools.lru_cache(maxsize=None)
def table(n):
    out = np.zeros(n)
    out[:] = range(n)
    return out

@functools.lru_cache(maxsize=None)
def cube(x):
    b = np.zeros(1)
    b[0] = x ** 3
    return b[0]

@np.vectorize
def twice(x):
    return math.sin(x) + x

def keyword(x, *, make=np.ones, sine=math.sin):
    b = make(1)
    b[0] = sine(x)
    return b[0]

def default(x, make=np.zeros, kinds=(float, int)):
    b = make(1)
    b[0] = x * x if isinstance(x, kinds) else 0.0
    return b[0]

def in_dict(x):
    b = TABLE["zeros"](1)
    b[0] = TABLE["deep"]["sin"][0](x)
    return b[0]

def in_tuple(x):
    b = PAIR[0](1)
    b[0] = PAIR[1](x)
    return b[0]

def in_partial(x):
    b = make(0.0)
    b[0] = x * 5
    return b[0] + joined([x, x])

def in_class(x):
    b = Config.make(1)
    b[0] = Config.sine(Config.kind(x))
    return b[0]

def in_object(x):
    return LAYER(x)

def cached(x):
    return (table(3) * x).sum() + cube(x)

def vectorized(x):
    return twice(np.array([x, 2 * x])).sum()

def local(x):
    import numpy
    import numpy.linalg as la
    from numpy import zeros
    from math import sin, pi
    from scipy.special import erf, logsumexp
    import scipy.linalg
    b = zeros(2)
    b[0] = sin(x)
    c = numpy.array([[x, 0.0], [1.0, 2.0]])
    def inner(x):
        import cmath, numpy as other
        d = other.zeros(1)
        d[0] = abs(cmath.exp(x))
        return d[0]
    return (b.sum() + la.norm(numpy.array([x, 2.0])) + scipy.linalg.solve(c, numpy.ones(2)).sum() + erf(x)
            + inner(x) + logsumexp(numpy.array([x, 0.0])) + pi)

def types(x):
    y = np.asarray(x)
    if type(x) is float or type(y) is np.ndarray or isinstance(x, float):
        return y * 2.0
    return x * 0.0
"""


@pytest.mark.parametrize(
    "name",
    ["keyword", "default", "in_dict", "in_tuple", "in_partial", "in_class", "in_object", "cached", "vectorized",
     "local", "types"],
)  # fmt: skip
def test_wherever_a_name_is_held(name):
    namespace = module_of(PLACES)
    f = namespace[name]
    lifted = da.lift(f)
    h = 1e-6
    slope = (f(0.7 + h) - f(0.7 - h)) / (2 * h)
    assert da.grad(lifted)(0.7) == pytest.approx(slope, rel=1e-8)
    assert da.jvp(lifted, (0.7,), (1.0,))[1] == pytest.approx(slope, rel=1e-8)
    np.testing.assert_allclose(da.vmap(lifted)(np.array([0.7, 0.2])), [f(0.7), f(0.2)], rtol=1e-14)
    for _ in range(2):
        assert da.grad(lifted)(0.7) == pytest.approx(slope, rel=1e-8)


def test_what_a_cache_keeps_is_plain():
    namespace = module_of(PLACES)
    assert da.grad(da.lift(namespace["cached"]))(1.0) == 6.0
    assert type(namespace["table"](3)) is np.ndarray
    assert namespace["table"].cache_info().hits == 1 and namespace["cube"].cache_info().currsize == 0


def test_objects_made_earlier_closures_and_what_they_hold():
    namespace = module_of("""
        import numpy as np
        class Model:
            def __init__(self, xp, n):
                self.xp, self.n = xp, n
                self.parts = [lambda x: self.xp.array([x, x]).sum()]
            def run(self, x):
                b = self.xp.zeros(self.n)
                b[0] = x * x
                return b.sum() + self.parts[0](x)
        class Derived(Model):
            def __call__(self, x):
                return super().run(x) * 2.0
        def closing(xp, f):
            def inner(x):
                b = xp.zeros(2)
                b[1] = f(x)
                return b.sum()
            return inner
        """)
    model = namespace["Model"](np, 3)
    derived = namespace["Derived"](np, 3)
    assert da.grad(da.lift(model.run))(3.0) == 8.0
    assert da.grad(da.lift(derived))(3.0) == 16.0
    assert model.xp is np and derived.xp is np
    f = namespace["closing"](np, math.sin)
    assert da.grad(da.lift(f))(0.5) == math.cos(0.5)
    assert da.grad(da.lift(functools.partial(namespace["closing"](np, math.exp))))(0.5) == math.exp(0.5)
    assert f.__closure__[1].cell_contents is np
    # Lifted once, called while the object changes.
    lifted = da.lift(model.run)
    model.n, model.parts = 5, [lambda x: 3 * x]
    assert da.grad(lifted)(3.0) == 9.0


@pytest.mark.plain
def test_classes_and_what_they_return():
    namespace = module_of(
        FILLS
        + """
class Model:
    def __init__(self, n):
        self.start = np.zeros(n)

    def run(self, x):
        b = np.zeros(3)
        b[0] = x * self.size
        return b.sum()

    @property
    def size(self):
        return float(len(self.start))

    @classmethod
    def of(cls, n):
        return cls(n)

    @staticmethod
    def half(x):
        b = np.zeros(1)
        b[0] = x / 2
        return b[0]

def make(k):
    def closure(x):
        b = np.zeros(3)
        b[k] = x
        return b.sum()
    return closure
"""
    )
    Model = da.lift(namespace["Model"])
    model = Model(4)
    assert isinstance(model, namespace["Model"]) and isinstance(model, Model) and type(model.start) is np.ndarray
    assert da.grad(model.run)(2.0) == 4.0 and da.grad(Model.of(3).run)(2.0) == 3.0 and da.grad(Model.half)(2.0) == 0.5
    assert da.grad(da.lift(namespace["make"])(1))(2.0) == 1.0
    with pytest.raises(DualadError):
        da.grad(namespace["Model"](4).run)(2.0)


def test_generators_and_coroutines():
    namespace = module_of("""
        import numpy as np
        from math import sin

        def steps(x):
            b = np.zeros(2)
            try:
                while True:
                    b[0] = b[0] + sin(x)
                    got = yield b[0]
                    if got is not None:
                        b[0] = got * x
            except KeyError:
                yield float(x) * 7.0
            return 1

        async def later(x):
            b = np.zeros(1)
            b[0] = await sooner(x)
            return b[0] * 2

        async def sooner(x):
            b = np.zeros(1)
            b[0] = sin(x)
            return b[0]
        """)
    before = dict(namespace)
    lifted = da.lift(namespace["steps"])

    def f(x):
        steps = lifted(x)
        first = next(steps)
        assert namespace["np"] is np  # only while it runs
        second = steps.send(x)
        third = steps.throw(KeyError)
        steps.close()
        return first + second + third

    assert da.grad(f)(0.5) == pytest.approx(2 * math.cos(0.5) + 2 * 0.5 + 7.0)
    assert da.grad(lambda x: sum(zip_ for _, zip_ in zip(range(3), lifted(x), strict=False)))(0.5) == pytest.approx(
        6 * math.cos(0.5)
    )
    later = da.lift(namespace["later"])
    assert da.grad(lambda x: asyncio.run(later(x)))(0.5) == pytest.approx(2 * math.cos(0.5))
    assert namespace.keys() == before.keys() and all(namespace[k] is v for k, v in before.items())


@pytest.mark.plain
def test_other_modules_by_name(tmp_path, monkeypatch):
    package = tmp_path / "named_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .core import f\n")
    (package / "core.py").write_text(
        "import numpy as np\ndef f(x):\n    from . import lazy\n    b = np.zeros(1)\n    b[0] = lazy.g(x)\n"
        "    return b[0]\n"
    )
    (package / "lazy.py").write_text(
        "from numpy import ones\ndef g(x):\n    b = ones(1)\n    b[0] = x * x\n    return b[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    library = importlib.import_module("named_package")
    try:
        assert "named_package.lazy" not in sys.modules
        for modules in (["named_package"], [library], "named_package"):
            assert da.grad(da.lift(lambda x: library.f(x), modules=modules))(2.0) == 4.0

        @da.lifted(modules=[library])
        def decorated(x):
            return library.f(x) * 2

        assert da.grad(decorated)(2.0) == 8.0
        with pytest.raises(DualadError):
            da.grad(da.lift(lambda x: library.f(x)))(2.0)
        assert library.core.np is np
    finally:
        for name in [n for n in sys.modules if n.startswith("named_package")]:
            del sys.modules[name]


EVERY_MODULE = """
import numpy as np, dualad as da, elsewhere
assert da.grad(da.lift(lambda x: elsewhere.f(x), modules="all"))(2.0) == 4.0
with da.lifted(["elsewhere"]):
    with da.lifted("all"):
        assert da.grad(elsewhere.f)(0.5) == 1.0 and elsewhere.np is da.numpy
    assert elsewhere.np is da.numpy
assert elsewhere.np is np and elsewhere.ones is np.ones
"""


def test_every_module_there_is(tmp_path):
    """In a process of its own: ``"all"`` reaches what runs the tests as well, while its threads are running."""
    (tmp_path / "elsewhere.py").write_text(
        "import numpy as np\nfrom numpy import ones\ndef f(x):\n    b = ones(1)\n    b[0] = x * x\n    return b[0]\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    subprocess.run([sys.executable, "-c", EVERY_MODULE], env=environment, check=True, timeout=100)


def test_lifting_what_is_lifted_and_transformed():
    namespace = module_of(FILLS)
    lifted = da.lift(da.lift(namespace["fill"]))
    slope = da.grad(lifted)(0.7)
    assert da.lift(da.grad(namespace["fill"]))(0.7) == slope
    second = da.jacfwd(da.grad(lifted))(0.7)
    assert da.lift(da.hessian(namespace["fill"]))(0.7) == pytest.approx(second, rel=1e-14)
    assert lifted.__name__ == "fill" and lifted.__wrapped__.__wrapped__ is namespace["fill"]


class Held:
    zeros = np.zeros


def test_weak_proxies_in_modules_stay_what_they_are(monkeypatch):
    """Proxies answer for their object, and raise where it has gone: torch, scikit-learn and pybamm hold such."""
    module, alive = types.ModuleType("holds_proxies"), Held()
    module.__dict__.update(alive=weakref.proxy(alive), gone=weakref.proxy(Held()), __file__="x.py")
    module.inside = [module.gone, np.zeros]
    monkeypatch.setitem(sys.modules, "holds_proxies", module)
    f = da.lift(lambda x: np.array([x, 1.0]) @ np.ones(2) + module.inside[1](1)[0], modules="all")
    assert da.grad(f)(2.0) == 1.0
    assert module.inside[1] is np.zeros and type(module.gone) in weakref.ProxyTypes


def test_modules_that_hold_the_globals_of_others_change_none(monkeypatch):
    """Interpreters of formulas keep Python's own names, and NumPy's, in a dict."""
    module, during = types.ModuleType("holds_globals"), []
    module.__dict__.update(python=vars(builtins), numpy=vars(np), each=[vars(math)], __file__="x.py")
    monkeypatch.setitem(sys.modules, "holds_globals", module)
    before = builtins.isinstance, np.zeros, math.sin

    def f(x):
        during.append((module.python["isinstance"], module.numpy["zeros"], module.each[0]["sin"]))
        return np.array([x, 1.0]) @ np.ones(2)

    assert da.grad(da.lift(f, modules="all"))(2.0) == 1.0
    assert during == [before]


def test_every_loaded_module_is_reached_and_none_is_loaded_for_it(tmp_path, monkeypatch):
    package = tmp_path / "loads_later"
    package.mkdir()
    (package / "__init__.py").write_text("def f(x):\n    from .later import g\n    return g(x)\n")
    (package / "later.py").write_text(
        "import numpy as np\ndef g(x):\n    b = np.zeros(1)\n    b[0] = x * x\n    return b[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    f = importlib.import_module("loads_later").f
    assert da.grad(da.lift(lambda x: 3.0 * x, modules="all"))(2.0) == 3.0
    assert "loads_later.later" not in sys.modules
    assert da.grad(da.lift(lambda x: f(x), modules="loads_later"))(2.0) == 4.0
    for name in ("loads_later", "loads_later.later"):
        monkeypatch.delitem(sys.modules, name)


def test_the_methods_that_distributions_keep_to_themselves_are_scipys():
    stats = pytest.importorskip("scipy.stats")
    for f in (lambda x: stats.norm._cdf(x), lambda x: stats.poisson._logpmf(3.0, x), lambda x: stats.norm._logpdf(x)):
        assert da.grad(da.lift(f))(0.3) == da.grad(f)(0.3)
        assert da.grad(f)(0.3) == pytest.approx((f(0.3 + 1e-6) - f(0.3 - 1e-6)) / 2e-6, rel=1e-8)
