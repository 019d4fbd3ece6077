"""How a SciPy function gets its second meaning: detection of tensors, refusals, the package without SciPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg as sl

import dualad as da
import dualad.scipy
from dualad.core.tracer import tracer_in
from dualad.errors import UnsupportedError
from dualad.scipy.mirror import MIRRORED, mirrors, refuses

ROOT = Path(__file__).resolve().parents[2]


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_dualad_does_not_import_scipy() -> None:
    assert in_a_fresh_process("import sys, dualad; print('scipy' in sys.modules)").strip() == "False"


def test_without_scipy_the_error_names_the_extra() -> None:
    code = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "scipy":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import dualad
try:
    from dualad.scipy.special import erf
except ImportError as error:
    print(error)
"""
    assert "pip install 'dualad[scipy]'" in in_a_fresh_process(code)


def test_names_of_the_package() -> None:
    assert dualad.scipy.linalg.solve.__module__ == "dualad.scipy.linalg.systems"
    assert dualad.scipy.constants.pi == np.pi
    assert {"linalg", "special", "constants"} <= set(dir(dualad.scipy))
    with pytest.raises(AttributeError):
        _ = dualad.scipy.no_such_package


def test_where_tensors_are_found() -> None:
    def f(x):
        objects = np.array([x, 1.0], dtype=object)
        assert all(tracer_in(a) is not None for a in (x, [1, (2, x)], objects))
        assert tracer_in(1, [2.0], np.zeros(3), "N", None, np.array(["a", None], dtype=object)) is None
        return x

    da.jvp(f, (1.0,), (1.0,))


def test_arguments_by_keyword_count() -> None:
    seen = []

    @mirrors(lambda a, b: seen.append("theirs"))
    def ours(a, b):
        seen.append("ours")
        return b

    ours(1, b=2)
    da.jvp(lambda x: ours(1, b=x), (1.0,), (1.0,))
    assert seen == ["theirs", "ours"]
    del MIRRORED[next(name for name in MIRRORED if name.endswith(".ours"))]


def test_a_refusal_says_which_function_and_why() -> None:
    guarded = refuses(sl.det, "scipy.linalg.tested", "a reason", "a rewrite")
    try:
        assert guarded(np.eye(2)) == 1
        with pytest.raises(UnsupportedError, match=r"(?s)tested was called on a Batched.*a reason.*a rewrite"):
            da.vmap(guarded)(np.ones((3, 2, 2)))
    finally:
        del MIRRORED["scipy.linalg.tested"]


def test_every_verdict_against_has_a_reason() -> None:
    assert dualad.scipy.linalg.__name__ and dualad.scipy.special.__name__
    assert MIRRORED["scipy.linalg.systems.solve" if "scipy.linalg.systems.solve" in MIRRORED else "scipy.linalg.solve"]
    assert all(v.reason for v in MIRRORED.values() if v.kind == "unsupported")
