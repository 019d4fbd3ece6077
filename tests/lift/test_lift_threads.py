"""What a lifted call leaves behind: nothing, whatever happens in it and whoever runs beside it.

Not for: what lifted code computes (``test_lift.py``, ``test_lift_code.py``).
"""

from __future__ import annotations

import gc
import importlib
import math
import sys
import threading
import time
import types
import weakref

import numpy as np
import pytest

import dualad as da
from dualad.lift import places

CORE = """
import numpy as np
import numpy.linalg as la
import math
from math import sin, exp as e
from numpy import zeros, array, ndarray, float64
from scipy.special import erf

TABLE = {"zeros": np.zeros, "sin": [math.sin]}

class Model:
    make = np.zeros
    def __init__(self):
        self.xp = np
    def run(self, x):
        b = self.xp.zeros(2)
        b[0] = x * x
        return b.sum()

def fill(x, make=np.zeros, *, sine=math.sin):
    from numpy import ones
    b = make(3)
    for i in range(3):
        b[i] = sine(x) * float(x) ** i
    return b.sum() * ones(1)[0]

def plain(n):
    b = zeros(n)
    b[0] = sin(1.0)
    return b, isinstance(b, ndarray), type(b) is ndarray, float(n), type(float(n)) is float, float64(n), fill(0.5)

def fails(x):
    b = zeros(1)
    b[0] = x
    raise KeyError("on purpose")

def recurses(x, n):
    b = zeros(1)
    b[0] = x if n == 0 else LIFTED(x, n - 1) * x
    return b[0]

def steps(x):
    b = zeros(1)
    while True:
        b[0] = b[0] + sin(x)
        yield b[0]
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("threads")
    package = folder / "swapped_library"
    package.mkdir()
    (package / "__init__.py").write_text("from .core import *\n")
    (package / "core.py").write_text(CORE)
    for i in range(5):
        (package / f"part{i}.py").write_text(
            f"from .core import *\nfrom . import core\ndef part{i}(x): return float(x)\n"
        )
    sys.path.insert(0, str(folder))
    try:
        for i in range(5):
            importlib.import_module(f"swapped_library.part{i}")
        yield importlib.import_module("swapped_library.core")
    finally:
        sys.path.remove(str(folder))
        for name in [n for n in sys.modules if n.startswith("swapped_library")]:
            del sys.modules[name]


def everything() -> dict:
    """Return what every module of users' code holds, and what its classes, functions and containers do."""
    held: dict = {}
    for name, module in list(sys.modules.items()):
        if not isinstance(module, types.ModuleType) or not name.startswith(("swapped_library", "tests", "colorsys")):
            continue
        for key, thing in list(vars(module).items()):
            held[name, key] = thing
            if isinstance(thing, types.FunctionType):
                cells = [places.attribute(c, "cell_contents") for c in thing.__closure__ or ()]
                parts = [thing.__code__, thing.__defaults__, thing.__kwdefaults__, *cells]
                held |= {(name, key, i): part for i, part in enumerate(parts)}
            elif isinstance(thing, type) and thing.__module__ == name:
                held |= {(name, key, k): v for k, v in vars(thing).items()}
            elif type(thing) is dict and len(thing) < 100 and key != "__builtins__":
                held |= {(name, key, k): v for k, v in thing.items()}
    return held


def same(before: dict) -> None:
    after = everything()
    assert after.keys() == before.keys()
    assert not [key for key, thing in before.items() if after[key] is not thing]
    assert places.is_quiet()


@pytest.fixture(autouse=True)
def _nothing_is_left(library):
    da.grad(da.lift(library.fill))(0.5)  # whatever is imported for the first time
    before = everything()
    yield
    same(before)


def test_the_check_sees_what_is_left(library):
    before = everything()
    library.np = da.numpy
    try:
        with pytest.raises(AssertionError):
            same(before)
    finally:
        library.np = np
    same(before)


def test_errors(library):
    for f in (library.fails, lambda x: library.fails(x)):
        lifted = da.lift(f, modules=["swapped_library"])
        for run, x in ((da.grad(lifted), 1.0), (lifted, 1.0), (da.vmap(lifted), np.ones(2))):
            with pytest.raises(KeyError, match="on purpose"):
                run(x)
    with pytest.raises(ZeroDivisionError), da.lifted(["swapped_library"]):
        assert library.np is da.numpy
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), da.lifted(["swapped_library"]):
        raise KeyboardInterrupt


