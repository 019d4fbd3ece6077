"""Loading modules, and loading them again with numpy and scipy pointing elsewhere: every spelling of an import."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import threading
import types

import numpy as np
import pytest
import scipy.special

from dualad.errors import LoadingError
from dualad.lift.loading import load_again, load_module, source_module_name


def fake_numpy():
    """A namespace that is recognisably not NumPy."""
    linalg = types.SimpleNamespace(norm=lambda x: "fake norm")
    return types.SimpleNamespace(sin=lambda x: "fake sin", linalg=linalg, pi="fake pi")


def fake_scipy():
    return types.SimpleNamespace(special=types.SimpleNamespace(erf=lambda x: "fake erf"))


FAKES = {"numpy": fake_numpy(), "scipy": fake_scipy()}


@pytest.fixture
def write(tmp_path):
    def write_file(name, source):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write_file


SPELLINGS = {
    "import numpy as np": ("np.sin(0.0)", "fake sin"),
    "import numpy": ("numpy.sin(0.0)", "fake sin"),
    "from numpy import sin": ("sin(0.0)", "fake sin"),
    "from numpy import sin as s, cos": ("(s(0.0), cos(0.0))", ("fake sin", 1.0)),
    "from numpy import *": ("sin(0.0)", "fake sin"),
    "import numpy.linalg as la": ("la.norm([3.0, 4.0])", "fake norm"),
    "import numpy.linalg": ("numpy.linalg.norm([3.0])", "fake norm"),
    "from numpy import linalg": ("linalg.norm([3.0])", "fake norm"),
    "from numpy.linalg import norm": ("norm([3.0])", "fake norm"),
    "import numpy as np  # attribute": ("np.linalg.norm([3.0])", "fake norm"),
    "import scipy": ("scipy.special.erf(0.0)", "fake erf"),
    "import scipy.special": ("scipy.special.erf(0.0)", "fake erf"),
    "import scipy.special as sp": ("sp.erf(0.0)", "fake erf"),
    "from scipy import special": ("special.erf(0.0)", "fake erf"),
    "from scipy.special import erf": ("erf(0.0)", "fake erf"),
    "from scipy.special import erf, expit": ("(erf(0.0), expit(0.0))", ("fake erf", 0.5)),
    "from scipy import special as sp, linalg": ("(sp.erf(0.0), linalg.__name__)", ("fake erf", "scipy.linalg")),
}


@pytest.mark.parametrize("statement", SPELLINGS)
def test_every_spelling_of_an_import_is_redirected(write, statement):
    expression, expected = SPELLINGS[statement]
    path = write("target.py", f"{statement}\ndef f():\n    return {expression}\n")
    first = load_module(path)
    again = load_again(first, FAKES)
    assert again.f() == expected
    assert first.f() != expected, "the first loading must not change"
    assert load_module(path).f() != expected


@pytest.mark.parametrize("statement", [s for s in SPELLINGS if "*" not in s])
def test_imports_inside_functions_are_redirected_when_they_run(write, statement):
    expression, expected = SPELLINGS[statement]
    path = write("target.py", f"def f():\n    {statement.split('  #')[0]}\n    return {expression}\n")
    assert load_again(load_module(path), FAKES).f() == expected


def test_a_name_the_replacement_lacks_comes_from_the_original(write):
    path = write("target.py", "import numpy as np\nrng = np.random.default_rng(0)\nx = rng.normal(size=3)\n")
    again = load_again(load_module(path), FAKES)
    np.testing.assert_array_equal(again.x, np.random.default_rng(0).normal(size=3))


def test_only_a_submodule_is_replaced(write):
    path = write(
        "target.py",
        """
        import scipy
        import scipy.special
        from scipy import linalg
        from scipy.special import erf
        def f():
            return scipy.special.erf(0.0), erf(0.0), linalg.__name__, scipy.__version__
        """,
    )
    again = load_again(load_module(path), {"scipy.special": types.SimpleNamespace(erf=lambda x: "fake")})
    assert again.f() == ("fake", "fake", "scipy.linalg", scipy.__version__)


def test_a_missing_name_is_an_import_error_as_always(write):
    path = write("target.py", "def f():\n    from numpy import no_such_thing\n")
    again = load_again(load_module(path), FAKES)
    with pytest.raises(ImportError, match="no_such_thing"):
        again.f()


def test_a_missing_submodule_is_a_module_not_found_error(write):
    path = write("target.py", "def f():\n    import numpy.no_such_thing\n")
    with pytest.raises(ModuleNotFoundError, match=r"numpy\.no_such_thing"):
        load_again(load_module(path), FAKES).f()


def test_nothing_is_patched(write):
    path = write("target.py", "import numpy as np\nimport scipy.special\ndef f():\n    return np.sin(0.0)\n")
    before = {name: sys.modules[name] for name in ("numpy", "scipy", "scipy.special", "builtins")}
    search_path, real_import = list(sys.path), __import__
    load_again(load_module(path), FAKES)
    assert {name: sys.modules[name] for name in before} == before
    assert sys.path == search_path
    assert __import__ is real_import
    assert np.sin(0.0) == 0.0 and scipy.special.erf(0.0) == 0.0
    assert "target" not in sys.modules


def test_modules_of_the_same_folder_are_loaded_again_too(write):
    write("helper_beside.py", "import numpy as np\ndef g():\n    return np.sin(0.0)\n")
    path = write(
        "target.py", "import helper_beside\nfrom helper_beside import g\ndef f():\n    return g(), helper_beside.g()\n"
    )
    first = load_module(path)
    assert first.f() == (0.0, 0.0)
    assert load_again(first, FAKES).f() == ("fake sin", "fake sin")
    assert first.f() == (0.0, 0.0)
    assert "helper_beside" not in sys.modules


PACKAGE = {
    "pkg/__init__.py": "from .core import base\nNAME = __name__\n",
    "pkg/core.py": "import numpy as np\ndef base():\n    return np.sin(0.0)\n",
    "pkg/sub/__init__.py": "",
    "pkg/sub/deep.py": """
        from __future__ import annotations
        import dataclasses
        import pkg.core
        from pkg import base as from_package
        from .. import core
        from ..core import base
        from . import sibling
        from .sibling import value

        @dataclasses.dataclass
        class Config:
            steps: int = 3

        def f():
            return base(), core.base(), pkg.core.base(), from_package(), sibling.value, value, Config().steps
        """,
    "pkg/sub/sibling.py": "from ..core import np\nvalue = np.pi\n",
}


def test_a_package_is_loaded_again_through_relative_and_absolute_imports(write, tmp_path):
    for name, source in PACKAGE.items():
        write(name, source)
    first = load_module(tmp_path / "pkg" / "sub" / "deep.py")
    assert first.f() == (0.0, 0.0, 0.0, 0.0, math.pi, math.pi, 3)
    again = load_again(first, FAKES)
    assert again.f() == ("fake sin",) * 4 + ("fake pi", "fake pi", 3)
    assert source_module_name(again) == source_module_name(first) == "pkg.sub.deep"
    assert "pkg" not in sys.modules


def test_a_dotted_name_is_loaded_again(write, tmp_path, monkeypatch):
    for name, source in PACKAGE.items():
        write(name.replace("pkg/", "dotted_pkg/"), source.replace("pkg", "dotted_pkg"))
    monkeypatch.syspath_prepend(str(tmp_path))
    first = load_module("dotted_pkg.sub.deep")
    assert first is sys.modules["dotted_pkg.sub.deep"]
    assert load_again(first, FAKES).f()[:4] == ("fake sin",) * 4
    assert first.f()[:4] == (0.0,) * 4


def test_a_folder_without_init_is_a_namespace_package(write, tmp_path, monkeypatch):
    write("spaced/one.py", "from spaced.two import g\ndef f():\n    return g()\n")
    write("spaced/two.py", "import numpy as np\ndef g():\n    return np.sin(0.0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = load_module("spaced.one")
    assert (first.f(), load_again(first, FAKES).f()) == (0.0, "fake sin")


def test_circular_imports_work_as_in_python(write, tmp_path):
    write("ring/__init__.py", "")
    write("ring/a.py", "from . import b\nimport numpy as np\ndef f():\n    return b.g()\n")
    write("ring/b.py", "from . import a\ndef g():\n    return a.np.sin(0.0)\n")
    assert load_again(load_module(tmp_path / "ring" / "a.py"), FAKES).f() == "fake sin"


def test_two_files_of_the_same_name_do_not_meet(write):
    one, two = write("one/same.py", "value = 1\n"), write("two/same.py", "value = 2\n")
    assert (load_module(one).value, load_module(two).value) == (1, 2)


def test_third_party_modules_stay_what_they_are(write):
    path = write(
        "target.py", "import json, math\nfrom collections import OrderedDict\ndef f():\n    return json, math.pi\n"
    )
    assert load_again(load_module(path), FAKES).f() == (json, math.pi)


def test_classes_methods_and_decorated_functions_are_reached(write):
    path = write(
        "target.py",
        """
        import functools
        import numpy as np

        def twice(g):
            @functools.wraps(g)
            def h(*args):
                return g(*args), g(*args)
            return h

        @twice
        def f():
            return np.sin(0.0)

        class Model:
            def f(self):
                return np.sin(0.0)
        """,
    )
    again = load_again(load_module(path), FAKES)
    assert again.f() == ("fake sin", "fake sin")
    assert again.Model().f() == "fake sin"


def test_the_main_guard_does_not_run(write):
    path = write("target.py", "ran = False\nif __name__ == '__main__':\n    ran = True\n")
    assert load_module(path).ran is False
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    again = load_again(main, FAKES)
    assert again.ran is False and source_module_name(again) == "target"


def test_loading_in_threads(write):
    write("slow_helper.py", "import time, numpy as np\ntime.sleep(0.05)\nvalue = np.sin(0.0)\n")
    path = write("target.py", "def f():\n    import slow_helper\n    return slow_helper\n")
    again = load_again(load_module(path), FAKES)
    found = []
    threads = [threading.Thread(target=lambda: found.append(again.f())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len({id(module) for module in found}) == 1
    assert found[0].value == "fake sin"


def test_jax_stands_in_for_numpy_and_scipy(write):
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax.scipy.special")

    path = write(
        "target.py",
        "import numpy as np\nimport numpy.linalg as la\nfrom scipy.special import erf\nimport scipy.linalg\n"
        "def f(x):\n    return np.sum(erf(np.sin(x))) + la.norm(x) + scipy.linalg.det(np.outer(x, x) + np.eye(3))\n",
    )
    first = load_module(path)
    again = load_again(first, {"numpy": jax.numpy, "scipy": jax.scipy})
    x = np.array([0.1, 0.5, 0.9])
    assert isinstance(again.f(x), jax.Array)
    np.testing.assert_allclose(again.f(x), first.f(x), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "missing.py", "no such file.*there.py"),
        (lambda folder: str(folder / "missing.py"), "no such file"),
        (lambda folder: folder / "there.txt", "not a .py file"),
        (lambda folder: folder, "folder without __init__"),
        (lambda folder: "no_such_package.module", "no module named 'no_such_package'"),
        (lambda folder: folder / "broken.py", "does not import: ZeroDivisionError"),
        (lambda folder: folder / "syntax.py", "does not import: SyntaxError"),
        (lambda folder: folder / "exits.py", "does not import: SystemExit"),
        (lambda folder: folder / "needs.py", "does not import: ModuleNotFoundError.*no_such_dependency"),
    ],
)
def test_what_cannot_be_loaded_is_said(write, tmp_path, make, message):
    write("there.py", "")
    write("there.txt", "")
    write("broken.py", "1 / 0\n")
    write("syntax.py", "def f(:\n")
    write("exits.py", "raise SystemExit(3)\n")
    write("needs.py", "import no_such_dependency\n")
    before = set(sys.modules)
    with pytest.raises(LoadingError, match=message) as caught:
        load_module(make(tmp_path))
    assert "Instead:" in str(caught.value)
    assert not {name for name in set(sys.modules) - before if "@" in name}, "a failed module stays registered"


def test_a_module_without_source_cannot_be_loaded_again():
    with pytest.raises(LoadingError, match="no Python source file"):
        load_again(math, FAKES)


def test_an_error_with_the_replacements_names_them(write):
    path = write("target.py", "import numpy as np\nvalue = np.sin(0.0) + 1.0\n")
    with pytest.raises(LoadingError, match="numpy, scipy redirected"):
        load_again(load_module(path), FAKES)
