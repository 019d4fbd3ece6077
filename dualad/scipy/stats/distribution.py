"""Distributions with SciPy's methods: location, scale, support and invalid parameters handled once for all.

A distribution is declared by formulas for its standard form. Outside the support the density is zero, its logarithm
−∞, both with derivative zero: values and tangents there are *selected*, so that what a formula gives at a point where
it does not hold is never seen. Invalid parameters give NaN. As in SciPy everything is computed in double precision.
Not for: any single distribution (``formulas.py``), or multivariate ones (``multivariate.py``).
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy._lib._util import check_random_state
from scipy.stats import rv_continuous

from ...core.above import ABOVE
from ...core.tables import Verdict
from ...core.tracer import Tracer, beneath, tracer_in
from ...errors import RuleMissingError, UnsupportedError
from ...jvp import stop_gradient
from ...ops.choice import nowhere
from ...rules.custom_jvp import custom_jvp
from ...surface.arguments import operand
from ..mirror import MIRRORED
from .lifted import Formulas

__all__ = ["Continuous", "Discrete", "Mirror", "double"]

#: of each distribution function, its values below and above the support
_OUTSIDE = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-math.inf, 0.0), "logsf": (0.0, -math.inf)}
#: the first argument of a method, where it is not a point or a number
_ARGUMENT = {"ppf": "q", "isf": "q", "moment": "order", "interval": "confidence"}


def double(x):
    """Return an argument as an array or tensor of double precision."""
    x = operand(x)
    if isinstance(x, (bool, int, float)):
        return np.float64(x)
    return x.astype(np.float64) if x.dtype != np.float64 and x.dtype.kind in "biuf" else x


class Mirror:
    """A distribution of SciPy's, but for some methods, which take tensors too."""

    #: the methods that a frozen distribution hands its parameters on to
    _methods: frozenset[str]
    #: carries out a method that is ours, with these arguments
    _run: Callable[[str, tuple, dict], Any]

    def _private(self, name: str, method: Callable) -> Callable:
        """Return a method that SciPy keeps to itself; its formulas run on tensors as they are."""
        return method

    def _stand_for(self, original: Any, name: str, offered: frozenset[str], how: str = "") -> None:
        self._original, self._name, self._offered = original, name, offered
        self.__doc__ = f"``scipy.stats.{name}``, whose methods {', '.join(sorted(offered))} also take tensors{how}."
        for method in offered:
            MIRRORED[f"scipy.stats.{name}.{method}"] = Verdict("composite")

    def __call__(self, *args, **kwargs):
        """Freeze the distribution: fix its parameters."""
        return _Frozen(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<dualad.scipy.stats.{self._name}>"

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._original)})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        thing = getattr(self._original, name)
        if not callable(thing):
            return thing
        if name.startswith("_"):
            return self._private(name, thing)

        def method(*args, **kwargs):
            tensor = tracer_in(*args, *kwargs.values())
            if tensor is None:
                return thing(*args, **kwargs)
            if name not in self._offered:
                raise UnsupportedError(
                    f"scipy.stats.{self._name}.{name} was called on a {type(tensor).__name__} of shape {tensor.shape}.",
                    "it has no formula here whose derivative is known",
                    f"use one of the methods that have: {', '.join(sorted(self._offered))}"
                    if self._offered
                    else "call it outside of the transform, with plain numbers; none of its methods takes others",
                )
            with np.errstate(all="ignore"):
                return self._run(name, args, kwargs)

        method.__name__ = name
        method.__doc__ = thing.__doc__
        return method


class _Frozen:
    """A distribution with its parameters fixed."""

    def __init__(self, dist: Mirror, args: tuple, kwargs: dict) -> None:
        self.dist, self.args, self.kwds = dist, args, kwargs

    def __repr__(self) -> str:
        return f"<frozen {self.dist!r}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.dist._methods:
            if tracer_in(*self.args, *self.kwds.values()) is None:
                return getattr(self.dist._original(*self.args, **self.kwds), name)
            refused = getattr(self.dist, name)
            return lambda *args, **kwargs: refused(*args, *self.args, **kwargs, **self.kwds)
        method = getattr(self.dist, name)
        return lambda *args, **kwargs: method(*(args or kwargs.values()), *self.args, **self.kwds)

    def rvs(self, size: Any = 1, random_state: Any = None) -> Any:
        """Draw samples, as SciPy's method."""
        return self.dist.rvs(*self.args, **self.kwds, size=size, random_state=random_state)


