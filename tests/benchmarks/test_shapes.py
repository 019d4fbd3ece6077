"""The table of derivatives in shape parameters: its two oracles agree, and it finds a derivative that is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.special as sp

import dualad as da
from benchmarks.shape_families import FAMILIES, Arb, Inverse, Mpmath, flint
from benchmarks.shapes import measure, truths

#: families that mpmath is quick at
QUICK = ("gamma", "beta", "negative binomial", "t", "zeta", "ellipkinc", "genextreme", "f below inverse")


@pytest.mark.parametrize("name", QUICK)
def test_rules_agree_with_the_oracle(name: str) -> None:
    for row in measure(Mpmath, FAMILIES[name], 6, seed=2):
        assert len(row.errors) + len(row.misses) > 0
        assert np.all(row.errors < 1e-11), (row.name, row.place, row.errors, row.points)


def test_a_wrong_rule_and_a_wrong_value_are_told_apart() -> None:
    wrong = da.custom_jvp(sp.gammainc)
    wrong.defjvp(lambda at, moved: (wrong(*at), 2.0 * moved[0]))
    members = {"rule": (wrong, 0), "value": (lambda a, x: 2 * sp.gammainc(a, x), 0)}
    rule, value = measure(Mpmath, replace(FAMILIES["gamma"], members=members), 6, seed=2)
    assert np.all(rule.errors > 1e-3) and not len(rule.misses)
    assert not len(value.errors) and len(value.misses)


@pytest.mark.skipif(flint is None, reason="python-flint is not installed")
@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if not isinstance(f, Inverse)])
def test_oracles_agree(name: str) -> None:
    family = FAMILIES[name]
    points = np.broadcast_arrays(*family.points(np.random.default_rng(1), 4))
    for arb, mpmath in zip(truths(Arb, family, points), truths(Mpmath, family, points), strict=True):
        both = np.isfinite(arb) & np.isfinite(mpmath)
        np.testing.assert_allclose(arb[both], mpmath[both], rtol=1e-15)
