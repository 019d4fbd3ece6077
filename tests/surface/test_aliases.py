"""What shares memory with its argument, and what is a copy: as NumPy has it, for whatever returns an array of an array.

Not for: the writes themselves (test_writing.py).
"""

import numpy as np
import pytest

import dualad as da
from dualad.errors import InPlaceError, UnsupportedError

A = np.arange(1.0, 10.0).reshape(3, 3) ** 1.1

FUNCTIONS = {
    "astype nc": lambda a: a.astype(float, copy=False),
    "astype": lambda a: a.astype(float),
    "view": lambda a: a.view(),
    "atleast1": np.atleast_1d,
    "atleast2": np.atleast_2d,
    "atleast3": np.atleast_3d,
    "diagonal": np.diagonal,
    "diag": np.diag,
    "squeeze": np.squeeze,
    "real": np.real,
    ".real": lambda a: a.real,
    "conj m": lambda a: a.conj(),
    "conjugate m": lambda a: a.conjugate(),
    "np.conj": np.conj,
    "real_if_close": np.real_if_close,
    "moveaxis": lambda a: np.moveaxis(a, 0, 1),
    "rollaxis": lambda a: np.rollaxis(a, 1),
    "rot90": np.rot90,
    "rot180": lambda a: np.rot90(a, 2),
    "rot0": lambda a: np.rot90(a, 4),
    "array_split": lambda a: np.array_split(a, 2)[0],
    "dsplit": lambda a: np.dsplit(a[None], 3)[0],
    "hsplit": lambda a: np.hsplit(a, 3)[0],
    "unstack": lambda a: np.unstack(a)[0] if hasattr(np, "unstack") else a[0],
    "mT": lambda a: a.mT,
    "matrix_transpose": np.matrix_transpose,
    "linalg.mT": np.linalg.matrix_transpose,
    "permute": lambda a: np.permute_dims(a, (1, 0)),
    "ravel": np.ravel,
    "ravelF": lambda a: a.ravel("F"),
    "reshapeF": lambda a: np.reshape(a, (9,), order="F"),
    "reshape T": lambda a: a.T.reshape(9),
    "flatten": lambda a: a.flatten(),
    "expand": lambda a: np.expand_dims(a, (0, 2)),
    "bto": lambda a: np.broadcast_to(a, (2, 3, 3)),
    "sliding": lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=0),
    "einsum ii": lambda a: np.einsum("ii->i", a),
    "einsum T": lambda a: np.einsum("ij->ji", a),
    "einsum id": lambda a: np.einsum("ij->ij", a),
    "einsum impl": lambda a: np.einsum("ba", a),
    "einsum ell": lambda a: np.einsum("...i->i...", a),
    "einsum sub": lambda a: np.einsum(a, [0, 1], [1, 0]),
    "einsum_path": lambda a: np.einsum("ij->ji", a, optimize=True),
    "flip": np.flip,
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "nan_to_num nc": lambda a: np.nan_to_num(a, copy=False),
    "nan_to_num": np.nan_to_num,
    "take": lambda a: np.take(a, [0, 1], 0),
    "choose": lambda a: np.choose([0, 0, 0], a),
    "copy": np.copy,
    "pos": lambda a: +a,
    "getitem ()": lambda a: a[()],
    "getitem ...": lambda a: a[...],
    "a[True]": lambda a: a[True],
    "a[None]": lambda a: a[None],
    "list idx": lambda a: a[[0, 1]],
    "slices": lambda a: a[1:, ::2],
    "int": lambda a: a[1],
    "tuple list": lambda a: a[:, [0]],
    "resize": lambda a: np.resize(a, (3, 3)),
    "pad0": lambda a: np.pad(a, 0),
    "concatenate1": lambda a: np.concatenate([a]),
    "stack1": lambda a: np.stack([a])[0],
    "block": lambda a: np.block([a]),
    "tile1": lambda a: np.tile(a, 1),
    "repeat1": lambda a: np.repeat(a, 1, 0),
    "roll0": lambda a: np.roll(a, 0),
    "delete none": lambda a: np.delete(a, [], 0),
    "append none": lambda a: np.append(a, np.zeros((0, 3)), 0),
    "clip": lambda a: np.clip(a, -9, 9),
    "sort": np.sort,
    "tril": lambda a: np.tril(a, 5),
    "where": lambda a: np.where(True, a, a),
    "select": lambda a: np.select([True], [a]),
    "piecewise": lambda a: np.piecewise(a, [a < 9], [lambda v: v]),
    "aaa": lambda a: np.apply_along_axis(lambda v: v, 0, a),
    "aoa": lambda a: np.apply_over_axes(lambda v, ax: v, a, [0]),
    "squeeze1": lambda a: np.squeeze(a[None]),
    "newaxis swap": lambda a: np.swapaxes(a[None], 0, 2),
    "unravel": lambda a: a.reshape(-1)[::-1].reshape(3, 3),
    "atleast_1d multi": lambda a: np.atleast_1d(a, a)[1],
    "ix": lambda a: a[np.ix_([0, 1], [1, 2])],
    "ogrid": lambda a: a[np.s_[1:, :]],
    "split": lambda a: np.split(a, 3)[1],
    "vsplit": lambda a: np.vsplit(a, 3)[1],
    "iter": lambda a: list(a)[1],
    "asarray like": lambda a: np.asarray(a, like=a),
    "lexpand": lambda a: a[:, None, :, None],
    "linalg.T": lambda a: a.transpose(),
    "transpose ax": lambda a: np.transpose(a, (0, 1)),
    "swap same": lambda a: a.swapaxes(0, 0),
    "nested": lambda a: a[1:].T[::-1][0],
    "fft real": lambda a: np.fft.fftshift(a),
    "extract": lambda a: np.extract(a > -9, a),
    "compress": lambda a: a.compress([True, True, False], 0),
    "trace": lambda a: np.diagonal(a, 1),
    "np.imag": lambda a: np.imag(a + 0j),
    "np.real cplx": lambda a: np.real(a + 0j),
}


