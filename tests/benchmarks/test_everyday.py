"""The sixty everyday functions, compiled against eager: a handful in the gate, all of them with ``--full``."""

import numpy as np
import pytest

import dualad as da
from benchmarks.everyday import FUNCTIONS, derivatives

IN_THE_GATE = ("norm", "huber", "logsumexp", "pair distances", "newton step", "extremes")


@pytest.mark.parametrize(
    "name", [n if n in IN_THE_GATE else pytest.param(n, marks=pytest.mark.full) for n in FUNCTIONS]
)
def test_compiled_is_eager(name: str) -> None:
    for what, f in derivatives(da, np, FUNCTIONS[name]).items():
        for n in (1, 2, 12, 40):
            x = np.linspace(0.2, 1.2, n) if n > 1 else np.array([0.6])
            if what == "vmap of grad":
                x = np.stack([x, 0.9 * x, 0.8 * x + 0.1])
            found, expected = da.jit(f)(x), f(x)
            scale = np.max(np.abs(expected), initial=1e-3)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * scale, err_msg=f"{what}, n = {n}")


def test_the_list_is_long_enough() -> None:
    assert len(FUNCTIONS) == 60
