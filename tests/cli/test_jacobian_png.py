"""Pictures by matplotlib, and the words when it is missing."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest

from dualad.cli import jacobian
from dualad.errors import UsageError


@pytest.mark.parametrize(
    "matrix",
    [
        np.eye(3),
        np.zeros((2, 2)),
        np.array([[np.nan, 1.0]]),
        np.array([[np.inf, -1.0]]),
        np.array([[1e-300, 1e300]]),
        np.ones((1, 1)),
    ],
    ids=["identity", "zero", "nan", "inf", "wide", "one"],
)
def test_any_matrix_becomes_a_png(matrix):
    pytest.importorskip("matplotlib")
    data = jacobian.jacobian_png(matrix, "title $with_ {odd} characters")
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert width > 200 and height > 200


@pytest.mark.slow
def test_pictures_leave_no_global_state():
    pytest.importorskip("matplotlib")
    before = "matplotlib.pyplot" in sys.modules
    jacobian.jacobian_png(np.eye(2), "")
    assert ("matplotlib.pyplot" in sys.modules) is before


def test_without_matplotlib_the_option_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(jacobian, "has_matplotlib", lambda: False)
    with pytest.raises(UsageError, match=r"--png.*\n.*not installed.*\n.*dualad\[viz\]"):
        jacobian.require_matplotlib("--png")
