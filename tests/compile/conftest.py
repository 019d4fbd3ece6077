"""The two backends of ``jit``: machine code where llvmlite is installed, Python and NumPy source everywhere."""

from __future__ import annotations

import pytest

from dualad.compile.native import groups
from dualad.compile.native.engine import why_not


def _choose(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DUALAD_NATIVE", "1" if name == "native" else "0")
    if name == "native" and (reason := why_not()):
        pytest.skip(reason)
    monkeypatch.setattr(groups, "_WORTH", -1_000_000)  # everything that is known, however small
    monkeypatch.setattr(groups, "_FAILURES", (groups.Refused,))  # what is wrong is seen
    return name


@pytest.fixture(params=["native", "numpy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return _choose(request.param, monkeypatch)


@pytest.fixture
def numpy_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    _choose("numpy", monkeypatch)


@pytest.fixture
def native_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    _choose("native", monkeypatch)
