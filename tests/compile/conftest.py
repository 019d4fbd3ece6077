"""The backends of ``jit``: machine code where llvmlite is installed, Python and NumPy source everywhere.

``native`` takes all that is known there, however small, in registers; ``loops`` takes in loops what those know.
"""

from __future__ import annotations

import pytest

from dualad.compile.native import groups, passes
from dualad.compile.native.engine import why_not


def _choose(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DUALAD_NATIVE", "0" if name == "numpy" else "1")
    if name != "numpy" and (reason := why_not()):
        pytest.skip(reason)
    monkeypatch.setattr(groups, "_WORTH", -1_000_000)  # everything that is known, however small
    if name == "loops":
        monkeypatch.setattr(passes, "_LARGE", 0)
        monkeypatch.setattr(passes, "_WORTH", 0)
    return name


@pytest.fixture(params=["native", "loops", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return _choose(request.param, monkeypatch)


@pytest.fixture
def numpy_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    _choose("numpy", monkeypatch)


@pytest.fixture
def native_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    _choose("native", monkeypatch)
