"""Contractions beside infinities, entry by entry. Not for: what every operator is asked (``test_every_op.py``)."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS


@pytest.mark.parametrize("factors", [1, 2])
def test_infinite_factors_beside_infinite_entries(factors: int) -> None:
    """A loop over terms: a zero of a factor wins against an infinite entry, and nothing else is left out."""
    rng = np.random.default_rng(factors)

    def term(c, others):
        return (1.0 if 0 in others and not np.isfinite(c) else c) * np.prod(others)

    subscripts = ",".join("i" * (factors + 1)) + "->"
    with np.errstate(all="ignore"):
        for _ in range(300):
            c, *rest = rng.choice([0.0, 0.0, 1.0, 1.0, -2.0, 0.5, np.inf, -np.inf, np.nan], (factors + 1, 3))
            expected = sum([term(x, others) for x, *others in zip(c, *rest, strict=True)])
            found = OPS["einsum_strong"].impl(c, *rest, subscripts=subscripts, optimize=False)
            np.testing.assert_allclose(found, expected, err_msg=f"{c} {rest}")


def test_tangents_of_products_that_go_to_both_infinities() -> None:
    x, y = np.array([3.0, 1.0]), np.array([np.inf, -np.inf])
    tx, ty = np.array([-np.inf, -2.0]), np.array([-np.inf, 1.0])
    with np.errstate(all="ignore"):
        assert np.isnan(da.jvp(lambda x, y: x @ y, (x, y), (tx, ty))[1])
