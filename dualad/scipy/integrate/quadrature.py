"""The operator ``integral``: ∫ₐᵇ f(x, θ) dx by SciPy's adaptive rules, and Leibniz's rule for its derivative.

    I = ∫ₐᵇ f(x, θ) dx:     İ = ∫ₐᵇ ∂f/∂θ · θ̇ dx + f(b) ḃ − f(a) ȧ

The integral on the right is one more ``integral`` with the same limits, points and weight, so every order follows. Not
for: SciPy's names (``integrals.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.integrate as si

from ...base.frames import user_level
from ...control.control_ops import holds_staged
from ...control.linear_solve import cast
from ...core.aval import Aval, aval_of
from ...core.dispatch import bind
from ...core.primitive import Primitive
from ...jvp import jvp
from ...ops.shaping import stop_gradient
from ...rules.calls import of_moving
from ...vjp_via_transpose import vjp
from ...vmap import vmap
from ..mirror import calling_scipy
from .functions import compile_callback, has_lanes, plain_of

__all__ = ["Integral", "integral"]

#: the estimated error of a derivative may exceed the tolerance by this factor before there is a warning
_SLACK = 10.0
#: integrals over more entries than this are computed together, by ``quad_vec``
_ENTRIES = 64


@dataclass(eq=False, repr=False, slots=True)
class Integral:
    """An integral: a parameter of the operator."""

    #: for messages
    where: str
    name: str
    #: ``function(x, *parameters)``, in plain NumPy: an array of the shape of ``out``
    function: Callable
    #: what it returns
    out: Aval
    #: keywords of SciPy's function
    options: dict
    #: ``plain(parameters)`` returns the function of x alone that SciPy calls; ``None`` for a derivative
    plain: Callable | None = None
    _made: dict[Any, Any] = field(default_factory=dict, init=False)
    #: what SciPy returned besides value and error, when it was last called
    tail: tuple = field(default=(), init=False)

    def __repr__(self) -> str:
        return f"<integral of {self.name}>"

    # ── on plain arrays ──────────────────────────────────────────────────────────────────────────────────────────

    def solve(self, a: float, b: float, parameters: Sequence) -> tuple[Any, Any]:
        """Return the integral and its estimated error."""
        if self.plain is not None:
            rule = si.quad_vec if self.where == "quad_vec" else si.quad
            with calling_scipy():
                value, error, *tail = rule(self.plain(parameters), a, b, **self.options)
            self.tail = tuple(tail)
            return value, error
        if "code" not in self._made:
            what = lambda *xs: [self.function(*xs)]
            self._made["code"] = compile_callback(
                what, [np.float64(0.5), *parameters], f"{self.name} (tangent)", self.where
            )
        code = self._made["code"]
        with warnings.catch_warnings(), calling_scipy():
            warnings.simplefilter("ignore", si.IntegrationWarning)
            value, error = self._derivative(lambda x: code(x, *parameters)[0], a, b)
        self._check(value, error)
        return value, error

    def _derivative(self, f: Callable, a: float, b: float) -> tuple[Any, Any]:
        options = {k: v for k, v in self.options.items() if k not in ("full_output", "workers")}
        if self.out.shape == () and self.where != "quad_vec":
            return si.quad(lambda x: f(x)[()], a, b, **options)[:2]
        together = "weight" not in options and self.out.size > _ENTRIES
        if self.where == "quad_vec" or together:
            kept = {k: v for k, v in options.items() if k not in ("complex_func", "maxp1", "limlst")}
            kept["epsabs"] = max(kept.get("epsabs", 0.0), 1e-13)  # a tangent may well be zero
            return si.quad_vec(f, a, b, **kept)[:2]
        seen: dict[float, Any] = {}  # the entries are integrated one by one, by the same rule, from the same points

        def entry(x: float, i: int) -> Any:
            if x not in seen:
                seen[x] = np.reshape(f(x), (-1,))
            return seen[x][i]

        found = [si.quad(entry, a, b, args=(i,), **options)[:2] for i in range(self.out.size)]
        values, errors = np.array([v for v, _ in found]), max([abs(e) for _, e in found], default=0.0)
        return values.reshape(self.out.shape), errors

    def _check(self, value: Any, error: Any) -> None:
        size = float(np.max(abs(np.asarray(value)), initial=0.0))
        limit = max(self.options.get("epsabs", 1.49e-8), self.options.get("epsrel", 1.49e-8) * size)
        if not abs(error) <= _SLACK * limit:
            warnings.warn(
                f"{self.where} of `{self.name}`: the derivative of the integral is {size:.3g} with an estimated error"
                f" of {abs(error):.2g}, above the tolerance {limit:.2g}. The derivative of the integrand may be"
                " singular where the integrand is not: give such places as points=, or substitute the variable.",
                si.IntegrationWarning,
                stacklevel=user_level(),
            )

    # ── derivatives ──────────────────────────────────────────────────────────────────────────────────────────────

    def at(self, x: Any, parameters: Sequence) -> Any:
        """Return the integrand at a limit, with its weight; zero at infinity."""
        number = plain_of(x)
        if number is not None and np.isfinite(number):
            return self._weight(x) * self.function(x, *parameters)
        if number is not None:
            return np.zeros(self.out.shape, self.out.dtype)
        infinite = np.isinf(x)
        finite = np.where(infinite, 0.0, x)
        return np.where(infinite, 0.0, self._weight(finite) * self.function(finite, *parameters))

    def _weight(self, x: Any) -> Any:
        weight, wvar = self.options.get("weight"), self.options.get("wvar")
        if weight in ("cos", "sin"):
            return (np.cos if weight == "cos" else np.sin)(wvar * x)
        return 1.0 if weight is None else 1.0 / (x - wvar)

    def along(self, moving: tuple[bool, ...]) -> Integral:
        """Return the integral of the integrand's tangent: its parameters are θ and θ̇."""
        f, count = self.function, len(moving)
        places = [i for i, m in enumerate(moving) if m]

        def function(x, *parameters):
            g, chosen = of_moving(lambda *p: f(x, *p), parameters[:count], places)
            return jvp(g, tuple(chosen), tuple(parameters[count:]))[1]

        return self._derived(("along", moving), function, self.out)

    def gradient(self, moving: tuple[bool, ...], parameters: Sequence) -> Integral:
        """Return the integral of all derivatives of the integrand, in one last axis; its last parameter are factors."""
        f, out = self.function, self.out
        places = [i for i, m in enumerate(moving) if m]
        avals = [aval_of(parameters[i]) for i in places]
        sizes = [a.size for a in avals]
        total = sum(sizes)
        by_rows = out.shape == () and out.dtype.kind != "c" and not any([a.dtype.kind == "c" for a in avals])

        def function(x, *parameters):
            *parameters, factors = parameters
            g, chosen = of_moving(lambda *p: f(x, *p), parameters, places)
            if by_rows:
                value, pull = vjp(g, *chosen)
                rows = pull(np.ones((), aval_of(value).dtype)[()])
                return np.concatenate([np.reshape(r, (-1,)) for r in rows]) * factors
            push = lambda *t: jvp(g, tuple(chosen), t)[1]
            units = [
                np.eye(total, n, -sum(sizes[:i])).astype(a.dtype).reshape(total, *a.shape)
                for i, (n, a) in enumerate(zip(sizes, avals, strict=True))
            ]
            return vmap(push, out_axes=-1, randomness="same")(*units) * factors

        dtype = np.result_type(out.dtype, *[a.dtype for a in avals])
        return self._derived(("gradient", moving), function, Aval((*out.shape, total), dtype))

    def _derived(self, key: tuple, function: Callable, out: Aval) -> Integral:
        if key not in self._made:
            self._made[key] = Integral(self.where, self.name, function, out, self.options)
        return self._made[key]


