"""Operators: what a declaration must have, checked when it is made."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import dualad as da
import dualad.ops.special
import dualad.scipy.integrate
import dualad.scipy.optimize
from dualad.core.primitive import Primitive
from dualad.core.tables import OPS, UFUNCS, VERDICTS
from dualad.errors import DeclarationError
from dualad.ops.samples import realize

FIELDS = {"impl": np.sin, "abstract_eval": lambda x: x, "jvp": None, "samples": [((2,),)]}


@pytest.fixture(autouse=True)
def _registry_is_left_as_it_was():
    before = dict(OPS)
    yield
    for name in OPS.keys() - before.keys():
        del OPS[name]
    assert before == OPS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"samples": None}, "samples"),
        ({"linear_in": (0,)}, "transpose"),
        ({"linear_in": (-1,), "joint": True}, "transpose"),
    ],
)
def test_incomplete_declarations_are_refused_at_once(changes, said: str) -> None:
    """DESIGN section 4: an error at import if linear without transpose, or without samples."""
    with pytest.raises(DeclarationError, match=said) as error:
        Primitive("test incomplete", **{**FIELDS, **changes})
    assert error.value.why and error.value.instead and "test incomplete" not in OPS


def test_a_name_is_declared_once() -> None:
    Primitive("test twice", **FIELDS)
    with pytest.raises(DeclarationError, match="twice") as error:
        Primitive("test twice", **FIELDS)
    assert "test_primitive.py" in str(error.value)


def test_the_place_of_a_declaration() -> None:
    op = Primitive("test place", **FIELDS)
    file, _, line = op.place.rpartition(":")
    here = test_the_place_of_a_declaration.__code__.co_firstlineno
    assert file.endswith("test_primitive.py") and int(line) == here + 1
    for op in OPS.values():
        assert op.place.rpartition(":")[2].isdigit(), op


def test_what_a_declaration_does_not_say_is_not_so() -> None:
    """A fact that is true of few operators is off unless it is declared: each one on by mistake changes a walk."""
    op = Primitive("test defaults", **FIELDS)
    facts = "joint moves collects multiple_results pole sparse_transpose effect contracts reruns raises sees_steps"
    assert not any(getattr(op, fact) for fact in facts.split())
    missing = "transpose batch strong_transpose marked_transpose across place_read"
    assert all(getattr(op, rule) is None for rule in missing.split())
    assert op.linear_in == op.numpy == op.given == () and op.kind == "op"
    assert repr(op) == "<primitive test defaults>" and not hasattr(op, "__dict__")
    assert op == op and op != Primitive("test defaults too", **FIELDS) and len({op, op}) == 1


def test_operators_are_pickled_by_name() -> None:
    sin = OPS["sin"]
    assert pickle.loads(pickle.dumps(sin)) is sin and copy.deepcopy(sin) is sin and repr(sin) == "<primitive sin>"


def test_where_it_is_read_its_module_is_imported_only_if_need_be() -> None:
    make, (name, module) = OPS["sin"].__reduce__()
    assert (name, module) == ("sin", "dualad.ops.elementary")
    assert make("sin", "no.such.module") is OPS["sin"]
    with pytest.raises(ModuleNotFoundError):
        make("no such operator", "no.such.module")


def test_linear_positions() -> None:
    assert tuple(OPS["multiply"].linear_positions(2, {})) == (0, 1)
    assert tuple(OPS["concatenate"].linear_positions(3, {"axis": 0})) == (0, 1, 2)
    assert tuple(OPS["sin"].linear_positions(1, {})) == ()


def test_numpy_callables_lead_to_their_operator() -> None:
    for op in OPS.values():
        for function in op.numpy:
            assert UFUNCS[function] is op and VERDICTS[function].kind == "op"


def test_samples_repeat_and_members_differ() -> None:
    """A failure repeats: samples come from a generator seeded by the operator's name."""
    for name in ("sin", "add", "matmul", "where"):
        op = OPS[name]
        first, again, other = realize(op), realize(op), realize(op, 1)
        for a, b, c in zip(first, again, other, strict=True):
            for x, y, z in zip(a.args, b.args, c.args, strict=True):
                np.testing.assert_array_equal(x, y)
                assert np.shape(x) == np.shape(z)
    assert not np.array_equal(realize(OPS["sin"])[1].args[0], realize(OPS["sin"], 1)[1].args[0])


def test_operators_without_a_batching_rule_are_listed() -> None:
    """The per-lane loop is shown, never silent; no operator of NumPy's needs it.

    Collectives have a rule of another kind in its place. A user's own solver is opaque: it runs once per lane.
    """
    looping = sorted(op.name for op in OPS.values() if op.batch is None and op.across is None)
    solvers = ["integral", "ivp_crossings", "ivp_found", "ivp_start", "linear_solve", "linear_sum_assignment"]
    assert looping == solvers, f"batched by a loop over lanes: {looping}"


def test_the_registry_covers_the_first_families() -> None:
    """Issue: arithmetic to linalg; a name that disappears is noticed."""
    expected = {
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "power",
        "exp",
        "log",
        "sqrt",
        "sin",
        "cos",
        "tanh",
        "arctan2",
        "hypot",
        "maximum",
        "minimum",
        "where",
        "sum",
        "prod",
        "max",
        "min",
        "reshape",
        "transpose",
        "broadcast_to",
        "concatenate",
        "stack",
        "index",
        "matmul",
        "einsum",
        "cumsum",
        "cumprod",
        "sort",
        "solve",
        "inv",
        "det",
        "slogdet",
        "cholesky",
        "erf",
        "gammaln",
        "expit",
    }
    assert expected <= set(OPS), sorted(expected - set(OPS))
    assert da.__name__ == "dualad"
