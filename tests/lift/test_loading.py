"""Loading modules by path or name: what lies beside a file is found, now and later, and meets nothing else."""

from __future__ import annotations

import math
import sys
import textwrap
import threading

import pytest

from dualad.errors import LoadingError
from dualad.lift.loading import load_module


@pytest.fixture
def write(tmp_path):
    def write_file(name, source):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write_file


def test_nothing_is_patched(write):
    path = write("target.py", "import numpy as np\nimport scipy.special\ndef f():\n    return np.sin(0.0)\n")
    before = {name: sys.modules[name] for name in ("numpy", "builtins")}
    search_path, real_import = list(sys.path), __import__
    assert load_module(path).f() == 0.0
    assert {name: sys.modules[name] for name in before} == before
    assert sys.path == search_path
    assert __import__ is real_import
    assert "target" not in sys.modules


def test_modules_of_the_same_folder_are_found(write):
    write("helper_beside.py", "import numpy as np\ndef g():\n    return np.sin(0.0)\n")
    write("package_beside/__init__.py", "from . import part\n")
    write("package_beside/part.py", "import helper_beside\nvalue = helper_beside.g() + 1.0\n")
    path = write(
        "target.py",
        """
        import helper_beside
        import package_beside.part
        from helper_beside import g
        from package_beside.part import value
        def f():
            return g(), helper_beside.g(), package_beside.part.value, value
        """,
    )
    assert load_module(path).f() == (0.0, 0.0, 1.0, 1.0)
    assert "helper_beside" not in sys.modules and "package_beside" not in sys.modules


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


def test_a_package_is_loaded_through_relative_and_absolute_imports(write, tmp_path):
    for name, source in PACKAGE.items():
        write(name, source)
    first = load_module(tmp_path / "pkg" / "sub" / "deep.py")
    assert first.f() == (0.0, 0.0, 0.0, 0.0, math.pi, math.pi, 3)
    assert load_module(tmp_path / "pkg").base() == 0.0
    assert "pkg" not in sys.modules


def test_a_dotted_name_is_imported(write, tmp_path, monkeypatch):
    for name, source in PACKAGE.items():
        write(name.replace("pkg/", "dotted_pkg/"), source.replace("pkg", "dotted_pkg"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_module("dotted_pkg.sub.deep") is sys.modules["dotted_pkg.sub.deep"]


def test_circular_imports_work_as_in_python(write, tmp_path):
    write("ring/__init__.py", "")
    write("ring/a.py", "from . import b\nimport numpy as np\ndef f():\n    return b.g()\n")
    write("ring/b.py", "from . import a\ndef g():\n    return a.np.sin(0.0)\n")
    assert load_module(tmp_path / "ring" / "a.py").f() == 0.0


SAME = "import beside\nvalue = beside.value\ndef f():\n    import beside\n    return beside\n"


def test_two_files_of_the_same_name_do_not_meet(write):
    for folder, value in (("one", 1), ("two", 2)):
        write(f"{folder}/beside.py", f"value = {value}\n")
    one, two = [load_module(write(f"{folder}/same.py", SAME)) for folder in ("one", "two")]
    assert (one.value, two.value) == (1, 2) == (one.f().value, two.f().value)


def test_a_file_is_executed_whenever_it_is_loaded(write):
    path = write("target.py", "value = [1]\n")
    first = load_module(path)
    path = write("target.py", "value = [1, 2]\n")
    assert (first.value, load_module(path).value) == ([1], [1, 2])


def test_a_file_may_have_a_name_that_no_import_could_write(write):
    assert load_module(write("my-model.py", "value = 3\n")).value == 3


def test_the_main_guard_does_not_run(write):
    path = write("target.py", "ran = False\nif __name__ == '__main__':\n    ran = True\n")
    assert load_module(path).ran is False


def test_imports_in_threads_load_once(write):
    write("slow_helper.py", "import time, numpy as np\ntime.sleep(0.05)\nvalue = np.sin(0.0)\n")
    path = write("target.py", "def f():\n    import slow_helper\n    return slow_helper\n")
    module = load_module(path)
    found = []
    threads = [threading.Thread(target=lambda: found.append(module.f())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len({id(module) for module in found}) == 1
    assert found[0].value == 0.0


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
        (lambda folder: folder / "needs_beside.py", "does not import: ZeroDivisionError"),
    ],
)
def test_what_cannot_be_loaded_is_said(write, tmp_path, make, message):
    write("there.py", "")
    write("there.txt", "")
    write("broken.py", "1 / 0\n")
    write("syntax.py", "def f(:\n")
    write("exits.py", "raise SystemExit(3)\n")
    write("needs.py", "import no_such_dependency\n")
    write("needs_beside.py", "import broken\n")
    before = set(sys.modules)
    with pytest.raises(LoadingError, match=message) as caught:
        load_module(make(tmp_path))
    assert "Instead:" in str(caught.value)
    assert not {name for name in set(sys.modules) - before if "@" in name}, "a failed module stays registered"
