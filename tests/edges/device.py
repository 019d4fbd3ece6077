"""A strict array of another library: what CuPy's arrays are to NumPy, without a GPU.

``OnDevice`` answers NumPy's two protocols for functions that CuPy has, and nothing else. It refuses to be converted,
asked for its truth or iterated over, and to meet NumPy's arrays (numbers it may meet); it counts what it is asked for.
Not for: tests; `test_other_arrays.py` uses it.
"""

from __future__ import annotations

import collections

import numpy as np

#: what makes an array on the device of NumPy's numbers: NumPy calls these by ``like=``
CREATION = {np.arange, np.array, np.asarray, np.empty, np.eye, np.full, np.ones, np.zeros}

#: NumPy's functions that it answers, all of them CuPy's too
FUNCTIONS = {
    np.all, np.any, np.bincount, np.broadcast_to, np.concatenate, np.cumprod, np.cumsum, np.einsum, np.empty_like,
    np.expand_dims, np.flip, np.full_like, np.imag, np.linalg.inv, np.linalg.solve, np.max, np.min, np.moveaxis,
    np.ndim, np.ones_like, np.prod, np.real, np.reshape, np.shape, np.size, np.stack, np.sum, np.swapaxes, np.take,
    np.transpose, np.where, np.zeros_like,
}  # fmt: skip

_NUMBERS = (bool, int, float, complex, np.generic)


class Refused(TypeError):
    """What was asked of the array would bring its values to the host, or take the host's array to the device."""


class OnDevice(np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose values nobody may see."""

    #: how often each function was called
    calls: collections.Counter = collections.Counter()

    def __init__(self, values):
        self._hidden = np.array(values)

    shape = property(lambda self: self._hidden.shape)
    dtype = property(lambda self: self._hidden.dtype)
    ndim = property(lambda self: self._hidden.ndim)
    size = property(lambda self: self._hidden.size)
    T = property(lambda self: OnDevice(self._hidden.T))

    def get(self):
        """Return the values, as CuPy's method of this name does."""
        return self._hidden.copy()

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or kwargs.get("out"):
            return NotImplemented
        if any(isinstance(x, np.ndarray) for x in inputs):
            raise Refused(f"an array of the host's in {ufunc.__name__}")
        if not all(isinstance(x, (OnDevice, *_NUMBERS)) for x in inputs):
            return NotImplemented
        OnDevice.calls[ufunc.__name__] += 1
        return _wrapped(ufunc(*map(_unwrapped, inputs), **kwargs))

    def __array_function__(self, function, types, args, kwargs):
        if any(t is not OnDevice and not issubclass(t, np.ndarray) for t in types):
            return NotImplemented
        if function not in CREATION:
            if function not in FUNCTIONS:
                return NotImplemented
            _refuse_hosts((args, kwargs), function.__name__)
        OnDevice.calls[function.__name__] += 1
        return _wrapped(function(*_unwrapped(args), **_unwrapped(kwargs)))

    def __getitem__(self, key):
        _refuse_hosts(key, "an index")
        OnDevice.calls["getitem"] += 1
        return _wrapped(self._hidden[_unwrapped(key)].copy())

    def __setitem__(self, key, value):
        _refuse_hosts((key, value), "a write")
        OnDevice.calls["setitem"] += 1
        self._hidden[_unwrapped(key)] = _unwrapped(value)

    def astype(self, dtype, copy=True):
        return OnDevice(self._hidden.astype(dtype))

    def copy(self, order="C"):
        return OnDevice(self._hidden)

    def ravel(self):
        return OnDevice(self._hidden.ravel())

    def reshape(self, *shape):
        return OnDevice(self._hidden.reshape(*shape))

    def sum(self, axis=None, keepdims=False):
        return OnDevice(self._hidden.sum(axis=axis, keepdims=keepdims))

    def transpose(self, *axes):
        return OnDevice(self._hidden.transpose(*axes))

    def _refuse(self, *args, **kwargs):
        raise Refused("its values were asked for")

    __array__ = __bool__ = __complex__ = __float__ = __index__ = __int__ = __iter__ = item = tolist = _refuse


def _wrapped(x):
    if isinstance(x, (tuple, list)):
        return tuple([_wrapped(a) for a in x])
    return OnDevice(x) if isinstance(x, (np.ndarray, np.generic)) else x


def _unwrapped(x):
    if isinstance(x, (tuple, list)):
        return type(x)([_unwrapped(a) for a in x])
    if isinstance(x, dict):
        return {k: _unwrapped(a) for k, a in x.items()}
    return x._hidden if isinstance(x, OnDevice) else x


def _refuse_hosts(x, where):
    if isinstance(x, np.ndarray):
        raise Refused(f"an array of the host's in {where}")
    if isinstance(x, (tuple, list)):
        for a in x:
            _refuse_hosts(a, where)
    elif isinstance(x, dict):
        _refuse_hosts(list(x.values()), where)
