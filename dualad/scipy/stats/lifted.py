"""Formulas of a distribution that nobody has written here: SciPy's own Python code, or its values with a known slope.

The slope of a distribution function F is the density f, and a quantile z = F⁻¹(q; s) moves by what keeps F(z; s) at q:

    dF = f dz + ∂F/∂s ds        dz = (dq − ∂F/∂s ds) / f

So where SciPy computes one of them in compiled code, by integration or by a search, its values do; its Python code
runs as that of a twin (``scipy/twins.py``).
Not for: formulas that are ours (``formulas.py``).
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import rv_continuous, rv_discrete

from ...core.tracer import Tracer, beneath, tracer_in
from ...errors import RuleMissingError, UnsupportedError
from ...jvp import jvp, stop_gradient
from ...rules.custom_jvp import SymbolicZero, custom_jvp
from ...rules.wrap import wrap
from ..twins import twin_of, writable
from .tails import along_shapes

__all__ = ["Formulas", "counted", "log_of"]

#: distribution -> its methods that are compiled, integrate or search, in code that SciPy's class has of its own
_OPAQUE: dict[str, str] = {
    "bernoulli": "pmf", "betaprime": "ppf isf", "binom": "pmf", "cauchy": "stats", "cosine": "cdf sf ppf isf",
    "genhyperbolic": "logpdf pdf cdf sf", "geninvgauss": "logpdf pdf cdf", "hypergeom": "pmf cdf sf logcdf logsf",
    "invgauss": "ppf isf", "irwinhall": "pdf cdf sf", "ksone": "pdf cdf sf ppf isf", "kstwo": "pdf cdf sf ppf isf",
    "kstwobign": "pdf cdf sf ppf isf", "landau": "pdf cdf sf ppf isf", "levy_stable": "pdf cdf",
    "ncf": "pdf cdf sf ppf isf", "nct": "pdf cdf sf ppf isf", "nbinom": "pmf", "ncx2": "logpdf pdf cdf sf ppf isf",
    "norminvgauss": "ppf isf", "pearson3": "logpdf pdf cdf sf ppf", "rice": "cdf ppf", "semicircular": "ppf",
    "skellam": "cdf", "skewnorm": "cdf sf ppf isf", "studentized_range": "pdf cdf", "truncnorm": "ppf isf",
    "tukeylambda": "pdf cdf", "vonmises": "cdf stats", "vonmises_line": "cdf", "wald": "ppf isf",
}  # fmt: skip


#: distributions whose moments and entropy are SciPy's formulas, which run on tensors as they are
_SUMMED = {
    "bernoulli", "beta", "cauchy", "chi2", "expon", "f", "gamma", "geom", "gumbel_l", "gumbel_r", "halfnorm",
    "invgamma", "laplace", "logistic", "lognorm", "norm", "pareto", "poisson", "rayleigh", "t", "uniform", "vonmises",
    "weibull_min",
}  # fmt: skip


class Formulas:
    """The formulas of a distribution of SciPy's by name: those ``given``, and others made when they are asked for.

    Given are formulas by the name of the method and, by the name of a shape, the derivative of ``cdf`` in it; or the
    derivatives of the density in the point, ``orders``.
    """

    def __init__(self, original: Any, given: dict[str, Any]) -> None:
        self.original, self.given = original, given
        self.shapes = [s.strip() for s in (original.shapes or "").split(",") if s.strip()]
        self.base = rv_continuous if isinstance(original, rv_continuous) else rv_discrete
        self.density = "pdf" if self.base is rv_continuous else "pmf"
        self._made: dict[str, Callable] = {}

    def __getitem__(self, name: str) -> Callable:
        found = self.given.get(name) or self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(name)
        return found

    def _make(self, name: str) -> Callable:
        density = self.density
        if name in (density, f"log{density}"):
            logarithm = name != density
            other = density if logarithm else f"log{density}"
            if self._has(name) and other not in self.given:
                return self._own(name)
            if "orders" in self.given and not logarithm:
                return functools.partial(self._derivative, 0)
            if other in self.given or self._has(other) or logarithm:
                change = np.log if logarithm else np.exp
                return lambda *a: change(self[other](*a))
            return functools.partial(self._values, name)
        if name in ("logcdf", "logsf"):
            if self._has(name) and not {"cdf", "sf"} & self.given.keys():
                return self._own(name)
            p, rest = ("cdf", "sf") if name == "logcdf" else ("sf", "cdf")
            return lambda *a: log_of(self[p](*a), self[rest](*stop_gradient(a)))
        other = {"cdf": "sf", "sf": "cdf", "ppf": "isf", "isf": "ppf"}[name]
        if self._has(name) and other not in self.given:
            return self._own(name)
        if other in self.given or self._has(other):
            if name in ("cdf", "sf"):
                return lambda *a: 1.0 - self[other](*a)
            return lambda q, *shapes: self[other](1.0 - q, *shapes)
        if self.base is rv_discrete:
            return self._sum if name == "cdf" else lambda *a: 1.0 - self._sum(*a)
        return functools.partial(self._values, name)

    def _has(self, name: str) -> bool:
        """Whether SciPy's class has code of its own for a method, which runs on tensors."""
        own = getattr(type(self.original), f"_{name}") is not getattr(self.base, f"_{name}")
        return own and name not in _OPAQUE.get(self.original.name, "").split()

    @functools.cached_property
    def twin(self) -> Any:
        """SciPy's code, for tensors."""
        return twin_of(self.original)

    def has(self, name: str) -> bool:
        """Whether ``entropy``, or moments (``stats``), are a formula of ours or of SciPy's."""
        given = self.given.get("moments" if name == "stats" else name) is not None
        return given or (self.original.name in _SUMMED and self._has(name))

    def moments(self, *shapes: Any) -> tuple:
        """Return mean, variance, skewness and excess kurtosis of the standard form."""
        if "moments" in self.given:
            return self.given["moments"](*shapes)
        method = (self.original if tracer_in(*shapes) is None else self.twin)._stats
        wanted = {"moments": "mvsk"} if "moments" in inspect.signature(method).parameters else {}
        shape = np.broadcast_shapes(*map(np.shape, shapes))
        found = method(*[writable(np.broadcast_to(s, shape or (1,))) for s in shapes], **wanted)
        return tuple([np.reshape(np.broadcast_to(m, shape or (1,)), shape) for m in found])

    def entropy(self, *shapes: Any) -> Any:
        """Return the entropy of the standard form."""
        return self.given["entropy"](*shapes) if "entropy" in self.given else self._own("entropy")(*shapes)

    def _own(self, name: str) -> Callable:
        def method(*args):
            if tracer_in(*args) is None:
                return getattr(self.original, f"_{name}")(*args)
            return getattr(self.twin, f"_{name}")(*map(writable, args))

        return lambda *args: on_common_shape(method, args)

    def support(self, *shapes: Any) -> tuple:
        """Return the ends of the support of the standard form."""
        if tracer_in(*shapes) is None:
            return self.original._get_support(*shapes)
        if type(self.original)._get_support is self.base._get_support:
            return float(self.original.a), float(self.original.b)
        ends = self.twin._get_support(*[writable(np.atleast_1d(s)) for s in shapes])
        shape = np.broadcast_shapes(*map(np.shape, shapes))
        return tuple([np.reshape(np.broadcast_to(e, shape or (1,)), shape) if np.ndim(e) else e for e in ends])

    def valid(self, *shapes: Any) -> Any:
        """Return which shapes are valid."""
        if tracer_in(*shapes) is None:
            return self.original._argcheck(*shapes)
        if type(self.original)._argcheck is self.base._argcheck:
            return functools.reduce(operator.and_, [s > 0 for s in shapes])
        return self.twin._argcheck(*shapes)

    # ── values of SciPy's ────────────────────────────────────────────────────────────────────────────────────────

    def _values(self, name: str, *args: Any) -> Any:
        """Return a distribution function or a quantile as SciPy computes it, with the derivative that it has."""
        sign = 1.0 if name in ("cdf", "ppf") else -1.0

        def values(*args):
            example = np.zeros(np.shape(args[0]))
            return wrap(getattr(self.original, name), vectorized=True, like=example)(*args)

        function = custom_jvp(values)

        def rule(primals, tangents):
            if name == self.density:
                raise self._no_rule(name, "it", "density")
            out, (t, *moving) = function(*primals), tangents
            z = primals[0] if name in ("cdf", "sf") else out
            density = self["pdf"](z, *primals[1:])
            along = None if isinstance(t, SymbolicZero) else sign * t
            still = all([isinstance(s, SymbolicZero) for s in moving])
            shift = None if still else self._along_shapes(z, primals[1:], moving)
            if name in ("cdf", "sf"):
                parts = [None if along is None else density * along, None if still else sign * shift]
            else:
                parts = [None if along is None else along / density, None if still else -shift / density]
            return out, functools.reduce(np.add, [p for p in parts if p is not None])

        function.defjvp(rule, symbolic_zeros=True)
        return on_common_shape(function, args)

    def _derivative(self, order: int, *args: Any) -> Any:
        """Return a derivative of the density in the point: SciPy's values, or those of a row, and then the next."""

        def values(*args):
            at = getattr(self.original, self.density) if not order else functools.partial(self.given["orders"], order)
            return wrap(at, vectorized=True, like=np.zeros(np.shape(args[0])))(*args)

        function = custom_jvp(values)

        def rule(primals, tangents):
            t, *moving = tangents
            for name, s in zip(self.shapes, moving, strict=True):
                if not isinstance(s, SymbolicZero):
                    raise self._no_rule(self.density, f"`{name}`", "density")
            out = function(*primals)
            return out, 0 * out if isinstance(t, SymbolicZero) else self._derivative(order + 1, *primals) * t

        function.defjvp(rule, symbolic_zeros=True)
        return on_common_shape(function, args)

    def moved(self, z: Any, *shapes: Any) -> Any:
        """Return a sample, which moves with the shapes as the quantile that it is: by −∂F/∂s / f."""
        function = custom_jvp(lambda z, *shapes: z)

        def rule(primals, tangents):
            at = function(*primals)
            return at, -self._along_shapes(at, primals[1:], tangents[1:]) / self["pdf"](at, *primals[1:])

        function.defjvp(rule, symbolic_zeros=True)
        return on_common_shape(function, (z, *shapes)) if tracer_in(*shapes) is not None else z

    def _along_shapes(self, z: Any, shapes: tuple, tangents: list) -> Any:
        """Return ∂F/∂s ds at z."""
        if "cdf" in self.given or self._has("cdf") or self._has("sf"):
            known = [None if isinstance(t, SymbolicZero) else t for t in tangents]
            return jvp(lambda *s: self["cdf"](z, *s), tuple(shapes), tuple(known))[1]
        total, others = 0.0, [None] * len(tangents)
        for i, (name, t) in enumerate(zip(self.shapes, tangents, strict=True)):
            if isinstance(t, SymbolicZero):
                continue
            if name in self.given:
                total = total + self.given[name](z, *shapes) * t
            elif self.density in self.given or f"log{self.density}" in self.given or self._has(self.density):
                others[i] = t
            else:
                raise self._no_rule("cdf", f"`{name}`", "distribution function")
        if any([t is not None for t in others]):
            total = total + along_shapes(self, z, shapes, others)
        return total

    def _no_rule(self, method: str, of: str, what: str) -> RuleMissingError:
        return RuleMissingError(
            f"scipy.stats.{self.original.name}.{method} was differentiated in {of}.",
            f"SciPy computes the {what} by integration or in compiled code, and no formula of the derivative is known",
            f"keep {of} constant (dualad.stop_gradient)",
        )

    def _sum(self, k: Any, *shapes: Any) -> Any:
        """Add up the probabilities to k."""
        low, high = self.support(*shapes)
        first, last = _known(low), _known(k)
        last = _known(high) if last is None else last
        if first is None or last is None or not np.all(np.isfinite(last)):
            raise UnsupportedError(
                f"scipy.stats.{self.original.name}.cdf was called with a point or a support that is not known yet.",
                "the probabilities up to the point are added up, and in a compiled program their number is fixed",
                "make the point, or the shapes that bound it, settings: jit(f, static_argnums=...); pmf takes all",
            )
        count = int(np.max(last, initial=0) - np.min(first, initial=0)) + 1
        at = low + np.arange(float(count))
        k, *shapes = [np.reshape(a, (*np.shape(a), 1)) for a in (k, *shapes)]
        return np.sum(np.where(at <= k, self["pmf"](at, *shapes), 0.0), axis=-1)


