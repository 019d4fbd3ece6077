"""Structured arrays inside of transforms: a node of trees whose children are the fields, each an array by itself.

Not for: structured arrays that a function captures, of which it takes plain fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Record", "STRUCTURED", "is_structured"]

#: the types that structured arrays and their entries have
STRUCTURED = frozenset({np.ndarray, np.recarray, np.void, np.record})


def is_structured(x: Any) -> bool:
    """Whether a value is a structured array, or an entry of one; what has no bytes (``float0``) is none."""
    return type(x) in STRUCTURED and x.dtype.names is not None and x.dtype.itemsize > 0


class Record:
    """The stand-in for a structured array inside a transform: fields by name, and entries of all.

    Parameters
    ----------
    fields : dict
        The arrays, by name.
    dtype : numpy.dtype
        That of the structured array.

    Examples
    --------
    >>> bodies = np.zeros(2, [("at", float, 3), ("mass", float)])
    >>> bodies["mass"] = 2.0
    >>> slope = da.grad(lambda b: np.sum(b["mass"] ** 2))(bodies)
    >>> slope["mass"]
    array([4., 4.])
    """

    __slots__ = ("dtype", "fields")

    def __init__(self, fields: dict[str, Any], dtype: np.dtype) -> None:
        self.fields, self.dtype = fields, dtype

    @classmethod
    def of(cls, x: Any) -> Record:
        """Take a structured array apart: its fields are views."""
        plain = x.view(np.ndarray) if isinstance(x, np.ndarray) else x
        return cls({name: plain[name] for name in x.dtype.names}, x.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        name, first = next(iter(self.fields.items()))
        shape = first.shape if isinstance(first, Record) else np.shape(first)
        return shape[: len(shape) - len(self.dtype[name].shape)]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Record]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.fields[key]
        if isinstance(key, list) and key and all([isinstance(k, str) for k in key]):
            return Record({name: self.fields[name] for name in key}, self.dtype[key])
        return Record({name: x[self._index(key, name)] for name, x in self.fields.items()}, self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            self.fields[key][...] = value
            return
        for name, x in self.fields.items():
            x[self._index(key, name)] = value[name]

    def _index(self, key: Any, name: str) -> Any:
        """Return an index into the entries as one into a field, whose own axes come last."""
        own = (slice(None),) * len(self.dtype[name].shape)
        parts = key if isinstance(key, tuple) else (key,)
        return (*parts, *own) if own and any([part is Ellipsis for part in parts]) else key

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(
                f"a structured array inside of a transform has its fields {list(self.fields)}, shape, ndim, size,"
                f" dtype, and entries x[i]; it has no {name!r}"
            ) from None

    def __reduce__(self):
        return Record, (self.fields, self.dtype)

    def __repr__(self) -> str:
        return f"Record({', '.join([f'{name}={x!r}' for name, x in self.fields.items()])})"
