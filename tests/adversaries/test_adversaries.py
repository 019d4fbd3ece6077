"""A slice of each kind of adversary, and of the machinery around them: what differs is found, shrunk and told.

Not for: nights (``python -m tests.adversaries``; ``--full`` runs the counts of ``NIGHTLY`` here).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dualad as da
from tests.adversaries import KINDS, NIGHTLY, Difference, run, shrunk
from tests.adversaries.cases import words
from tests.adversaries.compare import same, source_case

#: programs of one test with --full
CHUNK = 50


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_slice(kind: str) -> None:
    report = run(kind, KINDS[kind])
    assert report.count == KINDS[kind]
    assert not report.found, str(report)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "first"), [(kind, first) for kind in sorted(NIGHTLY) for first in range(0, NIGHTLY[kind], CHUNK)]
)
def test_a_night(kind: str, first: int) -> None:
    report = run(kind, CHUNK, first)
    assert not report.found, str(report)


def test_every_kind_has_its_night() -> None:
    workflow = (Path(__file__).parents[2] / ".github/workflows/ci.yml").read_text()
    assert KINDS.keys() == NIGHTLY.keys()
    assert f"kind: [{', '.join(sorted(KINDS))}]" in workflow


WRONG = """
def f(x):
    y = x.copy()
    for i in range(3):
        y[i] += np.sin(x[i])
        y[0] *= 1.5
    y[1] = helper(y[1])
    return y
args = (np.array([0.3, 0.4, 0.5]),)
helper = da.custom_jvp(lambda u: u * 2.0)
helper.defjvp(lambda p, t: (p[0] * 2.0, t[0] * (2.0 if type(p[0]) is np.float64 else 3.0)))
"""


def test_what_differs_is_found_and_shrunk() -> None:
    case = source_case("wrong", WRONG, ("value", "grad"))
    found = words(case)
    assert found is not None and found.startswith("Difference: jit of grad")
    least, what = shrunk(case, found)
    assert what.startswith("Difference: jit of grad")
    assert "np.sin" not in least.text and "helper(y[1])" in least.text


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-6])),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
        (np.array([1.0, 2.0]), np.array([1.0, np.nan])),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf])),
        (np.float32(1.0), np.float64(1.0)),
        (np.zeros((1, 2)), np.zeros(2)),
        ({"a": 1.0}, {"b": 1.0}),
        (np.array([1, 2]), np.array([1, 3])),
    ],
)
def test_a_difference_is_a_difference(found: object, expected: object) -> None:
    with pytest.raises(Difference):
        same(found, expected, "it")


def test_rounding_is_no_difference() -> None:
    same((np.array([1.0, np.nan, np.inf]), 3), (np.array([1.0 + 1e-13, np.nan, np.inf]), 3), "it")
    same(da.jit(np.sin)(0.5), np.sin(0.5), "it")
