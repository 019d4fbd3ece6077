"""The protocol of levels and tensors, from outside: what a third party needs, and what the transforms make of it.

A level that counts operators, and one that carries units. The worked example is `examples/interval_arithmetic.py`;
the page is `docs/how-to/add-a-level.md`. Not for: our own tensors.
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.core.aval import aval_of
from dualad.core.dispatch import bind
from dualad.core.level import Level, escaped
from dualad.core.tracer import Tracer
from dualad.errors import ConversionError, EscapedTensorError


class CountingLevel(Level):
    """A level that keeps a tally."""

    __slots__ = ("tally",)

    def __init__(self):
        super().__init__("counting")
        self.tally: dict[str, int] = {}


class Counted(Tracer):
    """A value of which every operator is counted, and done."""

    __slots__ = ()

    def __init__(self, value, level):
        self._value, self.level = value, level

    shape = property(lambda self: np.shape(self._value))
    dtype = property(lambda self: aval_of(self._value).dtype)

    def process(self, op, args, params):
        if not self.level.open:
            raise escaped(self.level, f"`{op.name}`")
        tally = self.level.tally
        tally[op.name] = tally.get(op.name, 0) + 1
        out = bind(op, [a._value if type(a) is Counted and a.level is self.level else a for a in args], params)
        return tuple(Counted(o, self.level) for o in out) if op.multiple_results else Counted(out, self.level)


def count(f, *args):
    with CountingLevel() as level:
        out = f(*[Counted(a, level) for a in args])
        value = out._value if type(out) is Counted else out
    return value, level.tally


def test_numpy_code_runs_on_it() -> None:
    """Ufuncs, array functions, methods, operators, indexing and our own constructs all arrive at `process`."""
    x = np.arange(1.0, 5.0)

    def f(x):
        y = np.sin(x) @ x + x[1:].sum() * 2
        z = np.concatenate([x, x])[::2]
        return da.fori_loop(0, 2, lambda i, c: c * y, z.mean() + np.where(x > 2, x, 0.0).max())

    value, tally = count(f, x)
    assert value == f(x)
    assert tally["sin"] == 1 and tally["matmul"] == 1 and tally["where"] == 1 and tally["concatenate"] == 1
    assert tally["multiply"] == 3 and tally["greater"] == 1


def test_our_transforms_above_it() -> None:
    """The derivative's own operators are counted: one sine and one cosine, whatever the number of tangents."""
    x = np.linspace(0.0, 1.0, 5)
    value, tally = count(lambda v: da.jvp(np.sin, (v,), (np.ones(5),))[1], x)
    np.testing.assert_allclose(value, np.cos(x))
    assert (tally["sin"], tally["cos"]) == (1, 1)
    value, tally = count(da.grad(lambda v: np.sum(np.sin(v) ** 2)), x)
    np.testing.assert_allclose(value, np.sin(2 * x))
    assert (tally["sin"], tally["cos"]) == (1, 1)
    value, tally = count(da.vmap(da.grad(lambda v: np.sin(v) * v)), x)
    np.testing.assert_allclose(value, np.sin(x) + x * np.cos(x))
    assert tally["cos"] == 1
    value, tally = count(da.jacfwd(lambda v: np.sin(v) * v[0]), x)
    np.testing.assert_allclose(value, np.diag(np.cos(x)) * x[0] + np.outer(np.sin(x), np.eye(5)[0]))
    assert (tally["sin"], tally["cos"]) == (1, 1)


def test_our_transforms_below_it() -> None:
    """The other way round: the third party is the innermost level, and its values are Duals or batches."""
    x = np.linspace(0.1, 1.0, 4)
    f = lambda v: count(lambda u: np.sum(np.exp(u) * u), v)[0]
    np.testing.assert_allclose(da.grad(f)(x), np.exp(x) * (1 + x))
    np.testing.assert_allclose(da.hessian(f)(x), np.diag(np.exp(x) * (2 + x)))
    np.testing.assert_allclose(da.vmap(f)(np.stack([x, 2 * x])), [f(x), f(2 * x)])
    program = da.trace(f, x)
    assert [e.op.name for e in program.equations] == ["exp", "multiply", "sum"]
    np.testing.assert_allclose(program(x), f(x))


def test_two_of_them_do_not_mix() -> None:
    """Two levels of one kind: the inner one counts what the outer one counts as well, and constants it does not."""
    with CountingLevel() as outer:
        x = Counted(2.0, outer)
        with CountingLevel() as inner:
            y = Counted(x, inner)
            out = y * x + np.sin(x)
            assert type(out) is Counted and out.level is inner
        assert inner.tally == {"multiply": 1, "add": 1}
        assert outer.tally == {"multiply": 1, "add": 1, "sin": 1}
        assert out._value._value == 4.0 + np.sin(2.0)


def test_closed_levels_and_conversions_are_refused_as_ours_are() -> None:
    kept = []
    count(lambda x: kept.append(x) or x, 1.0)
    with pytest.raises(EscapedTensorError, match="counting"):
        np.sin(kept[0])
    with pytest.raises(EscapedTensorError, match="counting"):
        da.jvp(np.sin, (kept[0],), (1.0,))
    with CountingLevel() as level, pytest.raises(ConversionError, match="Counted"):
        float(Counted(1.0, level))


class Metres(Tracer):
    """A length to some power: units as a level, which multiply where values do."""

    __slots__ = ()

    def __init__(self, value, power, level):
        self._value, self.level = (value, power), level

    shape = property(lambda self: np.shape(self._value[0]))
    dtype = property(lambda self: aval_of(self._value[0]).dtype)

    def process(self, op, args, params):
        mine = [a if isinstance(a, Metres) and a.level is self.level else None for a in args]
        values = [a if m is None else m._value[0] for a, m in zip(args, mine, strict=True)]
        powers = [0 if m is None else m._value[1] for m in mine]
        if op.name in ("add", "subtract"):
            if len(set(powers)) > 1:
                raise TypeError(f"adding m^{powers[0]} and m^{powers[1]}")
            power = powers[0]
        elif op.name in ("multiply", "scale"):  # the latter is a derivative's, beside a pole
            power = sum(powers)
        elif op.name == "divide":
            power = powers[0] - powers[1]
        else:
            raise TypeError(f"{op.name} of a length")
        return Metres(bind(op, values, params), power, self.level)


def test_units_follow_derivatives() -> None:
    """d(area)/d(length) is a length: the tangent's unit comes out of the rule by itself."""
    area = lambda a: a * a * 3.0
    with Level("units") as level:
        side = Metres(2.0, 1, level)
        value, slope = da.jvp(area, (side,), (1.0,))
        assert value._value == (12.0, 2) and slope._value == (12.0, 1)
        assert da.grad(area)(side)._value == (12.0, 1)
        with pytest.raises(TypeError, match=r"adding m\^2 and m\^1"):
            da.grad(lambda a: a * a + a)(side)