# ── integral(a, b, *θ) → value, estimated error ──────────────────────────────────────────────────────────────────


def _impl(a, b, *parameters, call):
    value, error = call.solve(float(a), float(b), parameters)
    return np.asarray(value, call.out.dtype)[()], np.asarray(error, _error_dtype(call))[()]


def _error_dtype(call: Integral) -> np.dtype:
    return np.dtype(complex if call.options.get("complex_func") else float)


def _jvp(primals, tangents, *, call):
    a, b, *parameters = primals
    value, error = bind(integral, primals, {"call": call})
    total = None
    directions = tangents[2:]
    moving = tuple([d is not None for d in directions])
    vectors = [d for d in directions if d is not None]
    # The absolute tolerance is meant for the integral: the integrand is its change, of about its own size.
    sizes = [_size(p) for p, m in zip(parameters, moving, strict=True) if m]
    if vectors and not has_lanes(*vectors) and not any([holds_staged(v) for v in vectors]):
        size = _largest([stop_gradient(np.max(abs(v) / s)) for v, s in zip(vectors, sizes, strict=True) if np.size(s)])
        scaled = [cast(v / size, aval_of(v).dtype) for v in vectors]
        total = bind(integral, (a, b, *parameters, *scaled), {"call": call.along(moving)})[0] * size
    elif vectors:
        factors = np.concatenate([np.reshape(s, (-1,)) for s in sizes])
        by_all = bind(integral, (a, b, *parameters, factors), {"call": call.gradient(moving, parameters)})[0]
        total = (by_all / factors) @ np.concatenate([np.reshape(v, (-1,)) for v in vectors])
    for limit, shift, sign in ((a, tangents[0], -1.0), (b, tangents[1], 1.0)):
        if shift is not None:
            part = call.at(limit, parameters) * (sign * shift)
            total = part if total is None else total + part
    return (value, error), (total, None)


def _size(x: Any) -> Any:
    """Return how large the entries of a parameter are, 1 where they are zero."""
    size = stop_gradient(abs(x)) * 1.0
    return np.where(size > 0, size, 1.0)


def _largest(sizes: Sequence) -> Any:
    largest = np.max(np.stack(sizes)) if sizes else np.float64(1.0)
    return np.where(largest > 0, largest, 1.0)[()]


def _samples():
    f = lambda x, p: np.exp(-p[0] * x) * np.cos(p[1] * x)
    options = {"epsabs": 1e-6, "epsrel": 1e-6}
    plain = lambda parameters: lambda x: f(x, *parameters)
    number = Integral("quad", "sample", f, Aval((), np.dtype(float)), options, plain)
    g = lambda x, p: np.stack([np.sin(p[0] * x), p[0] + p[1] * x])
    vector = Integral("quad_vec", "sample", g, Aval((2,), np.dtype(float)), options, lambda p: lambda x: g(x, *p))
    return [
        (np.asarray(0.2), np.asarray(1.3), (2,), {"call": number}),
        (np.asarray(0.2), np.asarray(1.3), (2,), {"call": vector}),
    ]


integral = Primitive(
    "integral",
    impl=_impl,
    abstract_eval=lambda a, b, *parameters, call: (call.out, Aval((), _error_dtype(call))),
    jvp=_jvp,
    samples=_samples,
    multiple_results=True,
    blocks="one",
    kind="implicit",
)
