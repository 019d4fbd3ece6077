"""`explain` against the truth, on published packages: what it calls fine can be differentiated, what it refuses can't.

Not for: whether the derivatives are right (`test_packages.py`).
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import dualad as da
from dualad.errors import DualadError
from tests.packages.calls import CALLS


def differentiable(f, x: np.ndarray) -> bool:
    try:
        da.jvp(f, (x,), (np.ones_like(x),))
    except DualadError:
        return False
    return True


@pytest.mark.parametrize("plain", [False, True])
def test_explain_says_beforehand_what_forward_mode_will_do(plain: bool) -> None:
    wrong, refused, lifted = [], 0, 0
    with warnings.catch_warnings(), da.plain() if plain else nullcontext():
        warnings.simplefilter("ignore")
        for call in CALLS:
            f, x = call.function(), np.array(call.x, float)
            report = da.explain(f, x)
            refused, lifted = refused + (not report.ok), lifted + report.lifted
            if report.ok != differentiable(f, x):
                wrong.append(f"{call}: {report}")
    assert not wrong, "\n\n".join(wrong)
    assert refused > 10 if plain else refused == 0
    assert lifted == 0 if plain else lifted > 10
