"""How the results of NumPy's functions lie in memory: as NumPy's own, for operands in every order.

What ``x.reshape(-1)`` of a result is, a view or a copy, depends on that. Every call that is held against NumPy
(``tests/oracles/numpy_calls.py``) is asked for, alone and with an elementwise operator after it. Not for: views and
writes (``tests/edges/test_memory.py``), or of compiled arguments (``tests/compile/test_layout.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import FUNCTIONS, UFUNCS
from dualad.core.tracer import Tracer
from dualad.memory.memory import layout
from dualad.surface.unsupported import public_name
from tests.gaps import ORDERS, marks
from tests.oracles.numpy_calls import BINARY, CALLS, LINEAR_ALGEBRA, METHODS, UNARY

_M = np.round(np.random.default_rng(0).normal(size=(3, 4)) * 2, 2)
_C = np.round(np.random.default_rng(1).normal(size=(2, 3, 4)) * 2, 2)
_SQUARE = _M[:, :3] @ _M[:, :3].T + np.eye(3)
ORDERED: dict[str, Callable] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "backwards": lambda a: np.asfortranarray(a[::-1])[::-1],
    "with gaps": lambda a: np.asfortranarray(np.repeat(a, 2, 0))[::2],
    "axes in another order": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 0, 1)), 0, 1),
}
#: methods of arrays, and writes into a copy; what is written there
EXPRESSIONS = (
    "x.copy('F')", "x.copy('A')", "x.copy('K')", "x.copy()", "x.astype(np.float32, order='F')", "x.astype(np.float32)",
    "x.T", "x[::-1] * 1", "x[:, [0, 1]]", "x[..., [0, 1]]", "x[[1, 0]]", "x.real", "x.imag", "x.round(1)", "x ** 2",
    "x.swapaxes(0, 1)", "x.take([0, 1], axis=1)", "x.repeat(2, axis=0)", "x.cumsum(0)", "x @ x.T", "-x", "x > 0",
    "x.clip(0, 1)", "x.conj()", "x.sum(0, keepdims=True)", "x[:1] + x", "x[0] + x", "2.0 - x", "np.where(x > 0, x, 0)",
)  # fmt: skip
WRITES = (
    "z.sort()", "z.sort(0)", "z.partition(1)", "z[0] = 5.0", "z[...] = 3.0", "z *= 2.0", "z[...] = z.copy('C')",
    "np.copyto(z, z.copy('F'))", "z[:, 0] += 1.0", "np.add(z, 1.0, out=z)", "np.putmask(z, z > 0, 3.0)", "z.fill(3.0)",
    "np.clip(z, 0, 1, out=z)", "z.flat[0] = 2.0", "z.flat = 3.0", "np.fill_diagonal(z, 2.0)", "z[z > 0] = 1.0",
    "np.place(z, z > 0, [1.0])", "z[[0, 1]] = 1.0", "np.add.at(z, [0, 1], 1.0)", "z.T[...] = 2.0", "z.put([0, 1], 3)",
    "z.reshape(-1)[0] = 2.0", "z.ravel()[0] = 2.0", "np.put_along_axis(z, np.argsort(z, axis=0), 0.5, 0)",
)  # fmt: skip


def _rows() -> dict[str, list[tuple[Callable, np.ndarray]]]:
    """Return the functions of each name, and what they are given."""
    rows: dict[str, list] = {}
    ufuncs = [f for f in [*UFUNCS, *FUNCTIONS] if isinstance(f, np.ufunc) and getattr(np, f.__name__, None) is f]
    calls = {public_name(f): UNARY if f.nin == 1 else BINARY for f in ufuncs if f.signature is None}
    calls |= {f"np.add.{method}": arguments for method, arguments in METHODS.items()}
    for names, operands in (({**CALLS, **calls}, (_M, _C)), (LINEAR_ALGEBRA, (_SQUARE, _M, _C))):
        for name, arguments in names.items():
            texts = [f"{name}({text})" for text in arguments]
            rows[name] = [(eval(f"lambda x: {text}", {"np": np}), x) for text in texts for x in operands]
    for text in EXPRESSIONS:
        rows[text] = [(eval(f"lambda x: {text}", {"np": np}), x) for x in (_M, _C)]
    for text in WRITES:
        rows[text] = [(_write(text, order), x) for x in (_M, _C) for order in "KC"]
    return rows


def _write(text: str, order: str) -> Callable:
    def write(x):
        z = x.copy(order)
        exec(text, {"np": np, "z": z})
        return z

    return write


def _orders(out: Any) -> list:
    """Return the strides of the arrays in a result, and of what is computed of them; of axes that have a next entry."""
    if isinstance(out, (tuple, list)):
        return [s for part in out for s in _orders(part)]
    if not isinstance(out, (np.ndarray, Tracer)) or out.dtype == object:
        return []
    if 0 in out.shape or sum([n > 1 for n in out.shape]) < 2:
        return []
    arrays = [layout(a) if isinstance(a, Tracer) else a for a in (out, np.positive(out) if out.dtype != bool else out)]
    return [tuple([s for n, s in zip(a.shape, a.strides, strict=True) if n > 1]) for a in arrays]


def _found(transform: str, f: Callable, x: np.ndarray) -> list | None:
    """Return the orders of what a function gives in a transform, or ``None`` where it is refused."""
    seen: list = []

    def look(a):
        seen.append(_orders(f(a)))
        raise StopIteration  # nothing is to be compiled

    try:
        if transform == "jvp":
            da.jvp(look, (x,), (x,))
        elif transform == "vmap":
            axes = sorted(range(x.ndim), key=lambda k: -abs(x.strides[k]))
            lanes = np.stack([np.transpose(x, axes)] * 2)
            da.vmap(look)(np.transpose(lanes, (0, *[1 + k for k in np.argsort(axes)])))
        else:
            da.jit(look)(x)
    except Exception:
        return seen[0] if seen else None
    raise AssertionError("nothing was seen")


ROWS = _rows()


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(ORDERS, name)) for name in ROWS])
def test_results_lie_in_memory_as_numpys(name: str, request: pytest.FixtureRequest) -> None:
    """In every order of every transform; of those, the gate looks at one for each call, in turn."""
    wrong, whole = [], request.config.getoption("--full") or bool(marks(ORDERS, name))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k, (f, x) in enumerate(ROWS[name]):
            for o, (order, lay_out) in enumerate(ORDERED.items()):
                try:
                    expected = _orders(f(lay_out(x)))
                except Exception:
                    continue
                for t, transform in enumerate(("jvp", "vmap", "jit")):
                    if transform == "vmap" and order in ("backwards", "with gaps"):
                        continue
                    if (k + o + t) % 3 and not whole:
                        continue
                    found = _found(transform, f, lay_out(x))
                    if found is not None and found != expected:
                        wrong.append(f"{transform} of call {k} in order {order}: {found}, not {expected}")
    assert not wrong, "\n".join(wrong[:8])


@pytest.mark.parametrize("decimals", [-1, 0, 2])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64])
def test_integers_are_rounded_to_a_copy_in_the_order_of_numpys(dtype, decimals):
    def f(x):
        y = np.round(x, decimals)
        y.reshape(-1)[...] = 7  # of a copy, or of the result itself
        return y

    for x in (np.broadcast_to(np.arange(3, dtype=dtype), (4, 3)), np.ones((4, 3), dtype, "F"), np.ones((4, 3), dtype)):
        np.testing.assert_array_equal(da.jit(f)(x), f(x))
