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


def test_contractions_by_matrix_products_are_numpys() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        terms = ["".join(rng.choice(list("abcde"), rng.integers(0, 4), replace=rng.random() < 0.1)) for _ in range(3)]
        terms = terms[: rng.integers(2, 4)]
        output = "".join([c for c in rng.permutation(sorted(set("".join(terms)))) if rng.random() < 0.5])
        sizes = dict(zip("abcde", rng.integers(2, 16, 5), strict=True)) | {"e": rng.integers(0, 3)}
        shapes = [[1 if rng.random() < 0.05 and t.count(c) == 1 else sizes[c] for c in t] for t in terms]
        operands = [np.array(rng.normal(size=shape), order=rng.choice(["C", "F"])) for shape in shapes]
        subscripts = f"{','.join(terms)}->{output}"
        expected = np.einsum(subscripts, *operands)
        found = OPS["einsum"].impl(*operands, subscripts=subscripts, optimize=bool(rng.integers(2)))
        assert np.shape(found) == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
