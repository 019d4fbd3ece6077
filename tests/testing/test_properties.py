"""The properties of derivatives: the worst entry is named, NaN agrees with NaN alone, each fault breaks its property.

Not for the doors that they stand behind (`test_gradcheck.py`, `test_rules.py`, `test_laws.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

from dualad.errors import GradcheckError
from dualad.testing.engine import Engine
from dualad.testing.properties import Properties, expect
from tests.testing.faults import ARGS, faulty


def test_the_worst_entry_is_named_with_both_arrays() -> None:
    got, expected = np.array([[1.0, 2.0], [3.0, 4.5]]), np.array([[1.0, 2.1], [3.0, 4.0]])
    with pytest.raises(GradcheckError, match=r"entry \(1, 1\)") as info:
        expect("law", got, expected, 1e-6, "entry {}".format, "why", "instead", lambda k: {"output": k[0]})
    assert (info.value.check, info.value.output) == ("law", 1)
    assert info.value.analytical is got and info.value.numerical is expected
    expect("law", got, expected, 0.6, "entry {}".format, "", "")


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_agrees_with_itself_alone(wrong: float) -> None:
    got, right = np.array([wrong, 1.0]), np.array([1.0, 1.0])
    expect("law", got, got.copy(), 0.0, "entry {}".format, "", "")
    for a, b in ((got, right), (right, got)):
        with pytest.raises(GradcheckError, match="entry 0"):
            expect("law", a, b, 1e3, "entry {}".format, "", "")


def test_an_infinite_value_excuses_no_other() -> None:
    f = Engine(lambda x: np.stack([x, np.inf]), (0.5,))
    Properties(f).value("forward", np.array([0.5, np.inf]))
    for value in ([0.6, np.inf], [0.5, 1.0]):
        with pytest.raises(GradcheckError, match="called plainly"):
            Properties(f).value("forward", np.array(value))


@pytest.mark.parametrize(
    ("kind", "fault", "mode", "broken"),
    [
        ("custom_jvp", "random", "forward", "again"),
        ("custom_vjp", "random", "reverse", "again"),
        ("custom_jvp", "in lanes", "forward", "batched"),
        ("custom_vjp", "in lanes", "reverse", "batched"),
        ("custom_jvp", "in lanes", "forward", "batched_points"),
        ("custom_vjp", "none", "reverse", ""),
    ],
)
def test_a_fault_breaks_the_property_meant_for_it(kind: str, fault: str, mode: str, broken: str) -> None:
    f = Engine(faulty(kind, fault), ARGS)
    way, found = f.going(mode), []
    v = way.random(np.random.default_rng(0))
    for name, question in {
        "again": lambda p: p.again("it", way.product(v), way.product(v)),
        "batched": lambda p: p.batched(mode, 2),
        "batched_points": lambda p: p.batched_points([mode], 2),
        "absent": lambda p: p.absent(mode),
        "linear": lambda p: p.linear(way),
    }.items():
        try:
            question(Properties(f, rtol=1e-7, atol=1e-12))
        except GradcheckError:
            found.append(name)
    assert broken in found if broken else not found