class _Distribution(Mirror):
    """The common base of continuous and discrete distributions: how they are called."""

    _defaults: tuple[tuple[str, float], ...]

    def __init__(
        self, original, *, without: tuple[str, ...] = (), ends: Callable | None = None, edge: tuple | None = None,
        branches: Callable | None = None, interior: Callable | None = None, **formulas: Callable,
    ):  # fmt: skip
        self._formulas = Formulas(original, formulas)
        self._ends, self._edge, self._branches, self._interior = ends, edge, branches, interior
        self._support_of, self._valid = self._formulas.support, self._formulas.valid
        names = self._formulas.shapes
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._shapes = inspect.Signature(
            [inspect.Parameter(n, kind) for n in names]
            + [inspect.Parameter(n, kind, default=d) for n, d in self._defaults]
        )
        offered = self._methods - set(without)
        self._summed_up = {"entropy"} if self._formulas.has("entropy") else set()
        self._summed_up |= {"mean", "moment", "stats", "std", "var"} if self._formulas.has("stats") else set()
        self._summed_up |= {"interval", "median"} if "ppf" in offered else set()
        self._stand_for(original, original.name, offered | self._summed_up, ", as the argument and as parameters")

    def __call__(self, *args, **kwargs):
        """Freeze the distribution: fix its parameters."""
        self._shapes.bind(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    freeze = __call__

    def _run(self, name: str, args: tuple, kwargs: dict) -> Any:
        try:
            return self._computed(name, args, kwargs)
        except RuleMissingError as error:
            if error.what.startswith(f"scipy.stats.{self._name}."):
                raise
            where = f"scipy.stats.{self._name}.{name} has no derivative in one of its arguments: {error.what}"
            raise RuleMissingError(where, error.why, error.instead) from error

    def _computed(self, name: str, args: tuple, kwargs: dict) -> Any:
        if name in self._summed_up:
            return self._sum_up(name, args, kwargs)
        if name == "rvs":
            return self._draw(*args, **kwargs)
        x, args = _first(_ARGUMENT.get(name, self._variable), args, kwargs)
        bound = self._shapes.bind(*args, **kwargs)
        bound.apply_defaults()
        x, parameters = double(x), [double(v) for v in bound.arguments.values()]
        if name in _OUTSIDE:
            out = self._distribution(name, *_OUTSIDE[name], parameters, x)
        else:
            out = getattr(self, f"_compute_{name}")(x, *parameters)
        if self._branches is not None:
            shapes = parameters[: -len(self._defaults)]
            at = self._branches(*shapes)
            out = sum([_at_branch(s, at) for s in shapes if isinstance(s, Tracer)], out)
        return out

    def _sum_up(self, name: str, args: tuple, kwargs: dict):
        """Compute a moment, quantiles or the entropy: of the standard form first, then moved and scaled."""
        wanted = kwargs.pop("moments", "mv")
        first, args = _first(_ARGUMENT[name], args, kwargs) if name in _ARGUMENT else (None, args)
        if name == "interval":
            tail = 0.5 * (1.0 - double(first))
            return self.ppf(tail, *args, **kwargs), self.ppf(1.0 - tail, *args, **kwargs)
        bound = self._shapes.bind(*args, **kwargs)
        bound.apply_defaults()
        if name == "median":
            return self.ppf(np.float64(0.5), *bound.arguments.values())
        count = len(self._defaults)
        values = [double(v) for v in bound.arguments.values()]
        shapes, loc, scale = values[:-count], values[-count], values[-1] if count == 2 else np.float64(1.0)
        ok = _all_of([scale > 0, *([self._valid(*shapes)] if shapes else [])])
        if not nowhere(np.logical_not(ok)):
            shapes, scale = [np.where(ok, s, 0.5) for s in shapes], np.where(ok, scale, 1.0)
        if name == "entropy":
            return _finish(self._formulas.entropy(*shapes) + np.log(scale) + 0 * loc, ok, math.nan, ok)
        standard = [m + 0 * (loc + scale) for m in self._formulas.moments(*shapes)]
        mean, variance = loc + scale * standard[0], scale * scale * standard[1]
        if name == "moment":
            out = _about_zero(first, mean, variance, *standard[2:])
            return _finish(out, ok, math.nan, ok)
        found = {"m": mean, "v": variance, **dict(zip("sk", standard[2:], strict=False))}
        if name != "stats":
            out = found["m" if name == "mean" else "v"]
            return _finish(np.sqrt(out) if name == "std" else out, ok, math.nan, ok)
        chosen = [_finish(found[letter], ok, math.nan, ok) for letter in "mvsk" if letter in wanted]
        return chosen[0] if len(chosen) == 1 else tuple(chosen)

    def _private(self, name: str, method: Callable) -> Callable:
        def formula(*args, **kwargs):
            if tracer_in(*args, *kwargs.values()) is None:
                return method(*args, **kwargs)
            known = name[1:] in self._methods & self._offered
            return (self._formulas[name[1:]] if known else getattr(self._formulas.twin, name))(*args, **kwargs)

        return formula

    _variable = "x"


@custom_jvp
def _at_branch(shape, at):
    """Return 0, whose derivative in a shape is NaN where SciPy's formula is one for that value alone."""
    return 0 * (shape + at)


_at_branch.defjvp(lambda primals, tangents: (_at_branch(*primals), np.where(primals[1], math.nan, 0.0) * tangents[0]))


def _first(name: str, args: tuple, kwargs: dict) -> tuple[Any, tuple]:
    """Take the first argument of a method, given by position or by name, from the others."""
    return (args[0], args[1:]) if args else (kwargs.pop(name), args)


def _all_of(conditions: list):
    return functools.reduce(operator.and_, conditions) if conditions else True


def _middle(low, high):
    """Return a point inside the support."""
    if isinstance(low, float) and isinstance(high, float):
        if math.isinf(low):
            return 0.5 if math.isinf(high) else high - 1.0
        return low + 1.0 if math.isinf(high) else 0.5 * (low + high)
    left, right = np.isinf(low), np.isinf(high)
    low, high = np.where(left, 0.0, low), np.where(right, 0.0, high)
    return np.where(left, np.where(right, 0.5, high - 1.0), np.where(right, low + 1.0, 0.5 * (low + high)))


class Continuous(_Distribution):
    """A continuous distribution of SciPy's.

    ``logpdf``, ``pdf``, ``cdf``, ``sf``, ``logcdf``, ``logsf``, ``ppf`` and ``isf`` are functions ``f(z, *shapes)`` of
    the standard form inside the support; missing methods are made (``lifted.py``), but for the methods ``without`` a
    rule. ``ends`` is the density at the ends of the support, where its logarithm may have a pole and the density has
    none; ``branches`` says at which shapes SciPy has a formula for these values alone, whose derivative in them is not
    there; ``interior`` gives the ends between which distribution functions are computed, where SciPy rounds them.
    """

    _methods = frozenset({"cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "rvs", "sf"})
    _defaults = (("loc", 0.0), ("scale", 1.0))

    def _standard(self, x, parameters):
        """Return the standardized argument, the parameters where they are valid, the support, and where all is well."""
        *shapes, loc, scale = parameters
        ok = _all_of([self._valid(*shapes), scale > 0] if shapes else [scale > 0])
        if not nowhere(np.logical_not(ok)):
            shapes = [np.where(ok, s, 1.0) for s in shapes]
            scale = np.where(ok, scale, 1.0)
        z = (x - loc) / scale
        return z, shapes, loc, scale, *self._support_of(*shapes), ok & np.logical_not(np.isnan(z))

    # ── densities ────────────────────────────────────────────────────────────────────────────────────────────────

    def _inside(self, z, low, high, ok):
        closed = ok & np.isfinite(z)
        if self._ends is None and type(self._original)._support_mask is rv_continuous._open_support_mask:
            return closed & (z > low) & (z <= high)
        return closed & (z >= low) & (z <= high)

    def _compute_logpdf(self, x, *parameters):
        z, shapes, _, scale, low, high, ok = self._standard(x, parameters)
        inside = self._inside(z, low, high, ok)
        out = self._formulas["logpdf"](self._move(z, inside, low, high), *shapes) - np.log(scale)
        return _finish(out, inside, -math.inf, ok)

    def _move(self, z, inside, low, high):
        """Return z, moved into the support where it is not there."""
        return z if nowhere(np.logical_not(inside)) else np.where(inside, z, _middle(low, high))

    def _compute_pdf(self, x, *parameters):
        z, shapes, _, scale, low, high, ok = self._standard(x, parameters)
        inside = self._inside(z, low, high, ok)
        at_end = inside & ((z == low) | (z == high)) if self._ends else False
        if self._ends is None and "logpdf" not in self._formulas.given:
            out = self._formulas["pdf"](self._move(z, inside, low, high), *shapes)
        elif nowhere(at_end):
            out = _exp(self._formulas["logpdf"](self._move(z, inside, low, high), *shapes))
        else:
            between = inside & np.logical_not(at_end)
            out = _exp(self._formulas["logpdf"](self._move(z, between, low, high), *shapes))
            out = np.where(at_end, self._ends(self._move(z, at_end, low, high), *shapes), out)
        return _finish(out / scale, inside, 0.0, ok)

    # ── distribution functions ───────────────────────────────────────────────────────────────────────────────────

    def _distribution(self, name: str, below: float, above: float, parameters, x):
        z, shapes, *_, low, high, ok = self._standard(x, parameters)
        low, high = self._interior(*shapes) if self._interior else (low, high)
        inside = ok & (z > low) & (z < high)
        out = self._formulas[name](self._move(z, inside, low, high), *shapes)
        return _finish(out, inside, np.where(z >= high, above, below), ok)

    # ── samples ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _draw(self, *args, size=None, random_state=None, **kwargs):
        """Draw SciPy's numbers, which move with the parameters as the quantiles that they are.

        Where the shapes differ between lanes, they are the quantiles of uniform numbers. In a compiled program, where
        they are not known, they are refused.
        """
        if random_state is None:
            raise UnsupportedError(
                f"scipy.stats.{self._name}.rvs was called on a tensor without a generator.",
                "its numbers would be those of a hidden state, and change from call to call",
                "give one: rvs(..., random_state=np.random.default_rng(seed))",
            )
        bound = self._shapes.bind(*args, **kwargs)
        bound.apply_defaults()
        parameters = [double(v) for v in bound.arguments.values()]
        if size is None:
            size = np.broadcast_shapes(*map(np.shape, parameters))
        plain = stop_gradient(parameters[:-2])
        if tracer_in(*plain) is not None:
            if any([isinstance(beneath(s), Tracer) for s in plain]):
                raise UnsupportedError(
                    f"scipy.stats.{self._name}.rvs was called with a shape that is not known yet.",
                    "a compiled program holds the numbers that were drawn, and these hang on the shape",
                    f"draw uniform numbers u outside, give them as an argument, and take {self._name}.ppf(u, ...)",
                )
            return self._compute_ppf(ABOVE.seeing(check_random_state(random_state)).uniform(size=size), *parameters)
        z = self._original.rvs(*plain, size=size, random_state=random_state)
        _, shapes, loc, scale, *_, ok = self._standard(parameters[-2], parameters)
        return _finish(loc + scale * self._formulas.moved(z, *shapes), ok, math.nan, ok)

    # ── quantiles ────────────────────────────────────────────────────────────────────────────────────────────────

    def _quantile(self, name: str, upwards: bool, q, *parameters):
        _, shapes, loc, scale, low, high, ok = self._standard(parameters[-2], parameters)
        inside = ok & (q > 0) & (q < 1)
        q_inside = q if nowhere(np.logical_not(inside)) else np.where(inside, q, 0.5)
        out = self._formulas[name](q_inside, *shapes) * scale + loc
        first, last = (low, high) if upwards else (high, low)
        out = np.where(q == 0, _place(first, loc, scale), np.where(q == 1, _place(last, loc, scale), out))
        return _finish(out, ok & (q >= 0) & (q <= 1), math.nan, ok)

    _compute_ppf = functools.partialmethod(_quantile, "ppf", True)
    _compute_isf = functools.partialmethod(_quantile, "isf", False)


def _place(end, loc, scale):
    """Return an end of the support; where it is infinite it does not move with its parameters."""
    if isinstance(end, float):
        return end if math.isinf(end) else end * scale + loc
    infinite = np.isinf(end)
    return np.where(infinite, end, np.where(infinite, 0.0, end) * scale + loc)


def _about_zero(order, mean, variance, skewness=math.nan, kurtosis=math.nan):
    """Return E[Xⁿ] from the moments about the mean."""
    if isinstance(order, Tracer) or order not in (0, 1, 2, 3, 4):
        raise UnsupportedError(
            f"scipy.stats: the moment of order {order} was asked for on tensors.",
            "moments of the orders 0 to 4 have formulas here",
            "integrate x**n times the density (dualad.scipy.integrate)",
        )
    if order == 0:
        return 1.0 + 0 * mean
    if order == 1:
        return mean
    if order == 2:
        return variance + mean**2
    third = skewness * variance**1.5
    if order == 3:
        return third + 3 * mean * variance + mean**3
    return (kurtosis + 3) * variance**2 + 4 * mean * third + 6 * mean**2 * variance + mean**4


def _exp(logarithm):
    """Return the density; where it underflows it is zero with its derivatives, be those of its logarithm infinite."""
    lost = logarithm < -750.0
    if nowhere(lost):
        return np.exp(logarithm)
    return np.where(lost, 0.0, np.exp(np.where(lost, 0.0, logarithm)))


def _finish(out, inside, outside, ok):
    """Put the value of the outside where it belongs, and NaN where parameters or argument are no numbers."""
    if not nowhere(np.logical_not(inside)):
        out = np.where(inside, out, outside)
    return out if nowhere(np.logical_not(ok)) else np.where(ok, out, math.nan)


class Discrete(_Distribution):
    """A distribution on integers, as a continuous one; ``edge`` is a pair of functions of the shapes.

    The first says at which the logarithm of the probability has a pole and the probability has none; the second, of k
    too, is the probability there.
    """

    _methods = frozenset({"cdf", "logcdf", "logpmf", "logsf", "pmf", "sf"})
    _defaults = (("loc", 0.0),)
    _variable = "k"

    def _standard(self, k, shapes, loc):
        ok = self._valid(*shapes)
        if not nowhere(np.logical_not(ok)):
            # Known values stay known in a program: the number of probabilities to add up depends on them.
            unknown = isinstance(ok, Tracer)
            shapes = [s if unknown and not isinstance(s, Tracer) else np.where(ok, s, 0.5) for s in shapes]
        k = k - loc
        return k, shapes, self._support_of(*shapes), ok & np.logical_not(np.isnan(k))

    def _mass(self, k, parameters):
        """Return the argument in standard form, the shapes, and the masks of the support and of valid parameters."""
        *shapes, loc = parameters
        k, shapes, (low, high), ok = self._standard(k, shapes, loc)
        inside = ok & np.isfinite(k) & (k >= low) & (k <= high) & (np.floor(k) == k)
        if not nowhere(np.logical_not(inside)):
            k = np.where(inside, k, low)
        return k, shapes, inside, ok

    def _compute_logpmf(self, k, *parameters):
        k, shapes, inside, ok = self._mass(k, parameters)
        return _finish(self._formulas["logpmf"](k, *shapes), inside, -math.inf, ok)

    def _compute_pmf(self, k, *parameters):
        k, shapes, inside, ok = self._mass(k, parameters)
        is_edge, direct = self._edge or (lambda *shapes: False, None)
        edge = is_edge(*shapes)
        if nowhere(edge):
            out = self._formulas["pmf"](k, *shapes)
        else:
            away = [np.where(edge, 0.5, s) for s in shapes]
            out = np.where(edge, direct(k, *shapes), self._formulas["pmf"](np.where(edge, 0.0, k), *away))
        return _finish(out, inside, 0.0, ok)

    def _distribution(self, name: str, below: float, above: float, parameters, x):
        *shapes, loc = parameters
        k, shapes, (low, high), ok = self._standard(x, shapes, loc)
        inside = (k >= low) & (k < high)
        whole = np.floor(k)
        if not nowhere(np.logical_not(inside)):
            whole = np.where(inside, whole, low)
        return _finish(self._formulas[name](whole, *shapes), ok & inside, np.where(k >= high, above, below), ok)
