"""NumPy's names for joining, splitting, grids and padding: against NumPy, differences, a loop over lanes, a program."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import InPlaceError, UnsupportedError
from tests.oracles.arrays import close
from tests.oracles.calls import check_call

RNG = np.random.default_rng(2)
X = RNG.normal(size=(2, 3, 4))
M = X[0]
V = X[0, 0]
Z = V + 1j * V[::-1]
S = np.float64(1.5)

CALLS = {
    "concatenate": (lambda x, y: np.concatenate([x, y]), M, M[:1]),
    "concatenate axis": (lambda x, y: np.concatenate((x, y, x), axis=-1), M, M[:, :0]),
    "concatenate flat": (lambda x, y: np.concatenate([x, y], axis=None), M, S),
    "concatenate one array": (np.concatenate, X),
    "concatenate with a list": (lambda x: np.concatenate([x, [1.0, 2.0]]), V),
    "concatenate real and complex": (lambda x, z: np.concatenate([x, z]), V, Z),
    "concatenate with a dtype": (lambda x, y: np.concatenate([x, y], dtype=np.float32, casting="same_kind"), V, V),
    "concat": (lambda x, y: np.concat([x, y]), V, V),
    "stack": (lambda x, y: np.stack([x, y, x]), M, M + 1),
    "stack axis": (lambda x, y: np.stack((x, y), axis=-1), M, M + 1),
    "stack numbers": (lambda x, y: np.stack([x, y, 1.0]), S, S),
    "stack an array": (lambda x: np.stack(x, axis=1), X),
    "vstack": (lambda x, y: np.vstack([x, y]), V, M),
    "hstack": (lambda x, y: np.hstack([x, y]), S, V),
    "hstack matrices": (lambda x, y: np.hstack([x, y]), M, M[:, :1]),
    "dstack": (lambda x, y: np.dstack([x, y]), M, X[1]),
    "column_stack": (lambda x, y: np.column_stack([x, y]), V[:3], M),
    "block": (lambda x, y: np.block([[x, 2 * x], [y, np.zeros((1, 4))]]), M, M[:1]),
    "block of vectors": (lambda x, y: np.block([x, y, 3.0]), V, S),
    "block of one": (lambda x: np.block(x), M),
    "block lifted": (lambda x, y: np.block([[x], [y]]), V, M),
    "append": (lambda x, y: np.append(x, y), M, V),
    "append axis": (lambda x, y: np.append(x, y, axis=1), M, M),
    "split": (lambda x: np.split(x, 3, axis=1), X),
    "split at": (lambda x: np.split(x, [1, 3], axis=-1), X),
    "split at odd places": (lambda x: np.split(x, [3, 1, -1]), V),
    "array_split": (lambda x: np.array_split(x, 3), V),
    "array_split more than there is": (lambda x: np.array_split(x, 6), V),
    "hsplit": (lambda x: np.hsplit(x, 2), M),
    "hsplit vector": (lambda x: np.hsplit(x, 2), V),
    "vsplit": (lambda x: np.vsplit(x, [1]), M),
    "dsplit": (lambda x: np.dsplit(x, 2), X),
    "meshgrid": (lambda x, y: np.meshgrid(x, y), V, V[:2]),
    "meshgrid ij": (lambda x, y, z: np.meshgrid(x, y, z, indexing="ij"), V, V[:2], S),
    "meshgrid sparse": (lambda x, y: np.meshgrid(x, y, sparse=True), V, V[:2]),
}
if hasattr(np, "unstack"):
    CALLS["unstack"] = (lambda x: np.unstack(x, axis=1), X)

PADS = {
    "constant": {"mode": "constant"},
    "constant values": {"mode": "constant", "constant_values": ((1.0, 2.0), (3.0, 4.0))},
    "edge": {"mode": "edge"},
    "wrap": {"mode": "wrap"},
    "reflect": {"mode": "reflect"},
    "reflect odd": {"mode": "reflect", "reflect_type": "odd"},
    "symmetric": {"mode": "symmetric"},
    "symmetric odd": {"mode": "symmetric", "reflect_type": "odd"},
    "linear_ramp": {"mode": "linear_ramp", "end_values": (5.0, -2.0)},
    "mean": {"mode": "mean"},
    "mean of some": {"mode": "mean", "stat_length": 2},
    "maximum": {"mode": "maximum", "stat_length": ((1, 2), (2, 3))},
    "minimum": {"mode": "minimum"},
    "median": {"mode": "median"},
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    check_call(name, *CALLS[name])


@pytest.mark.parametrize("width", [2, (1, 0), ((0, 3), (7, 2)), ((0, 0), (0, 0))])
@pytest.mark.parametrize("name", PADS)
def test_pad(name, width):
    check_call(f"pad {name} {width}", lambda x: np.pad(x, width, **PADS[name]), M)


def test_pad_by_axis():
    if np.lib.NumpyVersion(np.__version__) < "2.4.0":
        pytest.skip("a dict of widths is new in NumPy 2.4")
    check_call("pad dict", lambda x: np.pad(x, {-1: (1, 2), 0: 1}, "edge"), M)


def test_pad_with_traced_constant():
    check_call("pad constant", lambda x: np.pad(x, 1, constant_values=x[0, 0]), M)
    check_call("pad constants", lambda x: np.pad(x, 1, "linear_ramp", end_values=(x[0, 0], 2.0)), M)


def test_pad_refuses():
    with pytest.raises(UnsupportedError, match=r"np\.concatenate"):
        da.jvp(lambda x: np.pad(x, 1, "empty"), (V,), (V,))
    with pytest.raises(ValueError, match="unsupported keyword arguments"):
        da.jvp(lambda x: np.pad(x, 1, "edge", constant_values=1), (V,), (V,))
    with pytest.raises(ValueError, match="negative"):
        da.jvp(lambda x: np.pad(x, -1), (V,), (V,))


def test_joins_of_integers_under_vmap_keep_their_dtype():
    i = np.arange(6).reshape(2, 3)
    close(da.vmap(lambda n: np.concatenate([n, n]))(i), np.concatenate([i, i], 1), "concatenate")
    close(da.vmap(lambda n: np.stack([n, n]))(i), np.stack([i, i], 1), "stack")


def test_shapes_that_do_not_fit():
    for f in (np.concatenate, np.stack, np.vstack):
        with pytest.raises(ValueError, match=r"shape|dimension"):
            da.trace(lambda x, y, f=f: f([x, y]), X[:, 0], X[0, :2, :3])
    with pytest.raises(ValueError, match="equal division"):
        da.jvp(lambda x: np.split(x, 3), (V,), (V,))
    with pytest.raises(ValueError, match="need at least one array"):
        da.jvp(lambda x: np.stack(x[:0]), (V,), (V,))


def test_out_is_refused_for_plain_targets():
    out = np.zeros(8)
    with pytest.raises(InPlaceError, match="out="):
        da.jvp(lambda x: np.concatenate([x, x], out=out), (V,), (V,))
    assert not out.any()


def test_out_is_written_when_it_is_a_tensor():
    def f(x):
        out = np.zeros((2, 4), like=x)
        np.concatenate([x, 2 * x], out=out.reshape(8))
        np.take(3 * x, [1, 0, 0, 1], out=out[1])
        return out

    value, tangent = da.jvp(f, (V,), (np.ones(4),))
    close(value, np.stack([V, 3 * V[[1, 0, 0, 1]]]), "value")
    close(tangent, np.array([[1.0] * 4, [3.0] * 4]), "tangent")


def test_a_loop_over_rows_is_one_equation():
    program = da.linearize(lambda x: sum(np.sum(row) for row in x), X)[1].program
    names = [e.op.name for e in program.equations]
    assert names.count("unstack") == 1
    assert "index" not in names
