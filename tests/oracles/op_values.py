"""Checks of one operator on one sample: its value, its shape rule, its dtypes.

Each check takes a `Subject` and raises AssertionError in words. Not for: derivatives or batching.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

import dualad as da
from dualad.core.aval import Aval, aval_of
from dualad.errors import RuleMissingError
from dualad.ops.samples import realize
from dualad.program.ir import Program

from .arrays import close, describe, generator, inexact, leaves, random_like

__all__ = [
    "Subject", "check_layouts", "check_program", "check_scalar_dtypes", "check_shape_rule", "check_single_precision",
    "check_value", "single", "subjects",
]  # fmt: skip

_SINGLE = {"float64": np.float32, "complex128": np.complex64}


_MOVING: dict[tuple, list[int]] = {}


class Subject(NamedTuple):
    """One operator and one of its sample calls."""

    op: object
    index: int
    args: tuple
    params: dict

    def call(self, *args):
        return self.op(*args, **self.params)

    def __str__(self) -> str:
        return f"{self.op.name} sample {self.index} {describe(self.args, self.params)}"

    def rng(self, *names) -> np.random.Generator:
        return generator(self.op.name, self.index, *names)

    def moving(self) -> list[int]:
        """Return the positions of the arguments that the operator can be differentiated in."""
        key = (self.op, tuple(np.asarray(a).dtype for a in self.args), tuple(self.params))
        if key not in _MOVING:
            _MOVING[key] = self._find_moving()
        return _MOVING[key]

    def _find_moving(self) -> list[int]:
        found = []
        for i, x in enumerate(self.args):
            if not inexact(x):
                continue
            tangents = [None] * len(self.args)
            tangents[i] = np.zeros_like(x)[()]
            try:
                da.jvp(self.call, self.args, tangents)
            except RuleMissingError:
                continue
            found.append(i)
        return found

    def reduced(self):
        """Return the operator as a function of the arguments it can be differentiated in, and those arguments."""
        positions = self.moving()

        def f(*moving):
            args = list(self.args)
            for i, x in zip(positions, moving, strict=True):
                args[i] = x
            return self.call(*args)

        return f, tuple(self.args[i] for i in positions)

    def members(self, count: int) -> list[tuple]:
        """Return distinct sample arguments of the same shapes, the first being `args`."""
        out = [self.args]
        for k in range(1, count):
            others = _realized(self.op, k)[self.index].args
            out.append(tuple(_another(x, y, k) for x, y in zip(self.args, others, strict=True)))
        return out


@functools.lru_cache(maxsize=256)
def _realized(op, member: int) -> list:
    return realize(op, member)


def _another(first, x, k: int):
    """Return the k-th member of an argument that the samples may have given as one concrete value."""
    if not isinstance(x, np.ndarray) or (x is not first and not np.array_equal(first, x)):
        return x
    return x * (1 + k / 64) if x.dtype.kind in "fc" else np.roll(x, k)


def subjects(op) -> list[Subject]:
    """Return every sample of an operator; its arrays are read-only, so that writing to one is an error."""
    out = []
    for i, sample in enumerate(realize(op)):
        args = tuple(_frozen(a) for a in sample.args)
        out.append(Subject(op, i, args, sample.params))
    return out


def _frozen(x):
    if isinstance(x, np.ndarray):
        x = x.copy()
        x.setflags(write=False)
    return x


def single(x):
    """Return an argument in single precision."""
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.name in _SINGLE:
        return x.astype(_SINGLE[x.dtype.name])
    return x


def _fixes_dtypes(params: dict) -> bool:
    """Say whether the parameters hold avals, programs or equations, so that the call exists in their dtypes only."""
    parts = [a for v in params.values() for a in (v if isinstance(v, tuple) else (v,))]
    return any(isinstance(a, (Aval, Program)) or hasattr(a, "unknown") for a in parts)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────


def check_value(s: Subject) -> None:
    """The operator on plain arrays is its NumPy implementation, and the NumPy callables it stands for."""
    found = s.call(*s.args)
    close(found, s.op.impl(*s.args, **s.params), "value against impl", rtol=0.0)
    assert isinstance(found, tuple) == s.op.multiple_results, (
        f"value: {type(found).__name__} with multiple_results={s.op.multiple_results}"
    )
    if not s.params:
        for function in s.op.numpy:
            close(found, function(*s.args), f"value against {function.__name__}", rtol=1e-14)


def check_shape_rule(s: Subject) -> None:
    """The shape rule gives the shape and dtype of the real result."""
    for args in (s.args,) if _fixes_dtypes(s.params) else (s.args, tuple(single(a) for a in s.args)):
        found = s.op.abstract_eval(*[aval_of(a) for a in args], **s.params)
        found = list(found) if s.op.multiple_results else [found]
        values = leaves(s.op.impl(*args, **s.params))
        assert len(found) == len(values), f"shape rule: {len(found)} avals for {len(values)} results"
        for aval, value in zip(found, values, strict=True):
            expected = aval_of(np.asarray(value))
            assert aval == expected, f"shape rule on {describe(args, s.params)}: {aval}, the result is {expected}"


def check_single_precision(s: Subject) -> None:
    """float32 in, float32 out: values, tangents and cotangents have NumPy's dtypes."""
    if _fixes_dtypes(s.params):
        return
    args = tuple(single(a) for a in s.args)
    small = Subject(s.op, s.index, args, s.params)
    expected = s.op.impl(*args, **s.params)
    rng = s.rng("single")
    if s.op.jvp is None:
        close(da.jvp(small.call, args, [None] * len(args))[0], expected, "value under jvp")
        return
    f, moving = small.reduced()
    if not moving:
        return
    tangents = [random_like(rng, x) for x in moving]
    value, tangent = da.jvp(f, moving, tangents)
    close(value, expected, "value under jvp", rtol=1e-3)
    for v, t in zip(leaves(value), leaves(tangent), strict=True):
        if v.dtype.kind in "fc":
            assert t.dtype == v.dtype, f"tangent of dtype {t.dtype} for a value of dtype {v.dtype}"
    _, pull = da.vjp(f, *moving)
    cts = [random_like(rng, v) for v in leaves(value)]
    back = pull(tuple(cts) if s.op.multiple_results else cts[0])
    for x, c in zip(moving, back, strict=True):
        x = np.asarray(x)
        assert c.dtype == x.dtype and c.shape == x.shape, f"cotangent {c.dtype}{c.shape} for {x.dtype}{x.shape}"
    big, big_moving = s.reduced()
    wide = da.jvp(
        big, big_moving, [np.asarray(t, np.asarray(x).dtype)[()] for t, x in zip(tangents, big_moving, strict=True)]
    )
    close(tangent, wide[1], "float32 tangent against float64", rtol=2e-2, dtypes=False)