def test_nested_and_recursive(library):
    library.LIFTED = da.lift(library.recurses)
    try:
        assert da.grad(lambda x: library.LIFTED(x, 3))(2.0) == 32.0
        block = da.lifted(["swapped_library"])
        with block, block:
            with da.lifted([library]):
                assert da.grad(library.fill)(0.5) == da.grad(da.lift(library.fill))(0.5)
            assert library.np is da.numpy
            assert library.LIFTED(2.0, 3) == 16.0
        assert library.np is np
    finally:
        del library.LIFTED


def test_a_generator_that_is_dropped(library):
    steps = da.lift(library.steps)

    def f(x):
        running = steps(x)
        return next(running) + next(running)

    assert da.grad(f)(0.5) == pytest.approx(3 * math.cos(0.5))
    running = steps(0.5)
    next(running)
    assert library.np is np
    del running


def test_what_the_code_itself_assigns_stays(library):
    library.later = lambda x: None
    try:

        def assigns(x):
            library.sin = len
            library.fresh = 1
            return x

        for _ in range(2):
            da.lift(assigns, modules=["swapped_library"])(1.0)
            assert library.sin is len and library.fresh == 1
    finally:
        library.sin = math.sin
        del library.fresh, library.later


@pytest.mark.parametrize("now", [len, 3.0, np.ones(2), da.grad], ids=["builtin", "number", "array", "function"])
def test_what_others_assign_between_calls_stays(library, now):
    lifted = da.lift(library.Model().run)
    for thing in (math.sin, now, now, math.sin):
        library.sin = thing
        assert da.grad(lifted)(2.0) == 4.0
        assert library.sin is thing
    library.moved = 0.5  # as many names as a moment later
    lifted(1.0)
    del library.moved
    library.also = np.zeros
    try:
        with da.lifted([library]):
            assert library.also is da.numpy.zeros
        assert library.also is np.zeros
    finally:
        del library.also


def test_what_a_call_deletes_is_not_put_back(library):
    library.extra, original, found = math.sin, id(math.sin), []

    def deletes(x):
        found.append(id(library.extra) == original)
        del library.extra
        return x

    assert da.lift(deletes, modules=["swapped_library"])(1.0) == 1.0
    assert found == [False] and not hasattr(library, "extra")
    assert library.np is np and places.is_quiet()


def test_a_call_alone_is_joined_by_others(library):
    """It counts nothing until another one begins, which may be through before it or go on after it."""
    for first_out in (True, False):
        one, other = da.lifted(["swapped_library"]), da.lifted(["swapped_library.core"])
        with one:
            other.__enter__()
            if first_out:
                other.__exit__(None, None, None)
            assert library.np is da.numpy and library.TABLE["zeros"] is da.numpy.zeros
        assert library.np is (np if first_out else da.numpy)
        if not first_out:
            other.__exit__(None, None, None)
        assert library.np is np and places.is_quiet()


def test_ten_threads(library):
    expected = da.grad(da.lift(library.fill))(0.5)
    errors: list = []
    stop = time.monotonic() + 1.5
    start = threading.Barrier(11)

    def differentiates(i):
        f = da.lift(library.fill if i % 2 else library.Model().run, modules=["swapped_library"][: i % 3])
        start.wait()
        while time.monotonic() < stop and not errors:
            assert da.grad(f)(0.5) == (expected if i % 2 else 1.0)
            with pytest.raises(KeyError):
                da.lift(library.fails)(1.0)

    def runs_plainly():
        start.wait()
        while time.monotonic() < stop and not errors:
            b, *rest = library.plain(3)
            assert type(b) is np.ndarray and rest[0] is True and rest[2] == 3.0 and type(rest[2]) is float
            assert type(rest[4]) is np.float64
            assert rest[5] == math.sin(0.5) * 1.75

    def guarded(f, *args):
        try:
            f(*args)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(differentiates, i)) for i in range(8)]
    threads += [threading.Thread(target=guarded, args=(runs_plainly,)) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        start.wait()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
    assert type(library.plain(2)[0]) is np.ndarray


def test_entering_again_costs_microseconds(library):
    lifted = da.lift(library.Model().run)
    lifted(1.0)
    start = time.perf_counter()
    for _ in range(200):
        lifted(1.0)
    assert (time.perf_counter() - start) / 200 < 2e-3  # ten times what it takes on a slow machine


def test_nothing_is_kept_alive():
    namespace: dict = {"__name__": "short_lived"}
    exec("import numpy as np\nclass Model:\n    def run(self, x):\n        return np.zeros(1) + x", namespace)
    model = namespace["Model"]()
    run = da.lift(model.run)
    assert da.grad(lambda x, run=run: run(x)[0])(1.0) == 1.0
    gone = weakref.ref(model)
    run, model = None, None
    gc.collect()
    assert gone() is None
