"""Small classes with the protocols of pandas, xarray, astropy and JAX: what a tensor can meet without any of them.

Not for: tests; `test_containers.py` and others use these.
"""

from __future__ import annotations

import numpy as np


class Labelled:
    """As `pandas.Series`: aligns by its labels, and has everything that NumPy asks an array for."""

    __array_priority__ = 1000
    __pandas_priority__ = 3000

    def __init__(self, values, labels=None):
        self.values = np.asarray(values)
        self.labels = list(range(len(self.values)) if labels is None else labels)

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype, copy=copy)

    def to_numpy(self):
        return self.values

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        others = [x for x in inputs if not isinstance(x, Labelled) and hasattr(type(x), "__array_ufunc__")]
        if any(not isinstance(x, np.ndarray) for x in others):
            return NotImplemented
        return Labelled(getattr(ufunc, method)(*[np.asarray(x) for x in inputs], **kwargs), self.labels)

    def _operator(ufunc):
        def method(self, other):
            if getattr(other, "__pandas_priority__", 0) > self.__pandas_priority__:
                return NotImplemented
            return Labelled(ufunc(self.values, np.asarray(other, float)), self.labels)

        return method

    __add__ = __radd__ = _operator(np.add)
    __mul__ = __rmul__ = _operator(np.multiply)
    __sub__ = _operator(np.subtract)


class Table:
    """As `pandas.DataFrame`: two axes, no dtype."""

    __array_priority__ = 1000

    def __init__(self, values):
        self.values = np.asarray(values)

    shape = property(lambda self: self.values.shape)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype, copy=copy)

    def to_numpy(self):
        return self.values

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return NotImplemented


class Named:
    """As `xarray.DataArray`: holds any array that speaks NumPy's protocols, and leaves the arithmetic to it."""

    __array_priority__ = 50

    def __init__(self, data):
        self.data = data

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data, dtype, copy=copy)

    def to_numpy(self):
        return np.asarray(self.data)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return Named(getattr(ufunc, method)(*[x.data if isinstance(x, Named) else x for x in inputs], **kwargs))

    def __mul__(self, other):
        return Named(self.data * getattr(other, "data", other) if isinstance(other, Named) else self.data * other)


class Measured(np.ndarray):
    """As `astropy.units.Quantity`: a subclass of ndarray that has a unit, and asks every ufunc about it."""

    unit = "m"

    def to_value(self, unit):
        return np.asarray(self)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [x.view(np.ndarray) if isinstance(x, Measured) else x for x in inputs]
        result = super().__array_ufunc__(ufunc, method, *plain, **kwargs)
        return result.view(Measured) if isinstance(result, np.ndarray) else result


class Device:
    """As `jax.Array`: computes as NumPy does, by operators of its own, and can be converted."""

    __array_priority__ = 100

    def __init__(self, values):
        self.values = np.asarray(values)

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype, copy=copy)

    def __dlpack__(self, **kwargs):
        return self.values.__dlpack__(**kwargs)

    def __mul__(self, other):
        return Device(self.values * other) if isinstance(other, (Device, float, int)) else NotImplemented

    __rmul__ = __mul__


class Logged(np.ndarray):
    """A plain subclass: it remembers where it came from, and computes as ndarray."""

    def __array_finalize__(self, obj):
        self.source = getattr(obj, "source", None)


class TakesPart:
    """An object without arithmetic by ufuncs that asks to do every operation itself, as NumPy lets it."""

    __array_ufunc__ = None

    def __rmul__(self, other):
        return np.sum(other * 2.0)

    __mul__ = __rmul__