def _strided(x):
    """Return the same numbers with strides that are negative along one axis and leave gaps along another."""
    if not isinstance(x, np.ndarray) or not x.ndim or not x.size:
        return x
    x = np.repeat(np.flip(x, -1), 2, axis=0)[::2]
    return np.flip(np.asfortranarray(x), -1)


def check_layouts(s: Subject) -> None:
    """Values and derivatives do not depend on how arguments, tangents and cotangents lie in memory."""
    args = tuple(_strided(a) for a in s.args)
    close(s.call(*args), s.op.impl(*s.args, **s.params), "value of strided arguments", rtol=1e-12)
    f, moving = s.reduced()
    if s.op.jvp is None or not moving:
        return
    twisted, turned = Subject(s.op, s.index, args, s.params).reduced()
    rng = s.rng("layouts")
    tangents = [random_like(rng, x) for x in moving]
    value, tangent = da.jvp(f, moving, tangents)
    close(da.jvp(twisted, turned, [_strided(t) for t in tangents]), (value, tangent), "jvp of strided arguments")
    cts = [random_like(rng, v) for v in leaves(value)]
    pack = lambda cs: tuple(cs) if s.op.multiple_results else cs[0]
    expected = da.vjp(f, *moving)[1](pack(cts))
    close(da.vjp(twisted, *turned)[1](pack([_strided(c) for c in cts])), expected, "vjp of strided arguments")


def check_scalar_dtypes(s: Subject) -> None:
    """A Python scalar beside a float32 array does not widen the result (NEP 50), in value, tangent and program."""
    args = tuple(single(a) for a in s.args)
    scalars = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.shape == () and a.dtype.kind == "f"]
    if not scalars or len(args) == len(scalars) or _fixes_dtypes(s.params):
        return
    i = scalars[0]
    args = tuple(float(a) if j == i else a for j, a in enumerate(args))
    expected = s.op.impl(*args, **s.params)
    small = Subject(s.op, s.index, args, s.params)
    positions = [j for j in small.moving() if j != i]
    tangents = [np.ones_like(a) if j in positions else None for j, a in enumerate(args)]
    value, tangent = da.jvp(small.call, args, tangents)
    close(value, expected, "value with a Python scalar", rtol=1e-3)
    if np.asarray(value).dtype.kind in "fc":
        close(np.zeros_like(tangent), np.zeros_like(value), "tangent with a Python scalar")
    avals = [aval_of(a) for a in args]
    assert s.op.abstract_eval(*avals, **s.params) == aval_of(np.asarray(expected)), "shape rule with a Python scalar"


def check_program(s: Subject) -> None:
    """Traced, the operator gives a program that is well-formed, computes the same, and differentiates the same."""
    from dualad.program.check import check

    program = da.trace(s.call, *s.args)
    check(program)
    close(program(*s.args), s.call(*s.args), "the traced program", rtol=1e-12)
    f, moving = s.reduced()
    if s.op.jvp is None or not moving:
        return
    rng = s.rng("program")
    tangents = [random_like(rng, x) for x in moving]
    direct = da.jvp(f, moving, tangents)
    inner = da.trace(f, *moving)
    close(da.jvp(inner, moving, tangents), direct, "jvp of the traced program")
    outer = da.trace(lambda p, t: da.jvp(f, p, t), moving, tuple(tangents))
    check(outer)
    close(outer(moving, tuple(tangents)), direct, "the traced jvp")
    cts = tuple(random_like(rng, v) for v in leaves(direct[0]))
    ct = cts if s.op.multiple_results else cts[0]
    back = da.vjp(f, *moving)[1](ct)
    close(da.vjp(inner, *moving)[1](ct), back, "vjp of the traced program")
    pulled = da.trace(lambda p, c: da.vjp(f, *p)[1](c), moving, ct)
    check(pulled)
    close(pulled(moving, ct), back, "the traced vjp")