def base_then_result(a, view):
    a[...] = a * 2 + 1
    a[0] = a[1]
    return np.ravel(view)


def result_then_base(a, view):
    view[...] = view * 3 + 1
    return np.ravel(a)


def in_turns(a, view):
    a[1] = 7 * a[0]
    view[..., 0] = a[0, 0]
    a[2] += 1
    return np.concatenate([np.ravel(a), np.ravel(view)])


def outcome(function, write, run):
    def f(x):
        a = np.copy(x)
        return write(a, function(a))

    try:
        return run(f)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        return "read-only"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_memory_is_shared_where_numpy_shares_it(name):
    for write in (base_then_result, result_then_base, in_turns):
        expected = outcome(FUNCTIONS[name], write, lambda f: f(A))
        for run in (lambda f: da.jvp(f, (A,), (A,))[0], lambda f: da.vmap(f)(A[None])[0]):
            found = outcome(FUNCTIONS[name], write, run)
            if isinstance(expected, str) or isinstance(found, str):
                assert found is expected or found == expected == "read-only"
            else:
                np.testing.assert_allclose(found, expected)


def test_parts_of_complex_numbers_are_views():
    def f(x):
        z = x + 1j * x[::-1]
        parts = z.view(float)
        parts[::3] = x[0] * x[1]
        z[1] *= 1j
        again = parts.view(complex)
        again[0] = z[1] + again[2]
        return np.concatenate([parts, z.real, z.imag])

    x = np.array([0.5, -1.5, 2.0])
    np.testing.assert_allclose(da.jvp(f, (x,), (x,))[0], f(x))
    np.testing.assert_allclose(da.vmap(f)(np.stack([x, 2 * x])), [f(x), f(2 * x)])
    np.testing.assert_allclose(da.jacrev(f)(x), da.jacfwd(f)(x))
    step = 1e-6 * np.eye(3)
    np.testing.assert_allclose(da.jacfwd(f)(x).T, [(f(x + e) - f(x - e)) / 2e-6 for e in step], atol=1e-8)
    z = np.array([1 + 2j, 3j], np.complex64)
    assert da.vmap(lambda z: z.view(np.float32))(z[None]).dtype == np.float32


def test_the_order_in_memory_is_not_guessed():
    for f in (lambda x: x.T.ravel("K"), lambda x: np.reshape(x.T, 9, order="A"), lambda x: x.flatten("K")):
        with pytest.raises(UnsupportedError, match="order='C'"):
            da.jvp(f, (A,), (A,))
    assert da.jvp(lambda x: x[0].ravel("K"), (A,), (A,))[0].shape == (3,)
    with pytest.raises(UnsupportedError, match="overlap"):
        da.vmap(lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0, writeable=True))(A)


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_a_write_that_an_object_array_would_not_see_is_refused():
    def write(x, through):
        a = np.copy(x)
        copy = np.asarray(a[1:] if through == "view" else a)
        if through == "entry":
            a[0, 0] = 1.0
        elif through == "base of a view":
            a[0][:] = a[1]
        else:
            a *= 2
        return np.sum(a) + np.sum(copy)

    for through in ("whole", "view", "entry", "base of a view"):
        for run in (lambda f: da.jvp(f, (A,), (A,)), lambda f: da.vmap(f)(A[None]), lambda f: da.grad(f)(A)):
            with pytest.raises(InPlaceError, match=r"np\.asarray"):
                run(lambda x, through=through: write(x, through))

    def fine(x):
        a = np.copy(x)
        a[0] = np.sum(np.asarray(a)) + np.sum(np.array(a))  # let go of before the write
        copy = np.array(a)
        a[1] = 0.0
        return np.sum(a) * np.sum(copy)

    x = np.array([1.0, 2.0, 3.0])
    assert da.jvp(fine, (x,), (x,))[0] == fine(x)
