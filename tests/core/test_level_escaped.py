"""Tensors that outlive their transform: every use is an error that says what, where it was made and where it is used.

And `repr`, which never raises, whatever state a tensor is in. Not for: levels themselves (`test_level.py`).
"""

from __future__ import annotations

import copy
import math
import operator
import pickle

import numpy as np
import pytest

import dualad as da
from dualad.batched import Batched
from dualad.core.tracer import Tracer
from dualad.dual import Dual
from dualad.errors import EscapedTensorError
from dualad.memory.memory import Deferred
from dualad.tensors.lazy import Lazy
from dualad.tensors.staged import Staged

kept: list = []


PARAMS = {"w": [np.arange(3.0), 1.0]}


@pytest.mark.parametrize("run", ["jvp", "grad", "grad by name", "vmap", "trace"])
def test_the_message_names_argument_function_transform_and_use(run) -> None:
    def f(params, scale=1.0):
        kept[:] = [params["w"][0]]
        return np.sum(params["w"][0]) * scale

    runs = {
        "jvp": lambda: da.jvp(f, (PARAMS,), (PARAMS,)),
        "grad": lambda: da.grad(f)(PARAMS, 2.0),
        "grad by name": lambda: da.grad(f, argnames="params")(params=PARAMS),
        "vmap": lambda: da.vmap(f, ({"w": [0, None]}, None))(PARAMS, 1.0),
        "trace": lambda: da.trace(f, PARAMS),
    }
    runs[run]()
    with pytest.raises(EscapedTensorError) as caught:
        kept[0] + 1.0
    transform = run.split()[0]
    lines = caught.value.what.splitlines()
    assert f"of a `{transform}` call that has already returned" in lines[0]
    assert lines[1] == (
        f"  Created: argument `params['w'][0]` of `f` ({__file__}:{f.__code__.co_firstlineno}), given to it by"
        f" `{transform}`"
    )
    assert lines[2].startswith(f"  Used: {__file__}:")
    number = test_the_message_names_argument_function_transform_and_use.__code__.co_firstlineno
    assert number < int(lines[2].rpartition(":")[2]) < number + 25


def test_computed_tensors_know_their_line_under_debug() -> None:
    def f(x):
        kept[:] = [np.sin(x) * 2]
        return x

    da.grad(f)(1.0)
    with pytest.raises(EscapedTensorError, match=r"by an operation in `f` .*inside `with dualad.debug\(\):`"):
        kept[0] * 2
    with da.debug():
        da.grad(f)(1.0)
    with pytest.raises(EscapedTensorError) as caught:
        kept[0] * 2
    assert f"Created: at {__file__}:{f.__code__.co_firstlineno + 1}, in `f`" in str(caught.value)
    with da.debug():
        da.vmap(f)(np.ones(2))
    with pytest.raises(EscapedTensorError, match="under `vmap`") as caught:
        kept[0] * 2
    assert f"Created: at {__file__}:{f.__code__.co_firstlineno + 1}, in `f`" in str(caught.value)


def write(x):
    x[0] = 1.0
    return x + 1


USES = {
    "add": lambda x: x + 1, "from the left": lambda x: 1 - x, "function": lambda x: np.sum(x), "ufunc": np.sin,
    "index": lambda x: x[0], "compare": lambda x: x > 0, "method": lambda x: x.sum(), "iterate": lambda x: list(x),
    "matmul": lambda x: np.eye(3) @ x, "asarray": np.asarray, "float array": lambda x: np.asarray(x, float),
    "write": write, "plain write": lambda x: np.zeros(3).__setitem__(slice(None), x), "pickle": pickle.dumps,
    "copy": copy.copy, "deepcopy": copy.deepcopy, "tolist": lambda x: x.tolist(), "stack": lambda x: np.stack([x, x]),
    "out": lambda x: np.add(1.0, np.ones(3), out=x), "again": lambda x: da.grad(np.sum)(x), "bool": bool,
}  # fmt: skip
SCALAR_USES = {
    "bool": bool, "float": float, "int": int, "complex": complex, "index": operator.index, "item": lambda x: x.item(),
    "math": math.sin, "if": lambda x: 1 if x else 0, "asarray": np.asarray, "pickle": pickle.dumps,
}  # fmt: skip


def escaped(transform: str, value):
    def f(x):
        kept[:] = [x * 1.0]
        return x * 2.0

    {
        "jvp": lambda: da.jvp(f, (value,), (value,)),
        "grad": lambda: da.vjp(f, value),
        "vmap": lambda: da.vmap(f)(np.stack([value, value])),
        "trace": lambda: da.trace(f, value),
    }[transform]()
    return kept[0]


@pytest.mark.parametrize("transform", ["jvp", "grad", "vmap", "trace"])
def test_every_use_of_an_array_is_refused(transform) -> None:
    x = escaped(transform, np.arange(3.0))
    for name, use in USES.items():
        with pytest.raises(EscapedTensorError, match="Used: ") as caught:
            use(x)
        assert __file__ in caught.value.what, name
    assert (x.shape, x.dtype, x.ndim, len(x)) == ((3,), np.float64, 1, 3)  # what can do no harm


@pytest.mark.parametrize("transform", ["jvp", "grad", "vmap", "trace"])
def test_every_use_of_a_number_is_refused(transform) -> None:
    x = escaped(transform, np.float64(1.0))
    for use in SCALAR_USES.values():
        with pytest.raises(EscapedTensorError):
            use(x)
    with pytest.raises(ValueError, match="setting an array element") as caught:  # NumPy's, outside of any transform
        np.zeros(3)[0] = x
    assert isinstance(caught.value.__cause__, EscapedTensorError)


@pytest.mark.parametrize("transform", ["jvp", "grad", "vmap", "trace"])
def test_repr_says_level_shape_and_dtype_and_that_it_is_late(transform) -> None:
    seen = []
    da.vmap(lambda x: seen.append(repr(x)) or x)(np.ones((2, 3)))
    da.jvp(lambda x: seen.append(repr(x)) or x, (np.ones(3),), (np.ones(3),))
    assert "shape=(3,), dtype=float64, " in seen[0]
    assert "shape=(3,), dtype=float64, " in seen[1]
    x = escaped(transform, np.arange(3.0))
    for text in (repr(x), str(x), f"{x!r}", f"{x}", format(x)):
        assert f"level={x.level.number} of " in text
        assert "escaped)" in text
        assert "(3,)" in text or "[3]" in text
        assert "float64" in text or "f64" in text


def test_repr_never_raises() -> None:
    for kind in (Dual, Batched, Staged, Lazy, Deferred):
        assert kind.__name__ in repr(Tracer.__new__(kind)) or "tensor" in repr(Tracer.__new__(kind))

    class Hostile:
        def __repr__(self):
            raise ValueError("no")

    level = escaped("jvp", np.ones(3)).level
    assert "can't be shown" in repr(Dual(Hostile(), None, level))

    def f(x):
        y = np.zeros_like(x)
        y[0] = x[1]
        assert "shape=(3,)" in repr(y)
        y[1] = x[2]
        kept[:] = [y]
        return x

    da.grad(lambda x: np.sum(f(x)))(np.ones(3))
    assert "escaped" in repr(kept[0])
    with pytest.raises(EscapedTensorError):
        kept[0] + 1
    da.checkpoint(lambda x: kept.append(x) or x)(np.ones(3))
    da.grad(lambda x: np.sum(da.checkpoint(lambda x: kept.append(repr(x)) or np.sin(x))(x)))(np.ones(3))
