"""Names whose modules are loaded late: they are there for everyone who asks, and cost nothing before."""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import dualad
from dualad.base import later
from dualad.core.tables import OPS

SOURCE = Path(dualad.__file__).read_text()


def test_type_checkers_and_python_see_the_same_names():
    tree = ast.parse(SOURCE)
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    shown = {n.module: tuple(a.name for a in n.names) for n in block.body if isinstance(n, ast.ImportFrom)}
    (call,) = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "load_later")
    rooms = ast.literal_eval(call.args[1])
    assert shown == rooms and list(rooms) == sorted(rooms)
    assert {name for names in rooms.values() for name in names} <= set(dualad.__all__)


def test_a_fresh_import_loads_little_and_has_every_name():
    code = """
import json, sys
import dualad
loaded = sorted(sys.modules)
listed = sorted(set(dualad.__all__) - set(dir(dualad)))
import dualad.lift, dualad.vmap               # modules that have the names of what they define
kinds = [type(dualad.lift).__name__, type(dualad.vmap).__name__]
from dualad import *
missing = [name for name in dualad.__all__ if name not in globals()]
print(json.dumps([loaded, listed, kinds, missing]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, unlisted, kinds, missing = json.loads(done.stdout)
    late = {
        "dualad.control.control_flow",
        "dualad.lift",
        "dualad.diagnose.debug",
        "numpy.polynomial",
        "tracemalloc",
        "dualad.testing",
    }
    assert not late & set(loaded)
    assert unlisted == missing == [] and kinds == ["function", "function"]


def test_no_such_name():
    with pytest.raises(AttributeError, match="module 'dualad' has no attribute 'jpv'"):
        dualad.jpv  # noqa: B018


def test_everything_completes_the_table_of_operators():
    later.load_everything()
    assert {"scan", "custom_jvp_call", "checkpoint_call"} <= set(OPS)


def test_dir_shows_what_is_public_and_packages_need_no_import_of_their_own() -> None:
    shown = [name for name in dir(dualad) if not name.startswith("_")]
    assert shown == sorted({*dualad.__all__, "errors", "scipy", "testing"})
    assert dualad.testing.gradcheck.__module__.startswith("dualad.testing")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        dualad.nothing  # noqa: B018


def test_the_package_is_pickled_by_name() -> None:
    """cloudpickle takes the globals of a script's function along, the module among them."""
    assert pickle.loads(pickle.dumps(dualad)) is dualad