def _known(x: Any) -> Any:
    """Return the plain numbers in an argument, None where there are none yet."""
    x = beneath(x)
    return x.concretize("the number of probabilities to add up") if isinstance(x, Tracer) else x


def counted(x: Any, name: str) -> Any:
    """Return the plain numbers in an end of the support of a distribution on whole numbers."""
    known = _known(_unmoved(x, name))
    if known is None:
        raise UnsupportedError(
            f"scipy.stats.{name} was evaluated with an end of its support that is not known yet.",
            "its probabilities are divided by their sum, and in a compiled program the number of these is fixed",
            "make the shapes that are whole numbers settings: jit(f, static_argnums=...)",
        )
    return known


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _unmoved(x: Any, name: str) -> Any:
    """Return an argument in which nothing is differentiated."""
    return x


@_unmoved.defjvp
def _(name, primals, tangents):
    raise RuleMissingError(
        f"scipy.stats.{name} was differentiated in a shape that is a whole number.",
        "it says where the support ends, and between two of them there is no distribution",
        "keep it constant (dualad.stop_gradient), or compare values at n and n + 1",
    )


def on_common_shape(f: Callable, args: tuple) -> Any:
    """Call a function with arrays of one shape and at least one axis, as SciPy calls its own methods."""
    shape = np.broadcast_shapes(*map(np.shape, args))
    full = shape or (1,)
    out = f(*[a if np.shape(a) == full else np.broadcast_to(a, full) for a in args])
    return out if np.shape(out) == shape else np.reshape(out, shape)


@custom_jvp
def log_of(p: Any, rest: Any) -> Any:
    """Return log(p), computed as log1p(-(1 - p)) for p near 1; the rest has no derivative that p has not."""
    near = p > 0.5
    return np.where(near, np.log1p(-np.where(near, rest, 0.0)), np.log(np.where(near, 1.0, p)))


log_of.defjvp(lambda at, moved: (log_of(*at), moved[0] / at[0]))
